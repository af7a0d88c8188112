package nfs4

import "manifold/xdr"

// codec is what every type of the package offers.
type codec interface {
	EncodeXDR(*xdr.Encoder)
	DecodeXDR(*xdr.Decoder)
}

// errCodec is a result whose failure arm carries data.
type errCodec interface {
	codec
	EncodeErr(*xdr.Encoder, Status)
	DecodeErr(*xdr.Decoder, Status)
}

// pair makes the args and the result of one operation.
type pair struct{ args, res func() codec }

func of[A, R any, PA interface {
	*A
	codec
}, PR interface {
	*R
	codec
}]() pair {
	return pair{func() codec { return PA(new(A)) }, func() codec { return PR(new(R)) }}
}

// operations has a row for each operation that 4.1 or 4.2 may implement.
var operations = map[OpNum]pair{
	OpAccess:            of[AccessArgs, AccessRes](),
	OpClose:             of[CloseArgs, CloseRes](),
	OpCommit:            of[CommitArgs, CommitRes](),
	OpCreate:            of[CreateArgs, CreateRes](),
	OpDelegPurge:        of[DelegPurgeArgs, DelegPurgeRes](),
	OpDelegReturn:       of[DelegReturnArgs, DelegReturnRes](),
	OpGetattr:           of[GetattrArgs, GetattrRes](),
	OpGetFH:             of[GetFHArgs, GetFHRes](),
	OpLink:              of[LinkArgs, LinkRes](),
	OpLock:              of[LockArgs, LockRes](),
	OpLockT:             of[LockTArgs, LockTRes](),
	OpLockU:             of[LockUArgs, LockURes](),
	OpLookup:            of[LookupArgs, LookupRes](),
	OpLookupP:           of[LookupPArgs, LookupPRes](),
	OpNVerify:           of[NVerifyArgs, NVerifyRes](),
	OpOpen:              of[OpenArgs, OpenRes](),
	OpOpenAttr:          of[OpenAttrArgs, OpenAttrRes](),
	OpOpenDowngrade:     of[OpenDowngradeArgs, OpenDowngradeRes](),
	OpPutFH:             of[PutFHArgs, PutFHRes](),
	OpPutPubFH:          of[PutPubFHArgs, PutPubFHRes](),
	OpPutRootFH:         of[PutRootFHArgs, PutRootFHRes](),
	OpRead:              of[ReadArgs, ReadRes](),
	OpReaddir:           of[ReaddirArgs, ReaddirRes](),
	OpReadlink:          of[ReadlinkArgs, ReadlinkRes](),
	OpRemove:            of[RemoveArgs, RemoveRes](),
	OpRename:            of[RenameArgs, RenameRes](),
	OpRestoreFH:         of[RestoreFHArgs, RestoreFHRes](),
	OpSaveFH:            of[SaveFHArgs, SaveFHRes](),
	OpSecinfo:           of[SecinfoArgs, SecinfoRes](),
	OpSetattr:           of[SetattrArgs, SetattrRes](),
	OpVerify:            of[VerifyArgs, VerifyRes](),
	OpWrite:             of[WriteArgs, WriteRes](),
	OpBackchannelCtl:    of[BackchannelCtlArgs, BackchannelCtlRes](),
	OpBindConnToSession: of[BindConnToSessionArgs, BindConnToSessionRes](),
	OpExchangeID:        of[ExchangeIDArgs, ExchangeIDRes](),
	OpCreateSession:     of[CreateSessionArgs, CreateSessionRes](),
	OpDestroySession:    of[DestroySessionArgs, DestroySessionRes](),
	OpFreeStateid:       of[FreeStateidArgs, FreeStateidRes](),
	OpGetDirDelegation:  of[GetDirDelegationArgs, GetDirDelegationRes](),
	OpGetDeviceInfo:     of[GetDeviceInfoArgs, GetDeviceInfoRes](),
	OpGetDeviceList:     of[GetDeviceListArgs, GetDeviceListRes](),
	OpLayoutCommit:      of[LayoutCommitArgs, LayoutCommitRes](),
	OpLayoutGet:         of[LayoutGetArgs, LayoutGetRes](),
	OpLayoutReturn:      of[LayoutReturnArgs, LayoutReturnRes](),
	OpSecinfoNoName:     of[SecinfoNoNameArgs, SecinfoNoNameRes](),
	OpSequence:          of[SequenceArgs, SequenceRes](),
	OpSetSSV:            of[SetSSVArgs, SetSSVRes](),
	OpTestStateid:       of[TestStateidArgs, TestStateidRes](),
	OpWantDelegation:    of[WantDelegationArgs, WantDelegationRes](),
	OpDestroyClientID:   of[DestroyClientIDArgs, DestroyClientIDRes](),
	OpReclaimComplete:   of[ReclaimCompleteArgs, ReclaimCompleteRes](),
	OpAllocate:          of[AllocateArgs, AllocateRes](),
	OpCopy:              of[CopyArgs, CopyRes](),
	OpCopyNotify:        of[CopyNotifyArgs, CopyNotifyRes](),
	OpDeallocate:        of[DeallocateArgs, DeallocateRes](),
	OpIOAdvise:          of[IOAdviseArgs, IOAdviseRes](),
	OpLayoutError:       of[LayoutErrorArgs, LayoutErrorRes](),
	OpLayoutStats:       of[LayoutStatsArgs, LayoutStatsRes](),
	OpOffloadCancel:     of[OffloadCancelArgs, OffloadCancelRes](),
	OpOffloadStatus:     of[OffloadStatusArgs, OffloadStatusRes](),
	OpReadPlus:          of[ReadPlusArgs, ReadPlusRes](),
	OpSeek:              of[SeekArgs, SeekRes](),
	OpWriteSame:         of[WriteSameArgs, WriteSameRes](),
	OpClone:             of[CloneArgs, CloneRes](),
	OpGetXattr:          of[GetXattrArgs, GetXattrRes](),
	OpSetXattr:          of[SetXattrArgs, SetXattrRes](),
	OpListXattrs:        of[ListXattrsArgs, ListXattrsRes](),
	OpRemoveXattr:       of[RemoveXattrArgs, RemoveXattrRes](),
}

