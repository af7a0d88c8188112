package client

import (
	"bytes"
	"context"
	"sync"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// cbSlots is how many callbacks may be under way.
const cbSlots = 16

// callbacks is the back channel's slots of one session, with their reply cache.
type callbacks struct {
	mu    sync.Mutex
	slots [cbSlots]struct {
		seq   uint32 // of the last callback
		busy  bool
		reply []byte // its COMPOUND result
	}
}

// callbackServer answers the server's CB_NULL and CB_COMPOUND.
type callbackServer struct{ client *Client }

// ServeRPC implements rpc.Handler. Versions 1 (RFC 8881's XDR) and 4 (its
// section 18.36.3) are both taken.
func (s *callbackServer) ServeRPC(ctx context.Context, _ *rpc.Conn, call *rpc.Call, out *rpc.Reply) {
	switch {
	case call.Prog != cbProgram:
		out.Reject(rpc.Reject{Stat: rpc.ProgUnavail})
	case call.Vers != 1 && call.Vers != 4:
		out.Reject(rpc.Reject{Stat: rpc.ProgMismatch, Low: 1, High: 4})
	case call.Proc == 0:
	case call.Proc == 1:
		s.compound(ctx, call, out)
	default:
		out.Reject(rpc.Reject{Stat: rpc.ProcUnavail})
	}
}

// compound runs a CB_COMPOUND: CB_SEQUENCE first, then what Config.Callback knows.
func (s *callbackServer) compound(ctx context.Context, call *rpc.Call, out *rpc.Reply) {
	d, e := &call.Body, &out.Enc
	var head nfs4.CBCompoundArgs
	head.DecodeXDR(d)
	if d.Err() != nil {
		out.Reject(rpc.Reject{Stat: rpc.GarbageArgs})
		return
	}
	start := e.Len()
	res := nfs4.CBCompoundRes{Tag: head.Tag}
	res.EncodeXDR(e)
	count := e.Len() - 4
	finish := func(status nfs4.Status, n uint32) {
		e.SetUint32(start, uint32(status))
		e.SetUint32(count, n)
	}
	switch {
	case head.MinorVersion != s.client.cfg.Minor:
		finish(nfs4.ErrMinorVersMismatch, 0)
		return
	case head.NumOps == 0:
		finish(nfs4.OK, 0)
		return
	case nfs4.CBOpNum(d.Uint32()) != nfs4.CBSequence:
		e.Uint32(uint32(nfs4.CBSequence))
		e.Uint32(uint32(nfs4.ErrOpNotInSession))
		finish(nfs4.ErrOpNotInSession, 1)
		return
	}
	var seq nfs4.CBSequenceArgs
	seq.DecodeXDR(d)
	cb, replay, status := s.sequence(&seq, d.Err())
	if replay != nil {
		e.Truncate(start)
		e.Raw(replay)
		return
	}
	e.Uint32(uint32(nfs4.CBSequence))
	e.Uint32(uint32(status))
	if status != nfs4.OK {
		finish(status, 1)
		return
	}
	seqRes := nfs4.CBSequenceRes{
		SessionID: seq.SessionID, SequenceID: seq.SequenceID, SlotID: seq.SlotID,
		HighestSlotID: cbSlots - 1, TargetHighestSlotID: cbSlots - 1,
	}
	seqRes.EncodeXDR(e)
	finish(s.operations(ctx, seq.SessionID, head.NumOps, d, e))
	cb.done(seq.SlotID, e.Bytes()[start:], seq.CacheThis)
}

// operations runs those after CB_SEQUENCE; n counts the results with its own.
func (s *callbackServer) operations(ctx context.Context, sess nfs4.SessionID, total uint32, d *xdr.Decoder, e *xdr.Encoder) (status nfs4.Status, n uint32) {
	for n = 1; n < total && status == nfs4.OK; n++ {
		op := nfs4.CBOpNum(d.Uint32())
		if d.Err() != nil {
			return nfs4.ErrBadXDR, n
		}
		at := e.Len()
		e.Uint32(uint32(op))
		e.Uint32(0)
		status = nfs4.ErrNotSupp
		switch {
		case op == nfs4.CBRecallSlot:
			status = s.recallSlot(sess, d)
		case s.client.cfg.Callback != nil:
			status = s.client.cfg.Callback(ctx, op, d, e)
		}
		if d.Err() != nil {
			status = nfs4.ErrBadXDR
		}
		if status != nfs4.OK {
			e.Truncate(at + 8)
			e.SetUint32(at+4, uint32(status))
		}
	}
	return status, n
}

// recallSlot answers CB_RECALL_SLOT, and lets the server know by a SEQUENCE, as
// there may be no other soon.
func (s *callbackServer) recallSlot(id nfs4.SessionID, d *xdr.Decoder) nfs4.Status {
	var a nfs4.CBRecallSlotArgs
	if a.DecodeXDR(d); d.Err() != nil {
		return nfs4.ErrBadXDR
	}
	c := s.client
	c.mu.Lock()
	sess := c.sess
	c.mu.Unlock()
	if sess == nil || sess.id != id {
		return nfs4.ErrBadSession
	}
	sess.recalled(a.TargetHighestSlotID)
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(c.ctx, attempt)
		defer cancel()
		_ = c.Compound(ctx, c.cfg.Cred) // if it fails the renewal says it
	})
	return nfs4.OK
}

// sequence admits a callback (RFC 8881 section 20.9.3).
func (s *callbackServer) sequence(a *nfs4.CBSequenceArgs, bad error) (cb *callbacks, replay []byte, _ nfs4.Status) {
	if bad != nil {
		return nil, nil, nfs4.ErrBadXDR
	}
	s.client.mu.Lock()
	sess := s.client.sess
	s.client.mu.Unlock()
	if sess == nil || sess.id != a.SessionID {
		return nil, nil, nfs4.ErrBadSession
	}
	if a.SlotID >= cbSlots {
		return nil, nil, nfs4.ErrBadSlot
	}
	cb = sess.cb
	cb.mu.Lock()
	defer cb.mu.Unlock()
	slot := &cb.slots[a.SlotID]
	switch {
	case a.SequenceID == slot.seq && slot.busy:
		return nil, nil, nfs4.ErrDelay
	case a.SequenceID == slot.seq && slot.reply != nil:
		return nil, slot.reply, nfs4.OK
	case a.SequenceID == slot.seq:
		return nil, nil, nfs4.ErrRetryUncachedRep
	case a.SequenceID != slot.seq+1 || slot.busy:
		return nil, nil, nfs4.ErrSeqMisordered
	}
	slot.seq, slot.busy, slot.reply = a.SequenceID, true, nil
	return cb, nil, nfs4.OK
}

// done ends the callback on slot n.
func (cb *callbacks) done(n uint32, reply []byte, cache bool) {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	cb.slots[n].busy = false
	if cache && len(reply) <= 4096 {
		cb.slots[n].reply = bytes.Clone(reply)
	}
}
