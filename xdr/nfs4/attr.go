package nfs4

// Attr is an attribute's number, a bit in a Bitmap.
//
//xdr:names
type Attr uint32

// Values of Attr: RFC 8881 section 5 (0-76), RFC 7862 section 12 (77-80), RFC
// 8275 (mode_umask), RFC 8276 (xattr_support), RFC 9754 (83-86).
const (
	AttrSupportedAttrs    Attr = 0  // supported_attrs
	AttrType              Attr = 1  // type
	AttrFHExpireType      Attr = 2  // fh_expire_type
	AttrChange            Attr = 3  // change
	AttrSize              Attr = 4  // size
	AttrLinkSupport       Attr = 5  // link_support
	AttrSymlinkSupport    Attr = 6  // symlink_support
	AttrNamedAttr         Attr = 7  // named_attr
	AttrFSID              Attr = 8  // fsid
	AttrUniqueHandles     Attr = 9  // unique_handles
	AttrLeaseTime         Attr = 10 // lease_time
	AttrRdattrError       Attr = 11 // rdattr_error
	AttrACL               Attr = 12 // acl
	AttrACLSupport        Attr = 13 // aclsupport
	AttrArchive           Attr = 14 // archive
	AttrCanSetTime        Attr = 15 // cansettime
	AttrCaseInsensitive   Attr = 16 // case_insensitive
	AttrCasePreserving    Attr = 17 // case_preserving
	AttrChownRestricted   Attr = 18 // chown_restricted
	AttrFilehandle        Attr = 19 // filehandle
	AttrFileID            Attr = 20 // fileid
	AttrFilesAvail        Attr = 21 // files_avail
	AttrFilesFree         Attr = 22 // files_free
	AttrFilesTotal        Attr = 23 // files_total
	AttrFSLocations       Attr = 24 // fs_locations
	AttrHidden            Attr = 25 // hidden
	AttrHomogeneous       Attr = 26 // homogeneous
	AttrMaxFileSize       Attr = 27 // maxfilesize
	AttrMaxLink           Attr = 28 // maxlink
	AttrMaxName           Attr = 29 // maxname
	AttrMaxRead           Attr = 30 // maxread
	AttrMaxWrite          Attr = 31 // maxwrite
	AttrMimeType          Attr = 32 // mimetype
	AttrMode              Attr = 33 // mode
	AttrNoTrunc           Attr = 34 // no_trunc
	AttrNumLinks          Attr = 35 // numlinks
	AttrOwner             Attr = 36 // owner
	AttrOwnerGroup        Attr = 37 // owner_group
	AttrQuotaAvailHard    Attr = 38 // quota_avail_hard
	AttrQuotaAvailSoft    Attr = 39 // quota_avail_soft
	AttrQuotaUsed         Attr = 40 // quota_used
	AttrRawDev            Attr = 41 // rawdev
	AttrSpaceAvail        Attr = 42 // space_avail
	AttrSpaceFree         Attr = 43 // space_free
	AttrSpaceTotal        Attr = 44 // space_total
	AttrSpaceUsed         Attr = 45 // space_used
	AttrSystem            Attr = 46 // system
	AttrTimeAccess        Attr = 47 // time_access
	AttrTimeAccessSet     Attr = 48 // time_access_set
	AttrTimeBackup        Attr = 49 // time_backup
	AttrTimeCreate        Attr = 50 // time_create
	AttrTimeDelta         Attr = 51 // time_delta
	AttrTimeMetadata      Attr = 52 // time_metadata
	AttrTimeModify        Attr = 53 // time_modify
	AttrTimeModifySet     Attr = 54 // time_modify_set
	AttrMountedOnFileID   Attr = 55 // mounted_on_fileid
	AttrDirNotifDelay     Attr = 56 // dir_notif_delay
	AttrDirentNotifDelay  Attr = 57 // dirent_notif_delay
	AttrDACL              Attr = 58 // dacl
	AttrSACL              Attr = 59 // sacl
	AttrChangePolicy      Attr = 60 // change_policy
	AttrFSStatus          Attr = 61 // fs_status
	AttrFSLayoutTypes     Attr = 62 // fs_layout_types
	AttrLayoutHint        Attr = 63 // layout_hint
	AttrLayoutTypes       Attr = 64 // layout_types
	AttrLayoutBlksize     Attr = 65 // layout_blksize
	AttrLayoutAlignment   Attr = 66 // layout_alignment
	AttrFSLocationsInfo   Attr = 67 // fs_locations_info
	AttrMDSThreshold      Attr = 68 // mdsthreshold
	AttrRetentionGet      Attr = 69 // retention_get
	AttrRetentionSet      Attr = 70 // retention_set
	AttrRetentEvtGet      Attr = 71 // retentevt_get
	AttrRetentEvtSet      Attr = 72 // retentevt_set
	AttrRetentionHold     Attr = 73 // retention_hold
	AttrModeSetMasked     Attr = 74 // mode_set_masked
	AttrSuppattrExclcreat Attr = 75 // suppattr_exclcreat
	AttrFSCharsetCap      Attr = 76 // fs_charset_cap
	AttrCloneBlksize      Attr = 77 // clone_blksize
	AttrSpaceFreed        Attr = 78 // space_freed
	AttrChangeAttrType    Attr = 79 // change_attr_type
	AttrSecLabel          Attr = 80 // sec_label
	AttrModeUmask         Attr = 81 // mode_umask
	AttrXattrSupport      Attr = 82 // xattr_support
	AttrOffline           Attr = 83 // offline
	AttrTimeDelegAccess   Attr = 84 // time_deleg_access
	AttrTimeDelegModify   Attr = 85 // time_deleg_modify
	AttrOpenArguments     Attr = 86 // open_arguments
)
