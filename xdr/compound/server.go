package compound

import (
	"context"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// Program and Version number NFS version 4 (RFC 7530 section 16).
const (
	Program = 100003
	Version = 4
)

const (
	procNull     = 0
	procCompound = 1
	// opHeader is an operation's number and status in a reply.
	opHeader = 8
)

// Hooks are what the engine asks of its role. A nil hook does nothing.
type Hooks struct {
	// Confirm makes a client's record durable. It runs before CREATE_SESSION
	// confirms the client; an error refuses the session with
	// NFS4ERR_SERVERFAULT and leaves the client unconfirmed. mayReclaim says
	// that the client was on record when the server started.
	Confirm func(context.Context, session.ClientRecord) (mayReclaim bool, err error)
	// Drop forgets the state of a client that is gone: destroyed, expired, or
	// replaced by a later incarnation.
	Drop func(context.Context, nfs4.ClientID)
	// ReclaimComplete tells that a client has reclaimed all that it wants.
	ReclaimComplete func(context.Context, nfs4.ClientID) error
}

// Config is what a Server needs besides its Table.
type Config struct {
	Sessions *session.Table
	Hooks    Hooks
	Observer Observer
	Log      *zap.Logger
	// Now is the clock.
	Now func() time.Time
}

// Observer is told what the engine did, for metrics. Its methods are called
// from many goroutines and must not block.
type Observer interface {
	// Operation: one operation ended with a status after d.
	Operation(op nfs4.OpNum, s nfs4.Status, d time.Duration)
	// Replay: a reply was answered from a reply cache.
	Replay()
}

type silent struct{}

func (silent) Operation(nfs4.OpNum, nfs4.Status, time.Duration) {}
func (silent) Replay()                                          {}

// Server runs COMPOUNDs. It implements rpc.Handler.
type Server struct {
	cfg   Config
	table Table

	mu     sync.Mutex // guards cfg.Sessions, which has none of its own, and:
	conns  map[uint64]*rpc.Conn
	minors map[nfs4.ClientID]uint32 // of the session made last
	freed  chan struct{}            // closed when a back channel slot is given back
}

// New returns a Server of a role. The rows of session operations are added to
// a copy of table: they are the same for every role.
func New(cfg Config, table Table) *Server {
	if cfg.Observer == nil {
		cfg.Observer = silent{}
	}
	s := &Server{cfg: cfg, table: Table{}, conns: map[uint64]*rpc.Conn{}, minors: map[nfs4.ClientID]uint32{}, freed: make(chan struct{})}
	for n, op := range table {
		s.table[n] = op
	}
	for n, op := range s.sessionOps() {
		s.table[n] = op
	}
	return s
}

// ServeRPC serves one call: the NULL procedure or a COMPOUND.
func (s *Server) ServeRPC(ctx context.Context, conn *rpc.Conn, call *rpc.Call, out *rpc.Reply) {
	switch {
	case call.Prog != Program:
		out.Reject(rpc.Reject{Stat: rpc.ProgUnavail})
	case call.Vers != Version:
		out.Reject(rpc.Reject{Stat: rpc.ProgMismatch, Low: Version, High: Version})
	case call.Proc == procNull:
	case call.Proc == procCompound:
		s.compound(ctx, conn, call, out)
	default:
		out.Reject(rpc.Reject{Stat: rpc.ProcUnavail})
	}
}

// compound decodes the frame of a COMPOUND, runs it, and completes the frame
// of the reply: status, tag, number of results.
func (s *Server) compound(ctx context.Context, conn *rpc.Conn, call *rpc.Call, out *rpc.Reply) {
	size := call.Body.Remaining()
	d, e := &call.Body, &out.Enc
	var h nfs4.CompoundArgs
	h.DecodeXDR(d)
	if d.Err() != nil {
		out.Reject(rpc.Reject{Stat: rpc.GarbageArgs})
		return
	}
	c := &Call{
		Minor: h.MinorVersion, Now: s.cfg.Now(), Cred: call.Cred, Conn: conn.ID(),
		Local: addrPort(conn.LocalAddr()), Remote: addrPort(conn.RemoteAddr()),
		rpcConn: conn, nops: int(h.NumOps), enc: e, start: e.Len(),
	}
	e.Uint32(0)
	e.Opaque(h.Tag)
	countAt := e.Len()
	e.Uint32(0)
	if h.MinorVersion != 1 && h.MinorVersion != 2 {
		e.SetUint32(c.start, uint32(nfs4.ErrMinorVersMismatch))
		return
	}
	r := runner{s: s, c: c, d: d, e: e, size: size}
	status := r.run(ctx)
	if r.replay != nil {
		s.cfg.Observer.Replay()
		e.Truncate(c.start)
		e.Raw(r.replay)
		return
	}
	e.SetUint32(c.start, uint32(status))
	e.SetUint32(countAt, uint32(r.done))
	r.finish()
}

// runner is the loop over one COMPOUND's operations.
type runner struct {
	s      *Server
	c      *Call
	d      *xdr.Decoder
	e      *xdr.Encoder
	size   int // bytes of the request's body
	done   int // results in the reply
	slot   *session.Slot
	hold   bool   // the reply is to be cached
	replay []byte // a cached reply that answers the whole COMPOUND
}

// run runs the operations until one fails.
func (r *runner) run(ctx context.Context) nfs4.Status {
	for r.c.index = 0; r.c.index < r.c.nops; r.c.index++ {
		at := r.e.Len()
		num := nfs4.OpNum(r.d.Uint32())
		if r.d.Err() != nil {
			num = nfs4.OpIllegal
		}
		r.e.Uint32(uint32(num))
		r.e.Uint32(0)
		r.done++
		began := r.s.cfg.Now()
		status := r.one(ctx, num, at)
		r.s.cfg.Observer.Operation(num, status, r.s.cfg.Now().Sub(began))
		if r.replay != nil {
			return nfs4.OK
		}
		r.e.SetUint32(at+4, uint32(status))
		if status != nfs4.OK {
			return status
		}
	}
	return nfs4.OK
}

// one runs one operation, whose result begins at offset at of the reply.
func (r *runner) one(ctx context.Context, num nfs4.OpNum, at int) nfs4.Status {
	if r.d.Err() != nil {
		return nfs4.ErrBadXDR
	}
	if status := r.position(num); status != nfs4.OK {
		return status
	}
	if num == nfs4.OpSequence {
		return r.sequence()
	}
	if !num.Known(r.c.Minor) {
		r.e.SetUint32(at, uint32(nfs4.OpIllegal))
		return nfs4.ErrOpIllegal
	}
	op, ok := r.s.table[num]
	if !ok || op.Minors&(1<<r.c.Minor) == 0 {
		return nfs4.ErrNotSupp
	}
	switch {
	case op.Flags&NeedsFH != 0 && r.c.FH == nil, op.Flags&NeedsSavedFH != 0 && r.c.SavedFH == nil:
		return nfs4.ErrNoFileHandle
	case op.Flags&Modifies != 0 && r.c.Room() < op.ReplyMax:
		return r.tooBig()
	}
	if op.Flags&ClearsStateid != 0 {
		defer func(fh nfs4.FH) { r.c.hasStateid = r.c.hasStateid && sameFH(fh, r.c.FH) }(r.c.FH)
	}
	status := r.call(ctx, &op)
	if r.c.maxResp > 0 && r.e.Len()-r.c.start > r.limit() {
		r.e.Truncate(at + opHeader)
		return r.tooBig()
	}
	return status
}

// position checks an operation's place in the COMPOUND (RFC 8881 sections
// 2.10.6.3 and 18.46.3).
func (r *runner) position(num nfs4.OpNum) nfs4.Status {
	first := r.c.index == 0
	flags := r.s.table[num].Flags
	switch {
	case num == nfs4.OpSequence && !first:
		return nfs4.ErrSequencePos
	case flags&Alone != 0 && r.c.nops > 1:
		return nfs4.ErrNotOnlyOp
	case !first || num == nfs4.OpSequence || !num.Known(r.c.Minor):
		return nfs4.OK
	case flags&AllowedFirst == 0:
		return nfs4.ErrOpNotInSession
	case r.c.nops > 1:
		return nfs4.ErrNotOnlyOp
	}
	return nfs4.OK
}

// call runs the row. A panic is our fault, never the client's: it is logged
// with its stack and answered as such, and the server goes on.
func (r *runner) call(ctx context.Context, op *Op) (status nfs4.Status) {
	at := r.e.Len()
	defer func() {
		if p := recover(); p != nil {
			r.s.cfg.Log.Error("operation panicked", zap.String("op", op.Name), zap.Any("panic", p),
				zap.Stringer("client", r.c.Remote), zap.ByteString("stack", debug.Stack()))
			r.e.Truncate(at)
			status = nfs4.ErrServerFault
		}
	}()
	return op.Run(ctx, r.c, r.d, r.e)
}

// limit is how long the reply may get.
func (r *runner) limit() int {
	if r.c.maxHold > 0 && r.c.maxHold < r.c.maxResp {
		return r.c.maxHold
	}
	return r.c.maxResp
}

// tooBig is the status of a reply that exceeds its limit.
func (r *runner) tooBig() nfs4.Status {
	if r.c.maxHold > 0 && r.c.maxHold < r.c.maxResp {
		return nfs4.ErrRepTooBigToCache
	}
	return nfs4.ErrRepTooBig
}

func sameFH(a, b nfs4.FH) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
