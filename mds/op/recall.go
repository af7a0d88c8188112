package op

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// recallPause is how long a recall that was answered NFS4ERR_DELAY, or could
// not be sent, waits before it is sent again.
const recallPause = 200 * time.Millisecond

type recallKey struct {
	client nfs4.ClientID
	file   uint64
}

// recallOthers takes the layouts of a file back from every client but one, and
// waits until they are back or cfg.Patience ends: NFS4ERR_DELAY then, and the
// recalls go on. The file's lock must not be held: LAYOUTRETURN needs it.
func (o *Ops) recallOthers(ctx context.Context, file uint64, except nfs4.ClientID) nfs4.Status {
	v, s := o.onFile(ctx, file, state.RecallReq{File: file, Except: except})
	if s != nfs4.OK {
		return s
	}
	for _, g := range v.Effects.Recall {
		o.recall(g)
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

// alone locks a file of which no client but one has a layout, after it took
// those of others back. A client may get a layout again between the recall and
// the lock; after cfg.Patience of that it is NFS4ERR_DELAY.
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
	select {
	case <-o.settled:
	case <-wait.Done():
		return nil, nfs4.ErrDelay
	}
	for {
		if s := o.recallOthers(wait, file, client); s != nfs4.OK {
			return nil, s
		}
		unlock, err := o.files.lock(wait, file)
		if err != nil {
			return nil, nfs4.ErrDelay
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

// RecallDS takes back every layout that uses a data server, and waits until
// they are back or ctx ends.
func (o *Ops) RecallDS(ctx context.Context, ds layout.DSID) error {
	for {
		o.mu.Lock()
		grants, changed := o.State.LayoutsOn(ds), o.changed
		o.mu.Unlock()
		if len(grants) == 0 {
			return nil
		}
		for _, g := range grants {
			if !g.Deadline.IsZero() {
				continue // under recall already
			}
			v, s := o.onFile(ctx, g.File, state.RecallReq{File: g.File, Client: g.Client})
			if s != nfs4.OK {
				return s
			}
			for _, r := range v.Effects.Recall {
				o.recall(r)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d layouts still use the data server: %w", len(grants), ctx.Err())
		}
	}
}

// Moved makes clients ask anew where a data server is: its layouts name
// addresses that it does not have any more.
func (o *Ops) Moved(ds layout.DSID) {
	o.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 2*o.cfg.Lease)
		defer cancel()
		if err := o.RecallDS(ctx, ds); err != nil && !errors.Is(err, context.Canceled) {
			o.Log.Warn("layouts with old addresses of a data server", zap.Uint32("ds", uint32(ds)), zap.Error(err))
		}
	})
}

// recall sends CB_LAYOUTRECALL for one layout until it is given up or revoked,
// in the background. One goroutine at most does so for a client and file.
func (o *Ops) recall(g state.Grant) {
	key := recallKey{g.Client, g.File}
	o.mu.Lock()
	busy := o.recalls[key]
	o.recalls[key] = true
	o.mu.Unlock()
	if busy {
		return
	}
	o.background(func(ctx context.Context) {
		for more := true; more; g, more = o.recallNext(ctx, key) {
			o.counter.recalls.Add(1)
			for again := true; again && ctx.Err() == nil; {
				g, again = o.recallOnce(ctx, g)
			}
		}
	})
}

// recallNext ends the recall of a layout, or returns the next one: the client
// may have got the layout again and been asked for it while we looked away.
func (o *Ops) recallNext(ctx context.Context, key recallKey) (state.Grant, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if g := o.held(key); ctx.Err() == nil && g != nil && !g.Deadline.IsZero() {
		return *g, true
	}
	delete(o.recalls, key)
	return state.Grant{}, false
}

// held returns the layout that a client holds of a file, or nil. o.mu is held.
func (o *Ops) held(key recallKey) *state.Grant {
	for _, g := range o.State.Layouts(key.file, 0) {
		if g.Client == key.client {
			return &g
		}
	}
	return nil
}

// recallOnce sends the recall once and carries out what follows from the
// answer. It returns the grant to recall with next, and whether to do so.
func (o *Ops) recallOnce(ctx context.Context, g state.Grant) (state.Grant, bool) {
	answer := o.sendRecall(ctx, g)
	if ctx.Err() != nil {
		return g, false
	}
	unlock, err := o.files.lock(ctx, g.File)
	if err != nil {
		return g, false
	}
	v := o.decide(state.RecallDoneReq{File: g.File, Client: g.Client, Stateid: g.Stateid, Answer: answer})
	if v.Status != nfs4.OK {
		unlock()
		return g, false // it came back meanwhile
	}
	for _, f := range v.Effects.Fence {
		if s := o.fence(ctx, f); s != nfs4.OK {
			unlock()
			return g, o.pause(ctx) // not durable: try again
		}
	}
	o.apply(v.Change)
	unlock()
	for _, f := range v.Effects.Fence {
		o.revoked(f)
	}
	if len(v.Effects.Grown) > 0 {
		o.background(func(ctx context.Context) { o.learnRevoked(ctx, g.File) })
	}
	if len(v.Effects.Recall) > 0 {
		next := v.Effects.Recall[0]
		return next, answer == nfs4.ErrOldStateID || o.pause(ctx)
	}
	if answer == nfs4.OK && len(v.Effects.Fence) == 0 {
		return o.awaitReturn(ctx, g)
	}
	return g, false
}

// sendRecall sends CB_LAYOUTRECALL and returns its status; a failure to send
// is NFS4ERR_DELAY.
func (o *Ops) sendRecall(ctx context.Context, g state.Grant) nfs4.Status {
	var in *ns.Inode
	if s := o.view(ctx, func(tx store.Tx) (err error) {
		in, err = o.Volume.GetID(tx, g.File)
		return err
	}); s != nfs4.OK {
		return nfs4.ErrNoMatchingLayout // the file is gone, and its objects with it
	}
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Lease/4)
	defer cancel()
	status, err := o.caller.Callback(ctx, g.Client, nfs4.CBLayoutRecall, &nfs4.CBLayoutRecallArgs{
		Type: o.Driver.Type(), IOMode: nfs4.IOModeAny, Changed: true,
		Recall: nfs4.LayoutRecall{
			Kind: nfs4.LayoutReturnFile, FH: o.Keys().SealMDS(o.Volume.Handle(in)),
			Length: layout.ToEnd, Stateid: g.Stateid,
		},
	})
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			o.Log.Warn("layout recall not delivered", zap.Uint64("inode", g.File),
				zap.String("clientid", fmt.Sprintf("%#x", uint64(g.Client))), zap.Error(err))
		}
		return nfs4.ErrDelay
	}
	return status
}

