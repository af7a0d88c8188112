package wire_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// TestClientDeath: a client that goes silent loses everything after a lease,
// the data servers refuse it, and what it wrote counts although it never said so.
func TestClientDeath(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4)
	p, q := c.newSilentPeer(t, "dies"), c.newPeer(t, "lives")
	dir := q.dir()
	o := p.create(dir, "f")
	var held nfs4.LockRes
	p.must(putFH(o.fh), lockOp(newLock(o, "p", nfs4.LockWrite, 0, nfs4.LengthToEnd), &held))
	deny := openArgs("q", "g", 3)
	deny.ShareDeny = nfs4.ShareDenyBoth
	p.openWith(dir, creating(deny, nfs4.CreateHow{Attrs: mode(0o666)}))
	data := pattern(1, 700_000)
	pl := o.layout(nfs4.IOModeRW)
	pl.write(0, data) // and no LAYOUTCOMMIT
	mine := q.open(dir, "f", nfs4.ShareAccessBoth)
	q.want(nfs4.ErrDenied, putFH(o.fh), lockOp(newLock(mine, "q", nfs4.LockWrite, 0, 10), &nfs4.LockRes{}))
	q.want(nfs4.ErrShareDenied, putFH(dir), openOp(openArgs("q", "g", 1), &nfs4.OpenRes{}))
	begin := time.Now()
	eventually(t, "lock of the dead client's file", func() error {
		switch s := q.try(putFH(o.fh), lockOp(newLock(mine, "q", nfs4.LockWrite, 0, 10), &nfs4.LockRes{})); s {
		case nfs4.OK:
			return nil
		case nfs4.ErrDenied, nfs4.ErrDelay: // DELAY while the holder is being fenced
			return s
		default:
			t.Fatal(s)
			return nil
		}
	})
	if d := time.Since(begin); d < lease-2*time.Second {
		t.Errorf("the lock was free after %v, the lease is %v", d, lease)
	}
	// By the time anybody gets the lock, every data server refuses the dead.
	for i := range pl.dev.Paths {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, _, _, err := pl.server(i).Write(ctx, sys(0, 0), pl.body.FHs[i], o.id, 0, []byte("late"), nfs4.Unstable)
		cancel()
		if !refused(err) {
			t.Errorf("data server %d takes the dead client's write: %v", i, err)
		}
	}
	q.must(putFH(dir), openOp(openArgs("q", "g", 1), &nfs4.OpenRes{}))
	if n := q.size(o.fh); n != uint64(len(data)) {
		t.Errorf("size %d, want %d", n, len(data))
	}
	sameBytes(t, "what the dead client wrote", mine.read(0, len(data)), data)
	// It comes back as a new client, and knows that it lost everything.
	p.must(putFH(o.fh), getattr(&nfs4.GetattrRes{}, nfs4.AttrSize))
	p.want(nfs4.ErrBadStateID, putFH(o.fh), closeOp(o.id))
}

// TestClientReplaced: a client that comes back with another verifier has lost
// what the first had, at once.
func TestClientReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	p := c.newPeer(t, "a")
	dir := p.dir()
	first := newRaw(t, c.cfg.Listen, "rebooter", 1)
	first.want(nfs4.OK, reclaimComplete())
	var r nfs4.OpenRes
	a := creating(openArgs("o", "f", 3), nfs4.CreateHow{Attrs: mode(0o666)})
	a.ShareDeny = nfs4.ShareDenyBoth
	first.want(nfs4.OK, putFH(dir), openOp(a, &r))
	second := newRaw(t, c.cfg.Listen, "rebooter", 2)
	second.want(nfs4.OK, reclaimComplete())
	eventually(t, "open of what the first had open", func() error {
		if s := second.try(putFH(dir), openOp(openArgs("o", "f", 3), &nfs4.OpenRes{})); s != nfs4.OK {
			return s
		}
		return nil
	})
	first.want(nfs4.ErrBadSession, putFH(dir))
}

