package state

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// delegRig plays a few clients that open and close files, give delegations back
// or do not, vanish and come back, and the caller that carries out Effects. It
// knows by itself what everybody holds.
type delegRig struct {
	t     *testing.T
	c     *Core
	rng   *rand.Rand
	now   time.Time
	opens map[heldKey]map[string]heldOpen
	held  map[heldKey]Delegation
	asked map[heldKey]time.Time // recalls under way, and when they end
	away  map[nfs4.ClientID]bool
	seen  map[string]int
}

type heldKey struct {
	client nfs4.ClientID
	file   uint64
}

type heldOpen struct {
	sid   nfs4.Stateid
	share share
}

const rigClients, rigFiles = 4, 3

func newDelegRig(t *testing.T, seed uint64) *delegRig {
	cfg := testConfig()
	cfg.Recall, cfg.DelegPause, cfg.Courtesy = 40*time.Second, 5*time.Second, 25*time.Second
	return &delegRig{t: t, c: newCoreWith(t, cfg, rigClients), rng: rand.New(rand.NewPCG(seed, 5)), now: time.Unix(0, 0),
		opens: map[heldKey]map[string]heldOpen{}, held: map[heldKey]Delegation{}, asked: map[heldKey]time.Time{},
		away: map[nfs4.ClientID]bool{}, seen: map[string]int{}}
}

// conflict says whether a client's delegation, to write or not, and another's
// opens go together.
func conflict(write bool, opens map[string]heldOpen) bool {
	for _, o := range opens {
		if write || o.share.access&2 != 0 || o.share.deny&1 != 0 {
			return true
		}
	}
	return false
}

// barring returns the delegations of others that keep a client from a share.
func (r *delegRig) barring(k heldKey, s share) (out []Delegation) {
	for other, d := range r.held {
		one := map[string]heldOpen{"": {share: s}}
		if other.file == k.file && other.client != k.client && conflict(d.Type == nfs4.DelegateWrite, one) {
			out = append(out, d)
		}
	}
	return out
}

// denied says whether opens of others, or another owner's, deny s; fading is
// whether all that do belong to clients that are away.
func (r *delegRig) denied(k heldKey, owner string, s share) (denied, fading bool) {
	fading = true
	for other, opens := range r.opens {
		for name, o := range opens {
			if other.file != k.file || other == k && name == owner || s.access&o.share.deny|s.deny&o.share.access == 0 {
				continue
			}
			denied = true
			fading = fading && other.client != k.client && r.away[other.client]
		}
	}
	return denied, denied && fading
}

func (r *delegRig) open(k heldKey) {
	s := share{uint32(r.rng.IntN(3) + 1), uint32(max(r.rng.IntN(12)-8, 0))}
	owner := fmt.Sprint(r.rng.IntN(2))
	want := uint32(r.rng.IntN(6)) << 8
	req := OpenReq{Client: k.client, Owner: []byte(owner), File: k.file, Access: s.access, Deny: s.deny, Want: want,
		CanCallback: r.rng.IntN(5) > 0, Created: r.rng.IntN(5) == 0}
	mine, has := r.held[k]
	if has && r.rng.IntN(2) == 0 {
		req.DelegCur, req.Deleg = true, mine.Stateid
	}
	barring := r.barring(k, s)
	denied, fading := r.denied(k, owner, s)
	v := r.decide(req)
	switch {
	case len(barring) > 0:
		r.want(v, nfs4.ErrDelay)
		r.seen["barred"]++
		for _, d := range barring {
			k := heldKey{d.Client, d.File}
			if _, ok := r.held[k]; ok && r.asked[k].IsZero() {
				r.t.Fatalf("%+v is in the way of %+v, and is not recalled", d, req)
			}
		}
		return
	case fading:
		r.want(v, nfs4.ErrDelay)
		r.seen["fading"]++
		return
	case denied:
		r.want(v, nfs4.ErrShareDenied)
		return
	}
	r.want(v, nfs4.OK)
	if r.opens[k] == nil {
		r.opens[k] = map[string]heldOpen{}
	}
	was := r.opens[k][owner].share
	r.opens[k][owner] = heldOpen{v.Stateid, share{was.access | s.access, was.deny | s.deny}}
	r.given(k, req, v)
}

