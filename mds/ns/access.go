package ns

import (
	"slices"

	"manifold/xdr/nfs4"
)

// Cred is who asks: the AUTH_SYS ids of a call. UID 0 may do everything.
type Cred struct {
	UID, GID uint32
	GIDs     []uint32
}

func (c *Cred) root() bool { return c.UID == 0 }

// in says whether the caller is in a group.
func (c *Cred) in(gid uint32) bool { return c.GID == gid || slices.Contains(c.GIDs, gid) }

// Perm is what Inode.Check asks for.
type Perm struct {
	Read, Write, Exec bool
	// OwnerOverride lets the owner read and write whatever the mode says, as
	// is due for I/O on a file that is open already.
	OwnerOverride bool
	// ReadIfExec lets those who may execute a regular file read it, as a
	// client has to in order to execute it.
	ReadIfExec bool
	// ReadACL is the right to see the ACL.
	ReadACL bool
}

// The bits of one class of a mode.
const (
	bitRead  = 4
	bitWrite = 2
	bitExec  = 1
)

// bits returns what the mode grants to cred: the first class that fits decides
// alone (POSIX file access permissions).
func (in *Inode) bits(cred *Cred) uint32 {
	switch {
	case cred.UID == in.UID:
		return in.Mode >> 6 & 7
	case cred.in(in.GID):
		return in.Mode >> 3 & 7
	}
	return in.Mode & 7
}

// rights returns what cred may do, and what is denied to cred by name, as bits of
// an ACL's entry. Root may do anything but execute a file that nobody may.
// What an ACL does not mention is not allowed; the owner always may see and
// change the ACL and attributes, so that nobody can lock himself out. Without
// an ACL nothing is denied by name, and the bits that no mode has are not
// allowed.
func (in *Inode) rights(cred *Cred) (allow, deny uint32) {
	switch {
	case cred.root():
		if in.Type != nfs4.TypeDir && !in.executable() {
			return maskAll &^ maskExec, 0
		}
		return maskAll, 0
	case in.hasACL:
		allow, deny = evaluate(in.acl, func(e *ace) bool { return in.about(e, cred) })
	default:
		allow = maskOf(in.bits(cred)) | maskPublic
	}
	if cred.UID == in.UID {
		allow |= maskOwner
	}
	return allow, deny
}

// executable says whether anybody may execute the object.
func (in *Inode) executable() bool {
	return in.Mode&modeXAny != 0 || slices.ContainsFunc(in.acl, func(e ace) bool {
		return !e.deny && e.effective() && e.mask&maskExec != 0
	})
}

// Check returns nil if cred has all of p, or ErrAccess.
func (in *Inode) Check(cred Cred, p Perm) error {
	have, _ := in.rights(&cred)
	if p.OwnerOverride && cred.UID == in.UID {
		have |= maskRead | maskWrite
	}
	if p.ReadIfExec && have&maskExec != 0 && in.Type == nfs4.TypeReg {
		have |= maskRead
	}
	need := uint32(0)
	if p.Read {
		need |= maskRead
	}
	if p.Write {
		need |= maskWrite
	}
	if p.Exec {
		need |= maskExec
	}
	if p.ReadACL {
		need |= nfs4.ACEReadACL
	}
	if have&need != need {
		return nfs4.ErrAccess
	}
	return nil
}

// Access returns which of the ACCESS4 bits in want it can judge for this type of
// object, and which of these cred has (RFC 8881 section 18.1, RFC 8276
// section 8.5).
func (in *Inode) Access(cred Cred, want uint32) (supported, granted uint32) {
	have, denied := in.rights(&cred)
	grant := func(may bool, access uint32) {
		supported |= access
		if may {
			granted |= access
		}
	}
	read, write, exec := have&maskRead != 0, have&maskWrite == maskWrite, have&maskExec != 0
	grant(read, nfs4.AccessRead|nfs4.AccessXARead|nfs4.AccessXAList)
	if in.Type == nfs4.TypeDir {
		const child = nfs4.ACEDeleteChild
		grant(exec, nfs4.AccessLookup)
		grant(exec && have&maskWrite != 0, nfs4.AccessExtend)
		grant(exec && (have&child != 0 || denied&child == 0 && have&addFile != 0), nfs4.AccessModify|nfs4.AccessDelete)
	} else {
		grant(write, nfs4.AccessModify|nfs4.AccessExtend)
		grant(exec, nfs4.AccessExecute)
	}
	grant(write && in.mayHaveXattrs() && !in.xattrsStuck(&cred), nfs4.AccessXAWrite)
	return supported & want, granted & want
}

// What the bits of a file mean for a directory (RFC 8881 section 6.2.1.3.1).
const (
	addFile = nfs4.ACEWriteData
	addDir  = nfs4.ACEAppendData
)

// mayAdd returns nil if cred may add a name for an object of some type to dir.
func (in *Inode) mayAdd(cred Cred, typ nfs4.FileType) error {
	need := uint32(addFile | maskExec)
	if typ == nfs4.TypeDir {
		need = addDir | maskExec
	}
	if have, _ := in.rights(&cred); have&need != need {
		return nfs4.ErrAccess
	}
	return nil
}

// mayTake returns nil if cred may take a name of in out of dir. Who has DELETE on
// in or DELETE_CHILD on dir may. If neither is denied either, then who may add
// files to dir may, as in POSIX (RFC 8881 section 6.2.1.3.2). In a sticky
// directory only the owner of either and root may, unless in's own ACL says
// DELETE. POSIX lets it be EACCES or EPERM, RFC 8881 only ErrAccess.
func (in *Inode) mayTake(cred Cred, dir *Inode) error {
	have, denied := dir.rights(&cred)
	own, ownDenied := in.rights(&cred)
	stuck := dir.Mode&modeSticky != 0 && !cred.root() && cred.UID != in.UID && cred.UID != dir.UID
	switch {
	case have&maskExec == 0:
		return nfs4.ErrAccess
	case own&nfs4.ACEDelete != 0:
		return nil
	case stuck:
		return nfs4.ErrAccess
	case have&nfs4.ACEDeleteChild != 0:
		return nil
	case denied&nfs4.ACEDeleteChild != 0, ownDenied&nfs4.ACEDelete != 0, have&addFile == 0:
		return nfs4.ErrAccess
	}
	return nil
}
