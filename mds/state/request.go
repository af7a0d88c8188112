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
// Verdict.Delegation is the delegation that the reply gives, if its Type is
// not DelegateNone; else Verdict.WhyNone says why. That the client holds one
// already is no change to that one.
//
// Errors: ErrShareDenied, ErrGrace, ErrNoGrace, ErrReclaimBad,
// ErrReclaimConflict, ErrResource (the client's bound), ErrDelay (the server's
// bound, a delegation in the way, what a courtesy client holds in the way: see
// Verdict), with DelegCur those of its stateid. A caller that is going to cut
// the file first asks DelegConflictReq with Change.
type OpenReq struct {
	Client  nfs4.ClientID
	Owner   []byte
	File    uint64
	Access  uint32
	Deny    uint32
	Reclaim bool
	// Want is what the client would like of a delegation: share_access's
	// OPEN4_SHARE_ACCESS_WANT bits. Those outside WantDelegMask do not matter.
	Want uint32
	// CanCallback says that the client's back channel works: else it gets no
	// delegation.
	CanCallback bool
	// Created says that this OPEN makes the file: it is most likely written once
	// and closed, so there is a delegation only for a client that asks.
	Created bool
	// Prev is the delegation that a reclaim claims (CLAIM_PREVIOUS's
	// delegate_type).
	Prev nfs4.DelegationType
	// DelegCur is CLAIM_DELEGATE_CUR or CLAIM_DELEG_CUR_FH, under the delegation
	// Deleg: what the client has opened by itself becomes an open here. It is
	// good during grace and while the delegation is recalled.
	DelegCur bool
	Deleg    nfs4.Stateid
}

// CloseReq is CLOSE (RFC 8881 section 18.2). Locks taken through the open go
// with it, as that section allows. Verdict.Stateid is the invalid stateid. If
// the client's last open of the file goes, it has no delegation, and it has a
// layout that it was to return on close, the layout is recalled: see
// Effects.Recall.
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
// looked at. A Type that waits is answered like the one that does not, at once;
// but if the client CanCallback, the wait is noted, and ends with Effects.Notify
// when the lock is free. A lock-owner never conflicts with itself: what it locks
// again changes its type.
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
	// CanCallback says that the client's back channel works.
	CanCallback bool
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
// ones and a delegation's included (RFC 8881 sections 8.2.3, 9.1.2). Byte-range
// locks are advisory. It changes nothing, but for the recalls that come with
// ErrDelay.
//
// Empty says, along with Write, that the file is to become empty, for which a
// delegation will not do: Linux opens a file by itself for reading, with O_TRUNC,
// for somebody who may not write to it, and then cuts it in the name of whom the
// delegation was given to. Told ErrOpenMode it refuses that one; for anybody
// else it returns the delegation and cuts the file under the open.
//
// Errors: ErrOpenMode, ErrLocked (a share reservation denies it), ErrGrace and
// ErrDelay (a delegation or what a courtesy client holds in the way: both for
// special stateids only) and those of the stateid.
type IOReq struct {
	Client  nfs4.ClientID
	File    uint64
	Stateid nfs4.Stateid
	Write   bool
	Empty   bool
}

// LayoutGetReq is LAYOUTGET, always answered for the whole file (RFC 8881
// section 18.43). Stateid is an open's, a lock-owner's, a delegation's, or the
// layout's, whose seqid may be old but not 0. DS is where the file's bytes are.
// ReturnOnClose is what the reply is going to say. Verdict.Stateid is the layout
// stateid. That a client asks with an open's stateid though it has a layout does
// not say that it forgot that: it may not know yet which file its OPEN of the
// same compound is about to open. LAYOUTGET is granted during grace, because no layout can be reclaimed
// and its stateid can only be one that has been.
//
// Errors: ErrRecallConflict, ErrReturnConflict (a recall to this client is
// under way, not answered yet or answered; of everything, always the former; if
// that began since Decide, Apply returns false), ErrLayoutTryLater (a recall from
// all), ErrLayoutUnavailable (a bound), ErrOpenMode (RW without an open or a
// delegation for writing), ErrBadIOMode and those of the stateid.
type LayoutGetReq struct {
	Client        nfs4.ClientID
	File          uint64
	Stateid       nfs4.Stateid
	IOMode        nfs4.IOMode
	DS            []layout.DSID
	ReturnOnClose bool
	// Session and Call say which request it is in: a recall that follows soon may
	// overtake its reply, and names it.
	Session nfs4.SessionID
	Call    nfs4.ReferringCall
}

