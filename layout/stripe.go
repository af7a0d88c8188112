package layout

import (
	"iter"
	"math"
	"slices"
)

// Stripe deals a file's bytes out: Unit bytes to one data server, the next
// Unit bytes to the next, over a Device of Width data servers, beginning with
// the one at index First. Unit and Width are at least 1, 0 <= First < Width.
type Stripe struct {
	Unit  uint64
	Width int
	First int
}

// Index returns which of the device's data servers holds the byte at off
// (RFC 8881 section 13.4.2 with pattern_offset 0 and stripe indices 0, 1, 2...).
func (s Stripe) Index(off uint64) int {
	return int((off/s.Unit%uint64(s.Width) + uint64(s.First)) % uint64(s.Width))
}

// Piece is a run of a file's bytes on one data server: [Offset, Offset+Length)
// on the one at Index of the device. The offset is the file's and the object's.
type Piece struct {
	Index          int
	Offset, Length uint64
}

// Pieces yields the runs that make up the n bytes at off, in order: each is
// within one stripe unit, or is everything if there is one data server. What
// would be past the largest offset is left out.
func (s Stripe) Pieces(off, n uint64) iter.Seq[Piece] {
	n = min(n, math.MaxUint64-off)
	return func(yield func(Piece) bool) {
		for n > 0 {
			run := n
			if s.Width > 1 {
				run = min(n, s.Unit-off%s.Unit)
			}
			if !yield(Piece{s.Index(off), off, run}) {
				return
			}
			off, n = off+run, n-run
		}
	}
}

// DSID is the number that the metadata server gave a data server when it first
// registered. It is never given to another; 0 is none.
type DSID uint32

// Ring splits an inode's list of data servers, which begins with the one that
// holds the first stripe unit, into the device's list, which begins with the
// lowest number, and the index in it of the first: ds[i] is
// ring[(i+first)%len(ds)]. So all files on the same data servers share one
// device, wherever each begins.
func Ring(ds []DSID) (ring []DSID, first int) {
	if len(ds) == 0 {
		return nil, 0
	}
	low := slices.Index(ds, slices.Min(ds))
	ring = append(slices.Clone(ds[low:]), ds[:low]...)
	return ring, (len(ds) - low) % len(ds)
}
