package compound

import (
	"context"
	"net"
	"net/netip"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

const (
	// opHeader is an operation's number and status in a reply.
	opHeader = 8
	// errorRoom is what the result of an operation that the engine refuses
	// takes at most, in bytes.
	errorRoom = opHeader + 4
)

// runner is the loop over one COMPOUND's operations.
type runner struct {
	s      *Server
	ctx    context.Context // of the operations; SEQUENCE changes it
	c      Call
	d      *xdr.Decoder
	e      *xdr.Encoder
	size   int       // bytes of the request, RPC header included
	done   int       // results in the reply
	clock  time.Time // when the last operation ended, if there is an Observer
	hold   bool      // the reply is to be cached
	replay []byte    // a cached reply that answers the whole COMPOUND
}

// compound decodes the frame of a COMPOUND, runs it, and completes the frame
// of the reply: status, tag, number of results.
func (s *Server) compound(ctx context.Context, conn *rpc.Conn, call *rpc.Call, out *rpc.Reply) {
	d, e := &call.Body, &out.Enc
	var h nfs4.CompoundArgs
	h.DecodeXDR(d)
	if d.Err() != nil {
		out.Reject(rpc.Reject{Stat: rpc.GarbageArgs})
		return
	}
	start := e.Len()
	e.Uint32(0)
	e.Opaque(h.Tag)
	countAt := e.Len()
	e.Uint32(0)
	switch {
	case h.MinorVersion != 1 && h.MinorVersion != 2:
		e.SetUint32(start, uint32(nfs4.ErrMinorVersMismatch))
		return
	case !utf8.Valid(h.Tag): // RFC 8881 section 16.2.3
		e.SetUint32(start, uint32(nfs4.ErrInval))
		return
	}
	r, _ := s.runners.Get().(*runner)
	if r == nil {
		r = &runner{}
	}
	now := s.cfg.Now()
	*r = runner{s: s, ctx: ctx, d: d, e: e, size: call.Size, clock: now, c: Call{
		Minor: h.MinorVersion, Now: now, Cred: call.Cred, Conn: conn.ID(),
		Local: addrPort(conn.LocalAddr()), Remote: addrPort(conn.RemoteAddr()),
		rpcConn: conn, nops: int(h.NumOps), start: start, out: out,
	}}
	status := r.run()
	if r.replay != nil {
		e.Truncate(start)
		e.Raw(r.replay)
	} else {
		e.SetUint32(start, uint32(status))
		e.SetUint32(countAt, uint32(r.done))
		r.finish()
	}
	*r = runner{}
	s.runners.Put(r)
}

// run runs the operations until one fails. However many the request says that
// it has, it ends with the first that is not there.
func (r *runner) run() nfs4.Status {
	for ; r.c.index < r.c.nops; r.c.index++ {
		status := r.step()
		if status != nfs4.OK || r.replay != nil {
			return status
		}
	}
	return nfs4.OK
}

// step runs the next operation and completes its result.
func (r *runner) step() nfs4.Status {
	at := r.e.Len()
	num, status := r.next()
	r.c.num = num
	r.e.Uint32(uint32(num))
	r.e.Uint32(0)
	r.done++
	switch {
	case status != nfs4.OK:
	case num == nfs4.OpSequence:
		status = r.sequence()
	default:
		status = r.one(at + opHeader)
	}
	if status != nfs4.OK {
		r.e.SetUint32(at+4, uint32(status))
		if num == nfs4.OpSetattr && r.e.Len() == at+opHeader {
			r.e.Uint32(0) // attrsset, which follows any status (RFC 8881 section 18.30.2)
		}
	}
	if o := r.s.cfg.Observer; o != nil {
		now := r.s.cfg.Now()
		o.Operation(num, status, now.Sub(r.clock))
		r.clock = now
		if r.replay != nil {
			o.Replay()
		}
	}
	return status
}

// next reads the number of the next operation and checks its place in the
// COMPOUND (RFC 8881 sections 2.10.6.3, 15.1.3 and 18.46.3).
func (r *runner) next() (nfs4.OpNum, nfs4.Status) {
	num := nfs4.OpNum(r.d.Uint32())
	if r.d.Err() != nil {
		return nfs4.OpIllegal, nfs4.ErrBadXDR
	}
	if !num.Known(r.c.Minor) {
		return nfs4.OpIllegal, nfs4.ErrOpIllegal
	}
	first, flags := r.c.index == 0, r.s.rows[num].Flags
	switch {
	case num == nfs4.OpSequence && !first:
		return num, nfs4.ErrSequencePos
	case flags&Alone != 0 && r.c.nops > 1:
		return num, nfs4.ErrNotOnlyOp
	case !first || num == nfs4.OpSequence:
		return num, nfs4.OK
	case flags&AllowedFirst == 0:
		return num, nfs4.ErrOpNotInSession
	case r.c.nops > 1:
		return num, nfs4.ErrNotOnlyOp
	}
	return num, nfs4.OK
}

// one runs one operation, whose result's body begins at offset at.
func (r *runner) one(at int) nfs4.Status {
	c, op := &r.c, &r.s.rows[r.c.num]
	room, need := c.room(), 0
	if op.Flags&Modifies != 0 {
		need = op.ReplyMax
	}
	switch {
	case op.Run == nil || op.Minors&(1<<c.Minor) == 0:
		return nfs4.ErrNotSupp
	case op.Flags&NeedsFH != 0 && c.FH == nil, op.Flags&NeedsSavedFH != 0 && c.SavedFH == nil:
		return nfs4.ErrNoFileHandle
	case c.slot != nil && room < need:
		return c.over
	}
	c.setStateid = false
	status := r.call(op)
	if !c.setStateid && (op.Flags&ClearsStateid != 0 || c.FH == nil) {
		c.hasStateid = false
	}
	switch {
	case c.slot == nil:
	case status != nfs4.OK && r.ctx.Err() != nil:
		// What failed for want of time is not the client's to see. It may
		// learn of this only from the reply cache, on another connection.
		r.e.Truncate(at)
		status = nfs4.ErrDelay
	case r.e.Len()-at > room:
		if op.Flags&Modifies != 0 && status == nfs4.OK {
			r.s.cfg.Log.Error("result is longer than its bound", zap.String("op", op.Name), zap.Int("bytes", r.e.Len()-at))
		}
		r.e.Truncate(at)
		status = c.over
	}
	return status
}

// call runs the row. A panic is our fault, never the client's: it is logged
// with its stack and answered as such, and the server goes on.
func (r *runner) call(op *Op) (status nfs4.Status) {
	at := r.e.Len()
	defer func() {
		if p := recover(); p != nil {
			r.s.cfg.Log.Error("operation panicked", zap.String("op", op.Name), zap.Any("panic", p),
				zap.Stringer("client", r.c.Remote), zap.ByteString("stack", debug.Stack()))
			r.e.Truncate(at)
			status = nfs4.ErrServerFault
		}
	}()
	return op.Run(r.ctx, &r.c, r.d, r.e)
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
