package session

import (
	"bytes"
	"time"

	"manifold/xdr/nfs4"
)

// Request is what SEQUENCE must know of the COMPOUND that it begins.
type Request struct {
	Conn  ConnID
	Ops   int // operations, SEQUENCE included
	Bytes int // size of the RPC call
	// Reply is the size of the shortest RPC reply in which SEQUENCE succeeds
	// and the next operation, if there is one, has a status. 0: not checked.
	Reply int
	// Fingerprint is a cheap hash over the principal and the request, without
	// what may differ in a retry (XID). 0: unknown, never compared.
	Fingerprint uint64
	// Principal is who asks, if Protected: only then it may be a machine
	// credential.
	Principal Principal
	Protected bool
}

// SeqVerdict is the answer to SEQUENCE. Exactly one holds: Slot is not nil
// (run the operations, then call Done exactly once), Replay is not nil (send
// this reply body), or Status is not OK (the COMPOUND ends with it).
type SeqVerdict struct {
	Status nfs4.Status
	// Replay is the whole COMPOUND reply that Done was given. It is a copy.
	Replay []byte
	Slot   *Slot
	Res    nfs4.SequenceRes // if Slot is set, as is what follows

	Client nfs4.ClientID
	// Cache says that Done wants the reply: sa_cachethis was set, or SEQUENCE
	// is alone.
	Cache bool
	// MaxResponse and MaxCached bound the whole reply in bytes, RPC header
	// included. A reply over the first is NFS4ERR_REP_TOO_BIG; if sa_cachethis
	// was set, one over the second is NFS4ERR_REP_TOO_BIG_TO_CACHE.
	MaxResponse, MaxCached uint32
	// Allow are the operations that the request may do on behalf of others, for
	// it is made with the client's machine credential (SP4_MACH_CRED).
	Allow nfs4.Bitmap
}

// Slot is one slot of a fore channel's slot table (RFC 8881 section 2.10.6.1).
// Its holder only gives it back to Done.
type Slot struct {
	sess  *session
	seq   uint32 // of the last request
	used  bool   // there was a request
	busy  bool
	keep  bool // the reply is to be kept
	kept  bool // reply is the last request's
	fp    uint64
	reply []byte // memory of its own, reused

	// gen is the session's, and news the client's, when the last reply on this
	// slot was given: the next request on the slot shows that the client has seen
	// that reply.
	gen, news uint64
}

// Sequence decides SEQUENCE (RFC 8881 section 18.46), binds the connection to
// the session's fore channel, and renews the lease. Errors: NFS4ERR_BADSESSION,
// NFS4ERR_CONN_NOT_BOUND_TO_SESSION (a protected client's connections are bound by
// its machine credential alone, section 2.10.3.1),
// NFS4ERR_DEADSESSION (being destroyed), NFS4ERR_TOO_MANY_OPS,
// NFS4ERR_REQ_TOO_BIG, NFS4ERR_REP_TOO_BIG, NFS4ERR_REP_TOO_BIG_TO_CACHE,
// NFS4ERR_BADSLOT, NFS4ERR_BAD_HIGH_SLOT, NFS4ERR_DELAY (the same request is
// running), NFS4ERR_SEQ_MISORDERED, NFS4ERR_SEQ_FALSE_RETRY,
// NFS4ERR_RETRY_UNCACHED_REP. An error leaves slot and lease as they are.
func (t *Table) Sequence(now time.Time, a *nfs4.SequenceArgs, r Request) (v SeqVerdict) {
	s := t.sessions[a.SessionID]
	if s == nil {
		v.Status = nfs4.ErrBadSession
		return v
	}
	bound := s.find(r.Conn) >= 0
	if !bound && s.client.machine {
		v.Status = nfs4.ErrConnNotBoundToSession
		return v
	}
	if v.Status = s.accepts(a, r); v.Status != nfs4.OK {
		return v
	}
	slot := s.slots[a.SlotID]
	if v.Status = slot.admit(a.SequenceID, r.Fingerprint); v.Status != nfs4.OK {
		return v
	}
	if !bound {
		t.bind(s, r.Conn, dirFore)
	}
	c := s.client
	c.renewed, s.used, c.faults = now, now, max(c.faults-1, 0)
	if a.SequenceID == slot.seq && slot.used {
		v.Replay = bytes.Clone(slot.reply)
		return v
	}
	t.used(s, max(a.SlotID, a.HighestSlotID)+1)
	t.resize(s, slot, a.HighestSlotID)
	if slot.used && slot.news == c.news {
		c.notice = 0
	}
	have := uint32(len(s.slots))
	*slot = Slot{
		sess: s, seq: a.SequenceID, used: true, busy: true,
		keep: a.CacheThis || r.Ops == 1, fp: r.Fingerprint, reply: slot.reply,
		gen: s.gen, news: c.news,
	}
	s.busy++
	c.busy++
	v.Slot, v.Client, v.Cache = slot, c.id, slot.keep
	if r.Protected && c.isMachine(r.Principal, true) {
		v.Allow = c.allow
	}
	v.MaxResponse, v.MaxCached = s.fore.MaxResponseSize, s.cached
	v.Res = nfs4.SequenceRes{
		SessionID: s.id, SequenceID: a.SequenceID, SlotID: a.SlotID,
		// Linux uses what it is told to want: never more than there is.
		HighestSlotID: have - 1, TargetHighestSlotID: min(s.target, have) - 1,
		StatusFlags: c.statusFlags() | s.statusFlags(),
	}
	return v
}