// given checks the delegation that an OPEN gave.
func (r *delegRig) given(k heldKey, req OpenReq, v Verdict) {
	d := v.Delegation
	if d.Type == nfs4.DelegateNone {
		return
	}
	old, had := r.held[k]
	unasked := req.Want == nfs4.WantNoPreference
	switch {
	case req.Want == nfs4.WantNoDeleg, req.Want == nfs4.WantCancel, !req.CanCallback, req.DelegCur, req.Created && unasked:
		r.t.Fatalf("%+v got %+v", req, d)
	case had && (unasked || d.Stateid.Other != old.Stateid.Other || d.Type < old.Type):
		r.t.Fatalf("%+v, holds %+v, got %+v", req, old, d)
	case had && d.Type > old.Type && d.Stateid.Seqid != old.Stateid.Seqid+1:
		r.t.Fatalf("upgrade from %v to %v", old.Stateid, d.Stateid)
	case d.Type == nfs4.DelegateWrite && req.Access&2 == 0 && !had:
		r.t.Fatalf("%+v got %+v", req, d)
	}
	for other := range r.asked {
		if other.file == k.file {
			r.t.Fatalf("%+v given while %+v is recalled", d, other)
		}
	}
	r.held[k] = d
	r.seen[fmt.Sprintf("given %d", d.Type)]++
	if had && d.Type > old.Type {
		r.seen["upgraded"]++
	}
}

func (r *delegRig) want(v Verdict, s nfs4.Status) {
	r.t.Helper()
	if v.Status != s {
		r.t.Fatalf("%v, should be %v; held %v, opens %v", v.Status, s, r.held, r.opens)
	}
}

// decide is the caller: it applies, notes recalls, and ends clients.
func (r *delegRig) decide(q Request) Verdict {
	v := r.c.Decide(r.now, q)
	if _, ok := r.c.Apply(v.Change); !ok {
		r.t.Fatalf("%+v: not applied", q)
	}
	for _, d := range v.Effects.RecallDeleg {
		k := heldKey{d.Client, d.File}
		if r.held[k].Stateid != d.Stateid || r.away[d.Client] && r.asked[k].IsZero() {
			r.t.Fatalf("recall of %+v, holds %+v, away %v", d, r.held[k], r.away[d.Client])
		}
		if r.asked[k].IsZero() {
			r.asked[k] = r.now.Add(r.c.cfg.Recall)
		}
		if !d.Deadline.Equal(r.asked[k]) {
			r.t.Fatalf("recall ends at %v, should at %v", d.Deadline, r.asked[k])
		}
	}
	for _, d := range v.Effects.Revoked {
		k := heldKey{d.Client, d.File}
		if r.held[k].Stateid != d.Stateid || r.now.Before(r.asked[k]) {
			r.t.Fatalf("revoked %+v before its time, or not held", d)
		}
		r.gone(k)
		r.seen["revoked"]++
	}
	for _, id := range v.Effects.Expire {
		r.end(id)
	}
	return v
}

func (r *delegRig) gone(k heldKey) {
	delete(r.held, k)
	delete(r.asked, k)
}

// end expires a courtesy client and has it come back as new.
func (r *delegRig) end(id nfs4.ClientID) {
	if !r.away[id] {
		r.t.Fatalf("client %d is to expire, and is here", id)
	}
	r.seen["expired"]++
	r.c.Expire(id)
	r.c.Forget(id)
	if n := r.c.CountsOf(id); n != (Counts{}) || len(r.c.DelegationsOf(id)) > 0 {
		r.t.Fatalf("client %d left %+v", id, n)
	}
	maps.DeleteFunc(r.opens, func(k heldKey, _ map[string]heldOpen) bool { return k.client == id })
	maps.DeleteFunc(r.held, func(k heldKey, _ Delegation) bool { return k.client == id })
	maps.DeleteFunc(r.asked, func(k heldKey, _ time.Time) bool { return k.client == id })
	r.away[id] = false
	r.c.AddClient(r.now, id, fmt.Sprint(id))
	r.c.ReclaimComplete(id)
}

