package mds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"manifold/mds/admin"
	"manifold/mds/ns"
	"manifold/mds/store"
	"manifold/mds/store/etcd"
	"manifold/xdr/nfs4"
)

// Node is one of several metadata servers on one etcd. It stands by, with its
// copy of the store kept up to date, until it leads; then it makes a Server,
// takes the service address, and serves until it does not lead any more.
//
// A Node that loses the lead answers nothing from then on: the lead ends for it
// before another one can have it, and every reply is given only if it still
// lasts. See package etcd for the margin.
type Node struct {
	cfg    Config
	opt    Options
	log    *zap.Logger
	member *etcd.Member

	mu     sync.Mutex
	server *Server // while it leads
	resign func()  // ends the lead in good order
	rest   bool    // after a handover: let another one lead first
}

// handoverTime is how long a Node that stops leading in good order goes on with
// calls under way: clients wait meanwhile, and send them again to the next one.
const handoverTime = 300 * time.Millisecond

// restTime is how long a Node that handed over leaves the lead to the others.
const restTime = 10 * time.Second

// NewNode opens the Node's copy of the store. Nothing is served until Run.
func NewNode(cfg Config, opt Options) (*Node, error) {
	if cfg.Etcd == nil {
		return nil, errors.New("a node of a cluster needs etcd")
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if opt.Log == nil {
		opt.Log = zap.NewNop()
	}
	if err := cfg.Address.Check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, opt: opt, log: opt.Log}
	e := *cfg.withDefaults().Etcd
	e.Log, e.Version = opt.Log.Named("etcd"), opt.Version
	var err error
	if n.member, err = etcd.Open(e); err != nil {
		return nil, fmt.Errorf("metadata store: %w", err)
	}
	return n, nil
}

// Run stands by and leads, in turn, until ctx ends or it cannot go on.
func (n *Node) Run(ctx context.Context) error {
	// An address that the process before has left is not ours yet.
	err := n.cfg.Address.Drop(ctx)
	for err == nil && ctx.Err() == nil {
		n.await(ctx)
		n.log.Info("standing by", zap.Strings("etcd", n.cfg.Etcd.Endpoints))
		var lead *etcd.Lead
		if lead, err = n.member.Lead(ctx); err == nil {
			err = n.lead(ctx, lead)
		}
	}
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, n.member.Close())
}

// await lets another one lead after a handover.
func (n *Node) await(ctx context.Context) {
	n.mu.Lock()
	rest := n.rest
	n.rest = false
	n.mu.Unlock()
	if !rest {
		return
	}
	select {
	case <-time.After(restTime):
	case <-ctx.Done():
	}
}

// lead serves while the lead lasts. It returns an error if this machine cannot
// serve, and nil if the lead or ctx ended.
func (n *Node) lead(ctx context.Context, lead *etcd.Lead) (err error) {
	defer func() {
		if errClose := lead.Close(); err == nil && lead.Valid() {
			err = errClose
		}
	}()
	began := time.Now()
	cfg := n.cfg
	if err := n.shareToken(ctx, lead.Store(), &cfg); err != nil {
		return n.unless(lead, err)
	}
	srv, err := newServer(cfg, n.opt, lead.Store(), reign{lost: lead.Over(), valid: lead.Valid, stop: handoverTime})
	if err != nil {
		return n.unless(lead, err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var address sync.WaitGroup
	defer address.Wait()
	defer stop()
	if err := n.cfg.Address.Take(ctx, lead.Left()); err != nil {
		srv.close()
		return n.unless(lead, errors.Join(err, n.cfg.Address.Drop(context.WithoutCancel(ctx))))
	}
	address.Go(func() { n.keepAddress(ctx, lead) })
	n.setServer(srv, stop)
	defer n.setServer(nil, nil)
	n.log.Info("serving", zap.String("term", lead.Term()), zap.Duration("took", time.Since(began)))
	return n.unless(lead, srv.Run(ctx))
}

// unless returns err, unless the lead is over, which explains every error.
func (n *Node) unless(lead *etcd.Lead, err error) error {
	if err == nil || lead.Valid() {
		return err
	}
	n.log.Warn("the lead was lost", zap.Error(err))
	return nil
}

func (n *Node) setServer(s *Server, resign func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.server, n.resign = s, resign
}

// keepAddress renews the service address while the lead lasts, and gives it up
// first of all: calls that come later reach the one that leads next.
func (n *Node) keepAddress(ctx context.Context, lead *etcd.Lead) {
	tick := time.NewTicker(n.cfg.Etcd.Renewal())
	defer tick.Stop()
	for again := 0; ; again++ {
		select {
		case <-tick.C:
			if left := lead.Left(); left > 0 {
				if err := n.cfg.Address.Renew(left); err != nil {
					n.log.Error("service address not renewed", zap.Error(err))
				}
			}
			if again < 5 { // some switches and hosts are slow to learn
				if err := n.cfg.Address.Announce(); err != nil {
					n.log.Warn("service address", zap.Error(err))
				}
			}
			continue
		case <-ctx.Done():
		case <-lead.Over():
		}
		if err := n.cfg.Address.Drop(context.WithoutCancel(ctx)); err != nil {
			n.log.Error("service address not given up; it runs out by itself", zap.Error(err))
		}
		return
	}
}

// shareToken makes the join token the cluster's: the one in the store, which the
// first to lead has put there. It is written to the data folder too.
func (n *Node) shareToken(ctx context.Context, st store.Store, cfg *Config) error {
	if cfg.Token == "" {
		var err error
		if cfg.Token, err = loadToken(cfg.Data); err != nil {
			return err
		}
	}
	own := cfg.Token
	err := st.Update(ctx, func(tx store.Tx) error {
		kept, err := ns.Cluster{}.Token(tx)
		if errors.Is(err, nfs4.ErrNoEnt) {
			return ns.Cluster{}.PutToken(tx, own)
		}
		cfg.Token = kept
		return err
	})
	if err != nil || cfg.Token == own {
		return err
	}
	return writeToken(tokenPath(cfg.Data), cfg.Token)
}

// Handover lets another node lead, as far as there is one: this one gives up the
// service address, answers what it has begun, gives the lead back, and keeps out
// of the way for a while. It returns when it does not lead any more.
func (n *Node) Handover(ctx context.Context) error {
	n.mu.Lock()
	resign, srv := n.resign, n.server
	n.mu.Unlock()
	if srv == nil {
		return n.standby()
	}
	others, err := n.member.Members(ctx)
	if err != nil {
		return fmt.Errorf("etcd: %w: %w", err, admin.ErrUnavailable)
	}
	if len(others) < 2 {
		return fmt.Errorf("no other metadata server is there: %w", admin.ErrRefused)
	}
	n.mu.Lock()
	n.rest = true
	n.mu.Unlock()
	resign()
	for {
		n.mu.Lock()
		now := n.server
		n.mu.Unlock()
		if now != srv {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Leading returns the Server while this Node leads, else nil.
func (n *Node) Leading() *Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.server
}
