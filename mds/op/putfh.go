package op

import (
	"context"

	"manifold/mds/ns"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// putfh: RFC 8881 section 18.19. Whether the file is still there is seen by
// the operation that needs it.
func (o *Ops) putfh(_ context.Context, c *compound.Call, a *nfs4.PutFHArgs) nfs4.Status {
	h, s := o.Keys().OpenMDS(a.Object)
	switch {
	case s != nfs4.OK:
		return s
	case h.Volume != o.Volume.ID():
		return nfs4.ErrStale
	}
	o.arrive(c, a.Object, h)
	return nfs4.OK
}

// putrootfh: RFC 8881 sections 18.21 and, for PUTPUBFH, 18.20.
func (o *Ops) putrootfh(ctx context.Context, c *compound.Call) nfs4.Status {
	var in *ns.Inode
	s := o.view(ctx, func(tx store.Tx) (err error) {
		in, err = o.Volume.Root(tx)
		return err
	})
	if s == nfs4.OK {
		o.enter(c, in)
	}
	return s
}
