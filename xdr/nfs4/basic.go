package nfs4

import "time"

// FH is a filehandle, nfs_fh4: 0 to MaxFH bytes that only their server reads.
type FH []byte

// Verifier is a verifier4 (RFC 8881 section 3.2): 8 bytes that change when what
// they vouch for was lost (a server's boot, a client's boot, a directory).
type Verifier [8]byte

// SessionID is a sessionid4, SEQUENCE's key.
type SessionID [16]byte

// DeviceID is a deviceid4 (RFC 8881 section 3.3.14).
type DeviceID [16]byte

// ClientID is a clientid4.
type ClientID uint64

// Time is an nfstime4: seconds since 1970 UTC and nanoseconds below 1e9, added
// to the seconds even before 1970.
type Time struct {
	Sec  int64
	Nsec uint32
}

// TimeOf returns t as an nfstime4.
func TimeOf(t time.Time) Time { return Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())} }

// Std returns t as a time.Time in UTC.
func (t Time) Std() time.Time { return time.Unix(t.Sec, int64(t.Nsec)).UTC() }

// Compare orders two valid times: -1, 0 or +1.
func (t Time) Compare(u Time) int {
	switch {
	case t.Sec < u.Sec || t.Sec == u.Sec && t.Nsec < u.Nsec:
		return -1
	case t == u:
		return 0
	}
	return 1
}

// Valid says whether the nanoseconds are below 1e9; if not, the operation
// answers ErrInval (RFC 8881 section 3.3.1).
func (t Time) Valid() bool { return t.Nsec < 1e9 }

// ChangeInfo is a change_info4: a directory's change attribute around an
// operation, and whether the two were read atomically with it.
type ChangeInfo struct {
	Atomic bool
	Before uint64
	After  uint64
}

// FSID is an fsid4.
type FSID struct {
	Major uint64
	Minor uint64
}

// SpecData is a specdata4: a device's major and minor number.
type SpecData struct {
	Major uint32
	Minor uint32
}

// FileType is an nfs_ftype4.
type FileType uint32

// Values of FileType (RFC 8881 section 3.2.1).
const (
	TypeReg       FileType = 1 // NF4REG
	TypeDir       FileType = 2 // NF4DIR
	TypeBlk       FileType = 3 // NF4BLK
	TypeChr       FileType = 4 // NF4CHR
	TypeLnk       FileType = 5 // NF4LNK
	TypeSock      FileType = 6 // NF4SOCK
	TypeFifo      FileType = 7 // NF4FIFO
	TypeAttrDir   FileType = 8 // NF4ATTRDIR
	TypeNamedAttr FileType = 9 // NF4NAMEDATTR
)

// Stateid is a stateid4 (RFC 8881 section 8.2): Other names the state, Seqid
// counts its versions; Seqid 0 means "the newest".
type Stateid struct {
	Seqid uint32
	Other [12]byte
}

// StateidAnonymous returns the all-zero special stateid.
func StateidAnonymous() Stateid { return Stateid{} }

// StateidBypass returns the all-ones special stateid (READ bypass).
func StateidBypass() Stateid {
	s := Stateid{Seqid: 1<<32 - 1}
	for i := range s.Other {
		s.Other[i] = 0xff
	}
	return s
}

// StateidCurrent returns the special stateid that stands for the current
// stateid of the compound: seqid 1, other zero.
func StateidCurrent() Stateid { return Stateid{Seqid: 1} }

// StateidInvalid returns the special stateid that never names state: seqid
// 2^32-1, other zero.
func StateidInvalid() Stateid { return Stateid{Seqid: 1<<32 - 1} }

// IsAnonymous says whether s is StateidAnonymous.
func (s Stateid) IsAnonymous() bool { return s == Stateid{} }

// IsBypass says whether s is StateidBypass.
func (s Stateid) IsBypass() bool { return s == StateidBypass() }

// IsCurrent says whether s is StateidCurrent.
func (s Stateid) IsCurrent() bool { return s == StateidCurrent() }

// IsInvalid says whether s is StateidInvalid.
func (s Stateid) IsInvalid() bool { return s == StateidInvalid() }

// IsSpecial says whether Other is all zeros or all ones, which no state that a
// server hands out uses. A special Other whose Seqid is not one of the four
// defined combinations is answered with ErrBadStateID.
func (s Stateid) IsSpecial() bool {
	return s.Other == [12]byte{} || s.Other == StateidBypass().Other
}
