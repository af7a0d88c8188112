package state

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// The model's bytes: the first and the last few there are, one cell each, and
// everything in between as one cell.
const (
	lowCells  = 24
	highCells = 8
	cells     = lowCells + 1 + highCells
)

func cellStart(i int) uint64 {
	if i <= lowCells {
		return uint64(i)
	}
	return math.MaxUint64 - uint64(cells-1-i)
}

func cellEnd(i int) uint64 {
	if i == cells-1 {
		return math.MaxUint64
	}
	return cellStart(i+1) - 1
}

// lockModel is byte-range locks written down byte by byte: what each
// lock-owner holds in each cell, and through which open.
type lockModel map[string]*[cells]modelByte

type modelByte struct {
	held, write bool
	open        int
}

func (m lockModel) blocked(owner string, from, to int, write bool) bool {
	for other, bytes := range m {
		for i := from; i <= to && other != owner; i++ {
			if bytes[i].held && (write || bytes[i].write) {
				return true
			}
		}
	}
	return false
}

func (m lockModel) set(owner string, from, to int, b modelByte) {
	if m[owner] == nil {
		m[owner] = &[cells]modelByte{}
	}
	for i := from; i <= to; i++ {
		m[owner][i] = b
	}
}

// lockRig drives a Core and the model of one file along each other.
type lockRig struct {
	t     *testing.T
	c     *Core
	m     lockModel
	opens [4]nfs4.Stateid // two of each of two clients
	sids  map[string]nfs4.Stateid
}

func testConfig() Config {
	n := Counts{Clients: 100, Opens: 1000, Owners: 1000, Locks: 10000, Layouts: 1000, Delegs: 1000}
	return Config{Boot: 1, Grace: time.Minute, Recall: time.Minute, DelegPause: 10 * time.Second, Courtesy: time.Hour, PerClient: n, Total: n}
}

func newCore(t testing.TB, clients int) *Core { return newCoreWith(t, testConfig(), clients) }

