package op

import (
	"context"

	"manifold/mds/ns"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// create: RFC 8881 section 18.4. Regular files are made by OPEN.
func (o *Ops) create(ctx context.Context, c *compound.Call, a *nfs4.CreateArgs, r *nfs4.CreateRes) nfs4.Status {
	switch a.ObjType.Type {
	case nfs4.TypeDir, nfs4.TypeLnk, nfs4.TypeBlk, nfs4.TypeChr, nfs4.TypeSock, nfs4.TypeFifo:
	default:
		return nfs4.ErrBadType
	}
	if s := o.nameable(a.ObjName); s != nfs4.OK {
		return s
	}
	if s := settable(c, &a.CreateAttrs); s != nfs4.OK {
		return s
	}
	node := ns.Node{
		Type: a.ObjType.Type, Target: a.ObjType.LinkData, Rdev: a.ObjType.DevData,
		Attrs: &a.CreateAttrs, Guarded: true,
	}
	var made ns.Created
	s := o.update(ctx, func(tx store.Tx) (err error) {
		made, err = o.Volume.Create(tx, c.Now, cred(c), here(c), a.ObjName, &node)
		return err
	})
	if s != nfs4.OK {
		return s
	}
	r.CInfo, r.AttrSet = made.Dir, made.Set
	o.enter(c, made.Inode)
	return nfs4.OK
}
