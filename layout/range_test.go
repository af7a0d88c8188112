package layout

import (
	"math"
	"testing"
)

func TestRange(t *testing.T) {
	end := Range{100, ToEnd}
	for _, c := range []struct {
		a, b               Range
		overlaps, contains bool
	}{
		{Range{0, 10}, Range{10, 10}, false, false},
		{Range{0, 10}, Range{9, 1}, true, true},
		{Range{0, 10}, Range{9, 2}, true, false},
		{WholeFile(), Range{5, 1}, true, true},
		{WholeFile(), end, true, true},
		{end, WholeFile(), true, false},
		{end, Range{math.MaxUint64, 1}, true, true},
		{end, Range{0, 100}, false, false},
		{end, Range{0, 101}, true, false},
		{end, Range{0, 0}, false, true},
		{Range{7, 0}, Range{0, 10}, false, false},
		{Range{math.MaxUint64 - 1, 1}, end, true, false},
	} {
		if got := c.a.Overlaps(c.b); got != c.overlaps {
			t.Errorf("%v overlaps %v = %v", c.a, c.b, got)
		}
		if got := c.b.Overlaps(c.a); got != c.overlaps {
			t.Errorf("%v overlaps %v = %v", c.b, c.a, got)
		}
		if got := c.a.Contains(c.b); got != c.contains {
			t.Errorf("%v contains %v = %v", c.a, c.b, got)
		}
	}
}

func TestRangeValid(t *testing.T) {
	for _, c := range []struct {
		r     Range
		valid bool
		end   uint64
		text  string
	}{
		{Range{0, 0}, false, 0, "[0,0)"},
		{Range{5, 10}, true, 15, "[5,15)"},
		{Range{5, ToEnd}, true, ToEnd, "[5,end)"},
		{Range{math.MaxUint64, ToEnd}, true, ToEnd, "[18446744073709551615,end)"},
		{Range{math.MaxUint64 - 3, 3}, true, math.MaxUint64, "[18446744073709551612,end)"},
		{Range{math.MaxUint64 - 3, 4}, false, ToEnd, "[18446744073709551612,end)"},
	} {
		if c.r.Valid() != c.valid || c.r.End() != c.end || c.r.String() != c.text {
			t.Errorf("%+v: valid %v, end %d, %q", c.r, c.r.Valid(), c.r.End(), c.r.String())
		}
	}
}