// reclaimOpen is OPEN with CLAIM_PREVIOUS.
func reclaimOpen(r *nfs4.OpenRes) client.Op {
	return openOp(&nfs4.OpenArgs{
		ShareAccess: 3, Owner: nfs4.OpenOwner{Owner: []byte("o")}, Claim: nfs4.OpenClaim{Type: nfs4.ClaimPrevious},
	}, r)
}

// TestMDSRestart: opens and locks come back by reclaim, others wait, files and
// layouts are as they were, sizes are learned, changes are told apart.
func TestMDSRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, func(c *mdsConfig) { c.Grace = time.Minute })
	p := c.newPeer(t, "plain")
	dir := p.dir()
	r := newRaw(t, c.cfg.Listen, "reclaims", 1)
	r.want(nfs4.OK, reclaimComplete())
	var or nfs4.OpenRes
	var fh nfs4.GetFHRes
	var lr nfs4.LockRes
	var get nfs4.LayoutGetRes
	r.want(nfs4.OK, putFH(dir), openOp(creating(openArgs("o", "f", 3), nfs4.CreateHow{Attrs: mode(0o666)}), &or), getFH(&fh))
	f := &open{p: p, fh: fh.Object}
	r.want(nfs4.OK, putFH(fh.Object), lockOp(newLock(&open{id: or.Stateid}, "l", nfs4.LockWrite, 0, 100), &lr))
	r.want(nfs4.OK, putFH(fh.Object), layoutGetOp(layoutGetArgs(or.Stateid, nfs4.IOModeRW), &get))
	pl := &plan{o: f, get: get}
	pl.read()
	data := pattern(6, 400_000)
	pl.write(0, data) // no LAYOUTCOMMIT
	before := p.stat(dir, nfs4.AttrChange)
	scope, owner := r.id.ServerScope, r.id.ServerOwner

	c.restartMDS()
	// While it was away and since, the old layout goes on working.
	more := pattern(7, 100_000)
	c.waitUp(4)
	if err := pl.tryWrite(uint64(len(data)), more, nfs4.FileSync); err != nil {
		t.Errorf("write with the layout from before the restart: %v", err)
	}
	data = append(data, more...)
	again := dialRaw(t, c.cfg.Listen, "reclaims", 1)
	again.sess, again.seq = r.sess, r.seq
	again.want(nfs4.ErrBadSession, putFH(dir))
	if s := again.exchange(); s != nfs4.OK || again.id.Flags&nfs4.ExchgidFlagConfirmedR != 0 {
		t.Errorf("EXCHANGE_ID after the restart: %v, flags %#x", s, again.id.Flags)
	}
	if string(again.id.ServerScope) != string(scope) || string(again.id.ServerOwner.MajorID) != string(owner.MajorID) {
		t.Error("another scope or owner after the restart")
	}
	if again.id.ClientID == r.id.ClientID {
		t.Error("the client id of the first start again")
	}
	again.createSession(8)
	// A newcomer waits for the end of grace, with everything that it could spoil.
	other := newRaw(t, c.cfg.Listen, "newcomer", 1)
	other.want(nfs4.ErrReclaimBad, putFH(fh.Object), reclaimOpen(&nfs4.OpenRes{}))
	other.want(nfs4.OK, reclaimComplete())
	other.want(nfs4.ErrCompleteAlready, reclaimComplete())
	anon := nfs4.StateidAnonymous()
	other.want(nfs4.ErrGrace, putFH(dir), openOp(openArgs("o", "f", 1), &nfs4.OpenRes{}))
	other.want(nfs4.ErrGrace, putFH(dir), openOp(creating(openArgs("o", "new", 1), nfs4.CreateHow{}), &nfs4.OpenRes{}))
	other.want(nfs4.ErrGrace, putFH(dir), remove("f"))
	other.want(nfs4.ErrGrace, putFH(dir), saveFH(), rename("f", "g"))
	other.want(nfs4.ErrGrace, putFH(fh.Object), resize(anon, 0))
	eventually(t, "refusal of a READ in grace", func() error {
		if s := other.try(putFH(fh.Object), readOp(anon, 0, 1, &nfs4.ReadRes{})); s != nfs4.ErrGrace {
			return s // DELAY while the size is being learned
		}
		return nil
	})
	other.want(nfs4.ErrNoGrace, putFH(fh.Object), reclaimOpen(&nfs4.OpenRes{}))
	// The old state is stale; the reclaim brings it back.
	again.want(nfs4.ErrGrace, putFH(dir), openOp(openArgs("o", "f", 1), &nfs4.OpenRes{}))
	again.want(nfs4.ErrBadStateID, putFH(fh.Object), closeOp(or.Stateid))
	again.want(nfs4.OK, putFH(fh.Object), reclaimOpen(&or))
	lock := newLock(&open{id: or.Stateid}, "l", nfs4.LockWrite, 0, 100)
	lock.Reclaim = true
	again.want(nfs4.OK, putFH(fh.Object), lockOp(lock, &lr))
	// A LAYOUTCOMMIT from before is believed.
	again.want(nfs4.OK, putFH(fh.Object), layoutCommitOp(get.Stateid, uint64(len(data)), &nfs4.LayoutCommitRes{}))
	p.must(putFH(dir), getattr(&nfs4.GetattrRes{}, nfs4.AttrChange)) // the plain one is back as well
	begin := time.Now()
	again.want(nfs4.OK, reclaimComplete())
	c.waitGrace()
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("grace went on for %v after the last had reclaimed", d)
	}
	again.want(nfs4.ErrNoGrace, putFH(fh.Object), reclaimOpen(&nfs4.OpenRes{}))
	var denied nfs4.LockRes
	var oo nfs4.OpenRes
	eventually(t, "OPEN, once the layouts of the first start are fenced", func() error {
		if s := other.try(putFH(dir), openOp(openArgs("o", "f", 3), &oo)); s != nfs4.OK {
			return s
		}
		return nil
	})
	other.want(nfs4.ErrDenied, putFH(fh.Object), lockOp(newLock(&open{id: oo.Stateid}, "x", nfs4.LockRead, 0, 1), &denied))
	if n := p.size(fh.Object); n != uint64(len(data)) {
		t.Errorf("size %d, want %d", n, len(data))
	}
	after := p.stat(dir, nfs4.AttrChange)
	if after.Change < before.Change {
		t.Errorf("change attribute %d, before the restart %d", after.Change, before.Change)
	}
	rd := p.open(dir, "f", nfs4.ShareAccessRead)
	sameBytes(t, "after the restart", rd.read(0, len(data)), data)
	fresh := rd.layout(nfs4.IOModeRead)
	if fresh.body.Device != pl.body.Device || fresh.body.Stripe != pl.body.Stripe {
		t.Error("the file lies elsewhere after the restart")
	}
	sameBytes(t, "after the restart, by layout", fresh.readAll(0, len(data), uint64(len(data))), data)
	// The layout from before is no good any more, once the client has reclaimed.
	eventually(t, "fence of layouts from before the restart", func() error {
		if err := pl.tryWrite(0, []byte("late"), nfs4.Unstable); !refused(err) {
			return fmt.Errorf("write with the layout from before the restart: %w", err)
		}
		return nil
	})
}

