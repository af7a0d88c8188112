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

// opening is one OPEN on its way.
type opening struct {
	req state.OpenReq
	in  *ns.Inode
	// creator may open with any access, whatever the mode it gave the file.
	creator bool
	// cut says that an existing file is to become empty.
	cut bool
}

// open: RFC 8881 section 18.16.
func (o *Ops) open(ctx context.Context, c *compound.Call, a *nfs4.OpenArgs, r *nfs4.OpenRes) nfs4.Status {
	req := state.OpenReq{
		Client: c.Client, Owner: a.Owner.Owner, Access: a.ShareAccess & nfs4.ShareAccessMask, Deny: a.ShareDeny,
		Want: a.ShareAccess &^ nfs4.ShareAccessMask,
	}
	if req.Access == 0 || req.Deny > nfs4.ShareDenyBoth {
		return nfs4.ErrInval
	}
	for try := 1; ; try++ {
		op := opening{req: req}
		s := o.openClaim(ctx, c, a, r, &op)
		if s != nfs4.OK {
			return s
		}
		s = o.openInode(ctx, c, r, &op)
		if s != nfs4.OK && s != nfs4.ErrNoEnt && op.creator {
			o.unmake(ctx, c, a.Claim.Name, op.in)
		}
		if s != nfs4.ErrNoEnt || a.How.OpenType != nfs4.OpenCreate || try == openTries {
			return s
		}
		*r = nfs4.OpenRes{} // it was removed since it was found: make it anew
	}
}

// openTries is how often OPEN tries to make a file that others remove.
const openTries = 5

// openClaim finds the file that is to be opened, or makes it.
func (o *Ops) openClaim(ctx context.Context, c *compound.Call, a *nfs4.OpenArgs, r *nfs4.OpenRes, op *opening) (s nfs4.Status) {
	create := a.How.OpenType == nfs4.OpenCreate
	switch a.Claim.Type {
	case nfs4.ClaimNull:
		if create {
			return o.openCreate(ctx, c, a, r, op)
		}
		return o.openName(ctx, c, a.Claim.Name, r, op)
	case nfs4.ClaimFH, nfs4.ClaimPrevious:
		op.req.Reclaim = a.Claim.Type == nfs4.ClaimPrevious
		op.req.Prev = a.Claim.PrevDelegType
		if create {
			return nfs4.ErrInval
		}
		op.in, s = o.inode(ctx, here(c))
		return s
	case nfs4.ClaimDelegateCur, nfs4.ClaimDelegCurFH:
		return o.openDelegated(ctx, c, a, r, op)
	}
	return nfs4.ErrNotSupp // delegations do not outlive a restart of the client
}

// openDelegated finds a file that the client has opened by itself, under a
// delegation.
func (o *Ops) openDelegated(ctx context.Context, c *compound.Call, a *nfs4.OpenArgs, r *nfs4.OpenRes, op *opening) (s nfs4.Status) {
	if a.How.OpenType == nfs4.OpenCreate {
		return nfs4.ErrInval
	}
	op.req.DelegCur, op.req.Deleg = true, a.Claim.DelegStateid
	if s := c.Resolve(&op.req.Deleg); s != nfs4.OK {
		return s
	}
	if a.Claim.Type == nfs4.ClaimDelegateCur {
		return o.openName(ctx, c, a.Claim.Name, r, op)
	}
	op.in, s = o.inode(ctx, here(c))
	return s
}

// openName looks the file up.
func (o *Ops) openName(ctx context.Context, c *compound.Call, name []byte, r *nfs4.OpenRes, op *opening) nfs4.Status {
	return o.view(ctx, func(tx store.Tx) (err error) {
		if op.in, err = o.Volume.Lookup(tx, cred(c), here(c), name); err != nil {
			return err
		}
		dir, err := o.Volume.Get(tx, here(c))
		if err == nil {
			r.CInfo = nfs4.ChangeInfo{Atomic: true, Before: dir.Change, After: dir.Change}
		}
		return err
	})
}

