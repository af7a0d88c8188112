package ns

import (
	"bytes"
	"time"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// Node is what Create is to make.
type Node struct {
	Type   nfs4.FileType // Reg, Dir, Blk, Chr, Lnk, Sock or Fifo
	Target []byte        // Lnk: 1 to 4096 bytes without NUL
	Rdev   nfs4.SpecData // Blk, Chr

	// Attrs, which may be nil, are the initial attributes: those of
	// SettableMask and MODE_UMASK, whose umask is applied unless the object
	// inherits an ACL, whose mode then bounds the ACL (RFC 8275). Without a mode it is 0600 (0700 of
	// directories, 0777 of symbolic links) or that of the ACL that it inherits.
	Attrs *nfs4.Attrs

	// What happens if the name is there. Neither: a regular file is what
	// Create returns, as it is (UNCHECKED4). Guarded: ErrExist. Exclusive: it
	// is success if the file was made by an exclusive create with the
	// same Verifier, and ErrExist otherwise (EXCLUSIVE4, EXCLUSIVE4_1).
	Guarded   bool
	Exclusive bool
	Verifier  nfs4.Verifier
}

// Created is the result of Create.
type Created struct {
	Inode *Inode
	// New says that the caller is the file's creator: this call made it or an
	// earlier one with the same verifier. Its open needs no permission check.
	New bool
	// Set are the attributes of Node.Attrs that were set; zero if New is false.
	Set nfs4.Bitmap
	Dir nfs4.ChangeInfo
}

// dir returns the directory of a handle, or ErrNotDir.
func (v *Volume) dir(tx store.Tx, h layout.Handle) (*Inode, error) {
	in, err := v.Get(tx, h)
	if err != nil {
		return nil, err
	}
	if in.Type != nfs4.TypeDir {
		return nil, nfs4.ErrNotDir
	}
	return in, nil
}

// searchable is dir for those who look something up: they have to be told of a
// symbolic link, and need permission to search.
func (v *Volume) searchable(tx store.Tx, cred Cred, h layout.Handle) (*Inode, error) {
	in, err := v.Get(tx, h)
	switch {
	case err != nil:
		return nil, err
	case in.Type == nfs4.TypeLnk:
		return nil, nfs4.ErrSymlink
	case in.Type != nfs4.TypeDir:
		return nil, nfs4.ErrNotDir
	}
	return in, in.Check(cred, Perm{Exec: true})
}

// Lookup returns what name is in dir. Errors: ErrNotDir, ErrSymlink (dir is a
// symbolic link), ErrAccess (no search permission), ErrNoEnt; and those of
// nfs4.ValidName. RFC 8881 section 18.13.
func (v *Volume) Lookup(tx store.Tx, cred Cred, dir layout.Handle, name []byte) (*Inode, error) {
	d, err := v.searchable(tx, cred, dir)
	if err != nil {
		return nil, err
	}
	if err := status(nfs4.ValidName(name)); err != nil {
		return nil, err
	}
	b, i, err := v.find(tx, d.ID, name)
	if err != nil {
		return nil, err
	}
	if i < 0 {
		return nil, nfs4.ErrNoEnt
	}
	return v.inode(tx, b.entries[i].ino)
}

// LookupParent returns the directory that dir is in: ErrNoEnt for the root
// (RFC 8881 section 18.14).
func (v *Volume) LookupParent(tx store.Tx, cred Cred, dir layout.Handle) (*Inode, error) {
	d, err := v.searchable(tx, cred, dir)
	if err != nil {
		return nil, err
	}
	if d.ID == rootID {
		return nil, nfs4.ErrNoEnt
	}
	return v.inode(tx, d.Parent)
}

// Create makes node in dir under name (RFC 8881 sections 18.4, 18.16). Errors:
// those of Lookup but ErrSymlink for dir; ErrAccess (no write permission in
// dir), ErrExist; ErrIsDir and ErrSymlink if an unchecked create finds a
// directory or a symbolic link, ErrExist if it finds another special file;
// ErrBadType; ErrPerm (an owner or group that the caller may not give, a device
// not made by root); those of SetAttr for attributes.
func (v *Volume) Create(tx store.Tx, now time.Time, cred Cred, dir layout.Handle, name []byte, node *Node) (Created, error) {
	d, err := v.dir(tx, dir)
	if err != nil {
		return Created{}, err
	}
	if err := status(nfs4.ValidName(name)); err != nil {
		return Created{}, err
	}
	s, err := node.settings(now)
	if err != nil {
		return Created{}, err
	}
	if err := d.Check(cred, Perm{Exec: true}); err != nil {
		return Created{}, err
	}
	b, i, err := v.find(tx, d.ID, name)
	if err != nil {
		return Created{}, err
	}
	if i >= 0 {
		return v.found(tx, d, b.entries[i].ino, node, &s)
	}
	if err := d.mayAdd(cred, node.Type); err != nil {
		return Created{}, err
	}
	in, err := v.make(tx, now, &cred, d, node, &s)
	if err != nil {
		return Created{}, err
	}
	before := d.Change
	if err := v.addName(tx, now, d, b, name, in); err != nil {
		return Created{}, err
	}
	return Created{Inode: in, New: true, Set: s.mask, Dir: nfs4.ChangeInfo{Atomic: true, Before: before, After: d.Change}}, nil
}

// settings judges a node without regard to where it goes.
func (n *Node) settings(now time.Time) (settings, error) {
	switch n.Type {
	case nfs4.TypeReg, nfs4.TypeDir, nfs4.TypeBlk, nfs4.TypeChr, nfs4.TypeSock, nfs4.TypeFifo:
	case nfs4.TypeLnk:
		if len(n.Target) > maxTarget {
			return settings{}, nfs4.ErrNameTooLong
		}
		if len(n.Target) == 0 || bytes.IndexByte(n.Target, 0) >= 0 {
			return settings{}, nfs4.ErrInval
		}
	default:
		return settings{}, nfs4.ErrBadType
	}
	settable := SettableMask()
	settable.Set(nfs4.AttrModeUmask)
	s, err := parse(n.Attrs, now, settable)
	switch {
	case err != nil:
		return s, err
	case s.mask.Has(nfs4.AttrSize) && n.Type != nfs4.TypeReg:
		return s, nfs4.ErrInval
	}
	return s, s.judgeACL(n.Type)
}

// found is Create where the name is there already, and means inode ino.
func (v *Volume) found(tx store.Tx, d *Inode, ino uint64, node *Node, s *settings) (Created, error) {
	in, err := v.inode(tx, ino)
	if err != nil {
		return Created{}, err
	}
	c := Created{Inode: in, Dir: nfs4.ChangeInfo{Atomic: true, Before: d.Change, After: d.Change}}
	switch {
	case node.Exclusive && in.Exclusive && in.Verifier == node.Verifier && in.Type == node.Type:
		c.New, c.Set = true, s.mask
		return c, nil
	case node.Exclusive || node.Guarded || node.Type != nfs4.TypeReg:
		return Created{}, nfs4.ErrExist
	case in.Type == nfs4.TypeReg:
		return c, nil
	case in.Type == nfs4.TypeDir:
		return Created{}, nfs4.ErrIsDir
	case in.Type == nfs4.TypeLnk:
		return Created{}, nfs4.ErrSymlink
	}
	return Created{}, nfs4.ErrExist
}

// make returns the new inode of node in directory d, not yet written.
func (v *Volume) make(tx store.Tx, now time.Time, cred *Cred, d *Inode, node *Node, s *settings) (*Inode, error) {
	in, err := v.allocate(tx, now)
	if err != nil {
		return nil, err
	}
	in.Type, in.Nlink = node.Type, 1
	in.UID, in.GID, in.Mode = cred.UID, cred.GID, 0o600
	switch node.Type {
	case nfs4.TypeDir:
		in.Mode, in.Nlink, in.Size, in.Parent = 0o700, 2, dirSize, d.ID
		in.Policy = d.Policy
	case nfs4.TypeReg:
		in.Policy = d.Policy
		in.Exclusive, in.Verifier = node.Exclusive, node.Verifier
	case nfs4.TypeLnk:
		in.Mode, in.Target, in.Size = 0o777, bytes.Clone(node.Target), uint64(len(node.Target))
	case nfs4.TypeBlk, nfs4.TypeChr:
		if !cred.root() {
			return nil, nfs4.ErrPerm
		}
		in.Rdev = node.Rdev
	}
	return in, in.initialize(cred, d, s)
}

// initialize sets owner, group, mode, size and times of a new inode: what the
// client wants, and what a set-group-id directory passes on.
func (in *Inode) initialize(cred *Cred, d *Inode, s *settings) error {
	has := s.mask.Has
	inherit := d.Mode&modeSetGID != 0
	if inherit {
		in.GID = d.GID
	}
	if s.hasMode() {
		in.Mode = s.mode
	}
	if has(nfs4.AttrOwner) {
		if s.uid != in.UID && !cred.root() {
			return nfs4.ErrPerm
		}
		in.UID = s.uid
	}
	if has(nfs4.AttrOwnerGroup) {
		if s.gid != in.GID && !cred.in(s.gid) && !cred.root() {
			return nfs4.ErrPerm
		}
		in.GID = s.gid
	}
	switch {
	case in.Type == nfs4.TypeDir && inherit:
		in.Mode |= modeSetGID
	case in.Type != nfs4.TypeDir && !cred.root() && !cred.in(in.GID):
		in.Mode &^= modeSetGID
	}
	if has(nfs4.AttrSize) {
		in.Size = s.size
	}
	in.initializeACL(d, s)
	in.setTimes(s)
	return nil
}

// initializeACL gives a new inode its ACL: what the client wants, or what its
// directory passes on, with the mode that the client wants (RFC 8881 section
// 6.4.3). The umask counts only if no ACL is passed on (RFC 8275 section 4).
func (in *Inode) initializeACL(d *Inode, s *settings) {
	if s.mask.Has(nfs4.AttrACL) {
		in.setACL(s.acl)
		return
	}
	var heirs []ace
	applies := false
	if d.hasACL && in.Type != nfs4.TypeLnk {
		heirs, applies = inherited(d.acl, in.Type == nfs4.TypeDir)
	}
	if !applies && in.Type != nfs4.TypeLnk { // the mode of a symbolic link means nothing
		in.Mode &^= s.umask
	}
	switch {
	case len(heirs) == 0:
	case applies && !s.hasMode():
		in.setACL(heirs)
	case applies && s.mask.Has(nfs4.AttrModeUmask):
		in.setACL(within(heirs, in.Mode, in.Type == nfs4.TypeDir))
	default:
		in.keepACL(withMode(heirs, in.Mode, in.Type == nfs4.TypeDir))
	}
}

// addName puts name into directory d as one of in, and writes both.
func (v *Volume) addName(tx store.Tx, now time.Time, d *Inode, b *bucket, name []byte, in *Inode) error {
	if err := b.insert(tx, name, in); err != nil {
		return err
	}
	d.Entries++
	if in.Type == nfs4.TypeDir {
		d.Nlink++
	}
	d.modified(now)
	if err := v.put(tx, d); err != nil {
		return err
	}
	return v.put(tx, in)
}

// Link gives file another name in dir (RFC 8881 section 18.9). Errors: those of
// Create for dir and name, ErrIsDir (file is a directory), ErrMLink, ErrNoEnt
// (file is an orphan).
func (v *Volume) Link(tx store.Tx, now time.Time, cred Cred, file, dir layout.Handle, name []byte) (*Inode, nfs4.ChangeInfo, error) {
	in, b, d, err := v.linkable(tx, cred, file, dir, name)
	if err != nil {
		return nil, nfs4.ChangeInfo{}, err
	}
	before := d.Change
	in.Nlink++
	in.changed(now)
	if err := v.addName(tx, now, d, b, name, in); err != nil {
		return nil, nfs4.ChangeInfo{}, err
	}
	return in, nfs4.ChangeInfo{Atomic: true, Before: before, After: d.Change}, nil
}

// linkable returns the file, the row for its new name and the directory, if all
// is well.
func (v *Volume) linkable(tx store.Tx, cred Cred, file, dir layout.Handle, name []byte) (*Inode, *bucket, *Inode, error) {
	in, err := v.Get(tx, file)
	if err != nil {
		return nil, nil, nil, err
	}
	if in.Type == nfs4.TypeDir {
		return nil, nil, nil, nfs4.ErrIsDir
	}
	d, err := v.dir(tx, dir)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := status(nfs4.ValidName(name)); err != nil {
		return nil, nil, nil, err
	}
	if err := d.Check(cred, Perm{Exec: true}); err != nil {
		return nil, nil, nil, err
	}
	b, i, err := v.find(tx, d.ID, name)
	switch {
	case err != nil:
		return nil, nil, nil, err
	case i >= 0:
		return nil, nil, nil, nfs4.ErrExist
	case in.Nlink == 0:
		return nil, nil, nil, nfs4.ErrNoEnt
	case in.Nlink >= MaxLink:
		return nil, nil, nil, nfs4.ErrMLink
	}
	return in, b, d, d.mayAdd(cred, in.Type)
}
