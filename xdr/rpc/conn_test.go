package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"manifold/xdr"
)

func TestCall(t *testing.T) {
	sys := Cred{Flavor: AuthSys, Sys: SysCred{Machine: "m", UID: 1, GIDs: []uint32{2}}}
	each(t, limits{}, func(t *testing.T, p *pair) {
		defer p.close(t)
		ctx := context.Background()
		for _, tc := range []struct {
			prog, vers, proc uint32
			cred             Cred
			args, want       string
			err              error
		}{
			{100, 1, procNull, Cred{}, "", "", nil},
			{100, 1, procEcho, sys, "hello", "hello", nil},
			{100, 1, procBack, sys, "there and back", "there and back", nil},
			{100, 1, procBlock, sys, "block", "block", nil},
			{101, 1, procNull, sys, "", "", Reject{Stat: ProgUnavail}},
			{100, 7, procNull, sys, "", "", Reject{Stat: ProgMismatch, Low: 1, High: 1}},
			{100, 1, 77, sys, "", "", Reject{Stat: ProcUnavail}},
			{100, 1, procBig, sys, "", "", Reject{Stat: GarbageArgs}},
			{100, 1, procNull, Cred{Flavor: 6}, "", "", Reject{Stat: AuthRejectedCred}},
		} {
			for _, c := range []*Conn{p.a, p.b} { // both directions
				got, err := c.Call(ctx, tc.prog, tc.vers, tc.proc, tc.cred, raw([]byte(tc.args)))
				if err != tc.err || string(got) != tc.want {
					t.Errorf("%d.%d.%d: %q, %v", tc.prog, tc.vers, tc.proc, got, err)
				}
			}
		}
		if n := p.obs.rejected.Load(); n != 10 {
			t.Errorf("%d rejections counted", n)
		}
	})
}

// TestPipelined has many calls under way in both directions at once, of sizes
// through all buffer classes, and checks every byte of every reply. Those of
// b, as a server's callbacks, are fewer than half of a's limit.
func TestPipelined(t *testing.T) {
	each(t, limits{MaxInFlight: 16}, func(t *testing.T, p *pair) {
		defer p.close(t)
		var wg sync.WaitGroup
		callbacks := make(chan struct{}, 7)
		for i := range 200 {
			c := []*Conn{p.a, p.b}[i%2]
			wg.Go(func() {
				if c == p.b {
					callbacks <- struct{}{}
					defer func() { <-callbacks }()
				}
				n := []int{1, 900, 5000, 70_000, 300_000}[i%5] + i
				err := c.Do(context.Background(), &Request{
					Prog: 100, Vers: 1, Proc: procBig, Args: func(e *xdr.Encoder) { e.Uint32(uint32(n)) },
					Result: func(d *xdr.Decoder) error {
						got := d.Opaque(1 << 20)
						if len(got) != n || bytes.Count(got, []byte{byte(n)}) != n {
							return fmt.Errorf("%d bytes wanted, %d came, or not the right ones", n, len(got))
						}
						return nil
					},
				})
				if err != nil {
					t.Error(err)
				}
				want := pattern(n)
				if got, err := c.Call(context.Background(), 100, 1, procEcho, Cred{}, raw(want)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("echo of %d: %v", n, err)
				}
			})
		}
		wg.Wait()
	})
}

// TestClose closes with calls waiting on both sides.
func TestClose(t *testing.T) {
	each(t, limits{}, func(t *testing.T, p *pair) {
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := p.a.Call(context.Background(), 100, 1, procWait, Cred{}, nil); !errors.Is(err, ErrClosed) {
					t.Errorf("caller on the side that closes: %v", err)
				}
			})
			wg.Go(func() {
				if _, err := p.b.Call(context.Background(), 100, 1, procWait, Cred{}, nil); !errors.Is(err, ErrClosed) {
					t.Errorf("caller on the other side: %v", err)
				}
			})
		}
		for p.pa.running.Load() < 20 || p.pb.running.Load() < 20 {
			time.Sleep(time.Millisecond)
		}
		p.close(t)
		wg.Wait()
		if p.pa.running.Load()+p.pb.running.Load() != 0 {
			t.Error("Serve returned before its handlers")
		}
		if _, err := p.a.Call(context.Background(), 100, 1, procNull, Cred{}, nil); err != ErrClosed {
			t.Errorf("call after Close: %v", err)
		}
		<-p.a.Done()
	})
}

