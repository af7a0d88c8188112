package nfs4

// SetTime is a settime4: the client's Time if How is AttrSetToClientTime, else
// the server's clock.
type SetTime struct {
	How  uint32 `xdr:"switch,void=*"`
	Time Time   `xdr:"case=AttrSetToClientTime"`
}

// Pathname is a pathname4.
type Pathname struct {
	Components [][]byte `xdr:"max=MaxPath,each=MaxName"`
}

// FSLocation is an fs_location4: servers that have the same file system at the
// same path.
type FSLocation struct {
	Servers  [][]byte `xdr:"max=MaxServers,each=MaxOpaque"`
	RootPath Pathname
}

// FSLocations is an fs_locations4 (RFC 8881 section 11.16).
type FSLocations struct {
	FSRoot    Pathname
	Locations []FSLocation `xdr:"max=MaxServers"`
}

// FSLocationsServer is an fs_locations_server4.
type FSLocationsServer struct {
	Currency int32
	Info     []byte `xdr:"max=MaxOpaque"`
	Server   []byte `xdr:"max=MaxOpaque"`
}

// FSLocationsItem is an fs_locations_item4.
type FSLocationsItem struct {
	Entries  []FSLocationsServer `xdr:"max=MaxServers"`
	RootPath Pathname
}

// FSLocationsInfo is an fs_locations_info4 (RFC 8881 section 11.17).
type FSLocationsInfo struct {
	Flags    uint32
	ValidFor int32
	FSRoot   Pathname
	Items    []FSLocationsItem `xdr:"max=MaxServers"`
}

// ChangePolicy is a change_policy4.
type ChangePolicy struct {
	Major uint64
	Minor uint64
}

// FSStatus is an fs4_status (RFC 8881 section 11.18).
type FSStatus struct {
	Absent  bool
	Type    uint32
	Source  []byte `xdr:"max=MaxOpaque"`
	Current []byte `xdr:"max=MaxOpaque"`
	Age     int32
	Version Time
}

// Threshold is a threshold_item4: HintList holds one 64-bit length for each bit
// of HintSet, in the order of the bits.
type Threshold struct {
	LayoutType LayoutType
	HintSet    Bitmap
	HintList   []byte `xdr:"max=MaxOpaque"`
}

// Bits of Threshold.HintSet.
const (
	ThresholdReadSize    = 0 // TH4_READ_SIZE
	ThresholdWriteSize   = 1 // TH4_WRITE_SIZE
	ThresholdReadIOSize  = 2 // TH4_READ_IOSIZE
	ThresholdWriteIOSize = 3 // TH4_WRITE_IOSIZE
)

// MDSThreshold is an mdsthreshold4 (RFC 8881 section 5.12.4).
type MDSThreshold struct {
	Hints []Threshold `xdr:"max=maxLayoutTypes"`
}

// RetentionGet is a retention_get4.
type RetentionGet struct {
	Duration  uint64
	BeginTime []Time `xdr:"max=1"`
}

// RetentionSet is a retention_set4.
type RetentionSet struct {
	Enable   bool
	Duration []uint64 `xdr:"max=1"`
}

// MaskedMode is a mode_masked4: the bits of Mask get Value's.
type MaskedMode struct {
	Value uint32
	Mask  uint32
}

// ModeUmask is a mode_umask4 (RFC 8275): the server applies the umask unless
// the directory has inheritable ACEs.
type ModeUmask struct {
	Mode  uint32
	Umask uint32
}

// SecLabel is a sec_label4 (RFC 7862 section 12.2.4).
type SecLabel struct {
	LFS   uint32
	PI    uint32
	Label []byte `xdr:"max=maxLabel"`
}

// OpenArguments is an open_arguments4 (RFC 9754): which values of OPEN's
// arguments the server knows.
type OpenArguments struct {
	ShareAccess     Bitmap
	ShareDeny       Bitmap
	ShareAccessWant Bitmap
	OpenClaim       Bitmap
	CreateMode      Bitmap
}
