package op

import (
	"context"

	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// link: RFC 8881 section 18.9. The saved filehandle is the file, the current
// one the directory.
func (o *Ops) link(ctx context.Context, c *compound.Call, a *nfs4.LinkArgs, r *nfs4.LinkRes) nfs4.Status {
	if s := o.nameable(a.NewName); s != nfs4.OK {
		return s
	}
	unlock, s := o.lockToChange(ctx, saved(c).Inode, c.Client)
	if s != nfs4.OK {
		return s
	}
	defer unlock()
	return o.update(ctx, func(tx store.Tx) (err error) {
		_, r.CInfo, err = o.Volume.Link(tx, c.Now, cred(c), saved(c), here(c), a.NewName)
		return err
	})
}
