// Package billyfs keeps a data server's objects in any go-billy file system:
// in memory for tests, or behind whatever else has an adapter for go-billy.
//
// Its one noun is the Store. It is the slow path: one lock for all objects, an
// open and a close for each call, and every removal remembered. go-billy has no sync in its interface, so Sync
// works only where the files happen to have one, and fails everywhere else: a
// Store that cannot keep bytes says so.
package billyfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"sync"
	"syscall"

	"github.com/go-git/go-billy/v5"

	"manifold/ds/store"
	"manifold/layout"
)

// ErrNoSync is why Sync fails on a file system whose files have no Sync method.
var ErrNoSync = errors.New("billyfs: this file system cannot sync")

// Store is a store.Store over a go-billy file system. Make one with New.
type Store struct {
	fs       billy.Filesystem
	capacity uint64

	mu       sync.RWMutex
	verifier [8]byte
	removed  map[layout.Object]struct{}
	closed   bool
}

var _ store.Store = (*Store)(nil)

// New returns a Store over fsys, which nobody else may change. go-billy cannot
// tell how large a file system is: capacity, in bytes, is what Statfs says and
// what WriteAt does not check.
func New(fsys billy.Filesystem, capacity uint64) *Store {
	s := &Store{fs: fsys, capacity: capacity, removed: make(map[layout.Object]struct{})}
	rand.Read(s.verifier[:]) // never fails (crypto/rand)
	return s
}

// syncer is what files have that can be synced, like those of package os.
type syncer interface{ Sync() error }

// Verifier implements store.Store.
func (s *Store) Verifier() [8]byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.verifier
}

// ReadAt implements store.Store.
func (s *Store) ReadAt(obj layout.Object, p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, store.ErrInvalid
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	err = s.with(obj, os.O_RDONLY, func(f billy.File) error {
		n, err = io.ReadFull(io.NewSectionReader(f, off, int64(len(p))), p)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = nil
		}
		return err
	})
	return n, classify(err)
}

// WriteAt implements store.Store.
func (s *Store) WriteAt(obj layout.Object, p []byte, off int64) (n int, err error) {
	switch {
	case off < 0:
		return 0, store.ErrInvalid
	case off > math.MaxInt64-int64(len(p)):
		return 0, store.ErrTooBig
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) == 0 { // some file systems would extend the file
		return 0, s.with(obj, os.O_RDONLY, func(billy.File) error { return nil })
	}
	if err := s.fs.MkdirAll(path.Dir(s.path(obj)), 0o700); err != nil {
		return 0, classify(err)
	}
	err = s.with(obj, os.O_RDWR|os.O_CREATE, func(f billy.File) error {
		if _, err := f.Seek(off, io.SeekStart); err != nil {
			return err
		}
		n, err = f.Write(p)
		return err
	})
	return n, classify(err)
}

// Sync implements store.Store.
func (s *Store) Sync(obj layout.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sync(obj)
}

// sync is Sync for a caller who holds mu.
func (s *Store) sync(obj layout.Object) error {
	err := s.with(obj, os.O_RDWR, func(f billy.File) error {
		can, ok := f.(syncer)
		if !ok {
			return ErrNoSync
		}
		return can.Sync()
	})
	if err != nil && !errors.Is(err, store.ErrStale) && !errors.Is(err, store.ErrClosed) {
		rand.Read(s.verifier[:])
		return fmt.Errorf("%w: %w", store.ErrIO, err)
	}
	return err
}

// Truncate implements store.Store, except that on a file system that cannot
// sync, the cut is no more durable than everything else there.
func (s *Store) Truncate(obj layout.Object, size int64) error {
	if size < 0 {
		return store.ErrInvalid
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.with(obj, os.O_RDWR, func(f billy.File) error {
		end, err := f.Seek(0, io.SeekEnd)
		if err != nil || end <= size {
			return err
		}
		if err := f.Truncate(size); err != nil {
			return err
		}
		if can, ok := f.(syncer); ok {
			return can.Sync()
		}
		return nil
	})
	if errors.Is(err, store.ErrStale) {
		return nil
	}
	return classify(err)
}

// Remove implements store.Store, with the exception that Truncate names.
func (s *Store) Remove(obj layout.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	if err := s.fs.Remove(s.path(obj)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return classify(err)
	}
	s.removed[obj] = struct{}{}
	return nil
}

// Allocate implements store.Store: go-billy knows no reserved room.
func (s *Store) Allocate(obj layout.Object, off, n int64) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.closed:
		return store.ErrClosed
	case off < 0 || n < 0:
		return store.ErrInvalid
	case off > math.MaxInt64-n:
		return store.ErrTooBig
	}
	return store.ErrUnsupported
}

