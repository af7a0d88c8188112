package session

import (
	"slices"
	"time"

	"manifold/xdr/nfs4"
)

// session is one session (RFC 8881 section 2.10).
type session struct {
	id        nfs4.SessionID
	client    *client
	fore      nfs4.ChannelAttrs
	back      nfs4.ChannelAttrs
	createSeq uint32 // csa_sequence that made it
	confirms  bool   // planned, and would confirm the client

	slots  []*Slot
	cached uint32 // bytes of a reply that each slot may keep
	busy   int    // slots that run
	used   time.Time
	want   uint32 // the most fore slots that it may have
	target uint32 // fore slots that it is to have now
	gen    uint64 // moves with target, and when slots go
	lost   uint64 // gen when slots went last, 0: never
	peak   uint32 // slots that the client used since Tune began to count anew,
	before uint32 // and in the time before that
	asked  int    // callbacks that told the client of target
	asking bool   // one is under way

	bound []binding // oldest first

	backWanted bool
	fault      bool // the back channel cannot be used any more
	backSlots  []backSlot
	backUsable uint32 // how many of them the client takes
	program    uint32
	sec        nfs4.CallbackSecParms
	secOK      bool // sec can be used

	dying bool // to be destroyed when nothing runs
	dead  bool
}

// direction is a set of channels.
type direction uint8

const (
	dirFore direction = nfs4.BindFore
	dirBack direction = nfs4.BindBack
)

// binding is one connection of a session.
type binding struct {
	conn ConnID
	dir  direction
}

// bind makes dir the channels of s that conn serves. A session with MaxConns
// connections forgets the oldest that is not its back channel.
func (t *Table) bind(s *session, conn ConnID, dir direction) {
	if conn == 0 {
		return
	}
	if i := s.find(conn); i >= 0 {
		s.bound = append(slices.Delete(s.bound, i, i+1), binding{conn, dir})
		return
	}
	if len(s.bound) >= t.cfg.MaxConns {
		i := slices.IndexFunc(s.bound, func(b binding) bool { return b.dir&dirBack == 0 })
		t.unbind(s, s.bound[max(i, 0)].conn)
	}
	s.bound = append(s.bound, binding{conn, dir})
	t.conns[conn] = append(t.conns[conn], s)
}

// unbind forgets conn as a connection of s.
func (t *Table) unbind(s *session, conn ConnID) {
	if i := s.find(conn); i >= 0 {
		s.bound = slices.Delete(s.bound, i, i+1)
	}
	all := t.conns[conn]
	if i := slices.Index(all, s); i >= 0 {
		all = slices.Delete(all, i, i+1)
	}
	if len(all) == 0 {
		delete(t.conns, conn)
	} else {
		t.conns[conn] = all
	}
}

// find returns the index of conn in s.bound, or -1.
func (s *session) find(conn ConnID) int {
	for i := range s.bound {
		if s.bound[i].conn == conn {
			return i
		}
	}
	return -1
}

// ConnClosed unbinds a connection everywhere. No later call may name it.
func (t *Table) ConnClosed(conn ConnID) {
	for _, s := range slices.Clone(t.conns[conn]) {
		t.unbind(s, conn)
	}
}

// Conns returns the connections bound to a client's sessions, each once: those
// that are closed to cut the client off.
func (t *Table) Conns(id nfs4.ClientID) (conns []ConnID) {
	c := t.clients[id]
	if c == nil {
		return nil
	}
	for _, s := range c.sessions {
		for _, b := range s.bound {
			if !slices.Contains(conns, b.conn) {
				conns = append(conns, b.conn)
			}
		}
	}
	return conns
}

// BindConn decides BIND_CONN_TO_SESSION (RFC 8881 section 18.34). A client
// that leaves it to the server gets both channels. Errors: NFS4ERR_BADSESSION,
// NFS4ERR_DEADSESSION, NFS4ERR_WRONG_CRED (a protected client without its machine
// credential), NFS4ERR_INVAL (no such direction, or a back channel without usable
// security or size).
func (t *Table) BindConn(a *nfs4.BindConnToSessionArgs, from Peer) (res nfs4.BindConnToSessionRes, status nfs4.Status) {
	s := t.sessions[a.SessionID]
	switch {
	case s == nil:
		return res, nfs4.ErrBadSession
	case s.dying:
		return res, nfs4.ErrDeadSession
	case s.client.guard(&from) != nfs4.OK:
		return res, nfs4.ErrWrongCred
	}
	var dir direction
	switch a.Dir {
	case nfs4.BindFore:
		dir = dirFore
	case nfs4.BindBack:
		dir = dirBack
	case nfs4.BindForeOrBoth, nfs4.BindBackOrBoth:
		dir = dirFore | dirBack
	}
	if dir&dirBack != 0 && !s.canCallBack() {
		if a.Dir != nfs4.BindForeOrBoth {
			return res, nfs4.ErrInval
		}
		dir = dirFore
	}
	if dir == 0 {
		return res, nfs4.ErrInval
	}
	t.bind(s, from.Conn, dir)
	if dir&dirBack != 0 {
		s.backWanted = true
	}
	// A direction's bits are the values of channel_dir_from_server4.
	return nfs4.BindConnToSessionRes{SessionID: s.id, Dir: uint32(dir)}, nfs4.OK
}

// DestroySession decides DESTROY_SESSION (RFC 8881 section 18.37). own is the
// slot of the COMPOUND that holds it, nil outside a session. A protected client's
// is NFS4ERR_WRONG_CRED without its machine credential. While other
// requests run it is NFS4ERR_DELAY, while callbacks do NFS4ERR_BACK_CHAN_BUSY;
// in both cases the session takes no new request and is destroyed when the
// last one is done, since Linux does not ask again.
func (t *Table) DestroySession(id nfs4.SessionID, own *Slot, from Peer) nfs4.Status {
	s := t.sessions[id]
	if s == nil {
		return nfs4.ErrBadSession
	}
	if c := s.client; c.guard(&from) != nfs4.OK {
		return nfs4.ErrWrongCred
	}
	others := s.busy
	if own != nil && own.sess == s && own.busy {
		others--
	}
	switch {
	case others > 0:
		s.dying = true
		return nfs4.ErrDelay
	case s.callingBack():
		s.dying = true
		return nfs4.ErrBackChanBusy
	}
	t.destroy(s)
	return nfs4.OK
}

// reap destroys s if it was only waiting for what ran.
func (t *Table) reap(s *session) {
	if s.dying && !s.dead && s.busy == 0 && !s.callingBack() {
		t.destroy(s)
	}
}

// destroy takes s out of the table. Requests that still run end in Done, which
// finds it dead.
func (t *Table) destroy(s *session) {
	c := s.client
	if i := slices.Index(c.sessions, s); i >= 0 {
		c.sessions = slices.Delete(c.sessions, i, i+1)
	}
	c.busy -= s.busy
	delete(t.sessions, s.id)
	t.release(s)
}

// release gives back what a session held: connections and cache memory.
func (t *Table) release(s *session) {
	s.dead = true
	for len(s.bound) > 0 {
		t.unbind(s, s.bound[0].conn)
	}
	t.cacheBytes -= int64(len(s.slots)) * int64(s.cached)
	s.slots = nil
}
