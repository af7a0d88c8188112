package ds

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"manifold/ds/op"
	"manifold/ds/store"
	"manifold/ds/store/osfs"
	"manifold/layout"
	"manifold/layout/control"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/gss"
	"manifold/xdr/rpc/gss/krb5"
	"manifold/xdr/rpc/tcp"
	"manifold/xdr/session"
)

// firstRecord is how long a client that connected may take to its first call.
const firstRecord = 30 * time.Second

// Server is one data server.
type Server struct {
	cfg     Config
	log     *zap.Logger
	sampled *zap.Logger // for what may happen at every I/O

	store   *osfs.Store
	fences  *fences
	ops     *op.Ops
	start   uint32
	sockets []*socket
	// acceptor authenticates clients by Kerberos; nil: none can.
	acceptor rpc.Acceptor
	hello    control.Hello
	agent    *control.Agent // from Run on

	aloneAfter atomic.Int64 // Config.Alone

	// Of the agent's goroutine.
	member member
	lease  time.Duration

	mu       sync.Mutex
	nfs      *tcp.Server // nil: not serving yet
	engine   *compound.Server
	stopping bool
	ready    chan struct{} // closed when serving

	fatal chan error      // the first error that Run cannot go on with
	ctx   context.Context // ends with Shutdown, after the last I/O
	stop  context.CancelFunc
	tasks sync.WaitGroup
	once  sync.Once
	err   error         // of Shutdown
	down  chan struct{} // closed when Shutdown is done
}

// New makes a data server of cfg: it takes the data folder and binds its
// addresses, and fails if either is in use. Run serves, Shutdown gives back.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Server{
		cfg: cfg, log: cfg.Log, sampled: sampled(cfg.Log),
		ready: make(chan struct{}), fatal: make(chan error, 1), down: make(chan struct{}),
	}
	s.aloneAfter.Store(int64(cfg.Alone))
	s.ctx, s.stop = context.WithCancel(context.Background())
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// sampled logs each message three times a minute at most.
func sampled(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, time.Minute, 3, 0)
	}))
}

// open is New's work on the disk and the network.
func (s *Server) open() (err error) {
	if s.store, err = osfs.Open(osfs.Config{Root: s.cfg.Data, OpenFiles: s.cfg.OpenFiles, Log: s.log}); err != nil {
		return err
	}
	if s.fences, err = loadFences(s.cfg.Data, s.cfg.Fences); err != nil {
		return err
	}
	if s.member, err = loadMember(s.cfg.Data); err != nil {
		return err
	}
	if s.start, err = nextStart(s.cfg.Data); err != nil {
		return err
	}
	s.ops = op.New(op.Config{
		Store: s.store, Gate: s.fences.gate, Failed: s.failed,
		Alone:    s.alone,
		FileSize: func(ctx context.Context, o layout.Object) (uint64, error) { return s.agent.FileSize(ctx, o) },
	})
	if s.cfg.Krb5Keytab != "" {
		s.acceptor, err = krb5.NewAcceptor(s.cfg.Krb5Keytab, gss.Config{MaxContexts: s.cfg.Krb5Contexts, Log: s.log})
		if err != nil {
			return err
		}
	}
	for _, addr := range s.cfg.Listen {
		sock, err := bind(s.ctx, addr)
		if err != nil {
			return err
		}
		s.sockets = append(s.sockets, sock)
	}
	return s.introduce()
}

// introduce fills in hello.
func (s *Server) introduce() (err error) {
	s.hello = control.Hello{Name: s.cfg.Name, Cluster: s.member.cluster, Version: s.cfg.Version}
	if _, err := hex.Decode(s.hello.UUID[:], []byte(strings.ReplaceAll(s.store.UUID(), "-", ""))); err != nil {
		return fmt.Errorf("ds: identity %q: %w", s.store.UUID(), err)
	}
	rand.Read(s.hello.Instance[:]) // never fails (crypto/rand)
	s.hello.Addresses, err = s.cfg.addresses(s.ctx, s.Addrs())
	return err
}

// Addrs returns where the server is bound, in the order of Config.Listen.
func (s *Server) Addrs() (list []netip.AddrPort) {
	for _, sock := range s.sockets {
		list = append(list, sock.addr)
	}
	return list
}

// Ready is closed when the server begins to serve clients.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Counters returns what the server did since its start.
func (s *Server) Counters() op.Counters { return s.ops.Counters() }

// Run attaches to the metadata server and serves clients until Shutdown, when it
// returns nil, or until it cannot go on: the metadata server refused it
// (control.ErrRefused), took it for another data server, or a listener failed.
// When ctx ends, Run shuts down without waiting for anybody. One call.
func (s *Server) Run(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return nil
	}
	agent, err := control.NewAgent(control.AgentConfig{
		Targets: s.cfg.MDS, Token: s.cfg.Token, Hello: s.hello, DS: orders{s}, Log: s.log,
	})
	if err != nil {
		return err
	}
	s.agent = agent
	s.tasks.Go(func() {
		if err := agent.Run(s.ctx); err != nil {
			s.fail(err)
		}
	})
	select {
	case <-s.down:
		return nil
	case err = <-s.fatal:
	case <-ctx.Done():
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Shutdown(now) // it says that it did not wait
	return err
}

