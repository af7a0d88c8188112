package sim

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"manifold/ds/store"
	"manifold/layout"
	mdstore "manifold/mds/store"
	"manifold/mds/store/storetest"
)

// metaDisk is the metadata server's disk: commits take time, and one that a
// crash interrupts is there or not, as the seed has it.
type metaDisk struct {
	w   *world
	mu  sync.Mutex
	mem *storetest.Mem
	rnd *rand.Rand
	// lies tells that a commit is durable a while before it is.
	lies bool
	late []lateWrite
	safe storetest.Mem // if lies: what a crash leaves
}

// lateWrite is a commit that was told to be durable and is not yet.
type lateWrite struct {
	at    time.Time
	batch []mdstore.Write
}

const lateBy = time.Second

// head is a metaDisk as one process has it open, until that dies.
type head struct {
	*metaDisk
	dead bool
}

var errDead = errors.Join(mdstore.ErrFailed, errors.New("the process died"))

// Snapshot implements store.Backend.
func (h *head) Snapshot() (mdstore.Snapshot, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return nil, errDead
	}
	return h.mem.Snapshot()
}

// Commit implements store.Backend.
func (h *head) Commit(batch []mdstore.Write) error {
	h.w.point("commit")
	defer h.w.point("commit done")
	h.mu.Lock()
	wait := time.Duration(100+h.rnd.IntN(3000)) * time.Microsecond
	stays := h.rnd.IntN(2) == 0
	h.mu.Unlock()
	time.Sleep(wait)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead && !stays {
		return errDead
	}
	if err := h.mem.Commit(batch); err != nil {
		return err
	}
	if h.lies {
		h.late = append(h.late, lateWrite{time.Now(), batch})
		h.settle()
	}
	if h.dead {
		return errDead
	}
	return nil
}

// settle makes late writes durable whose time has come.
func (m *metaDisk) settle() {
	for len(m.late) > 0 && time.Since(m.late[0].at) >= lateBy {
		_ = m.safe.Commit(m.late[0].batch) // a Mem without Fail does not fail
		m.late = m.late[1:]
	}
}

// Close implements store.Backend.
func (h *head) Close() error { return nil }

// die ends the process: it reads and writes nothing any more.
func (h *head) die() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return
	}
	h.dead = true
	if !h.lies {
		return
	}
	h.settle()
	h.late, h.mem = nil, &storetest.Mem{}
	s, _ := h.safe.Snapshot()
	_ = s.Scan(nil, nil, func(key, val []byte) (bool, error) {
		return true, h.mem.Commit([]mdstore.Write{{Key: key, Val: val}})
	})
}

// disk is a data server's disk, an object store that forgets in a crash what
// was not synced: cell by cell, or not, as the seed has it.
type disk struct {
	w   *world
	id  layout.DSID
	rnd *rand.Rand
	// lies answers Sync without doing it.
	lies bool

	mu      sync.Mutex
	objects map[layout.Object]*object
	removed map[layout.Object]bool
	verf    uint64
	mounts  uint64
}

// object is what is to be read, and what a crash leaves of it.
type object struct {
	now, safe []byte
	dirty     map[int64]bool // offsets of cells
}

func newDisk(w *world, id layout.DSID) *disk {
	return &disk{w: w, id: id, rnd: w.dice("disk", id), objects: map[layout.Object]*object{}, removed: map[layout.Object]bool{}}
}

// mounted is the disk as one process has it open: its I/O takes time, and ends
// with the process.
type mounted struct {
	*disk
	mount uint64
}

var errUnmounted = errors.Join(store.ErrClosed, errors.New("the process died"))

// name names a point in what a data server does.
func (d *disk) name(point string) string { return fmt.Sprintf("ds%d %s", d.id, point) }

func (d *disk) open() mounted {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mounts++
	d.verf++
	return mounted{d, d.mounts}
}

