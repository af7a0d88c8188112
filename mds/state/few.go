package state

import (
	"iter"

	"manifold/xdr/nfs4"
)

// few is things found by a key of which there is mostly one: the opens that a
// client has of a file, the lock-owners of an open, the clients that use a file.
// A map for one thing costs more memory than the thing.
type few[K comparable, V keyed[K]] struct {
	one  V       // if it is the only one
	many map[K]V // all, if there are more; nil otherwise
}

// keyed is a pointer to what knows its key. The zero value is none.
type keyed[K comparable] interface {
	comparable
	key() K
}

func (s *few[K, V]) len() int {
	var none V
	if s.one != none {
		return 1
	}
	return len(s.many)
}

// get returns the thing with that key, or nil.
func (s *few[K, V]) get(k K) (v V) {
	var none V
	if s.one != none {
		if s.one.key() == k {
			return s.one
		}
		return none
	}
	return s.many[k]
}

// add adds a thing whose key nothing has.
func (s *few[K, V]) add(v V) {
	var none V
	switch {
	case s.many != nil:
		s.many[v.key()] = v
	case s.one == none:
		s.one = v
	default:
		s.many = map[K]V{s.one.key(): s.one, v.key(): v}
		s.one = none
	}
}

// drop takes a thing out that is in.
func (s *few[K, V]) drop(v V) {
	var none V
	if s.one == v {
		s.one = none
		return
	}
	delete(s.many, v.key())
	if len(s.many) == 0 {
		s.many = nil // a map does not shrink
	}
}

// all goes through the things, each with its key, in any order. Those that it
// came to may be dropped meanwhile.
func (s *few[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		var none V
		if s.one != none {
			yield(s.one.key(), s.one)
			return
		}
		for k, v := range s.many {
			if !yield(k, v) {
				return
			}
		}
	}
}

func (o *open) key() string          { return o.owner }
func (lo *lockOwner) key() string    { return lo.owner }
func (st *stake) key() nfs4.ClientID { return st.client.id }
