package nfs4

// CBGetattrArgs is CB_GETATTR4args (RFC 8881 section 20.1).
type CBGetattrArgs struct {
	FH          FH `xdr:"max=MaxFH"`
	AttrRequest Bitmap
}

// CBGetattrRes is CB_GETATTR4resok.
type CBGetattrRes struct {
	ObjAttributes Attrs
}

// CBRecallArgs is CB_RECALL4args (RFC 8881 section 20.2).
type CBRecallArgs struct {
	Stateid  Stateid
	Truncate bool
	FH       FH `xdr:"max=MaxFH"`
}

// CBRecallRes is CB_RECALL4res.
type CBRecallRes struct{}

// LayoutRecall is a layoutrecall4; Kind is LayoutReturnFile, LayoutReturnFSID
// or LayoutReturnAll.
type LayoutRecall struct {
	Kind    uint32  `xdr:"switch,void=LayoutReturnAll"`
	FH      FH      `xdr:"case=LayoutReturnFile,max=MaxFH"`
	Offset  uint64  `xdr:"case=LayoutReturnFile"`
	Length  uint64  `xdr:"case=LayoutReturnFile"`
	Stateid Stateid `xdr:"case=LayoutReturnFile"`
	FSID    FSID    `xdr:"case=LayoutReturnFSID"`
}

// CBLayoutRecallArgs is CB_LAYOUTRECALL4args (RFC 8881 section 20.3).
type CBLayoutRecallArgs struct {
	Type    LayoutType
	IOMode  IOMode
	Changed bool
	Recall  LayoutRecall
}

// CBLayoutRecallRes is CB_LAYOUTRECALL4res.
type CBLayoutRecallRes struct{}

// Notify is a notify4: Mask says which notifications Values holds, each in the
// form of its kind.
type Notify struct {
	Mask   Bitmap
	Values []byte `xdr:"max=MaxNotifyBytes"`
}

// CBNotifyArgs is CB_NOTIFY4args (RFC 8881 section 20.4).
type CBNotifyArgs struct {
	Stateid Stateid
	FH      FH       `xdr:"max=MaxFH"`
	Changes []Notify `xdr:"max=MaxNotify"`
}

// CBNotifyRes is CB_NOTIFY4res.
type CBNotifyRes struct{}

// CBPushDelegArgs is CB_PUSH_DELEG4args (RFC 8881 section 20.5).
type CBPushDelegArgs struct {
	FH         FH `xdr:"max=MaxFH"`
	Delegation OpenDelegation
}

// CBPushDelegRes is CB_PUSH_DELEG4res.
type CBPushDelegRes struct{}

// CBRecallAnyArgs is CB_RECALL_ANY4args (RFC 8881 section 20.6): TypeMask has
// RecallAny* bits.
type CBRecallAnyArgs struct {
	ObjectsToKeep uint32
	TypeMask      Bitmap
}

// CBRecallAnyRes is CB_RECALL_ANY4res.
type CBRecallAnyRes struct{}

// CBRecallableObjAvailArgs is CB_RECALLABLE_OBJ_AVAIL4args (section 20.7).
type CBRecallableObjAvailArgs struct {
	ObjectsToKeep uint32
	TypeMask      Bitmap
}

// CBRecallableObjAvailRes is CB_RECALLABLE_OBJ_AVAIL4res.
type CBRecallableObjAvailRes struct{}

// CBRecallSlotArgs is CB_RECALL_SLOT4args (RFC 8881 section 20.8).
type CBRecallSlotArgs struct {
	TargetHighestSlotID uint32
}

// CBRecallSlotRes is CB_RECALL_SLOT4res.
type CBRecallSlotRes struct{}

// ReferringCall is a referring_call4.
type ReferringCall struct {
	SequenceID uint32
	SlotID     uint32
}

// ReferringCallList is a referring_call_list4.
type ReferringCallList struct {
	SessionID SessionID
	Calls     []ReferringCall `xdr:"max=MaxReferring"`
}

// CBSequenceArgs is CB_SEQUENCE4args (RFC 8881 section 20.9).
type CBSequenceArgs struct {
	SessionID          SessionID
	SequenceID         uint32
	SlotID             uint32
	HighestSlotID      uint32
	CacheThis          bool
	ReferringCallLists []ReferringCallList `xdr:"max=MaxReferring"`
}

// CBSequenceRes is CB_SEQUENCE4resok.
type CBSequenceRes struct {
	SessionID           SessionID
	SequenceID          uint32
	SlotID              uint32
	HighestSlotID       uint32
	TargetHighestSlotID uint32
}

// CBWantsCancelledArgs is CB_WANTS_CANCELLED4args (RFC 8881 section 20.10).
type CBWantsCancelledArgs struct {
	ContendedWantsCancelled bool
	ResourcedWantsCancelled bool
}

// CBWantsCancelledRes is CB_WANTS_CANCELLED4res.
type CBWantsCancelledRes struct{}

// CBNotifyLockArgs is CB_NOTIFY_LOCK4args (RFC 8881 section 20.11).
type CBNotifyLockArgs struct {
	FH        FH `xdr:"max=MaxFH"`
	LockOwner LockOwner
}

// CBNotifyLockRes is CB_NOTIFY_LOCK4res.
type CBNotifyLockRes struct{}

// CBNotifyDeviceIDArgs is CB_NOTIFY_DEVICEID4args (RFC 8881 section 20.12).
// Values hold a NotifyDeviceDelete or a NotifyDeviceChange, as Mask says.
type CBNotifyDeviceIDArgs struct {
	Changes []Notify `xdr:"max=MaxNotify"`
}

// CBNotifyDeviceIDRes is CB_NOTIFY_DEVICEID4res.
type CBNotifyDeviceIDRes struct{}

// NotifyDeviceDelete is a notify_deviceid_delete4.
type NotifyDeviceDelete struct {
	LayoutType LayoutType
	DeviceID   DeviceID
}

// NotifyDeviceChange is a notify_deviceid_change4.
type NotifyDeviceChange struct {
	LayoutType LayoutType
	DeviceID   DeviceID
	Immediate  bool
}

// OffloadInfo is an offload_info4: Response if Status is OK, else how much was
// copied before it failed.
type OffloadInfo struct {
	Status      Status        `xdr:"switch"`
	Response    WriteResponse `xdr:"case=OK"`
	BytesCopied uint64        `xdr:"default"`
}

// CBOffloadArgs is CB_OFFLOAD4args (RFC 7862 section 16.1).
type CBOffloadArgs struct {
	FH      FH `xdr:"max=MaxFH"`
	Stateid Stateid
	Info    OffloadInfo
}

// CBOffloadRes is CB_OFFLOAD4res.
type CBOffloadRes struct{}
