package op

import (
	"context"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// setattr: RFC 8881 section 18.30.
func (o *Ops) setattr(ctx context.Context, c *compound.Call, a *nfs4.SetattrArgs, r *nfs4.SetattrRes) nfs4.Status {
	if a.ObjAttributes.Unknown {
		return nfs4.ErrAttrNotSupp
	}
	if s := settable(c, &a.ObjAttributes); s != nfs4.OK {
		return s
	}
	if s := c.Resolve(&a.Stateid); s != nfs4.OK {
		return s
	}
	if !a.ObjAttributes.Mask.Has(nfs4.AttrSize) {
		unlock, s := o.lockToChange(ctx, here(c).Inode, c.Client)
		if s != nfs4.OK {
			return s
		}
		defer unlock()
		var done ns.Changed
		s = o.update(ctx, func(tx store.Tx) (err error) {
			done, err = o.Volume.SetAttr(tx, c.Now, cred(c), here(c), &a.ObjAttributes, false)
			return err
		})
		r.AttrsSet = done.Set
		return s
	}
	writer, s := o.mayResize(c, a)
	if s != nfs4.OK {
		return s
	}
	if s := o.mayTruncate(ctx, c, writer); s != nfs4.OK {
		return s
	}
	unlock, s := o.alone(ctx, here(c).Inode, c.Client)
	if s != nfs4.OK {
		return s
	}
	defer unlock()
	if writer, s = o.mayResize(c, a); s != nfs4.OK {
		return s
	}
	r.AttrsSet, s = o.setSize(ctx, c, here(c), &a.ObjAttributes, writer)
	return s
}

// mayResize checks the stateid of a SETATTR of the size. writer says that it
// is one under which the file is open for writing.
func (o *Ops) mayResize(c *compound.Call, a *nfs4.SetattrArgs) (writer bool, s nfs4.Status) {
	v := o.decide(state.IOReq{
		Client: c.Client, File: here(c).Inode, Stateid: a.Stateid, Write: true, Empty: a.ObjAttributes.Size == 0,
	})
	return v.Status == nfs4.OK && !a.Stateid.IsSpecial(), v.Status
}

// mayTruncate checks the mode before others' layouts are recalled for a
// SETATTR that will be refused. What it lets pass is judged again.
func (o *Ops) mayTruncate(ctx context.Context, c *compound.Call, writer bool) nfs4.Status {
	in, s := o.inode(ctx, here(c))
	if s != nfs4.OK || writer || in.Type != nfs4.TypeReg {
		return s
	}
	return ns.StatusOf(in.Check(cred(c), ns.Perm{Write: true}))
}

// setSize sets attributes with the size among them, and answers only when no
// data server holds bytes past it any more: what was cut off must not come back
// when the file grows again. The file's lock is held, and no other client has a
// layout. If a data server does not answer in time the new size stands, the
// outbox goes on, and the client is told to ask again: NFS4ERR_DELAY.
func (o *Ops) setSize(ctx context.Context, c *compound.Call, h layout.Handle, a *nfs4.Attrs, writer bool) (set nfs4.Bitmap, s nfs4.Status) {
	var done ns.Changed
	cut, asked := false, o.Outbox.Pending(layout.Object(h))
	begun := o.cuts.begin(h.Inode)
	s = o.update(ctx, func(tx store.Tx) (err error) {
		if done, err = o.Volume.SetAttr(tx, c.Now, cred(c), h, a, writer); err != nil {
			return err
		}
		in := done.Inode
		// A marked file may be longer on the data servers than we know, unless
		// an earlier attempt has asked for the cut already.
		grown := o.marks.has(in.ID) && (in.Size != done.OldSize || !asked)
		cut = len(in.Layout.DS) > 0 && (in.Size < done.OldSize || grown)
		if !cut {
			return nil
		}
		return o.Outbox.Truncate(tx, in.Layout.DS, o.Volume.Object(in), in.Size)
	})
	begun()
	if s != nfs4.OK {
		return nfs4.Bitmap{}, s
	}
	obj := o.Volume.Object(done.Inode)
	if cut {
		if o.marks.has(h.Inode) { // else nobody has anything left to commit
			o.trimmed.add(h.Inode)
		}
		o.Outbox.Kick(done.Inode.Layout.DS)
	}
	if cut || o.Outbox.Pending(obj) {
		ctx, cancel := context.WithTimeout(ctx, o.cfg.Patience)
		defer cancel()
		if err := o.Outbox.WaitObject(ctx, obj); err != nil {
			return nfs4.Bitmap{}, nfs4.ErrDelay
		}
	}
	return done.Set, nfs4.OK
}
