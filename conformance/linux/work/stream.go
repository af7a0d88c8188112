package work

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Stream goes over the file at Path again and again, in blocks of Block bytes
// past the page cache, until the request is cancelled: it reads, or it writes
// over what is there. With a layout in hand that is between the client and the
// data servers alone. A block that was read must hold what the block of that number holds
// in the stream of Seed, which is what is written too. Result: N blocks, Stall
// the longest that one took.
type Stream struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	Block  int64  `json:"block"`
	Write  bool   `json:"write,omitempty"`
	Seed   uint64 `json:"seed"`
	Blocks int64  `json:"blocks,omitempty"` // the end after so many; 0: none
}

// Run goes on until it is told to stop.
func (s Stream) Run(ctx context.Context) (Result, error) {
	flags := os.O_RDONLY
	if s.Write {
		flags = os.O_RDWR | os.O_CREATE
	}
	f, err := os.OpenFile(s.Path, flags|unix.O_DIRECT, 0o644)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = f.Close() }()
	// The system wants an aligned buffer for I/O past the page cache.
	p, err := unix.Mmap(-1, 0, int(s.Block), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = unix.Munmap(p) }()
	want := make([]byte, s.Block)
	res := Result{}
	for ; ctx.Err() == nil && (s.Blocks == 0 || res.N < s.Blocks); res.N++ {
		off := res.N % (s.Size / s.Block) * s.Block
		fill(want, s.Seed, off)
		start := time.Now()
		if s.Write {
			copy(p, want)
			_, err = f.WriteAt(p, off)
		} else {
			_, err = f.ReadAt(p, off)
		}
		if err != nil {
			return res, fmt.Errorf("after %d blocks: %w", res.N, err)
		}
		res.Stall = max(res.Stall, time.Since(start).Milliseconds())
		if d := difference(p, want, off); d != "" {
			return res, fmt.Errorf("after %d blocks: %s", res.N, d)
		}
	}
	return res, f.Close()
}
