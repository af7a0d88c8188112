package wire_test

import (
	"testing"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

func TestOpenCreateModes(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	how := func(m nfs4.CreateMode, v byte) nfs4.CreateHow {
		return nfs4.CreateHow{Mode: m, Verifier: nfs4.Verifier{v}, Attrs: mode(0o640)}
	}
	open := func(name string, h nfs4.CreateHow, want nfs4.Status) *open {
		t.Helper()
		o := &open{p: p}
		var fh nfs4.GetFHRes
		if got := p.try(putFH(dir), openOp(creating(openArgs("o", name, 3), h), &o.r), getFH(&fh)); got != want {
			t.Errorf("mode %d of %s: %v, want %v", h.Mode, name, got, want)
		}
		o.fh, o.id = fh.Object, o.r.Stateid
		return o
	}
	// GUARDED.
	g := open("g", how(nfs4.CreateGuarded, 0), nfs4.OK)
	if !g.r.AttrSet.Has(nfs4.AttrMode) || !g.r.CInfo.Atomic || g.r.CInfo.After <= g.r.CInfo.Before {
		t.Errorf("created: %+v", g.r)
	}
	if g.r.Delegation.Type != nfs4.DelegateNone || g.r.RFlags&nfs4.OpenResultConfirm != 0 || g.r.Stateid.Seqid != 1 {
		t.Errorf("opened: %+v", g.r)
	}
	open("g", how(nfs4.CreateGuarded, 0), nfs4.ErrExist)
	// UNCHECKED makes, finds, and cuts if a size of 0 is asked for and no other.
	u := open("u", how(nfs4.CreateUnchecked, 0), nfs4.OK)
	u.write(0, pattern(1, 300_000), nfs4.FileSync)
	again := open("u", how(nfs4.CreateUnchecked, 0), nfs4.OK)
	if string(again.fh) != string(u.fh) || p.size(u.fh) != 300_000 || again.r.Stateid.Other != u.id.Other || again.r.Stateid.Seqid != 2 {
		t.Errorf("unchecked create of what is there: %+v", again.r)
	}
	if again.r.CInfo.Before != again.r.CInfo.After || !again.r.AttrSet.IsZero() {
		t.Errorf("unchecked create of what is there changed something: %+v", again.r)
	}
	sized := how(nfs4.CreateUnchecked, 0)
	sized.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrMode), Size: 5, Mode: 0o777}
	open("u", sized, nfs4.OK)
	if a := p.stat(u.fh, nfs4.AttrSize, nfs4.AttrMode); a.Size != 300_000 || a.Mode != 0o640 {
		t.Errorf("unchecked create set %d bytes, mode %o on what is there", a.Size, a.Mode)
	}
	sized.Attrs.Size = 0
	cut := open("u", sized, nfs4.OK)
	if p.size(u.fh) != 0 || !cut.r.AttrSet.Has(nfs4.AttrSize) {
		t.Errorf("truncating open: %d bytes, set %v", p.size(u.fh), cut.r.AttrSet)
	}
	cut.write(200_000, []byte("end"), nfs4.FileSync)
	sameBytes(t, "after a truncating open", cut.read(0, 300_000), append(make([]byte, 200_000), "end"...))
	// A new file gets the size that is asked for.
	sized.Attrs.Size = 12345
	if n := p.size(open("sized", sized, nfs4.OK).fh); n != 12345 {
		t.Errorf("new file of %d bytes, want 12345", n)
	}
	// EXCLUSIVE in both forms: the same verifier finds the same file.
	for _, m := range []nfs4.CreateMode{nfs4.CreateExclusive, nfs4.CreateExclusive4_1} {
		name := map[nfs4.CreateMode]string{nfs4.CreateExclusive: "x0", nfs4.CreateExclusive4_1: "x1"}[m]
		x := open(name, how(m, 1), nfs4.OK)
		x.write(0, []byte("kept"), nfs4.FileSync)
		replay := open(name, how(m, 1), nfs4.OK)
		if string(replay.fh) != string(x.fh) {
			t.Error("replayed exclusive create made another file")
		}
		sameBytes(t, "after the replay", replay.read(0, 10), []byte("kept"))
		open(name, how(m, 2), nfs4.ErrExist)
		open(name, how(nfs4.CreateGuarded, 1), nfs4.ErrExist)
	}
	open("g", how(nfs4.CreateExclusive4_1, 1), nfs4.ErrExist)
	bad := how(nfs4.CreateExclusive4_1, 1)
	bad.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrTimeCreate)}
	open("bad", bad, nfs4.ErrInval)
	bad.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrHidden)}
	open("bad", bad, nfs4.ErrInval)
	bad = how(nfs4.CreateUnchecked, 0)
	bad.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrHidden)}
	open("bad", bad, nfs4.ErrAttrNotSupp)
	p.want(nfs4.ErrNoEnt, putFH(dir), lookup("bad"))
}

