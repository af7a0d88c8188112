package compound

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// env is a Server with connections to it, in a synctest bubble: time stands
// still while something runs, and a goroutine left over fails the test.
type env struct {
	t       testing.TB
	s       *Server
	role    *role
	logs    *observer.ObservedLogs
	obs     *counts
	hooks   hooks
	peers   []*peer
	config  session.Config
	clients int
	*peer   // the first connection
}

// hooks are the role's hooks, as recorded.
type hooks struct {
	mu         sync.Mutex
	confirmed  []session.ClientRecord
	dropped    []nfs4.ClientID
	reclaimed  []nfs4.ClientID
	mayReclaim bool
	fail       error
	during     func() // runs in Confirm
}

type counts struct {
	mu  sync.Mutex
	ops []string
}

func (c *counts) Operation(op nfs4.OpNum, s nfs4.Status, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = append(c.ops, op.String()+"="+short(s))
}

func (c *counts) Replay() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = append(c.ops, "replay")
}

func (c *counts) Evicted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = append(c.ops, "evicted")
}

func (c *counts) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := strings.Join(c.ops, " ")
	c.ops = nil
	return all
}

// run runs fn with a Server whose session table is configured by cfg.
func run(t *testing.T, name string, cfg session.Config, fn func(t *testing.T, e *env)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t, cfg)
			defer e.close()
			fn(t, e)
		})
	})
}

func newEnv(t testing.TB, cfg session.Config) *env {
	core, logs := observer.New(zapcore.InfoLevel)
	e := &env{t: t, role: newRole(), logs: logs, obs: &counts{}, config: cfg}
	e.s = New(Config{
		Sessions: session.New(cfg), Observer: e.obs, Log: zap.New(core), Now: time.Now,
		Hooks: Hooks{Confirm: e.hooks.confirm, Drop: e.hooks.drop, ReclaimComplete: e.hooks.reclaim},
	}, e.role.table())
	e.peer = e.dial()
	return e
}

func (e *env) close() {
	for _, p := range e.peers {
		p.close()
	}
}

func (h *hooks) confirm(ctx context.Context, r session.ClientRecord) (bool, error) {
	if h.during != nil {
		h.during()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fail != nil {
		return false, h.fail
	}
	h.confirmed = append(h.confirmed, r)
	return h.mayReclaim, ctx.Err()
}

func (h *hooks) drop(_ context.Context, id nfs4.ClientID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropped = append(h.dropped, id)
}

func (h *hooks) reclaim(_ context.Context, id nfs4.ClientID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reclaimed = append(h.reclaimed, id)
	return h.fail
}

func (h *hooks) takeDropped() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := fmt.Sprint(h.dropped)
	h.dropped = nil
	return d
}

// peer is a client's end of one connection. It answers callbacks with cb.
type peer struct {
	e     *env
	conn  *rpc.Conn
	srv   *rpc.Conn
	cb    func(call *rpc.Call, out *rpc.Reply)
	sess  *sess
	ended sync.WaitGroup
	cred  rpc.Cred
	minor uint32
}

// sess is a client's session. slots hold the sequence id used last.
type sess struct {
	id     nfs4.SessionID
	client nfs4.ClientID
	slots  [4]uint32
	res    nfs4.CreateSessionRes
}

func (p *peer) ServeRPC(_ context.Context, _ *rpc.Conn, call *rpc.Call, out *rpc.Reply) {
	if p.cb == nil {
		out.Reject(rpc.Reject{Stat: rpc.ProgUnavail})
		return
	}
	p.cb(call, out)
}

// dial makes another connection.
func (e *env) dial() *peer {
	a, b := net.Pipe()
	p := &peer{e: e, minor: 1, cred: rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{UID: 10, GIDs: []uint32{}}}}
	p.conn = rpc.NewConn(context.Background(), a, p, &rpc.Config{})
	p.srv = rpc.NewConn(context.Background(), b, e.s, &rpc.Config{})
	p.ended.Go(func() { p.conn.Serve() })
	p.ended.Go(func() { p.srv.Serve() })
	e.peers = append(e.peers, p)
	return p
}

func (p *peer) close() {
	p.conn.Close()
	p.ended.Wait()
	synctest.Wait() // the server has noticed, too
}
