package nfs4

// CompoundArgs is the head of COMPOUND4args (RFC 8881 section 16.2): NumOps
// operations follow, each an OpNum and its args. NumOps is as the peer said:
// compare it with a bound before using it.
type CompoundArgs struct {
	Tag          []byte `xdr:"max=MaxTag"`
	MinorVersion uint32
	NumOps       uint32
}

// CompoundRes is the head of COMPOUND4res: NumRes results follow, each an
// OpNum, a Status and what that status calls for.
type CompoundRes struct {
	Status Status
	Tag    []byte `xdr:"max=MaxTag"`
	NumRes uint32
}

// CBCompoundArgs is the head of CB_COMPOUND4args (RFC 8881 section 20).
// CallbackIdent is unused in 4.1.
type CBCompoundArgs struct {
	Tag           []byte `xdr:"max=MaxTag"`
	MinorVersion  uint32
	CallbackIdent uint32
	NumOps        uint32
}

// CBCompoundRes is the head of CB_COMPOUND4res.
type CBCompoundRes struct {
	Status Status
	Tag    []byte `xdr:"max=MaxTag"`
	NumRes uint32
}
