package nfs4

// GSSHandles is a gss_cb_handles4.
type GSSHandles struct {
	Service    uint32
	FromServer []byte `xdr:"max=MaxOpaque"`
	FromClient []byte `xdr:"max=MaxOpaque"`
}

// AuthSysParms is an authsys_parms (RFC 5531 appendix A).
type AuthSysParms struct {
	Stamp       uint32
	MachineName []byte `xdr:"max=maxMachineName"`
	UID         uint32
	GID         uint32
	GIDs        []uint32 `xdr:"max=maxGIDs"`
}

// CallbackSecParms is a callback_sec_parms4: a credential for callbacks.
type CallbackSecParms struct {
	Flavor uint32       `xdr:"switch,void=SecFlavorNone"`
	Sys    AuthSysParms `xdr:"case=SecFlavorSys"`
	GSS    GSSHandles   `xdr:"case=SecFlavorGSS"`
}

// BackchannelCtlArgs is BACKCHANNEL_CTL4args (RFC 8881 section 18.33).
type BackchannelCtlArgs struct {
	CBProgram uint32
	SecParms  []CallbackSecParms `xdr:"max=MaxSecParms"`
}

// BackchannelCtlRes is BACKCHANNEL_CTL4res.
type BackchannelCtlRes struct{}

// BindConnToSessionArgs is BIND_CONN_TO_SESSION4args (section 18.34).
type BindConnToSessionArgs struct {
	SessionID         SessionID
	Dir               uint32
	UseConnInRDMAMode bool
}

// BindConnToSessionRes is BIND_CONN_TO_SESSION4resok.
type BindConnToSessionRes struct {
	SessionID         SessionID
	Dir               uint32
	UseConnInRDMAMode bool
}

// ClientOwner is a client_owner4.
type ClientOwner struct {
	Verifier Verifier
	OwnerID  []byte `xdr:"max=MaxOpaque"`
}

// ServerOwner is a server_owner4.
type ServerOwner struct {
	MinorID uint64
	MajorID []byte `xdr:"max=MaxOpaque"`
}

// ImplID is an nfs_impl_id4: who wrote the peer and when it was built.
type ImplID struct {
	Domain []byte `xdr:"max=MaxOpaque"`
	Name   []byte `xdr:"max=MaxOpaque"`
	Date   Time
}

// StateProtectHow is a state_protect_how4.
type StateProtectHow uint32

// Values of StateProtectHow.
const (
	StateProtectNone     StateProtectHow = 0 // SP4_NONE
	StateProtectMachCred StateProtectHow = 1 // SP4_MACH_CRED
	StateProtectSSV      StateProtectHow = 2 // SP4_SSV
)

// StateProtectOps is a state_protect_ops4: bitmaps of operation numbers.
type StateProtectOps struct {
	MustEnforce Bitmap
	MustAllow   Bitmap
}

// SSVParms is an ssv_sp_parms4.
type SSVParms struct {
	Ops           StateProtectOps
	HashAlgs      [][]byte `xdr:"max=maxSecurityInfo,each=MaxOpaque"`
	EncrAlgs      [][]byte `xdr:"max=maxSecurityInfo,each=MaxOpaque"`
	Window        uint32
	NumGSSHandles uint32
}

// SSVInfo is an ssv_prot_info4.
type SSVInfo struct {
	Ops     StateProtectOps
	HashAlg uint32
	EncrAlg uint32
	SSVLen  uint32
	Window  uint32
	Handles [][]byte `xdr:"max=maxSecurityInfo,each=MaxOpaque"`
}

// StateProtectArgs is a state_protect4_a.
type StateProtectArgs struct {
	How     StateProtectHow `xdr:"switch,void=StateProtectNone"`
	MachOps StateProtectOps `xdr:"case=StateProtectMachCred"`
	SSV     SSVParms        `xdr:"case=StateProtectSSV"`
}

