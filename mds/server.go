package mds

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/layout/files"
	"manifold/mds/fleet"
	"manifold/mds/ns"
	"manifold/mds/op"
	"manifold/mds/outbox"
	"manifold/mds/proxy"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/mds/store/bolt"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/gss"
	"manifold/xdr/rpc/gss/krb5"
	"manifold/xdr/rpc/tcp"
	"manifold/xdr/session"
)

const (
	maxWidth = files.MaxDS
	// patience is how long an operation waits for a recall or a data server
	// before its client is told to ask again.
	patience = 3 * time.Second
	// stopTime is how long a stopping server goes on with calls under way.
	stopTime = 5 * time.Second
)

// Server is one metadata server.
type Server struct {
	cfg     Config
	opt     Options
	log     *zap.Logger
	started time.Time
	service service

	store    store.Store
	reign    reign
	fleet    *fleet.Fleet
	outbox   *outbox.Outbox
	proxy    *proxy.Proxy
	control  *control.Server
	ops      *op.Ops
	compound *compound.Server
	nfs      *tcp.Server
	rpc      *rpc.Config // of its connections

	nfsLn, controlLn net.Listener
}

// reign is what a Server that is one of several has beside its store. The zero
// reign is that of a Server which is alone.
type reign struct {
	lost  <-chan struct{} // closed when another one may serve
	valid func() bool     // says that it is not, at once
	stop  time.Duration   // how long a clean stop goes on with calls; 0: stopTime
}

// New opens the store in cfg.Data and binds the listeners. Nothing is served
// until Run. A cluster's servers are made by NewNode.
func New(cfg Config, opt Options) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Etcd != nil {
		return nil, errors.New("a metadata server on etcd is a node of a cluster")
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, err
	}
	if cfg.Token == "" {
		var err error
		if cfg.Token, err = loadToken(cfg.Data); err != nil {
			return nil, err
		}
	}
	st, err := bolt.Open(filepath.Join(cfg.Data, StoreFile), bolt.Config{})
	if err != nil {
		return nil, fmt.Errorf("metadata store: %w", err)
	}
	return newServer(cfg, opt, st, reign{})
}

// newServer makes a Server on a store, which it closes, also if it fails.
func newServer(cfg Config, opt Options, st store.Store, r reign) (_ *Server, err error) {
	if opt.Log == nil {
		opt.Log = zap.NewNop()
	}
	s := &Server{cfg: cfg.withDefaults(), opt: opt, log: opt.Log, started: time.Now(), store: st, reign: r}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	ctx := context.Background()
	if s.service, err = start(ctx, s.store, s.started, s.cfg.Lease); err != nil {
		return nil, err
	}
	if err := s.wire(ctx); err != nil {
		return nil, err
	}
	if s.nfsLn, err = tcp.Listen(ctx, cfg.Listen); err != nil {
		return nil, fmt.Errorf("listen for clients: %w", err)
	}
	if s.controlLn, err = net.Listen("tcp", cfg.Control); err != nil {
		return nil, fmt.Errorf("listen for data servers: %w", err)
	}
	return s, nil
}

