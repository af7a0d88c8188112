// Package storetest is the suite that every store.Store passes.
//
// Its one noun is the Maker, by which a test of an adapter says how to open its
// Store.
package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"manifold/ds/store"
	"manifold/layout"
)

// Maker opens the store under test.
type Maker struct {
	// Open returns an empty store, which Run closes.
	Open func(t *testing.T) store.Store
	// CannotSync says that Sync of something written must fail.
	CannotSync bool
	// CannotReserve says that Allocate must fail with store.ErrUnsupported.
	CannotReserve bool
	// Counted waits until Statfs of a store that Open returned counts its
	// objects. nil: it does from the start.
	Counted func(store.Store)
}

// Run runs the suite.
func (m Maker) Run(t *testing.T) {
	for _, c := range []struct {
		name  string
		fn    func(*testing.T, store.Store)
		files uint64 // objects there are at the end
	}{
		{"Missing", missing, 0},
		{"ReadBack", readBack, 1},
		{"Sparse", sparse, 1},
		{"ZeroLengthWriteMakesNothing", zeroLength, 1},
		{"TruncateCutsOnly", truncate, 1},
		{"TruncateClearsTheTail", truncateTail, 1},
		{"RemovedStaysRemoved", removed, 0},
		{"ObjectsAreApart", apart, 6},
		{"BadOffsets", badOffsets, 0},
		{"Usage", usage, 1},
		{"Allocate", m.allocate, 1},
		{"Deallocate", deallocate, 1},
		{"Seek", seek, 1},
		{"Model", model, 5},
		{"Concurrent", concurrent, 3},
		{"RemoveAgainstWriters", removeRace, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := m.Open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
					t.Errorf("Close: %v", err)
				}
			})
			c.fn(t, s)
			m.wantFiles(t, s, c.files)
		})
	}
	t.Run("Sync", m.sync)
	t.Run("Closed", m.closed)
}

// Obj returns the i-th object of a test.
func Obj(i int) layout.Object { return layout.Object{Volume: 7, Inode: uint64(i) + 1, Gen: 3} }

func write(t *testing.T, s store.Store, obj layout.Object, p []byte, off int64) {
	t.Helper()
	if n, err := s.WriteAt(obj, p, off); n != len(p) || err != nil {
		t.Fatalf("WriteAt(%v, %d bytes, %d) = %d, %v", obj, len(p), off, n, err)
	}
}

// wantRead reads size bytes at off and wants want, which is shorter if the
// object ends before.
func wantRead(t *testing.T, s store.Store, obj layout.Object, size int, off int64, want []byte) {
	t.Helper()
	p := bytes.Repeat([]byte{0xee}, size)
	n, err := s.ReadAt(obj, p, off)
	if err != nil || !bytes.Equal(p[:n], want) {
		t.Fatalf("ReadAt(%v, %d bytes, %d) = %d, %v: %.40q; want %d: %.40q", obj, size, off, n, err, p[:n], len(want), want)
	}
}

func wantSize(t *testing.T, s store.Store, obj layout.Object, want int64) {
	t.Helper()
	if got, err := s.Size(obj); got != want || err != nil {
		t.Fatalf("Size(%v) = %d, %v; want %d", obj, got, err, want)
	}
}

func missing(t *testing.T, s store.Store) {
	wantRead(t, s, Obj(0), 10, 0, nil)
	wantRead(t, s, Obj(0), 10, 1<<40, nil)
	wantSize(t, s, Obj(0), 0)
	for name, err := range map[string]error{
		"Sync": s.Sync(Obj(0)), "Truncate": s.Truncate(Obj(0), 0), "Deallocate": s.Deallocate(Obj(0), 0, 9), "Remove": s.Remove(Obj(1)),
	} {
		if err != nil {
			t.Errorf("%s of a missing object: %v", name, err)
		}
	}
}

func readBack(t *testing.T, s store.Store) {
	write(t, s, Obj(0), []byte("hello, world"), 0)
	wantRead(t, s, Obj(0), 12, 0, []byte("hello, world"))
	wantRead(t, s, Obj(0), 100, 7, []byte("world"))
	wantRead(t, s, Obj(0), 5, 12, nil)
	wantRead(t, s, Obj(0), 0, 3, nil)
	write(t, s, Obj(0), []byte("THERE"), 7)
	wantRead(t, s, Obj(0), 100, 0, []byte("hello, THERE"))
	wantSize(t, s, Obj(0), 12)
}

func sparse(t *testing.T, s store.Store) {
	const off = 5<<20 + 17
	write(t, s, Obj(0), []byte("end"), off)
	wantSize(t, s, Obj(0), off+3)
	wantRead(t, s, Obj(0), 4096, 1<<20, make([]byte, 4096))
	wantRead(t, s, Obj(0), 20, off-2, []byte("\x00\x00end"))
}

