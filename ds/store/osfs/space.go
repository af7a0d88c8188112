package osfs

import (
	"errors"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"manifold/ds/store"
	"manifold/layout"
)

// Allocate implements store.Store.
func (s *Store) Allocate(obj layout.Object, off, n int64) error {
	if err := checkRange(off, n); err != nil || n == 0 {
		return err
	}
	return classify(s.with(obj, true, func(o *file, f *os.File) error {
		err := s.fallocate(f, unix.FALLOC_FL_KEEP_SIZE, off, n)
		o.writes.Add(1) // even if it failed: part of it may be there
		return err
	}))
}

// Deallocate implements store.Store. It excludes all other I/O on the object,
// so that no write extends it while it is told its own end.
func (s *Store) Deallocate(obj layout.Object, off, n int64) error {
	if err := checkRange(off, n); err != nil || n == 0 {
		return err
	}
	o, err := s.cache.pin(obj)
	if err != nil {
		return err
	}
	defer s.unpin(o)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := s.openLocked(o, false); errors.Is(err, errMissing) {
		return nil
	} else if err != nil {
		return classify(err)
	}
	info, err := o.f.Stat()
	if err != nil {
		return err
	}
	end := info.Size()
	if off < end {
		o.writes.Add(1)
		if err := s.punch(o.f, off, min(n, end-off)); err != nil {
			return classify(err)
		}
	}
	if n <= end-off {
		return nil
	}
	return classify(s.release(o, end))
}

// release gives back what was reserved past the end of o. Nobody relies on it,
// so it is not synced. o.mu is held for writing.
func (s *Store) release(o *file, end int64) error {
	defer s.usage.changed(o)
	return o.f.Truncate(end)
}

// punch makes a hole, or writes zeros where the file system has no holes.
func (s *Store) punch(f *os.File, off, n int64) error {
	err := s.fallocate(f, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	if !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	zeros := make([]byte, min(n, 1<<20))
	for n > 0 {
		part := zeros[:min(n, int64(len(zeros)))]
		if _, err := f.WriteAt(part, off); err != nil {
			return err
		}
		off, n = off+int64(len(part)), n-int64(len(part))
	}
	return nil
}

// Seek implements store.Store. The file's own position, which lseek(2) moves,
// is used by nobody.
func (s *Store) Seek(obj layout.Object, off int64, hole bool) (at int64, found bool, err error) {
	if off < 0 {
		return 0, false, store.ErrInvalid
	}
	at, found = off, hole // if there is no object, or it ends before off
	whence := unix.SEEK_DATA
	if hole {
		whence = unix.SEEK_HOLE
	}
	err = s.with(obj, false, func(_ *file, f *os.File) error {
		got, err := f.Seek(off, whence)
		switch {
		case errors.Is(err, unix.EINVAL): // a file system that has no holes
			got, err = f.Seek(0, io.SeekEnd)
			if err == nil && got > off {
				found = true
				if hole {
					at = got
				}
			}
		case errors.Is(err, unix.ENXIO): // past the end, or no data
			err = nil
		case err == nil:
			at, found = got, true
		}
		return err
	})
	if errors.Is(err, errMissing) {
		err = nil
	}
	return at, found, classify(err)
}

// checkRange refuses what is no range of a file.
func checkRange(off, n int64) error {
	switch {
	case off < 0 || n < 0:
		return store.ErrInvalid
	case off > math.MaxInt64-n:
		return store.ErrTooBig
	}
	return nil
}

// fallocate is fallocate(2).
func fallocate(f *os.File, mode uint32, off, n int64) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var sysErr error
	err = raw.Control(func(fd uintptr) {
		for {
			if sysErr = unix.Fallocate(int(fd), mode, off, n); sysErr != unix.EINTR {
				return
			}
		}
	})
	if err == nil && sysErr != nil {
		err = &os.PathError{Op: "fallocate", Path: f.Name(), Err: sysErr}
	}
	return err
}
