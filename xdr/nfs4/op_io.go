package nfs4

// CommitArgs is COMMIT4args (RFC 8881 section 18.3). Count 0: to the end.
type CommitArgs struct {
	Offset uint64
	Count  uint32
}

// CommitRes is COMMIT4resok.
type CommitRes struct {
	WriteVerf Verifier
}

// ReadArgs is READ4args (RFC 8881 section 18.22).
type ReadArgs struct {
	Stateid Stateid
	Offset  uint64
	Count   uint32
}

// ReadRes is READ4resok.
type ReadRes struct {
	EOF  bool
	Data []byte `xdr:"max=MaxIO"`
}

// WriteArgs is WRITE4args (RFC 8881 section 18.32).
type WriteArgs struct {
	Stateid Stateid
	Offset  uint64
	Stable  StableHow
	Data    []byte `xdr:"max=MaxIO"`
}

// WriteRes is WRITE4resok.
type WriteRes struct {
	Count     uint32
	Committed StableHow
	WriteVerf Verifier
}
