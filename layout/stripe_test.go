package layout

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPieces compares Pieces with dealing bytes out one at a time.
func TestPieces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := Stripe{Unit: uint64(1 + rnd.IntN(20)), Width: 1 + rnd.IntN(5)}
		s.First = rnd.IntN(s.Width)
		off, n := uint64(rnd.IntN(100)), uint64(rnd.IntN(100))
		at := off
		for p := range s.Pieces(off, n) {
			if p.Offset != at || p.Length == 0 {
				t.Fatalf("%+v: piece %+v where offset %d was due", s, p, at)
			}
			for ; at < p.Offset+p.Length; at++ {
				if want := (int(at/s.Unit) + s.First) % s.Width; p.Index != want || s.Index(at) != want {
					t.Fatalf("%+v: byte %d on %d (Index: %d), want %d", s, at, p.Index, s.Index(at), want)
				}
			}
		}
		if at != off+n {
			t.Fatalf("%+v: pieces of [%d,+%d) end at %d", s, off, n, at)
		}
	}
}

func TestPiecesAtTheEnds(t *testing.T) {
	s := Stripe{Unit: 1 << 20, Width: 1}
	if got := slices.Collect(s.Pieces(5, 10<<20)); len(got) != 1 || got[0] != (Piece{0, 5, 10 << 20}) {
		t.Errorf("one data server: %+v", got)
	}
	s = Stripe{Unit: 1 << 63, Width: 3, First: 2}
	got := slices.Collect(s.Pieces(math.MaxUint64-4, 100))
	if len(got) != 1 || got[0] != (Piece{0, math.MaxUint64 - 4, 4}) {
		t.Errorf("past the largest offset: %+v", got)
	}
	for range s.Pieces(0, math.MaxUint64) {
		break
	}
	if got := slices.Collect(s.Pieces(9, 0)); got != nil {
		t.Errorf("no bytes: %+v", got)
	}
}

func TestRing(t *testing.T) {
	for _, ds := range [][]DSID{nil, {7}, {1, 2, 3}, {3, 1, 2}, {2, 3, 1}, {9, 4, 8, 5}} {
		ring, first := Ring(ds)
		if len(ring) != len(ds) {
			t.Fatalf("Ring(%v) = %v", ds, ring)
		}
		for i := range ds {
			if ds[i] != ring[(i+first)%len(ds)] {
				t.Errorf("Ring(%v) = %v, %d", ds, ring, first)
			}
		}
		if len(ring) > 0 && ring[0] != slices.Min(ds) {
			t.Errorf("Ring(%v) begins with %d", ds, ring[0])
		}
	}
}
