package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"manifold/mds/store"
)

// Holder is who leads, or is there, as the record tells it.
type Holder struct {
	ID      string    `json:"id"`      // Config.ID
	Address string    `json:"address"` // Config.Address
	Version string    `json:"version"` // Config.Version
	Term    string    `json:"term,omitempty"`
	Since   time.Time `json:"since"`
}

// Lead is the time in which this Member may change the record.
type Lead struct {
	m     *Member
	who   Holder
	lease clientv3.LeaseID
	// born is the creation of "lead", by which transactions are fenced.
	born int64
	// seq is the newest revision of "seq", count how often this Lead wrote it.
	// They are the committer's.
	seq   int64
	count int64

	store  *store.Group
	closed atomic.Bool
	clock  leaseClock
	over   chan struct{} // closed when the Lead is over
	once   sync.Once
	stop   context.CancelFunc
	tasks  sync.WaitGroup

	// testHook, if not nil, is called before each transaction.
	testHook func()
}

// leaseClock says until when a lease surely is there.
type leaseClock struct {
	origin time.Time
	until  atomic.Int64 // since origin
}

// renewed notes that the lease was granted or renewed for ttl by a request that
// was sent at the time given.
func (c *leaseClock) renewed(sent time.Time, ttl time.Duration) {
	c.until.Store(int64(sent.Sub(c.origin) + ttl - ttl/10))
}

// left is how long the lease surely lasts after now.
func (c *leaseClock) left(now time.Time) time.Duration {
	return time.Duration(c.until.Load()) - now.Sub(c.origin)
}

// Lead waits until this Member leads and its replica shows everything in the
// record. The caller closes the Lead. An error means that ctx ended, or
// that the replica failed.
func (m *Member) Lead(ctx context.Context) (*Lead, error) {
	for {
		l, err := m.campaign(ctx)
		if err == nil {
			if err = l.begin(ctx); err == nil {
				return l, nil
			}
			l.abandon()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, store.ErrFailed) && !errors.Is(err, ErrLost) {
			return nil, err
		}
		m.status.trouble(m.log, err)
		pause(ctx, 10*retryTime)
	}
}

// campaign waits until nobody leads and becomes the one who does.
func (m *Member) campaign(ctx context.Context) (*Lead, error) {
	if err := m.waitVacant(ctx); err != nil {
		return nil, err
	}
	l := &Lead{m: m, over: make(chan struct{}), clock: leaseClock{origin: time.Now()}}
	l.who = Holder{ID: m.cfg.ID, Address: m.cfg.Address, Version: m.cfg.Version, Term: uuid.NewString(), Since: time.Now().UTC()}
	sent := time.Now()
	try, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	grant, err := m.etcd.Grant(try, int64(m.cfg.Lease/time.Second))
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	l.lease = grant.ID
	l.clock.renewed(sent, time.Duration(grant.TTL)*time.Second)
	val, err := json.Marshal(l.who)
	if err != nil {
		return nil, err
	}
	lead := m.key(keyLead)
	resp, err := m.etcd.Txn(try).
		If(clientv3.Compare(clientv3.CreateRevision(lead), "=", 0)).
		Then(clientv3.OpPut(lead, string(val), clientv3.WithLease(l.lease))).Commit()
	if err == nil && resp.Succeeded {
		l.born = resp.Header.Revision
		return l, nil
	}
	// It may lead without knowing; its lease ends that.
	l.revoke()
	if err == nil {
		err = errors.New("another metadata server was faster")
	}
	return nil, err
}

// waitVacant waits until nobody leads.
func (m *Member) waitVacant(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	try, end := context.WithTimeout(ctx, tryTime)
	defer end()
	lead := m.key(keyLead)
	resp, err := m.etcd.Get(try, lead)
	if err != nil {
		return err
	}
	if len(resp.Kvs) == 0 {
		return nil
	}
	m.status.holder(resp.Kvs[0].Value)
	for w := range m.etcd.Watch(clientv3.WithRequireLeader(ctx), lead, clientv3.WithRev(resp.Header.Revision+1)) {
		if err := w.Err(); err != nil {
			return err
		}
		for _, e := range w.Events {
			if e.Type == clientv3.EventTypeDelete {
				return nil
			}
			m.status.holder(e.Kv.Value)
		}
	}
	return errors.Join(ctx.Err(), errors.New("the watch of who leads ended"))
}

