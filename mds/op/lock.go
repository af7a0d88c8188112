package op

import (
	"context"

	"manifold/layout"
	"manifold/mds/state"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// lock: RFC 8881 section 18.10. A client that would wait polls, and is told when
// it is worth it.
func (o *Ops) lock(ctx context.Context, c *compound.Call, a *nfs4.LockArgs, r *nfs4.LockRes) nfs4.Status {
	if s := o.lockable(ctx, c, a.LockType); s != nfs4.OK {
		return s
	}
	req := state.LockReq{
		Client: c.Client, File: here(c).Inode, NewOwner: a.Locker.NewLockOwner, Stateid: a.Locker.LockStateid,
		Range: layout.Range{Offset: a.Offset, Length: a.Length}, Type: a.LockType, Reclaim: a.Reclaim,
		CanCallback: a.LockType >= nfs4.LockReadW && o.caller.CanCallback(c.Client),
	}
	if req.NewOwner {
		req.Stateid, req.Owner = a.Locker.OpenStateid, a.Locker.Owner.Owner
	}
	if s := c.Resolve(&req.Stateid); s != nfs4.OK {
		return s
	}
	v, s := o.lockOnce(ctx, here(c), req)
	switch s {
	case nfs4.OK:
		r.LockStateid = v.Stateid
		c.SetStateid(v.Stateid)
	case nfs4.ErrDenied:
		r.Denied = v.Denied
	}
	return s
}

// lockOnce decides and applies under the file's lock. What is not reclaimed
// waits for the fences of those who might.
func (o *Ops) lockOnce(ctx context.Context, h layout.Handle, req state.LockReq) (state.Verdict, nfs4.Status) {
	unlock, err := o.files.lock(ctx, req.File)
	if err != nil {
		return state.Verdict{}, nfs4.ErrDelay
	}
	defer unlock()
	v := o.decide(req)
	s := v.Status
	if s == nfs4.OK && !req.Reclaim {
		s = o.undisturbed(ctx, h)
	}
	switch {
	case s == nfs4.OK:
		s = o.apply(v.Change)
	case s == nfs4.ErrDenied && !v.Change.IsZero():
		_ = o.apply(v.Change) // if the client is going, it will not wait
	}
	return v, s
}

// lockt: RFC 8881 section 18.11.
func (o *Ops) lockt(ctx context.Context, c *compound.Call, a *nfs4.LockTArgs, r *nfs4.LockTRes) nfs4.Status {
	if s := o.lockable(ctx, c, a.LockType); s != nfs4.OK {
		return s
	}
	v, s := o.onFile(ctx, here(c).Inode, state.LocktReq{
		Client: c.Client, File: here(c).Inode, Owner: a.Owner.Owner,
		Range: layout.Range{Offset: a.Offset, Length: a.Length}, Type: a.LockType,
	})
	if s == nfs4.ErrDenied {
		r.Denied = v.Denied
	}
	return s
}

// locku: RFC 8881 section 18.12.
func (o *Ops) locku(ctx context.Context, c *compound.Call, a *nfs4.LockUArgs, r *nfs4.LockURes) nfs4.Status {
	if s := lockType(a.LockType); s != nfs4.OK {
		return s
	}
	if s := c.Resolve(&a.LockStateid); s != nfs4.OK {
		return s
	}
	v, s := o.onFile(ctx, here(c).Inode, state.LockuReq{
		Client: c.Client, File: here(c).Inode, Stateid: a.LockStateid,
		Range: layout.Range{Offset: a.Offset, Length: a.Length},
	})
	if s == nfs4.OK {
		r.LockStateid = v.Stateid
		c.SetStateid(v.Stateid)
	}
	return s
}

// lockable checks the type of lock, and that the current file can be locked.
func (o *Ops) lockable(ctx context.Context, c *compound.Call, t nfs4.LockType) nfs4.Status {
	if s := lockType(t); s != nfs4.OK {
		return s
	}
	in, s := o.inode(ctx, here(c))
	if s != nfs4.OK {
		return s
	}
	return regular(in)
}

func lockType(t nfs4.LockType) nfs4.Status {
	if t < nfs4.LockRead || t > nfs4.LockWriteW {
		return nfs4.ErrInval
	}
	return nfs4.OK
}
