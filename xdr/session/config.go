package session

import (
	"time"

	"manifold/xdr/nfs4"
)

// Config is what a Table is made of. Zero limits take the default named with
// them.
type Config struct {
	// ClientIDHigh is the upper half of every client id of this instance. It
	// must differ from that of every earlier instance, so that a client id of
	// another boot is told apart and is NFS4ERR_STALE_CLIENTID (RFC 8881
	// section 2.4).
	ClientIDHigh uint32
	// Seed makes session ids unguessable and different from those of earlier
	// instances: fresh random bytes at every start.
	Seed [32]byte
	// Owner, Scope and ImplID go into every EXCHANGE_ID reply (RFC 8881
	// sections 2.5 and 2.10.4). ImplID may be nil.
	Owner  nfs4.ServerOwner
	Scope  []byte
	ImplID *nfs4.ImplID
	// Role is the set of ExchgidFlagUse... bits in every EXCHANGE_ID reply;
	// Echo is the set of ExchgidFlagSupp... and ExchgidFlagBind... bits that
	// are returned to a client that asked for them.
	Role, Echo uint32
	// MachAllow are the operations that a client under SP4_MACH_CRED may do with
	// its machine credential on behalf of its users, if it asks for that.
	MachAllow []nfs4.OpNum
	// Lease is the lease time. Default 90 s.
	Lease time.Duration
	// HasState says whether a client holds state outside this package (opens,
	// locks, delegations, layouts). It keeps the client from being replaced by
	// another principal and from DESTROY_CLIENTID. nil: no client ever does. It
	// is called from within ExchangeID and DestroyClientID, and must not call
	// the Table.
	HasState func(nfs4.ClientID) bool

	MaxClients     int    // confirmed clients; default 4096
	MaxUnconfirmed int    // unconfirmed clients; default 1024, of one address a sixteenth
	MaxPerHost     int    // confirmed clients of one address; default a quarter of MaxClients, at least 64
	MaxFaults      int    // SEQUENCEs out of step before Fault gives a client up; default 1000
	MaxSessions    int    // sessions of one client; default 64
	MaxConns       int    // connections bound to one session; default 64
	MaxSlots       uint32 // fore slots of one session; default 64, at most 1024
	MaxBackSlots   uint32 // back slots of one session; default 16
	MaxOps         uint32 // operations in a request; default 64, at least 8
	MaxRequest     uint32 // bytes of a request, RPC header included; default 1 MiB + 64 KiB
	MaxResponse    uint32 // bytes of a reply, RPC header included; default 1 MiB + 64 KiB
	MaxCached      uint32 // bytes of a reply kept for a retry; default 8 KiB
	MaxCacheBytes  int64  // bytes of replies that all slots together may keep; default 1 GiB
}

// withDefaults returns c with every zero limit filled in.
func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def32 := func(v *uint32, d uint32) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.MaxClients, 4096)
	def(&c.MaxUnconfirmed, 1024)
	def(&c.MaxPerHost, max(c.MaxClients/4, 64))
	def(&c.MaxFaults, 1000)
	def(&c.MaxSessions, 64)
	def(&c.MaxConns, 64)
	def32(&c.MaxSlots, 64)
	def32(&c.MaxBackSlots, 16)
	def32(&c.MaxOps, 64)
	def32(&c.MaxRequest, 1<<20+64<<10)
	def32(&c.MaxResponse, 1<<20+64<<10)
	def32(&c.MaxCached, 8<<10)
	if c.MaxCacheBytes <= 0 {
		c.MaxCacheBytes = 1 << 30
	}
	if c.Lease <= 0 {
		c.Lease = 90 * time.Second
	}
	c.Role &= nfs4.ExchgidFlagMaskPNFS
	c.Echo &= nfs4.ExchgidFlagSuppMovedRefer | nfs4.ExchgidFlagSuppMovedMigr |
		nfs4.ExchgidFlagSuppFenceOps | nfs4.ExchgidFlagBindPrincStateid
	c.MaxSlots = min(c.MaxSlots, 1024)
	c.MaxOps = max(c.MaxOps, minForeOps)
	return c
}
