package client

import (
	"context"
	"errors"
	"time"

	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// maxResets is after how many lost sessions a request gives up: a server that
// answers so for ever is at fault.
const maxResets = 8

// request is one compound until it has its reply.
type request struct {
	c      *Client
	cred   rpc.Cred
	m      message
	args   nfs4.SequenceArgs
	res    nfs4.SequenceRes
	idem   bool
	sess   *session // slot is held in it; nil: none is
	slot   int
	sent   bool // it may have run in sess
	resets int
	pause  time.Duration
}

func (c *Client) do(ctx context.Context, cred rpc.Cred, m message) error {
	r := &request{c: c, cred: cred, m: m, idem: idempotent(m.ops), pause: delay}
	r.m.minor = c.cfg.Minor
	r.m.ops = append(make([]Op, 0, len(m.ops)+1), Op{Num: nfs4.OpSequence, Args: &r.args, Res: &r.res})
	r.m.ops = append(r.m.ops, m.ops...)
	for {
		conn, sess, err := c.ready(ctx)
		if err != nil {
			r.leave()
			return err
		}
		if sess != r.sess {
			if r.sent && !r.idem {
				return ErrUnknownOutcome
			}
			r.sess, r.sent = nil, false
			slot, ok, err := sess.acquire(ctx)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			r.sess, r.slot = sess, slot
		}
		// Only what must not run twice is worth a place in the reply cache.
		r.args = sess.sequence(r.slot, !r.idem)
		if again, err := r.judge(ctx, conn, r.m.send(ctx, conn, cred)); !again {
			return err
		}
	}
}

// judge looks at how one try ended. It gives the slot back unless the request
// is to be tried again.
func (r *request) judge(ctx context.Context, conn *rpc.Conn, err error) (again bool, _ error) {
	var rej rpc.Reject
	switch {
	case errors.Is(err, rpc.ErrClosed):
		r.sent = true
		return true, nil
	case errors.As(err, &rej) && !r.sent:
		r.sess.release(r.slot, false) // it did not get as far as the session
		return false, err
	case err != nil && r.m.done > 0 && r.m.first == nfs4.OK:
		r.sess.release(r.slot, true) // a bad reply, or use's own error
		return false, err
	case err != nil:
		r.sent = true
		r.leave()
		return false, err
	case r.m.done == 0:
		r.sess.release(r.slot, false)
		return false, r.m.failure(1)
	case r.m.first == nfs4.OK:
		r.c.heard(conn, r.sess, r.slot, &r.res)
		r.sess.release(r.slot, true)
		if r.m.status != nfs4.OK {
			return false, r.m.failure(1)
		}
		return false, nil
	}
	return r.refused(ctx, conn)
}

// refused handles an error of SEQUENCE itself (RFC 8881 section 18.46.3): the
// slot's sequence has not moved, unless it says so.
func (r *request) refused(ctx context.Context, conn *rpc.Conn) (again bool, _ error) {
	switch r.m.first {
	case nfs4.ErrDelay:
		if !sleep(ctx, r.pause) {
			r.leave()
			return false, ctx.Err()
		}
		r.pause = min(2*r.pause, maxDelay)
		return true, nil
	case nfs4.ErrConnNotBoundToSession, nfs4.ErrBadSession, nfs4.ErrDeadSession,
		nfs4.ErrBadSlot, nfs4.ErrBadHighSlot, nfs4.ErrSeqMisordered:
		if r.resets++; r.resets > maxResets {
			r.sess.kill()
			return false, r.m.failure(1)
		}
		if r.m.first == nfs4.ErrConnNotBoundToSession {
			if bound, err := r.c.bind(ctx, conn, r.sess); bound || err != nil && conn.Close() == nil {
				return true, nil
			}
		}
		r.sess.kill()
		return true, nil
	case nfs4.ErrRetryUncachedRep, nfs4.ErrSeqFalseRetry:
		// The sequence is used up, and what ran then cannot be known from here.
		if !r.idem {
			r.sess.release(r.slot, true)
			return false, ErrUnknownOutcome
		}
		r.sess.skip(r.slot)
		r.sent = false
		return true, nil
	}
	r.sess.release(r.slot, false)
	return false, r.m.failure(1)
}

// leave gives up the request. A slot whose sequence the server may have taken
// is settled behind the caller's back.
func (r *request) leave() {
	switch {
	case r.sess == nil || r.sess.isDead():
	case !r.sent:
		r.sess.release(r.slot, false)
	default:
		c, sess, slot := r.c, r.sess, r.slot
		c.spawn(func() { c.settle(sess, slot) })
	}
	r.sess = nil
}

// settle finds out whether the server took the sequence of a slot, by a lone
// SEQUENCE with it: whatever else is answered, after an OK it has.
func (c *Client) settle(sess *session, slot int) {
	for pause := delay; ; {
		conn, now, err := c.ready(c.ctx)
		if err != nil || now != sess {
			return // the slot is void
		}
		args := sess.sequence(slot, false)
		m := message{minor: c.cfg.Minor, probe: true, ops: []Op{{Num: nfs4.OpSequence, Args: &args, Res: &nfs4.SequenceRes{}}}}
		err = m.send(c.ctx, conn, c.cfg.Cred)
		switch {
		case errors.Is(err, rpc.ErrClosed):
		case err != nil || m.done == 0:
			sess.kill()
			return
		case m.first == nfs4.OK, m.first == nfs4.ErrRetryUncachedRep, m.first == nfs4.ErrSeqFalseRetry:
			sess.release(slot, true)
			return
		case m.first == nfs4.ErrDelay: // it still runs
			if !sleep(c.ctx, pause) {
				return
			}
			pause = min(2*pause, maxDelay)
		default:
			sess.kill()
			return
		}
	}
}

// heard acts on what the server says in a SEQUENCE result.
func (c *Client) heard(conn *rpc.Conn, sess *session, slot int, res *nfs4.SequenceRes) {
	c.last.Store(time.Now().UnixNano())
	sess.heard(slot, res.HighestSlotID, res.TargetHighestSlotID)
	switch f := res.StatusFlags; {
	case f == 0:
	case f&nfs4.SeqStatusRestartReclaimNeeded != 0:
		c.mu.Lock()
		if c.sess == sess {
			c.id.known = false
		}
		c.mu.Unlock()
		sess.kill()
	case f&nfs4.SeqStatusBackchannelFault != 0 && sess.back:
		sess.kill()
	case f&(nfs4.SeqStatusCBPathDown|nfs4.SeqStatusCBPathDownSession) != 0 && sess.back:
		if sess.binding.CompareAndSwap(false, true) {
			c.spawn(func() {
				ctx, cancel := context.WithTimeout(c.ctx, attempt)
				defer cancel()
				_, _ = c.bind(ctx, conn, sess) // the next reply asks for it again
				sess.binding.Store(false)
			})
		}
	}
}
