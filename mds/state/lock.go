package state

import (
	"math"
	"slices"
	"sort"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// lockOwner is one lock-owner's ranges of one file, taken through one open.
type lockOwner struct {
	sid    nfs4.Stateid
	num    uint64
	open   *open
	owner  string
	ranges int
}

// byteLock is a locked range, both ends included. Ranges of one lock-owner
// never overlap, whatever open they came through.
type byteLock struct {
	span
	write bool
	by    *lockOwner
}

// span is a range of bytes, both ends included, so that the last byte there
// can be is one.
type span struct{ first, last uint64 }

func spanOf(r layout.Range) span {
	if r.Length == layout.ToEnd {
		return span{r.Offset, math.MaxUint64}
	}
	return span{r.Offset, r.Offset + r.Length - 1}
}

func (s span) asRange() layout.Range {
	if s.last == math.MaxUint64 {
		return layout.Range{Offset: s.first, Length: layout.ToEnd}
	}
	return layout.Range{Offset: s.first, Length: s.last - s.first + 1}
}

func (s span) overlaps(o span) bool { return s.first <= o.last && o.first <= s.last }

// touches says whether the two together are one range.
func (s span) touches(o span) bool {
	return s.overlaps(o) ||
		s.last != math.MaxUint64 && s.last+1 == o.first ||
		o.last != math.MaxUint64 && o.last+1 == s.first
}

// isWrite takes a lock type apart.
func isWrite(t nfs4.LockType) (write, ok bool) {
	switch t {
	case nfs4.LockRead, nfs4.LockReadW:
		return false, true
	case nfs4.LockWrite, nfs4.LockWriteW:
		return true, true
	}
	return false, false
}

func lockType(write bool) nfs4.LockType {
	if write {
		return nfs4.LockWrite
	}
	return nfs4.LockRead
}

// owned says whether lo is the lock-owner of that client and name.
func (lo *lockOwner) owned(id nfs4.ClientID, owner string) bool {
	return lo.open.stake.client.id == id && lo.owner == owner
}

// contested says whether a lock keeps a lock-owner from s, and answers with the
// first of those that are to stay. f may be nil.
func (f *file) contested(id nfs4.ClientID, owner string, s span, write bool) (v Verdict, inWay bool) {
	if f == nil {
		return v, false
	}
	var gone fading
	for _, l := range f.locks[f.near(s):] {
		if l.first > s.last {
			break
		}
		if !l.overlaps(s) || !write && !l.write || l.by.owned(id, owner) {
			continue
		}
		if cl := l.by.open.stake.client; cl.id != id && cl.fading() {
			gone.add(cl)
			continue
		}
		return Verdict{Status: nfs4.ErrDenied, Denied: l.denied()}, true
	}
	if len(gone) > 0 {
		return gone.delay(), true
	}
	return v, false
}

// denied is how a lock in the way is told (RFC 8881 section 18.10.2).
func (l byteLock) denied() nfs4.LockDenied {
	at := l.asRange()
	d := nfs4.LockDenied{Offset: at.Offset, Length: at.Length, LockType: lockType(l.write)}
	d.Owner.ClientID = l.by.open.stake.client.id
	d.Owner.Owner = []byte(l.by.owner)
	return d
}

// growth returns how many ranges more a lock-owner has at most, if s is taken
// out of its ranges and, unless unlock is set, then added.
func (f *file) growth(id nfs4.ClientID, owner string, s span, unlock bool) int {
	n := 0
	if !unlock {
		n = 1
	}
	for _, l := range f.locks[f.near(s):] {
		if l.first > s.last {
			break
		}
		if !l.overlaps(s) || !l.by.owned(id, owner) {
			continue
		}
		n--
		if l.first < s.first {
			n++
		}
		if l.last > s.last {
			n++
		}
	}
	return n
}

func (r LockReq) decide(c *Core, e env) Verdict {
	cl, s := c.client(r.Client)
	if s != nfs4.OK {
		return refuse(s)
	}
	write, ok := isWrite(r.Type)
	if !ok || !r.Range.Valid() {
		return refuse(nfs4.ErrInval)
	}
	o, owner, s := r.target(c)
	if s != nfs4.OK {
		return refuse(s)
	}
	if s := c.mayClaim(e.now, cl, r.Reclaim); s != nfs4.OK {
		return refuse(s)
	}
	if write && o.access&nfs4.ShareAccessWrite == 0 || !write && o.access&nfs4.ShareAccessRead == 0 {
		return refuse(nfs4.ErrOpenMode)
	}
	f, at := o.stake.file, spanOf(r.Range)
	if v, inWay := f.contested(r.Client, owner, at, write); inWay {
		if r.Reclaim {
			return refuse(nfs4.ErrReclaimConflict)
		}
		if v.Status == nfs4.ErrDenied {
			v.Change = r.mayWait(c, o, owner, write)
		}
		return v
	}
	more := f.growth(r.Client, owner, at, false)
	if more > 0 && len(f.locks)+more > c.cfg.FileLocks {
		return refuse(nfs4.ErrResource)
	}
	if s := c.room(cl, locks, more); s != nfs4.OK {
		return c.full(s, locks)
	}
	act := lockAct{client: r.Client, open: o.num, owner: owner, at: at, write: write}
	if lo := o.owners.get(owner); lo != nil {
		act.sid, act.num = bump(lo.sid), lo.num
	} else if s := c.room(cl, owners, 1); s != nfs4.OK && f.waitIndex(o, owner) < 0 {
		return c.full(s, owners)
	} else {
		act.sid, act.num = c.mint(kindLock, r.Client, r.File)
	}
	return Verdict{Stateid: act.sid, Change: Change{act}}
}

// target returns the open that LOCK goes through, and the lock-owner. One that
// is known already may come as a new one, if the client lost its stateid (RFC
// 8881 section 18.10.3).
func (r LockReq) target(c *Core) (*open, string, nfs4.Status) {
	if r.NewOwner {
		o, s := c.findOpen(r.Client, r.File, r.Stateid)
		return o, string(r.Owner), s
	}
	lo, s := c.findOwner(r.Client, r.File, r.Stateid)
	if s != nfs4.OK {
		return nil, "", s
	}
	return lo.open, lo.owner, nfs4.OK
}

// lockAct locks a range, or unlocks it.
type lockAct struct {
	client nfs4.ClientID
	open   uint64
	owner  string
	at     span
	write  bool
	unlock bool
	sid    nfs4.Stateid
	num    uint64
}

func (a lockAct) apply(c *Core, e *Effects) bool {
	o := c.opens.get(a.open)
	if _, s := c.client(a.client); s != nfs4.OK || o == nil {
		return false
	}
	lo := o.owners.get(a.owner)
	if lo == nil {
		if a.unlock {
			return true // FREE_STATEID came in between
		}
		lo = &lockOwner{num: a.num, open: o, owner: a.owner}
		o.owners.add(lo)
		c.owners.put(a.num, lo)
		c.count(o.stake.client, owners, 1)
	}
	if lo.num == a.num {
		lo.sid = a.sid
	}
	c.setRange(lo, a.at, a.write, a.unlock)
	f := o.stake.file
	if !a.unlock {
		c.endWaits(f, func(w lockWait) bool { return w.open == o && w.owner == a.owner })
	}
	if a.unlock || !a.write {
		e.Notify = c.release(f)
	}
	return true
}

func (r LocktReq) decide(c *Core, e env) Verdict {
	cl, s := c.client(r.Client)
	if s != nfs4.OK {
		return refuse(s)
	}
	write, ok := isWrite(r.Type)
	if !ok || !r.Range.Valid() {
		return refuse(nfs4.ErrInval)
	}
	if s := c.mayClaim(e.now, cl, false); s != nfs4.OK {
		return refuse(s)
	}
	v, _ := c.files.get(r.File).contested(r.Client, string(r.Owner), spanOf(r.Range), write)
	return v
}

func (r LockuReq) decide(c *Core, _ env) Verdict {
	cl, s := c.client(r.Client)
	if s != nfs4.OK {
		return refuse(s)
	}
	if !r.Range.Valid() {
		return refuse(nfs4.ErrInval)
	}
	lo, s := c.findOwner(r.Client, r.File, r.Stateid)
	if s != nfs4.OK {
		return refuse(s)
	}
	at := spanOf(r.Range)
	if n := lo.open.stake.file.growth(r.Client, lo.owner, at, true); n > 0 && (c.room(cl, locks, n) != nfs4.OK || len(lo.open.stake.file.locks)+n > c.cfg.FileLocks) {
		return refuse(nfs4.ErrResource)
	}
	act := lockAct{client: r.Client, open: lo.open.num, owner: lo.owner, at: at,
		unlock: true, sid: bump(lo.sid), num: lo.num}
	return Verdict{Stateid: act.sid, Change: Change{act}}
}

// setRange makes at a lock of lo of one type, or with unlock none: it replaces,
// cuts or splits what the same lock-owner has there, and joins what it touches.
func (c *Core) setRange(lo *lockOwner, at span, write, unlock bool) {
	f := lo.open.stake.file
	id := lo.open.stake.client.id
	whole := at
	var parts []byteLock
	end := sort.Search(len(f.locks), func(i int) bool {
		return f.locks[i].first > at.last && f.locks[i].first-1 > at.last
	})
	start := f.near(at)
	kept := f.locks[:start]
	for _, l := range f.locks[start:end] {
		switch {
		case !l.touches(at) || !l.by.owned(id, lo.owner):
			kept = append(kept, l)
			continue
		case !unlock && l.by == lo && l.write == write && l.touches(at):
			whole = span{min(whole.first, l.first), max(whole.last, l.last)}
		case !l.overlaps(at):
			kept = append(kept, l)
			continue
		default:
			if l.first < at.first {
				parts = append(parts, byteLock{span{l.first, at.first - 1}, l.write, l.by})
			}
			if l.last > at.last {
				parts = append(parts, byteLock{span{at.last + 1, l.last}, l.write, l.by})
			}
		}
		c.countRange(l.by, -1)
	}
	f.locks = slices.Delete(f.locks, len(kept), end)
	if !unlock {
		parts = append(parts, byteLock{whole, write, lo})
	}
	for _, l := range parts {
		i := sort.Search(len(f.locks), func(i int) bool { return f.locks[i].first > l.first })
		f.locks = slices.Insert(f.locks, i, l)
		f.longest = max(f.longest, l.last-l.first)
		c.countRange(l.by, 1)
	}
	if len(f.locks) == 0 {
		f.locks, f.longest = nil, 0
	}
}

// near returns where in locks those begin that may overlap or touch s: one
// before that ends too early, however long it is.
func (f *file) near(s span) int {
	if f.longest >= s.first || f.longest+1 >= s.first {
		return 0
	}
	return sort.Search(len(f.locks), func(i int) bool { return f.locks[i].first >= s.first-1-f.longest })
}

func (c *Core) countRange(lo *lockOwner, by int) {
	lo.ranges += by
	c.count(lo.open.stake.client, locks, by)
}

// unlock takes a client's locks of a file away, of all its opens or of one, in
// one go: there may be many.
func (c *Core) unlock(st *stake, of *open) {
	st.file.locks = slices.DeleteFunc(st.file.locks, func(l byteLock) bool {
		mine := l.by.open.stake == st && (of == nil || l.by.open == of)
		if mine {
			c.countRange(l.by, -1)
		}
		return mine
	})
	if len(st.file.locks) == 0 {
		st.file.locks, st.file.longest = nil, 0 // the memory of a file that had many
	}
}

// dropOwner ends a lock-owner's state of a file, in which there is no lock left.
func (c *Core) dropOwner(lo *lockOwner) {
	lo.open.owners.drop(lo)
	c.owners.drop(lo.num)
	c.count(lo.open.stake.client, owners, -1)
}
