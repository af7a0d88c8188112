package compound

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"go.uber.org/zap"

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
)

// Hooks are what the engine asks of its role. A nil hook does nothing.
type Hooks struct {
	// Confirm makes a client's record durable. It runs before CREATE_SESSION
	// confirms the client; an error refuses the session with
	// NFS4ERR_SERVERFAULT and leaves the client unconfirmed. mayReclaim says
	// that a client with this owner and this verifier was on record when the
	// server started (RFC 8881 section 8.4.2.1).
	Confirm func(context.Context, session.ClientRecord) (mayReclaim bool, err error)
	// Drop forgets the state of a client that is gone: destroyed, expired, or
	// replaced by a later incarnation.
	Drop func(context.Context, nfs4.ClientID)
	// Lapsed tells that a client's lease ran out, and asks whether the client may
	// stay nevertheless, with its sessions, as long as nobody wants what it holds
	// (RFC 8881 section 8.4.2.3). It is asked again and again then, and when the
	// client is heard of again before Server.Evict, Renewed tells. Neither may
	// call the Server.
	Lapsed  func(now time.Time, id nfs4.ClientID) (stays bool)
	Renewed func(nfs4.ClientID)
	// ReclaimComplete tells that a client has reclaimed all that it wants.
	ReclaimComplete func(context.Context, nfs4.ClientID) error
}

// Config is what a Server needs besides its Table. Sessions and Now must be set.
type Config struct {
	Sessions *session.Table
	Hooks    Hooks
	// Observer may be nil.
	Observer Observer
	// Log defaults to none.
	Log *zap.Logger
	// Now is the clock.
	Now func() time.Time
	// Serving, if not nil, is asked before each reply whether it may still be
	// given. If not, the connection is closed instead.
	Serving func() bool
}

// Observer is told what the engine did, for metrics. Its methods are called
// from many goroutines and must not block.
type Observer interface {
	// Operation: one operation ended with a status after d. A number that is
	// no operation of the minor version is told as nfs4.OpIllegal.
	Operation(op nfs4.OpNum, s nfs4.Status, d time.Duration)
	// Replay: a reply was answered from a reply cache.
	Replay()
	// Evicted: a client was evicted for what it did.
	Evicted()
}

// Server runs COMPOUNDs. It implements rpc.Handler.
type Server struct {
	cfg     Config
	rows    [nfs4.OpRemoveXattr + 1]Op // by number; one without Run is not supported
	seed    maphash.Seed               // of fingerprints
	runners sync.Pool

	mu     sync.Mutex // guards cfg.Sessions, which has none of its own, and:
	conns  map[uint64]*link
	minors map[nfs4.ClientID]uint32 // of the session made last
	lapsed map[nfs4.ClientID]bool   // clients without a lease that stay
	freed  chan struct{}            // closed when a back channel slot is given back; nil: nobody waits
	scarce bool                     // what Tune said last
}

// New returns a Server of a role. The rows of session operations are added to
// those of table: they are the same for every role.
func New(cfg Config, table Table) *Server {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	s := &Server{cfg: cfg, seed: maphash.MakeSeed(), conns: map[uint64]*link{}, minors: map[nfs4.ClientID]uint32{}, lapsed: map[nfs4.ClientID]bool{}}
	for _, t := range []Table{table, s.sessionOps()} {
		for n, op := range t {
			s.rows[n] = op
		}
	}
	return s
}

// Table returns the rows that s runs, with those of session operations.
func (s *Server) Table() Table {
	t := Table{}
	for n, op := range s.rows {
		if op.Name != "" {
			t[nfs4.OpNum(n)] = op
		}
	}
	return t
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
		if s.cfg.Serving != nil && !s.cfg.Serving() {
			out.Drop()
		}
	default:
		out.Reject(rpc.Reject{Stat: rpc.ProcUnavail})
	}
}
