package wire_test

import (
	"context"
	"testing"
	"time"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// flags returns the status flags that SEQUENCE shows to a peer, by a session of
// its own. A peer has one session before.
func (p *peer) flags() uint32 {
	p.t.Helper()
	if p.deleg.raw == nil {
		r := dialRaw(p.t, p.c.cfg.Listen, p.owner, 0)
		r.id.ClientID, r.id.SequenceID = p.nfs.ClientID(), 2
		r.createSession(1)
		p.deleg.raw = r
	}
	p.deleg.raw.want(nfs4.OK)
	return p.deleg.raw.res.StatusFlags
}

// TestDelegRevoked: a delegation whose recall is not answered as it should be is
// revoked after a lease; the client reads that in SEQUENCE's flags and the
// stateid's status until it frees the stateid.
func TestDelegRevoked(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]nfs4.Status{
		"ok and no return": nfs4.OK, "always delay": nfs4.ErrDelay, "another error": nfs4.ErrServerFault,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := shared(t)
			p, q := c.newPeer(t, "holder"), c.newPeer(t, "other")
			dir := p.dir()
			o := p.delegated(dir, "f", nfs4.DelegateWrite)
			d := o.r.Delegation.Stateid
			data := pattern(4, 1000)
			pl := o.layout(nfs4.IOModeRW)
			pl.write(0, data)
			pl.commit(uint64(len(data)))
			o.close()
			p.onRecall(func(*nfs4.CBRecallArgs) nfs4.Status { return answer })
			begin := time.Now()
			open := openOp(openArgs("q", "f", nfs4.ShareAccessBoth), &nfs4.OpenRes{})
			q.want(nfs4.ErrDelay, putFH(dir), open)
			q.must(putFH(dir), open)
			if took := time.Since(begin); took < lease-time.Second {
				t.Errorf("revoked after %v, the lease is %v", took, lease)
			}
			// What it has in its cache cannot reach the data servers any more.
			if err := pl.tryWrite(0, data, nfs4.Unstable); !refused(err) {
				t.Errorf("write by the layout that went along: %v", err)
			}
			p.want(nfs4.ErrDelegRevoked, putFH(o.fh), readOp(d, 0, 10, &nfs4.ReadRes{}))
			p.want(nfs4.ErrDelegRevoked, putFH(o.fh), delegReturn(d))
			if f := p.flags(); f&nfs4.SeqStatusRecallableStateRevoked == 0 {
				t.Errorf("flags %#x", f)
			}
			var r nfs4.TestStateidRes
			test := client.Op{Num: nfs4.OpTestStateid, Args: &nfs4.TestStateidArgs{Stateids: []nfs4.Stateid{d}}, Res: &r}
			if p.want(nfs4.OK, test); r.StatusCodes[0] != nfs4.ErrDelegRevoked {
				t.Errorf("TEST_STATEID: %v", r.StatusCodes)
			}
			for range 3 { // not once, as for a revoked layout
				if f := p.flags(); f&nfs4.SeqStatusRecallableStateRevoked == 0 {
					t.Errorf("flags %#x, and the stateid is not freed", f)
				}
			}
			free := client.Op{Num: nfs4.OpFreeStateid, Args: &nfs4.FreeStateidArgs{Stateid: d}, Res: &nfs4.FreeStateidRes{}}
			p.want(nfs4.OK, free)
			if f := p.flags(); f&nfs4.SeqStatusRecallableStateRevoked != 0 {
				t.Errorf("flags %#x after FREE_STATEID", f)
			}
			p.want(nfs4.ErrBadStateID, free)
		})
	}
}

// TestDelegLayoutLeft: the layout that a file is left with when its delegation
// comes back after its last CLOSE is recalled.
func TestDelegLayoutLeft(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "holder")
	o := p.delegated(p.dir(), "f", nfs4.DelegateWrite)
	pl := o.layout(nfs4.IOModeRW)
	o.close()
	pl.write(0, []byte("under the delegation"))
	if n := len(p.recalls); n > 0 {
		t.Errorf("%d layout recalls with the delegation out", n)
	}
	p.want(nfs4.OK, putFH(o.fh), delegReturn(o.r.Delegation.Stateid))
	if a := p.awaitRecall(); a.Recall.Stateid.Other != pl.get.Stateid.Other {
		t.Errorf("recall of %v, the layout is %v", a.Recall.Stateid, pl.get.Stateid)
	}
}

