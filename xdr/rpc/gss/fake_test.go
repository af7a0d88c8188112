package gss

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"testing"
	"time"

	"manifold/xdr"
	"manifold/xdr/rpc"
)

// toy is a mechanism whose tokens are the client's name, and whose contexts sign
// by a hash over a key that everybody knows.
type toy struct{ expires time.Time }

func (m toy) Accept(_ time.Time, token []byte) (Accepted, error) {
	if len(token) == 0 {
		return Accepted{}, &Error{Major: DefectiveToken, Err: errors.New("nobody")}
	}
	return Accepted{Context: toyContext{"server", "client"}, Token: []byte("hello " + string(token)), Principal: string(token), Expires: m.expires}, nil
}

// toyContext is one end: who signs here, and who signs there.
type toyContext struct{ us, them string }

func sign(who string, msg []byte) []byte {
	sum := sha256.Sum256(append([]byte(who), msg...))
	return sum[:13] // no multiple of 4
}

func (c toyContext) MIC(msg []byte) ([]byte, error) { return sign(c.us, msg), nil }

func (c toyContext) Verify(msg, mic []byte) error {
	if !bytes.Equal(mic, sign(c.them, msg)) {
		return errBody
	}
	return nil
}

func (c toyContext) Wrap(msg []byte) ([]byte, error) {
	return append(sign(c.us, msg), flip(msg)...), nil
}

func (c toyContext) Unwrap(token []byte) ([]byte, error) {
	if len(token) < 13 {
		return nil, errBody
	}
	msg := flip(token[13:])
	return msg, c.Verify(msg, token[:13])
}

func flip(b []byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[i] = ^b[i]
	}
	return out
}

func (toyContext) MICSize() int  { return 13 }
func (toyContext) WrapSize() int { return 13 }

// initiate is the toy's client side.
func initiate(name string, expires time.Time) Initiate {
	return func(context.Context) ([]byte, func([]byte) (Context, time.Time, error), error) {
		return []byte(name), func(reply []byte) (Context, time.Time, error) {
			if string(reply) != "hello "+name {
				return nil, time.Time{}, errors.New("somebody else's reply")
			}
			return toyContext{"client", "server"}, expires, nil
		}, nil
	}
}

// echo answers procedure 1 with its arguments and who called; it refuses 2.
type echo struct{}

func (echo) ServeRPC(_ context.Context, _ *rpc.Conn, call *rpc.Call, out *rpc.Reply) {
	before := out.Frame()
	switch call.Proc {
	case 0:
	case 1:
		out.Enc.Opaque(call.Body.Rest())
		out.Enc.String(call.Cred.GSS.Principal)
		out.Enc.Uint32(uint32(call.Cred.GSS.Service))
		if n := 4 + (len(call.Body.Rest())+3)&^3; len(out.Body()) < n || out.Frame() != before {
			panic("body")
		}
	default:
		out.Reject(rpc.Reject{Stat: rpc.ProcUnavail})
	}
}

// pair is a server and a connection to it.
func pair(t testing.TB, a *Acceptor) *rpc.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	server := rpc.NewConn(context.Background(), theirs, echo{}, &rpc.Config{Acceptor: a})
	conn := rpc.NewConn(context.Background(), ours, nil, &rpc.Config{})
	done := make(chan struct{}, 2)
	for _, c := range []*rpc.Conn{server, conn} {
		go func() {
			_ = c.Serve() // the test tells why it ended
			done <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		conn.Close()
		<-done
		<-done
	})
	return conn
}

// call makes a call of procedure 1 and returns what the server saw.
func echoCall(ctx context.Context, conn *rpc.Conn, cred rpc.Cred, args []byte) (back []byte, who string, service rpc.Service, err error) {
	body, err := conn.Call(ctx, 100, 1, 1, cred, func(e *xdr.Encoder) { e.Raw(args) })
	d := xdr.NewDecoder(body)
	back, who, service = d.Opaque(len(body)), d.String(100), rpc.Service(d.Uint32())
	if err == nil && (d.Err() != nil || d.Remaining() != 0) {
		err = errBody
	}
	return back, who, service, err
}
