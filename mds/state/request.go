package state

import (
	"manifold/layout"
	"manifold/xdr/nfs4"
)

// Request is something that Decide answers. Client is the client of the
// session that the operation came by; File is an inode number, never 0.
type Request interface {
	decide(c *Core, e env) Verdict
}

// OpenReq is OPEN of an existing file, or of one that is created along with it
// (RFC 8881 section 18.16). An owner that has the file open already gets the
// union of both shares under the same stateid. Access is OPEN4_SHARE_ACCESS_
// READ, WRITE or BOTH without the WANT bits, Deny OPEN4_SHARE_DENY_NONE, READ,
// WRITE or BOTH; others are ErrInval. Reclaim is CLAIM_PREVIOUS.
//
// Errors: ErrShareDenied, ErrGrace, ErrNoGrace, ErrReclaimBad,
// ErrReclaimConflict, ErrResource (the client's bound), ErrDelay (the server's).
type OpenReq struct {
	Client  nfs4.ClientID
	Owner   []byte
	File    uint64
	Access  uint32
	Deny    uint32
	Reclaim bool
}

// CloseReq is CLOSE (RFC 8881 section 18.2). Locks taken through the open go
// with it, as that section allows. Verdict.Stateid is the invalid stateid. If
// the client's last open of the file goes while it has a layout that it was to
// return on close, the layout is recalled: see Effects.Recall.
type CloseReq struct {
	Client  nfs4.ClientID
	File    uint64
	Stateid nfs4.Stateid
}

// DowngradeReq is OPEN_DOWNGRADE (RFC 8881 section 18.18): ErrInval unless
// Access and Deny are the union of some of the owner's OPENs of the file.
type DowngradeReq struct {
	Client  nfs4.ClientID
	File    uint64
	Stateid nfs4.Stateid
	Access  uint32
	Deny    uint32
}

// LockReq is LOCK (RFC 8881 section 18.10). With NewOwner, Stateid is the open's
// and Owner the lock-owner; else Stateid is the lock-owner's and Owner is not
// looked at. A Type that waits is answered like the one that does not: waiting
// is the caller's to make of ErrDenied. A lock-owner never conflicts with
// itself: what it locks again changes its type.
//
// Errors: ErrDenied (Verdict.Denied says who), ErrInval (an empty range, one
// past 2^64, a Type that is none), ErrOpenMode, ErrGrace, ErrNoGrace, ErrReclaimBad,
// ErrReclaimConflict, ErrResource, ErrDelay and those of the stateid.
type LockReq struct {
	Client   nfs4.ClientID
	File     uint64
	NewOwner bool
	Stateid  nfs4.Stateid
	Owner    []byte
	Range    layout.Range
	Type     nfs4.LockType
	Reclaim  bool
}

// LocktReq is LOCKT (RFC 8881 section 18.11). ErrDenied comes with
// Verdict.Denied. It changes nothing.
type LocktReq struct {
	Client nfs4.ClientID
	File   uint64
	Owner  []byte
	Range  layout.Range
	Type   nfs4.LockType
}

// LockuReq is LOCKU (RFC 8881 section 18.12). Unlocking what is not locked is
// no error. ErrResource if the client is at its bound and the unlocked part
// leaves two pieces.
type LockuReq struct {
	Client  nfs4.ClientID
	File    uint64
	Stateid nfs4.Stateid
	Range   layout.Range
}

// IOReq is READ, WRITE (Write set), or SETATTR of the size (Write set) done at
// this server, with any stateid that such an operation may carry, the special
// ones included (RFC 8881 sections 8.2.3, 9.1.2). It changes nothing. Byte-range
// locks are advisory.
//
// Errors: ErrOpenMode, ErrLocked (a share reservation denies it), ErrGrace
// (special stateids only) and those of the stateid.
type IOReq struct {
	Client  nfs4.ClientID
	File    uint64
	Stateid nfs4.Stateid
	Write   bool
}

// LayoutGetReq is LAYOUTGET, always answered for the whole file (RFC 8881
// section 18.43). Stateid is an open's, a lock-owner's, or the layout's, whose
// seqid may be old but not 0. DS is where the file's bytes are.
// ReturnOnClose is what the reply is going to say. Verdict.Stateid is the layout
// stateid. LAYOUTGET is granted during grace, because no layout can be reclaimed
// and its stateid can only be one that has been.
//
// Errors: ErrRecallConflict, ErrReturnConflict (a recall to this client is
// under way, not answered yet or answered), ErrLayoutTryLater (a recall from
// all), ErrLayoutUnavailable (a bound), ErrOpenMode (RW without an open for
// writing), ErrBadIOMode and those of the stateid.
type LayoutGetReq struct {
	Client        nfs4.ClientID
	File          uint64
	Stateid       nfs4.Stateid
	IOMode        nfs4.IOMode
	DS            []layout.DSID
	ReturnOnClose bool
}

// LayoutReturnReq is LAYOUTRETURN (RFC 8881 section 18.44): of one File, or with
// All (LAYOUTRETURN4_FSID, LAYOUTRETURN4_ALL) of every file of the client, and
// then File, Stateid and Range are not looked at. Verdict.Present is
// lrs_present; if set, Verdict.Stateid goes into the reply. A Range that is not
// the whole file returns nothing yet. Reclaim is lora_reclaim.
type LayoutReturnReq struct {
	Client  nfs4.ClientID
	All     bool
	File    uint64
	Stateid nfs4.Stateid
	IOMode  nfs4.IOMode
	Range   layout.Range
	Reclaim bool
}

// LayoutCommitReq is LAYOUTCOMMIT (RFC 8881 section 18.42). It changes nothing.
// Any seqid of any layout stateid that this client ever got for this file will
// do, unless the layout was revoked, also during grace: clients lose fsync or
// the new size over an error. One of an earlier boot will do if the client has
// the file open for writing. Reclaim is loca_reclaim.
//
// Errors: ErrBadLayout (an earlier boot's), ErrAdminRevoked, ErrBadStateID,
// ErrNoGrace, ErrReclaimBad.
type LayoutCommitReq struct {
	Client  nfs4.ClientID
	File    uint64
	Stateid nfs4.Stateid
	Reclaim bool
}

// RecallReq begins the recall of the layouts of File: that of Client only, or
// if Client is 0 those of every client but Except. Effects.Recall lists those
// that a CB_LAYOUTRECALL is to be sent for now; others on the file may be under
// recall already (Core.Layouts tells). A client that is recalled from gets no
// layout of the file until that is done; if all were asked for, nobody does.
type RecallReq struct {
	File   uint64
	Client nfs4.ClientID
	Except nfs4.ClientID
}

// RecallDoneReq reports how a recall went: the CB_LAYOUTRECALL of the Grant's
// Stateid to Client was answered with Answer. A send that failed is ErrDelay.
//
//   - ErrNoMatchingLayout: the client holds nothing, the layout is gone.
//   - OK: LAYOUTRETURN follows. Nothing is to be done until the deadline.
//   - ErrOldStateID: Effects.Recall holds the Grant with a seqid one higher.
//   - everything else: Effects.Recall holds the Grant, to be sent again after a
//     pause.
//
// With Revoke, or with any answer that does not end it past the deadline, the
// layout is revoked: Effects.Fence holds the Grant. The fence must be durable
// before Apply, and acknowledged before anything that conflicts is granted. The
// caller then raises SEQ4_STATUS_RECALLABLE_STATE_REVOKED.
type RecallDoneReq struct {
	File    uint64
	Client  nfs4.ClientID
	Stateid nfs4.Stateid
	Answer  nfs4.Status
	Revoke  bool
}
