// Package osfs keeps a data server's objects as plain files in a directory of a
// local file system (ext4, XFS).
//
// Its nouns: the root is that directory; it belongs to one process at a time,
// which holds the lock file in it, and it has an identity, made on first use. An
// object's file lies two directories below the root (store.Path). The cache
// holds the files that are open; an I/O pins the one it uses, and only files
// that nobody pins are closed. A flight is one fdatasync on behalf of all
// callers of Sync who came before it began. A tombstone remembers that an
// object was removed, so that a late write does not make it again.
//
// On a failed fsync Linux drops what it could not write and says so once. So the
// first failure changes the write verifier, by which every client with bytes
// that it has not seen committed learns to send them again; a later fsync that
// succeeds proves nothing about the bytes of before.
package osfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"manifold/ds/store"
	"manifold/layout"
)

// Config says where a Store lies and what it may use.
type Config struct {
	// Root is the directory; it is made if it is missing.
	Root string
	// OpenFiles bounds the cache of open files; 0 is 4096. Half of the
	// process's limit on open files bounds it too.
	OpenFiles int
	// Log gets what an administrator must know; nil is silence.
	Log *zap.Logger
}

// Store is a store.Store. Make one with Open.
type Store struct {
	root     string
	log      *zap.Logger
	lock     *os.File
	uuid     string
	disk     string // see diskOf
	cache    *cache
	dirs     dirs
	usage    usage
	verifier verifier
	stop     chan struct{} // closed by Close
	tasks    sync.WaitGroup

	// Replaced by tests, to count and to fail.
	fdatasync, fsync func(*os.File) error
	fallocate        func(f *os.File, mode uint32, off, n int64) error
}

var _ store.Store = (*Store)(nil)

// errMissing: the object has no file. It never leaves this package.
var errMissing = errors.New("osfs: no file")

// Open takes the root for this process and returns its Store. It fails if
// another process holds the root, or if the directory is neither empty nor a
// root of this format.
func Open(cfg Config) (*Store, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	lock, uuid, err := takeRoot(cfg.Root)
	if err != nil {
		return nil, err
	}
	s := &Store{
		root: cfg.Root, log: cfg.Log, lock: lock, uuid: uuid, disk: diskOf(cfg.Root),
		cache:     newCache(openFiles(cfg.OpenFiles)),
		stop:      make(chan struct{}),
		fdatasync: fdatasync,
		fsync:     (*os.File).Sync,
		fallocate: fallocate,
	}
	s.verifier.change()
	s.tasks.Go(s.countUsage)
	return s, nil
}

// openFiles returns the cache's bound: want (0: 4096), or what is left to us of
// RLIMIT_NOFILE when sockets have their half.
func openFiles(want int) int {
	if want <= 0 {
		want = 4096
	}
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) == nil && lim.Cur/2 < uint64(want) {
		want = int(lim.Cur / 2)
	}
	return max(want, 1)
}

// UUID returns the root's identity, 32 hexadecimal digits in the usual groups.
func (s *Store) UUID() string { return s.uuid }

// Verifier implements store.Store.
func (s *Store) Verifier() [8]byte { return s.verifier.get() }

// ReadAt implements store.Store.
func (s *Store) ReadAt(obj layout.Object, p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, store.ErrInvalid
	}
	err = s.with(obj, false, func(_ *file, f *os.File) error {
		var err error
		n, err = f.ReadAt(p, off)
		if err == io.EOF {
			err = nil
		}
		return err
	})
	if errors.Is(err, errMissing) {
		return 0, nil
	}
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
	err = s.with(obj, len(p) > 0, func(o *file, f *os.File) error {
		var err error
		n, err = f.WriteAt(p, off)
		if n > 0 {
			// After the write: a Sync that reads the count before it may sync
			// these bytes once more, never once too few.
			o.writes.Add(1)
		}
		return err
	})
	if errors.Is(err, errMissing) {
		return 0, nil
	}
	return n, classify(err)
}

// Size implements store.Store.
func (s *Store) Size(obj layout.Object) (size int64, err error) {
	err = s.with(obj, false, func(_ *file, f *os.File) error {
		info, err := f.Stat()
		if err == nil {
			size = info.Size()
		}
		return err
	})
	if errors.Is(err, errMissing) || errors.Is(err, store.ErrStale) {
		return 0, nil
	}
	return size, classify(err)
}

// Truncate implements store.Store.
func (s *Store) Truncate(obj layout.Object, size int64) error {
	if size < 0 {
		return store.ErrInvalid
	}
	o, err := s.cache.pin(obj)
	if err != nil {
		return err
	}
	defer s.unpin(o)
	err = s.cut(o, size)
	if err == nil {
		err = s.syncFile(o)
	}
	if errors.Is(err, errMissing) || errors.Is(err, store.ErrStale) {
		return nil
	}
	return classify(err)
}

