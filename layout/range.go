package layout

import (
	"fmt"
	"math"
)

// ToEnd is the Length of a Range that has no end: NFS4_UINT64_MAX, "to the end
// of the file, however long it gets" (RFC 8881 sections 3.2, 12.2.9, 18.10).
const ToEnd uint64 = math.MaxUint64

// Range is the bytes [Offset, Offset+Length) of a file; a Length of ToEnd runs
// to the largest offset there is, whatever Offset is.
type Range struct {
	Offset, Length uint64
}

// WholeFile returns the range of every byte a file can have. Layouts always
// cover it: client kernels before 6.10 take no other file layouts.
func WholeFile() Range { return Range{0, ToEnd} }

// Valid says whether r is a range that the protocol allows: not empty, and
// Offset+Length not above NFS4_UINT64_MAX unless Length is ToEnd (RFC 8881
// sections 18.10.3 and 18.43.3, both NFS4ERR_INVAL).
func (r Range) Valid() bool {
	return r.Length == ToEnd || r.Length != 0 && r.Length <= math.MaxUint64-r.Offset
}

// End returns the offset after the last byte, or ToEnd if r has no end (also
// if Offset+Length would overflow).
func (r Range) End() uint64 {
	if r.Length > math.MaxUint64-r.Offset {
		return ToEnd
	}
	return r.Offset + r.Length
}

// Overlaps says whether r and o have a byte in common. Empty ranges have none.
func (r Range) Overlaps(o Range) bool {
	return r.Length != 0 && o.Length != 0 && r.last() >= o.Offset && o.last() >= r.Offset
}

// Contains says whether every byte of o is in r. An empty o is in every range.
func (r Range) Contains(o Range) bool {
	return o.Length == 0 || r.Length != 0 && r.Offset <= o.Offset && o.last() <= r.last()
}

// last returns the offset of r's last byte. r must not be empty.
func (r Range) last() uint64 {
	if r.Length == ToEnd || r.Length > math.MaxUint64-r.Offset {
		return math.MaxUint64
	}
	return r.Offset + r.Length - 1
}

// String gives "[4096,8192)" or "[4096,end)".
func (r Range) String() string {
	if r.End() == ToEnd {
		return fmt.Sprintf("[%d,end)", r.Offset)
	}
	return fmt.Sprintf("[%d,%d)", r.Offset, r.End())
}
