package osfs

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"manifold/ds/store"
	"manifold/layout"
)

// Sync implements store.Store.
func (s *Store) Sync(obj layout.Object) error {
	o, err := s.cache.pin(obj)
	if err != nil {
		return err
	}
	defer s.unpin(o)
	err = s.syncFile(o)
	if errors.Is(err, errMissing) {
		return nil
	}
	return classify(err)
}

// syncFile waits for a flight over o that began after now. The caller has o
// pinned, or is alone.
func (s *Store) syncFile(o *file) error {
	if o.known.Load() && !o.dirty() {
		return nil
	}
	return o.flight.join(func() error { return s.fly(o) })
}

// fly is one flight: data, then names. If anything fails, the verifier is
// another one before anybody can have a success that it might be taken for.
func (s *Store) fly(o *file) error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.f == nil {
		o.mu.RUnlock()
		o.mu.Lock()
		err := s.openLocked(o, false)
		o.mu.Unlock()
		o.mu.RLock()
		if err != nil {
			return err
		}
	}
	if o.removed || o.f == nil {
		return store.ErrStale
	}
	covered := o.writes.Load()
	err := s.fdatasync(o.f)
	if err == nil {
		err = s.dirs.sync(s, o.obj)
	}
	o.synced.Store(covered)
	o.known.Store(err == nil)
	if err != nil {
		s.verifier.change()
		s.log.Error("sync of an object failed: clients will send again what was not committed; check the disk",
			zap.Stringer("object", o.obj), zap.String("path", s.path(o.obj)), zap.Error(err))
		return classify(errors.Join(store.ErrIO, err))
	}
	s.usage.changed(o)
	return nil
}

// syncLeaf makes the removal of obj's name durable.
func (s *Store) syncLeaf(obj layout.Object) error {
	_, leaf := leafOf(obj)
	err := s.dirs.leaves[leaf].sync(s, filepath.Dir(s.path(obj)))
	if err != nil {
		return errors.Join(store.ErrIO, err)
	}
	return nil
}

// fdatasync is fdatasync(2): bytes and length of f, not its times.
func fdatasync(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var sysErr error
	err = raw.Control(func(fd uintptr) {
		for {
			if sysErr = unix.Fdatasync(int(fd)); sysErr != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if sysErr != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: sysErr}
	}
	return nil
}

// flight lets all callers who came before a sync began share it.
type flight struct {
	lead chan struct{} // holds one while somebody flies

	mu   sync.Mutex
	next *ticket // boards now; nil if nobody waits
}

type ticket struct {
	flown bool // guarded by flight.lead, like err
	err   error
}

func newFlight() flight { return flight{lead: make(chan struct{}, 1)} }

// join returns the result of a call of fly that began after join was called.
func (g *flight) join(fly func() error) error {
	g.mu.Lock()
	if g.next == nil {
		g.next = new(ticket)
	}
	t := g.next
	g.mu.Unlock()

	g.lead <- struct{}{}
	defer func() { <-g.lead }()
	if !t.flown {
		g.mu.Lock()
		g.next = nil // t: nobody else can have flown it
		g.mu.Unlock()
		t.err = fly()
		t.flown = true
	}
	return t.err
}

// verifier is the write verifier: random, so that no two openings share one.
type verifier struct{ v atomic.Uint64 }

func (v *verifier) get() (b [8]byte) {
	binary.BigEndian.PutUint64(b[:], v.v.Load())
	return b
}

func (v *verifier) change() {
	old := v.v.Load()
	for v.v.Load() == old {
		var b [8]byte
		rand.Read(b[:]) // never fails (crypto/rand)
		v.v.Store(binary.BigEndian.Uint64(b[:]))
	}
}

// dirs knows which directories have names in them that are not durable yet. A
// directory that this process has not synced counts as one: the process before
// may have been killed between making a name and syncing it.
type dirs struct {
	leaves [1 << 16]dir // outer<<8 | inner
	outers [1 << 8]dir
	root   dir
}

func leafOf(obj layout.Object) (outer, leaf int) {
	o, i, _ := store.Path(obj)
	n, _ := strconv.ParseUint(o+i, 16, 16)
	return int(n >> 8), int(n)
}

// changed notes that obj's name was made or removed.
func (d *dirs) changed(obj layout.Object) {
	_, leaf := leafOf(obj)
	_ = d.leaves[leaf].change(func() error { return nil })
}

// mkdir makes the directory that obj's file lies in, path, and the one above.
func (d *dirs) mkdir(obj layout.Object, path string) error {
	outer, _ := leafOf(obj)
	err := d.root.change(func() error { return os.Mkdir(filepath.Dir(path), 0o700) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err = d.outers[outer].change(func() error { return os.Mkdir(path, 0o700) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// sync makes the name of obj and those of its directories durable.
func (d *dirs) sync(s *Store, obj layout.Object) error {
	outer, leaf := leafOf(obj)
	path := filepath.Dir(s.path(obj))
	if err := d.leaves[leaf].sync(s, path); err != nil {
		return err
	}
	if err := d.outers[outer].sync(s, filepath.Dir(path)); err != nil {
		return err
	}
	return d.root.sync(s, s.root)
}

// dir counts the changes of one directory, and how many of them are durable.
type dir struct {
	names  sync.Mutex // held over a change and its counting: whoever sees the one sees the other
	made   uint64
	synced uint64

	fsync sync.Mutex // held over the fsync, so that those who wait find it done
}

// change counts a change that make makes, unless it fails.
func (d *dir) change(make func() error) error {
	d.names.Lock()
	defer d.names.Unlock()
	err := make()
	if err == nil {
		d.made++
	}
	return err
}

// counts returns how many changes there are and how many are durable. There is
// one that nobody counted: what the process before us may have left.
func (d *dir) counts() (made, synced uint64) {
	d.names.Lock()
	defer d.names.Unlock()
	return d.made + 1, d.synced
}

// sync returns when the changes made so far are durable.
func (d *dir) sync(s *Store, path string) error {
	mine, synced := d.counts()
	if synced >= mine {
		return nil
	}
	d.fsync.Lock()
	defer d.fsync.Unlock()
	made, synced := d.counts()
	if synced >= mine {
		return nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no directory, no name in it
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if err := s.fsync(f); err != nil {
		return err
	}
	d.names.Lock()
	d.synced = made
	d.names.Unlock()
	return nil
}