// TestExclusiveReplayKeepsLayout: a create that is sent again because its
// reply was lost must not put the file's data somewhere else.
func TestExclusiveReplayKeepsLayout(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, func(c *mdsConfig) { c.Width = 2 })
	p := c.newPeer(t, "a")
	dir := p.dir()
	how := nfs4.CreateHow{Mode: nfs4.CreateExclusive4_1, Verifier: nfs4.Verifier{7}, Attrs: mode(0o644)}
	data := pattern(3, 500_000)
	for i := range 8 {
		name := entryName(i)
		o := p.openWith(dir, creating(openArgs("o", name, 3), how))
		before := o.layout(nfs4.IOModeRW)
		before.write(0, data)
		before.commit(uint64(len(data)))
		// New free space figures, and a data server that is out of the choice.
		drain := c.ds[i%4].id()
		if err := c.mds.SetDrain(t.Context(), admDS(drain), true); err != nil {
			t.Fatal(err)
		}
		replay := p.openWith(dir, creating(openArgs("o", name, 3), how))
		after := replay.layout(nfs4.IOModeRW)
		if before.body.Device != after.body.Device || string(before.body.FHs[0]) != string(after.body.FHs[0]) {
			t.Errorf("%s lies elsewhere after the create was sent again", name)
		}
		sameBytes(t, name, replay.read(0, len(data)), data)
		if err := c.mds.SetDrain(t.Context(), admDS(drain), false); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenClaims(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	claim := func(typ nfs4.ClaimType) *nfs4.OpenArgs {
		return &nfs4.OpenArgs{ShareAccess: 1, Owner: nfs4.OpenOwner{Owner: []byte("claims")}, Claim: nfs4.OpenClaim{Type: typ, Name: []byte("f")}}
	}
	var r nfs4.OpenRes
	p.want(nfs4.OK, putFH(o.fh), openOp(claim(nfs4.ClaimFH), &r))
	p.want(nfs4.OK, putFH(o.fh), closeOp(r.Stateid))
	p.want(nfs4.ErrIsDir, putFH(dir), openOp(claim(nfs4.ClaimFH), &r))
	p.want(nfs4.ErrNoGrace, putFH(o.fh), openOp(claim(nfs4.ClaimPrevious), &r))
	p.want(nfs4.ErrBadStateID, putFH(dir), openOp(claim(nfs4.ClaimDelegateCur), &r))
	p.want(nfs4.ErrBadStateID, putFH(o.fh), openOp(claim(nfs4.ClaimDelegCurFH), &r))
	for _, typ := range []nfs4.ClaimType{nfs4.ClaimDelegatePrev, nfs4.ClaimDelegPrevFH} {
		p.want(nfs4.ErrNotSupp, putFH(dir), openOp(claim(typ), &r))
	}
	bad := openArgs("o", "f", 0)
	p.want(nfs4.ErrInval, putFH(dir), openOp(bad, &r))
	bad = openArgs("o", "f", 1)
	bad.ShareDeny = 4
	p.want(nfs4.ErrInval, putFH(dir), openOp(bad, &r))
	// What a client may want of a delegation is no part of the share.
	want := openArgs("wants", "f", 1|nfs4.WantNoDeleg)
	p.want(nfs4.OK, putFH(dir), openOp(want, &r))
	// OPENATTR is not for us; nothing of it breaks.
	p.want(nfs4.ErrNotSupp, putFH(o.fh), client.Op{Num: nfs4.OpOpenAttr, Args: &nfs4.OpenAttrArgs{}})
	p.want(nfs4.ErrBadStateID, putFH(o.fh), client.Op{Num: nfs4.OpDelegReturn, Args: &nfs4.DelegReturnArgs{}})
}

func TestShareReservations(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "a"), c.newPeer(t, "b")
	dir := p.dir()
	p.create(dir, "f").close()
	share := func(who *peer, owner string, access, deny uint32) (*open, nfs4.Status) {
		o := &open{p: who}
		var fh nfs4.GetFHRes
		a := openArgs(owner, "f", access)
		a.ShareDeny = deny
		s := who.try(putFH(dir), openOp(a, &o.r), getFH(&fh))
		o.fh, o.id = fh.Object, o.r.Stateid
		return o, s
	}
	o, _ := share(p, "p", nfs4.ShareAccessRead, nfs4.ShareDenyWrite)
	for _, x := range []struct {
		access, deny uint32
		want         nfs4.Status
	}{
		{1, 0, nfs4.OK}, {2, 0, nfs4.ErrShareDenied}, {3, 0, nfs4.ErrShareDenied}, {1, 1, nfs4.ErrShareDenied}, {1, 2, nfs4.OK},
	} {
		r, got := share(q, "q", x.access, x.deny)
		if got != x.want {
			t.Errorf("share %d/%d against 1/2: %v, want %v", x.access, x.deny, got, x.want)
		}
		if got == nfs4.OK {
			r.close()
		}
	}
	// I/O without an open minds the denial as well.
	anon := nfs4.StateidAnonymous()
	q.want(nfs4.ErrLocked, putFH(o.fh), writeOp(anon, 0, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{}))
	q.want(nfs4.OK, putFH(o.fh), readOp(anon, 0, 1, &nfs4.ReadRes{}))
	q.want(nfs4.OK, putFH(o.fh), readOp(nfs4.StateidBypass(), 0, 1, &nfs4.ReadRes{}))
	q.want(nfs4.ErrLocked, putFH(o.fh), resize(anon, 0))
	p.want(nfs4.ErrOpenMode, putFH(o.fh), writeOp(o.id, 0, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{}))
	q.want(nfs4.ErrBadStateID, putFH(o.fh), readOp(o.id, 0, 1, &nfs4.ReadRes{})) // another client's
	// A truncating open that is denied cuts nothing.
	a := creating(openArgs("q", "f", 2), nfs4.CreateHow{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}})
	q.want(nfs4.ErrShareDenied, putFH(dir), openOp(a, &nfs4.OpenRes{}))
	a.ShareAccess = nfs4.ShareAccessRead // but it would cut
	q.want(nfs4.ErrShareDenied, putFH(dir), openOp(a, &nfs4.OpenRes{}))
	o.close()
	q.want(nfs4.OK, putFH(dir), openOp(a, &nfs4.OpenRes{}))
	// Upgrade, downgrade, close.
	up, _ := share(p, "p", 1, 0)
	p.want(nfs4.ErrInval, putFH(up.fh), downgradeOp(up.id, 2, 0))
	both, _ := share(p, "p", 2, 0)
	if both.id.Other != up.id.Other || both.id.Seqid != 2 {
		t.Errorf("upgrade: %v then %v", up.id, both.id)
	}
	p.want(nfs4.ErrOldStateID, putFH(up.fh), downgradeOp(up.id, 1, 0))
	var down nfs4.OpenDowngradeRes
	op := downgradeOp(both.id, 1, 0)
	op.Res = &down
	p.must(putFH(up.fh), op)
	p.want(nfs4.ErrOpenMode, putFH(up.fh), writeOp(down.OpenStateid, 0, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{}))
	future := down.OpenStateid
	future.Seqid += 5
	p.want(nfs4.ErrBadStateID, putFH(up.fh), closeOp(future))
	p.want(nfs4.ErrBadStateID, putFH(dir), closeOp(down.OpenStateid)) // of another file
	p.must(putFH(up.fh), closeOp(down.OpenStateid))
	p.want(nfs4.ErrBadStateID, putFH(up.fh), closeOp(down.OpenStateid))
	p.want(nfs4.ErrBadStateID, putFH(up.fh), closeOp(nfs4.StateidCurrent()))
	// The current stateid, as OPEN leaves it.
	p.want(nfs4.OK, putFH(dir), openOp(openArgs("cur", "f", 3), &nfs4.OpenRes{}),
		writeOp(nfs4.StateidCurrent(), 0, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{}), closeOp(nfs4.StateidCurrent()))
	p.want(nfs4.ErrBadStateID, putFH(dir), openOp(openArgs("cur", "f", 3), &nfs4.OpenRes{}), putFH(up.fh), closeOp(nfs4.StateidCurrent()))
}

