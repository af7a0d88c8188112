package nfs4

// OpenOwner is an open_owner4. ClientID is ignored in 4.1: the session names
// the client.
type OpenOwner struct {
	ClientID ClientID
	Owner    []byte `xdr:"max=MaxOpaque"`
}

// LockOwner is a lock_owner4. ClientID is ignored in 4.1.
type LockOwner struct {
	ClientID ClientID
	Owner    []byte `xdr:"max=MaxOpaque"`
}

// OpenType is an opentype4.
type OpenType uint32

// Values of OpenType.
const (
	OpenNoCreate OpenType = 0 // OPEN4_NOCREATE
	OpenCreate   OpenType = 1 // OPEN4_CREATE
)

// CreateMode is a createmode4.
type CreateMode uint32

// Values of CreateMode.
const (
	CreateUnchecked    CreateMode = 0 // UNCHECKED4
	CreateGuarded      CreateMode = 1 // GUARDED4
	CreateExclusive    CreateMode = 2 // EXCLUSIVE4
	CreateExclusive4_1 CreateMode = 3 // EXCLUSIVE4_1
)

// CreateHow is a createhow4: attributes, a verifier, or (EXCLUSIVE4_1, its
// creatverfattr) both.
type CreateHow struct {
	Mode     CreateMode `xdr:"switch"`
	Verifier Verifier   `xdr:"case=CreateExclusive|CreateExclusive4_1"`
	Attrs    Attrs      `xdr:"case=CreateUnchecked|CreateGuarded|CreateExclusive4_1"`
}

// OpenHow is an openflag4: CreateHow counts if OpenType is OpenCreate.
type OpenHow struct {
	OpenType  OpenType  `xdr:"switch,void=*"`
	CreateHow CreateHow `xdr:"case=OpenCreate"`
}

// ClaimType is an open_claim_type4.
type ClaimType uint32

// Values of ClaimType (RFC 8881 section 18.16).
const (
	ClaimNull         ClaimType = 0 // CLAIM_NULL
	ClaimPrevious     ClaimType = 1 // CLAIM_PREVIOUS
	ClaimDelegateCur  ClaimType = 2 // CLAIM_DELEGATE_CUR
	ClaimDelegatePrev ClaimType = 3 // CLAIM_DELEGATE_PREV
	ClaimFH           ClaimType = 4 // CLAIM_FH
	ClaimDelegCurFH   ClaimType = 5 // CLAIM_DELEG_CUR_FH
	ClaimDelegPrevFH  ClaimType = 6 // CLAIM_DELEG_PREV_FH
)

// OpenClaim is an open_claim4. Name is the file in the current directory for
// NULL, DELEGATE_CUR and DELEGATE_PREV; the current filehandle is the file in
// the others.
type OpenClaim struct {
	Type          ClaimType      `xdr:"switch,void=ClaimFH|ClaimDelegPrevFH"`
	PrevDelegType DelegationType `xdr:"case=ClaimPrevious"`
	DelegStateid  Stateid        `xdr:"case=ClaimDelegateCur|ClaimDelegCurFH"`
	Name          []byte         `xdr:"case=ClaimNull|ClaimDelegateCur|ClaimDelegatePrev,max=MaxName"`
}

// OpenArgs is OPEN4args (RFC 8881 section 18.16). Seqid is ignored in 4.1.
type OpenArgs struct {
	Seqid       uint32
	ShareAccess uint32
	ShareDeny   uint32
	Owner       OpenOwner
	How         OpenHow
	Claim       OpenClaim
}

// OpenRes is OPEN4resok.
type OpenRes struct {
	Stateid    Stateid
	CInfo      ChangeInfo
	RFlags     uint32
	AttrSet    Bitmap
	Delegation OpenDelegation
}

// DelegationType is an open_delegation_type4.
type DelegationType uint32

// Values of DelegationType (RFC 8881 section 18.16, RFC 9754).
const (
	DelegateNone       DelegationType = 0 // OPEN_DELEGATE_NONE
	DelegateRead       DelegationType = 1 // OPEN_DELEGATE_READ
	DelegateWrite      DelegationType = 2 // OPEN_DELEGATE_WRITE
	DelegateNoneExt    DelegationType = 3 // OPEN_DELEGATE_NONE_EXT
	DelegateReadAttrs  DelegationType = 4 // OPEN_DELEGATE_READ_ATTRS_DELEG
	DelegateWriteAttrs DelegationType = 5 // OPEN_DELEGATE_WRITE_ATTRS_DELEG
)

// WhyNoDelegation is a why_no_delegation4.
type WhyNoDelegation uint32

// Values of WhyNoDelegation.
const (
	NoDelegNotWanted         WhyNoDelegation = 0 // WND4_NOT_WANTED
	NoDelegContention        WhyNoDelegation = 1 // WND4_CONTENTION
	NoDelegResource          WhyNoDelegation = 2 // WND4_RESOURCE
	NoDelegNotSuppFType      WhyNoDelegation = 3 // WND4_NOT_SUPP_FTYPE
	NoDelegWriteNotSuppFType WhyNoDelegation = 4 // WND4_WRITE_DELEG_NOT_SUPP_FTYPE
	NoDelegNotSuppUpgrade    WhyNoDelegation = 5 // WND4_NOT_SUPP_UPGRADE
	NoDelegNotSuppDowngrade  WhyNoDelegation = 6 // WND4_NOT_SUPP_DOWNGRADE
	NoDelegCancelled         WhyNoDelegation = 7 // WND4_CANCELLED
	NoDelegIsDir             WhyNoDelegation = 8 // WND4_IS_DIR
)

