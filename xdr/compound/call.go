package compound

import (
	"net/netip"
	"time"

	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// Call is one COMPOUND on its way through the engine: what an operation may
// know of its caller, and the current and saved filehandles and stateids
// (RFC 8881 section 16.2.3.1). It belongs to one goroutine, and to the
// operation that runs only until that returns.
type Call struct {
	// Minor is the minor version: 1 or 2.
	Minor uint32
	// Now is when the COMPOUND was admitted.
	Now time.Time
	// Cred is the caller's credential.
	Cred rpc.Cred
	// Local and Remote are the ends of the connection.
	Local, Remote netip.AddrPort
	// Conn names the connection.
	Conn uint64
	// Client, Session and Request are zero for operations outside a session.
	// Request is the slot and the sequence id in Session.
	Client  nfs4.ClientID
	Session nfs4.SessionID
	Request nfs4.ReferringCall
	// FH and SavedFH are the current and the saved filehandle, nil for none.
	// They alias the request.
	FH, SavedFH nfs4.FH
	// File and SavedFile are what the role's PUTFH made of FH and SavedFH.
	File, SavedFile any

	stateid, savedStateid       nfs4.Stateid
	hasStateid, savedHasStateid bool
	setStateid                  bool // the operation that runs called SetStateid

	allow   nfs4.Bitmap // operations allowed to a machine credential
	rpcConn *rpc.Conn
	slot    *session.Slot // nil outside a session
	num     nfs4.OpNum    // the operation that runs
	nops    int           // operations in the COMPOUND
	index   int           // the one that runs
	start   int           // where the COMPOUND's reply begins in the encoder
	limit   int           // bytes that the COMPOUND's reply may have, 0 outside a session
	over    nfs4.Status   // of an operation that would pass limit
	out     *rpc.Reply
}

// Protected says whether the integrity of the request is protected, by RPCSEC_GSS.
func (c *Call) Protected() bool {
	return c.Cred.Flavor == rpc.AuthGSS && c.Cred.GSS.Service >= rpc.ServiceIntegrity
}

// Machine says whether the operation is done with the client's machine
// credential, which may do it on behalf of every user (SP4_MACH_CRED, RFC 8881
// section 2.10.8.3).
func (c *Call) Machine(op nfs4.OpNum) bool { return c.allow.Has(nfs4.Attr(op)) }

// SetFH makes fh the current filehandle, and file what the role knows of it.
func (c *Call) SetFH(fh nfs4.FH, file any) { c.FH, c.File = fh, file }

// SetStateid makes id the current stateid.
func (c *Call) SetStateid(id nfs4.Stateid) {
	c.stateid, c.hasStateid, c.setStateid = id, true, true
}

// Resolve replaces the special stateid that stands for the current one
// (seqid 1, other zero) by it, with seqid 0 ("the newest") except where the
// operation needs the exact one (RFC 8881 section 8.2.3; a layout stateid with
// seqid 0 is not defined). Without a current stateid it is NFS4ERR_BAD_STATEID.
func (c *Call) Resolve(id *nfs4.Stateid) nfs4.Status {
	if !id.IsCurrent() {
		return nfs4.OK
	}
	if !c.hasStateid {
		return nfs4.ErrBadStateID
	}
	*id = c.stateid
	switch c.num {
	case nfs4.OpClose, nfs4.OpOpenDowngrade, nfs4.OpLayoutGet, nfs4.OpLayoutCommit, nfs4.OpLayoutReturn:
	default:
		if !id.IsSpecial() {
			id.Seqid = 0
		}
	}
	return nfs4.OK
}

// Save copies the current filehandle and stateid to the saved ones.
func (c *Call) Save() {
	c.SavedFH, c.SavedFile = c.FH, c.File
	c.savedStateid, c.savedHasStateid = c.stateid, c.hasStateid
}

// Restore copies the saved filehandle and stateid to the current ones.
func (c *Call) Restore() {
	c.FH, c.File = c.SavedFH, c.SavedFile
	c.stateid, c.hasStateid = c.savedStateid, c.savedHasStateid
}

// Room returns how many bytes of reply the running operation's result body
// may have, counted from where the reply ends now. Operations that choose
// their reply's size (READ, READDIR, GETDEVICEINFO) stay below it. The next
// operation's refusal has its place besides.
func (c *Call) Room() int { return max(c.room(), 0) }

// room is Room, negative if not even an empty body leaves the next operation
// its place.
func (c *Call) room() int {
	room := c.limit - (c.out.Enc.Len() - c.start)
	if c.index < c.nops-1 {
		room -= errorRoom
	}
	return room
}

// Grow makes room for n bytes of the result's body out of the connection's
// buffers, before they are appended: READ of much data does not allocate then.
// Slices of the reply that were taken before (xdr.Encoder.Reserve) are void.
func (c *Call) Grow(n int) { c.out.Grow(n) }
