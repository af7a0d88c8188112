package work

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Step is one change to a file.
//
//	write    Len bytes of the stream Seed at Off, in calls of Block bytes (0: one call)
//	direct   the same through O_DIRECT; Off, Len and Block are multiples of 4096
//	mmap     the same by storing into a shared mapping (the file must reach Off+Len)
//	append   Len bytes of the stream Seed at the end, through O_APPEND
//	truncate to Off bytes, up or down
//	sync     fsync
//	reopen   close and open again
type Step struct {
	Do    string `json:"do"`
	Off   int64  `json:"off,omitempty"`
	Len   int64  `json:"len,omitempty"`
	Seed  uint64 `json:"seed,omitempty"`
	Block int64  `json:"block,omitempty"`
}

// Plan makes Path (which need not exist) go through Steps, then fsyncs and
// closes it. Result: N bytes written, Millis.
type Plan struct {
	Path  string `json:"path"`
	Steps []Step `json:"steps"`
}

// Run carries out the plan.
func (p Plan) Run(ctx context.Context) (Result, error) {
	start := time.Now()
	f, err := os.OpenFile(p.Path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = f.Close() }() // the second close of the good path is harmless
	var res Result
	for i, s := range p.Steps {
		if s.Do == "reopen" {
			if err = f.Close(); err == nil {
				f, err = os.OpenFile(p.Path, os.O_RDWR, 0)
			}
		} else {
			err = s.apply(f)
		}
		if err != nil {
			return res, fmt.Errorf("step %d %+v: %w", i, s, err)
		}
		if s.Seed != 0 {
			res.N += s.Len
		}
	}
	if err := f.Sync(); err != nil {
		return res, err
	}
	res.Millis = time.Since(start).Milliseconds()
	return res, f.Close()
}

// apply makes the change to f.
func (s Step) apply(f *os.File) error {
	switch s.Do {
	case "write":
		return s.blocks(func(p []byte, off int64) error { _, err := f.WriteAt(p, off); return err })
	case "append":
		return s.appendTo(f.Name())
	case "direct":
		d, err := os.OpenFile(f.Name(), os.O_RDWR|unix.O_DIRECT, 0)
		if err != nil {
			return err
		}
		defer func() { _ = d.Close() }()
		return s.blocks(func(p []byte, off int64) error { _, err := d.WriteAt(p, off); return err })
	case "mmap":
		m, err := unix.Mmap(int(f.Fd()), 0, int(s.Off+s.Len), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("mmap: %w", err)
		}
		fill(m[s.Off:], s.Seed, s.Off)
		if err := unix.Msync(m, unix.MS_SYNC); err != nil {
			return fmt.Errorf("msync: %w", err)
		}
		return unix.Munmap(m)
	case "truncate":
		return f.Truncate(s.Off)
	case "sync":
		return f.Sync()
	}
	return fmt.Errorf("no such step %q", s.Do)
}

// appendTo writes at the end of the file. The stream's offset is the step's
// Off, which settle has set to where the end was.
func (s Step) appendTo(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	p := make([]byte, s.Len)
	fill(p, s.Seed, 0)
	if _, err := f.Write(p); err != nil {
		return err
	}
	return f.Close()
}

// blocks hands write the step's bytes, a block at a time, in page-aligned
// memory (O_DIRECT wants that).
func (s Step) blocks(write func(p []byte, off int64) error) error {
	block := s.Block
	if block <= 0 || block > s.Len {
		block = s.Len
	}
	buf := aligned(block)
	for done := int64(0); done < s.Len; done += block {
		p := buf[:min(block, s.Len-done)]
		fill(p, s.Seed, s.Off+done)
		if err := write(p, s.Off+done); err != nil {
			return err
		}
	}
	return nil
}

// aligned returns n bytes that start on a page.
func aligned(n int64) []byte {
	const page = 4096
	b := make([]byte, n+page)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (page - 1)
	return b[skip : int64(skip)+n : int64(skip)+n]
}

// model is what a file must hold after some steps.
type model struct {
	steps []Step // with appends turned into writes at the end of their time
	size  int64
}

// newModel follows steps from an empty file.
func newModel(steps []Step) model {
	var m model
	for _, s := range steps {
		switch s.Do {
		case "append":
			s.Off = m.size
			m.size += s.Len
		case "truncate":
			m.size = s.Off
		case "write", "direct", "mmap":
			m.size = max(m.size, s.Off+s.Len)
		default:
			continue
		}
		m.steps = append(m.steps, s)
	}
	return m
}

// fill writes into p what the file holds from off on.
func (m model) fill(p []byte, off int64) {
	clear(p)
	end := off + int64(len(p))
	for _, s := range m.steps {
		from, to := max(s.Off, off), min(s.Off+s.Len, end)
		switch {
		case s.Do == "truncate" && s.Off < end:
			clear(p[max(s.Off, off)-off:])
		case s.Do == "append" && from < to:
			fill(p[from-off:to-off], s.Seed, from-s.Off)
		case s.Do != "truncate" && from < to:
			fill(p[from-off:to-off], s.Seed, from)
		}
	}
}

// Storm returns n random steps on a file of about size bytes that is striped
// in the given unit: unaligned writes of several units, overlapping, appending
// and sparse ones, and truncation in the middle of a stripe. The same seed
// gives the same storm.
func Storm(seed uint64, unit, size int64, n int) []Step {
	rng := rand.New(rand.NewPCG(seed, 0))
	var steps []Step
	for i := range n {
		s := Step{Do: "write", Off: rng.Int64N(size), Len: 1 + rng.Int64N(min(5*unit, size/2)), Seed: seed<<16 + uint64(i) + 1}
		switch k := rng.IntN(20); {
		case k < 2:
			s.Do, s.Len = "append", 1+s.Len/4
		case k < 4:
			s = Step{Do: "truncate", Off: s.Off + unit/3}
		case k < 5:
			s = Step{Do: "sync"}
		case k < 6:
			s = Step{Do: "reopen"}
		case k < 8:
			s.Block = 1 + unit/2 + rng.Int64N(2*unit)
		case k < 9:
			s.Do, s.Off, s.Len = "direct", s.Off&^4095, (s.Len+4095)&^4095
		}
		steps = append(steps, s)
	}
	return steps
}
