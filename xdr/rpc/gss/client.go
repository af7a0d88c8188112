package gss

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"manifold/xdr"
	"manifold/xdr/rpc"
)

// Initiate is the initiating side of a mechanism that needs one token from
// either side: it returns the token for the server, and a function that makes
// the context of the server's.
type Initiate func(ctx context.Context) (token []byte, finish func(reply []byte) (Context, time.Time, error), err error)

// Client is one principal towards one service, over any number of connections.
// Its context is established at the first call, and again when it is over.
type Client struct {
	initiate Initiate

	mu      sync.Mutex
	current *initiated
	busy    chan struct{} // closed when the establishing under way ends
}

// NewClient returns a Client without a context.
func NewClient(i Initiate) *Client { return &Client{initiate: i} }

// Cred is the credential of calls that are protected by service.
func (c *Client) Cred(service rpc.Service) rpc.Cred {
	return rpc.Cred{Flavor: rpc.AuthGSS, GSS: rpc.GSSCred{Service: service}, Initiator: &as{c, service}}
}

// as is a Client with a service.
type as struct {
	c       *Client
	service rpc.Service
}

// initiated is a context of ours.
type initiated struct {
	Context
	handle  []byte
	expires time.Time
	seq     atomic.Uint32
}

// usable says whether further calls may use it. A minute before its end none do.
func (i *initiated) usable() bool {
	return i != nil && i.seq.Load() < maxSeq-1<<20 && time.Until(i.expires) > time.Minute
}

// Begin implements rpc.Initiator.
func (a *as) Begin(ctx context.Context, conn *rpc.Conn, prog, vers uint32) (rpc.Securing, error) {
	i, err := a.c.ready(ctx, conn, prog, vers)
	if err != nil {
		return nil, fmt.Errorf("gss: no security context: %w", err)
	}
	return &call{c: a.c, ctx: i, service: a.service, seq: i.seq.Add(1)}, nil
}

// ready returns a context, which one caller establishes for all.
func (c *Client) ready(ctx context.Context, conn *rpc.Conn, prog, vers uint32) (*initiated, error) {
	for {
		c.mu.Lock()
		if c.current.usable() {
			defer c.mu.Unlock()
			return c.current, nil
		}
		if wait := c.busy; wait != nil {
			c.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		done := make(chan struct{})
		c.busy = done
		c.mu.Unlock()
		i, err := c.establish(ctx, conn, prog, vers)
		c.mu.Lock()
		if err == nil {
			c.current = i
		}
		c.busy = nil
		close(done)
		c.mu.Unlock()
		return i, err
	}
}

// establish makes a context by a call on conn (RFC 2203 section 5.2).
func (c *Client) establish(ctx context.Context, conn *rpc.Conn, prog, vers uint32) (*initiated, error) {
	token, finish, err := c.initiate(ctx)
	if err != nil {
		return nil, err
	}
	var res initRes
	var setup setup
	err = conn.Do(ctx, &rpc.Request{
		Prog: prog, Vers: vers, Cred: rpc.Cred{Flavor: rpc.AuthGSS, Initiator: &setup},
		Size: len(token), Args: func(e *xdr.Encoder) { e.Opaque(token) },
		Result: func(d *xdr.Decoder) error {
			own := xdr.NewDecoder(bytes.Clone(d.Rest()))
			res.decode(&own)
			return own.Err()
		},
	})
	switch {
	case err != nil:
		return nil, err
	case res.major == continuesNeeded:
		return nil, errors.New("the server wants a further token")
	case res.major != Complete:
		return nil, fmt.Errorf("the server refuses, major status %#x, minor %d", res.major, res.minor)
	}
	i := &initiated{handle: res.handle}
	if i.Context, i.expires, err = finish(res.token); err != nil {
		return nil, err
	}
	if err := i.Verify(binary.BigEndian.AppendUint32(nil, res.window), setup.verf); err != nil {
		return nil, err
	}
	return i, nil
}

// Destroy tells the server that the context is not needed any more.
func (c *Client) Destroy(ctx context.Context, conn *rpc.Conn, prog, vers uint32) error {
	c.mu.Lock()
	i := c.current
	c.current = nil
	c.mu.Unlock()
	if i == nil {
		return nil
	}
	return conn.Do(ctx, &rpc.Request{Prog: prog, Vers: vers, Cred: rpc.Cred{
		Flavor: rpc.AuthGSS, Initiator: fixed{&call{c: c, ctx: i, proc: procDestroy, service: rpc.ServiceNone, seq: i.seq.Add(1)}},
	}})
}

// fixed is an Initiator of one call.
type fixed struct{ rpc.Securing }

// Begin implements rpc.Initiator.
func (f fixed) Begin(context.Context, *rpc.Conn, uint32, uint32) (rpc.Securing, error) {
	return f.Securing, nil
}

// call is one call of ours.
type call struct {
	c       *Client
	ctx     *initiated
	proc    proc
	service rpc.Service
	seq     uint32
}

// Credential implements rpc.Securing.
func (k *call) Credential(e *xdr.Encoder) {
	(&credential{proc: k.proc, seq: k.seq, service: k.service, handle: k.ctx.handle}).encode(e)
}

// Verifier implements rpc.Securing.
func (k *call) Verifier(header []byte) (uint32, []byte, error) {
	mic, err := k.ctx.MIC(header)
	return rpc.AuthGSS, mic, err
}

// Args implements rpc.Securing.
func (k *call) Args(e *xdr.Encoder, args func(*xdr.Encoder)) error {
	at := e.Len()
	if k.service != rpc.ServiceNone {
		clear(e.Reserve(bodyHead))
	}
	if args != nil {
		args(e)
	}
	if k.service == rpc.ServiceNone {
		return nil
	}
	return seal(k.ctx, k.service, k.seq, e, at)
}

// Reply implements rpc.Securing.
func (k *call) Reply(verf []byte) error {
	return k.ctx.Verify(binary.BigEndian.AppendUint32(nil, k.seq), verf)
}

// Result implements rpc.Securing.
func (k *call) Result(d *xdr.Decoder) (xdr.Decoder, error) {
	if k.proc == procDestroy {
		return *d, nil
	}
	body, err := open(k.ctx, k.service, k.seq, d.Rest())
	return xdr.NewDecoder(body), err
}

// Discard implements rpc.Securing.
func (k *call) Discard() {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	if k.c.current == k.ctx {
		k.c.current = nil
	}
}

// setup is the call that establishes a context.
type setup struct{ verf []byte }

// Begin implements rpc.Initiator.
func (s *setup) Begin(context.Context, *rpc.Conn, uint32, uint32) (rpc.Securing, error) {
	return s, nil
}

// Credential implements rpc.Securing.
func (s *setup) Credential(e *xdr.Encoder) {
	(&credential{proc: procInit, service: rpc.ServiceNone}).encode(e)
}

// Verifier implements rpc.Securing.
func (s *setup) Verifier([]byte) (uint32, []byte, error) { return rpc.AuthNone, nil, nil }

// Args implements rpc.Securing.
func (s *setup) Args(e *xdr.Encoder, args func(*xdr.Encoder)) error {
	args(e)
	return nil
}

// Reply implements rpc.Securing.
func (s *setup) Reply(verf []byte) error {
	s.verf = bytes.Clone(verf)
	return nil
}

// Result implements rpc.Securing.
func (s *setup) Result(d *xdr.Decoder) (xdr.Decoder, error) { return *d, nil }

// Discard implements rpc.Securing.
func (s *setup) Discard() {}
