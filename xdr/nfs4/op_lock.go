package nfs4

// LockType is an nfs_lock_type4.
type LockType uint32

// Values of LockType; the W forms say that the client would wait.
const (
	LockRead   LockType = 1 // READ_LT
	LockWrite  LockType = 2 // WRITE_LT
	LockReadW  LockType = 3 // READW_LT
	LockWriteW LockType = 4 // WRITEW_LT
)

// Locker is a locker4: a new lock owner under an open (true), or one that has
// locks of this file already (false). Seqids are ignored in 4.1.
type Locker struct {
	NewLockOwner bool      `xdr:"switch"`
	OpenSeqid    uint32    `xdr:"case=true"`
	OpenStateid  Stateid   `xdr:"case=true"`
	LockStateid  Stateid   `xdr:"case=false"`
	LockSeqid    uint32    `xdr:"case=true|false"`
	Owner        LockOwner `xdr:"case=true"`
}

// LockArgs is LOCK4args (RFC 8881 section 18.10). Length LengthToEnd reaches to
// the end of the file, however long it gets.
type LockArgs struct {
	LockType LockType
	Reclaim  bool
	Offset   uint64
	Length   uint64
	Locker   Locker
}

// LockDenied is a LOCK4denied: one lock that conflicts.
type LockDenied struct {
	Offset   uint64
	Length   uint64
	LockType LockType
	Owner    LockOwner
}

// LockRes is LOCK4res: LockStateid after OK, Denied after ErrDenied.
type LockRes struct {
	LockStateid Stateid
	Denied      LockDenied `xdr:"-"`
}

// LockTArgs is LOCKT4args (RFC 8881 section 18.11).
type LockTArgs struct {
	LockType LockType
	Offset   uint64
	Length   uint64
	Owner    LockOwner
}

// LockTRes is LOCKT4res: nothing after OK, Denied after ErrDenied.
type LockTRes struct {
	Denied LockDenied `xdr:"-"`
}

// LockUArgs is LOCKU4args (RFC 8881 section 18.12).
type LockUArgs struct {
	LockType    LockType
	Seqid       uint32
	LockStateid Stateid
	Offset      uint64
	Length      uint64
}

// LockURes is LOCKU4res's OK arm.
type LockURes struct {
	LockStateid Stateid
}
