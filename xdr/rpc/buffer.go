package rpc

import "sync"

// sizes are the capacities of pooled buffers: a small call or reply, a page
// with its header, a 64 KiB transfer, and 256 KiB and 1 MiB ones.
var sizes = [...]int{1 << 10, 8 << 10, 72 << 10, 264 << 10, 1<<20 + 64<<10}

// buffer is a pooled byte slice.
type buffer struct{ b []byte }

// pools holds free buffers by size class, and the records of calls in work.
type pools struct {
	classes [len(sizes)]sync.Pool
	work    sync.Pool
	packets sync.Pool
	waits   sync.Pool
}

// get returns a buffer of length 0 and capacity n or more. One over the
// largest class is not pooled.
func (p *pools) get(n int) *buffer {
	for i, size := range sizes {
		if n > size {
			continue
		}
		if b, _ := p.classes[i].Get().(*buffer); b != nil {
			b.b = b.b[:0]
			return b
		}
		return &buffer{b: make([]byte, 0, size)}
	}
	return &buffer{b: make([]byte, 0, n)}
}

// put gives b back. Nothing may alias it any more.
func (p *pools) put(b *buffer) {
	for i := len(sizes) - 1; i >= 0; i-- {
		if cap(b.b) >= sizes[i] {
			// An odd capacity goes to the class below it; one far above the
			// largest class is left to the collector.
			if cap(b.b) <= 2*sizes[i] || i < len(sizes)-1 {
				p.classes[i].Put(b)
			}
			return
		}
	}
}