func TestContext(t *testing.T) {
	each(t, limits{}, func(t *testing.T, p *pair) {
		defer p.close(t)
		ctx, cancel := context.WithCancel(context.Background())
		got := make(chan error)
		go func() {
			_, err := p.a.Call(ctx, 100, 1, procWait, Cred{}, nil)
			got <- err
		}()
		for p.pb.running.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		if err := <-got; err != context.Canceled {
			t.Errorf("cancelled call: %v", err)
		}
		if _, err := p.a.Call(ctx, 100, 1, procNull, Cred{}, nil); err != context.Canceled {
			t.Errorf("call with an ended context: %v", err)
		}
		close(p.pb.release) // its late reply is an orphan
		for p.obs.orphans.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		if _, err := p.a.Call(context.Background(), 100, 1, procNull, Cred{}, nil); err != nil {
			t.Errorf("the connection did not live on: %v", err)
		}
	})
}

func TestDrop(t *testing.T) {
	each(t, limits{}, func(t *testing.T, p *pair) {
		if _, err := p.a.Call(context.Background(), 100, 1, procDrop, Cred{}, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("dropped call: %v", err)
		}
		<-p.errA
		if err := <-p.errB; err != errDropped {
			t.Errorf("closed with %v", err)
		}
		if n := p.log.Len(); n != 1 {
			t.Errorf("%d lines", n)
		}
	})
}

func TestShutdown(t *testing.T) {
	each(t, limits{}, func(t *testing.T, p *pair) {
		got := make(chan error, 8)
		for range cap(got) {
			go func() {
				b, err := p.a.Call(context.Background(), 100, 1, procWait, Cred{}, raw([]byte("done")))
				if err == nil && string(b) != "done" {
					err = fmt.Errorf("got %q", b)
				}
				got <- err
			}()
		}
		for p.pb.running.Load() < int64(cap(got)) {
			time.Sleep(time.Millisecond)
		}
		stopped := make(chan error)
		go func() { stopped <- p.b.Shutdown(context.Background()) }()
		for draining := false; !draining; time.Sleep(time.Millisecond) {
			p.b.mu.Lock()
			draining = p.b.draining
			p.b.mu.Unlock()
		}
		close(p.pb.release)
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		for range cap(got) {
			if err := <-got; err != nil {
				t.Errorf("a call under way at Shutdown: %v", err)
			}
		}
		if err := <-p.errB; err != ErrClosed {
			t.Errorf("closed with %v", err)
		}
		<-p.errA
	})
}

func TestShutdownTimeout(t *testing.T) {
	each(t, limits{}, func(t *testing.T, p *pair) {
		go p.a.Call(context.Background(), 100, 1, procWait, Cred{}, nil)
		for p.pb.running.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		if err := p.b.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		<-p.errB // the handler saw its context end
		<-p.errA
	})
}

// call makes a record of a call with AUTH_NONE.
func call(xid, proc uint32, args []byte) []byte {
	var e xdr.Encoder
	encodeCall(&e, xid, 100, 1, proc, &Cred{})
	e.Raw(args)
	setMark(&e)
	return e.Bytes()
}

// TestMalformed sends what is no message: the connection closes with one line.
func TestMalformed(t *testing.T) {
	for _, tc := range []struct {
		name  string
		bytes []byte
		lines int
	}{
		{"empty record", fragment(nil, true), 1},
		{"xid only", fragment([]byte{1, 2, 3, 4}, true), 1},
		{"neither call nor reply", fragment([]byte{0, 0, 0, 1, 0, 0, 0, 2}, true), 1},
		{"header cut", fragment(call(1, 0, nil)[4:30], true), 1},
		{"too long", []byte{0x80, 0x10, 0x00, 0x01}, 1},
		{"stops in a record", call(1, 0, nil)[:20], 1},
		{"clean end", nil, 0},
	} {
		for _, inline := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				a, b := net.Pipe()
				core, logs := observer.New(zapcore.InfoLevel)
				c := NewConn(context.Background(), b, nil, &Config{MaxRecord: 1 << 20, Log: zap.New(core), Inline: inline})
				go func() {
					a.Write(tc.bytes)
					a.Close()
				}()
				err := c.Serve()
				if logs.Len() != tc.lines || (err == io.EOF) != (tc.lines == 0) {
					t.Errorf("%s: %v, %d lines", tc.name, err, logs.Len())
				}
			})
		}
	}
}

// TestOrphans: a reply that nobody waits for is counted, and no more.
func TestOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		obs := &counts{}
		c := NewConn(context.Background(), b, &program{}, &Config{Observer: obs})
		go c.Serve()
		for range 5 {
			a.Write(fragment([]byte{0, 0, 0, 9, 0, 0, 0, 1}, true))
		}
		a.Write(call(3, procEcho, []byte("1234")))
		reply := make([]byte, replyHeader+4)
		if _, err := io.ReadFull(a, reply); err != nil || binary.BigEndian.Uint32(reply[4:]) != 3 || obs.orphans.Load() != 5 {
			t.Errorf("%x, %v, %d orphans", reply, err, obs.orphans.Load())
		}
		c.Close()
	})
}

