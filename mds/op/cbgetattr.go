package op

import (
	"context"
	"time"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// askWait is how long the holder of a delegation may take to answer CB_GETATTR.
const askWait = time.Second

// newest finds what the store does not know of the current file, as far as
// attributes of want depend on it: from who holds a delegation to write, else
// from the data servers.
func (o *Ops) newest(ctx context.Context, c *compound.Call, want nfs4.Bitmap) (length, nfs4.Status) {
	size := want.Has(nfs4.AttrSize) || want.Has(nfs4.AttrSpaceUsed)
	if size || want.Has(nfs4.AttrChange) || want.Has(nfs4.AttrTimeModify) || want.Has(nfs4.AttrTimeMetadata) {
		if l, asked, s := o.askHolder(ctx, c.Client, here(c)); asked || s != nfs4.OK {
			return l, s
		}
	}
	if !size {
		return length{}, nfs4.OK
	}
	return o.trueSize(ctx, here(c))
}

// askHolder asks another client that holds a delegation to write of a file for
// the newest size and change attribute. asked is false if there is no such
// client. If it does not answer, the delegation is recalled.
func (o *Ops) askHolder(ctx context.Context, client nfs4.ClientID, h layout.Handle) (l length, asked bool, s nfs4.Status) {
	for range delegTries {
		d := o.decide(state.GetattrReq{File: h.Inode, Client: client}).Delegation
		if d.Type == nfs4.DelegateNone {
			return length{}, false, nfs4.OK
		}
		in, s := o.inode(ctx, h)
		if s != nfs4.OK {
			return length{}, false, s
		}
		if a, ok := o.cbGetattr(ctx, &d, h); ok {
			l, s = o.merge(ctx, &d, in, a)
			return l, true, s
		}
		if s := o.decide(state.DelegConflictReq{File: h.Inode, Client: client}).Status; s == nfs4.OK {
			continue // returned meanwhile
		}
		if !o.awaitDelegs(ctx, h.Inode, client) {
			break
		}
	}
	return length{}, false, nfs4.ErrDelay
}

// cbGetattr sends CB_GETATTR (RFC 8881 section 20.1).
func (o *Ops) cbGetattr(ctx context.Context, d *state.Delegation, h layout.Handle) (*nfs4.Attrs, bool) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	want := nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize)
	var r nfs4.CBGetattrRes
	s, err := o.caller.Callback(ctx, d.Client, nfs4.CBGetattr, &nfs4.CBGetattrArgs{FH: o.Keys().SealMDS(h), AttrRequest: want}, &r)
	a := &r.ObjAttributes
	return a, err == nil && s == nfs4.OK && a.Mask.And(want) == want && a.Size <= ns.MaxFileSize
}

// merge judges what the holder of a delegation said (RFC 8881 section 10.4.3).
// It changed the file if its change attribute is neither the one that it was
// given along with the delegation nor the present one. Then the file gets a new
// one, each time anew: the holder's stays the same however much more it writes.
// One more than it was given says that there are changes also where that is the
// present one, which it is after the holder has committed something once.
// Its size counts, but is not kept: what is written up to there may never come.
func (o *Ops) merge(ctx context.Context, d *state.Delegation, in *ns.Inode, a *nfs4.Attrs) (length, nfs4.Status) {
	o.mu.Lock()
	g, known := o.given[in.ID]
	o.mu.Unlock()
	known = known && g.stateid.Other == d.Stateid.Other
	same := a.Change == in.Change && (!known || a.Change != g.change+1 && g.told != in.Change)
	switch {
	case same, known && a.Change == g.change, !known && a.Change < in.Change:
		return length{size: max(in.Size, a.Size), change: in.Change}, nfs4.OK
	}
	var now *ns.Inode
	s := o.update(ctx, func(tx store.Tx) (err error) {
		now, err = o.Volume.Wrote(tx, o.Now(), ns.Cred{}, o.Volume.Handle(in), 0, nil)
		return err
	})
	if s != nfs4.OK {
		return length{}, s
	}
	o.mu.Lock()
	if g, ok := o.given[in.ID]; ok && g.stateid.Other == d.Stateid.Other {
		g.told = now.Change
		o.given[in.ID] = g
	}
	o.mu.Unlock()
	return length{size: max(now.Size, a.Size), change: now.Change}, nfs4.OK
}
