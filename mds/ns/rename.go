package ns

import (
	"time"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// move is a Rename at work.
type move struct {
	src, dst *Inode // the same pointer if it is one directory
	in       *Inode // what moves
	old      *Inode // what has the new name, or nil
	newName  []byte
}

// Rename moves oldName of src to newName of dst, which may be one directory,
// and replaces what has that name (RFC 8881 section 18.26). If both name the
// same file nothing happens. Errors: those of Remove; ErrIsDir (a directory
// has the new name, and no directory is moved), ErrNotDir (the reverse; for
// both POSIX's errors, where the RFC has ErrExist), ErrNotEmpty, ErrInval (a
// directory into itself).
func (v *Volume) Rename(tx store.Tx, now time.Time, cred Cred, src layout.Handle, oldName []byte, dst layout.Handle, newName []byte) (Renamed, error) {
	m, err := v.directories(tx, src, dst)
	if err != nil {
		return Renamed{}, err
	}
	for _, name := range [][]byte{oldName, newName} {
		if err := status(nfs4.ValidName(name)); err != nil {
			return Renamed{}, err
		}
	}
	from, i, in, err := v.findToTake(tx, cred, m.src, oldName)
	if err != nil {
		return Renamed{}, err
	}
	m.in, m.newName = in, newName
	same, err := v.judgeTarget(tx, cred, m)
	if err != nil {
		return Renamed{}, err
	}
	r := Renamed{
		Inode:  in,
		Source: nfs4.ChangeInfo{Atomic: true, Before: m.src.Change},
		Target: nfs4.ChangeInfo{Atomic: true, Before: m.dst.Change},
	}
	if !same {
		if err := from.remove(tx, i); err != nil {
			return Renamed{}, err
		}
		if r.Replaced, err = v.move(tx, now, m); err != nil {
			return Renamed{}, err
		}
	}
	r.Source.After, r.Target.After = m.src.Change, m.dst.Change
	if r.Replaced != nil {
		r.Replaced.Dir = r.Target
	}
	return r, nil
}

// directories reads both directories: one copy if they are one.
func (v *Volume) directories(tx store.Tx, src, dst layout.Handle) (*move, error) {
	s, err := v.dir(tx, src)
	if err != nil {
		return nil, err
	}
	if src == dst {
		return &move{src: s, dst: s}, nil
	}
	d, err := v.dir(tx, dst)
	return &move{src: s, dst: d}, err
}

// judgeTarget looks up the new name, and says whether it is a name of what
// moves already, or why it cannot be that.
func (v *Volume) judgeTarget(tx store.Tx, cred Cred, m *move) (same bool, err error) {
	if err := m.dst.mayAdd(cred, m.in.Type); err != nil {
		return false, err
	}
	b, i, err := v.find(tx, m.dst.ID, m.newName)
	if err != nil {
		return false, err
	}
	isDir := m.in.Type == nfs4.TypeDir
	if i >= 0 {
		if b.entries[i].ino == m.in.ID {
			return true, nil
		}
		if m.old, err = v.inode(tx, b.entries[i].ino); err != nil {
			return false, err
		}
	}
	if isDir && m.src != m.dst {
		// The directory's ".." changes.
		if err := m.in.Check(cred, Perm{Write: true}); err != nil {
			return false, err
		}
		if err := v.outside(tx, m.dst, m.in); err != nil {
			return false, err
		}
	}
	if m.old == nil {
		return false, nil
	}
	switch {
	case isDir && m.old.Type != nfs4.TypeDir:
		return false, nfs4.ErrNotDir
	case !isDir && m.old.Type == nfs4.TypeDir:
		return false, nfs4.ErrIsDir
	case m.old.Entries > 0:
		return false, nfs4.ErrNotEmpty
	}
	return false, m.old.mayTake(cred, m.dst)
}

// outside returns ErrInval if directory d is top or below it. A way up that is
// longer than there are inodes goes round in circles.
func (v *Volume) outside(tx store.Tx, d, top *Inode) error {
	files, err := v.Files(tx)
	if err != nil {
		return err
	}
	for range files {
		if d.ID == top.ID {
			return nfs4.ErrInval
		}
		if d.ID == rootID {
			return nil
		}
		if d, err = v.inode(tx, d.Parent); err != nil {
			return err
		}
	}
	return corrupt(inodeKey(v.id, d.ID), "its own ancestor")
}

// move gives m.in its new name, the old one being gone, and writes everything.
func (v *Volume) move(tx store.Tx, now time.Time, m *move) (*Removed, error) {
	// Only now: removing the old name may have changed this row.
	b, i, err := v.find(tx, m.dst.ID, m.newName)
	if err != nil {
		return nil, err
	}
	m.src.Entries--
	m.dst.Entries++
	if m.in.Type == nfs4.TypeDir {
		m.src.Nlink--
		m.dst.Nlink++
		m.in.Parent = m.dst.ID
	}
	var replaced *Removed
	if m.old != nil {
		m.dst.Entries--
		if m.old.Type == nfs4.TypeDir {
			m.dst.Nlink--
		}
		replaced = &Removed{Inode: m.old}
		if replaced.Last, err = v.unlink(tx, now, m.old); err != nil {
			return nil, err
		}
		err = b.replace(tx, i, m.in)
	} else {
		err = b.insert(tx, m.newName, m.in)
	}
	if err != nil {
		return nil, err
	}
	m.in.changed(now)
	m.src.modified(now)
	if m.dst != m.src {
		m.dst.modified(now)
		if err := v.put(tx, m.dst); err != nil {
			return nil, err
		}
	}
	if err := v.put(tx, m.src); err != nil {
		return nil, err
	}
	return replaced, v.put(tx, m.in)
}