// TestMDSRestartLearnsSizes: the size of a file whose writer never came back.
func TestMDSRestartLearnsSizes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4)
	p, q := c.newSilentPeer(t, "lost"), c.newPeer(t, "finds")
	dir := q.dir()
	o := p.create(dir, "f")
	data := pattern(8, 900_000)
	pl := o.layout(nfs4.IOModeRW)
	pl.write(0, data)
	// The metadata server is away when the data servers come back, twice: what
	// is not learned the first time is not forgotten.
	c.ds[0].stop()
	c.restartMDS()
	q.want(nfs4.ErrDelay, putFH(o.fh), getattr(&nfs4.GetattrRes{}, nfs4.AttrSize))
	// Others of the directory are shown all the same.
	var rd nfs4.ReaddirRes
	q.must(putFH(dir), readdirOp(&nfs4.ReaddirArgs{MaxCount: 4096, AttrRequest: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrRdattrError)}, &rd))
	if len(rd.Entries) != 1 || rd.Entries[0].Attrs.RdattrError != nfs4.ErrDelay || rd.Entries[0].Attrs.Mask.Has(nfs4.AttrSize) {
		t.Errorf("READDIR while the size is learned: %+v", rd.Entries)
	}
	time.Sleep(1500 * time.Millisecond) // a sweep of the marks goes by
	c.restartMDS()
	c.ds[0].start()
	c.waitUp(4)
	if n := q.size(o.fh); n != uint64(len(data)) {
		t.Errorf("size %d, want %d", n, len(data))
	}
	c.waitGrace()
	sameBytes(t, "after two restarts", q.open(dir, "f", 1).read(0, len(data)), data)
	// The lost client's layout is refused when grace is over.
	eventually(t, "fence of the client that did not come back", func() error {
		if err := pl.tryWrite(0, []byte("late"), nfs4.Unstable); !refused(err) {
			return fmt.Errorf("write: %w", err)
		}
		return nil
	})
}