// LayoutReturnReq is LAYOUTRETURN (RFC 8881 section 18.44): of one File, or with
// All (LAYOUTRETURN4_FSID, LAYOUTRETURN4_ALL) of every file of the client, and
// then File, Stateid and Range are not looked at. What is returned need not be
// held. Verdict.Present is lrs_present; if set, Verdict.Stateid goes into the
// reply: something is still held, or a recall of this layout waits for the
// LAYOUTRETURN of all of it, though nothing is held any more. Reclaim is
// lora_reclaim.
//
// Errors: ErrBadIOMode, ErrInval (the range; Reclaim with All), ErrNoGrace,
// ErrReclaimBad and those of the stateid.
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
// the file open, or delegated, for writing. Verdict.Writer says if the client is
// known to write the file now: if not, it may have had no more than a layout to
// read it. Reclaim is loca_reclaim.
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
// recall already (Core.Layouts tells). Courtesy clients are not asked:
// Effects.Expire has them. A client that is recalled from
// gets no layout of the file until that is done; if all were asked for, nobody
// does. Changed is clora_changed: the client should not write by the layout any
// more.
//
// With File 0 it is the recall of everything of Client. Without Effects.Recall
// (nor Effects.Expire) it waits for recalls of single layouts of the client,
// which are to be over first: ask again then. Until it is over
// (Core.RecallingAll) the client gets no layout.
type RecallReq struct {
	File    uint64
	Client  nfs4.ClientID
	Except  nfs4.ClientID
	Changed bool
}

// RecallDoneReq reports how a recall went: the CB_LAYOUTRECALL or CB_RECALL of
// the Grant's or Delegation's Stateid to Client was answered with Answer. A send
// that failed is ErrDelay.
//
//   - ErrNoMatchingLayout, of a layout: the client holds nothing, it is gone.
//   - ErrBadHandle, ErrBadStateID, of a delegation: the client has returned it,
//     it is gone; but if it is new, the client may not have read yet that it was
//     given, and is asked again.
//   - OK: LAYOUTRETURN or DELEGRETURN follows. Nothing is to be done until the
//     deadline.
//   - ErrOldStateID, of a layout: Effects.Recall holds the Grant with a seqid one
//     higher.
//   - everything else: Effects.Recall or Effects.RecallDeleg holds it, to be sent
//     again after a pause.
//
// With File 0 it is about the recall of everything of Client. Past the deadline,
// or with Revoke, Effects.Fence then holds what is left, each to be revoked by a
// RecallDoneReq of its own before the next of this.
//
// With Revoke, or with any answer that does not end it past the deadline, it is
// revoked: Effects.Fence holds the Grant, or for a delegation to write the
// client's RW layout of the file, if there is one; Effects.Revoked holds the
// Delegation. The fence must be durable before Apply, and acknowledged before
// anything that conflicts is granted. The caller then raises
// SEQ4_STATUS_RECALLABLE_STATE_REVOKED, for a delegation until Core.Revoked
// counts none.
type RecallDoneReq struct {
	File    uint64
	Client  nfs4.ClientID
	Stateid nfs4.Stateid
	Answer  nfs4.Status
	Revoke  bool
}

// DelegReturnReq is DELEGRETURN (RFC 8881 section 18.6). If a layout that was to
// be returned on close is left without an open, it is recalled: see
// Effects.Recall. ErrDelegRevoked if the delegation was revoked.
type DelegReturnReq struct {
	Client  nfs4.ClientID
	File    uint64
	Stateid nfs4.Stateid
}

// DelegConflictReq asks whether Client may do to File what no OPEN came before:
// with Change to alter its data, attributes or names (SETATTR, REMOVE of a
// link, RENAME of it or over it, LINK, the cut in an OPEN), else to read them
// while CB_GETATTR does not answer (RFC 8881 section 10.4). ErrDelay if
// delegations of other clients are in the way: those of all kinds with Change,
// else those to write. ErrGrace with Change while some may be yet to be reclaimed.
type DelegConflictReq struct {
	File   uint64
	Client nfs4.ClientID // whose delegation is not in the way; 0 is nobody
	Change bool
}

// GetattrReq asks who knows the newest size and change attribute of File:
// Verdict.Delegation is another client's delegation to write, to be asked with
// CB_GETATTR (RFC 8881 section 20.1), or has Type DelegateNone. A courtesy
// client is not asked: with its lease went what it was promised. It changes
// nothing.
type GetattrReq struct {
	File   uint64
	Client nfs4.ClientID // who wants to know; 0 is nobody
}
