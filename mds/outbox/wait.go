package outbox

import (
	"context"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// waiter is those that wait for the rows behind one index prefix.
type waiter struct {
	ch chan struct{} // closed when one of the rows was deleted
	n  int           // how many wait
}

// WaitObject waits until no Truncate and no FenceObject of obj is left that
// was durable when it began, on any data server, and returns nil; then they are
// durably done. It returns ctx's error if that ends first, ErrClosed, or an
// error of the store.
func (o *Outbox) WaitObject(ctx context.Context, obj layout.Object) error {
	return o.wait(ctx, objectPrefix(obj))
}

// WaitClient waits until no FenceClient of client is left.
func (o *Outbox) WaitClient(ctx context.Context, client nfs4.ClientID) error {
	return o.wait(ctx, clientPrefix(client))
}

func (o *Outbox) wait(ctx context.Context, of []byte) error {
	for {
		// To wait comes before the look, so that no deletion falls in between.
		w := o.enter(string(of))
		found, err := o.find(ctx, of, nil)
		if err == nil && found {
			select {
			case <-w.ch:
			case <-ctx.Done():
				err = ctx.Err()
			case <-o.ctx.Done():
				err = ErrClosed
			}
		}
		o.leave(string(of), w)
		if err != nil || !found {
			return err
		}
	}
}

// Waiting returns how many objects and clients somebody waits for.
func (o *Outbox) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiters)
}

// Pending says whether a truncation of obj is still to be done somewhere: it
// must not be written to. If the store cannot tell, it may be.
func (o *Outbox) Pending(obj layout.Object) bool {
	found, err := o.find(o.ctx, objectPrefix(obj), func(kind control.Kind) bool { return kind == control.Truncate })
	return found || err != nil
}

// Fencing says whether a FenceClient of any client is still to be done at one
// of these data servers. It looks at all their rows: for rare occasions.
func (o *Outbox) Fencing(ctx context.Context, ds []layout.DSID) (pending bool, err error) {
	err = o.cfg.Store.View(ctx, func(tx store.Tx) error {
		pending = false
		for _, id := range ds {
			err := scanRows(tx, id, func(r row) (bool, error) {
				pending = r.cmd.Kind == control.FenceClient
				return !pending, nil
			})
			if err != nil || pending {
				return err
			}
		}
		return nil
	})
	return pending, err
}

// find says whether there is an index key that begins with of and whose kind
// is one that want (nil: any) says yes to.
func (o *Outbox) find(ctx context.Context, of []byte, want func(control.Kind) bool) (found bool, err error) {
	err = o.cfg.Store.View(ctx, func(tx store.Tx) error {
		found = false
		return tx.Scan(of, after(of), func(_, val []byte) (bool, error) {
			found = len(val) != 1 || want == nil || want(control.Kind(val[0]))
			return !found, nil
		})
	})
	return found, err
}

func (o *Outbox) enter(of string) *waiter {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.waiters[of]
	if w == nil {
		w = &waiter{ch: make(chan struct{})}
		o.waiters[of] = w
	}
	w.n++
	return w
}

func (o *Outbox) leave(of string, w *waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.n--; w.n == 0 && o.waiters[of] == w {
		delete(o.waiters, of)
	}
}

// deleted lets those look again who wait for one of rows.
func (o *Outbox) deleted(rows []row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range rows {
		of := string(indexPrefix(r.cmd))
		if w := o.waiters[of]; w != nil {
			close(w.ch)
			delete(o.waiters, of)
		}
	}
}