// NoDelegation is an open_none_delegation4.
type NoDelegation struct {
	Why             WhyNoDelegation `xdr:"switch,void=*"`
	WillPushDeleg   bool            `xdr:"case=NoDelegContention"`
	WillSignalAvail bool            `xdr:"case=NoDelegResource"`
}

// LimitBy is a limit_by4.
type LimitBy uint32

// Values of LimitBy.
const (
	LimitSize   LimitBy = 1 // NFS_LIMIT_SIZE
	LimitBlocks LimitBy = 2 // NFS_LIMIT_BLOCKS
)

// ModifiedLimit is an nfs_modified_limit4.
type ModifiedLimit struct {
	NumBlocks     uint32
	BytesPerBlock uint32
}

// SpaceLimit is an nfs_space_limit4: how far a file under a write delegation
// may grow.
type SpaceLimit struct {
	LimitBy   LimitBy       `xdr:"switch"`
	FileSize  uint64        `xdr:"case=LimitSize"`
	ModBlocks ModifiedLimit `xdr:"case=LimitBlocks"`
}

// OpenDelegation is an open_delegation4; the arms for reading and writing share
// their fields.
type OpenDelegation struct {
	Type        DelegationType `xdr:"switch,void=DelegateNone"`
	Stateid     Stateid        `xdr:"case=DelegateRead|DelegateWrite|DelegateReadAttrs|DelegateWriteAttrs"`
	Recall      bool           `xdr:"case=DelegateRead|DelegateWrite|DelegateReadAttrs|DelegateWriteAttrs"`
	SpaceLimit  SpaceLimit     `xdr:"case=DelegateWrite|DelegateWriteAttrs"`
	Permissions ACE            `xdr:"case=DelegateRead|DelegateWrite|DelegateReadAttrs|DelegateWriteAttrs"`
	None        NoDelegation   `xdr:"case=DelegateNoneExt"`
}

// OpenDowngradeArgs is OPEN_DOWNGRADE4args (RFC 8881 section 18.18).
type OpenDowngradeArgs struct {
	OpenStateid Stateid
	Seqid       uint32
	ShareAccess uint32
	ShareDeny   uint32
}

// OpenDowngradeRes is OPEN_DOWNGRADE4resok.
type OpenDowngradeRes struct {
	OpenStateid Stateid
}

// CloseArgs is CLOSE4args (RFC 8881 section 18.2). Seqid is ignored in 4.1.
type CloseArgs struct {
	Seqid       uint32
	OpenStateid Stateid
}

// CloseRes is CLOSE4res's OK arm.
type CloseRes struct {
	OpenStateid Stateid
}

// DelegPurgeArgs is DELEGPURGE4args (RFC 8881 section 18.5).
type DelegPurgeArgs struct {
	ClientID ClientID
}

// DelegPurgeRes is DELEGPURGE4res.
type DelegPurgeRes struct{}

// DelegReturnArgs is DELEGRETURN4args (RFC 8881 section 18.6).
type DelegReturnArgs struct {
	DelegStateid Stateid
}

// DelegReturnRes is DELEGRETURN4res.
type DelegReturnRes struct{}

// DelegClaim is a deleg_claim4: ClaimFH, ClaimDelegPrevFH or ClaimPrevious.
type DelegClaim struct {
	Type          ClaimType      `xdr:"switch,void=ClaimFH|ClaimDelegPrevFH"`
	PrevDelegType DelegationType `xdr:"case=ClaimPrevious"`
}

// WantDelegationArgs is WANT_DELEGATION4args (RFC 8881 section 18.49).
type WantDelegationArgs struct {
	Want  uint32
	Claim DelegClaim
}

// WantDelegationRes is WANT_DELEGATION4res's OK arm.
type WantDelegationRes struct {
	Delegation OpenDelegation
}

// GetDirDelegationArgs is GET_DIR_DELEGATION4args (RFC 8881 section 18.39).
type GetDirDelegationArgs struct {
	SignalDelegAvail  bool
	NotificationTypes Bitmap
	ChildAttrDelay    Time
	DirAttrDelay      Time
	ChildAttributes   Bitmap
	DirAttributes     Bitmap
}

// Values of gddrnf4_status, GetDirDelegationRes.Status.
const (
	DirDelegationOK      = 0 // GDD4_OK
	DirDelegationUnavail = 1 // GDD4_UNAVAIL
)

// DirDelegation is GET_DIR_DELEGATION4resok.
type DirDelegation struct {
	CookieVerf      Verifier
	Stateid         Stateid
	Notification    Bitmap
	ChildAttributes Bitmap
	DirAttributes   Bitmap
}

// GetDirDelegationRes is GET_DIR_DELEGATION4res_non_fatal.
type GetDirDelegationRes struct {
	Status          uint32        `xdr:"switch"`
	Delegation      DirDelegation `xdr:"case=DirDelegationOK"`
	WillSignalAvail bool          `xdr:"case=DirDelegationUnavail"`
}

// TestStateidArgs is TEST_STATEID4args (RFC 8881 section 18.48).
type TestStateidArgs struct {
	Stateids []Stateid `xdr:"max=MaxStateids"`
}

// TestStateidRes is TEST_STATEID4resok: one status for each stateid asked.
type TestStateidRes struct {
	StatusCodes []Status `xdr:"max=MaxStateids"`
}

// FreeStateidArgs is FREE_STATEID4args (RFC 8881 section 18.38).
type FreeStateidArgs struct {
	Stateid Stateid
}

// FreeStateidRes is FREE_STATEID4res.
type FreeStateidRes struct{}
