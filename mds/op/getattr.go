package op

import (
	"context"

	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// getattr: RFC 8881 section 18.7.
func (o *Ops) getattr(ctx context.Context, c *compound.Call, a *nfs4.GetattrArgs, r *nfs4.GetattrRes) nfs4.Status {
	if !a.AttrRequest.And(writeOnly(c.Minor)).IsZero() {
		return nfs4.ErrInval
	}
	return o.attrs(ctx, c, &r.ObjAttributes, a.AttrRequest)
}
