package rpc

import (
	"context"

	"manifold/xdr"
)

// Handler answers calls. A Conn runs it for several calls at once (or, see
// Config.Inline, one after another). ctx is cancelled when the connection
// closes. call, what it aliases, and out are the Handler's until it returns.
//
// The Handler has the whole program: procedure 0 (NULL) comes to it too, and
// is answered by appending nothing.
type Handler interface {
	ServeRPC(ctx context.Context, conn *Conn, call *Call, out *Reply)
}

// replyHeader is how long the record mark (4 bytes) and the header of an
// accepted, successful reply (24 bytes) are.
const replyHeader = 28

// Reply is the answer to one Call. Enc holds the record mark and the header of
// a successful reply already, and the Handler appends the result. Unless
// Reject or Drop is called, what is in Enc when the Handler returns is sent.
type Reply struct {
	Enc xdr.Encoder

	c      *Conn
	head   int // where the result begins in Enc
	result int // where what is to be sealed does
	buf    *buffer
	xid    uint32
	state  replyState
	reject Reject
	moved  bool // reading went on on another goroutine
	inline bool

	// Of an RPCSEC_GSS call.
	verfFlavor uint32
	verf       []byte
	seal       Sealer
}

type replyState uint8

const (
	replySuccess replyState = iota
	replyRejected
	replyDropped
)

// Body returns the result appended so far, without the RPC header. It aliases
// Enc's buffer: a reply cache copies it. The reply as RFC 8881 counts it
// (ca_maxresponsesize) is Frame bytes longer.
func (r *Reply) Body() []byte { return r.Enc.Bytes()[r.head:] }

// Frame is how many bytes the reply has besides its Body, the record mark not
// counted, at most: 24, and what RPCSEC_GSS adds.
func (r *Reply) Frame() int {
	n := max(r.head, replyHeader) - 4
	if r.seal != nil {
		n += r.seal.Tail()
	}
	return n
}

// Reset forgets the result appended so far, and a Reject.
func (r *Reply) Reset() {
	r.state = replySuccess
	r.Enc.Truncate(r.head)
}

// Grow makes room in Enc for n more bytes, out of the connection's pool where
// Enc.Grow would allocate. Slices of Enc's buffer taken before (Reserve, Body)
// are void afterwards.
func (r *Reply) Grow(n int) {
	old := r.Enc.Bytes()
	if cap(old)-len(old) >= n {
		return
	}
	bigger := r.c.cfg.pool.get(len(old) + n)
	bigger.b = append(bigger.b, old...)
	r.buf.b = old[:0] // Enc may have moved on from the pooled slice
	r.c.cfg.pool.put(r.buf)
	r.buf = bigger
	r.Enc = xdr.NewEncoder(bigger.b)
}

// Reject answers the call with rej in place of a result.
func (r *Reply) Reject(rej Reject) {
	r.state = replyRejected
	r.reject = rej
}

// Drop sends nothing and closes the connection, for a server that holds
// sessions must not swallow a call on a connection that lives on (RFC 8881
// section 2.9.2).
func (r *Reply) Drop() { r.state = replyDropped }

// Block says that the Handler is about to do what may wait: for a disk, a
// lock held long, a callback. Under Config.Inline, replies held for a common
// write go out and another goroutine goes on reading; else, and the second
// time, it does nothing.
func (r *Reply) Block() {
	if r.inline && !r.moved {
		r.moved = true
		r.c.handOver()
	}
}

// begin writes the header of a successful reply to xid (RFC 5531 section 9).
func (r *Reply) begin() {
	e := &r.Enc
	e.Uint32(0) // record mark, set when the length is known
	e.Uint32(r.xid)
	e.Uint32(msgReply)
	e.Uint32(msgAccepted)
	e.Uint32(AuthNone) // verifier
	e.Uint32(0)
	e.Uint32(acceptSuccess)
	r.head = replyHeader
}

// finish completes the record: the seal, the refusal, if there is one, and the
// mark.
func (r *Reply) finish() {
	if r.seal != nil && r.state == replySuccess {
		if err := r.seal.Seal(&r.Enc, r.result); err != nil {
			r.Reject(Reject{Stat: SystemErr})
		}
	}
	if r.state == replyRejected {
		r.Enc.Truncate(4)
		encodeReject(&r.Enc, r.xid, r.reject, r.verfFlavor, r.verf)
	}
	setMark(&r.Enc)
	r.buf.b = r.Enc.Bytes()
}
