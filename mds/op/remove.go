package op

import (
	"context"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// remove: RFC 8881 section 18.25.
func (o *Ops) remove(ctx context.Context, c *compound.Call, a *nfs4.RemoveArgs, r *nfs4.RemoveRes) nfs4.Status {
	if s := o.graceGate(); s != nfs4.OK {
		return s
	}
	var gone ns.Removed
	s := o.update(ctx, func(tx store.Tx) (err error) {
		gone, err = o.Volume.Remove(tx, c.Now, cred(c), here(c), a.Target)
		return err
	})
	if s == nfs4.OK {
		r.CInfo = gone.Dir
		o.orphaned(&gone)
	}
	return s
}

// rename: RFC 8881 section 18.26. From the saved directory to the current one.
func (o *Ops) rename(ctx context.Context, c *compound.Call, a *nfs4.RenameArgs, r *nfs4.RenameRes) nfs4.Status {
	if s := o.graceGate(); s != nfs4.OK {
		return s
	}
	var moved ns.Renamed
	s := o.update(ctx, func(tx store.Tx) (err error) {
		moved, err = o.Volume.Rename(tx, c.Now, cred(c), saved(c), a.OldName, here(c), a.NewName)
		return err
	})
	if s == nfs4.OK {
		r.SourceCInfo, r.TargetCInfo = moved.Source, moved.Target
		o.orphaned(moved.Replaced)
	}
	return s
}

// orphaned frees a file that lost its last name, unless it is open.
func (o *Ops) orphaned(gone *ns.Removed) {
	if gone != nil && gone.Last && gone.Inode.Type == nfs4.TypeReg {
		o.orphans.add(gone.Inode.ID)
		o.idle([]uint64{gone.Inode.ID})
	}
}

// idle looks, in the background, at files that nobody has open any more, and
// frees those that have no name either. An orphan that this does not get to is
// found at the next start.
func (o *Ops) idle(inodes []uint64) {
	for _, ino := range inodes {
		if !o.orphans.has(ino) {
			continue
		}
		o.background(func(ctx context.Context) { o.free(ctx, ino) })
	}
}

// free frees a file if it has no name and nobody has it open: its inode goes,
// and its objects go onto the outbox in the same transaction. Layouts that are
// still out are fenced by their handles' generation going stale with the object.
func (o *Ops) free(ctx context.Context, ino uint64) {
	unlock, err := o.files.lock(ctx, ino)
	if err != nil {
		return
	}
	defer unlock()
	o.mu.Lock()
	opens := o.State.Opens(ino)
	o.mu.Unlock()
	if opens > 0 {
		return
	}
	var in *ns.Inode
	s := o.view(ctx, func(tx store.Tx) (err error) {
		in, err = o.Volume.GetID(tx, ino)
		return err
	})
	if s != nfs4.OK || in.Nlink > 0 || in.Type != nfs4.TypeReg {
		return
	}
	s = o.update(ctx, func(tx store.Tx) error { return o.forget(tx, o.Volume.Handle(in)) })
	if s == nfs4.OK {
		o.orphans.drop(ino)
		o.marks.drop(ino)
		o.trimmed.drop(ino)
		o.Outbox.Kick(in.Layout.DS)
	}
}

// forget drops an orphan's inode and asks for its objects' removal.
func (o *Ops) forget(tx store.Tx, h layout.Handle) error {
	in, err := o.Volume.Forget(tx, h)
	if err != nil {
		return err
	}
	if err := o.Volume.ClearOpenRW(tx, h); err != nil {
		return err
	}
	if len(in.Layout.DS) == 0 {
		return nil
	}
	return o.Outbox.Remove(tx, in.Layout.DS, o.Volume.Object(in))
}

// background runs fn until it ends or the server stops.
func (o *Ops) background(fn func(context.Context)) {
	o.work.Add(1)
	go func() {
		defer o.work.Done()
		fn(o.ctx)
	}()
}
