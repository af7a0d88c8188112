package state

import "manifold/layout"

// spans is a set of bytes: ranges in ascending order, none of which is empty or
// touches the next. It is not changed once it is made.
type spans []layout.Range

// maxSpans bounds what is kept of one layout. A return that would split a range
// beyond that is not noted: then more counts as held than is, which does no harm
// (RFC 8881 section 12.5.5.1).
const maxSpans = 16

// wholeFile is every byte that a file can have.
func wholeFile() spans { return spans{layout.WholeFile()} }

// without returns s less the bytes of r, which is Valid.
func (s spans) without(r layout.Range) spans {
	var out spans
	for _, have := range s {
		if !have.Overlaps(r) {
			out = append(out, have)
			continue
		}
		end, cut := have.End(), r.End()
		if have.Offset < r.Offset {
			out = append(out, layout.Range{Offset: have.Offset, Length: r.Offset - have.Offset})
		}
		switch {
		case cut >= end:
		case end == layout.ToEnd:
			out = append(out, layout.Range{Offset: cut, Length: layout.ToEnd})
		default:
			out = append(out, layout.Range{Offset: cut, Length: end - cut})
		}
	}
	if len(out) > max(len(s), maxSpans) {
		return s
	}
	return out
}

// whole says whether s is every byte that a file can have.
func (s spans) whole() bool { return len(s) == 1 && s[0].Contains(layout.WholeFile()) }
