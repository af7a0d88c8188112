package op

import (
	"context"

	"manifold/mds/ns"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// lookup: RFC 8881 section 18.13.
func (o *Ops) lookup(ctx context.Context, c *compound.Call, a *nfs4.LookupArgs) nfs4.Status {
	var in *ns.Inode
	s := o.view(ctx, func(tx store.Tx) (err error) {
		in, err = o.Volume.Lookup(tx, cred(c), here(c), a.ObjName)
		return err
	})
	if s == nfs4.OK {
		o.enter(c, in)
	}
	return s
}

// lookupp: RFC 8881 section 18.14.
func (o *Ops) lookupp(ctx context.Context, c *compound.Call) nfs4.Status {
	var in *ns.Inode
	s := o.view(ctx, func(tx store.Tx) (err error) {
		in, err = o.Volume.LookupParent(tx, cred(c), here(c))
		return err
	})
	if s == nfs4.OK {
		o.enter(c, in)
	}
	return s
}
