package ns

import (
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// Bits of Inode.Mode.
const (
	modeSetUID = 0o4000
	modeSetGID = 0o2000
	modeSticky = 0o1000
	modeXGroup = 0o010
	modeXAny   = 0o111
	modeBits   = 0o7777
)

// dirSize is the size of every directory: a client has no use for it.
const dirSize = 4096

// Inode is one object of the name space as the store has it. Functions of this
// package return fresh copies: changing one changes nothing in the store.
type Inode struct {
	ID  uint64 // never used again
	Gen uint32 // never 0; differs from that of the same ID in an older copy of the store

	Type     nfs4.FileType
	Mode     uint32 // permission bits, set-id bits and sticky: 07777
	Nlink    uint32 // of a directory: 2 and its subdirectories; 0: removed, but kept for those that have it open
	UID, GID uint32
	Size     uint64 // bytes; of a symbolic link the length of Target
	Change   uint64 // counts changes of data, names or attributes

	Atime, Mtime, Ctime, Btime nfs4.Time

	Rdev    nfs4.SpecData // TypeBlk, TypeChr
	Target  []byte        // TypeLnk
	Parent  uint64        // TypeDir: the directory that names it; the root's own ID for the root
	Entries uint64        // TypeDir: how many names are in it

	// Exclusive and Verifier are those of the exclusive create that made the
	// file (RFC 8881 section 18.16.3).
	Exclusive bool
	Verifier  nfs4.Verifier

	Policy Policy     // TypeDir, TypeReg
	Layout FileLayout // TypeReg

	// The ACL is a row of its own, and only of those that have one; newACL says
	// that put is to write it.
	acl            []ace
	hasACL, newACL bool
	xattrs         xattrUsage
}

// Policy is how new files are to be striped. Every new file or directory
// inherits it from its directory. The zero value leaves everything to the
// volume's defaults, and so does each zero field.
type Policy struct {
	Unit  uint32 // stripe unit, bytes: a multiple of 4096
	Width uint16 // data servers for one file
	Pool  string // the data servers to choose from; at most 64 bytes
}

// FileLayout is where a file's data is. No DS: not decided yet.
type FileLayout struct {
	Unit  uint32        // stripe unit, bytes
	DS    []layout.DSID // the first holds the first stripe unit (see layout.Ring)
	Epoch uint32        // in every data server handle; raised to fence older ones
}

// newInode returns an inode that was made at now, with everything else zero.
// The generation is the second of its making: if the store is put back from
// an old copy and gives the number out again, an old handle does not fit.
func newInode(ino uint64, now time.Time) *Inode {
	t := nfs4.TimeOf(now)
	return &Inode{ID: ino, Gen: max(1, uint32(t.Sec)), Change: 1, Atime: t, Mtime: t, Ctime: t, Btime: t}
}

// changed notes a change of attributes or links at now.
func (in *Inode) changed(now time.Time) {
	in.Change++
	in.Ctime = nfs4.TimeOf(now)
}

// modified notes a change of data or of names in a directory at now.
func (in *Inode) modified(now time.Time) {
	in.changed(now)
	in.Mtime = in.Ctime
}

// dropSetID takes the set-id bits from a mode, as a write or a new owner does:
// set-group-id without leave for the group to execute, which once meant mandatory
// locking, only if cred is not in the file's group, as Linux does.
func dropSetID(mode uint32, cred *Cred, gid uint32) uint32 {
	if mode&modeXGroup != 0 || !cred.root() && !cred.in(gid) {
		mode &^= modeSetGID
	}
	return mode &^ modeSetUID
}

// Fill sets in a those attributes of want that come from an inode and its
// volume: TYPE CHANGE SIZE FSID FILEID MODE NUMLINKS OWNER OWNER_GROUP RAWDEV
// SPACE_USED TIME_ACCESS TIME_CREATE TIME_METADATA TIME_MODIFY MOUNTED_ON_FILEID
// ACL.
// Owners are decimal strings (RFC 8881 section 5.9). It leaves the others to
// the caller, their bits in a.Mask too. An inode without an ACL has one that
// says what its mode says (section 6.4.2).
func (v *Volume) Fill(a *nfs4.Attrs, want nfs4.Bitmap, in *Inode) {
	a.Mask = a.Mask.Or(want.And(FillMask()))
	a.Type = in.Type
	a.Change = in.Change
	a.Size = in.Size
	a.FSID = v.fsid
	a.FileID = in.ID
	a.Mode = in.Mode
	a.NumLinks = in.Nlink
	a.RawDev = in.Rdev
	a.SpaceUsed = in.spaceUsed()
	a.TimeAccess = in.Atime
	a.TimeCreate = in.Btime
	a.TimeMetadata = in.Ctime
	a.TimeModify = in.Mtime
	a.MountedOnFileID = in.ID
	if want.Has(nfs4.AttrOwner) {
		a.Owner = formatOwner(in.UID)
	}
	if want.Has(nfs4.AttrOwnerGroup) {
		a.OwnerGroup = formatOwner(in.GID)
	}
	if want.Has(nfs4.AttrACL) {
		a.ACL = in.visibleACL()
	}
}

// FillMask returns the attributes that Fill knows.
func FillMask() nfs4.Bitmap {
	return nfs4.BitmapOf(
		nfs4.AttrType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrFSID, nfs4.AttrFileID,
		nfs4.AttrMode, nfs4.AttrNumLinks, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrRawDev,
		nfs4.AttrSpaceUsed, nfs4.AttrTimeAccess, nfs4.AttrTimeCreate, nfs4.AttrTimeMetadata,
		nfs4.AttrTimeModify, nfs4.AttrMountedOnFileID, nfs4.AttrACL,
	)
}

// spaceUsed is what the object would take without holes; what the data servers
// really use is not known here.
func (in *Inode) spaceUsed() uint64 {
	switch in.Type {
	case nfs4.TypeReg:
		return (in.Size + 511) &^ 511
	case nfs4.TypeDir:
		return dirSize
	}
	return 0
}
