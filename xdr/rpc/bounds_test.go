package rpc

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// TestFirstRecord: who connects and does not say anything, or not all of it, is
// cut off early and without a line in the log; who has said something may be
// silent.
func TestFirstRecord(t *testing.T) {
	whole := call(1, procNull, nil)
	for _, tc := range []struct {
		name string
		send []byte
		want bool
	}{
		{"nothing", nil, true},
		{"half a mark", whole[:2], true},
		{"half a record", whole[:20], true},
		{"a record", whole, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := net.Pipe()
			core, logs := observer.New(zapcore.InfoLevel)
			c := NewConn(context.Background(), b, &program{}, &Config{FirstRecord: 10 * time.Second, StallTimeout: time.Minute, Log: zap.New(core)})
			ended := make(chan error, 1)
			go func() { ended <- c.Serve() }()
			go func() { // the reply
				buf := make([]byte, 100)
				for {
					if _, err := a.Read(buf); err != nil {
						return
					}
				}
			}()
			a.Write(tc.send)
			time.Sleep(9 * time.Second)
			synctest.Wait()
			select {
			case err := <-ended:
				t.Fatalf("%s: closed early: %v", tc.name, err)
			default:
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			select {
			case err := <-ended:
				if !tc.want || !errors.Is(err, errSilent) || logs.Len() != 0 {
					t.Errorf("%s: closed: %v, %d lines", tc.name, err, logs.Len())
				}
			default:
				if tc.want {
					t.Errorf("%s: not closed", tc.name)
				}
			}
			c.Close()
			a.Close()
		})
	}
}

// TestTotalBytes: when one connection's calls hold what all may, others go on
// with one call at a time, and with more as soon as there is room.
func TestTotalBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := &Config{MaxTotalBytes: 4 << 10} // a small call's buffer has 1 KiB
		var clients []*Conn
		var programs []*program
		var served []*Conn
		for range 2 {
			a, b := net.Pipe()
			p := &program{release: make(chan struct{})}
			s, c := NewConn(context.Background(), b, p, cfg), NewConn(context.Background(), a, nil, &Config{})
			go s.Serve()
			go c.Serve()
			clients, programs, served = append(clients, c), append(programs, p), append(served, s)
		}
		var wg sync.WaitGroup
		waits := func(c *Conn, n int) {
			for range n {
				wg.Go(func() {
					if _, err := c.Call(context.Background(), 100, 1, procWait, Cred{}, nil); err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
		}
		running := func(want ...int64) {
			t.Helper()
			for i, p := range programs {
				if n := p.running.Load(); n != want[i] {
					t.Errorf("connection %d: %d handlers run, want %d", i, n, want[i])
				}
			}
		}
		waits(clients[0], 20)
		running(4, 0)
		waits(clients[1], 20)
		running(4, 1)
		for range 5 { // and again one
			programs[1].release <- struct{}{}
			synctest.Wait()
			running(4, 1)
		}
		close(programs[0].release)
		synctest.Wait()
		programs[1].release <- struct{}{}
		synctest.Wait()
		running(0, 4)
		close(programs[1].release)
		wg.Wait()
		synctest.Wait()
		if n := cfg.held.Load(); n != 0 {
			t.Errorf("%d bytes held at the end", n)
		}
		for i := range clients {
			clients[i].Close()
			served[i].Close()
		}
	})
}

// TestMarkAlone: a mark that promises a large record gets no buffer for it.
func TestMarkAlone(t *testing.T) {
	a, b := loopback(t)
	defer a.Close()
	r := newRecordReader(b, &Config{MaxRecord: 1 << 20, StallTimeout: 50 * time.Millisecond})
	a.Write(fragment(make([]byte, 1<<20), true)[:1000])
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rec, err := r.next()
	runtime.ReadMemStats(&after)
	if rec != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a record, or %v", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 256<<10 {
		t.Errorf("%d bytes allocated", n)
	}
	b.Close()
}
