package ns

import (
	"bytes"
	"encoding/binary"
	"time"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// Bounds on the extended attributes of one inode: how many, and the bytes of
// their names and values. One transaction is able to delete them all.
const (
	maxXattrs     = 1024
	maxXattrBytes = 1 << 20
)

// xattrUsage is what an inode's extended attributes come to.
type xattrUsage struct{ count, bytes uint32 }

// mayHaveXattrs says whether the object can have extended attributes: as for
// those of users on Linux, files and directories can.
func (in *Inode) mayHaveXattrs() bool {
	return in.Type == nfs4.TypeReg || in.Type == nfs4.TypeDir
}

// xattrsStuck says whether cred may not change extended attributes for the
// sticky bit: in a directory that everybody may write to, only the owner may.
func (in *Inode) xattrsStuck(cred *Cred) bool {
	return in.Type == nfs4.TypeDir && in.Mode&modeSticky != 0 && !cred.root() && cred.UID != in.UID
}

// validXattr judges a name: 1 to 255 bytes without NUL.
func validXattr(name []byte) error {
	switch {
	case len(name) == 0:
		return nfs4.ErrInval
	case len(name) > nfs4.MaxNameLen:
		return nfs4.ErrNameTooLong
	case bytes.IndexByte(name, 0) >= 0:
		return nfs4.ErrBadChar
	}
	return nil
}

// GetXattr returns the value of an extended attribute, good as long as the Tx
// is. Errors: ErrAccess (reading it takes the right to read the object),
// ErrNoXattr; ErrInval, ErrNameTooLong and ErrBadChar for a name that is not 1 to
// 255 bytes without NUL. RFC 8276 section 8.4.1.
func (v *Volume) GetXattr(tx store.Tx, cred Cred, h layout.Handle, name []byte) ([]byte, error) {
	in, err := v.Get(tx, h)
	if err != nil {
		return nil, err
	}
	if err := validXattr(name); err != nil {
		return nil, err
	}
	if err := in.Check(cred, Perm{Read: true}); err != nil {
		return nil, err
	}
	x, err := v.findXattr(tx, in, name)
	if err == nil && !x.found {
		err = nfs4.ErrNoXattr
	}
	return x.value, err
}

// SetXattr makes an extended attribute or gives one a new value; option is one
// of nfs4's. Errors: those of GetXattr for the name; ErrAccess (it takes the right
// to write the object), ErrPerm (neither file nor directory, a sticky directory
// of somebody else's), ErrExist, ErrNoXattr, ErrXattr2Big (over MaxXattr),
// ErrNoSpc (the inode has too many or too much in all), ErrInval for the option.
// RFC 8276 section 8.4.2.
func (v *Volume) SetXattr(tx store.Tx, now time.Time, cred Cred, h layout.Handle, option uint32, name, value []byte) (nfs4.ChangeInfo, error) {
	in, x, err := v.xattrToChange(tx, cred, h, name)
	switch {
	case err != nil:
		return nfs4.ChangeInfo{}, err
	case option > nfs4.XattrReplace:
		return nfs4.ChangeInfo{}, nfs4.ErrInval
	case len(value) > MaxXattr:
		return nfs4.ChangeInfo{}, nfs4.ErrXattr2Big
	case option == nfs4.XattrCreate && x.found:
		return nfs4.ChangeInfo{}, nfs4.ErrExist
	case option == nfs4.XattrReplace && !x.found:
		return nfs4.ChangeInfo{}, nfs4.ErrNoXattr
	}
	u := &in.xattrs
	if x.found {
		u.bytes -= uint32(len(x.value))
	} else {
		if x.cookie == 0 {
			return nfs4.ChangeInfo{}, nfs4.ErrNoSpc
		}
		u.count++
		u.bytes += uint32(len(name))
	}
	u.bytes += uint32(len(value))
	if u.count > maxXattrs || u.bytes > maxXattrBytes {
		return nfs4.ChangeInfo{}, nfs4.ErrNoSpc
	}
	row := newRow(formXattr, 32+len(name)+len(value))
	row.Opaque(name)
	row.Opaque(value)
	if err := putRow(tx, xattrKey(v.id, in.ID, x.cookie), &row); err != nil {
		return nfs4.ChangeInfo{}, err
	}
	return v.xattrsChanged(tx, now, in)
}

// RemoveXattr takes an extended attribute away. Errors: those of SetXattr.
// RFC 8276 section 8.4.4.
func (v *Volume) RemoveXattr(tx store.Tx, now time.Time, cred Cred, h layout.Handle, name []byte) (nfs4.ChangeInfo, error) {
	in, x, err := v.xattrToChange(tx, cred, h, name)
	if err == nil && !x.found {
		err = nfs4.ErrNoXattr
	}
	if err != nil {
		return nfs4.ChangeInfo{}, err
	}
	in.xattrs.count--
	in.xattrs.bytes -= uint32(len(name) + len(x.value))
	if err := tx.Delete(xattrKey(v.id, in.ID, x.cookie)); err != nil {
		return nfs4.ChangeInfo{}, err
	}
	return v.xattrsChanged(tx, now, in)
}

// ListXattrs calls fn for the names of extended attributes after cookie, in the
// order of their cookies, until fn returns false, and says whether it got to
// the end. A cookie of 0 begins; cookies stay good as attributes come and go. A
// name is good as long as the Tx is. Errors: ErrAccess (it takes the right to read
// the object), ErrBadCookie. RFC 8276 section 8.4.3.
func (v *Volume) ListXattrs(tx store.Tx, cred Cred, h layout.Handle, cookie uint64, fn func(cookie uint64, name []byte) (more bool)) (eof bool, err error) {
	in, err := v.Get(tx, h)
	if err != nil {
		return false, err
	}
	if err := in.Check(cred, Perm{Read: true}); err != nil {
		return false, err
	}
	if cookie != 0 && cookie < slots || cookie > maxHash<<slotBits|(slots-1) {
		return false, nfs4.ErrBadCookie
	}
	eof = true
	err = v.scanXattrs(tx, in, cookie+1, maxHash<<slotBits|(slots-1), func(at uint64, name, _ []byte) (bool, error) {
		eof = fn(at, name)
		return eof, nil
	})
	return eof && err == nil, err
}

// xattrAt is where an extended attribute is, or could be: cookie 0 is nowhere.
type xattrAt struct {
	cookie uint64
	value  []byte
	found  bool
}

// findXattr looks an extended attribute up. As with names in directories (see
// hashName), its place is its hash and a slot.
func (v *Volume) findXattr(tx store.Tx, in *Inode, name []byte) (xattrAt, error) {
	first := v.hash(&v.hashKey, name) << slotBits
	at := xattrAt{}
	free := first
	err := v.scanXattrs(tx, in, first, first|(slots-1), func(cookie uint64, is, value []byte) (bool, error) {
		if bytes.Equal(is, name) {
			at = xattrAt{cookie: cookie, value: value, found: true}
			return false, nil
		}
		if free == cookie {
			free++
		}
		return true, nil
	})
	if !at.found && free < first+slots {
		at.cookie = free
	}
	return at, err
}

// scanXattrs calls fn for extended attributes of in from one cookie to another,
// the last one included, until it returns false.
func (v *Volume) scanXattrs(tx store.Tx, in *Inode, from, last uint64, fn func(cookie uint64, name, value []byte) (bool, error)) error {
	if in.xattrs.count == 0 {
		return nil
	}
	return tx.Scan(xattrKey(v.id, in.ID, from), xattrKey(v.id, in.ID, last+1), func(key, row []byte) (bool, error) {
		name, value, err := decodeXattr(key, row)
		if err != nil {
			return false, err
		}
		return fn(binary.BigEndian.Uint64(key[len(key)-8:]), name, value)
	})
}

// decodeXattr reads a row. Name and value alias it.
func decodeXattr(key, row []byte) (name, value []byte, err error) {
	d, err := openRow(key, row, formXattr)
	if err != nil {
		return nil, nil, err
	}
	name, value = d.Opaque(nfs4.MaxNameLen), d.Opaque(MaxXattr)
	return name, value, closeRow(key, &d, len(name) > 0)
}

// xattrToChange returns an inode and where in it an attribute is, if cred may
// change it.
func (v *Volume) xattrToChange(tx store.Tx, cred Cred, h layout.Handle, name []byte) (*Inode, xattrAt, error) {
	in, err := v.Get(tx, h)
	switch {
	case err != nil:
		return nil, xattrAt{}, err
	case !in.mayHaveXattrs(), in.xattrsStuck(&cred):
		return nil, xattrAt{}, nfs4.ErrPerm
	}
	if err := validXattr(name); err != nil {
		return nil, xattrAt{}, err
	}
	if err := in.Check(cred, Perm{Write: true}); err != nil {
		return nil, xattrAt{}, err
	}
	x, err := v.findXattr(tx, in, name)
	return in, x, err
}

// xattrsChanged writes in, whose extended attributes changed.
func (v *Volume) xattrsChanged(tx store.Tx, now time.Time, in *Inode) (nfs4.ChangeInfo, error) {
	info := nfs4.ChangeInfo{Atomic: true, Before: in.Change}
	in.changed(now)
	info.After = in.Change
	return info, v.put(tx, in)
}

// eraseXattrs deletes all extended attributes of an inode that goes.
func (v *Volume) eraseXattrs(tx store.Tx, in *Inode) error {
	if in.xattrs.count == 0 {
		return nil
	}
	from := inodeRowKey(prefixXattr, v.id, in.ID)
	return tx.Scan(from, keyAfter(from), func(key, _ []byte) (bool, error) { return true, tx.Delete(key) })
}
