package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/tcp"
)

// Config says who a Client is and what it asks for. Only Owner must be set.
type Config struct {
	// Minor is the minor version, 1 or 2. Default: 1.
	Minor uint32
	// Owner is the co_ownerid: one for each Client at one server.
	Owner []byte
	// Verifier tells this incarnation of the owner from earlier ones. Default: random.
	Verifier nfs4.Verifier
	// Cred is the principal of the session operations and of renewals. Its
	// Initiator, if it is of RPCSEC_GSS, establishes security contexts.
	Cred rpc.Cred
	// Protect asks the server to protect the client id by Cred (SP4_MACH_CRED),
	// with these operations allowed to Cred for others. Nil: SP4_NONE.
	Protect *nfs4.Bitmap
	// Role holds the ExchgidFlagUse... bits of EXCHANGE_ID.
	Role uint32
	// Slots is how many requests may be under way: 64. The server may grant fewer.
	Slots int
	// MaxIO is the most bytes asked for one READ or WRITE: 1 MiB. The server
	// may grant less.
	MaxIO int
	// Renew is after how long without a request the lease is renewed: 20 s.
	Renew time.Duration
	// Callback answers the server's callbacks, but CB_RECALL_SLOT; with nil none are
	// asked for.
	Callback CallbackFunc
	// Reclaim runs each time the server gave a new client id, before it is told
	// that nothing is to be reclaimed any more (RFC 8881 section 18.51): the place
	// for OPEN with CLAIM_PREVIOUS and LOCK with reclaim. send is Compound, on
	// the new session. An error, which may be ctx's, has the recovery tried anew.
	// Default: nothing is reclaimed.
	Reclaim func(ctx context.Context, send func(ops ...Op) error) error
	// RPC is the configuration of connections. Default: rpc's.
	RPC *rpc.Config
	// Dialer connects. Default: tcp.Dial.
	Dialer func(ctx context.Context, addr string, h rpc.Handler, cfg *rpc.Config) (*rpc.Conn, error)
	// Log takes a line for each recovery. Default: none.
	Log *zap.Logger
}

// CallbackFunc runs one operation of a CB_COMPOUND after CB_SEQUENCE. It must
// read exactly the operation's arguments from d, append the result that
// follows an OK status to e, and return soon: it holds a callback slot. d's
// content is good until it returns. An operation that it does not know it
// answers with nfs4.ErrNotSupp.
type CallbackFunc func(ctx context.Context, op nfs4.CBOpNum, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status

func (c *Config) fill() error {
	if len(c.Owner) == 0 || len(c.Owner) > nfs4.MaxOpaque {
		return fmt.Errorf("nfs: client owner of %d bytes", len(c.Owner))
	}
	if c.Minor == 0 {
		c.Minor = 1
	}
	if c.Minor > 2 {
		return fmt.Errorf("nfs: minor version %d", c.Minor)
	}
	if c.Verifier == (nfs4.Verifier{}) {
		e := xdr.NewEncoder(c.Verifier[:0])
		e.Uint64(rand.Uint64())
	}
	if c.Slots <= 0 {
		c.Slots = 64
	}
	if c.MaxIO <= 0 {
		c.MaxIO = 1 << 20
	}
	if c.Renew <= 0 {
		c.Renew = 20 * time.Second
	}
	if c.RPC == nil {
		c.RPC = &rpc.Config{}
	}
	if c.Dialer == nil {
		c.Dialer = tcp.Dial
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return nil
}

// Errors of a Client. Compare with errors.Is.
var (
	// ErrClosed is what a closed Client answers.
	ErrClosed = errors.New("nfs: client closed")
	// ErrUnknownOutcome means that the session was lost while a compound that
	// must not run twice was under way: it may have run or not.
	ErrUnknownOutcome = errors.New("nfs: session lost, the operation may have run")
)