// openCreate makes the file, or finds it as its create mode allows. Where the
// file's data will be is decided in the same transaction if it is opened for
// writing, so that a LAYOUTGET that follows costs none.
func (o *Ops) openCreate(ctx context.Context, c *compound.Call, a *nfs4.OpenArgs, r *nfs4.OpenRes, op *opening) nfs4.Status {
	if s := o.graceGate(); s != nfs4.OK {
		return s
	}
	how := &a.How.CreateHow
	if s := settable(c, &how.Attrs); s != nfs4.OK {
		return s
	}
	if how.Mode == nfs4.CreateUnchecked {
		s := o.openName(ctx, c, a.Claim.Name, r, op)
		if s != nfs4.ErrNoEnt {
			op.cut = s == nfs4.OK && how.Attrs.Mask.Has(nfs4.AttrSize) && how.Attrs.Size == 0
			if op.cut {
				r.AttrSet.Set(nfs4.AttrSize)
			}
			return s
		}
	}
	if readOnly(c) {
		if s := o.openName(ctx, c, a.Claim.Name, r, op); s == nfs4.OK {
			return nfs4.ErrExist
		} else if s != nfs4.ErrNoEnt {
			return s
		}
		return nfs4.ErrROFS
	}
	node, s := createNode(c.Minor, how)
	if s != nfs4.OK {
		return s
	}
	if s := o.nameable(a.Claim.Name); s != nfs4.OK {
		return s
	}
	if s := o.roomToCreate(ctx, c, a, r, op); s != nfs4.OK {
		return s
	}
	var made ns.Created
	s = o.update(ctx, func(tx store.Tx) (err error) {
		if made, err = o.Volume.Create(tx, c.Now, cred(c), here(c), a.Claim.Name, &node); err != nil {
			return err
		}
		// An exclusive create that is sent again finds its file placed, and
		// perhaps with data.
		if made.New && op.req.Access&nfs4.ShareAccessWrite != 0 && len(made.Inode.Layout.DS) == 0 {
			return o.placeNew(tx, made.Inode)
		}
		return nil
	})
	if s != nfs4.OK {
		return s
	}
	op.in, op.creator, op.req.Created = made.Inode, made.New, made.New
	r.CInfo, r.AttrSet = made.Dir, made.Set
	if made.New && op.req.Access&nfs4.ShareAccessWrite != 0 && len(op.in.Layout.DS) > 0 {
		o.marks.add(op.in.ID)
	}
	return nfs4.OK
}

// roomToCreate refuses an OPEN before it makes a file that it could not open
// then: one that is told to come again would find that the file exists.
func (o *Ops) roomToCreate(ctx context.Context, c *compound.Call, a *nfs4.OpenArgs, r *nfs4.OpenRes, op *opening) nfs4.Status {
	o.mu.Lock()
	v := o.State.MayOpen(c.Client)
	o.mu.Unlock()
	o.tell(&v.Effects)
	if v.Status != nfs4.OK && o.openName(ctx, c, a.Claim.Name, r, op) == nfs4.ErrNoEnt {
		return v.Status
	}
	return nfs4.OK
}

// createNode is what OPEN is to make.
func createNode(minor uint32, how *nfs4.CreateHow) (ns.Node, nfs4.Status) {
	node := ns.Node{Type: nfs4.TypeReg, Attrs: &how.Attrs}
	switch how.Mode {
	case nfs4.CreateUnchecked:
	case nfs4.CreateGuarded:
		node.Guarded = true
	case nfs4.CreateExclusive4_1:
		node.Exclusive, node.Verifier = true, how.Verifier
		if how.Attrs.Mask.And(ofExclusive(minor)) != how.Attrs.Mask {
			return node, nfs4.ErrInval
		}
	case nfs4.CreateExclusive:
		node.Exclusive, node.Verifier = true, how.Verifier
		node.Attrs = &nfs4.Attrs{}
	default:
		return node, nfs4.ErrInval
	}
	return node, nfs4.OK
}

// placeNew decides where a new file's data goes. That no data server can be
// had now is no reason to refuse the create: LAYOUTGET tries again.
func (o *Ops) placeNew(tx store.Tx, in *ns.Inode) error {
	l, err := o.Fleet.Place(in.Policy, in.ID)
	if err != nil {
		return nil
	}
	h := o.Volume.Handle(in)
	placed, err := o.Volume.SetLayout(tx, h, l)
	if err != nil {
		return err
	}
	in.Layout = placed.Layout
	return o.Volume.MarkOpenRW(tx, h)
}

