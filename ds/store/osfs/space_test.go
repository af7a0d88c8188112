package osfs

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"manifold/ds/store"
	"manifold/ds/store/storetest"
	"manifold/layout"
)

// reserved is what the object's file takes on disk.
func reserved(t *testing.T, s *Store, obj layout.Object) int64 {
	t.Helper()
	info, err := os.Stat(s.path(obj))
	if err != nil {
		t.Fatal(err)
	}
	return allocated(info)
}

// TestReserve: room past the end of an object is taken, counted, and given back
// by whatever shows that nobody wants it any more.
func TestReserve(t *testing.T) {
	const most = 4 << 20
	giveBack := map[string]func(*Store, layout.Object) error{
		"Truncate":           func(s *Store, obj layout.Object) error { return s.Truncate(obj, 100) },
		"Truncate past it":   func(s *Store, obj layout.Object) error { return s.Truncate(obj, 1<<20) },
		"Deallocate":         func(s *Store, obj layout.Object) error { return s.Deallocate(obj, 4096, most) },
		"Deallocate, beyond": func(s *Store, obj layout.Object) error { return s.Deallocate(obj, 1<<60, 1) },
	}
	for name, fn := range giveBack {
		t.Run(name, func(t *testing.T) {
			s, obj := open(t, Config{Root: t.TempDir()}), storetest.Obj(0)
			s.tasks.Wait()
			if _, err := s.WriteAt(obj, make([]byte, 100), 0); err != nil {
				t.Fatal(err)
			}
			if err := s.Allocate(obj, 0, most); err != nil {
				t.Fatal(err)
			}
			if err := s.Sync(obj); err != nil {
				t.Fatal(err)
			}
			if got := reserved(t, s, obj); got < most {
				t.Fatalf("%d bytes are reserved, want %d", got, most)
			}
			if used, _ := s.usage.get(); used < most {
				t.Errorf("%d bytes are counted, want %d", used, most)
			}
			if err := fn(s, obj); err != nil {
				t.Fatal(err)
			}
			if got := reserved(t, s, obj); got >= most/2 {
				t.Errorf("%d bytes are still reserved", got)
			}
			if used, _ := s.usage.get(); used >= most/2 {
				t.Errorf("%d bytes are still counted", used)
			}
		})
	}
}

// TestHole: a hole costs no room, where the file system can make one.
func TestHole(t *testing.T) {
	const size = 4 << 20
	s, obj := open(t, Config{Root: t.TempDir()}), storetest.Obj(0)
	if _, err := s.WriteAt(obj, make([]byte, size), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Deallocate(obj, 1<<20, 2<<20); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(obj); err != nil {
		t.Fatal(err)
	}
	if got := reserved(t, s, obj); got > size-(2<<20)+(64<<10) {
		t.Errorf("%d bytes are taken, want %d", got, size-(2<<20))
	}
	for _, c := range []struct {
		off  int64
		hole bool
		want int64
	}{{0, true, 1 << 20}, {1 << 20, false, 3 << 20}, {3 << 20, true, size}} {
		if at, found, err := s.Seek(obj, c.off, c.hole); at != c.want || !found || err != nil {
			t.Errorf("Seek(%d, hole %v) = %d, %v, %v; want %d", c.off, c.hole, at, found, err, c.want)
		}
	}
}

// TestNoFallocate: where the file system has no holes, zeros are written.
func TestNoFallocate(t *testing.T) {
	m := suite(0)
	m.CannotReserve = true
	inner := m.Open
	m.Open = func(t *testing.T) store.Store {
		s := inner(t).(*Store)
		s.fallocate = func(*os.File, uint32, int64, int64) error { return unix.EOPNOTSUPP }
		return s
	}
	m.Run(t)
}
