package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Verify reads Path, which went through Steps, and fails at the first byte
// that is not what they say, or if the size is not. How is "buffered",
// "direct" (O_DIRECT, with reads across the end and past it) or "mmap"; Block
// is the size of a read (0: 1 MiB). Result: N bytes compared, Size, Millis.
type Verify struct {
	Path  string `json:"path"`
	Steps []Step `json:"steps"`
	How   string `json:"how"`
	Block int64  `json:"block,omitempty"`
}

// Run reads and compares.
func (v Verify) Run(ctx context.Context) (Result, error) {
	start := time.Now()
	m := newModel(v.Steps)
	flags := os.O_RDONLY
	if v.How == "direct" {
		flags |= unix.O_DIRECT
	}
	f, err := os.OpenFile(v.Path, flags, 0)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return Result{}, err
	}
	if st.Size() != m.size {
		return Result{Size: st.Size()}, fmt.Errorf("%s: size %d, want %d", v.Path, st.Size(), m.size)
	}
	if v.How == "mmap" {
		err = m.compareMapped(f)
	} else {
		err = m.compare(f, max(v.Block, 0), v.How == "direct")
	}
	return Result{N: m.size, Size: m.size, Millis: time.Since(start).Milliseconds()}, err
}

// compare reads f by blocks. In direct mode each read is one system call whose
// count must be exactly what lies before the end: a server that says "end of
// file" at a hole shows here.
func (m model) compare(f *os.File, block int64, direct bool) error {
	if block == 0 {
		block = 1 << 20
	}
	read, past := f.ReadAt, int64(0)
	if direct {
		read, past = func(p []byte, off int64) (int, error) { return unix.Pread(int(f.Fd()), p, off) }, 2*block
	}
	got, want := aligned(block), make([]byte, block)
	for off := int64(0); off < m.size+past; off += block {
		n, err := read(got, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s at %d: %w", f.Name(), off, err)
		}
		if expect := min(block, max(m.size-off, 0)); int64(n) != expect {
			return fmt.Errorf("%s: read of %d at %d returned %d bytes, want %d (size %d)", f.Name(), block, off, n, expect, m.size)
		}
		m.fill(want[:n], off)
		if d := difference(got[:n], want[:n], off); d != "" {
			return fmt.Errorf("%s: %s (size %d)", f.Name(), d, m.size)
		}
	}
	return nil
}

// compareMapped compares a private mapping of the whole file.
func (m model) compareMapped(f *os.File) error {
	if m.size == 0 {
		return nil
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(m.size), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("mmap %s: %w", f.Name(), err)
	}
	defer func() { _ = unix.Munmap(b) }()
	want := make([]byte, min(m.size, 1<<20))
	for off := int64(0); off < m.size; off += int64(len(want)) {
		part := b[off:min(off+int64(len(want)), m.size)]
		m.fill(want[:len(part)], off)
		if d := difference(part, want[:len(part)], off); d != "" {
			return fmt.Errorf("%s mapped: %s (size %d)", f.Name(), d, m.size)
		}
	}
	return nil
}

// Sum reads all of Path in blocks of Block bytes (0: 1 MiB). Result: Sum (its
// SHA-256), N and Size bytes, Millis.
type Sum struct {
	Path   string `json:"path"`
	Block  int64  `json:"block,omitempty"`
	Direct bool   `json:"direct,omitempty"`
}

// Run reads and sums.
func (s Sum) Run(ctx context.Context) (Result, error) {
	start := time.Now()
	flags := os.O_RDONLY
	if s.Direct {
		flags |= unix.O_DIRECT
	}
	f, err := os.OpenFile(s.Path, flags, 0)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = f.Close() }()
	if s.Block <= 0 {
		s.Block = 1 << 20
	}
	h, buf := sha256.New(), aligned(s.Block)
	var n int64
	for {
		got, err := f.Read(buf)
		n += int64(got)
		_, _ = h.Write(buf[:got]) // a hash never fails
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Result{N: n}, err
		}
	}
	return Result{N: n, Size: n, Sum: hex.EncodeToString(h.Sum(nil)), Millis: time.Since(start).Milliseconds()}, nil
}