func downgradeOp(id nfs4.Stateid, access, deny uint32) client.Op {
	return client.Op{Num: nfs4.OpOpenDowngrade, Args: &nfs4.OpenDowngradeArgs{OpenStateid: id, ShareAccess: access, ShareDeny: deny}, Res: &nfs4.OpenDowngradeRes{}}
}

func lockOp(a *nfs4.LockArgs, r *nfs4.LockRes) client.Op {
	return client.Op{Num: nfs4.OpLock, Args: a, Res: r}
}

// newLock is a LOCK by a lock-owner that is new to the file.
func newLock(o *open, owner string, typ nfs4.LockType, off, n uint64) *nfs4.LockArgs {
	return &nfs4.LockArgs{LockType: typ, Offset: off, Length: n, Locker: nfs4.Locker{
		NewLockOwner: true, OpenStateid: o.id, Owner: nfs4.LockOwner{Owner: []byte(owner)},
	}}
}

func TestLocks(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "a"), c.newPeer(t, "b")
	dir := p.dir()
	o := p.create(dir, "f")
	b := q.open(dir, "f", 3)
	var mine nfs4.LockRes
	p.must(putFH(o.fh), lockOp(newLock(o, "holder", nfs4.LockWrite, 100, 50), &mine))
	var r nfs4.LockRes
	q.want(nfs4.ErrDenied, putFH(b.fh), lockOp(newLock(b, "waiter", nfs4.LockRead, 120, 1), &r))
	if d := r.Denied; d.Offset != 100 || d.Length != 50 || d.LockType != nfs4.LockWrite || string(d.Owner.Owner) != "holder" || d.Owner.ClientID != p.nfs.ClientID() {
		t.Errorf("denied: %+v", d)
	}
	var lt nfs4.LockTRes
	lockt := func(typ nfs4.LockType, off, n uint64) client.Op {
		return client.Op{Num: nfs4.OpLockT, Args: &nfs4.LockTArgs{LockType: typ, Offset: off, Length: n, Owner: nfs4.LockOwner{Owner: []byte("waiter")}}, Res: &lt}
	}
	q.want(nfs4.ErrDenied, putFH(b.fh), lockt(nfs4.LockWriteW, 0, nfs4.LengthToEnd))
	if lt.Denied.Offset != 100 || string(lt.Denied.Owner.Owner) != "holder" {
		t.Errorf("LOCKT denied: %+v", lt.Denied)
	}
	q.want(nfs4.OK, putFH(b.fh), lockt(nfs4.LockWrite, 150, nfs4.LengthToEnd))
	q.want(nfs4.OK, putFH(b.fh), lockt(nfs4.LockWrite, 0, 100))
	var theirs nfs4.LockRes
	q.must(putFH(b.fh), lockOp(newLock(b, "waiter", nfs4.LockReadW, 150, nfs4.LengthToEnd), &theirs))
	// The same owner again: by its lock stateid; it may change the type.
	more := &nfs4.LockArgs{LockType: nfs4.LockRead, Offset: 90, Length: 20, Locker: nfs4.Locker{LockStateid: mine.LockStateid}}
	p.must(putFH(o.fh), lockOp(more, &mine))
	if mine.LockStateid.Seqid != 2 {
		t.Errorf("lock stateid %v", mine.LockStateid)
	}
	old := mine.LockStateid
	old.Seqid = 1
	more.Locker.LockStateid = old
	p.want(nfs4.ErrOldStateID, putFH(o.fh), lockOp(more, &r))
	// I/O and LAYOUTGET under the lock stateid.
	p.want(nfs4.OK, putFH(o.fh), writeOp(mine.LockStateid, 0, []byte("locked"), nfs4.FileSync, &nfs4.WriteRes{}))
	p.want(nfs4.OK, putFH(o.fh), layoutGetOp(layoutGetArgs(mine.LockStateid, nfs4.IOModeRW), &nfs4.LayoutGetRes{}))
	for _, x := range []struct {
		what string
		args *nfs4.LockArgs
		want nfs4.Status
	}{
		{"empty range", newLock(o, "x", nfs4.LockRead, 0, 0), nfs4.ErrInval},
		{"range past the end", newLock(o, "x", nfs4.LockRead, 1<<63, 1<<63+1), nfs4.ErrInval},
		{"no lock type", newLock(o, "x", 9, 0, 1), nfs4.ErrInval},
		{"reclaim", func() *nfs4.LockArgs { a := newLock(o, "x", nfs4.LockRead, 0, 1); a.Reclaim = true; return a }(), nfs4.ErrNoGrace},
		{"no open", func() *nfs4.LockArgs {
			a := newLock(o, "x", nfs4.LockRead, 0, 1)
			a.Locker.OpenStateid = nfs4.Stateid{Seqid: 1, Other: [12]byte{1}}
			return a
		}(), nfs4.ErrBadStateID},
	} {
		if got := p.try(putFH(o.fh), lockOp(x.args, &r)); got != x.want {
			t.Errorf("%s: %v, want %v", x.what, got, x.want)
		}
	}
	ro := q.openWith(dir, openArgs("reader", "f", 1))
	q.want(nfs4.ErrOpenMode, putFH(b.fh), lockOp(newLock(ro, "y", nfs4.LockWrite, 0, 1), &r))
	// Unlock, free, close.
	unlock := func(id nfs4.Stateid, off, n uint64, r *nfs4.LockURes) client.Op {
		return client.Op{Num: nfs4.OpLockU, Args: &nfs4.LockUArgs{LockType: nfs4.LockRead, LockStateid: id, Offset: off, Length: n}, Res: r}
	}
	free := func(id nfs4.Stateid) client.Op {
		return client.Op{Num: nfs4.OpFreeStateid, Args: &nfs4.FreeStateidArgs{Stateid: id}}
	}
	p.want(nfs4.ErrLocksHeld, free(mine.LockStateid))
	p.want(nfs4.ErrLocksHeld, free(o.id))
	p.want(nfs4.ErrInval, putFH(o.fh), unlock(mine.LockStateid, 5, 0, &nfs4.LockURes{}))
	var u nfs4.LockURes
	p.must(putFH(o.fh), unlock(mine.LockStateid, 0, nfs4.LengthToEnd, &u))
	q.want(nfs4.OK, putFH(b.fh), lockt(nfs4.LockWrite, 0, 150))
	var test nfs4.TestStateidRes
	p.must(client.Op{Num: nfs4.OpTestStateid, Args: &nfs4.TestStateidArgs{Stateids: []nfs4.Stateid{
		o.id, u.LockStateid, theirs.LockStateid, nfs4.StateidAnonymous(), mine.LockStateid,
	}}, Res: &test})
	want := []nfs4.Status{nfs4.OK, nfs4.OK, nfs4.ErrBadStateID, nfs4.ErrBadStateID, nfs4.ErrOldStateID}
	for i, s := range test.StatusCodes {
		if s != want[i] {
			t.Errorf("TEST_STATEID %d: %v, want %v", i, s, want[i])
		}
	}
	p.must(free(u.LockStateid))
	p.want(nfs4.ErrBadStateID, free(u.LockStateid))
	b.close()
	p.must(putFH(o.fh), lockOp(newLock(o, "holder", nfs4.LockWrite, 0, nfs4.LengthToEnd), &mine))
}