// awaitReturn waits for the LAYOUTRETURN that a recall's OK promised, until the
// recall's deadline.
func (o *Ops) awaitReturn(ctx context.Context, g state.Grant) (state.Grant, bool) {
	for {
		o.mu.Lock()
		held := o.held(recallKey{g.Client, g.File})
		changed, now := o.changed, o.Now()
		o.mu.Unlock()
		if held == nil || held.Deadline.IsZero() {
			return g, false
		}
		timer := time.NewTimer(held.Deadline.Sub(now))
		select {
		case <-changed:
			timer.Stop()
		case <-timer.C:
			return *held, true // past the deadline: the next answer decides
		case <-ctx.Done():
			timer.Stop()
			return g, false
		}
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

// revokedShown is how long a client's SEQUENCE replies say that a layout was
// revoked. Linux drops all layouts each time it reads that, and never frees the
// stateid as the RFC has it, so the flag must go by itself.
const revokedShown = 2 * time.Second

// revoked tells the client, and the administrator.
func (o *Ops) revoked(g state.Grant) {
	o.counter.revoked.Add(1)
	o.Log.Warn("layout revoked: its client did not return it in time", zap.Uint64("inode", g.File),
		zap.String("clientid", fmt.Sprintf("%#x", uint64(g.Client))))
	o.caller.Flag(g.Client, nfs4.SeqStatusRecallableStateRevoked)
	o.background(func(ctx context.Context) {
		sleep(ctx, revokedShown)
		o.caller.Unflag(g.Client, nfs4.SeqStatusRecallableStateRevoked)
	})
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
