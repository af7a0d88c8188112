package compound

import (
	"context"
	"errors"
	"sync"

	"manifold/xdr"
	"manifold/xdr/nfs4"
)

// Flag is what the engine must know of an operation to run it.
type Flag uint16

// The flags of an Op.
const (
	// NeedsFH: NFS4ERR_NOFILEHANDLE without a current filehandle.
	NeedsFH Flag = 1 << iota
	// NeedsSavedFH: NFS4ERR_NOFILEHANDLE without a saved filehandle.
	NeedsSavedFH
	// Modifies: refused before it runs if ReplyMax would not fit the reply
	// (RFC 8881 section 2.10.6.4), since it could not be taken back.
	Modifies
	// AllowedFirst: may stand in a COMPOUND without SEQUENCE, alone in it.
	AllowedFirst
	// Alone: may not share a COMPOUND with other operations even after
	// SEQUENCE (BIND_CONN_TO_SESSION).
	Alone
	// ClearsStateid: sets a current filehandle, and so forgets the current
	// stateid, unless the operation sets a new one (RFC 8881 section 16.2.3.1.2).
	ClearsStateid
)

// Run decodes the arguments of one operation from d, does it, and appends the
// body of its result (what follows the status) to e. A body appended with a
// bad status is kept, as it is the result's failure arm.
type Run func(ctx context.Context, c *Call, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status

// Op is one row of a role's table.
type Op struct {
	Name  string
	Flags Flag
	// Minors is a bit a minor version: 1<<1 for 4.1, 1<<2 for 4.2.
	Minors uint8
	// ReplyMax bounds the bytes of the result's body. It matters for
	// operations that modify; others are checked after the fact.
	ReplyMax int
	Run      Run
}

// Minor versions of an Op.
const (
	V41Up uint8 = 1<<1 | 1<<2
	V42   uint8 = 1 << 2
)

// Table holds a role's operations by number. A missing row is an operation
// that the role does not support.
type Table map[nfs4.OpNum]Op

// decoder and encoder are what the types of nfs4 offer.
type decoder[T any] interface {
	*T
	DecodeXDR(*xdr.Decoder)
}

type encoder[T any] interface {
	*T
	EncodeXDR(*xdr.Encoder)
}

// errEncoder is a result whose failure arm carries data.
type errEncoder interface {
	EncodeErr(*xdr.Encoder, nfs4.Status)
}

// Handle makes a Run of a function over decoded arguments and results, which
// are the function's only until it returns: they are reused.
func Handle[A, R any, PA decoder[A], PR encoder[R]](fn func(context.Context, *Call, *A, *R) nfs4.Status) Run {
	type pair struct {
		a A
		r R
	}
	var pool sync.Pool
	return func(ctx context.Context, c *Call, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
		p, _ := pool.Get().(*pair)
		if p == nil {
			p = &pair{}
		}
		var s nfs4.Status
		if PA(&p.a).DecodeXDR(d); d.Err() != nil {
			s = BadXDR(d.Err())
		} else if s = fn(ctx, c, &p.a, &p.r); s == nfs4.OK {
			PR(&p.r).EncodeXDR(e)
		} else if f, ok := any(&p.r).(errEncoder); ok {
			f.EncodeErr(e, s)
		}
		*p = pair{} // what a panic leaves behind is not reused
		pool.Put(p)
		return s
	}
}

// Void makes a Run of a function without arguments or results.
func Void(fn func(context.Context, *Call) nfs4.Status) Run {
	return func(ctx context.Context, c *Call, _ *xdr.Decoder, _ *xdr.Encoder) nfs4.Status {
		return fn(ctx, c)
	}
}

// Args makes a Run of a function with arguments and no result beyond its
// status. The arguments are the function's only until it returns.
func Args[A any, PA decoder[A]](fn func(context.Context, *Call, *A) nfs4.Status) Run {
	return Handle[A, nothing, PA](func(ctx context.Context, c *Call, a *A, _ *nothing) nfs4.Status {
		return fn(ctx, c, a)
	})
}

// nothing is the result of an operation that has none.
type nothing struct{}

// EncodeXDR appends nothing.
func (*nothing) EncodeXDR(*xdr.Encoder) {}

// BadXDR is the status of arguments that do not decode: a value that no type
// allows or a length over its bound is NFS4ERR_BADXDR like a short record,
// unless the decoder named the status itself (NFS4ERR_NAMETOOLONG, say).
func BadXDR(err error) nfs4.Status {
	var s nfs4.Status
	if errors.As(err, &s) && s != nfs4.OK {
		return s
	}
	return nfs4.ErrBadXDR
}