// wire makes the parts and gives them to each other.
func (s *Server) wire(ctx context.Context) (err error) {
	keys := s.service.keys
	defaults := fleet.Defaults{Unit: uint32(s.cfg.StripeUnit), Width: s.cfg.Width}
	if s.fleet, err = fleet.Load(ctx, s.store, defaults, s.log, time.Now); err != nil {
		return err
	}
	s.control, err = control.NewServer(control.ServerConfig{
		Token: s.cfg.Token, Cluster: s.service.rec.ClusterID, Keys: keys, Lease: s.cfg.Lease,
		Start: s.service.rec.Boots, MDS: members{s.fleet, s}, Log: s.log,
	})
	if err != nil {
		return err
	}
	s.outbox = outbox.New(outbox.Config{Store: s.store, Sender: s.control, Ready: s.fleet.Ready, Log: s.log})
	core, err := state.New(s.stateConfig(), s.started, s.service.record)
	if err != nil {
		return err
	}
	s.proxy = proxy.New(proxy.Config{
		Keys: func() *layout.Keyring { return keys }, Paths: s.fleet.Paths, Up: s.fleet.Serves, Log: s.log,
		Owner: fmt.Appendf(nil, "manifold mds %x", s.service.rec.ClusterID),
	})
	users, err := s.users()
	if err != nil {
		return err
	}
	var boot nfs4.Verifier
	rand.Read(boot[:])
	s.ops = op.New(op.Config{Lease: s.cfg.Lease, NoProxyIO: s.cfg.NoProxyIO, Patience: patience, MaxIgnored: s.cfg.MaxIgnored, Exports: s.cfg.Exports, UTF8Names: s.cfg.UTF8Names}, op.Parts{
		Store: s.store, Volume: s.service.volume, Keys: func() *layout.Keyring { return keys }, State: core,
		Fleet: s.fleet, Outbox: s.outbox, Proxy: s.proxy, Size: s.proxy.Size, Driver: files.Driver{}, Log: s.log, Now: time.Now,
		Groups: s.groups(), Users: users,
	}, boot, s.service.old)
	s.compound = compound.New(compound.Config{
		Sessions: session.New(s.sessionConfig()), Hooks: s.ops.Hooks(), Observer: s.opt.Ops, Log: s.log, Now: time.Now,
		Serving: s.reign.valid,
	}, s.ops.Table())
	s.ops.Serve(s.compound)
	s.fleet.Moved = s.ops.Moved
	s.rpc = &rpc.Config{Log: s.log, Observer: s.opt.RPC}
	if s.cfg.Krb5Keytab != "" {
		s.rpc.Acceptor, err = krb5.NewAcceptor(s.cfg.Krb5Keytab, gss.Config{MaxContexts: s.cfg.Krb5Contexts, Log: s.log})
		if err != nil {
			return err
		}
	}
	s.nfs = tcp.NewServer(s.compound, s.cfg.Limits.tcp(s.rpc))
	return nil
}

// users returns what says who Kerberos principals are, nil without Kerberos.
func (s *Server) users() (func(principal string) (ns.Cred, bool), error) {
	if s.cfg.Krb5Keytab == "" {
		return nil, nil
	}
	realm := s.cfg.Krb5Realm
	if realm == "" {
		var err error
		if realm, err = krb5.DefaultRealm(krb5.ConfigFile()); err != nil {
			return nil, fmt.Errorf("the Kerberos realm is not given, and not known: %w", err)
		}
	}
	s.log.Info("clients may use Kerberos, as their exports say", zap.String("keytab", s.cfg.Krb5Keytab), zap.String("realm", realm))
	return newUsers(realm, s.log), nil
}

// groups returns what looks users' groups up, nil for what clients send.
func (s *Server) groups() func(uid uint32) ([]uint32, bool) {
	if !s.cfg.ManageGIDs {
		return nil
	}
	known := newGroups(s.log)
	return func(uid uint32) ([]uint32, bool) {
		gids, err := known.of(uid)
		return gids, err == nil
	}
}

func (s *Server) stateConfig() state.Config {
	cfg := state.Config{
		Boot: s.service.rec.Boots, Grace: s.grace(), Recall: s.cfg.Lease, DelegPause: s.cfg.Lease / 3,
		Courtesy: max(s.cfg.Courtesy, 0),
	}
	s.cfg.Limits.state(&cfg, !s.cfg.NoDelegations)
	return cfg
}

// grace is how long clients may reclaim: at least the lease that they were told
// before the restart (RFC 8881 section 8.4.2), unless the configuration says
// otherwise.
func (s *Server) grace() time.Duration {
	if s.cfg.Grace > 0 {
		return s.cfg.Grace
	}
	lease := max(s.cfg.Lease, s.service.lease)
	return lease + lease/10
}

func (s *Server) sessionConfig() session.Config {
	cfg := session.Config{
		ClientIDHigh: s.service.rec.Boots, Lease: s.cfg.Lease, Role: nfs4.ExchgidFlagUsePNFSMDS,
		Owner: nfs4.ServerOwner{MajorID: s.service.rec.ClusterID[:]}, Scope: s.service.rec.ClusterID[:],
		HasState: s.ops.HasState, MaxCacheBytes: s.cfg.ReplyCache,
		MachAllow: op.MachineMay(),
	}
	s.cfg.Limits.sessions(&cfg)
	rand.Read(cfg.Seed[:])
	return cfg
}

