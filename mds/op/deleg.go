package op

import (
	"context"
	"time"

	"manifold/mds/ns"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

const (
	// delegWait is how long an operation waits for delegations that are in its
	// way. A client that is told to ask again stays away for longer than most
	// take to come back; but it has a slot in use meanwhile.
	delegWait = 300 * time.Millisecond
	// delegTries is how often what found delegations in its way is tried at most.
	delegTries = 3
)

// delegreturn: RFC 8881 section 18.6.
func (o *Ops) delegreturn(ctx context.Context, c *compound.Call, a *nfs4.DelegReturnArgs) nfs4.Status {
	if s := c.Resolve(&a.DelegStateid); s != nfs4.OK {
		return s
	}
	_, s := o.onFile(ctx, here(c).Inode, state.DelegReturnReq{Client: c.Client, File: here(c).Inode, Stateid: a.DelegStateid})
	if s == nfs4.OK {
		o.heeded(c.Client)
	}
	return s
}

// lockToChange locks a file of which no client but one has a delegation, so
// that it may be changed: those that are in the way are recalled and waited for.
func (o *Ops) lockToChange(ctx context.Context, file uint64, client nfs4.ClientID) (unlock func(), s nfs4.Status) {
	for range delegTries {
		unlock, err := o.files.lock(ctx, file)
		if err != nil {
			return nil, nfs4.ErrDelay
		}
		if s = o.decide(state.DelegConflictReq{File: file, Client: client, Change: true}).Status; s == nfs4.OK {
			return unlock, nfs4.OK
		}
		unlock()
		if !o.awaitDelegs(ctx, file, client) {
			break
		}
	}
	return nil, s
}

// awaitDelegs waits until no recall of a file's delegation is under way to
// another client than one. False if there was none, or it takes longer than
// delegWait. The file's lock must not be held: DELEGRETURN needs it.
func (o *Ops) awaitDelegs(ctx context.Context, file uint64, client nfs4.ClientID) bool {
	ctx, cancel := context.WithTimeout(ctx, delegWait)
	defer cancel()
	for waited := false; ; waited = true {
		o.mu.Lock()
		changed, busy := o.changed, false
		for _, d := range o.State.Delegations(file, client) {
			busy = busy || !d.Deadline.IsZero()
		}
		o.mu.Unlock()
		if !busy {
			return waited
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// delegated says whether a client but one has a delegation of the file.
func (o *Ops) delegated(file uint64, except nfs4.ClientID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.State.Delegations(file, except)) > 0
}

// delegation is what an OPEN says of delegations. A client that did not ask and
// gets none is told no reason (RFC 8881 section 18.16.3).
func (o *Ops) delegation(op *opening, in *ns.Inode, v *state.Verdict) nfs4.OpenDelegation {
	d := &v.Delegation
	switch {
	case d.Type == nfs4.DelegateNone && op.req.Want&nfs4.WantDelegMask == nfs4.WantNoPreference:
		return nfs4.OpenDelegation{Type: nfs4.DelegateNone}
	case d.Type == nfs4.DelegateNone:
		return nfs4.OpenDelegation{Type: nfs4.DelegateNoneExt, None: nfs4.NoDelegation{Why: v.WhyNone}}
	}
	out := nfs4.OpenDelegation{
		Type: d.Type, Stateid: d.Stateid, Recall: d.Recall,
		// Nobody may open the file by this entry alone: whoever else uses the
		// client asks ACCESS.
		Permissions: nfs4.ACE{Type: nfs4.ACEAllowed, Who: []byte("EVERYONE@")},
	}
	if d.Type == nfs4.DelegateWrite {
		// What would not fit now is to be flushed before CLOSE, so that the
		// error reaches who wrote it.
		room := o.Fleet.Space().Avail
		out.SpaceLimit = nfs4.SpaceLimit{LimitBy: nfs4.LimitSize, FileSize: min(in.Size+min(room, ns.MaxFileSize), ns.MaxFileSize)}
	}
	return out
}

// given is what is noted of a delegation to write when it is given.
type given struct {
	stateid nfs4.Stateid
	change  uint64 // the file's change attribute, as the client knows it
	told    uint64 // the one that others were last told for what it changed
}

// note notes a delegation to write.
func (o *Ops) note(d *state.Delegation, in *ns.Inode) {
	if d.Type != nfs4.DelegateWrite {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if g := o.given[in.ID]; g.stateid != d.Stateid {
		o.given[in.ID] = given{stateid: d.Stateid, change: in.Change}
	}
}

// bar keeps a client from reclaiming anything after a restart. It does not know
// yet that a delegation was revoked, so it would reclaim that too, and what it
// opened under it, though another client may have changed the file since (RFC
// 8881 section 8.4.3).
func (o *Ops) bar(ctx context.Context, id nfs4.ClientID) nfs4.Status {
	o.mu.Lock()
	// The client may have gone meanwhile, and drop looks no more.
	if _, already := o.barred[id]; !already && o.State.Knows(id) {
		o.barred[id] = false // from now on, for a RECLAIM_COMPLETE that comes in between
	}
	o.mu.Unlock()
	was := false
	s := o.update(ctx, func(tx store.Tx) error {
		r, err := o.Cluster.Client(tx, id)
		if err != nil {
			return err
		}
		was, r.Complete = r.Complete, false
		return o.Cluster.PutClient(tx, r)
	})
	switch {
	case s == nfs4.ErrNoEnt:
		return nfs4.OK
	case s == nfs4.OK && was:
		o.mu.Lock()
		if o.State.Knows(id) {
			o.barred[id] = true
		}
		o.mu.Unlock()
	}
	return s
}

// mayComplete says whether a client that is done reclaiming is on record for the
// next restart: not while it is barred.
func (o *Ops) mayComplete(id nfs4.ClientID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, barred := o.barred[id]; barred {
		o.barred[id] = true
		return false
	}
	return true
}

// unbar ends that when the client has freed all that was revoked. If it cannot be
// kept, the client loses its state with the next restart, no more.
func (o *Ops) unbar(ctx context.Context, id nfs4.ClientID) {
	o.mu.Lock()
	done := o.barred[id]
	ends := o.State.Revoked(id) == 0
	if ends {
		delete(o.barred, id)
	}
	o.mu.Unlock()
	if !ends || !done {
		return
	}
	_ = o.update(ctx, func(tx store.Tx) error {
		r, err := o.Cluster.Client(tx, id)
		if err != nil {
			return err
		}
		r.Complete = true
		return o.Cluster.PutClient(tx, r)
	})
}
