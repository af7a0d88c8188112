package op

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// recallPause is how long a recall that was answered NFS4ERR_DELAY, or could
// not be sent, waits before it is sent again.
const recallPause = 200 * time.Millisecond

// recallKey names what is recalled: a client has one layout and one delegation
// of a file at most. File 0 is all its layouts.
type recallKey struct {
	client nfs4.ClientID
	file   uint64
	deleg  bool // its delegation, else its layout
}

// recalled is what is recalled.
type recalled struct {
	recallKey
	stateid  nfs4.Stateid // to recall it with
	deadline time.Time
	fenced   nfs4.Stateid  // the layout that is fenced along with a delegation
	logged   bool          // that it was not delivered
	changed  bool          // clora_changed
	given    []state.Grant // layouts, to name the requests that they were given by
	kind     uint32        // of all layouts: by fsid if zero, or all there are
}

func ofLayout(g state.Grant) recalled {
	return recalled{recallKey: recallKey{g.Client, g.File, false}, stateid: g.Stateid, deadline: g.Deadline, changed: g.Changed, given: []state.Grant{g}}
}

func ofDeleg(d state.Delegation) recalled {
	return recalled{recallKey: recallKey{d.Client, d.File, true}, stateid: d.Stateid, deadline: d.Deadline}
}

// tell begins what Effects ask for and no transaction has to precede: recalls,
// and the end of clients without a lease that are in the way, or of one that
// holds more than its share.
func (o *Ops) tell(e *state.Effects) {
	for _, g := range e.Recall {
		o.recall(ofLayout(g))
	}
	for _, d := range e.RecallDeleg {
		o.recall(ofDeleg(d))
	}
	o.expire(e.Expire)
	o.hogs(e.Evict)
}

// recall asks for a layout or a delegation until it is given up or revoked, in
// the background. One goroutine at most does so for each.
func (o *Ops) recall(r recalled) {
	o.mu.Lock()
	busy := o.recalls[r.recallKey]
	o.recalls[r.recallKey] = true
	o.mu.Unlock()
	if busy {
		return
	}
	o.background(func(ctx context.Context) {
		for more := true; more; r, more = o.recallNext(ctx, r.recallKey) {
			o.counter.recalls.Add(1)
			if r.file == 0 {
				o.recallAll(ctx, r)
				continue
			}
			for again := true; again && ctx.Err() == nil; {
				r, again = o.recallOnce(ctx, r)
			}
		}
	})
}

// recallNext ends a recall, or returns the next one: the client may have got
// the same again and been asked for it while we looked away.
func (o *Ops) recallNext(ctx context.Context, key recallKey) (recalled, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r, ok := o.held(key); ctx.Err() == nil && ok && !r.deadline.IsZero() {
		return r, true
	}
	delete(o.recalls, key)
	return recalled{recallKey: key}, false
}

// held returns what a client holds. o.mu is held.
func (o *Ops) held(key recallKey) (recalled, bool) {
	if key.file == 0 {
		deadline, _, ok := o.State.RecallingAll(key.client)
		return recalled{recallKey: key, deadline: deadline}, ok
	}
	if key.deleg {
		for _, d := range o.State.Delegations(key.file, 0) {
			if d.Client == key.client {
				return ofDeleg(d), true
			}
		}
		return recalled{}, false
	}
	for _, g := range o.State.Layouts(key.file, 0) {
		if g.Client == key.client {
			return ofLayout(g), true
		}
	}
	return recalled{}, false
}

// next is r with what the state says of it now.
func (r recalled) next(now recalled) recalled {
	now.fenced, now.logged = r.fenced, r.logged
	return now
}

// recallOnce sends the recall once and carries out what follows from the
// answer. It returns what to recall with next, and whether to do so.
func (o *Ops) recallOnce(ctx context.Context, r recalled) (recalled, bool) {
	answer := o.sendRecall(ctx, &r)
	if ctx.Err() != nil {
		return r, false
	}
	if answer == nfs4.ErrNoMatchingLayout {
		o.heeded(r.client)
	}
	v, s := o.report(ctx, &r, state.RecallDoneReq{File: r.file, Client: r.client, Stateid: r.stateid, Answer: answer})
	switch {
	case s == nfs4.ErrDelay:
		return r, o.pause(ctx)
	case s != nfs4.OK:
		return r, false // it came back meanwhile
	}
	if len(v.Effects.Fence)+len(v.Effects.Revoked) > 0 {
		o.ignored(r.client)
	}
	again, left := v.Effects.RecallDeleg, v.Effects.Recall
	switch {
	case r.deleg && len(again) > 0:
		return r.next(ofDeleg(again[0])), o.pause(ctx)
	case r.deleg && len(left) > 0:
		o.recall(ofLayout(left[0]))
	case len(left) > 0:
		return r.next(ofLayout(left[0])), answer == nfs4.ErrOldStateID || o.pause(ctx)
	}
	if answer == nfs4.OK && len(v.Effects.Fence)+len(v.Effects.Revoked) == 0 {
		return o.awaitReturn(ctx, r)
	}
	return r, false
}

