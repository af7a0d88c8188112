package session

import (
	"slices"

	"manifold/xdr/nfs4"
)

// Callback is permission to send one CB_COMPOUND: CB_SEQUENCE's arguments
// (csa_cachethis is always false; referring calls are the caller's to add), where
// to send it, and the limits of the back channel.
type Callback struct {
	Client      nfs4.ClientID
	Session     nfs4.SessionID
	Conn        ConnID
	Program     uint32
	Sec         nfs4.CallbackSecParms
	Slot        uint32
	Sequence    uint32
	HighestSlot uint32
	MaxRequest  uint32 // bytes, RPC header included
	MaxResponse uint32 // bytes, RPC header included
	MaxOps      uint32 // CB_SEQUENCE included
}

// backSlot is a slot on which this side is the requester.
type backSlot struct {
	seq  uint32 // of the last request that the client took
	busy bool
}

// canCallBack says whether the session has what callbacks need but a
// connection.
func (s *session) canCallBack() bool { return s.secOK && len(s.backSlots) > 0 }

// backConn returns the connection bound last to the back channel, or 0.
func (s *session) backConn() ConnID {
	for i := len(s.bound) - 1; i >= 0; i-- {
		if s.bound[i].dir&dirBack != 0 {
			return s.bound[i].conn
		}
	}
	return 0
}

// callable says whether a callback can be sent through s.
func (s *session) callable() bool {
	return s.backWanted && !s.fault && !s.dying && len(s.backSlots) > 0 && s.backConn() != 0
}

// callingBack says whether a callback is under way.
func (s *session) callingBack() bool {
	for i := range s.backSlots {
		if s.backSlots[i].busy {
			return true
		}
	}
	return false
}

// CanCallback says whether a session of the client has a back channel with a
// connection.
func (t *Table) CanCallback(id nfs4.ClientID) bool {
	c := t.clients[id]
	return c != nil && slices.ContainsFunc(c.sessions, (*session).callable)
}

// Callback takes a back channel slot of a client, of its newest session that
// has one. Errors: NFS4ERR_CB_PATH_DOWN if no session has a connection for it,
// NFS4ERR_DELAY if all slots are in use: ask again after a CallbackDone.
func (t *Table) Callback(id nfs4.ClientID) (cb Callback, status nfs4.Status) {
	c := t.clients[id]
	if c == nil {
		return cb, nfs4.ErrCBPathDown
	}
	status = nfs4.ErrCBPathDown
	for i := len(c.sessions) - 1; i >= 0; i-- {
		switch cb, s := c.sessions[i].callback(); s {
		case nfs4.OK:
			return cb, s
		case nfs4.ErrDelay:
			status = s
		}
	}
	return cb, status
}

// CallbackOn is Callback through one session, for callbacks that are about it.
func (t *Table) CallbackOn(id nfs4.SessionID) (cb Callback, status nfs4.Status) {
	s := t.sessions[id]
	if s == nil {
		return cb, nfs4.ErrCBPathDown
	}
	return s.callback()
}

func (s *session) callback() (cb Callback, status nfs4.Status) {
	if !s.callable() {
		return cb, nfs4.ErrCBPathDown
	}
	slot, high, ok := s.takeBackSlot()
	if !ok {
		return cb, nfs4.ErrDelay
	}
	return Callback{
		Client: s.client.id, Session: s.id, Conn: s.backConn(), Program: s.program, Sec: s.sec,
		Slot: slot, Sequence: s.backSlots[slot].seq + 1, HighestSlot: high,
		MaxRequest: s.back.MaxRequestSize, MaxResponse: s.back.MaxResponseSize, MaxOps: s.back.MaxOperations,
	}, nfs4.OK
}

// takeBackSlot takes the lowest free slot; high is the highest one in use.
func (s *session) takeBackSlot() (slot, high uint32, ok bool) {
	for i := range s.backSlots {
		b := &s.backSlots[i]
		if !b.busy && !ok && uint32(i) < s.backUsable {
			b.busy, slot, ok = true, uint32(i), true
		}
		if b.busy {
			high = uint32(i)
		}
	}
	return slot, high, ok
}

// CallbackDone gives a Callback back. replied says that a reply came, and
// status is CB_SEQUENCE's in it. Without a reply the connection is taken to be
// useless for callbacks until the client binds one. retry says that the client
// did not run this callback but may be asked again at once, with another
// Callback; NFS4ERR_DELAY is not such a case: the caller waits first.
func (t *Table) CallbackDone(cb *Callback, replied bool, status nfs4.Status) (retry bool) {
	s := t.sessions[cb.Session]
	if s == nil {
		return false
	}
	defer t.reap(s)
	if int(cb.Slot) >= len(s.backSlots) {
		return false
	}
	slot := &s.backSlots[cb.Slot]
	slot.busy = false
	if !replied {
		// The slot's sequence id stays. If the client did take the request, it
		// answers the next one as a retry, and the id moves on then.
		t.unbindBack(s, cb.Conn)
		return false
	}
	switch status {
	case nfs4.OK:
		slot.seq = cb.Sequence
	case nfs4.ErrRetryUncachedRep, nfs4.ErrSeqFalseRetry:
		slot.seq = cb.Sequence
		return true
	case nfs4.ErrBadSession, nfs4.ErrDeadSession, nfs4.ErrConnNotBoundToSession:
		t.unbindBack(s, cb.Conn)
		return true
	case nfs4.ErrBadSlot:
		return s.cutBack(cb.Slot)
	case nfs4.ErrBadHighSlot:
		return s.cutBack(cb.HighestSlot)
	case nfs4.ErrSeqMisordered:
		s.fault = true
		return true
	}
	return false
}

// unbindBack ends conn's service for the back channel of s.
func (t *Table) unbindBack(s *session, conn ConnID) {
	i := s.find(conn)
	if i < 0 {
		return
	}
	if s.bound[i].dir &^= dirBack; s.bound[i].dir == 0 {
		t.unbind(s, conn)
	}
}

// cutBack takes no back slot from n up any more, which the client does not
// know; it says whether that changes anything. Without a slot left the back
// channel is at fault.
func (s *session) cutBack(n uint32) bool {
	if n >= s.backUsable {
		return false
	}
	s.backUsable = n
	s.fault = s.fault || n == 0
	return true
}

// BackchannelCtl decides BACKCHANNEL_CTL (RFC 8881 section 18.33) for the
// session of the slot that runs it. NFS4ERR_NOENT: no callback security that
// can be used.
func (t *Table) BackchannelCtl(slot *Slot, a *nfs4.BackchannelCtlArgs) nfs4.Status {
	if slot == nil || slot.sess.dead {
		return nfs4.ErrDeadSession
	}
	sec, ok := chooseSec(a.SecParms)
	if !ok {
		return nfs4.ErrNoEnt
	}
	slot.sess.program, slot.sess.sec, slot.sess.secOK = a.CBProgram, sec, true
	return nfs4.OK
}