// TestDelegOfRemoved: a file whose last name its holder takes away does not stay
// for the delegation's sake.
func TestDelegOfRemoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	p := c.newPeer(t, "holder")
	dir := p.dir()
	o := p.delegated(dir, "f", nfs4.DelegateWrite)
	o.write(0, []byte("x"), nfs4.FileSync)
	o.close()
	p.want(nfs4.OK, putFH(dir), remove("f"))
	p.awaitDelegRecall()
	c.eventually("end of the file", func() error {
		if s := p.try(putFH(o.fh), getattr(&nfs4.GetattrRes{}, nfs4.AttrType)); s != nfs4.ErrStale || c.objects() != 0 {
			return s
		}
		return nil
	})
}

// TestCBGetattr: others are told what the holder of a delegation says of the file.
func TestCBGetattr(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "holder"), c.newPeer(t, "other")
	o := p.delegated(p.dir(), "f", nfs4.DelegateWrite)
	stat := func(who *peer) nfs4.Attrs {
		return who.stat(o.fh, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrTimeModify)
	}
	first := stat(p)
	var says nfs4.Attrs
	asked := make(chan nfs4.FH, 100)
	p.onGetattr(func(a *nfs4.CBGetattrArgs) (nfs4.Attrs, nfs4.Status) {
		asked <- append(nfs4.FH(nil), a.FH...)
		p.mu.Lock()
		defer p.mu.Unlock()
		return says, nfs4.OK
	})
	answer := func(change, size uint64) {
		p.mu.Lock()
		defer p.mu.Unlock()
		says = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize), Change: change, Size: size}
	}
	answer(first.Change, 0)
	if a := stat(q); a.Change != first.Change || a.Size != 0 || a.TimeModify != first.TimeModify {
		t.Errorf("unchanged, but %+v, before %+v", a, first)
	}
	select {
	case fh := <-asked:
		if string(fh) != string(o.fh) {
			t.Errorf("asked about %x", fh)
		}
	default:
		t.Error("not asked")
	}
	answer(first.Change+1, 12345)
	last := first
	for range 3 {
		a := stat(q)
		if a.Size != 12345 || a.Change <= last.Change || a.TimeModify.Compare(last.TimeModify) <= 0 {
			t.Errorf("changed, but %+v, before %+v", a, last)
		}
		last = a
	}
	// When it has written back it says what it was given, and the file is what
	// the server knows.
	o.write(0, []byte("written back"), nfs4.FileSync)
	answer(first.Change, 12)
	now := stat(q)
	if now.Size != 12 || now.Change <= last.Change || stat(q).Change != now.Change {
		t.Errorf("written back, but %+v, before %+v", now, last)
	}
	for len(asked) > 0 {
		<-asked
	}
	if stat(p); len(asked) > 0 {
		t.Error("the holder itself is asked")
	}
	if n := len(p.deleg.recalled); n > 0 {
		t.Errorf("%d recalls", n)
	}
}

// TestDelegReclaim: delegations outlive a restart of the metadata server.
func TestDelegReclaim(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(c *mdsConfig) { c.Grace = time.Minute })
	dir := c.newPeer(t, "plain").dir()
	r := newRaw(t, c.cfg.Listen, "reclaims", 1)
	r.want(nfs4.OK, reclaimComplete())
	var or nfs4.OpenRes
	var fh nfs4.GetFHRes
	r.want(nfs4.OK, putFH(dir), openOp(creating(openArgs("o", "f", 3), nfs4.CreateHow{Attrs: mode(0o666)}), &or), getFH(&fh))
	r.conn.Close()
	c.restartMDS()
	c.waitUp(2)
	r = newRaw(t, c.cfg.Listen, "reclaims", 1)
	reclaim := openArgs("o", "", 3)
	reclaim.Claim = nfs4.OpenClaim{Type: nfs4.ClaimPrevious, PrevDelegType: nfs4.DelegateWrite}
	var again nfs4.OpenRes
	r.want(nfs4.OK, putFH(fh.Object), openOp(reclaim, &again))
	// This client has no way to be called back, so it is to return it at once.
	if d := again.Delegation; d.Type != nfs4.DelegateWrite || !d.Recall {
		t.Errorf("reclaimed %+v", d)
	}
	r.want(nfs4.OK, putFH(fh.Object), delegReturn(again.Delegation.Stateid))
	r.want(nfs4.OK, reclaimComplete())
	c.waitGrace()
	q := c.newPeer(t, "other")
	q.want(nfs4.OK, putFH(dir), openOp(openArgs("q", "f", 1), &nfs4.OpenRes{}))
}

