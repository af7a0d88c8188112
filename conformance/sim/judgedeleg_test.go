package sim

import (
	"time"

	"manifold/xdr/nfs4"
)

// What the judge knows of delegations, layouts and clients without a lease.

// inPlace is what was granted in the place of a hold, or of the delegation that
// it is under. The judge's mu is held.
func (h *hold) inPlace() *hold {
	if h.superseded == nil && h.under != nil {
		return h.under.superseded
	}
	return h.superseded
}

// holds says whether a client has a right to think that it holds something.
func (j *judge) stands(h *hold) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return h.stands()
}

// named notes the name by which a file was opened.
func (j *judge) named(f *truth, base string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if f.base == "" {
		f.base = base
	}
}

// recalling is a recall that the server sends.
func (j *judge) recalling(other [12]byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.recalls[other]; !ok {
		j.recalls[other] = time.Now()
	}
}

// claimed is what a client had granted to itself and the server knows from now on.
func (j *judge) claimed(h *hold) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if h.under != nil {
		h.under, h.mdsStart = nil, j.w.mds.started()
	}
}

// reclaimedDeleg is a delegation that its client got back after a restart, with
// another stateid.
func (j *judge) reclaimedDeleg(h *hold, id nfs4.Stateid) {
	j.mu.Lock()
	h.other = id.Other
	late := h.overdue()
	j.mu.Unlock()
	if !late { // else it was taken back before it came here
		j.reclaimed(h)
	}
}

// alone is a change that was acknowledged, to a file that no other client may
// have delegated then or, with cut, have a layout to write.
func (j *judge) alone(what string, l *life, f *truth, asked time.Duration, cut bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, h := range j.holds {
		rw := h.layout && h.access&nfs4.ShareAccessWrite != 0
		if h.file != f || h.life == l || h.since >= asked || !(h.deleg || cut && rw) || !h.stands() || rw && j.fenced(h) {
			continue
		}
		j.w.fail("%s by %s was acknowledged while there is %v", what, l.name, h)
	}
}

// fenced says whether a layout may be gone because its client did not return the
// delegation that it had as well. j.mu is held.
func (j *judge) fenced(layout *hold) bool {
	for _, h := range j.holds {
		if h.deleg && h.life == layout.life && h.file == layout.file && h.overdue() {
			return true
		}
	}
	return false
}

// honoured is a request under a hold that the server granted. Nobody can have
// what conflicts with that since before it was sent.
func (j *judge) honoured(what string, h *hold, sent time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if h.under != nil {
		h = h.under
	}
	if !h.released && h.superseded != nil && h.supersededAt < sent {
		j.w.fail("the server honours twice: %s under %v went well after %v was granted", what, h, h.superseded)
	}
}

// Changes.

// changedByItself is a change that a client makes under a delegation to write.
func (j *judge) changedByItself(h *hold, end uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f := h.file
	if f.by != h {
		f.by, f.ownEnd = h, 0
	}
	f.own, f.ownEnd = j.w.now(), max(f.ownEnd, end)
}

// told is a change that the server acknowledged, and when it was sent.
func (j *judge) told(f *truth, sent time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f.told = max(f.told, sent)
}

// peeked is what a client that need not have the file open was told of it.
func (j *judge) peeked(l *life, f *truth, size, change uint64, g glance) {
	j.changed(f, change, g)
	j.mu.Lock()
	defer j.mu.Unlock()
	// While its holder has not reclaimed it nobody knows of a delegation.
	ownsUp := g.by != nil && f.by == g.by && g.by.life != l && g.by.stands() && g.known
	seen, again := f.shown[change]
	switch {
	case f.cuts == g.cuts && (size < g.lo || size > f.hi):
		j.w.fail("%s sees a size of %d of %v, which must be %d to %d", l.name, size, f.obj, g.lo, f.hi)
	case f.cuts == g.cuts && ownsUp && size < g.ownEnd:
		j.w.fail("%s sees a size of %d of %v, which is %d for the holder of %v", l.name, size, f.obj, g.ownEnd, g.by)
	case again && (g.told > seen || ownsUp && g.own > seen):
		j.w.fail("%s sees %v at change %d, as at %v, but it was changed since: the server was told at %v, and not at %v", l.name, f.obj, change, seen, g.told, g.own)
	case !again:
		f.shown[change] = j.w.now()
	}
}

// Clients without a lease.

// courtesy is how long such a client may stay in this world.
func (w *world) courtesy() time.Duration {
	if w.seed%2 == 0 {
		return 20 * time.Second
	}
	return 0
}

// wanted notes that a client asks, or asked, for something of a file.
func (j *judge) wanted(f *truth, l *life) {
	j.mu.Lock()
	base := f.base
	j.mu.Unlock()
	j.wantedName(base, l)
}

func (j *judge) wantedName(base string, l *life) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wants[base] == nil {
		j.wants[base] = map[*life]time.Time{}
	}
	j.wants[base][l] = time.Now()
}

// late counts clients that come back after their lease had run out.
func (j *judge) late(l *life, end time.Time, kept bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if time.Since(end) < lease || j.w.courtesy() == 0 {
		return
	}
	for _, h := range j.holds {
		if h.life != l || h.released || h.mdsStart != j.w.mds.started() {
			continue
		}
		if kept {
			j.seen["back without a lease, and nothing is lost"]++
		} else {
			j.seen["back without a lease, too late"]++
		}
		return
	}
}

// unjust says whether a hold was lost that its client should have got back
// though its lease had run out: nobody wanted anything that it has. The judge's
// mu is held.
func (j *judge) unjust(h *hold) bool {
	end, now := h.until, time.Now()
	if end.IsZero() {
		end = h.life.leaseEnd()
	}
	if j.w.courtesy() == 0 || h.superseded != nil || h.mdsStart != j.w.mds.started() || now.After(end.Add(j.w.courtesy()-3*time.Second)) {
		return false
	}
	// What it closed itself, and left, is recalled from it: then it does not stay.
	from := end.Add(-2 * lease)
	for _, o := range j.holds {
		if o.life != h.life || o.released && !o.layout && o.until.IsZero() { // what was lost along with it counts
			continue
		}
		for l, at := range j.wants[o.file.base] {
			if l != h.life && at.After(from) {
				return false
			}
		}
	}
	return h.life.left().Before(from)
}
