package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"manifold/xdr"
	"manifold/xdr/rpc"
)

var bg = context.Background()

// echo answers procedure 0 at once, and procedure 1 when let go.
type echo struct {
	running atomic.Int64
	hold    chan struct{}
	ended   chan error // of contexts that ended while a handler waited
}

func (h *echo) ServeRPC(ctx context.Context, _ *rpc.Conn, call *rpc.Call, out *rpc.Reply) {
	if call.Proc == 1 {
		h.running.Add(1)
		select {
		case <-h.hold:
		case <-ctx.Done():
			h.ended <- ctx.Err()
		}
	}
	out.Enc.Raw(call.Body.Rest())
}

// counts is an Observer of connections.
type counts struct{ opened, closed, refused atomic.Int64 }

func (c *counts) ConnOpened(*rpc.Conn)        { c.opened.Add(1) }
func (c *counts) ConnClosed(*rpc.Conn, error) { c.closed.Add(1) }
func (c *counts) ConnRefused()                { c.refused.Add(1) }
func (c *counts) Received(int)                {}
func (c *counts) Sent(int)                    {}
func (c *counts) Rejected(rpc.Reject)         {}
func (c *counts) Orphan()                     {}

type server struct {
	*Server
	h     *echo
	obs   *counts
	addr  string
	ended chan error
}