func (s *Server) fail(err error) {
	select {
	case s.fatal <- err:
	default: // Run ends anyhow
	}
}

// startServing listens, the first time. Only the agent's goroutine calls it.
func (s *Server) startServing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nfs != nil || s.stopping {
		return
	}
	s.engine = compound.New(compound.Config{
		Sessions: session.New(s.sessions()), Observer: s.cfg.Operations, Log: s.log, Now: time.Now,
	}, s.ops.Table())
	s.nfs = tcp.NewServer(s.engine, tcp.Config{
		RPC: &rpc.Config{Log: s.log, Observer: s.cfg.Connections, Acceptor: s.acceptor, FirstRecord: firstRecord}, MaxConns: s.cfg.MaxConns,
	})
	for _, sock := range s.sockets {
		ln, err := sock.listen()
		if err != nil {
			s.fail(err)
			return
		}
		s.tasks.Go(func() {
			if err := s.nfs.Serve(ln); err != nil {
				s.fail(fmt.Errorf("ds: listener of %s: %w", sock.addr, err))
			}
		})
		s.log.Info("serving", zap.Stringer("addr", sock.addr), zap.String("name", s.cfg.Name))
	}
	engine := s.engine
	s.tasks.Go(func() { s.expire(engine) })
	close(s.ready)
}

// sessions is how clients are received: as by a data server and nothing else,
// with an owner of its own, so that nobody takes it for a trunk of another
// (RFC 8881 section 13.1; section 2.10.5).
func (s *Server) sessions() session.Config {
	owner := []byte("manifold-ds-" + s.store.UUID())
	cfg := session.Config{
		ClientIDHigh: s.start, Owner: nfs4.ServerOwner{MajorID: owner}, Scope: owner,
		Role:  nfs4.ExchgidFlagUsePNFSDS,
		Echo:  nfs4.ExchgidFlagSuppMovedRefer | nfs4.ExchgidFlagBindPrincStateid,
		Lease: s.lease, MaxClients: s.cfg.MaxClients, MaxCacheBytes: s.cfg.ReplyCache,
		MachAllow: []nfs4.OpNum{nfs4.OpWrite, nfs4.OpCommit},
	}
	rand.Read(cfg.Seed[:]) // never fails (crypto/rand)
	return cfg
}

// SlotUse says how the slots of clients' sessions are used.
func (s *Server) SlotUse() session.SlotUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil {
		return session.SlotUse{}
	}
	return s.engine.SlotUse()
}

// expire drops clients whose lease ran out, and tends to the slots of the others.
func (s *Server) expire(engine *compound.Server) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	alone := false
	for {
		select {
		case now := <-tick.C:
			if n := engine.Expire(s.ctx, now); n > 0 {
				s.log.Info("clients gone without a word", zap.Int("clients", n))
			}
			alone = s.tellAlone(alone)
		case <-s.ctx.Done():
			return
		}
	}
}

// alone says that no metadata server was heard of for longer than clients may
// write without one.
func (s *Server) alone() bool {
	limit := time.Duration(s.aloneAfter.Load())
	return limit > 0 && s.agent.Silence(time.Now()) > limit
}

// tellAlone logs when that begins and ends, and says whether it is so.
func (s *Server) tellAlone(was bool) bool {
	now := s.alone()
	switch {
	case now && !was:
		s.log.Error("no metadata server was heard of for too long: clients' writes are refused until one is", zap.Duration("longer_than", s.cfg.Alone))
	case was && !now:
		s.log.Info("a metadata server is back: clients' writes are taken again")
	}
	return now
}

// failed logs an I/O that the store failed.
func (s *Server) failed(what string, obj layout.Object, err error) {
	fields := []zap.Field{zap.String("io", what), zap.Stringer("object", obj), zap.String("data", s.cfg.Data), zap.Error(err)}
	switch {
	case errors.Is(err, store.ErrNoSpace), errors.Is(err, store.ErrQuota):
		s.sampled.Warn("the data folder is full: clients get NOSPC or DQUOT", fields...)
	case errors.Is(err, store.ErrIO):
		s.sampled.Error("the disk under the data folder fails", fields...)
	default:
		s.sampled.Error("I/O failed", fields...)
	}
}

// Shutdown stops taking calls, answers those in work, leaves the metadata server
// and gives the data folder back. If ctx ends first it cuts the calls off and
// returns ctx's error; I/O that the disk has begun is waited for all the same.
// What clients have not committed is written out, though nobody was promised it.
func (s *Server) Shutdown(ctx context.Context) error {
	s.once.Do(func() {
		defer close(s.down)
		s.mu.Lock()
		s.stopping = true
		nfs := s.nfs
		s.mu.Unlock()
		if nfs != nil {
			s.err = nfs.Shutdown(ctx)
		}
		s.err = errors.Join(s.err, s.release())
		s.log.Info("data server stopped", zap.Error(s.err))
	})
	<-s.down
	return s.err
}

// release ends what runs and gives back what open took.
func (s *Server) release() error {
	s.stop()
	s.tasks.Wait()
	for _, sock := range s.sockets {
		sock.close()
	}
	if s.store == nil {
		return nil
	}
	return s.store.Close()
}
