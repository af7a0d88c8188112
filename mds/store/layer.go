package store

import "slices"

// layer is a set of pending writes: those of one Update, or of a batch.
type layer struct {
	vals  map[string][]byte // nil: deleted
	keys  []string          // ascending; those of vals that were sorted already
	fresh []string          // the others, in any order
	bytes int               // of all keys and values set, an overwritten one counted again
}

func newLayer() *layer { return &layer{vals: make(map[string][]byte)} }

// set notes that key has val, which the layer keeps.
func (l *layer) set(key string, val []byte) {
	n := len(l.vals)
	l.vals[key] = val
	if len(l.vals) > n {
		l.fresh = append(l.fresh, key)
	}
	l.bytes += len(key) + len(val)
}

// get says what the layer knows of key; val is nil if it was deleted.
func (l *layer) get(key []byte) (val []byte, ok bool) {
	val, ok = l.vals[string(key)]
	return val, ok
}

// sorted returns the keys in ascending order. The result stays good when more
// keys come, which it then lacks. It only reads if nothing was set since the
// last call.
func (l *layer) sorted() []string {
	if len(l.fresh) == 0 {
		return l.keys
	}
	slices.Sort(l.fresh)
	merged := make([]string, 0, len(l.keys)+len(l.fresh))
	a, b := l.keys, l.fresh
	for len(a) > 0 && len(b) > 0 {
		if a[0] < b[0] {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	merged = append(append(merged, a...), b...)
	l.keys, l.fresh = merged, l.fresh[:0]
	return merged
}

// within returns the keys from <= key < to; a nil to means no upper bound.
func (l *layer) within(from, to []byte) []string {
	if len(l.vals) == 0 {
		return nil
	}
	keys := l.sorted()
	i, _ := slices.BinarySearch(keys, string(from))
	keys = keys[i:]
	if to != nil {
		j, _ := slices.BinarySearch(keys, string(to))
		keys = keys[:j]
	}
	return keys
}

// moveTo sets everything in l in dst too, and empties l.
func (l *layer) moveTo(dst *layer) {
	for k, v := range l.vals {
		dst.set(k, v)
	}
	l.reset()
}

// reset empties l. A map that grew large is let go: clearing it would cost
// every later Update.
func (l *layer) reset() {
	if len(l.vals) > 256 {
		l.vals = make(map[string][]byte)
	} else {
		clear(l.vals)
	}
	clear(l.fresh)
	l.keys, l.fresh, l.bytes = nil, l.fresh[:0], 0
}

// writes returns the content as a batch for a Backend.
func (l *layer) writes() []Write {
	keys := l.sorted()
	n := 0
	for _, k := range keys {
		n += len(k)
	}
	arena := make([]byte, 0, n)
	batch := make([]Write, len(keys))
	for i, k := range keys {
		at := len(arena)
		arena = append(arena, k...)
		batch[i] = Write{Key: arena[at:len(arena):len(arena)], Val: l.vals[k]}
	}
	return batch
}
