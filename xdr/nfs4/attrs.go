package nfs4

import (
	"fmt"
	"math/bits"

	"manifold/xdr"
)

// Attrs is a fattr4 (RFC 8881 section 3.3.7): Mask says which of the fields
// count, each the attribute of its name.
//
//xdr:manual
type Attrs struct {
	Mask Bitmap
	// Unknown is set by DecodeXDR if the peer's bitmap holds an attribute that
	// is not one below. Its length is then unknown too, so fields above it in
	// number are not decoded (their bits stay in Mask). The answer is
	// ErrAttrNotSupp.
	Unknown bool

	SupportedAttrs    Bitmap          `attr:"AttrSupportedAttrs"`
	Type              FileType        `attr:"AttrType"`
	FHExpireType      uint32          `attr:"AttrFHExpireType"`
	Change            uint64          `attr:"AttrChange"`
	Size              uint64          `attr:"AttrSize"`
	LinkSupport       bool            `attr:"AttrLinkSupport"`
	SymlinkSupport    bool            `attr:"AttrSymlinkSupport"`
	NamedAttr         bool            `attr:"AttrNamedAttr"`
	FSID              FSID            `attr:"AttrFSID"`
	UniqueHandles     bool            `attr:"AttrUniqueHandles"`
	LeaseTime         uint32          `attr:"AttrLeaseTime"`
	RdattrError       Status          `attr:"AttrRdattrError"`
	ACL               []ACE           `attr:"AttrACL" xdr:"max=MaxACEs"`
	ACLSupport        uint32          `attr:"AttrACLSupport"`
	Archive           bool            `attr:"AttrArchive"`
	CanSetTime        bool            `attr:"AttrCanSetTime"`
	CaseInsensitive   bool            `attr:"AttrCaseInsensitive"`
	CasePreserving    bool            `attr:"AttrCasePreserving"`
	ChownRestricted   bool            `attr:"AttrChownRestricted"`
	Filehandle        FH              `attr:"AttrFilehandle" xdr:"max=MaxFH"`
	FileID            uint64          `attr:"AttrFileID"`
	FilesAvail        uint64          `attr:"AttrFilesAvail"`
	FilesFree         uint64          `attr:"AttrFilesFree"`
	FilesTotal        uint64          `attr:"AttrFilesTotal"`
	FSLocations       FSLocations     `attr:"AttrFSLocations"`
	Hidden            bool            `attr:"AttrHidden"`
	Homogeneous       bool            `attr:"AttrHomogeneous"`
	MaxFileSize       uint64          `attr:"AttrMaxFileSize"`
	MaxLink           uint32          `attr:"AttrMaxLink"`
	MaxName           uint32          `attr:"AttrMaxName"`
	MaxRead           uint64          `attr:"AttrMaxRead"`
	MaxWrite          uint64          `attr:"AttrMaxWrite"`
	MimeType          []byte          `attr:"AttrMimeType" xdr:"max=MaxOpaque"`
	Mode              uint32          `attr:"AttrMode"`
	NoTrunc           bool            `attr:"AttrNoTrunc"`
	NumLinks          uint32          `attr:"AttrNumLinks"`
	Owner             []byte          `attr:"AttrOwner" xdr:"max=MaxOwner"`
	OwnerGroup        []byte          `attr:"AttrOwnerGroup" xdr:"max=MaxOwner"`
	QuotaAvailHard    uint64          `attr:"AttrQuotaAvailHard"`
	QuotaAvailSoft    uint64          `attr:"AttrQuotaAvailSoft"`
	QuotaUsed         uint64          `attr:"AttrQuotaUsed"`
	RawDev            SpecData        `attr:"AttrRawDev"`
	SpaceAvail        uint64          `attr:"AttrSpaceAvail"`
	SpaceFree         uint64          `attr:"AttrSpaceFree"`
	SpaceTotal        uint64          `attr:"AttrSpaceTotal"`
	SpaceUsed         uint64          `attr:"AttrSpaceUsed"`
	System            bool            `attr:"AttrSystem"`
	TimeAccess        Time            `attr:"AttrTimeAccess"`
	TimeAccessSet     SetTime         `attr:"AttrTimeAccessSet"`
	TimeBackup        Time            `attr:"AttrTimeBackup"`
	TimeCreate        Time            `attr:"AttrTimeCreate"`
	TimeDelta         Time            `attr:"AttrTimeDelta"`
	TimeMetadata      Time            `attr:"AttrTimeMetadata"`
	TimeModify        Time            `attr:"AttrTimeModify"`
	TimeModifySet     SetTime         `attr:"AttrTimeModifySet"`
	MountedOnFileID   uint64          `attr:"AttrMountedOnFileID"`
	DirNotifDelay     Time            `attr:"AttrDirNotifDelay"`
	DirentNotifDelay  Time            `attr:"AttrDirentNotifDelay"`
	DACL              ACL41           `attr:"AttrDACL"`
	SACL              ACL41           `attr:"AttrSACL"`
	ChangePolicy      ChangePolicy    `attr:"AttrChangePolicy"`
	FSStatus          FSStatus        `attr:"AttrFSStatus"`
	FSLayoutTypes     []LayoutType    `attr:"AttrFSLayoutTypes" xdr:"max=maxLayoutTypes"`
	LayoutHint        LayoutUpdate    `attr:"AttrLayoutHint"`
	LayoutTypes       []LayoutType    `attr:"AttrLayoutTypes" xdr:"max=maxLayoutTypes"`
	LayoutBlksize     uint32          `attr:"AttrLayoutBlksize"`
	LayoutAlignment   uint32          `attr:"AttrLayoutAlignment"`
	FSLocationsInfo   FSLocationsInfo `attr:"AttrFSLocationsInfo"`
	MDSThreshold      MDSThreshold    `attr:"AttrMDSThreshold"`
	RetentionGet      RetentionGet    `attr:"AttrRetentionGet"`
	RetentionSet      RetentionSet    `attr:"AttrRetentionSet"`
	RetentEvtGet      RetentionGet    `attr:"AttrRetentEvtGet"`
	RetentEvtSet      RetentionSet    `attr:"AttrRetentEvtSet"`
	RetentionHold     uint64          `attr:"AttrRetentionHold"`
	ModeSetMasked     MaskedMode      `attr:"AttrModeSetMasked"`
	SuppattrExclcreat Bitmap          `attr:"AttrSuppattrExclcreat"`
	FSCharsetCap      uint32          `attr:"AttrFSCharsetCap"`
	CloneBlksize      uint32          `attr:"AttrCloneBlksize"`
	SpaceFreed        uint64          `attr:"AttrSpaceFreed"`
	ChangeAttrType    uint32          `attr:"AttrChangeAttrType"`
	SecLabel          SecLabel        `attr:"AttrSecLabel"`
	ModeUmask         ModeUmask       `attr:"AttrModeUmask"`
	XattrSupport      bool            `attr:"AttrXattrSupport"`
	Offline           bool            `attr:"AttrOffline"`
	TimeDelegAccess   Time            `attr:"AttrTimeDelegAccess"`
	TimeDelegModify   Time            `attr:"AttrTimeDelegModify"`
	OpenArguments     OpenArguments   `attr:"AttrOpenArguments"`
}