// Deallocate implements store.Store: it writes zeros.
func (s *Store) Deallocate(obj layout.Object, off, n int64) error {
	switch {
	case off < 0 || n < 0:
		return store.ErrInvalid
	case off > math.MaxInt64-n:
		return store.ErrTooBig
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return classify(s.with(obj, os.O_RDWR, func(f billy.File) error {
		end, err := f.Seek(0, io.SeekEnd)
		if err != nil || off >= end {
			return err
		}
		if _, err := f.Seek(off, io.SeekStart); err != nil {
			return err
		}
		for n = min(n, end-off); n > 0; {
			part := make([]byte, min(n, 1<<20))
			if _, err := f.Write(part); err != nil {
				return err
			}
			n -= int64(len(part))
		}
		return nil
	}))
}

// Seek implements store.Store: all is data, up to the end.
func (s *Store) Seek(obj layout.Object, off int64, hole bool) (at int64, found bool, err error) {
	if off < 0 {
		return 0, false, store.ErrInvalid
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var end int64
	err = s.with(obj, os.O_RDONLY, func(f billy.File) error {
		end, err = f.Seek(0, io.SeekEnd)
		return err
	})
	if hole {
		return max(off, end), true, classify(err)
	}
	return off, off < end, classify(err)
}

// Size implements store.Store.
func (s *Store) Size(obj layout.Object) (size int64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	err = s.with(obj, os.O_RDONLY, func(f billy.File) error {
		size, err = f.Seek(0, io.SeekEnd)
		return err
	})
	if errors.Is(err, store.ErrStale) {
		return 0, nil
	}
	return size, classify(err)
}

// Statfs implements store.Store. It walks the whole file system.
func (s *Store) Statfs() (store.Usage, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return store.Usage{}, store.ErrClosed
	}
	u := store.Usage{Capacity: s.capacity}
	if err := s.count("/", &u); err != nil {
		return store.Usage{}, classify(err)
	}
	u.Free = u.Capacity - min(u.Used, u.Capacity)
	return u, nil
}

// count adds the objects in dir and below to u. Its depth is that of Path.
func (s *Store) count(dir string, u *store.Usage) error {
	infos, err := s.fs.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	for _, info := range infos {
		if info.IsDir() {
			if err := s.count(path.Join(dir, info.Name()), u); err != nil {
				return err
			}
		} else if _, ok := store.ParseName(info.Name()); ok {
			u.Files++
			u.Used += uint64(info.Size())
		}
	}
	return nil
}

// Close implements store.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	s.closed = true
	return nil
}

// with runs fn on the file of obj opened with flag; if there is none and flag
// does not make one, it does nothing. The caller holds mu.
func (s *Store) with(obj layout.Object, flag int, fn func(billy.File) error) error {
	if s.closed {
		return store.ErrClosed
	}
	if _, gone := s.removed[obj]; gone {
		return store.ErrStale
	}
	f, err := s.fs.OpenFile(s.path(obj), flag, 0o600)
	if errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	err = fn(f)
	return errors.Join(err, f.Close())
}

func (s *Store) path(obj layout.Object) string {
	outer, inner, name := store.Path(obj)
	return path.Join("/", outer, inner, name)
}

// classify wraps err in the store's error for its cause.
func classify(err error) error {
	for _, c := range []struct{ cause, known error }{
		{syscall.ENOSPC, store.ErrNoSpace},
		{syscall.EDQUOT, store.ErrQuota},
		{syscall.EFBIG, store.ErrTooBig},
		{syscall.EIO, store.ErrIO},
		{billy.ErrReadOnly, store.ErrIO},
	} {
		if errors.Is(err, c.cause) {
			return fmt.Errorf("%w: %w", c.known, err)
		}
	}
	return err
}
