package wire_test

import (
	"context"
	"testing"
	"time"

	"manifold/xdr"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// delegHooks is what a peer does when it is called back about a delegation: it
// returns what is recalled, and does not know CB_GETATTR, until told otherwise.
type delegHooks struct {
	recalled chan nfs4.CBRecallArgs
	recall   func(*nfs4.CBRecallArgs) nfs4.Status
	getattr  func(*nfs4.CBGetattrArgs) (nfs4.Attrs, nfs4.Status)
	raw      *raw
	// What a client may make use of, or not.
	locks chan nfs4.CBNotifyLockArgs
	any   chan nfs4.CBRecallAnyArgs
}

func newDelegHooks() delegHooks {
	return delegHooks{recalled: make(chan nfs4.CBRecallArgs, 1000), locks: make(chan nfs4.CBNotifyLockArgs, 1000), any: make(chan nfs4.CBRecallAnyArgs, 1000)}
}

// hint keeps a callback for the test.
func (h *delegHooks) hint(op nfs4.CBOpNum, d *xdr.Decoder) nfs4.Status {
	if op == nfs4.CBNotifyLock {
		var a nfs4.CBNotifyLockArgs
		a.DecodeXDR(d)
		a.FH = append(nfs4.FH(nil), a.FH...)
		a.LockOwner.Owner = append([]byte(nil), a.LockOwner.Owner...)
		h.locks <- a
		return nfs4.OK
	}
	var a nfs4.CBRecallAnyArgs
	a.DecodeXDR(d)
	h.any <- a
	return nfs4.OK
}

// onRecall sets how CB_RECALL is answered; onGetattr sets how CB_GETATTR is.
func (p *peer) onRecall(f func(*nfs4.CBRecallArgs) nfs4.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deleg.recall = f
}

func (p *peer) onGetattr(f func(*nfs4.CBGetattrArgs) (nfs4.Attrs, nfs4.Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deleg.getattr = f
}

func (p *peer) cbRecall(d *xdr.Decoder) nfs4.Status {
	var a nfs4.CBRecallArgs
	a.DecodeXDR(d)
	a.FH = append(nfs4.FH(nil), a.FH...)
	p.mu.Lock()
	f := p.deleg.recall
	p.mu.Unlock()
	s := nfs4.OK
	if f != nil {
		s = f(&a)
	} else {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = p.nfs.Compound(ctx, sys(0, 0), putFH(a.FH), delegReturn(a.Stateid))
		}()
	}
	select {
	case p.deleg.recalled <- a:
	default:
	}
	return s
}

func (p *peer) cbGetattr(d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
	var a nfs4.CBGetattrArgs
	a.DecodeXDR(d)
	p.mu.Lock()
	f := p.deleg.getattr
	p.mu.Unlock()
	if f == nil {
		return nfs4.ErrNotSupp
	}
	attrs, s := f(&a)
	r := nfs4.CBGetattrRes{ObjAttributes: attrs}
	r.EncodeXDR(e)
	return s
}

// awaitDelegRecall returns the next CB_RECALL.
func (p *peer) awaitDelegRecall() nfs4.CBRecallArgs {
	p.t.Helper()
	select {
	case a := <-p.deleg.recalled:
		return a
	case <-time.After(patience):
		p.t.Fatal("no recall")
		panic("unreachable")
	}
}

func delegReturn(id nfs4.Stateid) client.Op {
	return client.Op{Num: nfs4.OpDelegReturn, Args: &nfs4.DelegReturnArgs{DelegStateid: id}, Res: &nfs4.DelegReturnRes{}}
}

// delegated makes a file and opens it so that it is delegated.
func (p *peer) delegated(dir nfs4.FH, name string, typ nfs4.DelegationType) *open {
	p.t.Helper()
	share := uint32(nfs4.ShareAccessRead | nfs4.WantReadDeleg)
	if typ == nfs4.DelegateWrite {
		share = nfs4.ShareAccessBoth | nfs4.WantWriteDeleg
	}
	o := p.openWith(dir, creating(openArgs("owner", name, share), nfs4.CreateHow{Mode: nfs4.CreateUnchecked, Attrs: mode(0o666)}))
	if o.r.Delegation.Type != typ {
		p.t.Fatalf("delegation %+v, want type %v", o.r.Delegation, typ)
	}
	return o
}

// never answers recalls with OK and returns nothing.
func never(*nfs4.CBRecallArgs) nfs4.Status { return nfs4.OK }

// TestDelegConflicts: what another client does to a delegated file waits until
// the delegation is back, if it matters to the holder.
func TestDelegConflicts(t *testing.T) {
	t.Parallel()
	c := shared(t)
	attrs := func(a nfs4.Attr) nfs4.Attrs {
		return nfs4.Attrs{Mask: nfs4.BitmapOf(a), Mode: 0o600}
	}
	opens := func(share, deny uint32) func(*open, nfs4.FH) []client.Op {
		return func(_ *open, dir nfs4.FH) []client.Op {
			a := openArgs("q", "f", share)
			a.ShareDeny = deny
			return []client.Op{putFH(dir), openOp(a, &nfs4.OpenRes{})}
		}
	}
	cut := func(_ *open, dir nfs4.FH) []client.Op {
		a := creating(openArgs("q", "f", nfs4.ShareAccessRead), nfs4.CreateHow{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}})
		return []client.Op{putFH(dir), openOp(a, &nfs4.OpenRes{})}
	}
	// Cases run side by side, so that each makes its own operations: a result is
	// decoded into the one that asked.
	type made func() client.Op
	on := func(op made) func(*open, nfs4.FH) []client.Op {
		return func(o *open, _ nfs4.FH) []client.Op { return []client.Op{putFH(o.fh), op()} }
	}
	in := func(ops ...made) func(*open, nfs4.FH) []client.Op {
		return func(_ *open, dir nfs4.FH) []client.Op {
			all := []client.Op{putFH(dir), saveFH()}
			for _, op := range ops {
				all = append(all, op())
			}
			return all
		}
	}
	for _, tt := range []struct {
		name        string
		read, write bool // whether it recalls a delegation of that type
		ops         func(o *open, dir nfs4.FH) []client.Op
	}{
		{"open to read", false, true, opens(nfs4.ShareAccessRead, 0)},
		{"open to write", true, true, opens(nfs4.ShareAccessWrite, 0)},
		{"open that denies reading", true, true, opens(nfs4.ShareAccessRead, nfs4.ShareDenyRead)},
		{"open that cuts", true, true, cut},
		{"setattr mode", true, true, on(func() client.Op { return setattr(nfs4.StateidAnonymous(), attrs(nfs4.AttrMode)) })},
		{"setattr size", true, true, on(func() client.Op { return resize(nfs4.StateidAnonymous(), 10) })},
		{"setxattr", true, true, on(func() client.Op {
			return client.Op{Num: nfs4.OpSetXattr, Args: &nfs4.SetXattrArgs{Key: []byte("user.a"), Value: []byte("1")}, Res: &nfs4.SetXattrRes{}}
		})},
		{"remove", true, true, in(func() client.Op { return remove("f") })},
		{"rename", true, true, in(func() client.Op { return rename("f", "g") })},
		{"rename over", true, true, in(func() client.Op {
			return client.Op{Num: nfs4.OpCreate, Args: &nfs4.CreateArgs{
				ObjType: nfs4.CreateType{Type: nfs4.TypeLnk, LinkData: []byte("x")}, ObjName: []byte("over"),
			}, Res: &nfs4.CreateRes{}}
		}, restoreFH, func() client.Op { return rename("over", "f") })},
		{"link", true, true, func(o *open, dir nfs4.FH) []client.Op {
			return []client.Op{putFH(o.fh), saveFH(), putFH(dir), link("l")}
		}},
		{"read without open", false, true, on(func() client.Op { return readOp(nfs4.StateidAnonymous(), 0, 10, &nfs4.ReadRes{}) })},
		{"write without open", true, true, on(func() client.Op {
			return writeOp(nfs4.StateidAnonymous(), 0, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{})
		})},
		{"getattr", false, true, on(func() client.Op { return getattr(&nfs4.GetattrRes{}, nfs4.AttrSize) })}, // CB_GETATTR is not answered
		{"lookup and access", false, false, in(func() client.Op { return lookup("f") }, func() client.Op { return access(1, &nfs4.AccessRes{}) })},
	} {
		for typ, recalls := range map[nfs4.DelegationType]bool{nfs4.DelegateRead: tt.read, nfs4.DelegateWrite: tt.write} {
			name := tt.name + ", delegated to read"
			if typ == nfs4.DelegateWrite {
				name = tt.name + ", delegated to write"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p, q := c.newPeer(t, "holder"), c.newPeer(t, "other")
				dir := p.dir()
				o := p.delegated(dir, "f", typ)
				p.must(putFH(o.fh), closeOp(o.id))
				d := &o.r.Delegation
				p.onRecall(never)
				// What the holder itself does recalls nothing.
				p.must(putFH(o.fh), setattr(nfs4.StateidAnonymous(), attrs(nfs4.AttrTimeCreate)), getattr(&nfs4.GetattrRes{}, nfs4.AttrSize, nfs4.AttrChange))
				if !recalls {
					q.want(nfs4.OK, tt.ops(o, dir)...)
					if n := len(p.deleg.recalled); n > 0 {
						t.Errorf("%d recalls", n)
					}
					p.want(nfs4.OK, putFH(o.fh), delegReturn(d.Stateid))
					return
				}
				if s := q.try(tt.ops(o, dir)...); s != nfs4.ErrDelay {
					t.Errorf("%v while the delegation is out", s)
				}
				a := p.awaitDelegRecall()
				if a.Stateid != d.Stateid || string(a.FH) != string(o.fh) {
					t.Errorf("recall of %v, %x; the delegation is %v", a.Stateid, a.FH, d.Stateid)
				}
				p.want(nfs4.OK, putFH(o.fh), delegReturn(d.Stateid))
				again := tt.ops(o, dir)
				if tt.name == "rename over" {
					again = []client.Op{putFH(dir), saveFH(), rename("over", "f")}
				}
				q.want(nfs4.OK, again...)
				p.want(nfs4.ErrBadStateID, putFH(dir), delegReturn(d.Stateid))
			})
		}
	}
}

