package nfs4

// DeviceAddr is a device_addr4; the layout type's own package reads the body.
type DeviceAddr struct {
	LayoutType LayoutType
	AddrBody   []byte `xdr:"max=MaxLayoutBody"`
}

// GetDeviceInfoArgs is GETDEVICEINFO4args (RFC 8881 section 18.40). NotifyTypes
// has the bits NotifyDeviceIDChange and NotifyDeviceIDDelete.
type GetDeviceInfoArgs struct {
	DeviceID    DeviceID
	LayoutType  LayoutType
	MaxCount    uint32
	NotifyTypes Bitmap
}

// GetDeviceInfoRes is GETDEVICEINFO4res: the address after OK, MinCount (bytes
// that maxcount must allow) after ErrTooSmall.
type GetDeviceInfoRes struct {
	DeviceAddr   DeviceAddr
	Notification Bitmap
	MinCount     uint32 `xdr:"-"`
}

// GetDeviceListArgs is GETDEVICELIST4args (RFC 8881 section 18.41).
type GetDeviceListArgs struct {
	LayoutType LayoutType
	MaxDevices uint32
	Cookie     uint64
	CookieVerf Verifier
}

// GetDeviceListRes is GETDEVICELIST4resok.
type GetDeviceListRes struct {
	Cookie     uint64
	CookieVerf Verifier
	DeviceIDs  []DeviceID `xdr:"max=MaxDevices"`
	EOF        bool
}

// NewOffset is a newoffset4: the last byte written, if anything was.
type NewOffset struct {
	Present bool   `xdr:"switch,void=false"`
	Offset  uint64 `xdr:"case=true"`
}

// NewTime is a newtime4.
type NewTime struct {
	Present bool `xdr:"switch,void=false"`
	Time    Time `xdr:"case=true"`
}

// NewSize is a newsize4.
type NewSize struct {
	Present bool   `xdr:"switch,void=false"`
	Size    uint64 `xdr:"case=true"`
}

// LayoutUpdate is a layoutupdate4.
type LayoutUpdate struct {
	Type LayoutType
	Body []byte `xdr:"max=MaxLayoutBody"`
}

// LayoutCommitArgs is LAYOUTCOMMIT4args (RFC 8881 section 18.42).
type LayoutCommitArgs struct {
	Offset          uint64
	Length          uint64
	Reclaim         bool
	Stateid         Stateid
	LastWriteOffset NewOffset
	TimeModify      NewTime
	LayoutUpdate    LayoutUpdate
}

// LayoutCommitRes is LAYOUTCOMMIT4resok.
type LayoutCommitRes struct {
	NewSize NewSize
}

// LayoutGetArgs is LAYOUTGET4args (RFC 8881 section 18.43). MaxCount bounds the
// layout's bytes in the reply.
type LayoutGetArgs struct {
	SignalLayoutAvail bool
	LayoutType        LayoutType
	IOMode            IOMode
	Offset            uint64
	Length            uint64
	MinLength         uint64
	Stateid           Stateid
	MaxCount          uint32
}

// Layout is a layout4; the layout type's own package reads the body.
type Layout struct {
	Offset uint64
	Length uint64
	IOMode IOMode
	Type   LayoutType
	Body   []byte `xdr:"max=MaxLayoutBody"`
}

// LayoutGetRes is LAYOUTGET4res: the layouts after OK, WillSignalAvail after
// ErrLayoutTryLater.
type LayoutGetRes struct {
	ReturnOnClose   bool
	Stateid         Stateid
	Layouts         []Layout `xdr:"max=MaxLayouts"`
	WillSignalAvail bool     `xdr:"-"`
}

// Kinds of LAYOUTRETURN and CB_LAYOUTRECALL, layoutreturn_type4 and
// layoutrecall_type4.
const (
	LayoutReturnFile = 1 // LAYOUTRETURN4_FILE, LAYOUTRECALL4_FILE
	LayoutReturnFSID = 2 // LAYOUTRETURN4_FSID, LAYOUTRECALL4_FSID
	LayoutReturnAll  = 3 // LAYOUTRETURN4_ALL, LAYOUTRECALL4_ALL
)

// LayoutReturnRange is a layoutreturn_file4.
type LayoutReturnRange struct {
	Offset  uint64
	Length  uint64
	Stateid Stateid
	Body    []byte `xdr:"max=MaxLayoutBody"`
}

// LayoutReturn is a layoutreturn4: File counts if Kind is LayoutReturnFile.
type LayoutReturn struct {
	Kind uint32            `xdr:"switch,void=*"`
	File LayoutReturnRange `xdr:"case=LayoutReturnFile"`
}

// LayoutReturnArgs is LAYOUTRETURN4args (RFC 8881 section 18.44).
type LayoutReturnArgs struct {
	Reclaim    bool
	LayoutType LayoutType
	IOMode     IOMode
	Return     LayoutReturn
}

// LayoutReturnRes is a layoutreturn_stateid: Present while the client still
// holds layouts of the file.
type LayoutReturnRes struct {
	Present bool    `xdr:"switch,void=false"`
	Stateid Stateid `xdr:"case=true"`
}

// DeviceError is a device_error4.
type DeviceError struct {
	DeviceID DeviceID
	Status   Status
	OpNum    OpNum
}

// LayoutErrorArgs is LAYOUTERROR4args (RFC 7862 section 15.6).
type LayoutErrorArgs struct {
	Offset  uint64
	Length  uint64
	Stateid Stateid
	Errors  []DeviceError `xdr:"max=MaxDevices"`
}

// LayoutErrorRes is LAYOUTERROR4res.
type LayoutErrorRes struct{}

// IOInfo is an io_info4.
type IOInfo struct {
	Count uint64
	Bytes uint64
}

// LayoutStatsArgs is LAYOUTSTATS4args (RFC 7862 section 15.7).
type LayoutStatsArgs struct {
	Offset       uint64
	Length       uint64
	Stateid      Stateid
	Read         IOInfo
	Write        IOInfo
	DeviceID     DeviceID
	LayoutUpdate LayoutUpdate
}

// LayoutStatsRes is LAYOUTSTATS4res.
type LayoutStatsRes struct{}