// begin fences off every Lead before this one, catches up with the record, and
// makes the Store.
func (l *Lead) begin(ctx context.Context) error {
	inner, stop := context.WithCancel(l.m.ctx)
	l.stop = stop
	l.tasks.Go(func() { l.renew(inner) })
	if err := l.fence(ctx); err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	go func() {
		select {
		case <-l.over:
			cancel()
		case <-limit.Done():
		}
	}()
	if err := l.m.follow.reach(limit, l.seq); err != nil {
		return err
	}
	l.m.follow.end()
	l.m.follow = nil
	if err := l.redo(); err != nil {
		return err
	}
	l.store = store.NewGroup(leadBackend{l}, store.Bounds{Ops: l.m.cfg.MaxOps - minOps, Bytes: l.m.cfg.MaxBytes / 2})
	l.tasks.Go(func() { l.tend(inner) })
	l.m.status.leads(true)
	l.m.log.Info("this metadata server leads", zap.String("term", l.who.Term), zap.Int64("revision", l.seq))
	return nil
}

// fence writes "seq" for the first time.
func (l *Lead) fence(ctx context.Context) error {
	for {
		try, cancel := context.WithTimeout(ctx, tryTime)
		resp, err := l.m.etcd.Get(try, l.m.key(keySeq))
		cancel()
		if err == nil {
			l.seq = 0
			if len(resp.Kvs) > 0 {
				l.seq = resp.Kvs[0].ModRevision
			}
			err = l.txn(nil)
		}
		if err == nil || !l.Valid() || ctx.Err() != nil {
			return err
		}
		pause(ctx, retryTime)
	}
}

// renew keeps the lease until it is lost or ctx ends.
func (l *Lead) renew(ctx context.Context) {
	every := l.m.cfg.Renewal()
	for ctx.Err() == nil {
		sent := time.Now()
		if l.clock.left(sent) <= 0 {
			l.end("the lease could not be renewed in time")
			return
		}
		try, cancel := context.WithTimeout(ctx, min(tryTime, l.clock.left(sent)))
		resp, err := l.m.etcd.KeepAliveOnce(try, l.lease)
		cancel()
		switch {
		case err == nil && resp.TTL > 0:
			l.clock.renewed(sent, time.Duration(resp.TTL)*time.Second)
			pause(ctx, min(every, l.clock.left(time.Now())))
		case definitelyGone(err):
			l.end("etcd has ended the lease")
			return
		default:
			pause(ctx, min(retryTime, l.clock.left(time.Now())))
		}
	}
}

// end makes the Lead over.
func (l *Lead) end(why string) {
	l.once.Do(func() {
		l.clock.until.Store(0)
		close(l.over)
		l.m.status.leads(false)
		l.m.log.Warn("this metadata server does not lead any more", zap.String("term", l.who.Term), zap.String("why", why))
	})
}

// Valid says whether no other Member can lead now. Whatever is told to others
// must have been true while it was valid.
func (l *Lead) Valid() bool { return l.clock.left(time.Now()) > 0 }

// Left is how long no other Member can lead, from now.
func (l *Lead) Left() time.Duration { return l.clock.left(time.Now()) }

// Over is closed when the Lead is over.
func (l *Lead) Over() <-chan struct{} { return l.over }

// Store is the record. It fails with ErrLost once the Lead is over. It is closed
// by Close.
func (l *Lead) Store() store.Store { return l.store }

// Term names the Lead.
func (l *Lead) Term() string { return l.who.Term }

// Close ends the Lead: what was begun is finished, if it still lasts, and
// another Member may lead at once. The Member follows again. A second Close does
// nothing.
func (l *Lead) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	err := l.store.Close()
	l.abandon()
	return err
}

// abandon gives the lead back.
func (l *Lead) abandon() {
	l.end("it was given back")
	if l.stop != nil {
		l.stop()
	}
	l.tasks.Wait()
	l.revoke()
	if l.m.follow == nil && l.m.ctx.Err() == nil {
		l.m.follow = l.m.startFollowing()
	}
}

// revoke lets others lead now, if etcd can be reached.
func (l *Lead) revoke() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.m.ctx), tryTime)
	defer cancel()
	if _, err := l.m.etcd.Revoke(ctx, l.lease); err != nil && !definitelyGone(err) {
		l.m.log.Info("the lease was not given back, and runs out", zap.Error(err))
	}
}