// forbidden are the operations of 4.0 that are defined but never implemented.
var forbidden = []OpNum{OpOpenConfirm, OpRenew, OpSetClientID, OpSetClientIDConfirm, OpReleaseLockOwner}

// callbacks has a row for each callback.
var callbacks = map[CBOpNum]pair{
	CBGetattr:            of[CBGetattrArgs, CBGetattrRes](),
	CBRecall:             of[CBRecallArgs, CBRecallRes](),
	CBLayoutRecall:       of[CBLayoutRecallArgs, CBLayoutRecallRes](),
	CBNotify:             of[CBNotifyArgs, CBNotifyRes](),
	CBPushDeleg:          of[CBPushDelegArgs, CBPushDelegRes](),
	CBRecallAny:          of[CBRecallAnyArgs, CBRecallAnyRes](),
	CBRecallableObjAvail: of[CBRecallableObjAvailArgs, CBRecallableObjAvailRes](),
	CBRecallSlot:         of[CBRecallSlotArgs, CBRecallSlotRes](),
	CBSequence:           of[CBSequenceArgs, CBSequenceRes](),
	CBWantsCancelled:     of[CBWantsCancelledArgs, CBWantsCancelledRes](),
	CBNotifyLock:         of[CBNotifyLockArgs, CBNotifyLockRes](),
	CBNotifyDeviceID:     of[CBNotifyDeviceIDArgs, CBNotifyDeviceIDRes](),
	CBOffload:            of[CBOffloadArgs, CBOffloadRes](),
}

// frames are the types that belong to no operation.
var frames = map[string]pair{
	"compound":      of[CompoundArgs, CompoundRes](),
	"cb compound":   of[CBCompoundArgs, CBCompoundRes](),
	"device notify": of[NotifyDeviceChange, NotifyDeviceDelete](),
	"attrs":         of[Attrs, OpenArguments](),
}

// everything returns all of the above by name.
func everything() map[string]func() codec {
	all := map[string]func() codec{}
	for op, p := range operations {
		all[op.String()+" args"], all[op.String()+" res"] = p.args, p.res
	}
	for op, p := range callbacks {
		all[op.String()+" args"], all[op.String()+" res"] = p.args, p.res
	}
	for name, p := range frames {
		all[name+" args"], all[name+" res"] = p.args, p.res
	}
	return all
}

func encode(c codec) []byte {
	var e xdr.Encoder
	c.EncodeXDR(&e)
	return e.Bytes()
}

// decode reads b into c; it reports the first error, or how many bytes stayed.
func decode(c codec, b []byte) (left int, err error) {
	d := xdr.NewDecoder(b)
	c.DecodeXDR(&d)
	return d.Remaining(), d.Err()
}