// crash ends the process that has the disk open.
func (d *disk) crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mounts++
	for _, name := range slices.SortedFunc(maps.Keys(d.objects), func(a, b layout.Object) int { return cmp.Compare(a.Inode, b.Inode) }) {
		o := d.objects[name]
		for off := range cells * int64(unit) {
			if !o.dirty[off] {
				continue
			}
			if d.rnd.IntN(2) == 0 {
				o.safe = put(o.safe, o.now[off:min(off+unit, int64(len(o.now)))], off)
			}
		}
		o.now, o.dirty = append([]byte(nil), o.safe...), map[int64]bool{}
		if len(o.now) == 0 {
			delete(d.objects, name)
		}
	}
}

func put(b, p []byte, off int64) []byte {
	if need := int(off) + len(p); need > len(b) {
		b = append(b, make([]byte, need-len(b))...)
	}
	copy(b[off:], p)
	return b
}

// begin is the start of an I/O, which takes a moment. d.mu is held if it
// returns nil.
func (m mounted) begin() error {
	m.mu.Lock()
	wait := time.Duration(m.rnd.IntN(2000)) * time.Microsecond
	if m.rnd.IntN(100) == 0 {
		wait *= 100
	}
	m.mu.Unlock()
	time.Sleep(wait)
	m.mu.Lock()
	if m.mounts != m.mount {
		m.mu.Unlock()
		return errUnmounted
	}
	return nil
}

// ReadAt implements store.Store, as do the methods that follow.
func (m mounted) ReadAt(obj layout.Object, p []byte, off int64) (int, error) {
	if err := m.begin(); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	o := m.objects[obj]
	if o == nil || off >= int64(len(o.now)) {
		return 0, nil
	}
	return copy(p, o.now[off:]), nil
}

func (m mounted) WriteAt(obj layout.Object, p []byte, off int64) (int, error) {
	if err := m.begin(); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	if m.removed[obj] {
		return 0, store.ErrStale
	}
	m.w.judge.reachesDisk(m.id, obj, p, off)
	o := m.objects[obj]
	if o == nil {
		o = &object{dirty: map[int64]bool{}}
		m.objects[obj] = o
	}
	o.now = put(o.now, p, off)
	o.dirty[off] = true
	return len(p), nil
}

func (m mounted) Sync(obj layout.Object) error {
	m.w.point(m.name("sync"))
	defer m.w.point(m.name("sync done"))
	if err := m.begin(); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if o := m.objects[obj]; o != nil && !m.lies {
		o.safe, o.dirty = append([]byte(nil), o.now...), map[int64]bool{}
	}
	return nil
}

func (m mounted) Truncate(obj layout.Object, size int64) error {
	if err := m.begin(); err != nil {
		return err
	}
	defer m.mu.Unlock()
	o := m.objects[obj]
	if o == nil {
		return nil
	}
	o.now, o.safe = o.now[:min(size, int64(len(o.now)))], o.safe[:min(size, int64(len(o.safe)))]
	for off := range o.dirty {
		if off >= size {
			delete(o.dirty, off)
		}
	}
	return nil
}

// Allocate, Deallocate and Seek are not part of the simulation.
func (m mounted) Allocate(layout.Object, int64, int64) error   { return store.ErrUnsupported }
func (m mounted) Deallocate(layout.Object, int64, int64) error { return store.ErrUnsupported }
func (m mounted) Seek(layout.Object, int64, bool) (int64, bool, error) {
	return 0, false, store.ErrUnsupported
}

func (m mounted) Remove(obj layout.Object) error {
	if err := m.begin(); err != nil {
		return err
	}
	defer m.mu.Unlock()
	delete(m.objects, obj)
	m.removed[obj] = true
	return nil
}

func (m mounted) Size(obj layout.Object) (int64, error) {
	if err := m.begin(); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	if o := m.objects[obj]; o != nil {
		return int64(len(o.now)), nil
	}
	return 0, nil
}

func (m mounted) Statfs() (store.Usage, error) {
	return store.Usage{Capacity: 1 << 40, Free: 1 << 39}, nil
}

func (m mounted) Verifier() (v [8]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	binary.BigEndian.PutUint64(v[:], uint64(m.id)<<32|m.verf)
	return v
}

func (m mounted) Close() error { return nil }

// holds returns the objects that the disk has.
func (d *disk) holds() (list []layout.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for obj := range d.objects {
		list = append(list, obj)
	}
	return list
}
