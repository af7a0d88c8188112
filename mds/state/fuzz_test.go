package state

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// fuzzer turns bytes into calls: mostly with stateids that it was given, by the
// clients and for the files that they were for, and sometimes with wrong ones.
type fuzzer struct {
	in    []byte
	c     *Core
	now   time.Time
	given []given
	held  *Change
}

// given is a stateid that some client got.
type given struct {
	client nfs4.ClientID
	file   uint64
	sid    nfs4.Stateid
}

// n returns a number below limit.
func (f *fuzzer) n(limit int) int {
	if len(f.in) == 0 {
		return 0
	}
	b := f.in[0]
	f.in = f.in[1:]
	return int(b) % limit
}

// one returns true once in n times.
func (f *fuzzer) one(n int) bool { return f.n(n) == n-1 }

// pick returns one of the newest stateids of a kind, in most cases.
func (f *fuzzer) pick(k kind) given {
	g := given{nfs4.ClientID(f.n(4)), uint64(f.n(3) + 1), nfs4.Stateid{}}
	if f.one(10) {
		special := []nfs4.Stateid{{}, nfs4.StateidBypass(), nfs4.StateidCurrent(), {Seqid: 1, Other: [12]byte{0, 0, 0, 2, 9}}}
		g.sid = special[f.n(4)]
		return g
	}
	skip := f.n(4)
	for i := len(f.given) - 1; i >= 0 && skip >= 0; i-- {
		if gk, _, _ := f.c.parse(f.given[i].sid); gk == k {
			g = f.given[i]
			skip--
		}
	}
	switch f.n(16) {
	case 12:
		g.sid.Seqid--
	case 13:
		g.sid.Seqid++
	case 14:
		g.client++
	case 15:
		g.file++
	case 11:
		break
	default:
		if k != kindLayout && k != kindDeleg || k == kindDeleg && f.one(2) {
			g.sid.Seqid = 0
		}
	}
	return g
}

func (f *fuzzer) span() layout.Range {
	r := layout.Range{Offset: uint64(f.n(16)), Length: uint64(f.n(16))}
	switch f.n(6) {
	case 0:
		r.Length = layout.ToEnd
	case 1:
		r.Offset = -r.Offset
	}
	return r
}

func (f *fuzzer) request() (nfs4.ClientID, uint64, Request) {
	o := f.pick([]kind{kindOpen, kindOpen, kindOpen, kindLock, kindLayout, kindDeleg}[f.n(6)])
	lo, g, d := f.pick(kindLock), f.pick(kindLayout), f.pick(kindDeleg)
	id, file := nfs4.ClientID(f.n(3)+1), uint64(f.n(3)+1)
	owner, odd := []byte{byte(f.n(2))}, f.one(6)
	switch f.n(22) {
	case 0, 14, 15:
		return id, file, f.open(id, file, owner, odd)
	case 16:
		r := f.open(d.client, d.file, owner, odd)
		r.DelegCur, r.Deleg = true, d.sid
		return d.client, d.file, r
	case 17, 18:
		return 0, 0, DelegReturnReq{d.client, d.file, d.sid}
	case 19:
		return 0, 0, DelegConflictReq{file, nfs4.ClientID(f.n(4)), f.one(2)}
	case 20:
		return 0, 0, GetattrReq{file, nfs4.ClientID(f.n(4))}
	case 21:
		answers := []nfs4.Status{nfs4.OK, nfs4.ErrBadHandle, nfs4.ErrDelay, nfs4.ErrBadStateID}
		return 0, 0, RecallDoneReq{d.file, d.client, d.sid, answers[f.n(4)], f.one(8)}
	case 1:
		return 0, 0, CloseReq{o.client, o.file, o.sid}
	case 2:
		return o.client, o.file, DowngradeReq{o.client, o.file, o.sid, uint32(f.n(4)), uint32(f.n(2))}
	case 3:
		return lo.client, lo.file, LockReq{lo.client, lo.file, false, lo.sid, owner, f.span(), nfs4.LockType(f.n(6)), odd, f.one(2)}
	case 4:
		return o.client, o.file, LockReq{o.client, o.file, true, o.sid, owner, f.span(), nfs4.LockType(f.n(6)), odd, f.one(2)}
	case 5:
		return 0, 0, LocktReq{id, file, owner, f.span(), nfs4.LockType(f.n(6))}
	case 6:
		return lo.client, lo.file, LockuReq{lo.client, lo.file, lo.sid, f.span()}
	case 7:
		return 0, 0, IOReq{o.client, o.file, o.sid, f.one(2), odd}
	case 8:
		return o.client, o.file, LayoutGetReq{o.client, o.file, o.sid, nfs4.IOMode(f.n(4)), []layout.DSID{layout.DSID(f.n(3)), layout.DSID(f.n(3))}, f.one(2), nfs4.SessionID{}, nfs4.ReferringCall{}}
	case 9:
		return g.client, g.file, LayoutGetReq{g.client, g.file, g.sid, nfs4.IOMode(f.n(4)), []layout.DSID{layout.DSID(f.n(3))}, f.one(2), nfs4.SessionID{}, nfs4.ReferringCall{}}
	case 10:
		r := LayoutReturnReq{g.client, f.one(8), g.file, g.sid, nfs4.IOMode(f.n(5)), layout.WholeFile(), odd}
		if f.one(4) {
			r.Range = f.span()
		}
		return g.client, g.file, r
	case 11:
		return 0, 0, LayoutCommitReq{g.client, g.file, g.sid, odd}
	case 12:
		r := RecallReq{g.file, nfs4.ClientID(f.n(4)), nfs4.ClientID(f.n(4)), odd}
		if f.one(4) {
			r.File = 0
		}
		return 0, 0, r
	}
	answers := []nfs4.Status{nfs4.OK, nfs4.ErrNoMatchingLayout, nfs4.ErrDelay, nfs4.ErrOldStateID}
	r := RecallDoneReq{g.file, g.client, g.sid, answers[f.n(4)], f.one(8)}
	if f.one(4) {
		r.File = 0
	}
	return 0, 0, r
}

