package gss

import (
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"manifold/xdr/rpc"
)

// handle names a context of an Acceptor. It is random, so that handles of an
// earlier process name nothing.
type handle [16]byte

// established is a context that a client has established.
type established struct {
	Context
	principal string
	expires   time.Time
	used      atomic.Int64 // when it was used last, Unix nanoseconds

	mu     sync.Mutex
	window window
}

// admit says whether a call with this sequence number may run.
func (c *established) admit(seq uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.window.admit(seq)
}

// contexts are those of an Acceptor, at most max.
type contexts struct {
	max int

	mu   sync.RWMutex
	byID map[handle]*established
	of   map[string]int // how many each principal has
}

func newContexts(max int) *contexts {
	return &contexts{max: max, byID: map[handle]*established{}, of: map[string]int{}}
}

// get returns the context of that name, nil if there is none.
func (cs *contexts) get(now time.Time, name []byte) (*established, handle) {
	var h handle
	if len(name) != len(h) {
		return nil, h
	}
	copy(h[:], name)
	cs.mu.RLock()
	c := cs.byID[h]
	cs.mu.RUnlock()
	if c == nil || !now.Before(c.expires) {
		return nil, h
	}
	c.used.Store(now.UnixNano())
	return c, h
}

// add keeps c and names it.
func (cs *contexts) add(now time.Time, c *established) (h handle) {
	rand.Read(h[:])
	c.used.Store(now.UnixNano())
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.byID) >= cs.max {
		cs.makeRoom(now)
	}
	cs.byID[h] = c
	cs.of[c.principal]++
	return h
}

// drop forgets a context.
func (cs *contexts) drop(h handle) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.remove(h)
}

// remove is drop with mu held.
func (cs *contexts) remove(h handle) {
	c := cs.byID[h]
	if c == nil {
		return
	}
	delete(cs.byID, h)
	if cs.of[c.principal]--; cs.of[c.principal] == 0 {
		delete(cs.of, c.principal)
	}
}

// makeRoom forgets the contexts that are over or, if there is none, the one out
// of use longest of the principal that has most: who floods the table loses his
// own. Its client makes a new one when it needs it. mu is held.
func (cs *contexts) makeRoom(now time.Time) {
	most := ""
	for p, n := range cs.of {
		if n > cs.of[most] || n == cs.of[most] && p < most {
			most = p
		}
	}
	var oldest handle
	since := int64(0)
	for h, c := range cs.byID {
		switch used := c.used.Load(); {
		case !now.Before(c.expires):
			cs.remove(h)
		case c.principal == most && (since == 0 || used < since):
			oldest, since = h, used
		}
	}
	if len(cs.byID) >= cs.max {
		cs.remove(oldest)
	}
}

// len is how many contexts there are.
func (cs *contexts) len() int {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return len(cs.byID)
}

var _ rpc.Acceptor = (*Acceptor)(nil)