func zeroLength(t *testing.T, s store.Store) {
	write(t, s, Obj(0), nil, 100)
	wantSize(t, s, Obj(0), 0)
	wantRead(t, s, Obj(0), 10, 0, nil)
	write(t, s, Obj(0), []byte("abc"), 0)
	write(t, s, Obj(0), nil, 100)
	wantSize(t, s, Obj(0), 3)
}

func truncate(t *testing.T, s store.Store) {
	write(t, s, Obj(0), []byte("0123456789"), 0)
	for _, c := range []struct{ to, want int64 }{{20, 10}, {10, 10}, {4, 4}, {8, 4}, {0, 0}, {1, 0}} {
		if err := s.Truncate(Obj(0), c.to); err != nil {
			t.Fatalf("Truncate(%d): %v", c.to, err)
		}
		wantSize(t, s, Obj(0), c.want)
	}
}

func truncateTail(t *testing.T, s store.Store) {
	write(t, s, Obj(0), bytes.Repeat([]byte{'x'}, 9000), 0)
	if err := s.Truncate(Obj(0), 4000); err != nil {
		t.Fatal(err)
	}
	write(t, s, Obj(0), []byte("y"), 8999)
	want := append(bytes.Repeat([]byte{'x'}, 4000), make([]byte, 5000)...)
	want[8999] = 'y'
	wantRead(t, s, Obj(0), 10000, 0, want)
}

func removed(t *testing.T, s store.Store) {
	write(t, s, Obj(0), []byte("secret"), 0)
	for range 2 {
		if err := s.Remove(Obj(0)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.WriteAt(Obj(0), []byte("late"), 0); !errors.Is(err, store.ErrStale) {
		t.Errorf("WriteAt after Remove: %v, want ErrStale", err)
	}
	if n, err := s.ReadAt(Obj(0), make([]byte, 9), 0); n != 0 || !errors.Is(err, store.ErrStale) {
		t.Errorf("ReadAt after Remove: %d, %v, want ErrStale", n, err)
	}
	if err := s.Sync(Obj(0)); !errors.Is(err, store.ErrStale) {
		t.Errorf("Sync after Remove: %v, want ErrStale", err)
	}
	if err := s.Truncate(Obj(0), 0); err != nil {
		t.Errorf("Truncate after Remove: %v", err)
	}
	wantSize(t, s, Obj(0), 0)
	// A removal may come before the first write.
	if err := s.Remove(Obj(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteAt(Obj(1), []byte("late"), 0); !errors.Is(err, store.ErrStale) {
		t.Errorf("first WriteAt after Remove: %v, want ErrStale", err)
	}
}

func apart(t *testing.T, s store.Store) {
	objs := []layout.Object{
		{Volume: 1, Inode: 1, Gen: 1}, {Volume: 2, Inode: 1, Gen: 1}, {Volume: 1, Inode: 2, Gen: 1},
		{Volume: 1, Inode: 1, Gen: 2}, {Volume: math.MaxUint32, Inode: math.MaxUint64, Gen: math.MaxUint32},
		{Volume: 1, Inode: 1 << 32, Gen: 1}, {},
	}
	for i, obj := range objs {
		write(t, s, obj, []byte(fmt.Sprint("object ", i)), 0)
	}
	for i, obj := range objs {
		wantRead(t, s, obj, 100, 0, []byte(fmt.Sprint("object ", i)))
	}
	if err := s.Remove(objs[0]); err != nil {
		t.Fatal(err)
	}
	wantRead(t, s, objs[1], 100, 0, []byte("object 1"))
}

func badOffsets(t *testing.T, s store.Store) {
	if _, err := s.ReadAt(Obj(0), make([]byte, 1), -1); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("ReadAt(-1): %v", err)
	}
	if _, err := s.WriteAt(Obj(0), make([]byte, 1), -1); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("WriteAt(-1): %v", err)
	}
	if _, err := s.WriteAt(Obj(0), make([]byte, 2), math.MaxInt64-1); !errors.Is(err, store.ErrTooBig) {
		t.Errorf("WriteAt(past 2^63): %v", err)
	}
	if err := s.Truncate(Obj(0), -1); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("Truncate(-1): %v", err)
	}
	for name, fn := range map[string]func(layout.Object, int64, int64) error{"Allocate": s.Allocate, "Deallocate": s.Deallocate} {
		if err := errors.Join(fn(Obj(0), -1, 1), fn(Obj(0), 0, 0)); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s(-1): %v", name, err)
		}
		if err := fn(Obj(0), 2, math.MaxInt64-1); !errors.Is(err, store.ErrTooBig) {
			t.Errorf("%s(past 2^63): %v", name, err)
		}
	}
	if _, _, err := s.Seek(Obj(0), -1, true); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("Seek(-1): %v", err)
	}
	wantRead(t, s, Obj(0), 1, math.MaxInt64-1, nil)
}