func (r *delegRig) step() {
	r.now = r.now.Add(time.Duration(r.rng.IntN(3)) * time.Second)
	k := heldKey{nfs4.ClientID(r.rng.IntN(rigClients) + 1), uint64(r.rng.IntN(rigFiles) + 1)}
	if r.away[k.client] {
		if r.rng.IntN(6) > 0 {
			return
		}
		if !r.c.Renew(k.client) {
			r.t.Fatalf("client %d lost its state", k.client)
		}
		r.away[k.client] = false
	}
	switch r.rng.IntN(12) {
	case 0, 1, 2, 3:
		r.open(k)
	case 4, 5:
		for owner, o := range r.opens[k] {
			r.want(r.decide(CloseReq{k.client, k.file, o.sid}), nfs4.OK)
			delete(r.opens[k], owner)
		}
	case 6:
		if d, ok := r.held[k]; ok {
			r.want(r.decide(DelegReturnReq{k.client, k.file, d.Stateid}), nfs4.OK)
			r.gone(k)
		}
	case 7:
		r.outside(k)
	case 8, 9:
		r.answer(k)
	case 10:
		if r.rng.IntN(3) == 0 {
			r.leave(k.client)
		}
	case 11:
		for _, id := range r.c.Stale(r.now) {
			r.seen["stale"]++
			r.end(id)
		}
		for _, d := range r.c.OverdueDelegs(r.now) {
			r.decide(RecallDoneReq{File: d.File, Client: d.Client, Stateid: d.Stateid, Answer: nfs4.ErrDelay, Revoke: true})
		}
	}
}

// outside is what no OPEN came before.
func (r *delegRig) outside(k heldKey) {
	s, change := share{access: 1}, r.rng.IntN(2) == 0
	if change {
		s.access = 2
	}
	want := nfs4.OK
	if len(r.barring(k, s)) > 0 {
		want = nfs4.ErrDelay
	}
	holder := Delegation{}
	for other, d := range r.held {
		if other.file == k.file && other.client != k.client && d.Type == nfs4.DelegateWrite && !r.away[other.client] {
			holder = d
		}
	}
	if v := r.decide(GetattrReq{k.file, k.client}); v.Delegation.Stateid != holder.Stateid {
		r.t.Fatalf("GETATTR is told %+v, should be %+v", v.Delegation, holder)
	}
	r.want(r.decide(DelegConflictReq{k.file, k.client, change}), want)
}

// answer is how a client takes a recall: it may say anything.
func (r *delegRig) answer(k heldKey) {
	d, ok := r.held[k]
	if !ok || r.asked[k].IsZero() {
		return
	}
	answers := []nfs4.Status{nfs4.OK, nfs4.ErrDelay, nfs4.ErrBadStateID, nfs4.ErrServerFault}
	q := RecallDoneReq{File: k.file, Client: k.client, Stateid: d.Stateid, Answer: answers[r.rng.IntN(4)]}
	late := !r.now.Before(r.asked[k])
	v := r.decide(q)
	ended := len(r.c.Delegations(k.file, 0)) < r.count(k.file)
	switch {
	case len(v.Effects.Revoked) > 0:
	case ended && q.Answer == nfs4.ErrBadStateID:
		r.gone(k)
	case late || ended:
		r.t.Fatalf("%v at %v: ended %v, due %v", q.Answer, r.now, ended, r.asked[k])
	}
}

func (r *delegRig) count(file uint64) (n int) {
	for k := range r.held {
		if k.file == file {
			n++
		}
	}
	return n
}

// leave is a client's lease running out.
func (r *delegRig) leave(id nfs4.ClientID) {
	kept, wanted := r.c.Courtesy(r.now, id), false
	for k := range r.asked {
		wanted = wanted || k.client == id
	}
	n := r.c.CountsOf(id)
	if kept == (wanted || n.Opens+n.Delegs == 0) {
		r.t.Fatalf("courtesy %v, recalled %v, holds %+v", kept, wanted, n)
	}
	r.away[id] = true
	if !kept {
		r.end(id)
	}
}

// compare checks that the Core holds what the rig thinks.
func (r *delegRig) compare() {
	for file := uint64(1); file <= rigFiles; file++ {
		got := r.c.Delegations(file, 0)
		if len(got) != r.count(file) {
			r.t.Fatalf("file %d: %+v, should be %+v", file, got, r.held)
		}
		for _, d := range got {
			k := heldKey{d.Client, file}
			if w := r.held[k]; w.Stateid != d.Stateid || w.Type != d.Type || !d.Deadline.Equal(r.asked[k]) {
				r.t.Fatalf("%+v, should be %+v by %v", d, w, r.asked[k])
			}
			for other, opens := range r.opens {
				if other.file == file && other.client != d.Client && conflict(d.Type == nfs4.DelegateWrite, opens) {
					r.t.Fatalf("%+v and %+v of %d", d, opens, other.client)
				}
			}
			for other, e := range r.held {
				if other.file == file && other.client != d.Client && (d.Type == nfs4.DelegateWrite || e.Type == nfs4.DelegateWrite) {
					r.t.Fatalf("%+v and %+v", d, e)
				}
			}
		}
	}
}

