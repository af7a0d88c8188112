package nfs4

// Bits of ACCESS (RFC 8881 section 18.1, RFC 8276 section 8.5).
const (
	AccessRead    = 0x001 // ACCESS4_READ
	AccessLookup  = 0x002 // ACCESS4_LOOKUP
	AccessModify  = 0x004 // ACCESS4_MODIFY
	AccessExtend  = 0x008 // ACCESS4_EXTEND
	AccessDelete  = 0x010 // ACCESS4_DELETE
	AccessExecute = 0x020 // ACCESS4_EXECUTE
	AccessXARead  = 0x040 // ACCESS4_XAREAD
	AccessXAWrite = 0x080 // ACCESS4_XAWRITE
	AccessXAList  = 0x100 // ACCESS4_XALIST
)

// share_access and share_deny of OPEN, with the wants of a delegation
// (RFC 8881 section 18.16, RFC 9754).
const (
	ShareAccessRead  = 1 // OPEN4_SHARE_ACCESS_READ
	ShareAccessWrite = 2 // OPEN4_SHARE_ACCESS_WRITE
	ShareAccessBoth  = 3 // OPEN4_SHARE_ACCESS_BOTH
	ShareAccessMask  = 3 // the bits above

	ShareDenyNone  = 0 // OPEN4_SHARE_DENY_NONE
	ShareDenyRead  = 1 // OPEN4_SHARE_DENY_READ
	ShareDenyWrite = 2 // OPEN4_SHARE_DENY_WRITE
	ShareDenyBoth  = 3 // OPEN4_SHARE_DENY_BOTH

	WantDelegMask    = 0xff00   // OPEN4_SHARE_ACCESS_WANT_DELEG_MASK
	WantNoPreference = 0x0000   // OPEN4_SHARE_ACCESS_WANT_NO_PREFERENCE
	WantReadDeleg    = 0x0100   // OPEN4_SHARE_ACCESS_WANT_READ_DELEG
	WantWriteDeleg   = 0x0200   // OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG
	WantAnyDeleg     = 0x0300   // OPEN4_SHARE_ACCESS_WANT_ANY_DELEG
	WantNoDeleg      = 0x0400   // OPEN4_SHARE_ACCESS_WANT_NO_DELEG
	WantCancel       = 0x0500   // OPEN4_SHARE_ACCESS_WANT_CANCEL
	WantSignalAvail  = 0x10000  // OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL
	WantPushUncont   = 0x20000  // OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED
	WantDelegTimes   = 0x100000 // OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS
	WantOpenXorDeleg = 0x200000 // OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION
)

// Result flags of OPEN (rflags).
const (
	OpenResultConfirm          = 0x02 // OPEN4_RESULT_CONFIRM, never in 4.1
	OpenResultLocktypePosix    = 0x04 // OPEN4_RESULT_LOCKTYPE_POSIX
	OpenResultPreserveUnlinked = 0x08 // OPEN4_RESULT_PRESERVE_UNLINKED
	OpenResultNoOpenStateid    = 0x10 // OPEN4_RESULT_NO_OPEN_STATEID, RFC 9754
	OpenResultMayNotifyLock    = 0x20 // OPEN4_RESULT_MAY_NOTIFY_LOCK
)

// LengthToEnd is NFS4_UINT64_MAX, the length of a range that reaches to the end
// of the file, however long it gets.
const LengthToEnd = 1<<64 - 1

