package op

import (
	"context"

	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// access: RFC 8881 section 18.1.
func (o *Ops) access(ctx context.Context, c *compound.Call, a *nfs4.AccessArgs, r *nfs4.AccessRes) nfs4.Status {
	in, s := o.inode(ctx, here(c))
	if s != nfs4.OK {
		return s
	}
	r.Supported, r.Access = in.Access(cred(c), a.Access)
	return nfs4.OK
}