// TestCourtesy: a client whose lease ran out keeps what nobody wants, goes on
// with it when it comes back, and loses all when somebody wants some of it.
func TestCourtesy(t *testing.T) {
	t.Parallel()
	for _, comesBack := range []bool{true, false} {
		t.Run(map[bool]string{true: "back in time", false: "too late"}[comesBack], func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 2)
			p, q := c.newSilentPeer(t, "sleeps"), c.newPeer(t, "other")
			dir := q.dir()
			o := p.create(dir, "f")
			var held nfs4.LockRes
			p.must(putFH(o.fh), lockOp(newLock(o, "p", nfs4.LockWrite, 0, 100), &held))
			pl := o.layout(nfs4.IOModeRW)
			pl.write(0, []byte("before"))
			free := p.create(dir, "free")
			mine := q.open(dir, "f", nfs4.ShareAccessBoth)
			q.open(dir, "free", nfs4.ShareAccessRead).close()
			time.Sleep(lease + 2*time.Second) // the lease, and who looks for it
			// What does not conflict goes on beside it.
			q.want(nfs4.OK, putFH(o.fh), lockOp(newLock(mine, "q", nfs4.LockWrite, 200, 10), &nfs4.LockRes{}))
			if n := c.status().Clients; n < 2 {
				t.Fatalf("%d clients", n)
			}
			if comesBack {
				p.want(nfs4.OK, putFH(o.fh), lockOp(newLock(o, "p2", nfs4.LockWrite, 300, 10), &nfs4.LockRes{}))
				pl.write(0, []byte("after"))
				q.want(nfs4.ErrDenied, putFH(o.fh), lockOp(newLock(mine, "q", nfs4.LockWrite, 50, 10), &nfs4.LockRes{}))
				free.close()
				o.close()
				q.want(nfs4.OK, putFH(o.fh), lockOp(newLock(mine, "q", nfs4.LockWrite, 50, 10), &nfs4.LockRes{}))
				return
			}
			want := func(who *peer, ops ...client.Op) {
				t.Helper()
				if s := who.try(ops...); s != nfs4.ErrDelay && s != nfs4.OK {
					t.Errorf("%v", s)
				}
				who.must(ops...)
			}
			want(q, putFH(o.fh), lockOp(newLock(mine, "q", nfs4.LockWrite, 50, 10), &nfs4.LockRes{}))
			if err := pl.tryWrite(0, []byte("late"), nfs4.Unstable); !refused(err) {
				t.Errorf("write of a client that lost its state: %v", err)
			}
			p.must(putFH(o.fh), getattr(&nfs4.GetattrRes{}, nfs4.AttrSize)) // as a new client
			p.want(nfs4.ErrBadStateID, putFH(free.fh), closeOp(free.id))
		})
	}
}

// TestDelegRevokedReclaim: a client that has not freed a revoked delegation
// reclaims nothing, because it would reclaim that too (RFC 8881 section 8.4.3).
func TestDelegRevokedReclaim(t *testing.T) {
	t.Parallel()
	for name, freed := range map[string]bool{"not freed": false, "freed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1)
			p, q := c.newPeer(t, "holder"), c.newPeer(t, "other")
			p.close()
			var fh nfs4.FH
			answers := make(chan error, 100)
			p.cfg.Reclaim = func(_ context.Context, send func(...client.Op) error) error {
				if fh != nil {
					answers <- send(putFH(fh), reclaimOpen(&nfs4.OpenRes{}))
				}
				return nil
			}
			p.cfg.Owner = append(p.cfg.Owner, '2')
			p.dial()
			dir := q.dir()
			kept := p.create(dir, "kept")
			d := p.delegated(dir, "f", nfs4.DelegateWrite)
			fh = kept.fh
			p.onRecall(never)
			q.must(putFH(dir), openOp(openArgs("q", "f", nfs4.ShareAccessRead), &nfs4.OpenRes{}))
			want := nfs4.ErrReclaimBad
			if freed {
				want = nfs4.OK
				p.want(nfs4.OK, client.Op{Num: nfs4.OpFreeStateid, Args: &nfs4.FreeStateidArgs{Stateid: d.r.Delegation.Stateid}, Res: &nfs4.FreeStateidRes{}})
			}
			c.restartMDS()
			p.must(putFH(dir), getattr(&nfs4.GetattrRes{}, nfs4.AttrType))
			if err := <-answers; want == nfs4.OK && err != nil || want != nfs4.OK && !isStatus(err, want) {
				t.Errorf("reclaim: %v, want %v", err, want)
			}
		})
	}
}
