package outbox

import (
	"context"
	"time"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

const (
	// maxBatch is how many rows are sent at once.
	maxBatch = 256
	// maxRetry is how many of these may be of objects that failed before, so that
	// they leave room for others.
	maxRetry = maxBatch / 4
	// maxLook is how many rows one turn looks at, those of held objects too: if
	// more fail than this, the rows behind them wait.
	maxLook = 64 * maxBatch
)

// worker sends the rows of one data server while it is attached. Only its own
// goroutine uses the fields below kick.
type worker struct {
	o      *Outbox
	ds     layout.DSID
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
	kick   chan struct{} // holds one

	marked, ready bool
	mark          uint64 // the last row that comes before Ready
	held          map[layout.Object]*hold
}

// hold is an object of which a row failed. The zero object stands for all
// client fences: a data server that cannot keep one can keep none.
type hold struct {
	until time.Time
	wait  time.Duration
}

func newWorker(o *Outbox, ds layout.DSID) *worker {
	w := &worker{o: o, ds: ds, ended: make(chan struct{}), kick: make(chan struct{}, 1), held: map[layout.Object]*hold{}}
	w.ctx, w.cancel = context.WithCancel(o.ctx)
	return w
}

// turn is what there is to do now.
type turn struct {
	rows []row
	// behind: there are rows that come before Ready.
	behind bool
	// wake is when the first held object may be tried again; zero: none is.
	wake time.Time
}

func (w *worker) run() {
	for w.ctx.Err() == nil {
		t, err := w.next()
		switch {
		case err != nil:
			w.failed("outbox not read", err)
		case !w.ready && !t.behind:
			w.tellReady()
		case len(t.rows) == 0:
			w.idle(t.wake)
		default:
			w.deliver(t.rows)
		}
	}
}

// next looks at the oldest rows.
func (w *worker) next() (turn, error) {
	var t turn
	now := time.Now()
	err := w.o.cfg.Store.View(w.ctx, func(tx store.Tx) error {
		t = turn{}
		if !w.marked {
			c, err := getCounter(tx, w.ds)
			if err != nil {
				return err
			}
			w.marked, w.mark = true, c.next-1
		}
		looked, retried := 0, 0
		return scanRows(tx, w.ds, func(r row) (bool, error) {
			looked++
			h := w.held[r.cmd.Object]
			switch {
			case h == nil:
				t.rows = append(t.rows, r)
			case now.Before(h.until) || retried == maxRetry:
				if t.wake.IsZero() || h.until.Before(t.wake) {
					t.wake = h.until
				}
			default:
				retried++
				t.rows = append(t.rows, r)
			}
			// A removal that failed takes space but harms nobody: Ready need
			// not wait for it.
			excused := h != nil && r.cmd.Kind == control.Remove
			t.behind = t.behind || r.seq <= w.mark && !excused
			t.behind = t.behind || looked == maxLook
			return len(t.rows) < maxBatch && looked < maxLook, nil
		})
	})
	return t, err
}

// deliver sends rows and deletes those that were done.
func (w *worker) deliver(rows []row) {
	cmds := make([]control.Command, len(rows))
	for i, r := range rows {
		cmds[i] = r.cmd
	}
	acks, err := w.o.cfg.Sender.Do(w.ctx, w.ds, cmds...)
	if err != nil {
		w.failed("rows not acknowledged", err)
		return
	}
	done := w.sort(rows, acks)
	if len(done) == 0 {
		return
	}
	// Acknowledged is acknowledged: the deletion does not end with the connection.
	err = w.o.cfg.Store.Update(w.o.ctx, func(tx store.Tx) error { return w.forget(tx, done) })
	w.o.deleted(done)
	if err != nil {
		w.failed("done rows not deleted", err)
	}
}

// sort returns the rows that were done, and holds the objects of the others.
// What came after a failed row of the same object is not done: the order counts.
func (w *worker) sort(rows []row, acks []control.Ack) (done []row) {
	failed := map[layout.Object]bool{}
	for i, r := range rows {
		obj := r.cmd.Object
		switch {
		case failed[obj]:
		case acks[i].Status == nfs4.OK:
			done = append(done, r)
		default:
			failed[obj] = true
			h := w.held[obj]
			if h == nil {
				h = &hold{wait: w.o.cfg.RetryFirst}
				w.held[obj] = h
			} else {
				h.wait = min(2*h.wait, w.o.cfg.RetryLast)
			}
			h.until = time.Now().Add(h.wait)
			w.o.cfg.Log.Warn("a data server cannot do what it was told", zap.Uint32("ds", uint32(w.ds)),
				zap.Stringer("command", r.cmd.Kind), zap.Stringer("object", obj), zap.Stringer("status", acks[i].Status),
				zap.Duration("retry", h.wait))
		}
	}
	for _, r := range done {
		if !failed[r.cmd.Object] {
			delete(w.held, r.cmd.Object)
		}
	}
	return done
}

// forget deletes done rows. One may be gone: the data server was dropped.
func (w *worker) forget(tx store.Tx, done []row) error {
	c, err := getCounter(tx, w.ds)
	if err != nil {
		return err
	}
	for _, r := range done {
		v, err := tx.Get(rowKey(r.ds, r.seq))
		if err != nil {
			return err
		}
		if v == nil {
			continue
		}
		if err := deleteRow(tx, r); err != nil {
			return err
		}
		c.depth -= min(c.depth, 1)
	}
	return putCounter(tx, w.ds, c)
}

// tellReady says that the data server is up to date.
func (w *worker) tellReady() {
	acks, err := w.o.cfg.Sender.Do(w.ctx, w.ds, control.Command{Kind: control.Ready})
	if err == nil && acks[0].Status != nfs4.OK {
		err = acks[0].Status
	}
	if err != nil {
		w.failed("ready not acknowledged", err)
		return
	}
	w.ready = true
	w.o.cfg.Log.Info("data server is up to date", zap.Uint32("ds", uint32(w.ds)))
	// Under the lock, so that it is said of this connection and not of the next.
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	if w.o.workers[w.ds] == w {
		w.o.cfg.Ready(w.ds)
	}
}

// idle waits for a kick, or for wake if there is one.
func (w *worker) idle(wake time.Time) {
	var alarm <-chan time.Time
	if !wake.IsZero() {
		t := time.NewTimer(time.Until(wake))
		defer t.Stop()
		alarm = t.C
	}
	select {
	case <-w.kick:
	case <-alarm:
	case <-w.ctx.Done():
	}
}

// failed reports what went wrong with all rows and waits a moment. A data
// server that is gone is no news: whoever noticed says Detached soon.
func (w *worker) failed(what string, err error) {
	if w.ctx.Err() != nil {
		return
	}
	w.o.cfg.Log.Warn(what, zap.Uint32("ds", uint32(w.ds)), zap.Error(err))
	t := time.NewTimer(w.o.cfg.RetryFirst)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.ctx.Done():
	}
}
