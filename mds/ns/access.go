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
}

// The bits of one class of a mode.
const (
	bitRead  = 4
	bitWrite = 2
	bitExec  = 1
)

// bits returns what the mode grants to cred: the first class that fits decides
// alone (POSIX file access permissions). Root may do anything but execute
// a file that nobody may.
func (in *Inode) bits(cred *Cred) uint32 {
	switch {
	case cred.root():
		if in.Type == nfs4.TypeDir || in.Mode&modeXAny != 0 {
			return bitRead | bitWrite | bitExec
		}
		return bitRead | bitWrite
	case cred.UID == in.UID:
		return in.Mode >> 6 & 7
	case cred.in(in.GID):
		return in.Mode >> 3 & 7
	}
	return in.Mode & 7
}

// Check returns nil if cred has all of p, or ErrAccess.
func (in *Inode) Check(cred Cred, p Perm) error {
	have := in.bits(&cred)
	if p.OwnerOverride && cred.UID == in.UID {
		have |= bitRead | bitWrite
	}
	if p.ReadIfExec && have&bitExec != 0 && in.Type == nfs4.TypeReg {
		have |= bitRead
	}
	if p.Read && have&bitRead == 0 || p.Write && have&bitWrite == 0 || p.Exec && have&bitExec == 0 {
		return nfs4.ErrAccess
	}
	return nil
}

// Access returns which of the ACCESS4 bits in want it can judge for this type of
// object, and which of these cred has (RFC 8881 section 18.1).
func (in *Inode) Access(cred Cred, want uint32) (supported, granted uint32) {
	have := in.bits(&cred)
	grant := func(need, access uint32) {
		supported |= access
		if have&need == need {
			granted |= access
		}
	}
	grant(bitRead, nfs4.AccessRead)
	if in.Type == nfs4.TypeDir {
		grant(bitExec, nfs4.AccessLookup)
		grant(bitWrite|bitExec, nfs4.AccessModify|nfs4.AccessExtend|nfs4.AccessDelete)
	} else {
		grant(bitWrite, nfs4.AccessModify|nfs4.AccessExtend)
		grant(bitExec, nfs4.AccessExecute)
	}
	return supported & want, granted & want
}

// mayChangeNames returns nil if cred may add and remove names in dir.
func (in *Inode) mayChangeNames(cred Cred) error {
	return in.Check(cred, Perm{Write: true, Exec: true})
}

// mayTake returns nil if cred, who may change names in dir, may take the one
// of in: in a sticky directory only the owner of either and root may. POSIX
// lets it be EACCES or EPERM, RFC 8881 only ErrAccess.
func (in *Inode) mayTake(cred Cred, dir *Inode) error {
	if dir.Mode&modeSticky == 0 || cred.root() || cred.UID == in.UID || cred.UID == dir.UID {
		return nil
	}
	return nfs4.ErrAccess
}