// KnownAttrs returns the attributes that Attrs has a field for.
func KnownAttrs() Bitmap { return Bitmap{1<<32 - 1, 1<<32 - 1, 1<<(AttrOpenArguments+1-64) - 1} }

// EncodeXDR appends the fattr4 of exactly the Mask, less what is not in
// KnownAttrs.
func (x *Attrs) EncodeXDR(e *xdr.Encoder) {
	mask := x.Mask.And(KnownAttrs())
	mask.EncodeXDR(e)
	at := e.Len()
	e.Uint32(0)
	for w, word := range mask {
		for ; word != 0; word &= word - 1 {
			x.encodeAttr(e, Attr(32*w+bits.TrailingZeros32(word)))
		}
	}
	e.SetUint32(at, uint32(e.Len()-at-4))
}

// DecodeXDR reads a fattr4. An attribute whose value does not fit the length
// that is given for all of them is an XDR error; one that is not known sets
// Unknown. Fields whose bit is not in Mask keep what they held.
func (x *Attrs) DecodeXDR(d *xdr.Decoder) {
	x.Unknown = x.Mask.decode(d)
	values := xdr.NewDecoder(d.Opaque(MaxAttrBytes))
	if d.Err() != nil {
		return
	}
	for w, word := range x.Mask {
		for ; word != 0; word &= word - 1 {
			if !x.decodeAttr(&values, Attr(32*w+bits.TrailingZeros32(word))) {
				x.Unknown = true
				return
			}
		}
	}
	if err := values.Err(); err != nil {
		d.Fail(fmt.Errorf("in fattr4: %w", err))
	} else if n := values.Remaining(); n != 0 && !x.Unknown {
		d.Fail(fmt.Errorf("%w: fattr4 holds %d bytes too many", xdr.ErrValue, n))
	}
}
