package wire_test

import (
	"bytes"
	"testing"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

const pathDown = nfs4.SeqStatusCBPathDown | nfs4.SeqStatusCBPathDownSession

func bindOp(id nfs4.SessionID, dir uint32, r *nfs4.BindConnToSessionRes) client.Op {
	return client.Op{Num: nfs4.OpBindConnToSession, Args: &nfs4.BindConnToSessionArgs{SessionID: id, Dir: dir}, Res: r}
}

// flags are the status flags of a SEQUENCE now.
func (r *raw) flags() uint32 {
	r.t.Helper()
	r.want(nfs4.OK)
	return r.res.StatusFlags
}

// TestTrunking: what a client must hear to use several connections, for one
// session and for one client id (RFC 8881 section 2.10.5).
func TestTrunking(t *testing.T) {
	t.Parallel()
	c := shared(t)
	g := newReplayRig(t, c, c.newPeer(t, "look"), "a", nfs4.CreateSessionFlagConnBackChan)
	g.do(reclaimComplete())
	fh, opened := g.file("f", nfs4.ShareAccessBoth)
	other := g.again()
	if s := other.exchange(); s != nfs4.OK {
		t.Fatal(s)
	}
	if a, b := g.id, other.id; a.ClientID != b.ClientID || a.ServerOwner.MinorID != b.ServerOwner.MinorID ||
		!bytes.Equal(a.ServerOwner.MajorID, b.ServerOwner.MajorID) || !bytes.Equal(a.ServerScope, b.ServerScope) {
		t.Errorf("EXCHANGE_ID on two connections: %+v, %+v", a, b)
	}
	if g.id.Flags&nfs4.ExchgidFlagConfirmedR != 0 || other.id.Flags&nfs4.ExchgidFlagConfirmedR == 0 {
		t.Errorf("flags %#x before there was a session, %#x afterwards", g.id.Flags, other.id.Flags)
	}
	// One session: each connection serves what it asked for.
	for _, x := range []struct {
		ask, get uint32
	}{
		{nfs4.BindFore, nfs4.BindFore}, {nfs4.BindBack, nfs4.BindBack},
		{nfs4.BindForeOrBoth, nfs4.BindFore | nfs4.BindBack}, {nfs4.BindBackOrBoth, nfs4.BindFore | nfs4.BindBack},
	} {
		var res nfs4.BindConnToSessionRes
		if _, s := g.again().send(bindOp(g.sess.SessionID, x.ask, &res)); s != nfs4.OK || res.Dir != x.get || res.SessionID != g.sess.SessionID {
			t.Errorf("direction %d: %v, %+v", x.ask, s, res)
		}
	}
	if _, s := g.again().send(bindOp(g.sess.SessionID, 0, &nfs4.BindConnToSessionRes{})); s == nfs4.OK {
		t.Error("no direction at all is bound")
	}
	// One client id, two sessions: what one opened the other may use, and when
	// one is destroyed it stays.
	second := g.again()
	second.id.SequenceID++
	second.createSession(4)
	second.want(nfs4.OK, putFH(fh), writeOp(opened.Stateid, 0, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{}))
	if _, s := second.send(client.Op{Num: nfs4.OpDestroySession, Args: &nfs4.DestroySessionArgs{SessionID: g.sess.SessionID}}); s != nfs4.OK {
		t.Errorf("DESTROY_SESSION on the other session's connection: %v", s)
	}
	g.want(nfs4.ErrBadSession)
	second.want(nfs4.OK, putFH(fh), closeOp(opened.Stateid))
	// A data server is another server, not a trunk of this one.
	p := c.newPeer(t, "p")
	ds := dialRaw(t, p.create(p.dir(), "f").layout(nfs4.IOModeRW).dev.Paths[0][0].AddrPort.String(), t.Name(), 1)
	ds.exchange()
	if bytes.Equal(ds.id.ServerOwner.MajorID, g.id.ServerOwner.MajorID) || bytes.Equal(ds.id.ServerScope, g.id.ServerScope) {
		t.Error("a data server says that it is the metadata server")
	}
}

// TestBackChannelFlags: SEQ4_STATUS_CB_PATH_DOWN and _SESSION come when the
// connection for callbacks goes, and go when there is one again.
func TestBackChannelFlags(t *testing.T) {
	t.Parallel()
	c := shared(t)
	g := newReplayRig(t, c, c.newPeer(t, "look"), "a", nfs4.CreateSessionFlagConnBackChan)
	if f := g.flags(); f != 0 {
		t.Errorf("at the start: %#x", f)
	}
	// A session without callbacks is not told that it has no way for them.
	plain := g.again()
	plain.id.SequenceID++
	plain.createSession(4)
	g.conn.Close()
	g.raw = g.again()
	eventually(t, "flags of a lost back channel", func() error {
		if f := g.flags(); f != pathDown {
			return nfs4.ErrCBPathDown
		}
		return nil
	})
	if f := plain.flags(); f != nfs4.SeqStatusCBPathDown {
		t.Errorf("the session without callbacks: %#x", f)
	}
	// Another session of the client that can be called back: only this one's is down.
	third := plain.again()
	third.id.SequenceID++
	a := third.sessionArgs(4)
	a.Flags = nfs4.CreateSessionFlagConnBackChan
	if _, s := third.send(client.Op{Num: nfs4.OpCreateSession, Args: a, Res: &third.sess}); s != nfs4.OK {
		t.Fatal(s)
	}
	third.seq = 0
	if f, h, p := g.flags(), third.flags(), plain.flags(); f != nfs4.SeqStatusCBPathDownSession || h != 0 || p != 0 {
		t.Errorf("with another way: %#x, %#x, %#x", f, h, p)
	}
	if _, s := g.send(bindOp(g.sess.SessionID, nfs4.BindForeOrBoth, &nfs4.BindConnToSessionRes{})); s != nfs4.OK {
		t.Fatal(s)
	}
	if f := g.flags(); f != 0 {
		t.Errorf("bound again: %#x", f)
	}
}

// TestRevokedLayoutFlag: a client whose layout was revoked is told by
// SEQ4_STATUS_RECALLABLE_STATE_REVOKED, however late it asks, until it has heard.
func TestRevokedLayoutFlag(t *testing.T) {
	t.Parallel()
	c := shared(t)
	q := c.newPeer(t, "cutter")
	g := newReplayRig(t, c, q, "holder", 0)
	g.do(reclaimComplete())
	fh, opened := g.file("f", nfs4.ShareAccessBoth)
	g.do(putFH(fh), layoutGetOp(layoutGetArgs(opened.Stateid, nfs4.IOModeRW), &nfs4.LayoutGetRes{}))
	shown := 0
	look := func() {
		t.Helper()
		if g.flags()&nfs4.SeqStatusRecallableStateRevoked != 0 {
			shown++
		}
	}
	eventually(t, "revocation", func() error {
		look() // which keeps the lease
		if s := q.try(putFH(fh), resize(nfs4.StateidAnonymous(), 10)); s != nfs4.OK {
			return s
		}
		return nil
	})
	for range 3 {
		look()
	}
	if shown != 1 {
		t.Errorf("shown %d times, want once: the next request says that it was heard", shown)
	}
}

// TestClientRestart is RFC 8881 section 18.35.4, case 5: a client that restarted
// has a new client id; what it held before is in the way until that is confirmed,
// and the earlier sessions end then.
func TestClientRestart(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "other")
	g := newReplayRig(t, c, p, "a", 0)
	g.do(reclaimComplete())
	a := creating(openArgs("owner", "f", nfs4.ShareAccessBoth), nfs4.CreateHow{Attrs: mode(0o666)})
	a.ShareDeny = nfs4.ShareDenyBoth
	g.do(putFH(g.dir), openOp(a, &nfs4.OpenRes{}))
	want := func(s nfs4.Status) {
		t.Helper()
		p.want(s, putFH(g.dir), openOp(openArgs("o", "f", nfs4.ShareAccessRead), &nfs4.OpenRes{}))
	}
	want(nfs4.ErrShareDenied)
	fresh := g.again()
	fresh.verf[0]++
	fresh.exchange()
	if fresh.id.ClientID == g.id.ClientID || fresh.id.Flags&nfs4.ExchgidFlagConfirmedR != 0 {
		t.Errorf("after a restart: %+v, was %+v", fresh.id, g.id)
	}
	want(nfs4.ErrShareDenied)
	g.want(nfs4.OK)
	fresh.createSession(4)
	g.want(nfs4.ErrBadSession)
	fresh.want(nfs4.OK, reclaimComplete())
	eventually(t, "end of what the earlier one held", func() error {
		if s := p.try(putFH(g.dir), openOp(openArgs("o", "f", nfs4.ShareAccessRead), &nfs4.OpenRes{})); s != nfs4.OK {
			return s
		}
		return nil
	})
	// The old client id is gone, and so is its CREATE_SESSION.
	if _, s := g.again().send(client.Op{Num: nfs4.OpCreateSession, Args: g.sessionArgs(4), Res: &g.sess}); s != nfs4.ErrStaleClientID {
		t.Errorf("CREATE_SESSION with the old client id: %v", s)
	}
	// Case 3: the same owner by another principal, with state there.
	g.raw = fresh
	_, s := g.sendAs(77, client.Op{Num: nfs4.OpExchangeID, Args: &nfs4.ExchangeIDArgs{
		ClientOwner: nfs4.ClientOwner{OwnerID: g.owner, Verifier: nfs4.Verifier{9}},
	}, Res: &nfs4.ExchangeIDRes{}})
	if s != nfs4.ErrClidInUse {
		t.Errorf("EXCHANGE_ID by another principal: %v", s)
	}
}