// TestMDSRestartKeepsOrphans: a file that was removed while it was open is
// still there for who reclaims it, and goes when he does not.
func TestMDSRestartKeepsOrphans(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	p := c.newPeer(t, "plain")
	dir := p.dir()
	r := newRaw(t, c.cfg.Listen, "reclaims", 1)
	r.want(nfs4.OK, reclaimComplete())
	var kept, lost nfs4.GetFHRes
	for name, fh := range map[string]*nfs4.GetFHRes{"kept": &kept, "lost": &lost} {
		r.want(nfs4.OK, putFH(dir), openOp(creating(openArgs("o", name, 3), nfs4.CreateHow{Attrs: mode(0o666)}), &nfs4.OpenRes{}), getFH(fh),
			writeOp(nfs4.StateidAnonymous(), 0, pattern(1, 200_000), nfs4.FileSync, &nfs4.WriteRes{}))
		p.must(putFH(dir), remove(name))
	}
	c.restartMDS()
	c.waitUp(2)
	again := newRaw(t, c.cfg.Listen, "reclaims", 1)
	var or nfs4.OpenRes
	again.want(nfs4.OK, putFH(kept.Object), reclaimOpen(&or))
	again.want(nfs4.OK, reclaimComplete())
	p.must(putRoot())
	c.waitGrace()
	eventually(t, "removal of what nobody reclaimed", func() error {
		if n := c.objects(); n != 2 {
			return fmt.Errorf("%d objects", n)
		}
		return nil
	})
	again.want(nfs4.ErrStale, putFH(lost.Object), getattr(&nfs4.GetattrRes{}, nfs4.AttrSize))
	var rr nfs4.ReadRes
	again.want(nfs4.OK, putFH(kept.Object), readOp(or.Stateid, 0, 300_000, &rr))
	sameBytes(t, "reclaimed orphan", rr.Data, pattern(1, 200_000))
	again.want(nfs4.OK, putFH(kept.Object), closeOp(or.Stateid))
	eventually(t, "removal after the last close", func() error {
		if n := c.objects(); n != 0 {
			return fmt.Errorf("%d objects", n)
		}
		return nil
	})
}

// TestRebootedClientEndsGrace: grace does not wait for a client that came back
// with nothing to reclaim.
func TestRebootedClientEndsGrace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(c *mdsConfig) { c.Grace = time.Hour })
	r := newRaw(t, c.cfg.Listen, "rebooter", 1)
	r.want(nfs4.OK, reclaimComplete())
	c.restartMDS()
	if !c.status().Grace {
		t.Fatal("no grace")
	}
	again := newRaw(t, c.cfg.Listen, "rebooter", 2)
	again.want(nfs4.OK, reclaimComplete())
	c.waitGrace()
}