// TestMalformedReply: the call fails, the connection lives on.
func TestMalformedReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		c := NewConn(context.Background(), b, nil, &Config{})
		go c.Serve()
		got := make(chan error)
		for range 2 {
			go func() {
				_, err := c.Call(context.Background(), 1, 1, 1, Cred{}, nil)
				got <- err
			}()
			head := make([]byte, 44)
			io.ReadFull(a, head)
			a.Write(fragment(append(head[4:8:8], 0, 0, 0, 1, 0, 0, 0, 0), true))
			if err := <-got; !errors.Is(err, errMessage) {
				t.Errorf("got %v", err)
			}
		}
		c.Close()
	})
}

// TestInFlight: past the limit the socket is not read.
func TestInFlight(t *testing.T) {
	for _, tc := range []struct {
		name  string
		cfg   limits
		limit int64
	}{
		{"calls", limits{MaxInFlight: 4}, 4},
		{"bytes", limits{MaxBytes: 3 * 1024}, 3}, // a small call's buffer has 1 KiB
	} {
		for _, inline := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				tc.cfg.Inline = inline
				a, b := net.Pipe()
				p := newPair(a, b, tc.cfg)
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						if _, err := p.a.Call(context.Background(), 100, 1, procWait, Cred{}, nil); err != nil {
							t.Error(err)
						}
					})
				}
				synctest.Wait()
				if n := p.pb.running.Load(); n != tc.limit {
					t.Errorf("%s: %d handlers run, limit %d", tc.name, n, tc.limit)
				}
				close(p.pb.release)
				wg.Wait()
				synctest.Wait()
				p.b.mu.Lock()
				if p.b.held != 0 || p.b.inflight.Load() != 0 {
					t.Errorf("%s: %d bytes, %d calls held at the end", tc.name, p.b.held, p.b.inflight.Load())
				}
				p.b.mu.Unlock()
				p.close(t)
			})
		}
	}
}

// TestStall: a peer that stops in a record, or does not read, is closed after
// the timeout and not before; one that is silent between records is not.
func TestStall(t *testing.T) {
	for _, tc := range []struct {
		name string
		send []byte
		want bool
	}{
		{"silent", nil, false},
		{"half a mark holds nothing", []byte{0x80, 0}, false},
		{"in a record", call(1, procEcho, nil)[:30], true},
		{"between fragments", fragment([]byte{1, 2, 3, 4}, false), true},
		{"does not read", call(1, procEcho, make([]byte, 1000)), true},
		{"does not read a refusal", call(1, 99, nil), true},
	} {
		for _, inline := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				a, b := net.Pipe()
				core, logs := observer.New(zapcore.InfoLevel)
				c := NewConn(context.Background(), b, &program{}, &Config{StallTimeout: time.Minute, Log: zap.New(core), Inline: inline})
				ended := make(chan error, 1)
				go func() { ended <- c.Serve() }()
				a.Write(tc.send)
				time.Sleep(44 * time.Second)
				synctest.Wait()
				select {
				case err := <-ended:
					t.Errorf("%s: closed early: %v", tc.name, err)
				default:
				}
				time.Sleep(17 * time.Second)
				synctest.Wait()
				select {
				case <-c.Done():
					if !tc.want || logs.Len() != 1 {
						t.Errorf("%s: closed, %d lines", tc.name, logs.Len())
					}
				default:
					if tc.want {
						t.Errorf("%s: not closed", tc.name)
					}
				}
				c.Close()
			})
		}
	}
}

// TestSlowReader has a TCP peer that sends calls for ever and reads nothing:
// what we hold is bounded, and the connection ends.
func TestSlowReader(t *testing.T) {
	a, b := loopback(t)
	defer a.Close()
	p := &program{}
	c := NewConn(context.Background(), b, p, &Config{MaxInFlight: 8, StallTimeout: 300 * time.Millisecond})
	ended := make(chan error, 1)
	go func() { ended <- c.Serve() }()
	big := call(1, procBig, []byte{0, 16, 0, 0})
	for i := 0; ; i++ {
		if _, err := a.Write(big); err != nil {
			break
		}
		if n := p.running.Load(); n > 8 {
			t.Fatalf("%d handlers run", n)
		}
		if i == 1<<22 {
			t.Fatal("still open")
		}
	}
	<-ended
	if n := c.inflight.Load(); n != 0 || c.held != 0 {
		t.Errorf("%d calls, %d bytes held", n, c.held)
	}
}

// TestInlineBatch: calls that came in one piece are answered in one piece.
func TestInlineBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		c := NewConn(context.Background(), b, &program{}, &Config{Inline: true})
		go c.Serve()
		var in []byte
		for i := range uint32(10) {
			in = append(in, call(i, procEcho, []byte("abcd"))...)
		}
		a.Write(in)
		out := make([]byte, 4096)
		if n, err := a.Read(out); err != nil || n != 10*(replyHeader+4) {
			t.Errorf("one read gave %d bytes, %v", n, err)
		}
		c.Close()
	})
}
