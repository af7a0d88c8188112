package wire_test

import (
	"bytes"
	"testing"
	"time"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

func unlockOp(id nfs4.Stateid, off, n uint64) client.Op {
	return client.Op{Num: nfs4.OpLockU, Args: &nfs4.LockUArgs{LockType: nfs4.LockRead, LockStateid: id, Offset: off, Length: n}, Res: &nfs4.LockURes{}}
}

// awaitNotify waits until the peer is told that a lock is free.
func (p *peer) awaitNotify(o *open, owner string) {
	p.t.Helper()
	select {
	case a := <-p.deleg.locks:
		if !bytes.Equal(a.FH, o.fh) || string(a.LockOwner.Owner) != owner || a.LockOwner.ClientID != p.nfs.ClientID() {
			p.t.Errorf("CB_NOTIFY_LOCK %+v, want one for %s", a, owner)
		}
	case <-time.After(patience):
		p.t.Fatal("no CB_NOTIFY_LOCK")
	}
}

// TestNotifyLock: a client that would wait for a lock is told when it is free,
// also if it is because its holder is gone (RFC 8881 section 9.6).
func TestNotifyLock(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "a"), c.newPeer(t, "b")
	silent := c.newSilentPeer(t, "silent")
	dir := p.dir()
	a, b := p.create(dir, "f"), q.open(dir, "f", 3)
	if b.r.RFlags&nfs4.OpenResultMayNotifyLock == 0 {
		t.Errorf("OPEN does not promise to notify: %#x", b.r.RFlags)
	}
	var held, r nfs4.LockRes
	p.must(putFH(a.fh), lockOp(newLock(a, "holder", nfs4.LockWrite, 0, 10), &held))
	q.want(nfs4.ErrDenied, putFH(b.fh), lockOp(newLock(b, "waiter", nfs4.LockWriteW, 5, 10), &r))
	p.must(putFH(a.fh), unlockOp(held.LockStateid, 2, 9))
	q.awaitNotify(b, "waiter")
	// Who is told has no lock yet.
	q.must(putFH(b.fh), lockOp(newLock(b, "waiter", nfs4.LockWriteW, 5, 10), &held))
	p.want(nfs4.ErrDenied, putFH(a.fh), lockOp(newLock(a, "p", nfs4.LockReadW, 4, nfs4.LengthToEnd), &r))
	q.must(putFH(b.fh), closeOp(b.id))
	p.awaitNotify(a, "p")

	// Two wait: who came first is told first, the other when the lock stays free.
	s := silent.open(dir, "f", 3)
	silent.must(putFH(s.fh), lockOp(newLock(s, "dies", nfs4.LockWrite, 20, 1), &held))
	b = q.open(dir, "f", 3)
	q.want(nfs4.ErrDenied, putFH(b.fh), lockOp(newLock(b, "first", nfs4.LockWriteW, 20, 1), &r))
	p.want(nfs4.ErrDenied, putFH(a.fh), lockOp(newLock(a, "second", nfs4.LockWriteW, 20, 1), &r))
	q.awaitNotify(b, "first") // the holder's lease ran out
	p.awaitNotify(a, "second")
	p.must(putFH(a.fh), lockOp(newLock(a, "second", nfs4.LockWriteW, 20, 1), &held))
}

// TestRecallAny: who has most of all delegations is asked for those that it makes
// no use of, before there are none for others (RFC 8881 section 20.6).
func TestRecallAny(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(c *mdsConfig) { c.MaxDelegations, c.ClientShare = 8, 100 })
	p, q := c.newPeer(t, "many"), c.newPeer(t, "few")
	dir := p.dir()
	q.delegated(dir, "q", nfs4.DelegateRead)
	for i := range 6 {
		p.delegated(dir, entryName(i), nfs4.DelegateRead)
	}
	select {
	case a := <-p.deleg.any:
		if a.ObjectsToKeep != 3 || a.TypeMask != nfs4.BitmapOf(nfs4.RecallAnyReadDeleg, nfs4.RecallAnyWriteDeleg) {
			t.Errorf("%+v", a)
		}
	case <-time.After(patience):
		t.Fatal("no CB_RECALL_ANY")
	}
	if len(q.deleg.any) != 0 {
		t.Error("who has few is asked as well")
	}
}
