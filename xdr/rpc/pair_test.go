package rpc

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"manifold/xdr"
)

// Procedures of the test program 100, version 1.
const (
	procNull  = iota
	procEcho  // returns its arguments
	procWait  // blocks until the context ends or release closes, then like echo
	procBack  // calls procEcho of the caller, returns what came
	procDrop  // closes the connection
	procBig   // returns as many bytes as the argument says
	procBlock // like echo, after Block
)

type program struct {
	release chan struct{}
	running atomic.Int64
	ended   atomic.Int64
}

func (p *program) ServeRPC(ctx context.Context, conn *Conn, call *Call, out *Reply) {
	defer p.ended.Add(1)
	p.running.Add(1)
	defer p.running.Add(-1)
	switch {
	case call.Prog != 100:
		out.Reject(Reject{Stat: ProgUnavail})
		return
	case call.Vers != 1:
		out.Reject(Reject{Stat: ProgMismatch, Low: 1, High: 1})
		return
	}
	switch call.Proc {
	case procNull:
	case procEcho:
		out.Enc.Raw(call.Body.Rest())
	case procWait:
		out.Block()
		select {
		case <-ctx.Done():
		case <-p.release:
		}
		out.Enc.Raw(call.Body.Rest())
	case procBack:
		out.Block()
		b, err := conn.Call(ctx, 100, 1, procEcho, call.Cred, func(e *xdr.Encoder) { e.Raw(call.Body.Rest()) })
		if err != nil {
			out.Reject(Reject{Stat: SystemErr})
			return
		}
		out.Enc.Raw(b)
	case procDrop:
		out.Drop()
	case procBig:
		n := int(call.Body.Uint32())
		if call.Body.Err() != nil {
			out.Enc.Uint32(1) // must not be seen
			out.Reject(Reject{Stat: GarbageArgs})
			return
		}
		out.Enc.Uint32(uint32(n))
		out.Grow(n)
		fill(out.Enc.Reserve(n), byte(n))
		out.Enc.Pad(n)
	case procBlock:
		out.Block()
		out.Block()
		out.Enc.Raw(call.Body.Rest())
	default:
		out.Reject(Reject{Stat: ProcUnavail})
	}
}

func fill(p []byte, b byte) {
	for i := range p {
		p[i] = b
	}
}

// pair is two served connections with each other.
type pair struct {
	a, b       *Conn
	pa, pb     *program
	errA, errB chan error
	log        *observer.ObservedLogs
	obs        *counts
}

type counts struct {
	silent
	opened, closed, orphans, rejected atomic.Int64
}

func (c *counts) ConnOpened(*Conn)        { c.opened.Add(1) }
func (c *counts) ConnClosed(*Conn, error) { c.closed.Add(1) }
func (c *counts) Orphan()                 { c.orphans.Add(1) }
func (c *counts) Rejected(Reject)         { c.rejected.Add(1) }

// newPair serves both ends; only b is inline if cfg says so.
func newPair(na, nb net.Conn, cfg limits) *pair {
	cfgB := cfg.config()
	cfg.Inline = false
	cfgA := cfg.config()
	core, logs := observer.New(zapcore.InfoLevel)
	p := &pair{
		pa: &program{release: make(chan struct{})}, pb: &program{release: make(chan struct{})},
		errA: make(chan error, 1), errB: make(chan error, 1), log: logs, obs: &counts{},
	}
	for _, cfg := range []*Config{cfgA, cfgB} {
		cfg.Log, cfg.Observer = zap.New(core), p.obs
	}
	p.a, p.b = NewConn(context.Background(), na, p.pa, cfgA), NewConn(context.Background(), nb, p.pb, cfgB)
	go func() { p.errA <- p.a.Serve() }()
	go func() { p.errB <- p.b.Serve() }()
	return p
}

func (p *pair) close(t testing.TB) {
	p.a.Close()
	if err := <-p.errA; err != ErrClosed {
		t.Errorf("our end closed with %v", err)
	}
	<-p.errB
	if o, c := p.obs.opened.Load(), p.obs.closed.Load(); o != c {
		t.Errorf("%d opened, %d closed", o, c)
	}
}

// loopback is two ends of a real TCP connection.
func loopback(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// each runs fn over a pipe in a bubble, where a goroutine left over fails the
// test, and over TCP; with handlers on their own goroutines, and inline.
func each(t *testing.T, cfg limits, fn func(t *testing.T, p *pair)) {
	for _, inline := range []bool{false, true} {
		cfg := cfg
		cfg.Inline = inline
		t.Run(fmt.Sprintf("pipe inline=%v", inline), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := net.Pipe()
				fn(t, newPair(a, b, cfg))
			})
		})
		t.Run(fmt.Sprintf("tcp inline=%v", inline), func(t *testing.T) {
			a, b := loopback(t)
			fn(t, newPair(a, b, cfg))
		})
	}
}

// limits is what a test sets of a Config, which must not be copied.
type limits struct {
	MaxRecord, MaxInFlight, MaxBytes int
	Inline                           bool
}

func (c limits) config() *Config {
	return &Config{MaxRecord: c.MaxRecord, MaxInFlight: c.MaxInFlight, MaxBytes: c.MaxBytes, Inline: c.Inline}
}

func raw(b []byte) func(*xdr.Encoder) { return func(e *xdr.Encoder) { e.Raw(b) } }
