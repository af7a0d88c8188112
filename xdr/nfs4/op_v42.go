package nfs4

// NetlocType is a netloc_type4.
type NetlocType uint32

// Values of NetlocType (RFC 7862 section 4.9.2).
const (
	NetlocName NetlocType = 1 // NL4_NAME
	NetlocURL  NetlocType = 2 // NL4_URL
	NetlocAddr NetlocType = 3 // NL4_NETADDR
)

// Netloc is a netloc4: where a server of COPY is.
type Netloc struct {
	Type NetlocType `xdr:"switch"`
	Name []byte     `xdr:"case=NetlocName|NetlocURL,max=MaxOpaque"`
	Addr NetAddr    `xdr:"case=NetlocAddr"`
}

// AllocateArgs is ALLOCATE4args (RFC 7862 section 15.1).
type AllocateArgs struct {
	Stateid Stateid
	Offset  uint64
	Length  uint64
}

// AllocateRes is ALLOCATE4res.
type AllocateRes struct{}

// DeallocateArgs is DEALLOCATE4args (RFC 7862 section 15.4).
type DeallocateArgs struct {
	Stateid Stateid
	Offset  uint64
	Length  uint64
}

// DeallocateRes is DEALLOCATE4res.
type DeallocateRes struct{}

// CopyArgs is COPY4args (RFC 7862 section 15.2). Count 0: to the end.
type CopyArgs struct {
	SrcStateid   Stateid
	DstStateid   Stateid
	SrcOffset    uint64
	DstOffset    uint64
	Count        uint64
	Consecutive  bool
	Synchronous  bool
	SourceServer []Netloc `xdr:"max=MaxServers"`
}

// WriteResponse is a write_response4: CallbackID is there if the work goes on
// after the reply.
type WriteResponse struct {
	CallbackID []Stateid `xdr:"max=1"`
	Count      uint64
	Committed  StableHow
	WriteVerf  Verifier
}

// CopyRequirements is a copy_requirements4.
type CopyRequirements struct {
	Consecutive bool
	Synchronous bool
}

// CopyRes is COPY4res: all of it after OK, only Requirements after
// ErrOffloadNoReqs.
type CopyRes struct {
	Response     WriteResponse
	Requirements CopyRequirements
}

// CopyNotifyArgs is COPY_NOTIFY4args (RFC 7862 section 15.3).
type CopyNotifyArgs struct {
	SrcStateid        Stateid
	DestinationServer Netloc
}

// CopyNotifyRes is COPY_NOTIFY4resok.
type CopyNotifyRes struct {
	LeaseTime    Time
	Stateid      Stateid
	SourceServer []Netloc `xdr:"max=MaxServers"`
}

// IOAdviseArgs is IO_ADVISE4args (RFC 7862 section 15.5).
type IOAdviseArgs struct {
	Stateid Stateid
	Offset  uint64
	Count   uint64
	Hints   Bitmap
}

// IOAdviseRes is IO_ADVISE4resok.
type IOAdviseRes struct {
	Hints Bitmap
}

// OffloadCancelArgs is OFFLOAD_CANCEL4args (RFC 7862 section 15.8).
type OffloadCancelArgs struct {
	Stateid Stateid
}

// OffloadCancelRes is OFFLOAD_CANCEL4res.
type OffloadCancelRes struct{}

// OffloadStatusArgs is OFFLOAD_STATUS4args (RFC 7862 section 15.9).
type OffloadStatusArgs struct {
	Stateid Stateid
}

// OffloadStatusRes is OFFLOAD_STATUS4resok: Complete is there once it ended.
type OffloadStatusRes struct {
	Count    uint64
	Complete []Status `xdr:"max=1"`
}

// Content is a data_content4.
type Content uint32

// Values of Content (RFC 7862 section 15.10).
const (
	ContentData Content = 0 // NFS4_CONTENT_DATA
	ContentHole Content = 1 // NFS4_CONTENT_HOLE
)

