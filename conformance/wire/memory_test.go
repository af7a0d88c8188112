package wire_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"testing"
	"time"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/tcp"
)

// hoard is a client that opens many files and locks them. What it keeps itself
// is allocated beforehand, so that the heap's growth is the server's.
type hoard struct {
	nfs   *client.Client
	owner []byte
	opens []held

	mu   sync.Mutex
	conn *rpc.Conn // the last
	gone bool      // it does not connect any more
}

type held struct {
	fh nfs4.FH
	id nfs4.Stateid
}

func newHoard(c *cluster, i, files int) (*hoard, error) {
	h := &hoard{owner: fmt.Appendf(nil, "hoard %08d's open owner......", i), opens: make([]held, files)}
	for i := range h.opens {
		h.opens[i].fh = make(nfs4.FH, 0, nfs4.MaxFH)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	h.nfs, err = client.Dial(ctx, c.cfg.Listen, client.Config{
		Owner: fmt.Appendf(nil, "hoard %d of %s", i, c.dir), Cred: sys(0, 0), Minor: 2, Renew: time.Second, Slots: 8, Dialer: h.dial,
	})
	return h, err
}

func (h *hoard) dial(ctx context.Context, addr string, cb rpc.Handler, cfg *rpc.Config) (*rpc.Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return nil, errors.New("switched off")
	}
	var err error
	h.conn, err = tcp.Dial(ctx, addr, cb, cfg)
	return h.conn, err
}

// run runs ops again as long as the server says that it will.
func (h *hoard) run(ops ...client.Op) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := h.nfs.Compound(ctx, sys(0, 0), ops...)
		if !errors.Is(err, nfs4.ErrDelay) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// each runs fn for every file, some at once.
func (h *hoard) each(fn func(i int) error) error {
	const atOnce = 8
	var wg sync.WaitGroup
	errs := make([]error, atOnce)
	for n := range atOnce {
		wg.Go(func() {
			for i := n; i < len(h.opens) && errs[n] == nil; i += atOnce {
				errs[n] = fn(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (h *hoard) open(dir nfs4.FH, i int) error {
	var r nfs4.OpenRes
	var fh nfs4.GetFHRes
	a := creating(openArgs(string(h.owner), fmt.Sprint(i), nfs4.ShareAccessBoth), nfs4.CreateHow{Attrs: mode(0o644)})
	err := h.run(putFH(dir), openOp(a, &r), getFH(&fh))
	h.opens[i].id, h.opens[i].fh = r.Stateid, append(h.opens[i].fh[:0], fh.Object...)
	return err
}

func (h *hoard) lock(i int) error {
	o := &open{fh: h.opens[i].fh, id: h.opens[i].id}
	return h.run(putFH(o.fh), lockOp(newLock(o, string(h.owner), nfs4.LockWrite, uint64(i), 1), &nfs4.LockRes{}))
}

// leave closes everything and says goodbye.
func (h *hoard) leave() error {
	if err := h.each(func(i int) error { return h.run(putFH(h.opens[i].fh), closeOp(h.opens[i].id)) }); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return h.nfs.Close(ctx)
}

// vanish is a client's power going.
func (h *hoard) vanish() {
	h.mu.Lock()
	h.gone = true
	h.conn.Close()
	h.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = h.nfs.Close(ctx) // it cannot say goodbye
}

// heap is the live heap, in bytes.
func heap() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC() // pools take two to empty
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// profile writes a heap profile into the folder WIRE_HEAP, if there is one.
func profile(t testing.TB, name string) {
	t.Helper()
	dir := os.Getenv("WIRE_HEAP")
	if dir == "" {
		return
	}
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := pprof.Lookup("heap").WriteTo(f, 0); err != nil {
		t.Fatal(err)
	}
}

// all does fn with each hoard at once.
func all(t testing.TB, hs []*hoard, what string, fn func(h *hoard) error) {
	t.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	for _, h := range hs {
		wg.Go(func() {
			if err := fn(h); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%s: %v", what, time.Since(began).Round(time.Millisecond))
}

// census is what the metadata server keeps of clients, but for want.
func (c *cluster) census(want ...string) error {
	n, err := c.mds.Census(context.Background())
	if err != nil {
		return err
	}
	maps.DeleteFunc(n, func(name string, _ int) bool { return slices.Contains(want, name) })
	if len(n) > 0 {
		return fmt.Errorf("left over: %v", n)
	}
	return nil
}

// memory has clients open and lock files, each its own, and leave: one half
// politely, the other by letting their leases run out. It returns bytes of heap
// for an open and for a lock.
func memory(t testing.TB, clients, files int) (perOpen, perLock int64) {
	c := newCluster(t, 1, noCourtesy)
	dirs := make([]nfs4.FH, clients)
	first := c.newPeer(t, "dirs")
	for i := range dirs {
		dirs[i] = first.dir()
	}
	first.close()
	c.eventually("an empty server", func() error { return c.census() })
	empty := heap()
	profile(t, "empty")
	hs := make([]*hoard, clients)
	for i := range hs {
		var err error
		if hs[i], err = newHoard(c, i, files); err != nil {
			t.Fatal(err)
		}
	}
	all(t, hs, "warm", func(h *hoard) error {
		return h.each(func(i int) error {
			if i >= 32 {
				return nil
			}
			return h.run(putRoot(), getattr(&nfs4.GetattrRes{}, nfs4.AttrType))
		})
	})
	before := heap()
	all(t, hs, "open", func(h *hoard) error {
		dir := dirs[slices.Index(hs, h)]
		return h.each(func(i int) error { return h.open(dir, i) })
	})
	opened := heap()
	all(t, hs, "lock", func(h *hoard) error { return h.each(h.lock) })
	locked := heap()
	if s := c.status(); s.Opens != uint64(clients*files) || s.Locks != s.Opens {
		t.Errorf("%d opens, %d locks", s.Opens, s.Locks)
	}
	profile(t, "full")
	all(t, hs[:clients/2], "leave", (*hoard).leave)
	all(t, hs[clients/2:], "vanish", func(h *hoard) error { h.vanish(); return nil })
	clear(hs)
	c.eventually("an empty server", func() error { return c.census() })
	var left int64
	heap()
	profile(t, "left")
	c.eventually("the memory back", func() error {
		// The runtime keeps what its goroutines were, and an index its first
		// thousand places.
		if left = heap(); left > empty+(locked-empty)/20+512<<10 {
			return fmt.Errorf("%d bytes of heap, %d before", left, empty)
		}
		return nil
	})
	n := int64(clients * files)
	perOpen, perLock = (opened-before)/n, (locked-opened)/n
	t.Logf("%d clients, %d opens and locks: heap %d KiB empty, %d KiB with clients, %d KiB with opens, %d KiB with locks, %d KiB when all are gone; %d bytes an open, %d a lock",
		clients, n, empty>>10, before>>10, opened>>10, locked>>10, left>>10, perOpen, perLock)
	return perOpen, perLock
}

// TestMemory: what opens and locks cost, and that all of it comes back. It is
// not parallel, because it measures the heap of the process.
func TestMemory(t *testing.T) {
	perOpen, perLock := memory(t, 20, 200)
	if perOpen > 1<<10 || perLock > 400 {
		t.Errorf("an open costs %d bytes, a lock %d", perOpen, perLock)
	}
}

// BenchmarkMemory is that at full size; -benchtime=1x is enough.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		perOpen, perLock := memory(b, 100, 1000)
		b.ReportMetric(float64(perOpen), "B/open")
		b.ReportMetric(float64(perLock), "B/lock")
	}
}
