package nfs4

// OpNum is an nfs_opnum4.
//
//xdr:names
type OpNum uint32

// Values of OpNum: RFC 8881 section 16.2, RFC 7862 section 15, RFC 8276
// section 8.4.
const (
	OpAccess             OpNum = 3     // ACCESS
	OpClose              OpNum = 4     // CLOSE
	OpCommit             OpNum = 5     // COMMIT
	OpCreate             OpNum = 6     // CREATE
	OpDelegPurge         OpNum = 7     // DELEGPURGE
	OpDelegReturn        OpNum = 8     // DELEGRETURN
	OpGetattr            OpNum = 9     // GETATTR
	OpGetFH              OpNum = 10    // GETFH
	OpLink               OpNum = 11    // LINK
	OpLock               OpNum = 12    // LOCK
	OpLockT              OpNum = 13    // LOCKT
	OpLockU              OpNum = 14    // LOCKU
	OpLookup             OpNum = 15    // LOOKUP
	OpLookupP            OpNum = 16    // LOOKUPP
	OpNVerify            OpNum = 17    // NVERIFY
	OpOpen               OpNum = 18    // OPEN
	OpOpenAttr           OpNum = 19    // OPENATTR
	OpOpenConfirm        OpNum = 20    // OPEN_CONFIRM
	OpOpenDowngrade      OpNum = 21    // OPEN_DOWNGRADE
	OpPutFH              OpNum = 22    // PUTFH
	OpPutPubFH           OpNum = 23    // PUTPUBFH
	OpPutRootFH          OpNum = 24    // PUTROOTFH
	OpRead               OpNum = 25    // READ
	OpReaddir            OpNum = 26    // READDIR
	OpReadlink           OpNum = 27    // READLINK
	OpRemove             OpNum = 28    // REMOVE
	OpRename             OpNum = 29    // RENAME
	OpRenew              OpNum = 30    // RENEW
	OpRestoreFH          OpNum = 31    // RESTOREFH
	OpSaveFH             OpNum = 32    // SAVEFH
	OpSecinfo            OpNum = 33    // SECINFO
	OpSetattr            OpNum = 34    // SETATTR
	OpSetClientID        OpNum = 35    // SETCLIENTID
	OpSetClientIDConfirm OpNum = 36    // SETCLIENTID_CONFIRM
	OpVerify             OpNum = 37    // VERIFY
	OpWrite              OpNum = 38    // WRITE
	OpReleaseLockOwner   OpNum = 39    // RELEASE_LOCKOWNER
	OpBackchannelCtl     OpNum = 40    // BACKCHANNEL_CTL
	OpBindConnToSession  OpNum = 41    // BIND_CONN_TO_SESSION
	OpExchangeID         OpNum = 42    // EXCHANGE_ID
	OpCreateSession      OpNum = 43    // CREATE_SESSION
	OpDestroySession     OpNum = 44    // DESTROY_SESSION
	OpFreeStateid        OpNum = 45    // FREE_STATEID
	OpGetDirDelegation   OpNum = 46    // GET_DIR_DELEGATION
	OpGetDeviceInfo      OpNum = 47    // GETDEVICEINFO
	OpGetDeviceList      OpNum = 48    // GETDEVICELIST
	OpLayoutCommit       OpNum = 49    // LAYOUTCOMMIT
	OpLayoutGet          OpNum = 50    // LAYOUTGET
	OpLayoutReturn       OpNum = 51    // LAYOUTRETURN
	OpSecinfoNoName      OpNum = 52    // SECINFO_NO_NAME
	OpSequence           OpNum = 53    // SEQUENCE
	OpSetSSV             OpNum = 54    // SET_SSV
	OpTestStateid        OpNum = 55    // TEST_STATEID
	OpWantDelegation     OpNum = 56    // WANT_DELEGATION
	OpDestroyClientID    OpNum = 57    // DESTROY_CLIENTID
	OpReclaimComplete    OpNum = 58    // RECLAIM_COMPLETE
	OpAllocate           OpNum = 59    // ALLOCATE
	OpCopy               OpNum = 60    // COPY
	OpCopyNotify         OpNum = 61    // COPY_NOTIFY
	OpDeallocate         OpNum = 62    // DEALLOCATE
	OpIOAdvise           OpNum = 63    // IO_ADVISE
	OpLayoutError        OpNum = 64    // LAYOUTERROR
	OpLayoutStats        OpNum = 65    // LAYOUTSTATS
	OpOffloadCancel      OpNum = 66    // OFFLOAD_CANCEL
	OpOffloadStatus      OpNum = 67    // OFFLOAD_STATUS
	OpReadPlus           OpNum = 68    // READ_PLUS
	OpSeek               OpNum = 69    // SEEK
	OpWriteSame          OpNum = 70    // WRITE_SAME
	OpClone              OpNum = 71    // CLONE
	OpGetXattr           OpNum = 72    // GETXATTR
	OpSetXattr           OpNum = 73    // SETXATTR
	OpListXattrs         OpNum = 74    // LISTXATTRS
	OpRemoveXattr        OpNum = 75    // REMOVEXATTR
	OpIllegal            OpNum = 10044 // ILLEGAL
)

// Known says whether the number is defined in minor version 1 or 2. An
// operation that is not Known is answered as OpIllegal with ErrOpIllegal; one
// that is Known but not implemented with ErrNotSupp. That holds for the
// operations of minor version 0 that RFC 8881 section 17 forbids, too, and for
// the extended attributes of RFC 8276, an extension of minor version 2.
func (o OpNum) Known(minor uint32) bool {
	switch minor {
	case 1:
		return o >= OpAccess && o <= OpReclaimComplete
	case 2:
		return o >= OpAccess && o <= OpRemoveXattr
	}
	return false
}

// CBOpNum is an nfs_cb_opnum4.
//
//xdr:names
type CBOpNum uint32

// Values of CBOpNum: RFC 8881 section 20, RFC 7862 section 16.
const (
	CBGetattr            CBOpNum = 3     // CB_GETATTR
	CBRecall             CBOpNum = 4     // CB_RECALL
	CBLayoutRecall       CBOpNum = 5     // CB_LAYOUTRECALL
	CBNotify             CBOpNum = 6     // CB_NOTIFY
	CBPushDeleg          CBOpNum = 7     // CB_PUSH_DELEG
	CBRecallAny          CBOpNum = 8     // CB_RECALL_ANY
	CBRecallableObjAvail CBOpNum = 9     // CB_RECALLABLE_OBJ_AVAIL
	CBRecallSlot         CBOpNum = 10    // CB_RECALL_SLOT
	CBSequence           CBOpNum = 11    // CB_SEQUENCE
	CBWantsCancelled     CBOpNum = 12    // CB_WANTS_CANCELLED
	CBNotifyLock         CBOpNum = 13    // CB_NOTIFY_LOCK
	CBNotifyDeviceID     CBOpNum = 14    // CB_NOTIFY_DEVICEID
	CBOffload            CBOpNum = 15    // CB_OFFLOAD
	CBIllegal            CBOpNum = 10044 // CB_ILLEGAL
)

// Known says whether the callback's number is defined in minor version 1 or 2.
func (o CBOpNum) Known(minor uint32) bool {
	switch minor {
	case 1:
		return o >= CBGetattr && o <= CBNotifyDeviceID
	case 2:
		return o >= CBGetattr && o <= CBOffload
	}
	return false
}
