package op

import (
	"context"
	"math"

	"manifold/layout"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// ALLOCATE, DEALLOCATE and SEEK are here for the metadata server alone, which
// has them done on each data server of a file: their offsets are the file's, but
// where it ends, what is reserved and what is a hole are the object's.

// mayManage admits only the metadata server.
func (o *Ops) mayManage(c *compound.Call, need layout.Rights) (layout.Object, pass, nfs4.Status) {
	if capability, ok := c.File.(*layout.Capability); ok && capability.Client != layout.MDSClient {
		return layout.Object{}, pass{}, nfs4.ErrNotSupp
	}
	return o.enter(c, need)
}

// allocate is ALLOCATE (RFC 7862 section 15.1), but that the object's size stays
// as it is.
func (o *Ops) allocate(_ context.Context, c *compound.Call, a *nfs4.AllocateArgs) nfs4.Status {
	return o.reshape(c, "allocate", a.Offset, a.Length, o.cfg.Store.Allocate)
}

// deallocate is DEALLOCATE (RFC 7862 section 15.4).
func (o *Ops) deallocate(_ context.Context, c *compound.Call, a *nfs4.DeallocateArgs) nfs4.Status {
	return o.reshape(c, "deallocate", a.Offset, a.Length, o.cfg.Store.Deallocate)
}

// reshape has fn change n bytes of the object at off, and makes that stable.
func (o *Ops) reshape(c *compound.Call, what string, off, n uint64, fn func(obj layout.Object, off, n int64) error) nfs4.Status {
	if n > math.MaxInt64 || off > math.MaxInt64-n {
		return nfs4.ErrFBig
	}
	obj, p, status := o.mayManage(c, layout.RightWrite)
	if status != nfs4.OK {
		return status
	}
	defer p.leave()
	o.ops.Add(1)
	verf := o.cfg.Store.Verifier()
	if err := fn(obj, int64(off), int64(n)); err != nil {
		return o.failed(what, obj, err)
	}
	if err := o.sync(obj, verf); err != nil {
		return o.failed("sync", obj, err)
	}
	return nfs4.OK
}

// seek is SEEK (RFC 7862 section 15.11), but that there is no end to be past: in
// what lies behind the object there is no data, and eof says so, and a hole
// everywhere.
func (o *Ops) seek(_ context.Context, c *compound.Call, a *nfs4.SeekArgs, r *nfs4.SeekRes) nfs4.Status {
	switch {
	case a.What != nfs4.ContentData && a.What != nfs4.ContentHole:
		return nfs4.ErrUnionNotSupp
	case a.Offset > math.MaxInt64:
		return nfs4.ErrInval
	}
	obj, p, status := o.mayManage(c, layout.RightRead)
	if status != nfs4.OK {
		return status
	}
	defer p.leave()
	o.ops.Add(1)
	at, found, err := o.cfg.Store.Seek(obj, int64(a.Offset), a.What == nfs4.ContentHole)
	if err != nil {
		return o.failed("seek", obj, err)
	}
	r.Offset, r.EOF = uint64(at), !found
	return nfs4.OK
}
