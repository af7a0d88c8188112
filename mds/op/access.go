package op

import (
	"context"

	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// access: RFC 8881 section 18.1; the bits of extended attributes are of minor
// version 2.
func (o *Ops) access(ctx context.Context, c *compound.Call, a *nfs4.AccessArgs, r *nfs4.AccessRes) nfs4.Status {
	in, s := o.inode(ctx, here(c))
	if s != nfs4.OK {
		return s
	}
	want := a.Access
	if c.Minor < 2 {
		want &^= nfs4.AccessXARead | nfs4.AccessXAWrite | nfs4.AccessXAList
	}
	r.Supported, r.Access = in.Access(cred(c), want)
	if readOnly(c) {
		r.Access &^= nfs4.AccessModify | nfs4.AccessExtend | nfs4.AccessDelete | nfs4.AccessXAWrite
	}
	return nfs4.OK
}