// TestDelegReturnedInTime: whoever is in the way does not even notice, if the
// delegation comes back at once.
func TestDelegReturnedInTime(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "holder"), c.newPeer(t, "other")
	dir := p.dir()
	p.delegated(dir, "f", nfs4.DelegateWrite).close()
	q.want(nfs4.OK, putFH(dir), openOp(openArgs("q", "f", nfs4.ShareAccessBoth), &nfs4.OpenRes{}))
	p.delegated(dir, "g", nfs4.DelegateRead).close()
	q.want(nfs4.OK, putFH(dir), remove("g"))
	// Contended files are left alone for a while.
	o := p.openWith(dir, openArgs("owner", "f", nfs4.ShareAccessRead|nfs4.WantReadDeleg))
	if d := o.r.Delegation; d.Type != nfs4.DelegateNoneExt || d.None.Why != nfs4.NoDelegContention {
		t.Errorf("delegation %+v after a recall", d)
	}
}

// TestDelegWishes: what OPEN answers to each wish.
func TestDelegWishes(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "p")
	dir := p.dir()
	first := p.create(dir, "f") // without a wish, a new file is not delegated
	if first.r.Delegation.Type != nfs4.DelegateNone {
		t.Errorf("a new file is delegated: %+v", first.r.Delegation)
	}
	first.close()
	for _, tt := range []struct {
		share uint32
		typ   nfs4.DelegationType
		why   nfs4.WhyNoDelegation
	}{
		{nfs4.ShareAccessRead, nfs4.DelegateRead, 0},
		{nfs4.ShareAccessBoth, nfs4.DelegateWrite, 0},
		{nfs4.ShareAccessRead | nfs4.WantReadDeleg, nfs4.DelegateRead, 0},
		{nfs4.ShareAccessBoth | nfs4.WantAnyDeleg, nfs4.DelegateWrite, 0},
		{nfs4.ShareAccessBoth | nfs4.WantReadDeleg, nfs4.DelegateRead, 0},
		{nfs4.ShareAccessRead | nfs4.WantNoDeleg, nfs4.DelegateNoneExt, nfs4.NoDelegNotWanted},
		{nfs4.ShareAccessRead | nfs4.WantCancel, nfs4.DelegateNoneExt, nfs4.NoDelegCancelled},
	} {
		o := p.openWith(dir, openArgs("owner", "f", tt.share))
		d := o.r.Delegation
		if d.Type != tt.typ || d.None.Why != tt.why || d.Recall {
			t.Errorf("share %#x: %+v", tt.share, d)
		}
		if d.Type == nfs4.DelegateWrite && (d.SpaceLimit.LimitBy != nfs4.LimitSize || d.SpaceLimit.FileSize == 0) {
			t.Errorf("space limit %+v", d.SpaceLimit)
		}
		if d.Type != nfs4.DelegateNoneExt {
			if d.Permissions.Mask != 0 || string(d.Permissions.Who) != "EVERYONE@" {
				t.Errorf("permissions %+v let somebody in unasked", d.Permissions)
			}
			p.want(nfs4.OK, putFH(o.fh), delegReturn(d.Stateid))
		}
		o.close()
	}
}

