package osfs

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"manifold/ds/store"
	"manifold/ds/store/storetest"
)

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func suite(openFiles int) storetest.Maker {
	return storetest.Maker{
		Open:    func(t *testing.T) store.Store { return open(t, Config{Root: t.TempDir(), OpenFiles: openFiles}) },
		Counted: func(s store.Store) { s.(*Store).tasks.Wait() },
	}
}

func TestSuite(t *testing.T) { suite(0).Run(t) }

// TestSuiteFewFiles runs the suite with a cache that closes files all the time.
func TestSuiteFewFiles(t *testing.T) { suite(1).Run(t) }

func TestReopen(t *testing.T) {
	root := filepath.Join(t.TempDir(), "made", "on", "the", "way")
	s := open(t, Config{Root: root})
	uuid, verf := s.UUID(), s.Verifier()
	if _, err := s.WriteAt(storetest.Obj(0), []byte("kept"), 5); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{Root: root})
	if s.UUID() != uuid || len(uuid) != 36 {
		t.Errorf("uuid %q then %q", uuid, s.UUID())
	}
	if s.Verifier() == verf {
		t.Error("the verifier outlived the process")
	}
	p := make([]byte, 20)
	if n, err := s.ReadAt(storetest.Obj(0), p, 0); err != nil || string(p[:n]) != "\x00\x00\x00\x00\x00kept" {
		t.Errorf("read %q, %v", p[:n], err)
	}
	s.tasks.Wait()
	if u, err := s.Statfs(); err != nil || u.Files != 1 || u.Used == 0 {
		t.Errorf("Statfs = %+v, %v; want the file of before counted", u, err)
	}
}

func TestRootIsExclusive(t *testing.T) {
	root := t.TempDir()
	open(t, Config{Root: root})
	if _, err := Open(Config{Root: root}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("second Open: %v", err)
	}
}

func TestRootIsOurs(t *testing.T) {
	for name, prepare := range map[string]func(root string) error{
		"other files":      func(root string) error { return os.WriteFile(filepath.Join(root, "thesis.tex"), nil, 0o600) },
		"damaged identity": func(root string) error { return os.WriteFile(filepath.Join(root, identityName), []byte("uuid"), 0o600) },
		"later format": func(root string) error {
			return os.WriteFile(filepath.Join(root, identityName), []byte("manifold data server root, format 2\nuuid 0\n"), 0o600)
		},
		"root is a file": func(root string) error { return errors.Join(os.Remove(root), os.WriteFile(root, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "root")
			if err := errors.Join(os.Mkdir(root, 0o700), prepare(root)); err != nil {
				t.Fatal(err)
			}
			if s, err := Open(Config{Root: root}); err == nil {
				s.Close()
				t.Error("Open took it")
			}
		})
	}
}

func TestCacheIsBounded(t *testing.T) {
	const limit, objects = 8, 100
	s := open(t, Config{Root: t.TempDir(), OpenFiles: limit})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			for range 500 {
				i := rng.IntN(objects)
				if _, err := s.WriteAt(storetest.Obj(i), []byte{byte(i)}, int64(i)); err != nil {
					t.Errorf("WriteAt: %v", err)
				}
			}
		})
	}
	wg.Wait()
	s.cache.mu.Lock()
	if n := len(s.cache.files); n > limit || s.cache.lru.Len() != n || s.cache.pinned != 0 {
		t.Errorf("%d files open, %d listed, %d pinned; limit %d", n, s.cache.lru.Len(), s.cache.pinned, limit)
	}
	s.cache.mu.Unlock()
	for i := range objects {
		size, err := s.Size(storetest.Obj(i))
		if err != nil || size != 0 && size != int64(i)+1 {
			t.Errorf("object %d: size %d, %v", i, size, err)
		}
	}
}

// fdsOf counts this process's descriptors below dir.
func fdsOf(t *testing.T, dir string) (n int) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n
}

