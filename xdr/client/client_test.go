package client

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/tcp"
)

var bg = context.Background()

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>10)
	}
	return b
}

// bubble runs fn with a Client of a fake server, where time is simulated and a
// goroutine left over after Close fails the test.
func bubble(t *testing.T, prepare func(*fake, *Config), fn func(f *fake, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		cfg := f.config()
		if prepare != nil {
			prepare(f, &cfg)
		}
		c := dialFake(t, f, cfg)
		fn(f, c)
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		c.Close(ctx)
		if err := c.Compound(bg, rpc.Cred{}); err != ErrClosed {
			t.Errorf("after Close: %v", err)
		}
		if !f.down && len(f.clients)+len(f.sessions) != 0 {
			t.Errorf("left at the server: %v, %v", f.clients, f.sessions)
		}
	})
}

func TestIO(t *testing.T) {
	f := newFake(t)
	ln, err := tcp.Listen(bg, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := tcp.NewServer(f, tcp.Config{})
	go srv.Serve(ln)
	defer srv.Shutdown(bg)
	cfg := f.config()
	cfg.Dialer = nil
	c, err := Dial(bg, ln.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(bg)
	data := pattern(3<<20 + 5)
	fh := nfs4.FH("file")
	for off := 0; off < len(data); {
		n, committed, verf, err := c.Write(bg, rpc.Cred{}, fh, nfs4.Stateid{}, uint64(off), data[off:], nfs4.DataSync)
		if err != nil || n == 0 || committed != nfs4.DataSync || verf != (nfs4.Verifier{7}) {
			t.Fatalf("write at %d: %d, %v, %v, %v", off, n, committed, verf, err)
		}
		off += n
	}
	if verf, err := c.Commit(bg, rpc.Cred{}, fh, 0, 0); err != nil || verf != (nfs4.Verifier{7}) {
		t.Errorf("commit: %v, %v", verf, err)
	}
	got := make([]byte, len(data)+100)
	n, eof := 0, false
	for !eof {
		m, e, err := c.Read(bg, rpc.Cred{}, fh, nfs4.Stateid{}, uint64(n), got[n:])
		if err != nil {
			t.Fatal(err)
		}
		n, eof = n+m, e
	}
	if !bytes.Equal(got[:n], data) {
		t.Error("what was read is not what was written")
	}
	var res nfs4.ReadRes
	err = c.CompoundInPlace(bg, rpc.Cred{}, func() error {
		if !bytes.Equal(res.Data, data[10:110]) {
			t.Error("in place")
		}
		return errors.New("mine")
	}, putFH(fh), Op{Num: nfs4.OpRead, Args: &nfs4.ReadArgs{Offset: 10, Count: 100}, Res: &res})
	if err == nil || err.Error() != "mine" {
		t.Errorf("use's error came as %v", err)
	}
}

func TestOpError(t *testing.T) {
	bubble(t, nil, func(f *fake, c *Client) {
		_, _, err := c.Read(bg, rpc.Cred{}, nfs4.FH("other"), nfs4.Stateid{}, 0, make([]byte, 10))
		var oe *OpError
		if !errors.Is(err, nfs4.ErrStale) || !errors.As(err, &oe) || oe.Index != 0 || oe.Num != nfs4.OpPutFH {
			t.Errorf("got %#v", err)
		}
		n, status, err := c.Raw(bg, rpc.Cred{}, putFH(nfs4.FH("file")), putFH(nfs4.FH("other")), putFH(nfs4.FH("file")))
		if n != 2 || status != nfs4.ErrStale || err != nil {
			t.Errorf("raw: %d, %v, %v", n, status, err)
		}
		id, conn := c.Session()
		args := nfs4.SequenceArgs{SessionID: id, SequenceID: 1, SlotID: 1000}
		n, status, err = Send(bg, conn, rpc.Cred{}, 1, Op{Num: nfs4.OpSequence, Args: &args, Res: &nfs4.SequenceRes{}})
		if n != 1 || status != nfs4.ErrBadSlot || err != nil {
			t.Errorf("send: %d, %v, %v", n, status, err)
		}
	})
}

// TestSlots has more requests than slots; the fake checks every sequence.
func TestSlots(t *testing.T) {
	bubble(t, func(f *fake, cfg *Config) { cfg.Slots, f.slots = 32, 8 }, func(f *fake, c *Client) {
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				p := []byte{byte(i)}
				for range 5 {
					if _, _, _, err := c.Write(bg, rpc.Cred{}, nfs4.FH("file"), nfs4.Stateid{}, uint64(i), p, nfs4.Unstable); err != nil {
						t.Error(err)
					}
					if _, _, err := c.Read(bg, rpc.Cred{}, nfs4.FH("file"), nfs4.Stateid{}, uint64(i), p); err != nil || p[0] != byte(i) {
						t.Errorf("%d read at %d: %v", p[0], i, err)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestTargetSlots(t *testing.T) {
	bubble(t, func(f *fake, _ *Config) { f.target = 2 }, func(f *fake, c *Client) {
		if err := c.Compound(bg, rpc.Cred{}); err != nil { // brings the target
			t.Fatal(err)
		}
		f.hold = make(chan struct{})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := remove(c, bg); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := f.count(&f.busy); n != 3 {
			t.Errorf("%d slots used, 3 allowed", n)
		}
		f.mu.Lock()
		f.target = 63
		f.mu.Unlock()
		close(f.hold)
		wg.Wait()
	})
}

// TestFaults does each fault to the first, second or third try of a READ and
// a REMOVE.
func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		name   string
		fault  fault
		times  int
		read   error
		remove error
		runs   int // of the REMOVE
	}{
		{"none", fault{}, 0, nil, nil, 1},
		{"call lost", fault{before: true}, 1, nil, nil, 1},
		{"call lost thrice", fault{before: true}, 3, nil, nil, 1},
		{"reply lost", fault{after: true}, 1, nil, nil, 1},
		{"delay", fault{status: nfs4.ErrDelay}, 3, nil, nil, 1},
		{"bad session", fault{status: nfs4.ErrBadSession}, 1, nil, nil, 1},
		{"dead session", fault{status: nfs4.ErrDeadSession}, 2, nil, nil, 1},
		{"sessions lost", fault{lose: true}, 1, nil, nil, 1},
		{"server restarted", fault{forget: true}, 1, nil, nil, 1},
		{"bad slot", fault{status: nfs4.ErrBadSlot}, 1, nil, nil, 1},
		{"misordered", fault{status: nfs4.ErrSeqMisordered}, 1, nil, nil, 1},
		{"not bound", fault{status: nfs4.ErrConnNotBoundToSession}, 1, nil, nil, 1},
		{"bad session for ever", fault{status: nfs4.ErrBadSession}, 1000, nfs4.ErrBadSession, nfs4.ErrBadSession, 0},
		{"too many operations", fault{status: nfs4.ErrTooManyOps}, 1, nfs4.ErrTooManyOps, nfs4.ErrTooManyOps, 0},
	} {
		for _, first := range []int{1, 2} { // RECLAIM_COMPLETE was 0
			bubble(t, func(f *fake, _ *Config) {
				f.file = []byte("hello")
				f.fault = func(n int) fault {
					if n >= first && n < first+tc.times {
						return tc.fault
					}
					return fault{}
				}
			}, func(f *fake, c *Client) {
				p := make([]byte, 5)
				if _, _, err := c.Read(bg, rpc.Cred{}, nfs4.FH("file"), nfs4.Stateid{}, 0, p); first == 1 && !errors.Is(err, tc.read) {
					t.Errorf("%s: READ: %v", tc.name, err)
				} else if err == nil && string(p) != "hello" {
					t.Errorf("%s: READ: %q", tc.name, p)
				}
				if first != 2 {
					f.mu.Lock()
					f.fault = nil
					f.mu.Unlock()
				}
				err := remove(c, bg)
				if first == 2 && (!errors.Is(err, tc.remove) || f.removed != tc.runs) || first == 1 && err != nil {
					t.Errorf("%s: REMOVE: %v, ran %d times", tc.name, err, f.removed)
				}
				f.mu.Lock()
				f.fault = nil
				f.mu.Unlock()
				// Whatever happened, the slots are in step.
				for range 3 {
					if err := remove(c, bg); err != nil {
						t.Errorf("%s: afterwards: %v", tc.name, err)
					}
				}
			})
		}
	}
}

// TestUnknownOutcome loses first the reply, then the session that could have
// replayed it: a READ is made again, a REMOVE must not be.
func TestUnknownOutcome(t *testing.T) {
	faults := func(n int) fault {
		switch n {
		case 1:
			return fault{after: true}
		case 2:
			return fault{lose: true}
		}
		return fault{}
	}
	bubble(t, func(f *fake, _ *Config) { f.fault = faults }, func(f *fake, c *Client) {
		if err := remove(c, bg); err != ErrUnknownOutcome || f.removed != 1 {
			t.Errorf("REMOVE: %v, ran %d times", err, f.removed)
		}
	})
	bubble(t, func(f *fake, _ *Config) { f.fault = faults }, func(f *fake, c *Client) {
		if _, _, err := c.Read(bg, rpc.Cred{}, nfs4.FH("file"), nfs4.Stateid{}, 0, nil); err != nil {
			t.Errorf("READ: %v", err)
		}
	})
}

// TestRestart: after a restart the client id is new, and reclaim is completed again.
func TestRestart(t *testing.T) {
	bubble(t, nil, func(f *fake, c *Client) {
		before := c.ClientID()
		f.mu.Lock()
		f.restart()
		f.conns[0].Close()
		f.mu.Unlock()
		synctest.Wait() // so that nothing is sent on it
		if err := remove(c, bg); err != nil || c.ClientID() == before || f.reclaims != 2 || f.dials != 2 {
			t.Errorf("%v, client id %x after %x, %d reclaims, %d dials", err, c.ClientID(), before, f.reclaims, f.dials)
		}
	})
}

// TestServerAway: while the server cannot be reached requests wait as long as
// their context lets them, the redials slow down, and then all goes on in the
// same session.
func TestServerAway(t *testing.T) {
	bubble(t, nil, func(f *fake, c *Client) {
		session, _ := c.Session()
		f.mu.Lock()
		f.down = true
		f.conns[0].Close()
		f.mu.Unlock()
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		err := remove(c, ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "down") {
			t.Errorf("got %v", err)
		}
		if n := f.count(&f.dials); n < 10 || n > 30 {
			t.Errorf("%d dials in a minute", n)
		}
		got := make(chan error)
		go func() { got <- remove(c, bg) }()
		synctest.Wait()
		f.mu.Lock()
		f.down = false
		f.mu.Unlock()
		if err := <-got; err != nil {
			t.Error(err)
		}
		if now, _ := c.Session(); now != session || len(f.binds) != 1 || f.binds[0] != nfs4.BindFore {
			t.Errorf("session %x after %x, binds %v", now, session, f.binds)
		}
	})
}

// TestCancel gives up a request that runs: its slot comes back in step, and
// others go on meanwhile.
func TestCancel(t *testing.T) {
	for _, answer := range []string{"while it runs", "after it ran"} {
		bubble(t, func(f *fake, cfg *Config) { cfg.Slots = 2; f.hold = make(chan struct{}) }, func(f *fake, c *Client) {
			ctx, cancel := context.WithCancel(bg)
			got := make(chan error)
			go func() { got <- remove(c, ctx) }()
			synctest.Wait()
			cancel()
			if answer == "after it ran" {
				close(f.hold)
			}
			if err := <-got; err != context.Canceled && err != nil {
				t.Errorf("got %v", err)
			}
			for range 3 {
				if err := c.Compound(bg, rpc.Cred{}); err != nil {
					t.Error(err)
				}
			}
			if answer == "while it runs" {
				time.Sleep(3 * time.Second)
				close(f.hold)
			}
			f.mu.Lock()
			f.hold = nil
			f.mu.Unlock()
			time.Sleep(3 * time.Second) // the probe has asked again
			synctest.Wait()
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					if err := remove(c, bg); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if f.removed != 11 { // one that took a used sequence would get another's reply
				t.Errorf("11 REMOVEs ran %d times", f.removed)
			}
			if len(f.sessions) != 1 || f.lastID != 1 {
				t.Error("it cost the session")
			}
		})
	}
}

func TestCancelWaitingForSlot(t *testing.T) {
	bubble(t, func(f *fake, cfg *Config) { cfg.Slots = 1; f.hold = make(chan struct{}) }, func(f *fake, c *Client) {
		got := make(chan error)
		go func() { got <- remove(c, bg) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		if err := remove(c, ctx); err != context.DeadlineExceeded || f.count(&f.removed) != 1 {
			t.Errorf("got %v", err)
		}
		close(f.hold)
		if err := <-got; err != nil {
			t.Error(err)
		}
		if err := remove(c, bg); err != nil {
			t.Error(err)
		}
	})
}

func TestRenew(t *testing.T) {
	bubble(t, func(_ *fake, cfg *Config) { cfg.Renew = 20 * time.Second }, func(f *fake, c *Client) {
		time.Sleep(205 * time.Second)
		if n := f.count(&f.lone); n < 10 || n > 21 {
			t.Errorf("%d renewals in 205 s", n)
		}
		idle := f.count(&f.lone)
		for range 100 {
			time.Sleep(time.Second)
			if err := remove(c, bg); err != nil {
				t.Fatal(err)
			}
		}
		if n := f.count(&f.lone); n > idle+1 {
			t.Errorf("%d renewals of a busy client", n-idle)
		}
	})
}

// TestHang: a server that answers no renewal costs the connection, and what
// waits on it is sent again on another.
func TestHang(t *testing.T) {
	bubble(t, func(f *fake, cfg *Config) {
		cfg.Renew = 20 * time.Second
		f.hang, f.hold = make(chan struct{}), make(chan struct{})
	}, func(f *fake, c *Client) {
		got := make(chan error)
		go func() { got <- remove(c, bg) }()
		time.Sleep(60 * time.Second)
		if n := f.count(&f.dials); n < 2 || n > 4 {
			t.Errorf("%d dials", n)
		}
		f.mu.Lock()
		close(f.hang)
		close(f.hold)
		f.hang, f.hold = nil, nil
		f.mu.Unlock()
		if err := <-got; err != nil || f.count(&f.removed) != 1 {
			t.Errorf("%v, ran %d times", err, f.removed)
		}
	})
}

func TestCloseUnderWay(t *testing.T) {
	bubble(t, func(f *fake, _ *Config) { f.hold = make(chan struct{}) }, func(f *fake, c *Client) {
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if err := remove(c, bg); err != ErrClosed {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		c.Close(bg)
		wg.Wait()
		close(f.hold)
	})
}

func TestDialFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.down = true
		if _, err := Dial(bg, "fake", f.config()); err == nil || !strings.Contains(err.Error(), "fake: down") {
			t.Errorf("got %v", err)
		}
		if _, err := Dial(bg, "fake", Config{Dialer: f.dial}); err == nil {
			t.Error("no owner, no error")
		}
		cfg := f.config()
		cfg.Minor = 3
		if _, err := Dial(bg, "fake", cfg); err == nil {
			t.Error("minor version 3")
		}
	})
}

func TestRestartFlag(t *testing.T) {
	bubble(t, nil, func(f *fake, c *Client) {
		f.flags = nfs4.SeqStatusRestartReclaimNeeded
		if err := c.Compound(bg, rpc.Cred{}); err != nil {
			t.Fatal(err)
		}
		f.flags = 0
		if err := remove(c, bg); err != nil || f.lastID != 2 || f.reclaims != 2 {
			t.Errorf("%v, session %d, %d reclaims", err, f.lastID, f.reclaims)
		}
	})
}

// TestStorm breaks connections, loses sessions and delays at random under
// load: every request ends, and no REMOVE that succeeded ran more than once.
func TestStorm(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 0))
		bubble(t, func(f *fake, cfg *Config) {
			cfg.Slots = 6
			f.fault = func(n int) fault { // under f.mu
				switch rng.IntN(40) {
				case 0:
					return fault{before: true}
				case 1:
					return fault{after: true}
				case 2:
					return fault{status: nfs4.ErrDelay}
				case 3:
					return fault{lose: rng.IntN(5) == 0}
				}
				return fault{}
			}
		}, func(f *fake, c *Client) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			succeeded, unknown := 0, 0
			for range 20 {
				wg.Go(func() {
					for range 20 {
						err := remove(c, bg)
						mu.Lock()
						switch err {
						case nil:
							succeeded++
						case ErrUnknownOutcome:
							unknown++
						default:
							t.Error(err)
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if f.removed < succeeded || f.removed > succeeded+unknown {
				t.Errorf("seed %d: %d succeeded, %d unknown, %d ran", seed, succeeded, unknown, f.removed)
			}
			f.fault = nil
		})
	}
}