// TestOpenRemoved: a file that is removed while it is open stays until the
// last close; then its objects go.
func TestOpenRemoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	p, q := c.newPeer(t, "a"), c.newPeer(t, "b")
	dir := p.dir()
	o := p.create(dir, "f")
	other := q.open(dir, "f", 1)
	data := pattern(9, 400_000)
	pl := o.layout(nfs4.IOModeRW)
	pl.write(0, data)
	pl.commit(uint64(len(data)))
	if n := c.objects(); n != 2 {
		t.Fatalf("%d objects, want 2", n)
	}
	p.must(putFH(dir), remove("f"))
	q.want(nfs4.ErrNoEnt, putFH(dir), lookup("f"))
	sameBytes(t, "removed file", other.read(0, len(data)), data)
	if a := q.stat(o.fh, nfs4.AttrNumLinks); a.NumLinks != 0 {
		t.Errorf("%d links", a.NumLinks)
	}
	pl.giveBack()
	o.close()
	sameBytes(t, "removed file after one close", other.read(0, len(data)), data)
	// The same when another file takes its name away.
	o = p.create(dir, "g")
	p.create(dir, "h").close()
	o.write(0, data, nfs4.FileSync)
	p.must(putFH(dir), saveFH(), rename("h", "g"))
	sameBytes(t, "replaced file", o.read(0, len(data)), data)
	if n := c.objects(); n != 4 {
		t.Errorf("%d objects, want 4", n)
	}
	other.close()
	o.close()
	eventually(t, "removal of the objects", func() error {
		if n := c.objects(); n != 0 {
			return nfs4.ErrNotEmpty
		}
		return nil
	})
	p.want(nfs4.ErrStale, putFH(o.fh), getattr(&nfs4.GetattrRes{}, nfs4.AttrSize))
	// A handle of the removed file's objects is no good any more.
	if err := pl.tryWrite(0, data, nfs4.Unstable); !refused(err) {
		t.Errorf("write to a removed object: %v", err)
	}
}
