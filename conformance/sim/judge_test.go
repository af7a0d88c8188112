package sim

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// judge knows what clients were told, and says when that is not true any more.
type judge struct {
	w    *world
	keys *layout.Keyring

	mu     sync.Mutex
	files  map[layout.Object]*truth
	holds  []*hold
	writes []*write // by tag, the first is 1
	seen   map[string]int
	// recalls is when a delegation or a layout was first asked for.
	recalls map[[12]byte]time.Time
	// wants is when clients last asked for something of a file, by its name.
	wants map[string]map[*life]time.Time
}

// truth is what is known of one file.
type truth struct {
	obj    layout.Object
	cell   [cells]cellTruth
	lo, hi uint64 // bounds of the size
	change uint64 // the highest that anybody saw
	base   string // the name by which it was opened first
	cuts   int    // truncations that began or ended

	// told is when the last change was sent that the server acknowledged, own
	// when the last was made that by made by itself, under a delegation, and
	// ownEnd how long the file was by then.
	told, own time.Duration
	by        *hold
	ownEnd    uint64
	shown     map[uint64]time.Duration // by change attribute: when it was seen first
}

// cellTruth is what a cell may hold, by tags; 0 is a hole.
type cellTruth struct {
	may  map[uint64]bool // may be read
	back map[uint64]bool // may come back in a crash of its data server
	ds   layout.DSID     // its data server, if anything reached one
	// crashes of that data server so far
	crashes int
}

// write is one client's wish that a cell held its tag.
type write struct {
	tag  uint64
	by   *hold
	file *truth
	cell int
}

// hold is an open, a lock, a delegation or a layout that a client was granted.
type hold struct {
	life         *life
	file         *truth
	lock         bool
	deleg        bool
	layout       bool
	other        [12]byte // of the stateid of a delegation or layout
	under        *hold    // the delegation under which the client granted it to itself
	since        time.Duration
	supersededAt time.Duration
	access, deny uint32 // of an open; of a delegation or layout READ or BOTH
	from, to     uint64 // of a lock: bytes
	exclusive    bool
	mdsStart     uint64    // in which it was granted or reclaimed
	until        time.Time // not zero: not reclaimed yet, the lease ended then
	released     bool
	superseded   *hold // granted while this one's lease had run out
}

func (h *hold) String() string {
	switch {
	case h.deleg:
		return fmt.Sprintf("%s's delegation of %v, access %d", h.life.name, h.file.obj, h.access)
	case h.layout:
		return fmt.Sprintf("%s's layout of %v, access %d", h.life.name, h.file.obj, h.access)
	case h.lock:
		return fmt.Sprintf("%s's lock of [%d,%d) of %v, exclusive %t", h.life.name, h.from, h.to, h.file.obj, h.exclusive)
	}
	return fmt.Sprintf("%s's open of %v, access %d deny %d", h.life.name, h.file.obj, h.access, h.deny)
}

func newJudge(w *world) *judge {
	keys, err := layout.NewKeyring(1, layout.Key{ID: 1})
	if err != nil {
		panic(err)
	}
	return &judge{w: w, keys: keys, files: map[layout.Object]*truth{}, writes: []*write{nil}, seen: map[string]int{},
		recalls: map[[12]byte]time.Time{}, wants: map[string]map[*life]time.Time{}}
}

// count notes that something was tried with success: a run that does nothing
// proves nothing.
func (j *judge) count(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen[what]++
}