// TestDSRestart: data is there, the verifier is another one.
func TestDSRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	data := pattern(4, 600_000)
	pl := o.layout(nfs4.IOModeRW)
	pl.write(0, data)
	pl.commit(uint64(len(data)))
	verifiers := func() (v []nfs4.Verifier) {
		for i := range pl.dev.Paths {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			verf, err := pl.server(i).Commit(ctx, sys(0, 0), pl.body.FHs[i], 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			v = append(v, verf)
		}
		return v
	}
	before := verifiers()
	mds := o.write(0, data[:10], nfs4.Unstable)
	for _, n := range c.ds {
		n.stop()
		n.start()
	}
	c.waitUp(2)
	for i, v := range verifiers() {
		if v == before[i] {
			t.Errorf("data server %d has the verifier of its first start", i)
		}
	}
	if o.write(0, data[:10], nfs4.Unstable) == mds {
		t.Error("the verifier of proxy writes is the one from before the restart")
	}
	sameBytes(t, "after restart of the data servers", pl.readAll(0, len(data), uint64(len(data))), data)
}

// TestDSCatchesUp: what a data server missed it does before it serves.
func TestDSCatchesUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, noCourtesy)
	p, q := c.newPeer(t, "a"), c.newSilentPeer(t, "dies")
	dir := p.dir()
	data := pattern(2, 400_000)
	make := func(who *peer, name string) (*open, *plan) {
		o := who.create(dir, name)
		pl := o.layout(nfs4.IOModeRW)
		pl.write(0, data)
		pl.commit(uint64(len(data)))
		return o, pl
	}
	removed, removedPlan := make(p, "removed")
	cut, _ := make(p, "cut")
	_, dead := make(q, "dead")
	removed.close()
	gone := c.ds[1]
	gone.stop()
	eventually(t, "one data server down", func() error {
		if s := c.states()["ds2"]; s != "down" {
			return fmt.Errorf("%s", s)
		}
		return nil
	})
	p.must(putFH(dir), remove("removed"))
	p.want(nfs4.ErrDelay, putFH(cut.fh), resize(cut.id, 10))
	// The other client dies, and its fence waits.
	eventually(t, "end of the silent client's lease", func() error {
		if list, err := c.mds.Clients(t.Context()); err != nil || len(list) != 1 {
			return fmt.Errorf("%d clients, %w", len(list), err)
		}
		return nil
	})
	gone.start()
	c.waitUp(2)
	sizes := gone.objects()
	if len(sizes) != 2 {
		t.Errorf("objects after catching up: %v", sizes)
	}
	short := 0
	for _, n := range sizes {
		if n <= 10 {
			short++
		}
	}
	if short != 1 {
		t.Errorf("objects after catching up: %v", sizes)
	}
	for i := range dead.dev.Paths {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for _, pl := range []*plan{dead, removedPlan} {
			if _, _, _, err := pl.server(i).Write(ctx, sys(0, 0), pl.body.FHs[i], nfs4.Stateid{}, 0, []byte("late"), nfs4.Unstable); !refused(err) {
				t.Errorf("data server %d takes a write: %v", i, err)
			}
		}
	}
}

// TestRemoveDS: a data server is taken out when no file is on it, and may not
// come back. As long as there is one nobody's layout is recalled for that.
func TestRemoveDS(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	o.layout(nfs4.IOModeRW)
	out := c.ds[0]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.mds.RemoveDS(ctx, admDS(out.id())); err == nil {
		t.Fatal("a data server with a file on it was removed")
	}
	if n := len(p.recalls); n != 0 {
		t.Errorf("%d recalls for a removal that is refused", n)
	}
	p.must(putFH(dir), remove("f"), putFH(o.fh), closeOp(o.id))
	eventually(t, "removal of the data server", func() error { return c.mds.RemoveDS(ctx, admDS(out.id())) })
	out.stop()
	out.start() // and is turned away
	pl := p.create(dir, "g").layout(nfs4.IOModeRW)
	if len(pl.body.FHs) != 2 {
		t.Errorf("width %d, want 2", len(pl.body.FHs))
	}
	if s := c.states()["ds1"]; s != "removed" {
		t.Errorf("state %q", s)
	}
}
