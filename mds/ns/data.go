package ns

import (
	"time"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// file returns the regular file of a handle: ErrIsDir, ErrInval for others.
func (v *Volume) file(tx store.Tx, h layout.Handle) (*Inode, error) {
	in, err := v.Get(tx, h)
	switch {
	case err != nil:
		return nil, err
	case in.Type == nfs4.TypeDir:
		return nil, nfs4.ErrIsDir
	case in.Type != nfs4.TypeReg:
		return nil, nfs4.ErrInval
	}
	return in, nil
}

// Wrote says that cred wrote to file and that end, in bytes, is one past the
// last byte written: the size grows to it but never shrinks; the change
// attribute, mtime and ctime are set, mtime to mtime if that is not nil and
// later than the file's, otherwise to now; set-id bits go unless cred is root.
// For LAYOUTCOMMIT (RFC 8881 section 18.42) and writes through the metadata
// server. Errors: ErrIsDir, ErrInval (no regular file, a bad mtime), ErrFBig.
func (v *Volume) Wrote(tx store.Tx, now time.Time, cred Cred, file layout.Handle, end uint64, mtime *nfs4.Time) (*Inode, error) {
	in, err := v.file(tx, file)
	switch {
	case err != nil:
		return nil, err
	case end > MaxFileSize:
		return nil, nfs4.ErrFBig
	case mtime != nil && !mtime.Valid():
		return nil, nfs4.ErrInval
	}
	old := in.Mtime
	in.modified(now)
	if mtime != nil && mtime.Compare(old) > 0 {
		in.Mtime = *mtime
	}
	in.Size = max(in.Size, end)
	if !cred.root() {
		in.Mode = dropSetID(in.Mode, &cred, in.GID)
	}
	return in, v.put(tx, in)
}

// SetSize sets the size of a regular file to what it was found to be, as a
// change of its data at now. Errors: ErrIsDir, ErrInval, ErrFBig.
func (v *Volume) SetSize(tx store.Tx, now time.Time, file layout.Handle, size uint64) (*Inode, error) {
	in, err := v.file(tx, file)
	if err != nil {
		return nil, err
	}
	if size > MaxFileSize {
		return nil, nfs4.ErrFBig
	}
	in.modified(now)
	in.Size = size
	return in, v.put(tx, in)
}

// SetLayout decides where a regular file's data is. It is no change that a
// client sees: times and the change attribute stay. Errors: ErrIsDir, ErrInval
// (no regular file, more than 1024 data servers).
func (v *Volume) SetLayout(tx store.Tx, file layout.Handle, l FileLayout) (*Inode, error) {
	in, err := v.file(tx, file)
	if err != nil {
		return nil, err
	}
	if len(l.DS) > maxFileDS {
		return nil, nfs4.ErrInval
	}
	in.Layout = l
	in.Layout.DS = append([]layout.DSID(nil), l.DS...)
	return in, v.put(tx, in)
}

// SetPolicy sets the policy of a directory, or of a regular file that has
// no data and no layout yet. Only its owner and root may: ErrPerm. Errors:
// ErrInval (another object, a file with data, a bad Policy).
func (v *Volume) SetPolicy(tx store.Tx, now time.Time, cred Cred, h layout.Handle, p Policy) (*Inode, error) {
	in, err := v.Get(tx, h)
	if err != nil {
		return nil, err
	}
	empty := in.Type == nfs4.TypeReg && in.Size == 0 && len(in.Layout.DS) == 0
	switch {
	case !cred.root() && cred.UID != in.UID:
		return nil, nfs4.ErrPerm
	case in.Type != nfs4.TypeDir && !empty, p.Unit%4096 != 0, len(p.Pool) > maxPool:
		return nil, nfs4.ErrInval
	}
	in.Policy = p
	in.changed(now)
	return in, v.put(tx, in)
}
