package ns

import (
	"math"
	"time"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// Removed is the result of Remove.
type Removed struct {
	// Inode is what the name named, as it is now.
	Inode *Inode
	// Last says that this was the last name (Inode.Nlink is 0). A regular file
	// is then an orphan: it stays in the store until Forget. Everything else
	// is gone.
	Last bool
	Dir  nfs4.ChangeInfo
}

// Renamed is the result of Rename.
type Renamed struct {
	Inode          *Inode   // what has the new name
	Replaced       *Removed // what had it before, or nil; its Dir is Target
	Source, Target nfs4.ChangeInfo
}

// Remove takes name out of dir (RFC 8881 section 18.25). Errors: those of
// Lookup but ErrSymlink, ErrAccess (also for a sticky directory), ErrNotEmpty.
func (v *Volume) Remove(tx store.Tx, now time.Time, cred Cred, dir layout.Handle, name []byte) (Removed, error) {
	d, err := v.dir(tx, dir)
	if err != nil {
		return Removed{}, err
	}
	if err := status(nfs4.ValidName(name)); err != nil {
		return Removed{}, err
	}
	b, i, in, err := v.findToTake(tx, cred, d, name)
	if err != nil {
		return Removed{}, err
	}
	if in.Entries > 0 {
		return Removed{}, nfs4.ErrNotEmpty
	}
	r := Removed{Inode: in, Dir: nfs4.ChangeInfo{Atomic: true, Before: d.Change}}
	if err := b.remove(tx, i); err != nil {
		return Removed{}, err
	}
	d.Entries--
	if in.Type == nfs4.TypeDir {
		d.Nlink--
	}
	d.modified(now)
	r.Dir.After = d.Change
	if err := v.put(tx, d); err != nil {
		return Removed{}, err
	}
	r.Last, err = v.unlink(tx, now, in)
	return r, err
}

// findToTake returns the row and the inode of a name that cred may take out of
// directory d.
func (v *Volume) findToTake(tx store.Tx, cred Cred, d *Inode, name []byte) (*bucket, int, *Inode, error) {
	if err := d.Check(cred, Perm{Exec: true}); err != nil {
		return nil, 0, nil, err
	}
	b, i, err := v.find(tx, d.ID, name)
	if err != nil {
		return nil, 0, nil, err
	}
	if i < 0 {
		return nil, 0, nil, nfs4.ErrNoEnt
	}
	in, err := v.inode(tx, b.entries[i].ino)
	if err != nil {
		return nil, 0, nil, err
	}
	return b, i, in, in.mayTake(cred, d)
}

// unlink takes one name from in, whose row in its directory is gone. A regular
// file that had no other becomes an orphan, since somebody may have it open;
// anything else without a name is erased.
func (v *Volume) unlink(tx store.Tx, now time.Time, in *Inode) (last bool, err error) {
	in.changed(now)
	if in.Type == nfs4.TypeDir {
		in.Nlink = 0
	} else {
		in.Nlink--
	}
	if in.Nlink > 0 {
		return false, v.put(tx, in)
	}
	if in.Type != nfs4.TypeReg {
		return true, v.erase(tx, in)
	}
	if err := tx.Put(noteKey(prefixOrphan, v.id, in.ID, in.Gen), nil); err != nil {
		return true, err
	}
	return true, v.put(tx, in)
}

// Forget drops the inode of an orphan for good and returns it as it last was;
// what its objects hold is the caller's to remove, in the same Tx. ErrInval if
// it still has a name; ErrStale if it is not there.
func (v *Volume) Forget(tx store.Tx, h layout.Handle) (*Inode, error) {
	in, err := v.Get(tx, h)
	if err != nil {
		return nil, err
	}
	if in.Nlink > 0 {
		return nil, nfs4.ErrInval
	}
	if err := v.erase(tx, in); err != nil {
		return nil, err
	}
	if err := v.ClearOpenRW(tx, h); err != nil {
		return nil, err
	}
	return in, tx.Delete(noteKey(prefixOrphan, v.id, in.ID, in.Gen))
}

// ScanOrphans calls fn for each orphan with an inode number above after, in
// ascending order, until fn returns false. fn may call Forget.
func (v *Volume) ScanOrphans(tx store.Tx, after uint64, fn func(layout.Handle) (more bool, err error)) error {
	return v.scanNotes(tx, prefixOrphan, after, fn)
}

// MarkOpenRW notes that a RW layout of the file may be out, so that its size may
// grow without word to the metadata server. It costs a write only if the note
// is not there yet.
func (v *Volume) MarkOpenRW(tx store.Tx, h layout.Handle) error {
	key := noteKey(prefixOpenRW, v.id, h.Inode, h.Gen)
	if row, err := tx.Get(key); err != nil || row != nil {
		return err
	}
	return tx.Put(key, nil)
}

// ClearOpenRW takes MarkOpenRW's note back, if there is one.
func (v *Volume) ClearOpenRW(tx store.Tx, h layout.Handle) error {
	key := noteKey(prefixOpenRW, v.id, h.Inode, h.Gen)
	if row, err := tx.Get(key); err != nil || row == nil {
		return err
	}
	return tx.Delete(key)
}

// ScanOpenRW calls fn for each file noted by MarkOpenRW with an inode number
// above after, in ascending order, until fn returns false. fn may call
// ClearOpenRW.
func (v *Volume) ScanOpenRW(tx store.Tx, after uint64, fn func(layout.Handle) (more bool, err error)) error {
	return v.scanNotes(tx, prefixOpenRW, after, fn)
}

func (v *Volume) scanNotes(tx store.Tx, prefix byte, after uint64, fn func(layout.Handle) (bool, error)) error {
	if after == math.MaxUint64 {
		return nil
	}
	from := noteKey(prefix, v.id, after+1, 0)
	return tx.Scan(from, keyAfter(key32(prefix, v.id)), func(key, _ []byte) (bool, error) {
		ino, gen, ok := splitNoteKey(key)
		if !ok {
			return false, corrupt(key, "length")
		}
		return fn(layout.Handle{Volume: v.id, Inode: ino, Gen: gen})
	})
}
