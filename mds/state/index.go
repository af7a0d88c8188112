package state

// index finds things by number. Unlike a map it gives memory back when most of
// what was in it is gone: one client may fill it, and leave.
type index[V any] struct {
	m    map[uint64]V
	most int // things since m was made
}

// indexKeep is up to how many things an index keeps the memory for.
const indexKeep = 1024

func (x *index[V]) len() int { return len(x.m) }

func (x *index[V]) get(num uint64) V { return x.m[num] }

func (x *index[V]) put(num uint64, v V) {
	if x.m == nil {
		x.m = map[uint64]V{}
	}
	x.m[num] = v
	x.most = max(x.most, len(x.m))
}

// drop forgets a thing. It may be called from within a range over m: who ranges
// goes on in the old map.
func (x *index[V]) drop(num uint64) {
	delete(x.m, num)
	if x.most <= indexKeep || len(x.m) > x.most/8 {
		return
	}
	smaller := make(map[uint64]V, len(x.m))
	for num, v := range x.m {
		smaller[num] = v
	}
	x.m, x.most = smaller, len(smaller)
}
