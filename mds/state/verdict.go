package state

import (
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// Verdict answers a Request. With ErrDelay it may say why: Effects.RecallDeleg
// are delegations in the way, whose recall begins when Change is applied, and
// Effects.Expire are courtesy clients in the way, to be expired, fenced and
// forgotten. Then the client's next try succeeds. So with any status Effects
// count, and Change is applied unless it is zero.
type Verdict struct {
	Status nfs4.Status
	// Stateid belongs in the reply, if Status is OK and the reply has one.
	Stateid nfs4.Stateid
	// Delegation is what OPEN gives, or whom GETATTR has to ask. If its Type is
	// DelegateNone, WhyNone says why OPEN gives none.
	Delegation Delegation
	WhyNone    nfs4.WhyNoDelegation
	// Change is to be applied once what must be durable is. It is zero unless
	// Status is OK, ErrDelay or, to note who waits for a lock, ErrDenied.
	Change Change
	// Effects are what the Change is going to need: rows to keep along with it.
	// Idle and Notify are never among them, Apply tells those.
	Effects Effects
	// Denied says who holds the lock, with ErrDenied. Its Owner is not to be
	// written to.
	Denied nfs4.LockDenied
	// Present is lrs_present of LAYOUTRETURN.
	Present bool
	// Writer says of LAYOUTCOMMIT that the client may write the file, by a layout
	// or by an open.
	Writer bool
}

// Change is what Apply does. It is opaque, good once, and only for the Core
// that it came from.
type Change struct {
	act action
}

// IsZero says whether there is nothing to apply. Applying it is no error.
func (ch Change) IsZero() bool { return ch.act == nil }

// action is the inside of a Change. apply finds everything anew by its id,
// because others may have taken state away since Decide; false means that there
// is nothing left to do it to.
type action interface {
	apply(c *Core, e *Effects) bool
}

// Effects are what others must be told. The slices are the caller's.
type Effects struct {
	// Recall is the layouts to send CB_LAYOUTRECALL for, with Grant.Stateid. A
	// Grant with File 0 stands for everything of its client: LAYOUTRECALL4_FSID or
	// LAYOUTRECALL4_ALL.
	Recall []Grant
	// RecallDeleg is the delegations to send CB_RECALL for.
	RecallDeleg []Delegation
	// Revoked is the delegations that are revoked: their clients are told by
	// SEQ4_STATUS_RECALLABLE_STATE_REVOKED.
	Revoked []Delegation
	// Expire is the courtesy clients that are in the way, or that must make room.
	Expire []nfs4.ClientID
	// Evict is a client with a lease that must make room: the server's bound is
	// reached, no courtesy client has any of what ran out, and this one has most
	// of it and at least half of what one may have.
	Evict []nfs4.ClientID
	// Fence is the layouts to stop at the data servers Grant.DS. A Grant with
	// File 0 stands for everything of its client.
	Fence []Grant
	// Grown is the files whose size on the data servers may be larger than this
	// server knows: an RW layout went without the client's doing.
	Grown []uint64
	// Idle is the files that nobody has open or delegated any more: if its last
	// name is gone too, a file can be freed. Under the file's lock, ask Opens
	// again.
	Idle []uint64
	// Notify is the locks that are waited for and free now, each as the LOCKT that
	// says so: for CB_NOTIFY_LOCK.
	Notify []LocktReq
}

// Grant is a layout that a client holds of a file.
type Grant struct {
	Client nfs4.ClientID
	File   uint64
	// Stateid is the newest. In Effects.Recall it is the one to recall with.
	Stateid nfs4.Stateid
	// IOMode is RW if the client may write, else READ.
	IOMode nfs4.IOMode
	// Reads and Writes are the bytes that are held with each iomode: the whole
	// file, unless parts came back. In order; not to be written to.
	Reads, Writes []layout.Range
	// DS is the data servers that hold the file. Not to be written to.
	DS []layout.DSID
	// Deadline is when the recall that is under way ends in revocation; zero
	// if none is. Changed is its clora_changed.
	Deadline time.Time
	Changed  bool
	// Given is when the layout was given last, and Session and Call the request
	// that it was given by.
	Given   time.Time
	Session nfs4.SessionID
	Call    nfs4.ReferringCall
}

// Delegation is a delegation that a client holds of a file, or is given.
type Delegation struct {
	Client nfs4.ClientID
	File   uint64
	// Stateid is the newest, also the one to recall with.
	Stateid nfs4.Stateid
	// Type is DelegateRead or DelegateWrite, and DelegateNone if there is none.
	Type nfs4.DelegationType
	// Recall says that OPEN gives it only to have it returned at once (the
	// "recall" of a reclaimed delegation): no CB_RECALL is needed.
	Recall bool
	// Deadline is when the recall that is under way ends in revocation; zero
	// if none is.
	Deadline time.Time
}

// Counts is how many there are of each, and as a limit how many there may be.
type Counts struct {
	Clients int
	Opens   int // open-owner and file
	Owners  int // lock-owner and open: lock stateids, and waits for a lock
	Locks   int // byte ranges, after merging
	Layouts int // client and file
	// Delegs is delegations, client and file. As a limit it may be 0: none are
	// given then.
	Delegs int
}
