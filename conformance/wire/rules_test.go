package wire_test

import (
	"math"
	"strings"
	"testing"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// TestSetIDGoes: set-id bits go with a write by anybody but root, wherever the
// bytes went, and with a new owner.
func TestSetIDGoes(t *testing.T) {
	t.Parallel()
	root := shared(t).newPeer(t, "a")
	dir := root.dir()
	user := root.as(1000, 100)
	anon := nfs4.StateidAnonymous()
	for what, change := range map[string]func(*peer, *open){
		"WRITE": func(p *peer, o *open) {
			p.must(putFH(o.fh), writeOp(o.id, 0, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{}))
		},
		"LAYOUTCOMMIT": func(p *peer, o *open) {
			var get nfs4.LayoutGetRes
			p.must(putFH(o.fh), layoutGetOp(layoutGetArgs(o.id, nfs4.IOModeRW), &get))
			p.must(putFH(o.fh), layoutCommitOp(get.Stateid, 1, &nfs4.LayoutCommitRes{}))
		},
		"SETATTR of the size": func(p *peer, o *open) { p.must(putFH(o.fh), resize(o.id, 7)) },
	} {
		for who, p := range map[string]*peer{"root": root, "owner": user} {
			o := p.create(dir, strings.ReplaceAll(what+who, " ", ""))
			root.must(putFH(o.fh), setattr(anon, mode(0o6775)))
			change(p, o)
			want := uint32(0o6775)
			if p == user {
				want = 0o775
			}
			if got := root.stat(o.fh, nfs4.AttrMode).Mode; got != want {
				t.Errorf("%s by %s leaves %o, want %o", what, who, got, want)
			}
			if root.must(putFH(o.fh), setattr(anon, mode(0o6775))); p == root {
				root.must(putFH(o.fh), setattr(anon, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte("5")}))
				if got := root.stat(o.fh, nfs4.AttrMode).Mode; got != 0o775 {
					t.Errorf("a new owner leaves %o", got)
				}
			}
		}
	}
	// A set-group-id directory passes on its group and, to directories, the bit.
	root.must(putFH(dir), makeDir("g", 0o777))
	g := root.walk(dir, "g")
	root.must(putFH(g), setattr(anon, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwnerGroup, nfs4.AttrMode), OwnerGroup: []byte("777"), Mode: 0o2777}))
	user.must(putFH(g), makeDir("sub", 0o755))
	if a := user.stat(user.walk(g, "sub"), nfs4.AttrMode, nfs4.AttrOwnerGroup); a.Mode != 0o2755 || string(a.OwnerGroup) != "777" {
		t.Errorf("directory %o of group %s", a.Mode, a.OwnerGroup)
	}
	o := user.openWith(g, creating(openArgs("o", "f", 3), nfs4.CreateHow{Mode: nfs4.CreateGuarded, Attrs: mode(0o2755)}))
	if a := user.stat(o.fh, nfs4.AttrMode, nfs4.AttrOwnerGroup); a.Mode != 0o755 || string(a.OwnerGroup) != "777" {
		t.Errorf("file %o of group %s, whose creator is not in it", a.Mode, a.OwnerGroup)
	}
}

// TestSizes: what is too long or too large, and just not.
func TestSizes(t *testing.T) {
	t.Parallel()
	p := shared(t).newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	p.want(nfs4.OK, putFH(dir), symlink("longest", strings.Repeat("t", 4095)))
	for _, n := range []int{4097, 5000} {
		if s := p.try(putFH(dir), symlink("longer", strings.Repeat("t", n))); s != nfs4.ErrNameTooLong {
			t.Errorf("symbolic link of %d bytes: %v", n, s)
		}
	}
	p.want(nfs4.ErrInval, putFH(dir), symlink("zero", "a\x00b"))
	p.want(nfs4.ErrFBig, putFH(o.fh), writeOp(o.id, math.MaxInt64, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{}))
	p.want(nfs4.ErrFBig, putFH(o.fh), writeOp(o.id, math.MaxUint64, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{}))
	p.want(nfs4.ErrFBig, putFH(o.fh), resize(o.id, math.MaxInt64+1))
	var r nfs4.ReadRes
	for _, off := range []uint64{0, math.MaxInt64, math.MaxUint64 - 1, math.MaxUint64} {
		p.must(putFH(o.fh), readOp(o.id, off, 10, &r))
		if !r.EOF || len(r.Data) != 0 {
			t.Errorf("READ at %d of an empty file: %d bytes, eof %v", off, len(r.Data), r.EOF)
		}
	}
	p.must(putFH(o.fh), resize(o.id, math.MaxInt64))
	if p.must(putFH(o.fh), readOp(o.id, math.MaxInt64-3, 10, &r)); len(r.Data) != 3 || !r.EOF {
		t.Errorf("READ at the end of the largest file: %d bytes, eof %v", len(r.Data), r.EOF)
	}
}