func TestNoDescriptorLeaks(t *testing.T) {
	root := t.TempDir()
	s := open(t, Config{Root: root, OpenFiles: 4})
	for i := range 50 {
		if _, err := s.WriteAt(storetest.Obj(i), []byte("x"), 0); err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if err := s.Remove(storetest.Obj(i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.ReadAt(storetest.Obj(i+1000), make([]byte, 1), 0); err != nil {
			t.Fatal(err)
		}
	}
	s.tasks.Wait()
	if n := fdsOf(t, root); n > 4+1 {
		t.Errorf("%d descriptors open; want 4 files and the lock", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := fdsOf(t, root); n != 0 {
		t.Errorf("%d descriptors open after Close", n)
	}
}

func TestRemovedBytesAreFreed(t *testing.T) {
	s := open(t, Config{Root: t.TempDir()})
	s.tasks.Wait()
	if _, err := s.WriteAt(storetest.Obj(0), make([]byte, 1<<20), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(storetest.Obj(0)); err != nil {
		t.Fatal(err)
	}
	if u, err := s.Statfs(); err != nil || u.Used < 1<<20 || u.Used > 1<<20+64<<10 {
		t.Errorf("Statfs = %+v, %v; want 1 MiB used", u, err)
	}
	if err := s.Truncate(storetest.Obj(0), 512<<10); err != nil {
		t.Fatal(err)
	}
	if u, err := s.Statfs(); err != nil || u.Used < 512<<10 || u.Used > 512<<10+64<<10 {
		t.Errorf("Statfs = %+v, %v; want 512 KiB used", u, err)
	}
	if err := s.Remove(storetest.Obj(0)); err != nil {
		t.Fatal(err)
	}
	if u, err := s.Statfs(); err != nil || u.Used != 0 || u.Files != 0 {
		t.Errorf("Statfs = %+v, %v; want nothing used", u, err)
	}
}

func TestTombstonesAreBounded(t *testing.T) {
	g := newGraves(3)
	for i := range 10 {
		g.add(storetest.Obj(i))
		g.add(storetest.Obj(i))
		if !g.has(storetest.Obj(i)) || g.has(storetest.Obj(i-3)) {
			t.Errorf("after %d: has %v, has the third before %v", i, g.has(storetest.Obj(i)), g.has(storetest.Obj(i-3)))
		}
	}
	if len(g.set) != 3 || len(g.ring) != 3 {
		t.Errorf("%d and %d tombstones", len(g.set), len(g.ring))
	}
}

func TestClassify(t *testing.T) {
	for errno, want := range map[error]error{
		unix.ENOSPC: store.ErrNoSpace, unix.EDQUOT: store.ErrQuota, unix.EFBIG: store.ErrTooBig,
		unix.EIO: store.ErrIO, unix.EROFS: store.ErrIO,
	} {
		err := classify(&os.PathError{Op: "write", Path: "x", Err: errno})
		if !errors.Is(err, want) || !errors.Is(err, errno) {
			t.Errorf("%v became %v", errno, err)
		}
	}
	if err := classify(unix.EMFILE); err != unix.EMFILE {
		t.Errorf("EMFILE became %v", err)
	}
}

// TestTooBigForTheFileSystem: ext4 refuses an offset that XFS may take.
func TestTooBigForTheFileSystem(t *testing.T) {
	s := open(t, Config{Root: t.TempDir()})
	_, err := s.WriteAt(storetest.Obj(0), []byte("x"), 1<<62)
	if err != nil && !errors.Is(err, store.ErrTooBig) {
		t.Errorf("WriteAt(2^62): %v", err)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	for _, content := range []string{"first", "second, longer", ""} {
		if err := WriteFile(dir, "f", []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != content {
			t.Errorf("%q, %v; want %q", got, err, content)
		}
	}
	if err := WriteFile(filepath.Join(dir, "missing"), "f", nil); err == nil {
		t.Error("wrote into a directory that is not there")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files left behind", len(entries))
	}
}

// hooks counts and fails the syncs of a Store.
type hooks struct {
	data, dirs atomic.Int32
	fail       atomic.Bool
}

func (h *hooks) install(s *Store) {
	s.fdatasync = func(f *os.File) error {
		h.data.Add(1)
		if h.fail.Load() {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: unix.EIO}
		}
		return fdatasync(f)
	}
	s.fsync = func(f *os.File) error {
		h.dirs.Add(1)
		if h.fail.Load() {
			return &os.PathError{Op: "fsync", Path: f.Name(), Err: unix.EIO}
		}
		return f.Sync()
	}
}

func (h *hooks) want(t *testing.T, what string, data, dirs int32) {
	t.Helper()
	if d, n := h.data.Swap(0), h.dirs.Swap(0); d != data || n != dirs {
		t.Errorf("%s: %d fdatasyncs and %d fsyncs of directories; want %d and %d", what, d, n, data, dirs)
	}
}

func TestSyncDoesWhatIsNeeded(t *testing.T) {
	s := open(t, Config{Root: t.TempDir()})
	var h hooks
	h.install(s)
	do := func(what string, data, dirs int32, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		h.want(t, what, data, dirs)
	}
	write := func(i int) {
		t.Helper()
		if _, err := s.WriteAt(storetest.Obj(i), bytes.Repeat([]byte("x"), 100), 0); err != nil {
			t.Fatal(err)
		}
	}
	write(0)
	do("first object", 1, 3, s.Sync(storetest.Obj(0)))
	do("synced already", 0, 0, s.Sync(storetest.Obj(0)))
	write(0)
	do("old object", 1, 0, s.Sync(storetest.Obj(0)))
	write(1)
	do("new object in an old directory", 1, 1, s.Sync(storetest.Obj(1)))
	write(1000)
	do("new directory", 1, 3, s.Sync(storetest.Obj(1000)))
	do("nothing to cut", 0, 0, s.Truncate(storetest.Obj(0), 200))
	do("cut", 1, 0, s.Truncate(storetest.Obj(0), 50))
	do("remove", 0, 1, s.Remove(storetest.Obj(0)))
	do("removed already", 0, 0, s.Remove(storetest.Obj(0)))
}

// TestSyncAfterRestart: what a killed process left unsynced is synced by the
// next one, names included.
func TestSyncAfterRestart(t *testing.T) {
	root := t.TempDir()
	s := open(t, Config{Root: root})
	if _, err := s.WriteAt(storetest.Obj(0), []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{Root: root})
	var h hooks
	h.install(s)
	if err := s.Sync(storetest.Obj(0)); err != nil {
		t.Fatal(err)
	}
	h.want(t, "object of the process before", 1, 3)
}

func TestFailedSyncChangesTheVerifier(t *testing.T) {
	s := open(t, Config{Root: t.TempDir()})
	var h hooks
	h.install(s)
	if _, err := s.WriteAt(storetest.Obj(0), []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	before := s.Verifier()
	h.fail.Store(true)
	if err := s.Sync(storetest.Obj(0)); !errors.Is(err, store.ErrIO) {
		t.Errorf("Sync: %v, want ErrIO", err)
	}
	after := s.Verifier()
	if after == before {
		t.Error("the verifier did not change")
	}
	h.fail.Store(false)
	h.data.Store(0)
	if err := s.Sync(storetest.Obj(0)); err != nil {
		t.Errorf("Sync after the failure: %v", err)
	}
	if h.data.Load() != 1 {
		t.Error("a Sync after a failed one did not sync")
	}
	if s.Verifier() != after {
		t.Error("the verifier changed again, or back")
	}
}

// TestFailedChangesAreDoneAgain: a cut, and a removal, whose sync fails are not
// taken for done when they are asked for again.
func TestFailedChangesAreDoneAgain(t *testing.T) {
	s := open(t, Config{Root: t.TempDir()})
	var h hooks
	h.install(s)
	if _, err := s.WriteAt(storetest.Obj(0), []byte("0123456789"), 0); err != nil {
		t.Fatal(err)
	}
	for name, op := range map[string]func() error{
		"Truncate": func() error { return s.Truncate(storetest.Obj(0), 3) },
		"Remove":   func() error { return s.Remove(storetest.Obj(1)) },
	} {
		if _, err := s.WriteAt(storetest.Obj(1), []byte("x"), 0); err != nil && !errors.Is(err, store.ErrStale) {
			t.Fatal(err)
		}
		h.fail.Store(true)
		if err := op(); !errors.Is(err, store.ErrIO) {
			t.Errorf("%s: %v, want ErrIO", name, err)
		}
		h.fail.Store(false)
		h.data.Store(0)
		h.dirs.Store(0)
		if err := op(); err != nil {
			t.Errorf("%s again: %v", name, err)
		}
		if h.data.Load()+h.dirs.Load() == 0 {
			t.Errorf("%s again did not sync", name)
		}
	}
}

// TestSyncsAreGrouped: all who come while a flight is under way share the next.
func TestSyncsAreGrouped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFlight()
		began, land := make(chan int), make(chan error)
		flights := 0
		fly := func() error {
			flights++
			began <- flights
			return <-land
		}
		boom := errors.New("boom")
		go func() {
			if err := g.join(fly); err != nil {
				t.Errorf("first: %v", err)
			}
		}()
		<-began
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := g.join(fly); err != boom {
					t.Errorf("others: %v", err)
				}
			})
		}
		synctest.Wait() // all others wait
		land <- nil
		if n := <-began; n != 2 {
			t.Errorf("flight %d", n)
		}
		land <- boom
		wg.Wait()
		if flights != 2 {
			t.Errorf("%d flights for 11 callers", flights)
		}
	})
}

// TestEvictionSyncs: a file with unsynced bytes is not closed before they are
// synced, and if that fails, the verifier says so.
func TestEvictionSyncs(t *testing.T) {
	s := open(t, Config{Root: t.TempDir(), OpenFiles: 1})
	var h hooks
	h.install(s)
	h.fail.Store(true)
	before := s.Verifier()
	for i := range 2 {
		if _, err := s.WriteAt(storetest.Obj(i), []byte("x"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if h.data.Load() == 0 || s.Verifier() == before {
		t.Errorf("%d syncs, verifier %x then %x", h.data.Load(), before, s.Verifier())
	}
	h.fail.Store(false)
}