// file returns the truth about a file by its handle.
func (j *judge) file(fh nfs4.FH) *truth {
	h, s := j.keys.OpenMDS(fh)
	if s != nfs4.OK {
		j.w.fail("filehandle %x: %v", fh, s)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ofObject(layout.Object(h))
}

func (j *judge) ofObject(obj layout.Object) *truth {
	f := j.files[obj]
	if f == nil {
		f = &truth{obj: obj, shown: map[uint64]time.Duration{}}
		for i := range f.cell {
			f.cell[i].may, f.cell[i].back = map[uint64]bool{0: true}, map[uint64]bool{0: true}
		}
		j.files[obj] = f
	}
	return f
}

// Opens and locks.

func (h *hold) conflicts(o *hold) bool {
	switch {
	case h.file != o.file || h.layout || o.layout:
		return false
	case h.deleg && o.deleg:
		return h.life != o.life && (h.access|o.access)&nfs4.ShareAccessWrite != 0
	case h.deleg:
		return h.bars(o)
	case o.deleg:
		return o.bars(h)
	case h.lock != o.lock, h.life == o.life && (h.under != nil || o.under != nil):
		return false
	case h.lock:
		return (h.exclusive || o.exclusive) && h.from < o.to && o.from < h.to
	}
	return h.access&o.deny|h.deny&o.access != 0
}

// bars says whether a delegation must not be there along with another client's
// open (RFC 8881 section 10.4).
func (h *hold) bars(o *hold) bool {
	if o.lock || o.life == h.life {
		return false
	}
	return h.access&nfs4.ShareAccessWrite != 0 || o.access&nfs4.ShareAccessWrite != 0 || o.deny&nfs4.ShareDenyRead != 0
}

// overdue says whether it was not returned a lease after it was asked for, so that
// it may be gone. The judge's mu is held.
func (h *hold) overdue() bool {
	at, ok := h.life.w.judge.recalls[h.other]
	return ok && (h.deleg || h.layout) && !time.Now().Before(at.Add(lease))
}

// stands says whether the holder has a right to think that it holds it. The
// judge's mu is held.
func (h *hold) stands() bool {
	now := time.Now()
	if h.under != nil {
		return !h.released && h.superseded == nil && h.under.stands()
	}
	if h.overdue() {
		return false
	}
	return !h.released && h.superseded == nil && now.Before(h.life.leaseEnd()) && (h.until.IsZero() || now.Before(h.until))
}

// acquire is a grant that reached its client.
func (j *judge) acquire(h *hold) *hold {
	j.mu.Lock()
	defer j.mu.Unlock()
	h.mdsStart, h.since = j.w.mds.started(), j.w.now()
	for _, o := range j.holds {
		if o.released && !o.lock || !h.conflicts(o) {
			continue
		}
		switch {
		case h.under != nil && !h.under.stands():
			continue // it is as good as what it is under
		case h.overdue(): // it was taken back before it came here
			if o.stands() {
				h.superseded, h.supersededAt = o, j.w.now()
			}
			continue
		case o.stands():
			j.w.fail("two holders: %v was granted while there is %v, whose lease ends at %v", h, o, o.life.leaseEnd().Sub(j.w.start))
		}
		if o.superseded == nil {
			o.superseded, o.supersededAt = h, j.w.now()
		}
	}
	j.holds = append(j.holds, h)
	return h
}

// release is before the client sends that it does not need it any more.
func (j *judge) release(h *hold) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h.released = true
}

// freeze is before a client reclaims: from now on only what it had before
// speaks for its holds.
func (j *judge) freeze(l *life, until time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, h := range j.holds {
		if h.life == l && h.until.IsZero() {
			h.until = until
		}
	}
}

// reclaimed is a hold that its client got back.
func (j *judge) reclaimed(h *hold) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h.until, h.mdsStart = time.Time{}, j.w.mds.started()
	if h.superseded != nil {
		j.w.fail("two holders: %v was reclaimed though %v was granted since", h, h.superseded)
	}
}

// lost is a client's learning that it does not have a hold any more.
func (j *judge) lost(h *hold, why nfs4.Status) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case h.released || h.under != nil || h.deleg || h.layout:
	case h.stands() && why == nfs4.ErrStale:
		j.w.fail("%v is lost, for the file is gone", h)
	case h.stands() && h.until.IsZero() && h.mdsStart == j.w.mds.started():
		j.w.fail("%v is lost (%v) though its lease goes until %v", h, why, h.life.leaseEnd().Sub(j.w.start))
	case j.unjust(h):
		j.w.fail("%v is lost (%v) though nobody wanted what its client holds", h, why)
	}
	h.released = true
}

// died: a client is no more, and holds nothing as far as others can tell.
func (j *judge) died(l *life) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, h := range j.holds {
		if h.life == l {
			h.released = true
		}
	}
}

// Data.

// begin is before the first WRITE of a tag. The tag is new.
func (j *judge) begin(h *hold, cell int) *write {
	j.mu.Lock()
	defer j.mu.Unlock()
	wr := &write{tag: uint64(len(j.writes)), by: h, file: h.file, cell: cell}
	j.writes = append(j.writes, wr)
	c := &h.file.cell[cell]
	c.may[wr.tag], c.back[wr.tag] = true, true
	h.file.hi = max(h.file.hi, uint64(cell+1)*unit)
	return wr
}

// glance is what was known before something was asked for.
type glance struct {
	crashes int    // that the cell's bytes have been through
	lo      uint64 // the least size
	change  uint64
	inPlace *hold // what was granted in the place of the hold under which it is asked

	cuts      int
	told, own time.Duration
	by        *hold
	ownEnd    uint64
	known     bool // the server knows of by: it was given, or reclaimed, since its start
}