// StateProtectRes is a state_protect4_r.
type StateProtectRes struct {
	How     StateProtectHow `xdr:"switch,void=StateProtectNone"`
	MachOps StateProtectOps `xdr:"case=StateProtectMachCred"`
	SSV     SSVInfo         `xdr:"case=StateProtectSSV"`
}

// ExchangeIDArgs is EXCHANGE_ID4args (RFC 8881 section 18.35).
type ExchangeIDArgs struct {
	ClientOwner  ClientOwner
	Flags        uint32
	StateProtect StateProtectArgs
	ClientImplID []ImplID `xdr:"max=1"`
}

// ExchangeIDRes is EXCHANGE_ID4resok.
type ExchangeIDRes struct {
	ClientID     ClientID
	SequenceID   uint32
	Flags        uint32
	StateProtect StateProtectRes
	ServerOwner  ServerOwner
	ServerScope  []byte   `xdr:"max=MaxOpaque"`
	ServerImplID []ImplID `xdr:"max=1"`
}

// ChannelAttrs is a channel_attrs4: sizes in bytes of whole RPC messages
// without the record mark, and counts.
type ChannelAttrs struct {
	HeaderPadSize         uint32
	MaxRequestSize        uint32
	MaxResponseSize       uint32
	MaxResponseSizeCached uint32
	MaxOperations         uint32
	MaxRequests           uint32
	RDMAIRD               []uint32 `xdr:"max=1"`
}

// CreateSessionArgs is CREATE_SESSION4args (RFC 8881 section 18.36).
type CreateSessionArgs struct {
	ClientID      ClientID
	Sequence      uint32
	Flags         uint32
	ForeChanAttrs ChannelAttrs
	BackChanAttrs ChannelAttrs
	CBProgram     uint32
	SecParms      []CallbackSecParms `xdr:"max=MaxSecParms"`
}

// CreateSessionRes is CREATE_SESSION4resok.
type CreateSessionRes struct {
	SessionID     SessionID
	Sequence      uint32
	Flags         uint32
	ForeChanAttrs ChannelAttrs
	BackChanAttrs ChannelAttrs
}

// DestroySessionArgs is DESTROY_SESSION4args (RFC 8881 section 18.37).
type DestroySessionArgs struct {
	SessionID SessionID
}

// DestroySessionRes is DESTROY_SESSION4res.
type DestroySessionRes struct{}

// DestroyClientIDArgs is DESTROY_CLIENTID4args (RFC 8881 section 18.50).
type DestroyClientIDArgs struct {
	ClientID ClientID
}

// DestroyClientIDRes is DESTROY_CLIENTID4res.
type DestroyClientIDRes struct{}

// SequenceArgs is SEQUENCE4args (RFC 8881 section 18.46).
type SequenceArgs struct {
	SessionID     SessionID
	SequenceID    uint32
	SlotID        uint32
	HighestSlotID uint32
	CacheThis     bool
}

// SequenceRes is SEQUENCE4resok.
type SequenceRes struct {
	SessionID           SessionID
	SequenceID          uint32
	SlotID              uint32
	HighestSlotID       uint32
	TargetHighestSlotID uint32
	StatusFlags         uint32
}

// SetSSVArgs is SET_SSV4args (RFC 8881 section 18.47).
type SetSSVArgs struct {
	SSV    []byte `xdr:"max=MaxOpaque"`
	Digest []byte `xdr:"max=MaxOpaque"`
}

// SetSSVRes is SET_SSV4resok.
type SetSSVRes struct {
	Digest []byte `xdr:"max=MaxOpaque"`
}

// ReclaimCompleteArgs is RECLAIM_COMPLETE4args (RFC 8881 section 18.51).
type ReclaimCompleteArgs struct {
	OneFS bool
}

// ReclaimCompleteRes is RECLAIM_COMPLETE4res.
type ReclaimCompleteRes struct{}
