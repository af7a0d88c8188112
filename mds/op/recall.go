package op

import (
	"context"
	"time"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// recallOthers takes the layouts of a file back from every client but one, and
// waits until they are back or cfg.Patience ends: NFS4ERR_DELAY then, and the
// recalls go on. The file's lock must not be held: LAYOUTRETURN needs it.
func (o *Ops) recallOthers(ctx context.Context, file uint64, except nfs4.ClientID) nfs4.Status {
	if _, s := o.onFile(ctx, file, state.RecallReq{File: file, Except: except}); s != nfs4.OK {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Patience)
	defer cancel()
	for {
		o.mu.Lock()
		left, changed := len(o.State.Layouts(file, except)), o.changed
		o.mu.Unlock()
		if left == 0 {
			return nfs4.OK
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nfs4.ErrDelay
		}
	}
}

// alone locks a file of which no client but one has a delegation or a layout,
// after it took those of others back: delegations first, because what they
// cover is written back by layouts. A client may get one again between the
// recall and the lock; after cfg.Patience of that it is NFS4ERR_DELAY.
//
// In grace it is NFS4ERR_GRACE: clients that have not come back yet may have
// layouts that nobody here knows of. Afterwards those are fenced by rows of the
// outbox that come before any that the caller adds.
func (o *Ops) alone(ctx context.Context, file uint64, client nfs4.ClientID) (unlock func(), s nfs4.Status) {
	wait, cancel := context.WithTimeout(ctx, o.cfg.Patience)
	defer cancel()
	if s := o.graceGate(); s != nfs4.OK {
		return nil, s
	}
	if s := o.awaitSettled(wait); s != nfs4.OK {
		return nil, s
	}
	for {
		unlock, s := o.lockToChange(wait, file, client)
		if s != nfs4.OK {
			return nil, s
		}
		unlock()
		if s := o.recallOthers(wait, file, client); s != nfs4.OK {
			return nil, s
		}
		if unlock, s = o.lockToChange(wait, file, client); s != nfs4.OK {
			return nil, s
		}
		o.mu.Lock()
		others := len(o.State.Layouts(file, client))
		o.mu.Unlock()
		if others == 0 {
			return unlock, nfs4.OK
		}
		unlock()
	}
}

// fence asks the data servers, durably, to refuse the handles of a layout
// that its client did not give back. All epochs of the file up to now go: other
// clients' layouts too, who get a new one at once.
func (o *Ops) fence(ctx context.Context, g state.Grant) nfs4.Status {
	s := o.update(ctx, func(tx store.Tx) error {
		in, err := o.Volume.GetID(tx, g.File)
		if err != nil {
			return err
		}
		l := in.Layout
		l.Epoch++
		if _, err := o.Volume.SetLayout(tx, o.Volume.Handle(in), l); err != nil {
			return err
		}
		return o.Outbox.FenceObject(tx, l.DS, o.Volume.Object(in), l.Epoch)
	})
	if s == nfs4.ErrStale {
		return nfs4.OK
	}
	if s == nfs4.OK {
		o.Outbox.Kick(g.DS)
	}
	return s
}

// learnRevoked learns the size of a file whose writer was fenced, when the data
// servers have done that: what they took before counts.
func (o *Ops) learnRevoked(ctx context.Context, file uint64) {
	var in *ns.Inode
	if s := o.view(ctx, func(tx store.Tx) (err error) {
		in, err = o.Volume.GetID(tx, file)
		return err
	}); s != nfs4.OK {
		return
	}
	if err := o.Outbox.WaitObject(ctx, o.Volume.Object(in)); err != nil {
		return
	}
	o.learnAll(ctx, []layout.Handle{o.Volume.Handle(in)})
}

// pause waits for recallPause, and says whether the server still runs.
func (o *Ops) pause(ctx context.Context) bool { return sleep(ctx, recallPause) }

// sleep waits for d; false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