func (f *fuzzer) open(id nfs4.ClientID, file uint64, owner []byte, odd bool) OpenReq {
	return OpenReq{Client: id, Owner: owner, File: file, Access: uint32(f.n(4)), Deny: uint32(max(f.n(24), 20) - 20), Reclaim: odd,
		Want: uint32(f.n(8)) << 8, CanCallback: !f.one(8), Created: f.one(8), Prev: nfs4.DelegationType(f.n(4))}
}

// step makes one call. A Change is sometimes held while clients come and go, as
// it is while an operation commits; never with another Decide in between, since
// that may be for the same file.
func (f *fuzzer) step(t *testing.T) {
	f.now = f.now.Add(time.Duration(f.n(3)) * time.Second)
	id := nfs4.ClientID(f.n(3) + 1)
	switch f.n(40) {
	case 0, 1, 2:
		f.c.AddClient(f.now, id, string(rune('a'+id)))
	case 3, 4, 5:
		f.c.ReclaimComplete(id)
	case 6:
		if f.one(6) {
			f.c.Expire(id)
		}
	case 7:
		if cl := f.c.clients[id]; f.one(6) || cl != nil && cl.going {
			for more := f.one(2); more; {
				_, more = f.c.Shed(id, 1)
				checkInvariants(t, f.c)
			}
			f.c.Forget(id)
		}
	case 8, 9:
		g := f.pick([]kind{kindOpen, kindLock, kindLock, kindLayout, kindDeleg}[f.n(5)])
		f.c.FreeStateid(g.client, g.sid)
	case 10:
		for _, g := range f.c.Overdue(f.now) {
			// That of everything may have taken it along.
			if g.File == 0 || slices.ContainsFunc(f.c.Layouts(g.File, 0), func(o Grant) bool { return o.Stateid.Other == g.Stateid.Other }) {
				f.revoke(t, g)
			}
		}
		for _, d := range f.c.OverdueDelegs(f.now) {
			v := f.c.Decide(f.now, RecallDoneReq{File: d.File, Client: d.Client, Stateid: d.Stateid, Revoke: true})
			if len(v.Effects.Revoked) != 1 {
				t.Fatalf("overdue %+v is not revoked: %+v", d, v)
			}
			f.c.Apply(v.Change)
		}
	case 11:
		f.c.Courtesy(f.now, id)
	case 12:
		f.c.Renew(id)
	case 13:
		f.expire(t, f.c.Stale(f.now))
	case 14:
		f.c.Waiters()
	default:
		f.decide(t)
	}
}

// holds says whether a layout is there still: it goes with everything of its
// client too.
func (f *fuzzer) holds(g Grant) bool {
	return slices.ContainsFunc(f.c.Layouts(g.File, 0), func(h Grant) bool { return h.Stateid.Other == g.Stateid.Other })
}

// revoke ends a recall that is overdue.
func (f *fuzzer) revoke(t *testing.T, g Grant) {
	held := len(g.Reads)+len(g.Writes) > 0 && f.holds(g)
	v := f.c.Decide(f.now, RecallDoneReq{File: g.File, Client: g.Client, Stateid: g.Stateid, Revoke: true})
	if g.File != 0 && len(v.Effects.Fence) > 0 != held {
		t.Fatalf("overdue %+v: %+v", g, v)
	}
	f.c.Apply(v.Change)
	if g.File != 0 {
		return
	}
	for _, one := range v.Effects.Fence {
		f.revoke(t, one)
	}
	f.c.Apply(f.c.Decide(f.now, RecallDoneReq{Client: g.Client, Revoke: true}).Change)
	if cl := f.c.clients[g.Client]; cl != nil && !cl.going && cl.bulk != nil {
		t.Fatalf("the recall of everything of %d did not end: %+v", g.Client, cl.bulk)
	}
}