// report tells the state how a recall went, under the file's lock, and keeps
// what a revocation needs before it is applied: NFS4ERR_DELAY if that could not
// be kept now.
func (o *Ops) report(ctx context.Context, r *recalled, req state.RecallDoneReq) (v state.Verdict, s nfs4.Status) {
	unlock, err := o.files.lock(ctx, r.file)
	if err != nil {
		return v, nfs4.ErrServerFault // the server stops
	}
	defer unlock()
	if v = o.decide(req); v.Status != nfs4.OK {
		return v, v.Status
	}
	for _, f := range v.Effects.Fence {
		if !o.fenceFor(ctx, r, f) {
			return v, nfs4.ErrDelay
		}
	}
	if len(v.Effects.Revoked) > 0 && o.bar(ctx, r.client) != nfs4.OK {
		return v, nfs4.ErrDelay
	}
	_ = o.apply(v.Change) // if the client went meanwhile, so did what it held
	o.revoked(&v.Effects)
	return v, nfs4.OK
}

// fenceFor fences a layout, under its file's lock, before it or a delegation is
// revoked; false is to be tried again. For a delegation the data servers have to
// acknowledge that: at once then others do what its holder must not come after.
func (o *Ops) fenceFor(ctx context.Context, r *recalled, g state.Grant) bool {
	if g.Stateid != r.fenced {
		if s := o.fence(ctx, g); s != nfs4.OK {
			return false // not durable
		}
		r.fenced = g.Stateid
	}
	if !r.deleg {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Patience)
	defer cancel()
	var in *ns.Inode
	if s := o.view(ctx, func(tx store.Tx) (err error) {
		in, err = o.Volume.GetID(tx, g.File)
		return err
	}); s != nfs4.OK {
		return s == nfs4.ErrStale
	}
	return o.Outbox.WaitObject(ctx, o.Volume.Object(in)) == nil
}

// sendRecall sends CB_LAYOUTRECALL or CB_RECALL and returns its status; a
// failure to send is NFS4ERR_DELAY.
func (o *Ops) sendRecall(ctx context.Context, r *recalled) nfs4.Status {
	var in *ns.Inode
	if s := o.view(ctx, func(tx store.Tx) (err error) {
		in, err = o.Volume.GetID(tx, r.file)
		return err
	}); s != nfs4.OK && r.deleg {
		return nfs4.ErrBadHandle
	} else if s != nfs4.OK {
		return nfs4.ErrNoMatchingLayout // the file is gone, and its objects with it
	}
	fh := o.Keys().SealMDS(o.Volume.Handle(in))
	if r.deleg {
		return o.call(ctx, r, nfs4.CBRecall, &nfs4.CBRecallArgs{Stateid: r.stateid, FH: fh})
	}
	return o.call(ctx, r, nfs4.CBLayoutRecall, &nfs4.CBLayoutRecallArgs{
		Type: o.Driver.Type(), IOMode: nfs4.IOModeAny, Changed: r.changed,
		Recall: nfs4.LayoutRecall{Kind: nfs4.LayoutReturnFile, FH: fh, Length: layout.ToEnd, Stateid: r.stateid},
	})
}

// call sends a callback and returns its status. A failure to send is logged once
// for each recall.
func (o *Ops) call(ctx context.Context, r *recalled, op nfs4.CBOpNum, args compound.CallbackArgs) nfs4.Status {
	ctx, cancel := context.WithTimeout(compound.Referring(ctx, overtaken(o.Now(), r.given)), o.cfg.Lease/4)
	defer cancel()
	status, err := o.caller.Callback(ctx, r.client, op, args, nil)
	if err != nil {
		if !r.logged && !errors.Is(err, context.Canceled) {
			r.logged = true
			o.Log.Warn("recall not delivered", zap.Stringer("callback", op), zap.Uint64("inode", r.file), clientID(r.client), zap.Error(err))
		}
		return nfs4.ErrDelay
	}
	return status
}

