package op

import (
	"context"
	"math"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// allocate: RFC 7862 section 15.1. The room is reserved before the size tells of
// it, so that NFS4ERR_NOSPC leaves the file as it was.
func (o *Ops) allocate(ctx context.Context, c *compound.Call, a *nfs4.AllocateArgs) nfs4.Status {
	end, s := span(a.Offset, a.Length)
	if s != nfs4.OK {
		return s
	}
	// Before dataFile looks for what the outbox has to cut yet.
	cut, free := o.cuts.watch(here(c).Inode)
	in, s := o.changing(ctx, c, &a.Stateid)
	if s != nfs4.OK {
		return s
	}
	if in, s = o.preparedForWrite(ctx, in); s != nfs4.OK {
		return s
	}
	switch {
	case !free:
		return nfs4.ErrDelay
	case end > in.Size && !o.Fleet.Fits(in.Layout.DS, end-in.Size):
		// A disk that is filled to the brim, only for ALLOCATE to fail on the
		// next one, would fail everybody's WRITEs meanwhile.
		return nfs4.ErrNoSpc
	}
	if err := o.Proxy.Allocate(ctx, target(o, in), a.Offset, a.Length); err != nil {
		return o.proxyStatus("allocate", in, err)
	}
	if s := o.wrote(ctx, c, end); s != nfs4.OK {
		return s
	}
	if cut() {
		return nfs4.ErrDelay // perhaps the room was given back
	}
	return nfs4.OK
}

// deallocate: RFC 7862 section 15.4. Clients with layouts read zeros from the
// data servers from now on; what they have cached the change attribute ends.
func (o *Ops) deallocate(ctx context.Context, c *compound.Call, a *nfs4.DeallocateArgs) nfs4.Status {
	if _, s := span(a.Offset, a.Length); s != nfs4.OK {
		return s
	}
	in, s := o.changing(ctx, c, &a.Stateid)
	if s != nfs4.OK {
		return s
	}
	if len(in.Layout.DS) > 0 {
		if err := o.Proxy.Deallocate(ctx, target(o, in), a.Offset, a.Length); err != nil {
			return o.proxyStatus("deallocate", in, err)
		}
	}
	return o.wrote(ctx, c, 0)
}

// seek: RFC 7862 section 15.11. Behind the last data is a hole, up to the end
// of the file at least.
func (o *Ops) seek(ctx context.Context, c *compound.Call, a *nfs4.SeekArgs, r *nfs4.SeekRes) nfs4.Status {
	if a.What != nfs4.ContentData && a.What != nfs4.ContentHole {
		return nfs4.ErrUnionNotSupp
	}
	in, s := o.dataFile(ctx, here(c))
	if s != nfs4.OK {
		return s
	}
	if s := o.mayDo(c, in, &a.Stateid, false); s != nfs4.OK {
		return s
	}
	if in, s = o.grown(ctx, in); s != nfs4.OK {
		return s
	}
	if a.Offset >= in.Size {
		return nfs4.ErrNXIO
	}
	var at uint64
	var err error
	found := false
	switch {
	case len(in.Layout.DS) == 0:
		at = a.Offset
	case a.What == nfs4.ContentHole:
		at, err = o.Proxy.NextHole(ctx, target(o, in), a.Offset, in.Size)
	default:
		at, found, err = o.Proxy.NextData(ctx, target(o, in), a.Offset)
	}
	switch {
	case err != nil:
		return o.proxyStatus("seek", in, err)
	case a.What == nfs4.ContentHole:
		r.Offset, r.EOF = min(at, in.Size), at >= in.Size
	case !found || at >= in.Size:
		r.Offset, r.EOF = in.Size, true
	default:
		r.Offset = at
	}
	return nfs4.OK
}

// changing checks what ALLOCATE and DEALLOCATE are to change.
func (o *Ops) changing(ctx context.Context, c *compound.Call, id *nfs4.Stateid) (*ns.Inode, nfs4.Status) {
	in, s := o.dataFile(ctx, here(c))
	if s != nfs4.OK {
		return nil, s
	}
	return in, o.mayDo(c, in, id, true)
}

// wrote notes that the current file's data changed, up to end.
func (o *Ops) wrote(ctx context.Context, c *compound.Call, end uint64) nfs4.Status {
	return o.update(ctx, func(tx store.Tx) error {
		_, err := o.Volume.Wrote(tx, c.Now, cred(c), here(c), end, nil)
		return err
	})
}

// span returns the end of a range that is not empty.
func span(off, n uint64) (end uint64, s nfs4.Status) {
	switch {
	case n == 0:
		return 0, nfs4.ErrInval
	case n > math.MaxInt64 || off > math.MaxInt64-n || off+n > ns.MaxFileSize:
		return 0, nfs4.ErrFBig
	}
	return off + n, nfs4.OK
}

// dataFile returns a regular file whose data can be worked on.
func (o *Ops) dataFile(ctx context.Context, h layout.Handle) (*ns.Inode, nfs4.Status) {
	in, s := o.inode(ctx, h)
	if s != nfs4.OK {
		return nil, s
	}
	if s := regular(in); s != nfs4.OK {
		return nil, s
	}
	if o.Outbox.Pending(o.Volume.Object(in)) {
		return nil, nfs4.ErrDelay
	}
	return in, nfs4.OK
}