// accepts checks a request against the session's limits.
func (s *session) accepts(a *nfs4.SequenceArgs, r Request) nfs4.Status {
	slots := uint32(len(s.slots))
	switch {
	case s.dying:
		return nfs4.ErrDeadSession
	case uint64(r.Ops) > uint64(s.fore.MaxOperations):
		return nfs4.ErrTooManyOps
	case uint64(r.Bytes) > uint64(s.fore.MaxRequestSize):
		return nfs4.ErrReqTooBig
	case uint64(r.Reply) > uint64(s.fore.MaxResponseSize):
		return nfs4.ErrRepTooBig
	case a.CacheThis && uint64(r.Reply) > uint64(s.cached):
		return nfs4.ErrRepTooBigToCache
	case a.SlotID >= slots:
		return nfs4.ErrBadSlot
	case a.HighestSlotID >= slots:
		return nfs4.ErrBadHighSlot
	}
	return nfs4.OK
}

// admit applies the rules of sequence ids (RFC 8881 section 2.10.6.1). OK with
// seq equal to the slot's means that the reply is kept: a replay.
func (slot *Slot) admit(seq uint32, fingerprint uint64) nfs4.Status {
	switch {
	case seq == slot.seq+1 && !slot.busy:
		return nfs4.OK
	case seq != slot.seq || !slot.used:
		return nfs4.ErrSeqMisordered
	case slot.busy:
		return nfs4.ErrDelay
	case fingerprint != 0 && slot.fp != 0 && fingerprint != slot.fp:
		return nfs4.ErrSeqFalseRetry
	case !slot.kept:
		return nfs4.ErrRetryUncachedRep
	}
	return nfs4.OK
}

// Done ends what a SeqVerdict with a Slot began. reply is the whole COMPOUND
// reply body; it is copied if SeqVerdict.Cache was set, and not looked at
// otherwise. A reply that the session's cache may not hold is dropped: a retry
// is NFS4ERR_RETRY_UNCACHED_REP then.
func (t *Table) Done(now time.Time, slot *Slot, reply []byte) {
	if slot == nil || !slot.busy {
		return
	}
	s := slot.sess
	slot.busy = false
	if s.dead {
		return
	}
	s.busy--
	s.client.busy--
	// A request that took longer than the lease must not cost the client it.
	s.client.renewed = now
	if slot.keep && len(reply) > 0 && len(reply) <= int(s.cached) {
		if cap(slot.reply) < len(reply) {
			slot.reply = make([]byte, 0, min((len(reply)+255)&^255, int(s.cached)))
		}
		slot.reply, slot.kept = append(slot.reply[:0], reply...), true
	}
	t.reap(s)
}
