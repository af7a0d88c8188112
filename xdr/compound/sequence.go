package compound

import (
	"hash/fnv"

	"manifold/xdr/nfs4"
	"manifold/xdr/session"
)

// replyFrame is what the RPC header adds to a reply's body, as the limits of
// a session count it (RFC 8881 section 18.36.3).
const replyFrame = 24

// callFrame is what the RPC header with an AUTH_SYS credential adds to a
// request at most. It is not known here exactly, so the shortest is taken:
// a request is never refused for bytes that it does not have.
const callFrame = 40

// fingerprintBytes is how much of a request tells it from another one with
// the same slot and sequence id.
const fingerprintBytes = 256

// sequence admits the COMPOUND through its session.
func (r *runner) sequence() nfs4.Status {
	var a nfs4.SequenceArgs
	a.DecodeXDR(r.d)
	if r.d.Err() != nil {
		return BadXDR(r.d.Err())
	}
	s, c := r.s, r.c
	s.track(c.rpcConn)
	s.mu.Lock()
	v := s.cfg.Sessions.Sequence(c.Now, &a, session.Request{
		Conn: session.ConnID(c.Conn), Ops: c.nops, Bytes: r.size + callFrame,
		Fingerprint: r.fingerprint(),
	})
	s.mu.Unlock()
	switch {
	case v.Replay != nil:
		r.replay = v.Replay
		return nfs4.OK
	case v.Slot == nil:
		return v.Status
	}
	r.slot, r.hold = v.Slot, v.Cache
	c.Client, c.Session, c.slot = v.Client, a.SessionID, v.Slot
	c.maxResp = int(v.MaxResponse) - replyFrame
	if a.CacheThis {
		c.maxHold = int(v.MaxCached) - replyFrame
	}
	v.Res.EncodeXDR(r.e)
	return nfs4.OK
}

// finish gives the slot back, with the reply if it is to be cached.
func (r *runner) finish() {
	if r.slot == nil {
		return
	}
	var reply []byte
	if r.hold {
		reply = r.e.Bytes()[r.c.start:]
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.cfg.Sessions.Done(r.s.cfg.Now(), r.slot, reply)
}

// fingerprint hashes who asks, the length of the request and the first bytes
// after SEQUENCE: enough to tell a retry from another request that wrongly
// uses its slot and sequence id (RFC 8881 section 2.10.6.1.3.1).
func (r *runner) fingerprint() uint64 {
	h := fnv.New64a()
	rest := r.d.Rest()
	uid, n := r.c.Cred.Sys.UID, len(rest)
	h.Write([]byte{byte(r.c.Cred.Flavor), byte(uid), byte(uid >> 8), byte(uid >> 16), byte(uid >> 24),
		byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
	h.Write(rest[:min(n, fingerprintBytes)])
	return h.Sum64() | 1
}
