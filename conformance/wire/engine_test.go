package wire_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"manifold/xdr/client"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/tcp"
	"manifold/xdr/session"
)

// engine is a server with sessions and two operations: ACCESS takes until it is
// let go, VERIFY changes something. Its time is the test's.
type engine struct {
	*compound.Server
	addr    string
	running chan struct{} // gets a value when ACCESS begins
	hold    chan struct{} // ACCESS ends when it is closed
	verify  atomic.Int64

	mu  sync.Mutex
	now time.Time
}

func newEngine(t *testing.T, cfg session.Config) *engine {
	t.Helper()
	e := &engine{running: make(chan struct{}, 1000), hold: make(chan struct{}), now: time.Unix(1e9, 0)}
	e.Server = compound.New(compound.Config{Sessions: session.New(cfg), Now: e.clock}, compound.Table{
		nfs4.OpAccess: {Name: "ACCESS", Minors: compound.V41Up, Run: compound.Void(func(ctx context.Context, _ *compound.Call) nfs4.Status {
			e.running <- struct{}{}
			select {
			case <-e.hold:
			case <-ctx.Done():
			}
			return nfs4.OK
		})},
		nfs4.OpVerify: {Name: "VERIFY", Flags: compound.Modifies, Minors: compound.V41Up, Run: compound.Void(func(context.Context, *compound.Call) nfs4.Status {
			e.verify.Add(1)
			return nfs4.OK
		})},
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.addr = ln.Addr().String()
	srv := tcp.NewServer(e.Server, tcp.Config{RPC: &rpc.Config{}})
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		<-done
	})
	return e
}

func (e *engine) clock() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.now
}

// pass lets time pass and the engine see to its sessions.
func (e *engine) pass(ctx context.Context, d time.Duration) {
	e.mu.Lock()
	e.now = e.now.Add(d)
	now := e.now
	e.mu.Unlock()
	e.Expire(ctx, now)
}

// wait and bump are the engine's operations.
func wait() client.Op { return client.Op{Num: nfs4.OpAccess} }
func bump() client.Op { return client.Op{Num: nfs4.OpVerify} }
