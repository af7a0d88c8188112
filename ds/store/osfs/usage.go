package osfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"manifold/ds/store"
)

// usage counts the objects and the bytes that are allocated to them. After Open
// a walk counts leaf directory by leaf directory; a change in a directory that
// the walk has not come to yet is left for it to find.
type usage struct {
	walk   sync.RWMutex // held for writing while the walk counts one leaf
	walked [1 << 16]bool
	bytes  atomic.Int64
	files  atomic.Int64
}

// blockSize is the unit of st_blocks (stat(2)), whatever the file system's is.
const blockSize = 512

func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * blockSize
	}
	return info.Size()
}

func (u *usage) get() (bytes, files uint64) {
	return uint64(max(u.bytes.Load(), 0)), uint64(max(u.files.Load(), 0))
}

// opened notes what the file of o takes, which is counted already or will be.
// The caller of this and the methods below is alone with o, or flies it.
func (u *usage) opened(o *file) error {
	u.walk.RLock()
	defer u.walk.RUnlock()
	info, err := o.f.Stat()
	if err == nil {
		o.counted = allocated(info)
	}
	return err
}

// creating counts the file that make makes for o.
func (u *usage) creating(o *file, make func() error) error {
	u.walk.RLock()
	defer u.walk.RUnlock()
	if err := make(); err != nil {
		return err
	}
	o.counted = 0
	if _, leaf := leafOf(o.obj); u.walked[leaf] {
		u.files.Add(1)
	}
	return nil
}

// changed counts what o has grown or shrunk by.
func (u *usage) changed(o *file) {
	u.walk.RLock()
	defer u.walk.RUnlock()
	info, err := o.f.Stat()
	if err != nil {
		return
	}
	now := allocated(info)
	if _, leaf := leafOf(o.obj); u.walked[leaf] {
		u.bytes.Add(now - o.counted)
	}
	o.counted = now
}

// removing counts out the file of o at path, which remove removes.
func (u *usage) removing(o *file, path string, remove func() error) error {
	u.walk.RLock()
	defer u.walk.RUnlock()
	if o.f == nil {
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		o.counted = allocated(info)
	}
	if err := remove(); err != nil {
		return err
	}
	if _, leaf := leafOf(o.obj); u.walked[leaf] {
		u.bytes.Add(-o.counted)
		u.files.Add(-1)
	}
	return nil
}

// countUsage walks the root once, and ends early when the store is closed.
func (s *Store) countUsage() {
	for leaf := range s.usage.walked {
		if leaf&0xff == 0 && !s.outerExists(leaf>>8) {
			s.skipOuter(leaf)
		}
		select {
		case <-s.stop:
			return
		default:
			s.countLeaf(leaf)
		}
	}
}

func (s *Store) outerExists(outer int) bool {
	_, err := os.Stat(filepath.Join(s.root, hexByte(outer)))
	return err == nil
}

// skipOuter marks the 256 leaves from first as walked if their directory is
// still missing.
func (s *Store) skipOuter(first int) {
	s.usage.walk.Lock()
	defer s.usage.walk.Unlock()
	if s.outerExists(first >> 8) {
		return
	}
	for i := first; i < first+256; i++ {
		s.usage.walked[i] = true
	}
}

// countLeaf counts the files of one directory.
func (s *Store) countLeaf(leaf int) {
	u := &s.usage
	u.walk.Lock()
	defer u.walk.Unlock()
	if u.walked[leaf] {
		return
	}
	u.walked[leaf] = true
	entries, err := os.ReadDir(filepath.Join(s.root, hexByte(leaf>>8), hexByte(leaf&0xff)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, e := range entries {
		obj, ok := store.ParseName(e.Name())
		if !ok {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		size := allocated(info)
		u.bytes.Add(size)
		u.files.Add(1)
		s.cache.mu.Lock()
		if o := s.cache.files[obj]; o != nil {
			o.counted = size
		}
		s.cache.mu.Unlock()
	}
}

func hexByte(b int) string {
	const digits = 16
	s := strconv.FormatInt(int64(b), digits)
	if len(s) < 2 {
		s = "0" + s
	}
	return s
}
