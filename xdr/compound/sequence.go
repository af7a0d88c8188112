package compound

import (
	"hash/maphash"

	"manifold/xdr/nfs4"
	"manifold/xdr/session"
)

const (

	// of a session count it (RFC 8881 section 18.36.3).
	// sequenceBody is the length of SEQUENCE's result.
	sequenceBody = 16 + 5*4
	// fingerprintBytes is how much of a request tells it from another one with
	// the same slot and sequence id.
	fingerprintBytes = 256
)

// sequence admits the COMPOUND through its session. Admitted operations run
// under the connection's lingering context: a client whose connection breaks
// asks again on another one, and gets the answer of those that ran.
func (r *runner) sequence() nfs4.Status {
	var a nfs4.SequenceArgs
	a.DecodeXDR(r.d)
	if r.d.Err() != nil {
		return BadXDR(r.d.Err())
	}
	s, c := r.s, &r.c
	// What RPC adds to a reply's body counts in a session's limits (RFC 8881
	// section 18.36.3).
	frame := c.out.Frame()
	shortest := frame + r.e.Len() - c.start + sequenceBody
	if c.nops > 1 {
		shortest += errorRoom
	}
	req := session.Request{
		Conn: session.ConnID(c.Conn), Ops: c.nops, Bytes: r.size, Reply: shortest, Fingerprint: r.fingerprint(),
	}
	if c.Protected() {
		req.Principal, req.Protected = c.principal(), true
	}
	s.mu.Lock()
	l := s.link(c.rpcConn)
	if l == nil {
		s.mu.Unlock()
		return nfs4.ErrDelay // to nobody
	}
	v := s.cfg.Sessions.Sequence(c.Now, &a, req)
	if v.Slot != nil {
		s.renewed(v.Client)
	}
	strayed, over := s.cfg.Sessions.Fault(a.SessionID, v.Status)
	s.mu.Unlock()
	if over {
		s.Evict(r.ctx, strayed, "its SEQUENCEs are out of step again and again")
	}
	switch {
	case v.Replay != nil:
		r.replay = v.Replay
		return nfs4.OK
	case v.Slot == nil:
		return v.Status
	}
	r.ctx = l.ctx
	r.hold = v.Cache
	c.Client, c.Session, c.slot, c.allow = v.Client, a.SessionID, v.Slot, v.Allow
	c.Request = nfs4.ReferringCall{SequenceID: a.SequenceID, SlotID: a.SlotID}
	c.limit, c.over = int(v.MaxResponse)-frame, nfs4.ErrRepTooBig
	if a.CacheThis && v.MaxCached < v.MaxResponse {
		c.limit, c.over = int(v.MaxCached)-frame, nfs4.ErrRepTooBigToCache
	}
	v.Res.EncodeXDR(r.e)
	return nfs4.OK
}

// finish gives the slot back, with the reply if it is to be cached.
func (r *runner) finish() {
	if r.c.slot == nil {
		return
	}
	var reply []byte
	if r.hold {
		reply = r.e.Bytes()[r.c.start:]
	}
	now := r.clock
	if r.s.cfg.Observer == nil {
		now = r.s.cfg.Now()
	}
	r.s.mu.Lock()
	r.s.cfg.Sessions.Done(now, r.c.slot, reply)
	r.s.mu.Unlock()
}

// fingerprint hashes who asks, the length of the request and the first bytes
// after SEQUENCE: enough to tell a retry from another request that wrongly
// uses its slot and sequence id (RFC 8881 section 2.10.6.1.3.1).
func (r *runner) fingerprint() uint64 {
	rest := r.d.Rest()
	h := maphash.Bytes(r.s.seed, rest[:min(len(rest), fingerprintBytes)])
	if p := r.c.Cred.GSS.Principal; p != "" {
		h ^= maphash.String(r.s.seed, p)
	}
	h ^= uint64(len(rest))<<40 ^ uint64(r.c.Cred.Flavor)<<33 ^ uint64(r.c.Cred.Sys.UID)<<1
	return h | 1 // 0 would be unknown
}