// cut is Truncate without the sync. It excludes all other I/O on the object,
// so that no write begun before it lands after it.
func (s *Store) cut(o *file, size int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := s.openLocked(o, false); err != nil {
		return err
	}
	info, err := o.f.Stat()
	switch {
	case err != nil:
		return err
	case info.Size() <= size:
		return s.release(o, info.Size())
	}
	o.writes.Add(1)
	return o.f.Truncate(size)
}

// Remove implements store.Store.
func (s *Store) Remove(obj layout.Object) error {
	o, err := s.cache.pin(obj)
	if err != nil {
		return err
	}
	defer s.unpin(o)
	if err := s.unlink(o); err != nil {
		return classify(err)
	}
	return classify(s.syncLeaf(obj))
}

// unlink takes the object's name and closes its file. It waits for I/O on the
// object, and what comes after it finds the object removed.
func (s *Store) unlink(o *file) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.removed {
		return nil
	}
	err := s.usage.removing(o, s.path(o.obj), func() error {
		err := os.Remove(s.path(o.obj))
		if err == nil {
			s.dirs.changed(o.obj)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o.removed = true
	s.cache.bury(o.obj)
	if o.f != nil {
		_ = o.f.Close() // the bytes are gone anyhow
		o.f = nil
	}
	return nil
}

// Statfs implements store.Store.
func (s *Store) Statfs() (store.Usage, error) {
	if s.cache.isClosed() {
		return store.Usage{}, store.ErrClosed
	}
	var st unix.Statfs_t
	if err := unix.Statfs(s.root, &st); err != nil {
		return store.Usage{}, classify(&os.PathError{Op: "statfs", Path: s.root, Err: err})
	}
	used, files := s.usage.get()
	return store.Usage{
		Disk:     s.disk,
		Capacity: st.Blocks * uint64(st.Frsize),
		Free:     st.Bavail * uint64(st.Frsize),
		Used:     used,
		Files:    files,
	}, nil
}

// Close implements store.Store. It waits for I/O that has begun.
func (s *Store) Close() error {
	files, first := s.cache.close()
	if !first {
		return store.ErrClosed
	}
	close(s.stop)
	s.tasks.Wait()
	var errs []error
	for _, o := range files {
		if o.dirty() {
			errs = append(errs, s.syncFile(o))
		}
		errs = append(errs, o.f.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// with runs fn on the open file of obj, which it opens, and makes if create is
// set. Without a file it returns errMissing, for a removed object ErrStale.
func (s *Store) with(obj layout.Object, create bool, fn func(*file, *os.File) error) error {
	o, err := s.cache.pin(obj)
	if err != nil {
		return err
	}
	defer s.unpin(o)
	o.mu.RLock()
	for o.f == nil {
		o.mu.RUnlock()
		o.mu.Lock()
		err := s.openLocked(o, create)
		o.mu.Unlock()
		if err != nil {
			return err
		}
		o.mu.RLock()
	}
	defer o.mu.RUnlock()
	return fn(o, o.f)
}

// openLocked sees to it that o.f is open. The caller holds o.mu.
func (s *Store) openLocked(o *file, create bool) error {
	if o.removed {
		return store.ErrStale
	}
	if o.f != nil {
		return nil
	}
	f, err := os.OpenFile(s.path(o.obj), os.O_RDWR, 0)
	switch {
	case err == nil:
		o.f = f
		o.known.Store(false)
		return s.usage.opened(o)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case !create:
		return errMissing
	}
	return s.create(o)
}

// create makes the object's file and, if need be, its directories.
func (s *Store) create(o *file) error {
	path := s.path(o.obj)
	return s.usage.creating(o, func() error {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			if err := s.dirs.mkdir(o.obj, filepath.Dir(path)); err != nil {
				return err
			}
			f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		}
		if err != nil {
			return err
		}
		s.dirs.changed(o.obj)
		o.f = f
		o.known.Store(false)
		return nil
	})
}

func (s *Store) path(obj layout.Object) string {
	outer, inner, name := store.Path(obj)
	return s.root + "/" + outer + "/" + inner + "/" + name
}

// classify wraps err in the store's error for its cause.
func classify(err error) error {
	var known error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC):
		known = store.ErrNoSpace
	case errors.Is(err, unix.EDQUOT):
		known = store.ErrQuota
	case errors.Is(err, unix.EFBIG):
		known = store.ErrTooBig
	case errors.Is(err, unix.EIO), errors.Is(err, unix.EROFS), errors.Is(err, unix.EUCLEAN):
		known = store.ErrIO
	case errors.Is(err, unix.EOPNOTSUPP):
		known = store.ErrUnsupported
	default:
		return err
	}
	return fmt.Errorf("%w: %w", known, err)
}
