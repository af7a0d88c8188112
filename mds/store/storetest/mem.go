// Package storetest holds what tests of stores, and tests on top of stores,
// need: Run, the suite that every backend must pass; Crash, which kills a
// process in mid-commit; and Mem, a backend in memory.
package storetest

import (
	"hash/maphash"
	"sync"

	"manifold/mds/store"
)

// Mem is a store.Backend in memory. The zero Mem is empty. It may be used again
// after Close, as if it had been opened again.
type Mem struct {
	// Fail, if not nil, is called with each batch before it is committed, and
	// its error is Commit's. Set it before the first use.
	Fail func(batch []store.Write) error

	mu     sync.Mutex
	root   *node
	closed bool
}

// Open returns a Store on m.
func (m *Mem) Open() store.Store {
	m.mu.Lock()
	m.closed = false
	m.mu.Unlock()
	return store.NewGroup(m, store.Bounds{})
}

// Snapshot implements store.Backend.
func (m *Mem) Snapshot() (store.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	return memSnapshot{m.root}, nil
}

// Commit implements store.Backend.
func (m *Mem) Commit(batch []store.Write) error {
	if m.Fail != nil {
		if err := m.Fail(batch); err != nil {
			return err
		}
	}
	m.mu.Lock()
	root := m.root
	m.mu.Unlock()
	for _, w := range batch {
		if w.Val == nil {
			root = root.without(string(w.Key))
		} else {
			root = root.with(string(w.Key), w.Val)
		}
	}
	m.mu.Lock()
	m.root = root
	m.mu.Unlock()
	return nil
}

// Close implements store.Backend.
func (m *Mem) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	return nil
}

type memSnapshot struct{ root *node }

func (s memSnapshot) Get(key []byte) []byte { return s.root.get(string(key)) }
func (s memSnapshot) Release()              {}

func (s memSnapshot) Scan(from, to []byte, fn func(key, val []byte) (bool, error)) error {
	_, err := s.root.scan(string(from), to, fn)
	return err
}

// node is a treap that never changes: with and without return a new root that
// shares what did not change. A nil node is empty.
type node struct {
	key         string
	val         []byte
	prio        uint64
	left, right *node
}

// The order of priorities decides only how deep the tree is.
var prioSeed = maphash.MakeSeed()

func (n *node) get(key string) []byte {
	for n != nil && n.key != key {
		if key < n.key {
			n = n.left
		} else {
			n = n.right
		}
	}
	if n == nil {
		return nil
	}
	return n.val
}

func (n *node) with(key string, val []byte) *node {
	if n == nil {
		return &node{key: key, val: val, prio: maphash.String(prioSeed, key)}
	}
	c := *n
	switch {
	case key == n.key:
		c.val = val
	case key < n.key:
		c.left = n.left.with(key, val)
		if l := c.left; l.prio > c.prio { // l is ours: with made it
			c.left, l.right = l.right, &c
			return l
		}
	default:
		c.right = n.right.with(key, val)
		if r := c.right; r.prio > c.prio {
			c.right, r.left = r.left, &c
			return r
		}
	}
	return &c
}

func (n *node) without(key string) *node {
	if n == nil {
		return nil
	}
	if key == n.key {
		return merge(n.left, n.right)
	}
	c := *n
	if key < n.key {
		c.left = n.left.without(key)
	} else {
		c.right = n.right.without(key)
	}
	return &c
}

// merge joins two treaps; all keys of a are below those of b.
func merge(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.prio > b.prio:
		c := *a
		c.right = merge(a.right, b)
		return &c
	}
	c := *b
	c.left = merge(a, b.left)
	return &c
}

func (n *node) scan(from string, to []byte, fn func(key, val []byte) (bool, error)) (bool, error) {
	if n == nil {
		return true, nil
	}
	if from < n.key {
		if more, err := n.left.scan(from, to, fn); !more || err != nil {
			return false, err
		}
	}
	if to != nil && n.key >= string(to) {
		return false, nil
	}
	if from <= n.key {
		if more, err := fn([]byte(n.key), n.val); !more || err != nil {
			return false, err
		}
	}
	return n.right.scan(from, to, fn)
}