// TestChangeInfo: every operation that changes a directory says what its change
// attribute was and is, and that nothing came in between.
func TestChangeInfo(t *testing.T) {
	t.Parallel()
	p := shared(t).newPeer(t, "a")
	dir, other := p.dir(), p.dir()
	check := func(what string, fh nfs4.FH, before nfs4.Attrs, got nfs4.ChangeInfo) {
		t.Helper()
		after := p.stat(fh, nfs4.AttrChange)
		if want := (nfs4.ChangeInfo{Atomic: true, Before: before.Change, After: after.Change}); got != want || after.Change <= before.Change {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	before := p.stat(dir, nfs4.AttrChange)
	o := p.create(dir, "f")
	check("OPEN", dir, before, o.r.CInfo)
	before = p.stat(dir, nfs4.AttrChange)
	ln := link("g")
	p.must(putFH(o.fh), saveFH(), putFH(dir), ln)
	check("LINK", dir, before, ln.Res.(*nfs4.LinkRes).CInfo)
	src, dst := p.stat(dir, nfs4.AttrChange), p.stat(other, nfs4.AttrChange)
	rn := rename("g", "h")
	p.must(putFH(dir), saveFH(), putFH(other), rn)
	check("RENAME from", dir, src, rn.Res.(*nfs4.RenameRes).SourceCInfo)
	check("RENAME to", other, dst, rn.Res.(*nfs4.RenameRes).TargetCInfo)
	before = p.stat(other, nfs4.AttrChange)
	rm := remove("h")
	p.must(putFH(other), rm)
	check("REMOVE", other, before, rm.Res.(*nfs4.RemoveRes).CInfo)
}

// TestStateidKinds: what TEST_STATEID and FREE_STATEID say of each kind of
// stateid (RFC 8881 sections 18.38, 18.48).
func TestStateidKinds(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "a"), c.newPeer(t, "b")
	dir := p.dir()
	o := p.delegated(dir, "f", nfs4.DelegateRead)
	w := p.openWith(dir, openArgs("w", "f", 3))
	var lock nfs4.LockRes
	p.must(putFH(w.fh), lockOp(newLock(w, "l", nfs4.LockWrite, 0, 1), &lock))
	pl := w.layout(nfs4.IOModeRW)
	free := func(id nfs4.Stateid) client.Op {
		return client.Op{Num: nfs4.OpFreeStateid, Args: &nfs4.FreeStateidArgs{Stateid: id}}
	}
	test := func(who *peer, id nfs4.Stateid) nfs4.Status {
		t.Helper()
		var r nfs4.TestStateidRes
		who.must(client.Op{Num: nfs4.OpTestStateid, Args: &nfs4.TestStateidArgs{Stateids: []nfs4.Stateid{id}}, Res: &r})
		return r.StatusCodes[0]
	}
	for what, id := range map[string]nfs4.Stateid{"open": w.id, "lock": lock.LockStateid, "layout": pl.get.Stateid, "delegation": o.r.Delegation.Stateid} {
		if s := test(p, id); s != nfs4.OK {
			t.Errorf("TEST_STATEID of %s: %v", what, s)
		}
		if s := test(q, id); s != nfs4.ErrBadStateID {
			t.Errorf("TEST_STATEID of another client's %s: %v", what, s)
		}
		p.want(nfs4.ErrLocksHeld, free(id))
		q.want(nfs4.ErrBadStateID, free(id))
		future := id
		future.Seqid += 3
		if s := test(p, future); s != nfs4.ErrBadStateID {
			t.Errorf("TEST_STATEID of a %s to come: %v", what, s)
		}
		none := id
		none.Other[11] ^= 0x40
		if s := test(p, none); s != nfs4.ErrBadStateID {
			t.Errorf("TEST_STATEID of no %s: %v", what, s)
		}
	}
	for _, id := range []nfs4.Stateid{nfs4.StateidAnonymous(), nfs4.StateidBypass(), nfs4.StateidCurrent(), nfs4.StateidInvalid()} {
		if s := test(p, id); s != nfs4.ErrBadStateID {
			t.Errorf("TEST_STATEID of %v: %v", id, s)
		}
		p.want(nfs4.ErrBadStateID, free(id))
	}
	// The current stateid, where it is one.
	p.want(nfs4.ErrLocksHeld, putFH(dir), openOp(openArgs("w", "f", 3), &nfs4.OpenRes{}), free(nfs4.StateidCurrent()))
	// A lock-owner's state ends with FREE_STATEID once it holds nothing, and LOCK
	// makes it anew with the open's.
	u := unlockOp(lock.LockStateid, 0, 1)
	p.must(putFH(w.fh), u)
	p.want(nfs4.ErrOldStateID, free(lock.LockStateid))
	p.must(free(u.Res.(*nfs4.LockURes).LockStateid))
	if s := test(p, u.Res.(*nfs4.LockURes).LockStateid); s != nfs4.ErrBadStateID {
		t.Errorf("TEST_STATEID of what is freed: %v", s)
	}
}

// TestNoBackchannel: a client that cannot be called back gets no delegation, and
// no promise to be told of locks.
func TestNoBackchannel(t *testing.T) {
	t.Parallel()
	c := shared(t)
	dir := c.newPeer(t, "a").dir()
	r := dialRaw(t, c.cfg.Listen, t.Name(), 1)
	r.exchange()
	r.createSession(8) // without CREATE_SESSION4_FLAG_CONN_BACK_CHAN
	r.want(nfs4.OK, reclaimComplete())
	var or nfs4.OpenRes
	r.want(nfs4.OK, putFH(dir), openOp(creating(openArgs("o", "f", 3|nfs4.WantWriteDeleg), nfs4.CreateHow{Attrs: mode(0o666)}), &or))
	if d := or.Delegation; d.Type != nfs4.DelegateNoneExt || d.None.Why != nfs4.NoDelegResource {
		t.Errorf("delegation %+v", d)
	}
	if or.RFlags&nfs4.OpenResultMayNotifyLock != 0 {
		t.Errorf("result flags %#x", or.RFlags)
	}
}
