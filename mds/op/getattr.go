package op

import (
	"context"

	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// getattr: RFC 8881 section 18.7.
func (o *Ops) getattr(ctx context.Context, c *compound.Call, a *nfs4.GetattrArgs, r *nfs4.GetattrRes) nfs4.Status {
	if a.AttrRequest.Has(nfs4.AttrTimeAccessSet) || a.AttrRequest.Has(nfs4.AttrTimeModifySet) {
		return nfs4.ErrInval // write-only attributes
	}
	return o.attrs(ctx, &r.ObjAttributes, a.AttrRequest, here(c), c.FH)
}