func (f *fuzzer) decide(t *testing.T) {
	if f.held != nil {
		f.c.Apply(*f.held)
		f.held = nil
		return
	}
	client, file, r := f.request()
	before := f.c.Counts()
	v := f.c.Decide(f.now, r)
	if f.c.Counts() != before {
		t.Fatalf("Decide changed %+v into %+v", before, f.c.Counts())
	}
	if v.Status != nfs4.OK && (!v.Change.IsZero() && v.Status != nfs4.ErrDelay && v.Status != nfs4.ErrDenied || v.Stateid != (nfs4.Stateid{}) || v.Delegation.Type != 0) {
		t.Fatalf("%+v: %+v", r, v)
	}
	if v.Delegation.Type != 0 {
		f.given = append(f.given, given{v.Delegation.Client, v.Delegation.File, v.Delegation.Stateid})
	}
	if v.Stateid.Seqid == 0 && v.Stateid != (nfs4.Stateid{}) {
		t.Fatalf("%+v: stateid %v", r, v.Stateid)
	}
	if client != 0 && v.Stateid != (nfs4.Stateid{}) {
		f.given = append(f.given, given{client, file, v.Stateid})
	}
	for _, g := range v.Effects.Recall {
		if g.File == 0 {
			continue
		}
		f.given = append(f.given, given{g.Client, g.File, g.Stateid})
	}
	if f.one(5) {
		f.held = &v.Change
		return
	}
	if _, ok := f.c.Apply(v.Change); !ok {
		t.Fatalf("%+v: not applied", r)
	}
	if f.one(2) {
		f.expire(t, v.Effects.Expire)
	}
}

// expire ends courtesy clients, in most cases at once.
func (f *fuzzer) expire(t *testing.T, ids []nfs4.ClientID) {
	for _, id := range ids {
		if cl := f.c.clients[id]; cl == nil || cl.lapsed.IsZero() || cl.going {
			t.Fatalf("client %d is to expire, and is %+v", id, cl)
		}
		f.c.Expire(id)
		if !f.one(4) {
			f.c.Forget(id)
		}
	}
}

func runFuzz(t *testing.T, in []byte) {
	cfg := testConfig()
	cfg.Grace, cfg.Recall = 30*time.Second, 10*time.Second
	cfg.DelegPause, cfg.Courtesy = 2*time.Second, 20*time.Second
	cfg.PerClient = Counts{Opens: 4, Owners: 3, Locks: 6, Layouts: 2, Delegs: 2}
	cfg.Total = Counts{Clients: 3, Opens: 9, Owners: 6, Locks: 12, Layouts: 4, Delegs: 4}
	c, err := New(cfg, time.Unix(0, 0), map[string]bool{"b": true, "c": true})
	if err != nil {
		t.Fatal(err)
	}
	f := &fuzzer{in: in, c: c, now: time.Unix(0, 0)}
	for id := nfs4.ClientID(1); id <= 3; id++ {
		c.AddClient(f.now, id, string(rune('a'+id)))
	}
	for len(f.in) > 0 {
		f.step(t)
		checkInvariants(t, c)
		checkBounds(t, c)
	}
	for id := range nfs4.ClientID(5) {
		c.Expire(id)
		c.Forget(id)
	}
	checkInvariants(t, c)
	if c.Counts() != (Counts{}) || c.files.len() != 0 || len(c.recalls) != 0 || len(c.onDS) != 0 ||
		c.delegs.len() != 0 || len(c.waited) != 0 || len(c.recalled) != 0 || len(c.courtesy) != 0 {
		t.Fatalf("left over: %+v, %d files, %d recalls, %d data servers", c.Counts(), c.files.len(), len(c.recalls), len(c.onDS))
	}
}

// checkBounds fails t if there is more of anything than may be. One Change may
// be held, so the server's bounds hold exactly.
func checkBounds(t *testing.T, c *Core) {
	t.Helper()
	over := func(n, limit Counts) bool {
		return n.Opens > limit.Opens || n.Owners > limit.Owners || n.Locks > limit.Locks || n.Layouts > limit.Layouts ||
			n.Delegs > limit.Delegs
	}
	if over(c.n, c.cfg.Total) {
		t.Fatalf("%+v, bound %+v", c.n, c.cfg.Total)
	}
	for id, cl := range c.clients {
		if over(cl.n, c.cfg.PerClient) {
			t.Fatalf("client %d has %+v, bound %+v", id, cl.n, c.cfg.PerClient)
		}
	}
}

// FuzzRequests: no panic, no contradiction, nothing left behind.
func FuzzRequests(f *testing.F) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		in := make([]byte, 4000)
		for i := range in {
			in[i] = byte(rng.Uint32())
		}
		f.Add(in)
	}
	f.Fuzz(runFuzz)
}

// TestRandomRequests is the fuzz target on random bytes.
func TestRandomRequests(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		in := make([]byte, 9000)
		for i := range in {
			in[i] = byte(rng.Uint32())
		}
		runFuzz(t, in)
	}
}
