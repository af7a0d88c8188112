package compound

import (
	"net/netip"
	"time"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// Call is one COMPOUND on its way through the engine: what an operation may
// know of its caller, and the current and saved filehandles and stateids
// (RFC 8881 sections 16.2.3.1). It belongs to one goroutine.
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
	// Client and Session are zero for operations outside a session.
	Client  nfs4.ClientID
	Session nfs4.SessionID
	// FH and SavedFH are the current and the saved filehandle, nil for none.
	// They alias the request.
	FH, SavedFH nfs4.FH
	// File and SavedFile are what the role's PUTFH made of FH and SavedFH.
	File, SavedFile any

	stateid, savedStateid       nfs4.Stateid
	hasStateid, savedHasStateid bool

	rpcConn *rpc.Conn
	slot    *session.Slot // nil outside a session
	nops    int           // operations in the COMPOUND
	index   int           // the one that runs
	start   int           // where the COMPOUND's reply begins in the encoder
	maxResp int           // the session's limit on the reply, 0 outside one
	maxHold int           // the limit on a reply that must be cached, 0 for none
	enc     *xdr.Encoder
}

// SetFH makes fh the current filehandle, and file what the role knows of it.
func (c *Call) SetFH(fh nfs4.FH, file any) { c.FH, c.File = fh, file }

// SetStateid makes id the current stateid.
func (c *Call) SetStateid(id nfs4.Stateid) { c.stateid, c.hasStateid = id, true }

// Resolve replaces the special stateid that stands for the current one
// (seqid 1, other zero) by it. Without a current stateid it is
// NFS4ERR_BAD_STATEID (RFC 8881 section 8.2.3).
func (c *Call) Resolve(id *nfs4.Stateid) nfs4.Status {
	if !id.IsCurrent() {
		return nfs4.OK
	}
	if !c.hasStateid {
		return nfs4.ErrBadStateID
	}
	*id = c.stateid
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
// may have. Operations that choose their reply's size (READ, READDIR,
// GETDEVICEINFO) stay below it.
func (c *Call) Room() int {
	limit := c.maxResp
	if c.maxHold > 0 && c.maxHold < limit {
		limit = c.maxHold
	}
	return max(limit-(c.enc.Len()-c.start), 0)
}