// openInode opens the file that was found or made. Delegations in the way are
// waited for, not for long.
func (o *Ops) openInode(ctx context.Context, c *compound.Call, r *nfs4.OpenRes, op *opening) (s nfs4.Status) {
	if s := regular(op.in); s != nfs4.OK {
		return s
	}
	if s := mayOpen(c, op); s != nfs4.OK {
		return s
	}
	op.req.File = op.in.ID
	for range delegTries {
		if s = o.openOnce(ctx, c, r, op); s != nfs4.ErrDelay || !o.awaitDelegs(ctx, op.in.ID, c.Client) {
			break
		}
	}
	return s
}

// openOnce opens the file unless something is in the way.
func (o *Ops) openOnce(ctx context.Context, c *compound.Call, r *nfs4.OpenRes, op *opening) nfs4.Status {
	unlock, s := o.lockToOpen(ctx, c, op)
	if s != nfs4.OK {
		return s
	}
	defer unlock()
	h := o.Volume.Handle(op.in)
	in, s := o.stillThere(ctx, h)
	if s != nfs4.OK {
		return s
	}
	// A file without a name goes with its last open: nobody is to keep it.
	calls := o.caller.CanCallback(c.Client)
	op.req.CanCallback = calls && in.Nlink > 0
	v, s := o.decideOpen(ctx, h, &op.req)
	if s != nfs4.OK {
		return s
	}
	if op.cut {
		if in, s = o.cutOpened(ctx, c, h, op); s != nfs4.OK {
			return s
		}
	}
	if s := o.apply(v.Change); s != nfs4.OK {
		return s
	}
	o.note(&v.Delegation, in)
	o.enter(c, op.in)
	c.SetStateid(v.Stateid)
	r.Stateid = v.Stateid
	r.RFlags = nfs4.OpenResultLocktypePosix | nfs4.OpenResultPreserveUnlinked
	if calls {
		r.RFlags |= nfs4.OpenResultMayNotifyLock
	}
	r.Delegation = o.delegation(op, in, &v)
	return nfs4.OK
}

// cutOpened makes a file empty that is about to be opened. One that is opened for
// reading is written to all the same: nobody may deny that.
func (o *Ops) cutOpened(ctx context.Context, c *compound.Call, h layout.Handle, op *opening) (*ns.Inode, nfs4.Status) {
	if op.req.Access&nfs4.ShareAccessWrite == 0 {
		write := state.IOReq{Client: c.Client, File: h.Inode, Stateid: nfs4.StateidAnonymous(), Write: true}
		switch s := o.decide(write).Status; s {
		case nfs4.OK:
		case nfs4.ErrLocked:
			return nil, nfs4.ErrShareDenied
		default:
			return nil, s
		}
	}
	zero := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}
	if _, s := o.setSize(ctx, c, h, &zero, true); s != nfs4.OK {
		return nil, s
	}
	return o.stillThere(ctx, h)
}

// lockToOpen takes the file's lock. If the open will cut the file, nobody else
// has a delegation or a layout then.
func (o *Ops) lockToOpen(ctx context.Context, c *compound.Call, op *opening) (unlock func(), s nfs4.Status) {
	if op.cut {
		return o.alone(ctx, op.in.ID, c.Client)
	}
	unlock, err := o.files.lock(ctx, op.in.ID)
	if err != nil {
		return nil, nfs4.ErrDelay
	}
	return unlock, nfs4.OK
}

// stillThere makes sure, under the file's lock, that the file was not freed
// between look-up and lock: once its open is applied it will not be.
func (o *Ops) stillThere(ctx context.Context, h layout.Handle) (*ns.Inode, nfs4.Status) {
	in, s := o.inode(ctx, h)
	if s == nfs4.ErrStale {
		return nil, nfs4.ErrNoEnt
	}
	return in, s
}

// mayOpen checks the export and the mode. Reclaims the mode allowed once already.
func mayOpen(c *compound.Call, op *opening) nfs4.Status {
	if (op.req.Access&nfs4.ShareAccessWrite != 0 || op.cut) && readOnly(c) {
		return nfs4.ErrROFS
	}
	if op.creator || op.req.Reclaim {
		return nfs4.OK
	}
	return ns.StatusOf(op.in.Check(cred(c), ns.Perm{
		Read:       op.req.Access&nfs4.ShareAccessRead != 0,
		Write:      op.req.Access&nfs4.ShareAccessWrite != 0 || op.cut,
		ReadIfExec: true,
		// Under the delegation it was allowed, and the owner may have changed
		// the mode since.
		OwnerOverride: op.req.DelegCur,
	}))
}