// SlotUse says how the slots of clients' sessions are used.
func (s *Server) SlotUse() session.SlotUse { return s.compound.SlotUse() }

// Addr is where clients mount from; ControlAddr is where data servers join.
func (s *Server) Addr() net.Addr { return s.nfsLn.Addr() }

// ControlAddr is where data servers join.
func (s *Server) ControlAddr() net.Addr { return s.controlLn.Addr() }

// Token is what data servers show to join.
func (s *Server) Token() string { return s.cfg.Token }

// Run serves until ctx ends, then stops: no new calls, those under way are
// answered, and what was promised is in the store. A clean stop returns nil. If
// another server may serve, it stops at once, answers nothing more, and returns
// nil too.
func (s *Server) Run(ctx context.Context) error {
	defer s.close()
	s.log.Info("metadata server starts", zap.Stringer("listen", s.Addr()), zap.Stringer("control", s.ControlAddr()),
		zap.Uint32("start", s.service.rec.Boots), zap.Int("clients_on_record", len(s.service.record)))
	ctx, end := context.WithCancel(ctx)
	defer end()
	g, ctx := errgroup.WithContext(ctx)
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx)) // outlives the calls under way
	defer cancel()
	if err := s.ops.LearnSizes(inner); err != nil {
		return err
	}
	g.Go(func() error { return s.control.Serve(inner, s.controlLn) })
	g.Go(func() error { s.ops.SweepMarks(inner); return nil })
	g.Go(func() error { s.ops.RunGrace(inner); return nil })
	g.Go(func() error { s.expire(inner); return nil })
	g.Go(func() error { s.ops.Tend(inner); return nil })
	g.Go(func() error {
		err := s.nfs.Serve(s.nfsLn)
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
	g.Go(func() error {
		defer cancel()
		stopTime := cmp.Or(s.reign.stop, stopTime)
		select {
		case <-ctx.Done():
		case <-s.reign.lost:
			end() // the listeners'
			stopTime = 0
		}
		late, stop := context.WithTimeout(inner, stopTime)
		defer stop()
		if err := s.nfs.Shutdown(late); err != nil {
			s.log.Warn("calls cut off at the stop", zap.Error(err))
		}
		s.ops.Stop()
		return nil
	})
	err := g.Wait()
	if errors.Is(err, context.Canceled) || s.isLost() {
		err = nil
	}
	s.log.Info("metadata server stopped", zap.Error(err))
	return err
}

// isLost says that another server may serve.
func (s *Server) isLost() bool {
	select {
	case <-s.reign.lost:
		return true
	default:
		return false
	}
}

// expire drops clients whose lease ran out.
func (s *Server) expire(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			if n := s.compound.Expire(ctx, now); n > 0 {
				s.log.Warn("clients' leases ran out", zap.Int("clients", n))
			}
		case <-ctx.Done():
			return
		}
	}
}

// close frees what New made. It may be called on a half-made Server.
func (s *Server) close() {
	if s.proxy != nil {
		s.proxy.Close()
	}
	for _, ln := range []net.Listener{s.nfsLn, s.controlLn} {
		if ln != nil {
			ln.Close()
		}
	}
	if s.outbox != nil {
		s.outbox.Close()
	}
	if s.store != nil {
		if err := s.store.Close(); err != nil {
			s.log.Error("metadata store not closed", zap.Error(err))
		}
	}
}

// members is what data servers' control connections need of the server.
type members struct {
	*fleet.Fleet
	s *Server
}

// Attached lets the data server catch up with what it missed: it is up when
// the outbox has nothing older for it.
func (m members) Attached(ds layout.DSID, h control.Hello) {
	m.Fleet.Attached(ds, h)
	m.s.outbox.Attached(ds)
}

// Detached stops sending to it.
func (m members) Detached(ds layout.DSID, why error) {
	m.s.outbox.Detached(ds)
	m.Fleet.Detached(ds, why)
}

// FileSize answers a data server that came up short.
func (m members) FileSize(ctx context.Context, obj layout.Object) (uint64, error) {
	return m.s.ops.FileSize(ctx, obj)
}