// TestDelegationsAgainstModel: nothing that conflicts is out at once, nothing is
// refused without need, recalls end, and no delegation outlives its client.
func TestDelegationsAgainstModel(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(300) {
		r := newDelegRig(t, seed)
		for range 300 {
			r.step()
			checkInvariants(t, r.c)
			r.compare()
		}
		r.settle()
		for what, n := range r.seen {
			seen[what] += n
		}
	}
	for _, what := range []string{"barred", "fading", "given 1", "given 2", "upgraded", "revoked", "expired", "stale"} {
		if seen[what] < 10 {
			t.Errorf("%q happened %d times: this test shows nothing about it", what, seen[what])
		}
	}
}

// settle is that whatever is in the way of an open goes in bounded time, though
// no client does anything any more.
func (r *delegRig) settle() {
	req := OpenReq{Client: 1, Owner: []byte("last"), File: 1, Access: 2}
	if r.away[1] {
		r.c.Renew(1)
		r.away[1] = false
	}
	for range 4 {
		switch r.decide(req).Status {
		case nfs4.OK, nfs4.ErrShareDenied:
			return
		}
		r.now = r.now.Add(r.c.cfg.Recall)
		for _, d := range r.c.OverdueDelegs(r.now) {
			r.decide(RecallDoneReq{File: d.File, Client: d.Client, Stateid: d.Stateid, Revoke: true})
		}
	}
	r.t.Fatalf("an open waits for ever: held %+v", r.held)
}

// TestCoolingIsBounded recalls delegations of more files than are remembered.
func TestCoolingIsBounded(t *testing.T) {
	cfg := testConfig()
	cfg.Total.Delegs = 3
	cfg.DelegPause = time.Hour
	c := newCoreWith(t, cfg, 2)
	give := func(now time.Time, file uint64) Verdict {
		v := c.Decide(now, OpenReq{Client: 1, File: file, Access: 1, CanCallback: true})
		c.Apply(v.Change)
		return v
	}
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for file := 1; file <= 10; file++ {
		d := give(at(file), uint64(file)).Delegation
		c.Apply(c.Decide(at(file), DelegConflictReq{File: uint64(file), Change: true}).Change)
		c.Apply(c.Decide(at(file), DelegReturnReq{1, uint64(file), d.Stateid}).Change)
		checkInvariants(t, c)
	}
	if d := give(at(20), 1).Delegation; d.Type != nfs4.DelegateRead {
		t.Error("the first file is still remembered")
	}
	if v := give(at(20), 10); v.Delegation.Type != nfs4.DelegateNone || v.WhyNone != nfs4.NoDelegContention {
		t.Errorf("the last file is forgotten: %+v", v.Delegation)
	}
	if d := give(at(10+3600), 10).Delegation; d.Type != nfs4.DelegateRead {
		t.Error("a file cools for ever")
	}
	// What is over goes when another is noted.
	c.cool(99, at(9000))
	if len(c.cooling.order) != 1 || len(c.cooling.at) != 1 {
		t.Errorf("%+v", c.cooling)
	}
}

// TestManyReaders opens one file by many clients for reading: each gets a
// delegation, and one writer takes back all of them, each once.
func TestManyReaders(t *testing.T) {
	cfg := testConfig()
	cfg.Total.Clients = 500
	c := newCoreWith(t, cfg, 500)
	for id := nfs4.ClientID(1); id < 500; id++ {
		v := must(t, c, OpenReq{Client: id, File: 1, Access: 1, CanCallback: true})
		if v.Delegation.Type != nfs4.DelegateRead {
			t.Fatalf("client %d: %+v", id, v.Delegation)
		}
	}
	v := c.Decide(time.Unix(0, 0), OpenReq{Client: 500, File: 1, Access: 2})
	c.Apply(v.Change)
	if v.Status != nfs4.ErrDelay || len(v.Effects.RecallDeleg) != 499 {
		t.Fatalf("%v, %d recalls", v.Status, len(v.Effects.RecallDeleg))
	}
	for i, d := range v.Effects.RecallDeleg {
		if d.Client != nfs4.ClientID(i+1) {
			t.Fatalf("recall %d is of client %d", i, d.Client)
		}
		must(t, c, DelegReturnReq{d.Client, 1, d.Stateid})
	}
	must(t, c, OpenReq{Client: 500, File: 1, Access: 2})
	checkInvariants(t, c)
}

