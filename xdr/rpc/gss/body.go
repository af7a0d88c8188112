package gss

import (
	"encoding/binary"

	"manifold/xdr"
	"manifold/xdr/rpc"
)

// maxMIC bounds MICs in a body.
const maxMIC = 512

// open checks the body of a call or reply and returns what it protects (RFC
// 2203 section 5.3.2). It aliases body or is new.
func open(ctx Context, service rpc.Service, seq uint32, body []byte) ([]byte, error) {
	d := xdr.NewDecoder(body)
	var inner []byte
	switch service {
	case rpc.ServiceIntegrity: // rpc_gss_integ_data
		inner = d.Opaque(len(body))
		mic := d.Opaque(maxMIC)
		if d.Err() != nil || d.Remaining() != 0 {
			return nil, errBody
		}
		if err := ctx.Verify(inner, mic); err != nil {
			return nil, err
		}
	case rpc.ServicePrivacy: // rpc_gss_priv_data
		token := d.Opaque(len(body))
		if d.Err() != nil || d.Remaining() != 0 {
			return nil, errBody
		}
		var err error
		if inner, err = ctx.Unwrap(token); err != nil {
			return nil, err
		}
	default:
		return body, nil
	}
	if len(inner) < 4 || binary.BigEndian.Uint32(inner) != seq {
		return nil, errBody
	}
	return inner[4:], nil
}

// bodyHead is how much goes before a protected body: its length, and the
// sequence number.
const bodyHead = 8

// seal protects what e holds from offset at on: bodyHead bytes, then the body.
func seal(ctx Context, service rpc.Service, seq uint32, e *xdr.Encoder, at int) error {
	e.SetUint32(at+4, seq)
	inner := e.Bytes()[at+4:]
	if service == rpc.ServicePrivacy {
		token, err := ctx.Wrap(inner)
		if err != nil {
			return err
		}
		e.Truncate(at)
		e.Opaque(token)
		return nil
	}
	n := len(inner)
	mic, err := ctx.MIC(inner)
	if err != nil {
		return err
	}
	e.SetUint32(at, uint32(n))
	e.Pad(n)
	e.Opaque(mic)
	return nil
}

// sealTail bounds what seal appends.
func sealTail(ctx Context, service rpc.Service) int {
	if service == rpc.ServicePrivacy {
		return ctx.WrapSize() + 3
	}
	return 4 + ctx.MICSize() + 3
}