const (
	// underWay is for how long after a layout was given its reply may not have
	// been read yet: a client that does not have it then says that it has none.
	underWay = 5 * time.Second
	// maxOvertaken is how many requests a recall names, the newest: the client's
	// back channel takes no long calls.
	maxOvertaken = 32
)

// overtaken returns the requests by which layouts were given not long ago.
func overtaken(now time.Time, given []state.Grant) (lists []nfs4.ReferringCallList) {
	given = slices.DeleteFunc(slices.Clone(given), func(g state.Grant) bool {
		return g.Session == (nfs4.SessionID{}) || !now.Before(g.Given.Add(underWay))
	})
	slices.SortFunc(given, func(a, b state.Grant) int { return b.Given.Compare(a.Given) })
	for _, g := range given[:min(len(given), maxOvertaken)] {
		i := slices.IndexFunc(lists, func(l nfs4.ReferringCallList) bool { return l.SessionID == g.Session })
		if i < 0 {
			i, lists = len(lists), append(lists, nfs4.ReferringCallList{SessionID: g.Session})
		}
		if !slices.Contains(lists[i].Calls, g.Call) {
			lists[i].Calls = append(lists[i].Calls, g.Call)
		}
	}
	return lists
}

// recallAny asks clients that have so many delegations that there will be none
// for others to give back half: what they make no use of. It says whether there
// are any.
func (o *Ops) recallAny() bool {
	o.mu.Lock()
	surplus := o.State.Surplus()
	keep := make([]int, len(surplus))
	for i, id := range surplus {
		keep[i] = o.State.CountsOf(id).Delegs / 2
	}
	o.mu.Unlock()
	for i, id := range surplus {
		o.background(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, o.cfg.Lease/4)
			defer cancel()
			args := &nfs4.CBRecallAnyArgs{ObjectsToKeep: uint32(keep[i]), TypeMask: nfs4.BitmapOf(nfs4.RecallAnyReadDeleg, nfs4.RecallAnyWriteDeleg)}
			status, err := o.caller.Callback(ctx, id, nfs4.CBRecallAny, args, nil)
			o.Log.Info("client asked to give back delegations: the limit is near", clientID(id),
				zap.Int("keeps", keep[i]), zap.Stringer("answer", status), zap.Error(err))
		})
	}
	return len(surplus) > 0
}

// clientID is how the log names a client.
func clientID(id nfs4.ClientID) zap.Field {
	return zap.String("clientid", fmt.Sprintf("%#x", uint64(id)))
}

// awaitReturn waits for what a recall's OK promised, until the recall's
// deadline.
func (o *Ops) awaitReturn(ctx context.Context, r recalled) (recalled, bool) {
	for {
		o.mu.Lock()
		held, ok := o.held(r.recallKey)
		changed, now := o.changed, o.Now()
		o.mu.Unlock()
		if !ok || held.deadline.IsZero() {
			return r, false
		}
		timer := time.NewTimer(held.deadline.Sub(now))
		select {
		case <-changed:
			timer.Stop()
		case <-timer.C:
			return r.next(held), true // past the deadline: the next answer decides
		case <-ctx.Done():
			timer.Stop()
			return r, false
		}
	}
}

// revoked tells clients, and the administrator, what was taken from them. Of a
// layout they are told once: Linux drops all layouts each time it reads that, and
// never frees the stateid as the RFC has it. A revoked delegation is another
// matter: the flag stands until the client frees the stateid.
func (o *Ops) revoked(e *state.Effects) {
	for _, d := range e.Revoked {
		o.counter.revoked.Add(1)
		o.Log.Warn("delegation revoked: its client did not return it in time", zap.Uint64("inode", d.File), clientID(d.Client))
		o.caller.Flag(d.Client, nfs4.SeqStatusRecallableStateRevoked)
	}
	for _, g := range e.Fence {
		o.counter.revoked.Add(1)
		o.Log.Warn("layout revoked: its client did not return it in time", zap.Uint64("inode", g.File), clientID(g.Client))
		o.caller.Notify(g.Client, nfs4.SeqStatusRecallableStateRevoked)
	}
	for _, file := range e.Grown {
		o.background(func(ctx context.Context) { o.learnRevoked(ctx, file) })
	}
}

// unflagRevoked ends what revoked told a client, unless it has a revoked
// delegation still to be freed.
func (o *Ops) unflagRevoked(id nfs4.ClientID) {
	o.mu.Lock()
	left := o.State.Revoked(id)
	o.mu.Unlock()
	if left == 0 {
		o.caller.Unflag(id, nfs4.SeqStatusRecallableStateRevoked)
	}
}