// ReadPlusArgs is READ_PLUS4args (RFC 7862 section 15.10).
type ReadPlusArgs struct {
	Stateid Stateid
	Offset  uint64
	Count   uint32
}

// ReadPlusContent is a read_plus_content: bytes at Offset, or a hole of Length.
type ReadPlusContent struct {
	Content Content `xdr:"switch"`
	Offset  uint64  `xdr:"case=ContentData|ContentHole"`
	Data    []byte  `xdr:"case=ContentData,max=MaxIO"`
	Length  uint64  `xdr:"case=ContentHole"`
}

// ReadPlusRes is a read_plus_res4.
type ReadPlusRes struct {
	EOF      bool
	Contents []ReadPlusContent `xdr:"max=MaxSegments"`
}

// SeekArgs is SEEK4args (RFC 7862 section 15.11).
type SeekArgs struct {
	Stateid Stateid
	Offset  uint64
	What    Content
}

// SeekRes is a seek_res4.
type SeekRes struct {
	EOF    bool
	Offset uint64
}

// AppDataBlock is an app_data_block4.
type AppDataBlock struct {
	Offset         uint64
	BlockSize      uint64
	BlockCount     uint64
	RelOffBlockNum uint64
	BlockNum       uint32
	RelOffPattern  uint64
	Pattern        []byte `xdr:"max=MaxIO"`
}

// WriteSameArgs is WRITE_SAME4args (RFC 7862 section 15.12).
type WriteSameArgs struct {
	Stateid Stateid
	Stable  StableHow
	ADB     AppDataBlock
}

// WriteSameRes is WRITE_SAME4res's OK arm.
type WriteSameRes struct {
	Response WriteResponse
}

// CloneArgs is CLONE4args (RFC 7862 section 15.13). Count 0: to the end.
type CloneArgs struct {
	SrcStateid Stateid
	DstStateid Stateid
	SrcOffset  uint64
	DstOffset  uint64
	Count      uint64
}

// CloneRes is CLONE4res.
type CloneRes struct{}

// GetXattrArgs is GETXATTR4args (RFC 8276 section 8.4.1).
type GetXattrArgs struct {
	Name []byte `xdr:"max=MaxXattrName"`
}

// GetXattrRes is GETXATTR4res's OK arm.
type GetXattrRes struct {
	Value []byte `xdr:"max=MaxXattrValue"`
}

// Options of SETXATTR, setxattr_option4.
const (
	XattrEither  = 0 // SETXATTR4_EITHER
	XattrCreate  = 1 // SETXATTR4_CREATE
	XattrReplace = 2 // SETXATTR4_REPLACE
)

// SetXattrArgs is SETXATTR4args (RFC 8276 section 8.4.2).
type SetXattrArgs struct {
	Option uint32
	Key    []byte `xdr:"max=MaxXattrName"`
	Value  []byte `xdr:"max=MaxXattrValue"`
}

// SetXattrRes is SETXATTR4res's OK arm.
type SetXattrRes struct {
	Info ChangeInfo
}

// ListXattrsArgs is LISTXATTRS4args (RFC 8276 section 8.4.3).
type ListXattrsArgs struct {
	Cookie   uint64
	MaxCount uint32
}

// ListXattrsRes is LISTXATTRS4resok. Names lack the "user." prefix.
type ListXattrsRes struct {
	Cookie uint64
	Names  [][]byte `xdr:"max=MaxXattrNames,each=MaxXattrName"`
	EOF    bool
}

// RemoveXattrArgs is REMOVEXATTR4args (RFC 8276 section 8.4.4).
type RemoveXattrArgs struct {
	Name []byte `xdr:"max=MaxXattrName"`
}

// RemoveXattrRes is REMOVEXATTR4res's OK arm.
type RemoveXattrRes struct {
	Info ChangeInfo
}
