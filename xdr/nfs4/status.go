package nfs4

// Status is an nfsstat4. It is an error too, so that functions below an
// operation may return one; OK is never returned as an error.
//
//xdr:names
type Status uint32

// Values of Status: RFC 8881 section 15.1, RFC 7862 section 11.1, RFC 8276
// section 8.4.3.
const (
	OK                       Status = 0     // NFS4_OK
	ErrPerm                  Status = 1     // NFS4ERR_PERM
	ErrNoEnt                 Status = 2     // NFS4ERR_NOENT
	ErrIO                    Status = 5     // NFS4ERR_IO
	ErrNXIO                  Status = 6     // NFS4ERR_NXIO
	ErrAccess                Status = 13    // NFS4ERR_ACCESS
	ErrExist                 Status = 17    // NFS4ERR_EXIST
	ErrXDev                  Status = 18    // NFS4ERR_XDEV
	ErrNotDir                Status = 20    // NFS4ERR_NOTDIR
	ErrIsDir                 Status = 21    // NFS4ERR_ISDIR
	ErrInval                 Status = 22    // NFS4ERR_INVAL
	ErrFBig                  Status = 27    // NFS4ERR_FBIG
	ErrNoSpc                 Status = 28    // NFS4ERR_NOSPC
	ErrROFS                  Status = 30    // NFS4ERR_ROFS
	ErrMLink                 Status = 31    // NFS4ERR_MLINK
	ErrNameTooLong           Status = 63    // NFS4ERR_NAMETOOLONG
	ErrNotEmpty              Status = 66    // NFS4ERR_NOTEMPTY
	ErrDQuot                 Status = 69    // NFS4ERR_DQUOT
	ErrStale                 Status = 70    // NFS4ERR_STALE
	ErrBadHandle             Status = 10001 // NFS4ERR_BADHANDLE
	ErrBadCookie             Status = 10003 // NFS4ERR_BAD_COOKIE
	ErrNotSupp               Status = 10004 // NFS4ERR_NOTSUPP
	ErrTooSmall              Status = 10005 // NFS4ERR_TOOSMALL
	ErrServerFault           Status = 10006 // NFS4ERR_SERVERFAULT
	ErrBadType               Status = 10007 // NFS4ERR_BADTYPE
	ErrDelay                 Status = 10008 // NFS4ERR_DELAY
	ErrSame                  Status = 10009 // NFS4ERR_SAME
	ErrDenied                Status = 10010 // NFS4ERR_DENIED
	ErrExpired               Status = 10011 // NFS4ERR_EXPIRED
	ErrLocked                Status = 10012 // NFS4ERR_LOCKED
	ErrGrace                 Status = 10013 // NFS4ERR_GRACE
	ErrFHExpired             Status = 10014 // NFS4ERR_FHEXPIRED
	ErrShareDenied           Status = 10015 // NFS4ERR_SHARE_DENIED
	ErrWrongSec              Status = 10016 // NFS4ERR_WRONGSEC
	ErrClidInUse             Status = 10017 // NFS4ERR_CLID_INUSE
	ErrResource              Status = 10018 // NFS4ERR_RESOURCE
	ErrMoved                 Status = 10019 // NFS4ERR_MOVED
	ErrNoFileHandle          Status = 10020 // NFS4ERR_NOFILEHANDLE
	ErrMinorVersMismatch     Status = 10021 // NFS4ERR_MINOR_VERS_MISMATCH
	ErrStaleClientID         Status = 10022 // NFS4ERR_STALE_CLIENTID
	ErrStaleStateID          Status = 10023 // NFS4ERR_STALE_STATEID
	ErrOldStateID            Status = 10024 // NFS4ERR_OLD_STATEID
	ErrBadStateID            Status = 10025 // NFS4ERR_BAD_STATEID
	ErrBadSeqID              Status = 10026 // NFS4ERR_BAD_SEQID
	ErrNotSame               Status = 10027 // NFS4ERR_NOT_SAME
	ErrLockRange             Status = 10028 // NFS4ERR_LOCK_RANGE
	ErrSymlink               Status = 10029 // NFS4ERR_SYMLINK
	ErrRestoreFH             Status = 10030 // NFS4ERR_RESTOREFH
	ErrLeaseMoved            Status = 10031 // NFS4ERR_LEASE_MOVED
	ErrAttrNotSupp           Status = 10032 // NFS4ERR_ATTRNOTSUPP
	ErrNoGrace               Status = 10033 // NFS4ERR_NO_GRACE
	ErrReclaimBad            Status = 10034 // NFS4ERR_RECLAIM_BAD
	ErrReclaimConflict       Status = 10035 // NFS4ERR_RECLAIM_CONFLICT
	ErrBadXDR                Status = 10036 // NFS4ERR_BADXDR
	ErrLocksHeld             Status = 10037 // NFS4ERR_LOCKS_HELD
	ErrOpenMode              Status = 10038 // NFS4ERR_OPENMODE
	ErrBadOwner              Status = 10039 // NFS4ERR_BADOWNER
	ErrBadChar               Status = 10040 // NFS4ERR_BADCHAR
	ErrBadName               Status = 10041 // NFS4ERR_BADNAME
	ErrBadRange              Status = 10042 // NFS4ERR_BAD_RANGE
	ErrLockNotSupp           Status = 10043 // NFS4ERR_LOCK_NOTSUPP
	ErrOpIllegal             Status = 10044 // NFS4ERR_OP_ILLEGAL
	ErrDeadlock              Status = 10045 // NFS4ERR_DEADLOCK
	ErrFileOpen              Status = 10046 // NFS4ERR_FILE_OPEN
	ErrAdminRevoked          Status = 10047 // NFS4ERR_ADMIN_REVOKED
	ErrCBPathDown            Status = 10048 // NFS4ERR_CB_PATH_DOWN
	ErrBadIOMode             Status = 10049 // NFS4ERR_BADIOMODE
	ErrBadLayout             Status = 10050 // NFS4ERR_BADLAYOUT
	ErrBadSessionDigest      Status = 10051 // NFS4ERR_BAD_SESSION_DIGEST
	ErrBadSession            Status = 10052 // NFS4ERR_BADSESSION
	ErrBadSlot               Status = 10053 // NFS4ERR_BADSLOT
	ErrCompleteAlready       Status = 10054 // NFS4ERR_COMPLETE_ALREADY
	ErrConnNotBoundToSession Status = 10055 // NFS4ERR_CONN_NOT_BOUND_TO_SESSION
	ErrDelegAlreadyWanted    Status = 10056 // NFS4ERR_DELEG_ALREADY_WANTED
	ErrBackChanBusy          Status = 10057 // NFS4ERR_BACK_CHAN_BUSY
	ErrLayoutTryLater        Status = 10058 // NFS4ERR_LAYOUTTRYLATER
	ErrLayoutUnavailable     Status = 10059 // NFS4ERR_LAYOUTUNAVAILABLE
	ErrNoMatchingLayout      Status = 10060 // NFS4ERR_NOMATCHING_LAYOUT
	ErrRecallConflict        Status = 10061 // NFS4ERR_RECALLCONFLICT
	ErrUnknownLayoutType     Status = 10062 // NFS4ERR_UNKNOWN_LAYOUTTYPE
	ErrSeqMisordered         Status = 10063 // NFS4ERR_SEQ_MISORDERED
	ErrSequencePos           Status = 10064 // NFS4ERR_SEQUENCE_POS
	ErrReqTooBig             Status = 10065 // NFS4ERR_REQ_TOO_BIG
	ErrRepTooBig             Status = 10066 // NFS4ERR_REP_TOO_BIG
	ErrRepTooBigToCache      Status = 10067 // NFS4ERR_REP_TOO_BIG_TO_CACHE
	ErrRetryUncachedRep      Status = 10068 // NFS4ERR_RETRY_UNCACHED_REP
	ErrUnsafeCompound        Status = 10069 // NFS4ERR_UNSAFE_COMPOUND
	ErrTooManyOps            Status = 10070 // NFS4ERR_TOO_MANY_OPS
	ErrOpNotInSession        Status = 10071 // NFS4ERR_OP_NOT_IN_SESSION
	ErrHashAlgUnsupp         Status = 10072 // NFS4ERR_HASH_ALG_UNSUPP
	ErrClientIDBusy          Status = 10074 // NFS4ERR_CLIENTID_BUSY
	ErrPNFSIOHole            Status = 10075 // NFS4ERR_PNFS_IO_HOLE
	ErrSeqFalseRetry         Status = 10076 // NFS4ERR_SEQ_FALSE_RETRY
	ErrBadHighSlot           Status = 10077 // NFS4ERR_BAD_HIGH_SLOT
	ErrDeadSession           Status = 10078 // NFS4ERR_DEADSESSION
	ErrEncrAlgUnsupp         Status = 10079 // NFS4ERR_ENCR_ALG_UNSUPP
	ErrPNFSNoLayout          Status = 10080 // NFS4ERR_PNFS_NO_LAYOUT
	ErrNotOnlyOp             Status = 10081 // NFS4ERR_NOT_ONLY_OP
	ErrWrongCred             Status = 10082 // NFS4ERR_WRONG_CRED
	ErrWrongType             Status = 10083 // NFS4ERR_WRONG_TYPE
	ErrDirDelegUnavail       Status = 10084 // NFS4ERR_DIRDELEG_UNAVAIL
	ErrRejectDeleg           Status = 10085 // NFS4ERR_REJECT_DELEG
	ErrReturnConflict        Status = 10086 // NFS4ERR_RETURNCONFLICT
	ErrDelegRevoked          Status = 10087 // NFS4ERR_DELEG_REVOKED
	ErrPartnerNotSupp        Status = 10088 // NFS4ERR_PARTNER_NOTSUPP
	ErrPartnerNoAuth         Status = 10089 // NFS4ERR_PARTNER_NO_AUTH
	ErrUnionNotSupp          Status = 10090 // NFS4ERR_UNION_NOTSUPP
	ErrOffloadDenied         Status = 10091 // NFS4ERR_OFFLOAD_DENIED
	ErrWrongLFS              Status = 10092 // NFS4ERR_WRONG_LFS
	ErrBadLabel              Status = 10093 // NFS4ERR_BADLABEL
	ErrOffloadNoReqs         Status = 10094 // NFS4ERR_OFFLOAD_NO_REQS
	ErrNoXattr               Status = 10095 // NFS4ERR_NOXATTR
	ErrXattr2Big             Status = 10096 // NFS4ERR_XATTR2BIG
)

// Error returns the RFC's name, like String.
func (s Status) Error() string { return s.String() }