// Flags of EXCHANGE_ID, eia_flags and eir_flags (RFC 8881 section 18.35).
const (
	ExchgidFlagSuppMovedRefer   = 0x00000001 // EXCHGID4_FLAG_SUPP_MOVED_REFER
	ExchgidFlagSuppMovedMigr    = 0x00000002 // EXCHGID4_FLAG_SUPP_MOVED_MIGR
	ExchgidFlagSuppFenceOps     = 0x00000004 // EXCHGID4_FLAG_SUPP_FENCE_OPS, 4.2
	ExchgidFlagBindPrincStateid = 0x00000100 // EXCHGID4_FLAG_BIND_PRINC_STATEID
	ExchgidFlagUseNonPNFS       = 0x00010000 // EXCHGID4_FLAG_USE_NON_PNFS
	ExchgidFlagUsePNFSMDS       = 0x00020000 // EXCHGID4_FLAG_USE_PNFS_MDS
	ExchgidFlagUsePNFSDS        = 0x00040000 // EXCHGID4_FLAG_USE_PNFS_DS
	ExchgidFlagMaskPNFS         = 0x00070000 // EXCHGID4_FLAG_MASK_PNFS
	ExchgidFlagUpdConfirmedRecA = 0x40000000 // EXCHGID4_FLAG_UPD_CONFIRMED_REC_A, args only
	ExchgidFlagConfirmedR       = 0x80000000 // EXCHGID4_FLAG_CONFIRMED_R, results only

	// ExchgidFlagArgsMask and ExchgidFlagArgsMask42 are the bits that a client
	// may set in 4.1 and 4.2; any other is answered with ErrInval.
	ExchgidFlagArgsMask   = 0x40070103
	ExchgidFlagArgsMask42 = 0x40070107
)

// Flags of CREATE_SESSION (RFC 8881 section 18.36).
const (
	CreateSessionFlagPersist      = 1 // CREATE_SESSION4_FLAG_PERSIST
	CreateSessionFlagConnBackChan = 2 // CREATE_SESSION4_FLAG_CONN_BACK_CHAN
	CreateSessionFlagConnRDMA     = 4 // CREATE_SESSION4_FLAG_CONN_RDMA
)

// Status flags of SEQUENCE, sr_status_flags (RFC 8881 section 18.46).
const (
	SeqStatusCBPathDown              = 0x00000001 // SEQ4_STATUS_CB_PATH_DOWN
	SeqStatusCBGSSContextsExpiring   = 0x00000002 // SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRING
	SeqStatusCBGSSContextsExpired    = 0x00000004 // SEQ4_STATUS_CB_GSS_CONTEXTS_EXPIRED
	SeqStatusExpiredAllStateRevoked  = 0x00000008 // SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED
	SeqStatusExpiredSomeStateRevoked = 0x00000010 // SEQ4_STATUS_EXPIRED_SOME_STATE_REVOKED
	SeqStatusAdminStateRevoked       = 0x00000020 // SEQ4_STATUS_ADMIN_STATE_REVOKED
	SeqStatusRecallableStateRevoked  = 0x00000040 // SEQ4_STATUS_RECALLABLE_STATE_REVOKED
	SeqStatusLeaseMoved              = 0x00000080 // SEQ4_STATUS_LEASE_MOVED
	SeqStatusRestartReclaimNeeded    = 0x00000100 // SEQ4_STATUS_RESTART_RECLAIM_NEEDED
	SeqStatusCBPathDownSession       = 0x00000200 // SEQ4_STATUS_CB_PATH_DOWN_SESSION
	SeqStatusBackchannelFault        = 0x00000400 // SEQ4_STATUS_BACKCHANNEL_FAULT
	SeqStatusDevIDChanged            = 0x00000800 // SEQ4_STATUS_DEVID_CHANGED
	SeqStatusDevIDDeleted            = 0x00001000 // SEQ4_STATUS_DEVID_DELETED
)

// Directions of BIND_CONN_TO_SESSION (RFC 8881 section 18.34).
const (
	BindFore       = 1 // CDFC4_FORE, CDFS4_FORE
	BindBack       = 2 // CDFC4_BACK, CDFS4_BACK
	BindBoth       = 3 // CDFS4_BOTH, results only
	BindForeOrBoth = 3 // CDFC4_FORE_OR_BOTH, args only
	BindBackOrBoth = 7 // CDFC4_BACK_OR_BOTH, args only
)

// LayoutType is a layouttype4.
type LayoutType uint32

// Values of LayoutType (RFC 8881 section 3.3.13, RFC 8435, RFC 8154).
const (
	LayoutFiles     LayoutType = 1 // LAYOUT4_NFSV4_1_FILES
	LayoutOSD2      LayoutType = 2 // LAYOUT4_OSD2_OBJECTS
	LayoutBlock     LayoutType = 3 // LAYOUT4_BLOCK_VOLUME
	LayoutFlexFiles LayoutType = 4 // LAYOUT4_FLEX_FILES
	LayoutSCSI      LayoutType = 5 // LAYOUT4_SCSI
)

