package rpc

import (
	"errors"
	"fmt"
	"slices"

	"manifold/xdr"
)

// Numbers of RFC 5531 section 9.
const (
	rpcVersion = 2

	msgCall  = 0
	msgReply = 1

	msgAccepted = 0
	msgDenied   = 1

	acceptSuccess = 0

	denyMismatch = 0
	denyAuth     = 1
)

// lastFragment is the mark bit of a record's last fragment (RFC 5531 section 11).
const lastFragment = 1 << 31

// errMessage means that a record is no RPC message: too short, or neither call
// nor reply. It costs the peer its connection.
var errMessage = errors.New("rpc: record is not an RPC message")

// Call is a call that came in. Body is at the arguments. Body and what is
// decoded from it alias the record's buffer, which is reused when the reply
// has been written.
type Call struct {
	XID, Prog, Vers, Proc uint32
	Cred                  Cred
	Body                  xdr.Decoder
	// Size is the whole record's length in bytes, as ca_maxrequestsize counts it.
	Size int
}

// decodeCall reads a call message whose xid and type are read already. A
// refusal that the header itself earns is rej, with reject true; err means
// that the header is cut short.
// With secured, an RPCSEC_GSS call is not judged but laid out there.
func (c *Call) decodeCall(d *xdr.Decoder, creds *credCache, flavors []uint32, secured *Secured) (rej Reject, reject bool, err error) {
	version := d.Uint32()
	if d.Err() != nil {
		return rej, false, fmt.Errorf("%w: %w", errMessage, d.Err())
	}
	if version != rpcVersion {
		return Reject{Stat: RPCMismatch, Low: rpcVersion, High: rpcVersion}, true, nil
	}
	c.Prog, c.Vers, c.Proc = d.Uint32(), d.Uint32(), d.Uint32()
	flavor, n := d.Uint32(), d.Uint32()
	if d.Err() != nil {
		return rej, false, fmt.Errorf("%w: %w", errMessage, d.Err())
	}
	if n > maxAuth {
		return Reject{Stat: AuthBadCred}, true, nil
	}
	body := d.Fixed(int(n))
	header := d.Offset()
	verfFlavor, n := d.Uint32(), d.Uint32()
	if d.Err() != nil {
		return rej, false, fmt.Errorf("%w: %w", errMessage, d.Err())
	}
	if n > maxAuth {
		return Reject{Stat: AuthBadVerf}, true, nil
	}
	verf := d.Fixed(int(n))
	if d.Err() != nil {
		return rej, false, fmt.Errorf("%w: %w", errMessage, d.Err())
	}
	if flavor == AuthGSS && secured != nil {
		c.Cred = Cred{Flavor: AuthGSS}
		*secured = Secured{Cred: body, Header: d.Before(header), VerfFlavor: verfFlavor, Verf: verf, Proc: c.Proc, Body: d.Rest()}
		return rej, false, nil
	}
	// AUTH_NONE and AUTH_SYS prove nothing by their verifiers.
	if stat := c.authenticate(flavor, body, creds, flavors); stat != 0 {
		return Reject{Stat: stat}, true, nil
	}
	c.Body = *d
	return rej, false, nil
}

// authenticate sets the credential, or says why it is refused.
func (c *Call) authenticate(flavor uint32, body []byte, creds *credCache, flavors []uint32) Stat {
	c.Cred = Cred{Flavor: flavor}
	switch flavor {
	case AuthNone:
		if len(body) != 0 {
			return AuthBadCred
		}
	case AuthSys:
		var ok bool
		if c.Cred.Sys, ok = creds.sys(body); !ok {
			return AuthBadCred
		}
	default:
		return AuthRejectedCred
	}
	if !slices.Contains(flavors, flavor) {
		return AuthTooWeak
	}
	return 0
}

// encodeCall appends a record mark's place and a call's header.
func encodeCall(e *xdr.Encoder, xid, prog, vers, proc uint32, cred *Cred) {
	e.Uint32(0)
	e.Uint32(xid)
	e.Uint32(msgCall)
	e.Uint32(rpcVersion)
	e.Uint32(prog)
	e.Uint32(vers)
	e.Uint32(proc)
	cred.encode(e)
	e.Uint32(AuthNone) // verifier
	e.Uint32(0)
}

// encodeReject appends a reply that refuses the call xid; flavor and verf are
// the verifier of one that is accepted.
func encodeReject(e *xdr.Encoder, xid uint32, rej Reject, flavor uint32, verf []byte) {
	e.Uint32(xid)
	e.Uint32(msgReply)
	switch {
	case rej.Stat == RPCMismatch:
		e.Uint32(msgDenied)
		e.Uint32(denyMismatch)
		e.Uint32(rej.Low)
		e.Uint32(rej.High)
	case rej.Stat >= authStat:
		e.Uint32(msgDenied)
		e.Uint32(denyAuth)
		e.Uint32(uint32(rej.Stat - authStat))
	default:
		e.Uint32(msgAccepted)
		e.Uint32(flavor)
		e.Opaque(verf)
		e.Uint32(uint32(rej.Stat))
		if rej.Stat == ProgMismatch {
			e.Uint32(rej.Low)
			e.Uint32(rej.High)
		}
	}
}

// decodeReply reads a reply message whose xid and type are read already, and
// leaves d at the result. verify looks at an accepted reply's verifier, if it is
// not nil. The error is a Reject, verify's, or says that the header is bad.
func decodeReply(d *xdr.Decoder, verify func(verf []byte) error) error {
	switch d.Uint32() {
	case msgAccepted:
		d.Uint32()
		verf := d.Opaque(maxAuth)
		if verify != nil && d.Err() == nil {
			if err := verify(verf); err != nil {
				return err
			}
		}
		stat := Stat(d.Uint32())
		rej := Reject{Stat: stat}
		if stat == ProgMismatch {
			rej.Low, rej.High = d.Uint32(), d.Uint32()
		}
		if d.Err() != nil {
			break
		}
		if stat > SystemErr {
			return fmt.Errorf("%w: accept_stat %d", errMessage, stat)
		}
		if stat != acceptSuccess {
			return rej
		}
		return nil
	case msgDenied:
		rej, why := Reject{Stat: RPCMismatch}, d.Uint32()
		switch why {
		case denyMismatch:
			rej.Low, rej.High = d.Uint32(), d.Uint32()
		case denyAuth:
			n := d.Uint32()
			if n >= 1<<16 {
				d.Fail(xdr.ErrValue)
			}
			rej.Stat = authStat + Stat(n)
		default:
			d.Fail(xdr.ErrValue)
		}
		if d.Err() != nil {
			break
		}
		return rej
	default:
		d.Fail(xdr.ErrValue)
	}
	return fmt.Errorf("%w: %w", errMessage, d.Err())
}

// setMark fills in the record mark at the start of e: one fragment, the last.
func setMark(e *xdr.Encoder) { e.SetUint32(0, lastFragment|uint32(e.Len()-4)) }
