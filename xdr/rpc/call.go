package rpc

import (
	"bytes"
	"context"
	"fmt"

	"manifold/xdr"
)

// Request is a call that we make.
type Request struct {
	Prog, Vers, Proc uint32
	Cred             Cred
	// Size is a hint of how many bytes Args appends, so that a large call is
	// encoded in a pooled buffer.
	Size int
	// Args appends the arguments. Nil: none.
	Args func(*xdr.Encoder)
	// Result reads the result, if the call succeeded. What it decodes aliases
	// a buffer that is reused when it returns. Nil: the result is not looked at.
	Result func(*xdr.Decoder) error
}

// callHeader is the most that a call's mark and header take.
const callHeader = 4 + 24 + 8 + maxAuth + 8

// wait is a call of ours without a reply. ch holds the reply's record; the
// codecs are here so that handing them to functions allocates nothing.
type wait struct {
	ch  chan *buffer
	enc xdr.Encoder
	dec xdr.Decoder
}

// Call makes one call and returns the result, which is the caller's. See Do.
func (c *Conn) Call(ctx context.Context, prog, vers, proc uint32, cred Cred, args func(*xdr.Encoder)) ([]byte, error) {
	var body []byte
	err := c.Do(ctx, &Request{
		Prog: prog, Vers: vers, Proc: proc, Cred: cred, Args: args,
		Result: func(d *xdr.Decoder) error {
			body = bytes.Clone(d.Rest())
			return nil
		},
	})
	return body, err
}

// Do makes one call and waits for its reply. The error is a Reject, ctx's,
// wraps ErrClosed, says that the reply is malformed, or is what r.Result
// returned. A reply that comes after ctx ended is dropped. Serve must be running.
func (c *Conn) Do(ctx context.Context, r *Request) error {
	if r.Cred.Flavor == AuthGSS && r.Cred.Initiator != nil {
		return c.doSecured(ctx, r)
	}
	return c.roundTrip(ctx, r, nil)
}

// roundTrip makes the call, secured by s if it is not nil.
func (c *Conn) roundTrip(ctx context.Context, r *Request, s Securing) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	pool := &c.cfg.pool
	w, _ := pool.waits.Get().(*wait)
	if w == nil {
		w = &wait{ch: make(chan *buffer, 1)}
	}
	defer pool.waits.Put(w)
	xid, err := c.register(w)
	if err != nil {
		return err
	}
	if err := c.post(xid, r, &w.enc, s); err != nil {
		c.forget(xid, w)
		return err
	}
	rec, err := c.await(ctx, xid, w)
	if err != nil {
		return err
	}
	defer pool.put(rec)
	d := &w.dec
	*d = xdr.NewDecoder(rec.b)
	d.Uint64() // xid and type, which dispatch looked at
	var verify func([]byte) error
	if s != nil {
		verify = s.Reply
	}
	if err := decodeReply(d, verify); err != nil {
		return err
	}
	if s != nil {
		if *d, err = s.Result(d); err != nil {
			return err
		}
	}
	if r.Result == nil {
		return nil
	}
	return r.Result(d)
}

// register gives w a transaction id.
func (c *Conn) register(w *wait) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.closedErr()
	}
	for {
		c.xid++
		if _, used := c.calls[c.xid]; !used {
			c.calls[c.xid] = w
			return c.xid, nil
		}
	}
}

// forget takes back a registration whose call was not sent.
// What a peer answered all the same is dropped.
func (c *Conn) forget(xid uint32, w *wait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, waiting := c.calls[xid]; waiting {
		delete(c.calls, xid)
		return
	}
	c.cfg.pool.put(<-w.ch)
}

// post encodes r and has it sent.
func (c *Conn) post(xid uint32, r *Request, e *xdr.Encoder, s Securing) error {
	pool := &c.cfg.pool
	buf := pool.get(callHeader + r.Size)
	*e = xdr.NewEncoder(buf.b)
	if s != nil {
		if err := encodeSecured(e, xid, r, s); err != nil {
			pool.put(buf)
			*e = xdr.Encoder{}
			return err
		}
	} else {
		encodeCall(e, xid, r.Prog, r.Vers, r.Proc, &r.Cred)
		if r.Args != nil {
			r.Args(e)
		}
	}
	setMark(e)
	buf.b = e.Bytes()
	*e = xdr.Encoder{}
	p, _ := pool.packets.Get().(*packet)
	if p == nil {
		p = &packet{}
	}
	p.buf = buf
	c.enqueue(p)
	c.flushSoon()
	return nil
}

// await waits for the reply to xid. A reply that is there counts, whatever
// else happened.
func (c *Conn) await(ctx context.Context, xid uint32, w *wait) (*buffer, error) {
	select {
	case rec := <-w.ch:
		return rec, nil
	case <-ctx.Done():
	case <-c.done:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, waiting := c.calls[xid]; !waiting {
		return <-w.ch, nil
	}
	delete(c.calls, xid)
	if c.err != nil {
		return nil, c.closedErr()
	}
	return nil, ctx.Err()
}

// deliver gives a reply to the call that waits for it.
func (c *Conn) deliver(xid uint32, rec *buffer) {
	c.mu.Lock()
	w := c.calls[xid]
	if w != nil {
		delete(c.calls, xid)
		w.ch <- rec // has room: one reply a registration
	}
	c.mu.Unlock()
	if w == nil {
		c.cfg.pool.put(rec)
		c.cfg.Observer.Orphan()
	}
}

// closedErr is called with mu held.
func (c *Conn) closedErr() error {
	if c.err == ErrClosed {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrClosed, c.err)
}