func start(t *testing.T, maxConns int) *server {
	t.Helper()
	ln, err := Listen(bg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{h: &echo{hold: make(chan struct{}), ended: make(chan error, 10)}, obs: &counts{}, addr: ln.Addr().String(), ended: make(chan error, 1)}
	s.Server = NewServer(s.h, Config{RPC: &rpc.Config{Observer: s.obs}, MaxConns: maxConns})
	go func() { s.ended <- s.Serve(ln) }()
	return s
}

func dial(t *testing.T, s *server) *rpc.Conn {
	t.Helper()
	c, err := Dial(bg, s.addr, nil, &rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func call(c *rpc.Conn, proc uint32, arg uint32) (uint32, error) {
	b, err := c.Call(bg, 1, 1, proc, rpc.Cred{}, func(e *xdr.Encoder) { e.Uint32(arg) })
	d := xdr.NewDecoder(b)
	return d.Uint32(), err
}

func TestServe(t *testing.T) {
	s := start(t, 0)
	var wg sync.WaitGroup
	for i := range uint32(20) {
		wg.Go(func() {
			c := dial(t, s)
			if got, err := call(c, 0, i); err != nil || got != i {
				t.Errorf("%d, %v", got, err)
			}
		})
	}
	wg.Wait()
	if n := s.Conns(); n != 20 {
		t.Errorf("%d connections", n)
	}
	if err := s.Shutdown(bg); err != nil {
		t.Error(err)
	}
	if err := <-s.ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if o, c := s.obs.opened.Load(), s.obs.closed.Load(); o != 20 || c != 20 || s.Conns() != 0 {
		t.Errorf("%d opened, %d closed, %d left", o, c, s.Conns())
	}
}

// TestShutdown: calls in work are answered, new connections are not taken.
func TestShutdown(t *testing.T) {
	s := start(t, 0)
	got := make(chan error, 10)
	for i := range uint32(10) {
		c := dial(t, s)
		go func() {
			b, err := call(c, 1, i)
			if err == nil && b != i {
				err = errors.New("wrong reply")
			}
			got <- err
		}()
	}
	for s.h.running.Load() < 10 {
		time.Sleep(time.Millisecond)
	}
	stopped := make(chan error)
	go func() { stopped <- s.Shutdown(bg) }()
	if err := <-s.ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := net.Dial("tcp", s.addr); err == nil {
		t.Error("a connection was taken after Shutdown")
	}
	select {
	case err := <-stopped:
		t.Fatalf("Shutdown did not wait: %v", err)
	default:
	}
	close(s.h.hold)
	for range 10 {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	ln, err := Listen(bg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(ln); err != nil {
		t.Errorf("Serve after Shutdown: %v", err)
	}
}

func TestShutdownTimeout(t *testing.T) {
	s := start(t, 0)
	c := dial(t, s)
	got := make(chan error)
	go func() {
		_, err := call(c, 1, 0)
		got <- err
	}()
	for s.h.running.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(bg, 10*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); err != context.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
	if err := <-s.h.ended; err != context.Canceled {
		t.Errorf("the handler's context: %v", err)
	}
	if err := <-got; !errors.Is(err, rpc.ErrClosed) {
		t.Errorf("the call: %v", err)
	}
}

// TestMaxConns: over the limit connections end at once, and there is room
// again when one closes.
func TestMaxConns(t *testing.T) {
	s := start(t, 2)
	defer s.Shutdown(bg)
	a, b := dial(t, s), dial(t, s)
	for _, c := range []*rpc.Conn{a, b} {
		if _, err := call(c, 0, 1); err != nil {
			t.Fatal(err)
		}
	}
	third := dial(t, s)
	<-third.Done()
	if n := s.obs.refused.Load(); n != 1 {
		t.Errorf("%d refused", n)
	}
	a.Close()
	for s.Conns() == 2 {
		time.Sleep(time.Millisecond)
	}
	if _, err := call(dial(t, s), 0, 1); err != nil {
		t.Error(err)
	}
	if _, err := call(b, 0, 1); err != nil {
		t.Error(err)
	}
}

// TestMaxPerAddress: one address does not take the room of others, and a line in
// the log tells of who is refused, not of each.
func TestMaxPerAddress(t *testing.T) {
	ln, err := Listen(bg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.WarnLevel)
	s := NewServer(&echo{}, Config{RPC: &rpc.Config{Log: zap.New(core)}, MaxConns: 10, MaxPerAddress: 2})
	go s.Serve(ln)
	defer s.Shutdown(bg)
	from := func(ip string) *rpc.Conn {
		t.Helper()
		nc, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c := rpc.NewConn(bg, nc, nil, &rpc.Config{})
		go c.Serve()
		t.Cleanup(func() { c.Close() })
		return c
	}
	works := func(c *rpc.Conn) {
		t.Helper()
		if got, err := call(c, 0, 7); err != nil || got != 7 {
			t.Errorf("%d, %v", got, err)
		}
	}
	a, b := from("127.0.0.1"), from("127.0.0.1")
	works(a)
	works(b)
	for range 5 {
		<-from("127.0.0.1").Done()
	}
	works(from("127.0.0.2"))
	works(a)
	if logs.Len() != 1 || !strings.Contains(fmt.Sprint(logs.All()[0].ContextMap()), "127.0.0.1") {
		t.Errorf("log: %v", logs.All())
	}
	a.Close()
	for s.Conns() == 3 {
		time.Sleep(time.Millisecond)
	}
	works(from("127.0.0.1"))
}

// TestSocket looks at what the kernel has: plain TCP, keepalive, no delay.
func TestSocket(t *testing.T) {
	ln, err := Listen(bg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if mp, err := nc.(*net.TCPConn).MultipathTCP(); mp || err != nil {
		t.Errorf("MPTCP %v, %v", mp, err)
	}
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct {
		name               string
		level, opt, wanted int
	}{
		{"protocol", syscall.SOL_SOCKET, 38, syscall.IPPROTO_TCP}, // SO_PROTOCOL
		{"keepalive", syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
		{"idle", syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 30},
		{"no delay", syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1},
	} {
		raw.Control(func(fd uintptr) {
			if v, err := syscall.GetsockoptInt(int(fd), o.level, o.opt); err != nil || v != o.wanted {
				t.Errorf("%s: %d, %v", o.name, v, err)
			}
		})
	}
}

func TestDialFails(t *testing.T) {
	ln, err := Listen(bg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if _, err := Dial(bg, ln.Addr().String(), nil, &rpc.Config{}); err == nil {
		t.Error("no error")
	}
}

// TestServeFails: a listener that somebody else closes ends Serve with an error.
func TestServeFails(t *testing.T) {
	ln, err := Listen(bg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := NewServer(nil, Config{}).Serve(ln); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
