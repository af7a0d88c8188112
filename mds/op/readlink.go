package op

import (
	"context"

	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// readlink: RFC 8881 section 18.24.
func (o *Ops) readlink(ctx context.Context, c *compound.Call, _ *nfs4.ReadlinkArgs, r *nfs4.ReadlinkRes) nfs4.Status {
	in, s := o.inode(ctx, here(c))
	switch {
	case s != nfs4.OK:
		return s
	case in.Type != nfs4.TypeLnk:
		return nfs4.ErrWrongType
	}
	r.Link = in.Target
	return nfs4.OK
}
