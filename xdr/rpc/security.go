package rpc

import (
	"context"
	"errors"

	"manifold/xdr"
)

// Service is how an RPCSEC_GSS call is protected (RFC 2203 section 5.3.1).
type Service uint32

// Values of Service.
const (
	ServiceNone      Service = 1 // the header is authentic
	ServiceIntegrity Service = 2 // header and body are
	ServicePrivacy   Service = 3 // and the body is encrypted
)

// GSSCred is the caller of an RPCSEC_GSS call: Principal as the mechanism
// writes it (USER@REALM or SERVICE/HOST@REALM for Kerberos), and how the call
// was protected.
type GSSCred struct {
	Principal string
	Service   Service
}

// Acceptor authenticates the RPCSEC_GSS calls that come in; package gss has
// one. It is called by many goroutines at once.
type Acceptor interface {
	Accept(m *Secured) Admission
}

// Secured is an RPCSEC_GSS call as it came in. All of it aliases the record.
type Secured struct {
	Cred       []byte // the credential's body
	Header     []byte // what the verifier is over: from the xid to the credential's end
	VerfFlavor uint32
	Verf       []byte // the verifier's body
	Proc       uint32
	Body       []byte // the arguments, protected
}

// Admission is what an Acceptor says of a call.
type Admission struct {
	// Drop: no answer. The connection closes, see Reply.Drop.
	Drop bool
	// Refused, if it is not 0, is the answer, with the verifier if it is an
	// accepted reply.
	Refused Stat
	// Done: the call was the Acceptor's own, and Result is the result.
	Done   bool
	Result []byte
	// VerfFlavor and Verf are the verifier of the reply, at most 400 bytes.
	VerfFlavor uint32
	Verf       []byte
	// Cred is the caller, Body the arguments in clear.
	Cred GSSCred
	Body []byte
	// Seal protects the result; nil: it goes in clear.
	Seal Sealer
}

// Sealer protects the result of one call.
type Sealer interface {
	// Head is how many bytes to leave free before the result; Tail bounds what
	// Seal appends.
	Head() int
	Tail() int
	// Seal protects what e holds from offset at on: Head bytes, then the result.
	Seal(e *xdr.Encoder, at int) error
}

// Initiator secures the calls that we make; package gss has one. Each call is
// told to it before it is sent, so that a context can be established first, by
// calls on c.
type Initiator interface {
	Begin(ctx context.Context, c *Conn, prog, vers uint32) (Securing, error)
}

// Securing secures one call.
type Securing interface {
	// Credential appends the credential's body.
	Credential(e *xdr.Encoder)
	// Verifier is the verifier over header, which is what Secured.Header is.
	Verifier(header []byte) (flavor uint32, body []byte, err error)
	// Args appends the arguments, protected; args may be nil.
	Args(e *xdr.Encoder, args func(*xdr.Encoder)) error
	// Reply checks the verifier of an accepted reply.
	Reply(verf []byte) error
	// Result returns the result, which is what is left of d, in clear.
	Result(d *xdr.Decoder) (xdr.Decoder, error)
	// Discard says that the server does not know the context, or not any more.
	Discard()
}

// serveSecured serves an RPCSEC_GSS call.
func (w *work) serveSecured() {
	c := w.c
	a := c.cfg.Acceptor.Accept(&w.secured)
	switch {
	case a.Drop:
		w.out.Drop()
		return
	case a.Refused != 0:
		w.out.verfFlavor, w.out.verf = a.VerfFlavor, a.Verf
		w.out.Reject(Reject{Stat: a.Refused})
		return
	}
	w.out.secure(&a)
	if a.Done {
		w.out.Enc.Raw(a.Result)
		return
	}
	w.call.Cred.GSS = a.Cred
	w.call.Body = xdr.NewDecoder(a.Body)
	c.h.ServeRPC(c.ctx, c, &w.call, &w.out)
}

// secure begins the reply anew, with a verifier and room for the Sealer.
func (r *Reply) secure(a *Admission) {
	r.verfFlavor, r.verf, r.seal = a.VerfFlavor, a.Verf, a.Seal
	e := &r.Enc
	e.Truncate(4 + 12) // mark; xid, type, accepted
	e.Uint32(a.VerfFlavor)
	e.Opaque(a.Verf)
	e.Uint32(acceptSuccess)
	r.result = e.Len()
	if r.seal != nil {
		clear(e.Reserve(r.seal.Head()))
	}
	r.head = e.Len()
}

// doSecured is Do under RPCSEC_GSS. A context that the server does not know any
// more is made anew, once.
func (c *Conn) doSecured(ctx context.Context, r *Request) error {
	for again := true; ; again = false {
		s, err := r.Cred.Initiator.Begin(ctx, c, r.Prog, r.Vers)
		if err != nil {
			return err
		}
		err = c.roundTrip(ctx, r, s)
		var rej Reject
		if !errors.As(err, &rej) || rej.Stat != AuthGSSCredProblem && rej.Stat != AuthGSSCtxProblem {
			return err
		}
		if s.Discard(); !again {
			return err
		}
	}
}

// encodeSecured appends what encodeCall does, and the arguments.
func encodeSecured(e *xdr.Encoder, xid uint32, r *Request, s Securing) error {
	for _, n := range []uint32{0, xid, msgCall, rpcVersion, r.Prog, r.Vers, r.Proc, AuthGSS} {
		e.Uint32(n)
	}
	at := e.Len()
	e.Uint32(0)
	s.Credential(e)
	n := e.Len() - at - 4
	e.Pad(n)
	e.SetUint32(at, uint32(n))
	flavor, verf, err := s.Verifier(e.Bytes()[4:])
	if err != nil {
		return err
	}
	e.Uint32(flavor)
	e.Opaque(verf)
	return s.Args(e, r.Args)
}