func newCoreWith(t testing.TB, cfg Config, clients int) *Core {
	c, err := New(cfg, time.Unix(0, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	for id := range clients {
		c.AddClient(time.Unix(0, 0), nfs4.ClientID(id+1), fmt.Sprint(id))
		c.ReclaimComplete(nfs4.ClientID(id + 1))
	}
	return c
}

// must decides and applies what has to work.
func must(t testing.TB, c *Core, r Request) Verdict {
	t.Helper()
	v := c.Decide(time.Unix(0, 0), r)
	if v.Status != nfs4.OK {
		t.Fatalf("%+v: %v", r, v.Status)
	}
	if _, ok := c.Apply(v.Change); !ok {
		t.Fatalf("%+v: not applied", r)
	}
	return v
}

func newLockRig(t *testing.T) *lockRig {
	r := &lockRig{t: t, c: newCore(t, 2), m: lockModel{}, sids: map[string]nfs4.Stateid{}}
	for i := range r.opens {
		r.opens[i] = r.open(i)
	}
	return r
}

func (r *lockRig) open(i int) nfs4.Stateid {
	return must(r.t, r.c, OpenReq{Client: clientOf(i), Owner: []byte{byte(i)}, File: 1, Access: 3}).Stateid
}

func clientOf(open int) nfs4.ClientID { return nfs4.ClientID(open/2 + 1) }

// TestLocksAgainstModel runs random LOCK, LOCKT, LOCKU and CLOSE of three
// lock-owners of each client against the model.
func TestLocksAgainstModel(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := newLockRig(t)
		for step := range 300 {
			r.step(rng)
			r.compare()
			if t.Failed() {
				t.Fatalf("seed %d step %d", seed, step)
			}
		}
	}
}

func (r *lockRig) step(rng *rand.Rand) {
	open := rng.IntN(len(r.opens))
	id := clientOf(open)
	name := string(rune('p' + rng.IntN(3)))
	owner := fmt.Sprint(id, name)
	key := fmt.Sprint(open, name)
	from, to := rng.IntN(cells), rng.IntN(cells)
	from, to = min(from, to), max(from, to)
	if from == 0 && to == cells-2 {
		to = cells - 1 // all but the last byte has no length: that means to the end
	}
	rg := layout.Range{Offset: cellStart(from), Length: layout.ToEnd}
	if to < cells-1 {
		rg.Length = cellEnd(to) - cellStart(from) + 1
	}
	write := rng.IntN(2) == 0
	typ := nfs4.LockRead
	if write {
		typ = nfs4.LockWrite
	}
	switch rng.IntN(10) {
	case 0:
		must(r.t, r.c, CloseReq{id, 1, r.opens[open]})
		for owner, bytes := range r.m {
			for i := range bytes {
				if owner[:1] == fmt.Sprint(id) && bytes[i].open == open {
					bytes[i] = modelByte{}
				}
			}
		}
		for _, n := range "pqr" {
			delete(r.sids, fmt.Sprint(open, string(n)))
		}
		r.opens[open] = r.open(open)
	case 1, 2, 3:
		if sid, ok := r.sids[key]; ok {
			r.sids[key] = must(r.t, r.c, LockuReq{id, 1, sid, rg}).Stateid
			r.m.set(owner, from, to, modelByte{})
		}
	case 4:
		v := r.c.Decide(time.Unix(0, 0), LocktReq{id, 1, []byte(name), rg, typ})
		r.expect(v, owner, from, to, write)
	default:
		req := LockReq{Client: id, File: 1, NewOwner: true, Stateid: r.opens[open], Owner: []byte(name), Range: rg, Type: typ}
		if sid, ok := r.sids[key]; ok && rng.IntN(2) == 0 {
			req.NewOwner, req.Stateid = false, sid
		}
		v := r.c.Decide(time.Unix(0, 0), req)
		r.expect(v, owner, from, to, write)
		if v.Status == nfs4.OK {
			r.c.Apply(v.Change)
			r.sids[key] = v.Stateid
			r.m.set(owner, from, to, modelByte{true, write, open})
		}
	}
}

// expect compares whether a lock was denied, and whether whom it was denied for
// really has what is in the way.
func (r *lockRig) expect(v Verdict, owner string, from, to int, write bool) {
	if !r.m.blocked(owner, from, to, write) {
		if v.Status != nfs4.OK {
			r.t.Errorf("%v, should be free: %+v", v.Status, v.Denied)
		}
		return
	}
	if v.Status != nfs4.ErrDenied {
		r.t.Errorf("%v, should be denied", v.Status)
		return
	}
	d := v.Denied
	bytes := r.m[fmt.Sprint(d.Owner.ClientID, string(d.Owner.Owner))]
	for i := range cells {
		if bytes != nil && i >= from && i <= to && cellStart(i) >= d.Offset && cellEnd(i)-d.Offset < d.Length &&
			bytes[i].held && bytes[i].write == (d.LockType == nfs4.LockWrite) && (write || bytes[i].write) {
			return
		}
	}
	r.t.Errorf("denied for %+v, which is not there or not in the way", d)
}

// compare checks that both hold the same bytes.
func (r *lockRig) compare() {
	checkInvariants(r.t, r.c)
	got := lockModel{}
	for _, l := range r.c.files.get(1).locks {
		owner := fmt.Sprint(l.by.open.stake.client.id, l.by.owner)
		for i := range cells {
			if l.first <= cellStart(i) && cellEnd(i) <= l.last {
				got.set(owner, i, i, modelByte{true, l.write, int(l.by.open.owner[0])})
			}
		}
	}
	for owner := range r.m {
		got.set(owner, 0, -1, modelByte{})
		for i := range cells {
			if g, w := got[owner][i], r.m[owner][i]; g.held != w.held || g.held && g != w {
				r.t.Errorf("%s cell %d: has %+v, should be %+v", owner, i, g, w)
			}
		}
	}
}

// TestLockRangesMergeBack locks bytes one by one in random order: one range is
// left; and unlocking every second leaves as many as there are holes.
func TestLockRangesMergeBack(t *testing.T) {
	c := newCore(t, 1)
	o := must(t, c, OpenReq{Client: 1, File: 1, Access: 3}).Stateid
	sid := o
	for i, b := range rand.New(rand.NewPCG(1, 1)).Perm(100) {
		req := LockReq{Client: 1, File: 1, NewOwner: i == 0, Stateid: sid, Range: layout.Range{Offset: uint64(b), Length: 1}, Type: nfs4.LockWrite}
		sid = must(t, c, req).Stateid
	}
	if n := c.Counts().Locks; n != 1 {
		t.Errorf("%d ranges after locking all, should be 1", n)
	}
	for b := uint64(0); b < 100; b += 2 {
		sid = must(t, c, LockuReq{1, 1, sid, layout.Range{Offset: b, Length: 1}}).Stateid
	}
	if n := c.Counts().Locks; n != 50 {
		t.Errorf("%d ranges after unlocking every second, should be 50", n)
	}
	checkInvariants(t, c)
}