func usage(t *testing.T, s store.Store) {
	before, err := s.Statfs()
	if err != nil || before.Capacity == 0 || before.Free > before.Capacity {
		t.Fatalf("Statfs = %+v, %v", before, err)
	}
	write(t, s, Obj(0), make([]byte, 100), 0)
}

// allocate reserves room past the end, in a hole and over data, which is all
// the same to who reads.
func (m Maker) allocate(t *testing.T, s store.Store) {
	write(t, s, Obj(0), []byte("data"), 1<<20)
	for _, r := range []struct{ off, n int64 }{{0, 1000}, {0, 8 << 20}, {5 << 20, 1 << 20}, {1 << 20, 2}} {
		err := s.Allocate(Obj(0), r.off, r.n)
		if m.CannotReserve {
			if !errors.Is(err, store.ErrUnsupported) {
				t.Fatalf("Allocate(%d, %d): %v, want ErrUnsupported", r.off, r.n, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("Allocate(%d, %d): %v", r.off, r.n, err)
		}
	}
	wantSize(t, s, Obj(0), 1<<20+4)
	wantRead(t, s, Obj(0), 10, 1<<20-2, []byte("\x00\x00data"))
	write(t, s, Obj(0), []byte("end"), 6<<20)
	wantRead(t, s, Obj(0), 10, 6<<20-2, []byte("\x00\x00end"))
}

func deallocate(t *testing.T, s store.Store) {
	const size = 100_000
	want := bytes.Repeat([]byte{'x'}, size)
	write(t, s, Obj(0), want, 0)
	for _, r := range []struct{ off, n int64 }{{1, 9}, {4096, 8192}, {30_000, 1}, {90_000, 500_000}, {size, 5}, {1 << 40, 1}, {math.MaxInt64 - 1, 1}} {
		if err := s.Deallocate(Obj(0), r.off, r.n); err != nil {
			t.Fatalf("Deallocate(%d, %d): %v", r.off, r.n, err)
		}
		from := min(r.off, size)
		clear(want[from:min(from+r.n, size)])
		wantRead(t, s, Obj(0), size+1, 0, want)
	}
	wantSize(t, s, Obj(0), size)
	if err := s.Remove(Obj(1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Deallocate(Obj(1), 0, 1); !errors.Is(err, store.ErrStale) && err != nil {
		t.Errorf("Deallocate after Remove: %v", err)
	}
}

// seek asks for data and holes of an object that has both: between them may be
// as few as the adapter likes, but data must not be passed over.
func seek(t *testing.T, s store.Store) {
	ask := func(off int64, hole bool) (int64, bool) {
		t.Helper()
		at, found, err := s.Seek(Obj(0), off, hole)
		if err != nil || at < off {
			t.Fatalf("Seek(%d, hole %v) = %d, %v", off, hole, at, err)
		}
		return at, found
	}
	if _, found := ask(0, false); found {
		t.Error("a missing object has data")
	}
	if at, found := ask(7, true); at != 7 || !found {
		t.Errorf("in a missing object the first hole from 7 on is at %d, %v", at, found)
	}
	const first, second = 8 << 20, 16 << 20
	write(t, s, Obj(0), []byte("one"), first)
	write(t, s, Obj(0), []byte("two"), second)
	for off, most := range map[int64]int64{0: first, first: first, first + 3: second, second + 2: second + 2} {
		if at, found := ask(off, false); at > most || !found {
			t.Errorf("data from %d on is found at %d, %v; there is some at %d", off, at, found, most)
		}
	}
	if _, found := ask(second+3, false); found {
		t.Error("there is data past the end")
	}
	for _, off := range []int64{first, second} {
		if at, found := ask(off, true); at < off+3 || at > second+3 || !found {
			t.Errorf("a hole from %d on is found at %d, %v", off, at, found)
		}
	}
}

func (m Maker) wantFiles(t *testing.T, s store.Store, want uint64) {
	t.Helper()
	if m.Counted != nil {
		m.Counted(s)
	}
	if u, err := s.Statfs(); err != nil || u.Files != want {
		t.Errorf("Statfs = %+v, %v; want %d files", u, err, want)
	}
}

// model runs random operations beside a map of byte slices.
func model(t *testing.T, s store.Store) {
	const seed1, seed2, objects, most = 20, 26, 5, 300_000
	rng := rand.New(rand.NewPCG(seed1, seed2))
	var want [objects][]byte
	for step := range 2000 {
		i := rng.IntN(objects)
		off := rng.IntN(most)
		switch rng.IntN(9) {
		case 0, 1, 2, 3:
			p := make([]byte, 1+rng.IntN(20_000))
			for j := range p {
				p[j] = byte(rng.Uint32())
			}
			write(t, s, Obj(i), p, int64(off))
			if grow := off + len(p) - len(want[i]); grow > 0 {
				want[i] = append(want[i], make([]byte, grow)...)
			}
			copy(want[i][off:], p)
		case 4:
			n := rng.IntN(most)
			if err := s.Deallocate(Obj(i), int64(off), int64(n)); err != nil {
				t.Fatalf("step %d: Deallocate: %v", step, err)
			}
			from := min(off, len(want[i]))
			clear(want[i][from:min(from+n, len(want[i]))])
		case 5:
			if err := s.Truncate(Obj(i), int64(off)); err != nil {
				t.Fatalf("step %d: Truncate: %v", step, err)
			}
			want[i] = want[i][:min(off, len(want[i])):min(off, len(want[i]))]
		default:
			n := rng.IntN(most)
			from := min(off, len(want[i]))
			wantRead(t, s, Obj(i), n, int64(off), want[i][from:min(from+n, len(want[i]))])
		}
	}
}

// concurrent has writers with a region and an object of their own each, and
// readers who must never see anything but a whole region.
func concurrent(t *testing.T, s store.Store) {
	const writers, regions, region = 4, 8, 4096
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for r := range regions {
				p := bytes.Repeat([]byte{byte(w + 1)}, region)
				for i := range 3 {
					if _, err := s.WriteAt(Obj(i), p, int64((r*writers+w)*region)); err != nil {
						t.Errorf("WriteAt: %v", err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	for i := range 3 {
		var want []byte
		for range regions {
			for w := range writers {
				want = append(want, bytes.Repeat([]byte{byte(w + 1)}, region)...)
			}
		}
		wantRead(t, s, Obj(i), len(want)+1, 0, want)
	}
}

// removeRace removes objects under writers: none may be there afterwards.
func removeRace(t *testing.T, s store.Store) {
	const objects = 50
	var wg sync.WaitGroup
	for i := range objects {
		started := make(chan struct{})
		wg.Go(func() {
			for n := 0; ; n++ {
				_, err := s.WriteAt(Obj(i), []byte("data"), int64(n))
				if n == 0 {
					close(started)
				}
				if errors.Is(err, store.ErrStale) {
					return
				}
				if err != nil {
					t.Errorf("WriteAt: %v", err)
					return
				}
			}
		})
		wg.Go(func() {
			<-started
			if err := s.Remove(Obj(i)); err != nil {
				t.Errorf("Remove: %v", err)
			}
		})
	}
	wg.Wait()
	for i := range objects {
		wantSize(t, s, Obj(i), 0)
	}
}

func (m Maker) sync(t *testing.T) {
	s := m.Open(t)
	defer func() { _ = s.Close() }()
	before := s.Verifier()
	write(t, s, Obj(0), []byte("data"), 0)
	err := s.Sync(Obj(0))
	switch {
	case !m.CannotSync && (err != nil || s.Verifier() != before):
		t.Errorf("Sync: %v, verifier %x then %x", err, before, s.Verifier())
	case m.CannotSync && (!errors.Is(err, store.ErrIO) || s.Verifier() == before):
		t.Errorf("Sync without a sync: %v, verifier %x then %x; want ErrIO and another verifier", err, before, s.Verifier())
	}
	other := m.Open(t)
	defer func() { _ = other.Close() }()
	if other.Verifier() == s.Verifier() {
		t.Error("two stores with one verifier")
	}
}

func (m Maker) closed(t *testing.T) {
	s := m.Open(t)
	write(t, s, Obj(0), []byte("data"), 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, readErr := s.ReadAt(Obj(0), make([]byte, 1), 0)
	_, writeErr := s.WriteAt(Obj(0), make([]byte, 1), 0)
	_, sizeErr := s.Size(Obj(0))
	_, statErr := s.Statfs()
	_, _, seekErr := s.Seek(Obj(0), 0, false)
	for i, err := range []error{
		readErr, writeErr, sizeErr, statErr, seekErr, s.Allocate(Obj(0), 0, 1), s.Deallocate(Obj(0), 0, 1), s.Sync(Obj(0)), s.Truncate(Obj(0), 0), s.Remove(Obj(0)), s.Close(),
	} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("call %d after Close: %v, want ErrClosed", i, err)
		}
	}
}
