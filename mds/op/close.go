package op

import (
	"context"

	"manifold/mds/state"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// close: RFC 8881 section 18.2. A layout that was to come back with the last
// close and did not is recalled.
func (o *Ops) close(ctx context.Context, c *compound.Call, a *nfs4.CloseArgs, r *nfs4.CloseRes) nfs4.Status {
	if s := c.Resolve(&a.OpenStateid); s != nfs4.OK {
		return s
	}
	v, s := o.onFile(ctx, here(c).Inode, state.CloseReq{Client: c.Client, File: here(c).Inode, Stateid: a.OpenStateid})
	if s != nfs4.OK {
		return s
	}
	r.OpenStateid = v.Stateid
	return nfs4.OK
}

// openDowngrade: RFC 8881 section 18.18.
func (o *Ops) openDowngrade(ctx context.Context, c *compound.Call, a *nfs4.OpenDowngradeArgs, r *nfs4.OpenDowngradeRes) nfs4.Status {
	if s := c.Resolve(&a.OpenStateid); s != nfs4.OK {
		return s
	}
	v, s := o.onFile(ctx, here(c).Inode, state.DowngradeReq{
		Client: c.Client, File: here(c).Inode, Stateid: a.OpenStateid,
		Access: a.ShareAccess & nfs4.ShareAccessMask, Deny: a.ShareDeny,
	})
	if s == nfs4.OK {
		r.OpenStateid = v.Stateid
		c.SetStateid(v.Stateid)
	}
	return s
}

// onFile decides and applies a request that keeps nothing, under its file's lock.
func (o *Ops) onFile(ctx context.Context, ino uint64, r state.Request) (state.Verdict, nfs4.Status) {
	unlock, err := o.files.lock(ctx, ino)
	if err != nil {
		return state.Verdict{}, nfs4.ErrDelay
	}
	defer unlock()
	return o.decideApply(r)
}