// TestDelegOff: the switch.
func TestDelegOff(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(c *mdsConfig) { c.NoDelegations = true })
	p := c.newPeer(t, "p")
	dir := p.dir()
	p.create(dir, "f").close()
	for share, typ := range map[uint32]nfs4.DelegationType{1: nfs4.DelegateNone, 3 | nfs4.WantWriteDeleg: nfs4.DelegateNoneExt} {
		if o := p.open(dir, "f", share); o.r.Delegation.Type != typ {
			t.Errorf("share %#x: delegation %+v", share, o.r.Delegation)
		}
	}
}

// TestDelegClaims: what was opened under a delegation is claimed while it is
// recalled, by name and by handle.
func TestDelegClaims(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "holder"), c.newPeer(t, "other")
	dir := p.dir()
	o := p.delegated(dir, "f", nfs4.DelegateWrite)
	d := o.r.Delegation.Stateid
	o.close()
	p.onRecall(never)
	done := make(chan nfs4.Status, 1)
	go func() {
		done <- q.try(putFH(dir), openOp(openArgs("q", "f", nfs4.ShareAccessBoth), &nfs4.OpenRes{}))
	}()
	p.awaitDelegRecall()
	claim := func(owner string, typ nfs4.ClaimType, id nfs4.Stateid) *nfs4.OpenArgs {
		a := openArgs(owner, "f", nfs4.ShareAccessBoth)
		a.Claim.Type, a.Claim.DelegStateid = typ, id
		return a
	}
	p.want(nfs4.ErrBadStateID, putFH(o.fh), openOp(claim("x", nfs4.ClaimDelegCurFH, o.id), &nfs4.OpenRes{}))
	p.want(nfs4.ErrNotSupp, putFH(dir), openOp(claim("x", nfs4.ClaimDelegatePrev, d), &nfs4.OpenRes{}))
	p.want(nfs4.ErrNotSupp, putFH(o.fh), openOp(claim("x", nfs4.ClaimDelegPrevFH, d), &nfs4.OpenRes{}))
	var byFH, byName nfs4.OpenRes
	deny := claim("byfh", nfs4.ClaimDelegCurFH, d)
	deny.ShareDeny = nfs4.ShareDenyWrite
	p.want(nfs4.OK, putFH(dir), openOp(claim("byname", nfs4.ClaimDelegateCur, d), &byName))
	p.want(nfs4.OK, putFH(o.fh), closeOp(byName.Stateid))
	p.want(nfs4.OK, putFH(o.fh), openOp(deny, &byFH))
	p.want(nfs4.OK, putFH(o.fh), delegReturn(d))
	// What was claimed counts against the one that waited.
	if s := <-done; s != nfs4.ErrShareDenied && s != nfs4.ErrDelay {
		t.Errorf("OPEN: %v", s)
	}
	q.want(nfs4.ErrShareDenied, putFH(dir), openOp(openArgs("q", "f", nfs4.ShareAccessBoth), &nfs4.OpenRes{}))
	p.want(nfs4.OK, putFH(o.fh), closeOp(byFH.Stateid))
	q.want(nfs4.OK, putFH(dir), openOp(openArgs("q", "f", nfs4.ShareAccessBoth), &nfs4.OpenRes{}))
}
