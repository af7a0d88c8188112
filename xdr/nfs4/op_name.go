package nfs4

// AccessArgs is ACCESS4args (RFC 8881 section 18.1): Access* bits.
type AccessArgs struct {
	Access uint32
}

// AccessRes is ACCESS4resok: which bits could be judged, and which are granted.
type AccessRes struct {
	Supported uint32
	Access    uint32
}

// CreateType is a createtype4: the kind of object CREATE makes.
type CreateType struct {
	Type     FileType `xdr:"switch,void=*"`
	LinkData []byte   `xdr:"case=TypeLnk,max=MaxLink"`
	DevData  SpecData `xdr:"case=TypeBlk|TypeChr"`
}

// CreateArgs is CREATE4args (RFC 8881 section 18.4).
type CreateArgs struct {
	ObjType     CreateType
	ObjName     []byte `xdr:"max=MaxName"`
	CreateAttrs Attrs
}

// CreateRes is CREATE4resok.
type CreateRes struct {
	CInfo   ChangeInfo
	AttrSet Bitmap
}

// GetattrArgs is GETATTR4args (RFC 8881 section 18.7).
type GetattrArgs struct {
	AttrRequest Bitmap
}

// GetattrRes is GETATTR4resok.
type GetattrRes struct {
	ObjAttributes Attrs
}

// GetFHArgs is GETFH's args, void (RFC 8881 section 18.8).
type GetFHArgs struct{}

// GetFHRes is GETFH4resok.
type GetFHRes struct {
	Object FH `xdr:"max=MaxFH"`
}

// LinkArgs is LINK4args (RFC 8881 section 18.9).
type LinkArgs struct {
	NewName []byte `xdr:"max=MaxName"`
}

// LinkRes is LINK4resok.
type LinkRes struct {
	CInfo ChangeInfo
}

// LookupArgs is LOOKUP4args (RFC 8881 section 18.13).
type LookupArgs struct {
	ObjName []byte `xdr:"max=MaxName"`
}

// LookupRes is LOOKUP4res.
type LookupRes struct{}

// LookupPArgs is LOOKUPP's args, void (RFC 8881 section 18.14).
type LookupPArgs struct{}

// LookupPRes is LOOKUPP4res.
type LookupPRes struct{}

// NVerifyArgs is NVERIFY4args (RFC 8881 section 18.15).
type NVerifyArgs struct {
	ObjAttributes Attrs
}

// NVerifyRes is NVERIFY4res.
type NVerifyRes struct{}

// VerifyArgs is VERIFY4args (RFC 8881 section 18.31).
type VerifyArgs struct {
	ObjAttributes Attrs
}

// VerifyRes is VERIFY4res.
type VerifyRes struct{}

// OpenAttrArgs is OPENATTR4args (RFC 8881 section 18.17).
type OpenAttrArgs struct {
	CreateDir bool
}

// OpenAttrRes is OPENATTR4res.
type OpenAttrRes struct{}

// PutFHArgs is PUTFH4args (RFC 8881 section 18.19).
type PutFHArgs struct {
	Object FH `xdr:"max=MaxFH"`
}

// PutFHRes is PUTFH4res.
type PutFHRes struct{}

// PutPubFHArgs is PUTPUBFH's args, void (RFC 8881 section 18.20).
type PutPubFHArgs struct{}

// PutPubFHRes is PUTPUBFH4res.
type PutPubFHRes struct{}

// PutRootFHArgs is PUTROOTFH's args, void (RFC 8881 section 18.21).
type PutRootFHArgs struct{}

// PutRootFHRes is PUTROOTFH4res.
type PutRootFHRes struct{}

// RestoreFHArgs is RESTOREFH's args, void (RFC 8881 section 18.27).
type RestoreFHArgs struct{}

// RestoreFHRes is RESTOREFH4res.
type RestoreFHRes struct{}

// SaveFHArgs is SAVEFH's args, void (RFC 8881 section 18.28).
type SaveFHArgs struct{}

// SaveFHRes is SAVEFH4res.
type SaveFHRes struct{}

// ReadlinkArgs is READLINK's args, void (RFC 8881 section 18.24).
type ReadlinkArgs struct{}

// ReadlinkRes is READLINK4resok.
type ReadlinkRes struct {
	Link []byte `xdr:"max=MaxLink"`
}

// RemoveArgs is REMOVE4args (RFC 8881 section 18.25).
type RemoveArgs struct {
	Target []byte `xdr:"max=MaxName"`
}

// RemoveRes is REMOVE4resok.
type RemoveRes struct {
	CInfo ChangeInfo
}

// RenameArgs is RENAME4args (RFC 8881 section 18.26): from the saved
// filehandle's directory to the current one's.
type RenameArgs struct {
	OldName []byte `xdr:"max=MaxName"`
	NewName []byte `xdr:"max=MaxName"`
}

// RenameRes is RENAME4resok.
type RenameRes struct {
	SourceCInfo ChangeInfo
	TargetCInfo ChangeInfo
}

// SecinfoArgs is SECINFO4args (RFC 8881 section 18.29).
type SecinfoArgs struct {
	Name []byte `xdr:"max=MaxName"`
}

// GSSInfo is an rpcsec_gss_info.
type GSSInfo struct {
	OID     []byte `xdr:"max=MaxOpaque"`
	QOP     uint32
	Service uint32
}

// SecFlavor is a secinfo4: one way to authenticate, best first in a list.
type SecFlavor struct {
	Flavor uint32  `xdr:"switch,void=*"`
	GSS    GSSInfo `xdr:"case=SecFlavorGSS"`
}

// SecinfoRes is SECINFO4resok.
type SecinfoRes struct {
	Flavors []SecFlavor `xdr:"max=maxSecurityInfo"`
}

// Styles of SECINFO_NO_NAME, secinfo_style4.
const (
	SecinfoStyleCurrentFH = 0 // SECINFO_STYLE4_CURRENT_FH
	SecinfoStyleParent    = 1 // SECINFO_STYLE4_PARENT
)

// SecinfoNoNameArgs is SECINFO_NO_NAME4args (RFC 8881 section 18.45).
type SecinfoNoNameArgs struct {
	Style uint32
}

// SecinfoNoNameRes is SECINFO_NO_NAME4res's OK arm.
type SecinfoNoNameRes struct {
	Flavors []SecFlavor `xdr:"max=maxSecurityInfo"`
}

// SetattrArgs is SETATTR4args (RFC 8881 section 18.30).
type SetattrArgs struct {
	Stateid       Stateid
	ObjAttributes Attrs
}

// SetattrRes is what follows the status of SETATTR4res, whatever the status:
// EncodeErr and DecodeErr handle it when the operation failed.
type SetattrRes struct {
	AttrsSet Bitmap
}