// before is the glance at a cell before a request under h, which may be nil.
func (j *judge) before(f *truth, cell int, h *hold) glance {
	j.mu.Lock()
	defer j.mu.Unlock()
	g := glance{
		crashes: f.cell[cell].crashes, lo: f.lo, change: f.change,
		cuts: f.cuts, told: f.told, own: f.own, by: f.by, ownEnd: f.ownEnd,
		known: f.by != nil && f.by.mdsStart == j.w.mds.started(),
	}
	if h != nil {
		g.inPlace = h.inPlace()
	}
	return g
}

// reachesDisk is a WRITE that a data server does now.
func (j *judge) reachesDisk(ds layout.DSID, obj layout.Object, p []byte, off int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	tag := binary.BigEndian.Uint64(p)
	if len(p) != unit || off%unit != 0 || tag == 0 || tag >= uint64(len(j.writes)) {
		j.w.fail("WRITE that nobody sent: %d bytes at %d of %v", len(p), off, obj)
		return
	}
	wr := j.writes[tag]
	if wr.file.obj != obj || wr.cell != int(off/unit) {
		j.w.fail("WRITE of %d in %v reaches %d of %v", wr.cell*unit, wr.file.obj, off, obj)
	}
	if s := wr.by.inPlace(); s != nil {
		j.w.fail("not fenced: bytes under %v reach %d of ds%d after %v was granted", wr.by, off, ds, s)
	}
	wr.file.cell[wr.cell].ds = ds
}

// crashed is a data server that lost what was not synced, perhaps.
func (j *judge) crashed(ds layout.DSID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, f := range j.files {
		for i := range f.cell {
			c := &f.cell[i]
			if c.ds != ds {
				continue
			}
			c.crashes++
			for tag := range c.back {
				c.may[tag] = true
			}
		}
	}
}

// written is a WRITE's reply.
func (j *judge) written(wr *write, g glance) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &wr.file.cell[wr.cell]
	if wr.by.inPlace() == nil && c.crashes == g.crashes {
		c.may = map[uint64]bool{wr.tag: true}
	}
}

// stable is a promise that no crash takes a write away.
func (j *judge) stable(wr *write) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if wr.by.inPlace() == nil {
		c := &wr.file.cell[wr.cell]
		c.may, c.back = map[uint64]bool{wr.tag: true}, map[uint64]bool{wr.tag: true}
	}
}

// read is what a client with a lock got from a cell: tag 0 for zeros, end if
// the file is said to end before it.
func (j *judge) read(h *hold, cell int, tag uint64, end bool, g glance) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !h.stands() {
		return
	}
	f := h.file
	c := &f.cell[cell]
	switch {
	case end && g.lo > uint64(cell)*unit:
		j.w.fail("%v reads an end before cell %d, though the size is %d at least", h, cell, g.lo)
	case end:
	case !c.may[tag]:
		j.w.fail("%v reads %d in cell %d, which may hold %v (after a crash %v); size %d to %d", h, tag, cell, c.may, c.back, f.lo, f.hi)
	case c.crashes == g.crashes:
		c.may = map[uint64]bool{tag: true}
	}
}

// Sizes.

// grew is the metadata server's word that the file is at least that long.
func (j *judge) grew(h *hold, size uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if h.inPlace() == nil {
		h.file.lo, h.file.hi = max(h.file.lo, size), max(h.file.hi, size)
	}
}

// truncating is before a SETATTR of the size, truncated its reply.
func (j *judge) truncating(h *hold, size uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h.file.lo, h.file.hi = min(h.file.lo, size), max(h.file.hi, size)
	h.file.cuts++
	h.file.ownEnd = min(h.file.ownEnd, size)
	for i := int(size / unit); i < cells; i++ {
		h.file.cell[i].may[0], h.file.cell[i].back[0] = true, true
	}
}

func (j *judge) truncated(h *hold, size uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if h.inPlace() != nil {
		return
	}
	h.file.lo, h.file.hi = size, size
	h.file.cuts++
	for i := int(size / unit); i < cells; i++ {
		c := &h.file.cell[i]
		c.may, c.back = map[uint64]bool{0: true}, map[uint64]bool{0: true}
	}
}

// sized is a size that a client with a lock on the file got.
func (j *judge) sized(h *hold, size uint64, g glance) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !h.stands() {
		return
	}
	// What was not committed counts while its writer has a layout, so a size
	// that was seen is not yet one that stays.
	if f := h.file; size < g.lo || size > f.hi {
		j.w.fail("%v sees a size of %d, which must be %d to %d", h, size, g.lo, f.hi)
	}
}

// Change attributes.

// changed is a change attribute.
func (j *judge) changed(f *truth, change uint64, g glance) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if change < g.change {
		j.w.fail("the change attribute of %v went back from %d to %d", f.obj, g.change, change)
	}
	f.change = max(f.change, change)
}
