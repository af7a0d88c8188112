package op

import (
	"context"
	"slices"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// remove: RFC 8881 section 18.25.
func (o *Ops) remove(ctx context.Context, c *compound.Call, a *nfs4.RemoveArgs, r *nfs4.RemoveRes) nfs4.Status {
	if s := o.graceGate(); s != nfs4.OK {
		return s
	}
	files := o.named(ctx, c, name{here(c), a.Target})
	return o.take(ctx, c.Client, files, func(tx store.Tx) (t taken, err error) {
		gone, err := o.Volume.Remove(tx, c.Now, cred(c), here(c), a.Target)
		if err != nil {
			return t, err
		}
		r.CInfo = gone.Dir
		return taken{files: []uint64{gone.Inode.ID}, gone: &gone}, nil
	})
}

// rename: RFC 8881 section 18.26. From the saved directory to the current one.
func (o *Ops) rename(ctx context.Context, c *compound.Call, a *nfs4.RenameArgs, r *nfs4.RenameRes) nfs4.Status {
	if s := o.graceGate(); s != nfs4.OK {
		return s
	}
	if s := o.nameable(a.NewName); s != nfs4.OK {
		return s
	}
	files := o.named(ctx, c, name{saved(c), a.OldName}, name{here(c), a.NewName})
	return o.take(ctx, c.Client, files, func(tx store.Tx) (t taken, err error) {
		moved, err := o.Volume.Rename(tx, c.Now, cred(c), saved(c), a.OldName, here(c), a.NewName)
		if err != nil {
			return t, err
		}
		r.SourceCInfo, r.TargetCInfo = moved.Source, moved.Target
		t = taken{files: []uint64{moved.Inode.ID}, gone: moved.Replaced}
		if t.gone != nil {
			t.files = append(t.files, t.gone.Inode.ID)
		}
		return t, nil
	})
}

// name is a name in a directory.
type name struct {
	dir  layout.Handle
	name []byte
}

// named returns the inodes that names stand for, as far as the caller may know.
// It is a first guess: what is wrong with a name the operation itself finds.
func (o *Ops) named(ctx context.Context, c *compound.Call, names ...name) (files []uint64) {
	_ = o.Store.View(ctx, func(tx store.Tx) error {
		files = files[:0]
		for _, n := range names {
			if in, err := o.Volume.Lookup(tx, cred(c), n.dir, n.name); err == nil {
				files = append(files, in.ID)
			}
		}
		return nil
	})
	return files
}

// taken is what a REMOVE or RENAME is about.
type taken struct {
	files []uint64    // whose names change
	gone  *ns.Removed // what may have lost its last name, or nil
}

// take carries out a change of names under the locks of the files that the names
// stand for, when no client but the calling one has a delegation of them. try
// makes the change and says which files those are; it is undone and made again
// if they are not the ones that are locked.
func (o *Ops) take(ctx context.Context, client nfs4.ClientID, files []uint64, try func(store.Tx) (taken, error)) nfs4.Status {
	for range takeTries {
		slices.Sort(files)
		files = slices.Compact(files)
		unlock, err := o.files.lockAll(ctx, files)
		if err != nil {
			return nfs4.ErrDelay
		}
		var t taken
		barred, freed := uint64(0), false
		s := o.update(ctx, func(tx store.Tx) (err error) {
			barred, freed = 0, false
			if t, err = try(tx); err != nil {
				return err
			}
			for _, file := range t.files {
				if !slices.Contains(files, file) {
					return nfs4.ErrDelay
				}
				if o.delegated(file, client) {
					barred = file
					return nfs4.ErrDelay
				}
			}
			freed, err = o.freeNow(tx, t.gone)
			return err
		})
		if s == nfs4.OK {
			o.orphaned(t.gone, freed)
		}
		if barred != 0 {
			o.decide(state.DelegConflictReq{File: barred, Client: client, Change: true})
		}
		unlock()
		missed := slices.ContainsFunc(t.files, func(file uint64) bool { return !slices.Contains(files, file) })
		switch {
		case s == nfs4.ErrDelay && barred != 0 && o.awaitDelegs(ctx, barred, client):
		case s == nfs4.ErrDelay && barred == 0 && missed:
			files = t.files
		default:
			return s
		}
	}
	return nfs4.ErrDelay
}

// takeTries is how often a change of names is tried, because the names came to
// stand for something else or delegations were in the way.
const takeTries = 5

// freeNow frees a file that lost its last name, if nobody has it open. Its lock
// is held.
func (o *Ops) freeNow(tx store.Tx, gone *ns.Removed) (freed bool, err error) {
	if gone == nil || !gone.Last || gone.Inode.Type != nfs4.TypeReg {
		return false, nil
	}
	if o.opened(gone.Inode.ID) {
		return false, nil
	}
	return true, o.forget(tx, o.Volume.Handle(gone.Inode))
}

// orphaned completes what happened to a file that lost its last name: it is
// freed already, or has to be when nobody has it open any more. Its lock is held.
func (o *Ops) orphaned(gone *ns.Removed, freed bool) {
	switch {
	case freed:
		o.freed(gone.Inode)
	case gone != nil && gone.Last && gone.Inode.Type == nfs4.TypeReg:
		o.orphans.add(gone.Inode.ID)
		// Who has it open goes on. Who only has it delegated, and took the name
		// away itself, would keep it for good.
		o.decide(state.DelegConflictReq{File: gone.Inode.ID, Change: true})
		if !o.opened(gone.Inode.ID) { // it was closed before it was an orphan
			o.idle([]uint64{gone.Inode.ID})
		}
	}
}

// freed forgets what was noted of a file that is freed.
func (o *Ops) freed(in *ns.Inode) {
	o.orphans.drop(in.ID)
	o.marks.drop(in.ID)
	o.trimmed.drop(in.ID)
	o.Outbox.Kick(in.Layout.DS)
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
	if o.opened(ino) {
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
		o.freed(in)
	}
}

// opened says whether somebody has a file open or delegated.
func (o *Ops) opened(ino uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.State.Opens(ino) > 0
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

// background runs fn until it ends or the server stops. Once it stops nothing
// is begun.
func (o *Ops) background(fn func(context.Context)) {
	o.starting.Lock()
	defer o.starting.Unlock()
	if o.ctx.Err() == nil {
		o.work.Go(func() { fn(o.ctx) })
	}
}