// TestUpgradeInBetween makes a delegation one to write while a recall that did
// not hold the file's lock begins: it is recalled by its newest stateid.
func TestUpgradeInBetween(t *testing.T) {
	c := newCore(t, 2)
	now := time.Unix(0, 0)
	old := must(t, c, OpenReq{Client: 1, File: 1, Access: 3, Want: nfs4.WantReadDeleg, CanCallback: true}).Delegation
	up := c.Decide(now, OpenReq{Client: 1, File: 1, Access: 3, Want: nfs4.WantWriteDeleg, CanCallback: true})
	io := c.Decide(now, IOReq{Client: 2, File: 1, Stateid: nfs4.StateidAnonymous(), Write: true})
	c.Apply(io.Change)
	c.Apply(up.Change)
	checkInvariants(t, c)
	v := c.Decide(now, RecallDoneReq{File: 1, Client: 1, Stateid: old.Stateid, Answer: nfs4.ErrBadStateID})
	if len(v.Effects.RecallDeleg) != 1 || v.Effects.RecallDeleg[0].Stateid != up.Delegation.Stateid {
		t.Fatalf("%+v", v.Effects)
	}
}

// TestDelegSeqidWraps takes a delegation's seqid over the end.
func TestDelegSeqidWraps(t *testing.T) {
	c := newCore(t, 1)
	d := must(t, c, OpenReq{Client: 1, File: 1, Access: 1, CanCallback: true}).Delegation
	for _, g := range c.delegs.m {
		g.sid.Seqid = 1<<32 - 1
	}
	v := must(t, c, OpenReq{Client: 1, File: 1, Access: 2, Want: nfs4.WantWriteDeleg, CanCallback: true})
	if v.Delegation.Stateid.Seqid != 1 || v.Delegation.Type != nfs4.DelegateWrite {
		t.Fatalf("%+v", v.Delegation)
	}
	d.Stateid.Seqid = 1<<32 - 1
	if s := c.TestStateid(1, d.Stateid); s != nfs4.ErrOldStateID {
		t.Errorf("before the wrap: %v", s)
	}
}

// TestForgedDeleg changes what nobody looks up in a revoked stateid.
func TestForgedDeleg(t *testing.T) {
	c := newCore(t, 1)
	d := must(t, c, OpenReq{Client: 1, File: 1, Access: 1, CanCallback: true}).Delegation
	c.Apply(c.Decide(time.Unix(0, 0), DelegConflictReq{File: 1, Change: true}).Change)
	must(t, c, RecallDoneReq{File: 1, Client: 1, Stateid: d.Stateid, Revoke: true})
	if s := c.TestStateid(1, d.Stateid); s != nfs4.ErrDelegRevoked {
		t.Fatal(s)
	}
	d.Stateid.Other[5]++
	if s := c.FreeStateid(1, d.Stateid); s != nfs4.ErrBadStateID || c.Revoked(1) != 1 {
		t.Errorf("%v, %d revoked", s, c.Revoked(1))
	}
}

// TestHoldersLayout: a client with a delegation to write has its layout fenced
// along with it even if others hold layouts too, and theirs stay.
func TestHoldersLayout(t *testing.T) {
	c := newCore(t, 2)
	ds := []layout.DSID{1}
	v := must(t, c, OpenReq{Client: 1, File: 1, Access: 3, CanCallback: true})
	must(t, c, LayoutGetReq{Client: 1, File: 1, Stateid: v.Delegation.Stateid, IOMode: nfs4.IOModeRW, DS: ds})
	now := time.Unix(0, 0)
	c.Apply(c.Decide(now, OpenReq{Client: 2, File: 1, Access: 3}).Change)
	done := must(t, c, RecallDoneReq{File: 1, Client: 1, Stateid: v.Delegation.Stateid, Revoke: true})
	if len(done.Effects.Fence) != 1 || len(done.Effects.Grown) != 1 || len(c.Layouts(1, 0)) != 0 {
		t.Fatalf("%+v, layouts %+v", done.Effects, c.Layouts(1, 0))
	}
	o := must(t, c, OpenReq{Client: 2, File: 1, Access: 3})
	must(t, c, LayoutGetReq{Client: 2, File: 1, Stateid: o.Stateid, IOMode: nfs4.IOModeRW, DS: ds})
	checkInvariants(t, c)
}
