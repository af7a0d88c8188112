package wire_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// citizen is a client that behaves, from an address of its own: all that it
// asks for, again and again, has to be done, whatever others are up to.
type citizen struct {
	t      *testing.T
	nfs    *client.Client
	dir    nfs4.FH
	stop   chan struct{}
	done   chan error
	rounds atomic.Int64
	most   atomic.Int64 // tries that one request took
}

// citizenTries is how often at most a request is told to come again. A pause
// follows each time, and what is in the way takes a lease and a half to go.
const (
	citizenTries = 200
	citizenPause = 50 * time.Millisecond
)

// dialFrom is a Dialer from a local address.
func dialFrom(ip string) func(context.Context, string, rpc.Handler, *rpc.Config) (*rpc.Conn, error) {
	return func(ctx context.Context, addr string, h rpc.Handler, cfg *rpc.Config) (*rpc.Conn, error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		nc, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		c := rpc.NewConn(context.WithoutCancel(ctx), nc, h, cfg)
		go func() { _ = c.Serve() }()
		return c, nil
	}
}

// mountFrom makes a client at an address, trying again while there is no room.
func mountFrom(c *cluster, ip, owner string) (*client.Client, error) {
	var err error
	for range citizenTries {
		var nfs *client.Client
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		nfs, err = client.Dial(ctx, c.cfg.Listen, client.Config{Owner: []byte(owner), Cred: sys(0, 0), Minor: 2, Renew: time.Second, Dialer: dialFrom(ip)})
		cancel()
		if err == nil || !errors.Is(err, nfs4.ErrDelay) {
			return nfs, err
		}
		time.Sleep(citizenPause)
	}
	return nil, err
}

// newCitizen begins to work.
func newCitizen(t *testing.T, c *cluster) *citizen {
	t.Helper()
	z := &citizen{t: t, stop: make(chan struct{}), done: make(chan error, 1)}
	var err error
	if z.nfs, err = mountFrom(c, "127.0.0.2", "a good citizen"); err != nil {
		t.Fatal(err)
	}
	var fh nfs4.GetFHRes
	if err := z.ask(putRoot(), makeDir("citizen", 0o777), getFH(&fh)); err != nil {
		t.Fatal(err)
	}
	z.dir = fh.Object
	go func() { z.done <- z.work() }()
	t.Cleanup(func() {
		close(z.stop)
		if err := <-z.done; err != nil {
			t.Errorf("the good citizen, after %d rounds: %v", z.rounds.Load(), err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := z.nfs.Close(ctx); err != nil {
			t.Errorf("the good citizen leaves: %v", err)
		}
		t.Logf("the good citizen: %d rounds, a request took %d tries at most", z.rounds.Load(), z.most.Load())
	})
	return z
}

// ask runs ops until they are done.
func (z *citizen) ask(ops ...client.Op) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for try := int64(1); ; try++ {
		err := z.nfs.Compound(ctx, sys(0, 0), ops...)
		if n := z.most.Load(); try > n {
			z.most.Store(try)
		}
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, nfs4.ErrDelay) && !errors.Is(err, nfs4.ErrLayoutTryLater) && !errors.Is(err, nfs4.ErrGrace) || try == citizenTries:
			return fmt.Errorf("%v, try %d: %w", names(ops), try, err)
		}
		time.Sleep(citizenPause)
	}
}

// work makes files, opens, locks, lays out, closes and removes them.
func (z *citizen) work() error {
	for {
		select {
		case <-z.stop:
			return nil
		default:
		}
		if err := z.round(); err != nil {
			return err
		}
		z.rounds.Add(1)
	}
}

func (z *citizen) round() error {
	name := fmt.Sprint("f", z.rounds.Load())
	o := &open{}
	var fh nfs4.GetFHRes
	if err := z.ask(putFH(z.dir), openOp(creating(openArgs("citizen", name, 3), nfs4.CreateHow{Attrs: mode(0o644)}), &o.r), getFH(&fh)); err != nil {
		return err
	}
	o.fh, o.id = fh.Object, o.r.Stateid
	var locked nfs4.LockRes
	if err := z.ask(putFH(o.fh), lockOp(newLock(o, "citizen", nfs4.LockWrite, 0, 10), &locked)); err != nil {
		return err
	}
	// Without a layout it would do its I/O through the metadata server.
	var get nfs4.LayoutGetRes
	if err := z.ask(putFH(o.fh), layoutGetOp(layoutGetArgs(o.id, nfs4.IOModeRW), &get)); err == nil {
		err = z.ask(putFH(o.fh), layoutReturnOp(get.Stateid, nfs4.IOModeAny, &nfs4.LayoutReturnRes{}))
		if err != nil {
			return err
		}
	} else if !errors.Is(err, nfs4.ErrLayoutUnavailable) {
		return err
	}
	if err := z.ask(putFH(o.fh), closeOp(o.id)); err != nil {
		return err
	}
	return z.ask(putFH(z.dir), remove(name))
}

// goesOn waits until it has done two more rounds: one of them has begun now.
func (z *citizen) goesOn(what string) {
	z.t.Helper()
	from := z.rounds.Load()
	eventually(z.t, what+": work of the good citizen", func() error {
		select {
		case err := <-z.done:
			z.done <- err
			z.t.Fatalf("%s: the good citizen stopped: %v", what, err)
		default:
		}
		if z.rounds.Load() < from+2 {
			return fmt.Errorf("%d rounds since then", z.rounds.Load()-from)
		}
		return nil
	})
}

// watched is a cluster whose log is looked at.
type watched struct {
	*cluster
	lines *observer.ObservedLogs
	ops   *evictions
}

// evictions counts what Observer.Evicted tells.
type evictions struct{ n atomic.Int64 }

func (*evictions) Operation(nfs4.OpNum, nfs4.Status, time.Duration) {}
func (*evictions) Replay()                                          {}
func (e *evictions) Evicted()                                       { e.n.Add(1) }

func newWatched(t *testing.T, opts ...option) *watched {
	t.Helper()
	core, lines := observer.New(zapcore.WarnLevel)
	w := &watched{lines: lines, ops: &evictions{}}
	w.cluster = newClusterWith(t, 1, zap.New(core), w.ops, opts...)
	return w
}

// evicted waits for n lines on the eviction of clients whose owner begins with
// owner, each of which says why and from where, and for as many counts.
func (w *watched) evicted(t *testing.T, n int, owner, why string) {
	t.Helper()
	var lines []observer.LoggedEntry
	eventually(t, "eviction of "+owner, func() error {
		lines = w.lines.FilterMessageSnippet("client evicted").All()
		if len(lines) < n {
			return fmt.Errorf("%d lines; log: %v", len(lines), w.lines.All())
		}
		return nil
	})
	for _, l := range lines {
		m := l.ContextMap()
		who, from, reason := fmt.Sprint(m["owner"]), fmt.Sprint(m["client"]), fmt.Sprint(m["why"])
		if !strings.HasPrefix(who, owner) || !strings.HasPrefix(from, "127.0.0.1:") || !strings.Contains(reason, why) {
			t.Errorf("evicted: owner %q from %s: %s", who, from, reason)
		}
	}
	if got := w.ops.n.Load(); len(lines) != n || got != int64(n) {
		t.Errorf("%d lines, %d counted, want %d", len(lines), got, n)
	}
}
