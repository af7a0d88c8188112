package state

import (
	"math"
	"testing"

	"manifold/xdr/nfs4"
)

func TestSeqidWraps(t *testing.T) {
	sid := bump(nfs4.Stateid{Seqid: math.MaxUint32})
	if sid.Seqid != 1 {
		t.Errorf("after 2^32-1 comes %d", sid.Seqid)
	}
	for _, tc := range []struct {
		given, newest uint32
		want          nfs4.Status
	}{
		{0, 5, nfs4.OK},
		{5, 5, nfs4.OK},
		{4, 5, nfs4.ErrOldStateID},
		{6, 5, nfs4.ErrBadStateID},
		{math.MaxUint32, 1, nfs4.ErrOldStateID},
		{1, math.MaxUint32, nfs4.ErrBadStateID},
	} {
		if s := checkSeqid(tc.given, tc.newest); s != tc.want {
			t.Errorf("seqid %d of %d: %v, should be %v", tc.given, tc.newest, s, tc.want)
		}
	}
}

// TestWrapInUse takes an open, and a layout, over the end of the seqids.
func TestWrapInUse(t *testing.T) {
	c := newCore(t, 1)
	v := must(t, c, OpenReq{Client: 1, File: 1, Access: 3})
	for _, o := range c.opens.m {
		o.sid.Seqid = math.MaxUint32
	}
	old := v.Stateid
	old.Seqid = math.MaxUint32
	v = must(t, c, OpenReq{Client: 1, File: 1, Access: 3})
	if v.Stateid.Seqid != 1 {
		t.Errorf("open has seqid %d", v.Stateid.Seqid)
	}
	if s := c.TestStateid(1, old); s != nfs4.ErrOldStateID {
		t.Errorf("before the wrap: %v", s)
	}
	l := must(t, c, LayoutGetReq{Client: 1, File: 1, Stateid: v.Stateid, IOMode: nfs4.IOModeRW})
	for _, g := range c.layouts.m {
		g.sid.Seqid = math.MaxUint32
	}
	l.Stateid.Seqid = math.MaxUint32
	g := must(t, c, RecallReq{File: 1}).Effects.Recall[0]
	if g.Stateid.Seqid != 1 {
		t.Errorf("recall has seqid %d", g.Stateid.Seqid)
	}
	must(t, c, LayoutCommitReq{Client: 1, File: 1, Stateid: l.Stateid})
}

// TestMint looks at the shape of a stateid: no two alike, none special, kinds
// not mixed up, another boot's known.
func TestMint(t *testing.T) {
	c := newCore(t, 1)
	seen := map[[12]byte]bool{}
	for i := range uint64(1000) {
		k := kind(i%4 + 1)
		sid, num := c.mint(k, nfs4.ClientID(i), i*i)
		if seen[sid.Other] || sid.IsSpecial() || sid.Seqid != 1 {
			t.Fatalf("stateid %v", sid)
		}
		seen[sid.Other] = true
		gotKind, gotNum, s := c.parse(sid)
		if s != nfs4.OK || gotKind != k || gotNum != num || !tagged(sid, nfs4.ClientID(i), i*i) {
			t.Fatalf("%v is kind %d number %d, %v", sid, gotKind, gotNum, s)
		}
		sid.Other[3]++
		if _, _, s := c.parse(sid); s != nfs4.ErrBadStateID {
			t.Fatalf("another boot's: %v", s)
		}
	}
	for _, sid := range []nfs4.Stateid{nfs4.StateidAnonymous(), nfs4.StateidBypass(), nfs4.StateidCurrent(), nfs4.StateidInvalid()} {
		if s := c.TestStateid(1, sid); s != nfs4.ErrBadStateID {
			t.Errorf("special %v: %v", sid, s)
		}
	}
	// A kind that there is not.
	sid, _ := c.mint(9, 1, 1)
	if s := c.TestStateid(1, sid); s != nfs4.ErrBadStateID {
		t.Errorf("kind 9: %v", s)
	}
}
