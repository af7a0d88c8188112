// Package outbox is the durable list of what data servers must still be told.
//
// Its nouns: a row is one command for one data server, written in the same
// transaction as the change that makes it necessary. Rows of a data server are
// in the order in which they were written; a worker, there while the data server is
// attached, sends them through a Sender and deletes those that were
// acknowledged. Whoever must not go on before a data server did what it was
// told waits for an object or a client to have no rows left. A data server that
// comes back gets all the rows that gathered, and then Ready.
//
// A row may be sent twice but never after its wait is over: a wait ends when
// the rows are durably deleted, not when they are acknowledged. Otherwise a
// metadata server that crashes in between would, after its restart, cut an
// object once more that a client has written to since.
//
// Rows of one object are done in their order. A row that a data server cannot
// do holds up later rows of its object, not of others, and is tried again
// until it is done or the data server is removed from the cluster.
//
// Recalls (CB_LAYOUTRECALL and the like) are not in the outbox: their state
// dies with the metadata server, and operations make them directly.
package outbox

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/mds/store"
)

// Sender carries commands to a data server; control.Server is one.
type Sender interface {
	// Do sends cmds in order and returns their acks in the same order, or an
	// error if not all were acknowledged, control.ErrDetached if the data
	// server is not there.
	Do(ctx context.Context, ds layout.DSID, cmds ...control.Command) ([]control.Ack, error)
}

// Config is what an Outbox needs.
type Config struct {
	Store  store.Store
	Sender Sender
	// Ready is called when a data server has done all that gathered while it
	// was away and knows it; never after its Detached. It must not block, nor
	// call the Outbox.
	Ready func(layout.DSID)
	// RetryFirst and RetryLast are how long a row that failed is left alone:
	// the first time, and at most. 0.1 and 30 seconds if zero.
	RetryFirst, RetryLast time.Duration
	Log                   *zap.Logger // nil: no log
}

const (
	defaultRetryFirst = 100 * time.Millisecond
	defaultRetryLast  = 30 * time.Second
)

// ErrClosed means that the Outbox was closed while the caller waited.
var ErrClosed = errors.New("outbox: closed")

// Outbox is the list. Its methods may be called by many goroutines at once.
type Outbox struct {
	cfg    Config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex
	workers map[layout.DSID]*worker
	last    map[layout.DSID]chan struct{} // closed when the latest worker ended
	waiters map[string]*waiter            // by prefix of an index key
	closed  bool
}

// New returns the Outbox whose rows are in cfg.Store; those of earlier runs
// are sent as soon as their data servers attach. The caller closes it before the
// store.
func New(cfg Config) *Outbox {
	if cfg.RetryFirst == 0 {
		cfg.RetryFirst = defaultRetryFirst
	}
	if cfg.RetryLast == 0 {
		cfg.RetryLast = defaultRetryLast
	}
	if cfg.Ready == nil {
		cfg.Ready = func(layout.DSID) {}
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	o := &Outbox{
		cfg: cfg, workers: map[layout.DSID]*worker{}, last: map[layout.DSID]chan struct{}{},
		waiters: map[string]*waiter{},
	}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o
}

// Attached starts to send to ds. It does not block.
func (o *Outbox) Attached(ds layout.DSID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if old := o.workers[ds]; old != nil {
		old.cancel()
	}
	w := newWorker(o, ds)
	before := o.last[ds]
	o.workers[ds], o.last[ds] = w, w.ended
	go func() {
		defer close(w.ended)
		defer w.cancel()
		if before != nil {
			<-before
		}
		w.run()
	}()
}

// Detached stops sending to ds. It does not block.
func (o *Outbox) Detached(ds layout.DSID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.workers[ds]; w != nil {
		w.cancel()
		delete(o.workers, ds)
	}
}

// Kick says that rows for these data servers are durable now: the transaction
// in which they were added was committed.
func (o *Outbox) Kick(ds []layout.DSID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ds {
		if w := o.workers[id]; w != nil {
			select {
			case w.kick <- struct{}{}:
			default:
			}
		}
	}
}

// Close stops all workers and waits for them. Rows stay for the next run.
func (o *Outbox) Close() {
	o.mu.Lock()
	o.closed = true
	o.cancel()
	ended := make([]chan struct{}, 0, len(o.last))
	for _, e := range o.last {
		ended = append(ended, e)
	}
	o.mu.Unlock()
	for _, e := range ended {
		<-e
	}
}

// dropPart is how many rows one transaction deletes: two keys each, well below
// store.MaxUpdateOps.
const dropPart = 1000

// Drop forgets all rows of a data server that was removed from the cluster, for
// good: what is added for ds later is not kept, and who waits for it goes on.
// It must not be attached any more.
func (o *Outbox) Drop(ctx context.Context, ds layout.DSID) error {
	for {
		var dropped []row
		err := o.cfg.Store.Update(ctx, func(tx store.Tx) error {
			dropped = dropped[:0]
			c, err := getCounter(tx, ds)
			if err != nil {
				return err
			}
			c.removed = true
			err = scanRows(tx, ds, func(r row) (bool, error) {
				dropped = append(dropped, r)
				return len(dropped) < dropPart, nil
			})
			if err != nil {
				return err
			}
			for _, r := range dropped {
				if err := deleteRow(tx, r); err != nil {
					return err
				}
			}
			c.depth -= min(c.depth, uint64(len(dropped)))
			return putCounter(tx, ds, c)
		})
		if err != nil {
			return err
		}
		o.deleted(dropped)
		if len(dropped) < dropPart {
			return nil
		}
	}
}

// Backlog is how much one data server has still to be told.
type Backlog struct {
	DS    layout.DSID
	Depth uint64 // rows
	// Oldest is when the first of them was added; zero if there is none.
	Oldest time.Time
}

// Backlogs returns the backlog of every data server that ever had a row and
// was not removed, by number.
func (o *Outbox) Backlogs(ctx context.Context) ([]Backlog, error) {
	var all []Backlog
	err := o.cfg.Store.View(ctx, func(tx store.Tx) error {
		all = nil
		err := scanCounters(tx, func(ds layout.DSID, c counter) {
			if !c.removed {
				all = append(all, Backlog{DS: ds, Depth: c.depth})
			}
		})
		for i := range all {
			if err == nil {
				err = scanRows(tx, all[i].DS, func(r row) (bool, error) {
					all[i].Oldest = r.added
					return false, nil
				})
			}
		}
		return err
	})
	return slices.Clip(all), err
}