// Bits of the attribute fs_charset_cap (RFC 8881 section 14.4).
const (
	CharsetContainsNonUTF8 = 1 // FSCHARSET_CAP4_CONTAINS_NON_UTF8
	CharsetAllowsOnlyUTF8  = 2 // FSCHARSET_CAP4_ALLOWS_ONLY_UTF8
)

// IOMode is a layoutiomode4.
type IOMode uint32

// Values of IOMode (RFC 8881 section 3.3.20).
const (
	IOModeRead IOMode = 1 // LAYOUTIOMODE4_READ
	IOModeRW   IOMode = 2 // LAYOUTIOMODE4_RW
	IOModeAny  IOMode = 3 // LAYOUTIOMODE4_ANY: LAYOUTRETURN and CB_LAYOUTRECALL only
)

// StableHow is a stable_how4.
type StableHow uint32

// Values of StableHow (RFC 8881 section 18.32).
const (
	Unstable StableHow = 0 // UNSTABLE4
	DataSync StableHow = 1 // DATA_SYNC4
	FileSync StableHow = 2 // FILE_SYNC4
)

// Types of object in CB_RECALL_ANY's mask (RFC 8881 section 20.6, RFC 8435).
const (
	RecallAnyReadDeleg     = 0  // RCA4_TYPE_MASK_RDATA_DLG
	RecallAnyWriteDeleg    = 1  // RCA4_TYPE_MASK_WDATA_DLG
	RecallAnyDirDeleg      = 2  // RCA4_TYPE_MASK_DIR_DLG
	RecallAnyFileLayout    = 3  // RCA4_TYPE_MASK_FILE_LAYOUT
	RecallAnyBlockLayout   = 4  // RCA4_TYPE_MASK_BLK_LAYOUT
	RecallAnyFlexFilesRead = 16 // RCA4_TYPE_MASK_FF_LAYOUT_MIN
	RecallAnyFlexFilesRW   = 17 // RCA4_TYPE_MASK_FF_LAYOUT_MAX
)

// Bits of the notification bitmaps of GETDEVICEINFO and CB_NOTIFY_DEVICEID
// (RFC 8881 section 20.12).
const (
	NotifyDeviceIDChange = 1 // NOTIFY_DEVICEID4_CHANGE
	NotifyDeviceIDDelete = 2 // NOTIFY_DEVICEID4_DELETE
)

// Values of fh_expire_type (RFC 8881 section 5.8.1.3).
const (
	FHPersistent = 0 // FH4_PERSISTENT
)

// Values of change_attr_type (RFC 7862 section 12.2.3).
const (
	ChangeMonotonicIncr        = 0 // NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR
	ChangeVersionCounter       = 1 // NFS4_CHANGE_TYPE_IS_VERSION_COUNTER
	ChangeVersionCounterNoPNFS = 2 // NFS4_CHANGE_TYPE_IS_VERSION_COUNTER_NOPNFS
	ChangeTimeMetadata         = 3 // NFS4_CHANGE_TYPE_IS_TIME_METADATA
	ChangeUndefined            = 4 // NFS4_CHANGE_TYPE_IS_UNDEFINED
)

// Values of SetTime.How, time_how4.
const (
	AttrSetToServerTime = 0 // SET_TO_SERVER_TIME4
	AttrSetToClientTime = 1 // SET_TO_CLIENT_TIME4
)

// Flavors of RPC security in SECINFO and in callback parameters.
const (
	SecFlavorNone = 0 // AUTH_NONE, RFC 5531
	SecFlavorSys  = 1 // AUTH_SYS, RFC 5531
	SecFlavorGSS  = 6 // RPCSEC_GSS, RFC 2203
)

// Numbers of the RPC programs (RFC 8881 sections 16 and 20). The program number
// of callbacks is the client's choice in CREATE_SESSION.
const (
	ProgramNFS             = 100003 // NFS4_PROGRAM
	VersionNFS4            = 4      // NFS_V4
	ProcNull               = 0      // NFSPROC4_NULL
	ProcCompound           = 1      // NFSPROC4_COMPOUND
	CallbackProgramVersion = 1      // NFS_CB
	ProcCBNull             = 0      // CB_NULL
	ProcCBCompound         = 1      // CB_COMPOUND
)
