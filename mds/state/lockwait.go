package state

import (
	"cmp"
	"slices"

	"manifold/xdr/nfs4"
)

// lockWait is a lock that was denied to a lock-owner who would wait for it (RFC
// 8881 section 9.6). It is a note only: the client asks again by itself, too.
type lockWait struct {
	span
	write bool
	owner string
	open  *open
}

// waitIndex returns where the wait of a lock-owner through an open is, or -1.
// There is one at most: a lock-owner that asks for another waits for that.
func (f *file) waitIndex(o *open, owner string) int {
	return slices.IndexFunc(f.waits, func(w lockWait) bool { return w.open == o && w.owner == owner })
}

// waitAct notes a wait, last in the order of arrival unless it is there already.
type waitAct struct {
	client nfs4.ClientID
	open   uint64
	owner  string
	at     span
	write  bool
}

// maxWaits bounds the waits on one file, which every unlock of it looks at.
const maxWaits = 1024

// mayWait returns the Change that notes the wait for a lock that is denied: none
// if there is no room for it. A wait counts as a lock-owner, whether that has
// locks or not, so that waits are bounded with those.
func (r LockReq) mayWait(c *Core, o *open, owner string, write bool) Change {
	waits := r.Type == nfs4.LockReadW || r.Type == nfs4.LockWriteW
	f := o.stake.file
	another := f.waitIndex(o, owner) < 0
	if !waits || !r.CanCallback || another && (len(f.waits) >= maxWaits || c.room(o.stake.client, owners, 1) != nfs4.OK) {
		return Change{}
	}
	return Change{waitAct{client: r.Client, open: o.num, owner: owner, at: spanOf(r.Range), write: write}}
}

func (a waitAct) apply(c *Core, _ *Effects) bool {
	o := c.opens.get(a.open)
	if _, s := c.client(a.client); s != nfs4.OK || o == nil {
		return false
	}
	f := o.stake.file
	w := lockWait{span: a.at, write: a.write, owner: a.owner, open: o}
	if i := f.waitIndex(o, a.owner); i >= 0 {
		f.waits[i] = w
		return true
	}
	f.waits = append(f.waits, w)
	c.waited[f] = struct{}{}
	c.count(o.stake.client, owners, 1)
	return true
}

// endWaits drops those waits on a file that match.
func (c *Core) endWaits(f *file, match func(lockWait) bool) {
	if len(f.waits) == 0 {
		return
	}
	f.waits = slices.DeleteFunc(f.waits, func(w lockWait) bool {
		ends := match(w)
		if ends {
			c.count(w.open.stake.client, owners, -1)
		}
		return ends
	})
	if len(f.waits) == 0 {
		f.waits = nil
		delete(c.waited, f)
	}
}

// release ends those waits on a file whose locks can be had now, all of them
// together, in the order of arrival, and returns them.
func (c *Core) release(f *file) (told []LocktReq) {
	var taken []lockWait
	c.endWaits(f, func(w lockWait) bool {
		id := w.open.stake.client.id
		if _, inWay := f.contested(id, w.owner, w.span, w.write); inWay || slices.ContainsFunc(taken, w.bars) {
			return false
		}
		taken = append(taken, w)
		told = append(told, LocktReq{Client: id, File: f.id, Owner: []byte(w.owner), Range: w.asRange(), Type: lockType(w.write)})
		return true
	})
	return told
}

// bars says whether two waits are for locks that cannot be had together.
func (w lockWait) bars(o lockWait) bool {
	same := w.owner == o.owner && w.open.stake == o.open.stake
	return !same && (w.write || o.write) && w.overlaps(o.span)
}

// waitedFor says whether another client waits for what the client has locked of
// the file.
func (st *stake) waitedFor() bool {
	return slices.ContainsFunc(st.file.waits, func(w lockWait) bool {
		return w.open.stake != st && slices.ContainsFunc(st.file.locks, func(l byteLock) bool {
			return l.by.open.stake == st && l.overlaps(w.span) && (l.write || w.write)
		})
	})
}

// Waiters returns the locks that are waited for and free, by file: for instance
// because who was told first did not want the lock any more. Each is told once,
// so the caller asks now and then.
func (c *Core) Waiters() []LocktReq {
	var out []LocktReq
	for f := range c.waited {
		out = append(out, c.release(f)...)
	}
	slices.SortStableFunc(out, func(a, b LocktReq) int { return cmp.Compare(a.File, b.File) })
	return out
}
