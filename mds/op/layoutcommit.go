package op

import (
	"context"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// layoutcommit: RFC 8881 section 18.42. Whatever went wrong before, a client
// that says how far it wrote is believed: an error here would make its fsync
// fail for data that is safe. But it must be one that may write: if it has the
// file neither open nor a layout of it for writing any more, the caller's rights
// decide, and without them it is NFS4ERR_BADLAYOUT, as for a layout to read.
func (o *Ops) layoutcommit(ctx context.Context, c *compound.Call, a *nfs4.LayoutCommitArgs, r *nfs4.LayoutCommitRes) nfs4.Status {
	if s := c.Resolve(&a.Stateid); s != nfs4.OK {
		return s
	}
	if a.LayoutUpdate.Type != o.Driver.Type() {
		return nfs4.ErrUnknownLayoutType
	}
	end := uint64(0)
	if a.LastWriteOffset.Present {
		if a.LastWriteOffset.Offset >= ns.MaxFileSize {
			return nfs4.ErrInval
		}
		end = a.LastWriteOffset.Offset + 1
	}
	unlock, err := o.files.lock(ctx, here(c).Inode)
	if err != nil {
		return nfs4.ErrDelay
	}
	defer unlock()
	if end, err = o.commitEnd(ctx, here(c), end); err != nil {
		return nfs4.ErrDelay
	}
	v := o.decide(state.LayoutCommitReq{Client: c.Client, File: here(c).Inode, Stateid: a.Stateid, Reclaim: a.Reclaim})
	if v.Status != nfs4.OK {
		return v.Status
	}
	var mtime *nfs4.Time
	if a.TimeModify.Present {
		mtime = &a.TimeModify.Time
	}
	var before, after *ns.Inode
	s := o.update(ctx, func(tx store.Tx) (err error) {
		if before, err = o.Volume.Get(tx, here(c)); err != nil {
			return err
		}
		if !v.Writer && before.Check(cred(c), ns.Perm{Write: true, OwnerOverride: true}) != nil {
			return nfs4.ErrBadLayout
		}
		after, err = o.Volume.Wrote(tx, c.Now, cred(c), here(c), end, mtime)
		return err
	})
	if s == nfs4.OK && after.Size != before.Size {
		r.NewSize = nfs4.NewSize{Present: true, Size: after.Size}
	}
	return s
}

// commitEnd bounds how far a client says it wrote by what the data servers
// hold, if the file was cut since it got its layout: Linux keeps a layout over
// its own truncation, and commits what it wrote before only afterwards.
func (o *Ops) commitEnd(ctx context.Context, h layout.Handle, end uint64) (uint64, error) {
	if end == 0 || !o.trimmed.has(h.Inode) && !o.unsure.has(h.Inode) {
		return end, nil
	}
	in, s := o.inode(ctx, h)
	if s != nfs4.OK || end <= in.Size {
		return end, nil // no growth, or for the commit itself to say
	}
	size, err := o.Size(ctx, target(o, in))
	return min(end, size), err
}

// layoutreturn: RFC 8881 section 18.44.
func (o *Ops) layoutreturn(ctx context.Context, c *compound.Call, a *nfs4.LayoutReturnArgs, r *nfs4.LayoutReturnRes) nfs4.Status {
	switch {
	case a.LayoutType != o.Driver.Type():
		return nfs4.ErrUnknownLayoutType
	case a.IOMode < nfs4.IOModeRead || a.IOMode > nfs4.IOModeAny:
		return nfs4.ErrBadIOMode
	}
	req := state.LayoutReturnReq{Client: c.Client, IOMode: a.IOMode, Reclaim: a.Reclaim}
	switch a.Return.Kind {
	case nfs4.LayoutReturnFSID, nfs4.LayoutReturnAll:
		if a.Return.Kind == nfs4.LayoutReturnFSID && c.FH == nil {
			return nfs4.ErrNoFileHandle
		}
		req.All = true
		_, s := o.decideApply(req)
		if s == nfs4.OK {
			o.heeded(c.Client)
		}
		return s
	case nfs4.LayoutReturnFile:
	default:
		return nfs4.ErrInval
	}
	if c.FH == nil {
		return nfs4.ErrNoFileHandle
	}
	f := &a.Return.File
	if err := o.Driver.Returned(f.Body); err != nil {
		return nfs4.ErrBadXDR
	}
	if s := c.Resolve(&f.Stateid); s != nfs4.OK {
		return s
	}
	req.File, req.Stateid = here(c).Inode, f.Stateid
	req.Range = layout.Range{Offset: f.Offset, Length: f.Length}
	v, s := o.onFile(ctx, req.File, req)
	if s != nfs4.OK {
		return s
	}
	o.heeded(c.Client)
	// Without a layout stateid, nothing may use the current stateid any more.
	r.Present, r.Stateid = v.Present, v.Stateid
	if !v.Present {
		v.Stateid = nfs4.StateidInvalid()
	}
	c.SetStateid(v.Stateid)
	return nfs4.OK
}
