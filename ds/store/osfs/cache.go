package osfs

import (
	"container/list"
	"os"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"manifold/ds/store"
	"manifold/layout"
)

// file is an object that is in use or kept open.
type file struct {
	obj  layout.Object
	pins int           // I/O in progress; guarded by cache.mu
	at   *list.Element // in cache.lru; guarded by cache.mu

	// mu is held for reading by I/O, for writing by whoever changes f or
	// removed, or must not have I/O beside him.
	mu      sync.RWMutex
	f       *os.File // nil: not open
	removed bool

	writes atomic.Uint64 // changes so far
	synced atomic.Uint64 // of which a flight took care, for better or worse
	known  atomic.Bool   // a flight succeeded since f was opened
	flight flight

	counted int64 // allocated bytes in usage.bytes; guarded as there
}

// dirty says whether the file has changes that no flight covers.
func (o *file) dirty() bool { return o.writes.Load() != o.synced.Load() }

// cache holds the files that are open or being opened, at most limit of them
// and the ones that are pinned.
type cache struct {
	limit int

	mu     sync.Mutex
	idle   sync.Cond // pinned is 0
	files  map[layout.Object]*file
	lru    list.List // of *file, the last used first
	pinned int
	closed bool
	graves graves
}

func newCache(limit int) *cache {
	c := &cache{limit: limit, files: make(map[layout.Object]*file), graves: newGraves(maxGraves)}
	c.idle.L = &c.mu
	return c
}

// pin returns the file of obj, open or not, and keeps it in the cache until
// unpin. After close it fails with store.ErrClosed.
func (c *cache) pin(obj layout.Object) (*file, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, store.ErrClosed
	}
	o := c.files[obj]
	if o == nil {
		o = &file{obj: obj, removed: c.graves.has(obj), flight: newFlight()}
		o.at = c.lru.PushFront(o)
		c.files[obj] = o
	} else {
		c.lru.MoveToFront(o.at)
	}
	o.pins++
	c.pinned++
	return o, nil
}

// release undoes a pin. Without I/O, o.f cannot change: an object that turned
// out to have no file is dropped.
func (c *cache) release(o *file) {
	o.pins--
	c.pinned--
	if o.pins == 0 && o.f == nil {
		c.drop(o)
	}
	if c.pinned == 0 {
		c.idle.Broadcast()
	}
}

func (c *cache) drop(o *file) {
	delete(c.files, o.obj)
	c.lru.Remove(o.at)
}

// unpin undoes a pin and closes files as long as there are too many.
func (s *Store) unpin(o *file) {
	c := s.cache
	c.mu.Lock()
	c.release(o)
	for len(c.files) > c.limit && !c.closed {
		if !s.evict() {
			break
		}
	}
	c.mu.Unlock()
}

// evict closes the file that was not used for the longest time, a clean one if
// there is one near the end, since a dirty one must be synced first: once it is
// closed, an error of the kernel's own writing would find nobody to tell. It
// returns false if all files are pinned. The caller holds cache.mu, which evict
// gives up for a while.
func (s *Store) evict() bool {
	c := s.cache
	o := c.victim()
	if o == nil {
		return false
	}
	if !o.dirty() {
		c.drop(o)
		c.mu.Unlock()
		_ = o.f.Close() // nothing is buffered for it
		c.mu.Lock()
		return true
	}
	o.pins++
	c.pinned++
	c.mu.Unlock()
	if err := s.syncFile(o); err != nil {
		s.log.Warn("object could not be synced when it was to be closed", zap.Stringer("object", o.obj), zap.Error(err))
	}
	c.mu.Lock()
	c.release(o)
	return true
}

// victim picks the file to close: the first clean one of the last few, or the
// last.
func (c *cache) victim() (last *file) {
	const few = 64
	seen := 0
	for e := c.lru.Back(); e != nil && seen < few; e = e.Prev() {
		o := e.Value.(*file)
		if o.pins > 0 {
			continue
		}
		if !o.dirty() {
			return o
		}
		if last == nil {
			last = o
		}
		seen++
	}
	return last
}

// bury leaves a tombstone for obj.
func (c *cache) bury(obj layout.Object) {
	c.mu.Lock()
	c.graves.add(obj)
	c.mu.Unlock()
}

func (c *cache) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// close refuses further pins, waits for those there are, and returns the files
// that are open. first is false if somebody closed before.
func (c *cache) close() (open []*file, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	c.closed = true
	for c.pinned > 0 {
		c.idle.Wait()
	}
	for _, o := range c.files {
		open = append(open, o)
	}
	return open, true
}

// maxGraves bounds the tombstones. Writes to a removed object come from clients
// that still hold its layout and are soon refused by the metadata server; what
// comes later than 65,536 other removals makes a file that nobody reads.
const maxGraves = 1 << 16

// graves is the set of the objects that were removed last, at most limit.
type graves struct {
	limit int
	set   map[layout.Object]struct{}
	ring  []layout.Object
	next  int // of ring, the oldest, once it is full
}

func newGraves(limit int) graves {
	return graves{limit: limit, set: make(map[layout.Object]struct{})}
}

func (g *graves) has(obj layout.Object) bool {
	_, ok := g.set[obj]
	return ok
}

func (g *graves) add(obj layout.Object) {
	if g.has(obj) {
		return
	}
	g.set[obj] = struct{}{}
	if len(g.ring) < g.limit {
		g.ring = append(g.ring, obj)
		return
	}
	delete(g.set, g.ring[g.next])
	g.ring[g.next] = obj
	g.next = (g.next + 1) % g.limit
}
