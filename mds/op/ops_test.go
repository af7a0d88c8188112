package op

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/mds/ns"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/mds/store/storetest"
	"manifold/xdr"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// TestStoreFails: what did not become durable was not answered as done, and is
// not there after a restart.
func TestStoreFails(t *testing.T) {
	for want, err := range map[nfs4.Status]error{nfs4.ErrNoSpc: store.ErrNoSpace, nfs4.ErrIO: errors.New("disk on fire")} {
		t.Run(want.String(), func(t *testing.T) {
			var failing atomic.Bool
			mem := &storetest.Mem{}
			mem.Fail = func([]store.Write) error {
				if failing.Load() {
					return err
				}
				return nil
			}
			r := newRig(t, mem)
			p := r.mount("a")
			fh, id := p.create("f")
			p.want(nfs4.OK, putFH(fh), layoutGet(id))
			failing.Store(true)
			p.want(want, putRoot(), mkdir("d"))
			p.want(want, putRoot(), remove("f"))
			p.want(want, putFH(fh), truncate(0))
			p.want(nfs4.OK, putRoot(), lookup("f"))
			// A client that cannot be put on record gets no session.
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := client.Dial(ctx, r.addr, client.Config{Owner: []byte("late"), Cred: root})
			if !errors.Is(err, nfs4.ErrServerFault) {
				t.Errorf("session of a client that is not on record: %v", err)
			}
			if n := r.sender.count(control.Truncate) + r.sender.count(control.Remove); n != 0 {
				t.Errorf("%d commands for what did not happen", n)
			}
			failing.Store(false)
			again := newRig(t, mem)
			q := again.mount("a")
			q.want(nfs4.OK, putRoot(), lookup("f"))
			q.want(nfs4.ErrNoEnt, putRoot(), lookup("d"))
		})
	}
}

// TestTruncateWaits: SETATTR of the size is answered when every data server has
// acknowledged, and no command is written twice for one cut.
func TestTruncateWaits(t *testing.T) {
	r := newRig(t, &storetest.Mem{})
	p := r.mount("a")
	fh, id := p.create("f")
	p.want(nfs4.OK, putFH(fh), layoutGet(id))
	release := r.sender.hold()
	for range 3 {
		p.want(nfs4.ErrDelay, putFH(fh), truncate(0))
	}
	p.want(nfs4.ErrDelay, putFH(fh), layoutGet(id))
	release()
	r.eventually("truncation", func() bool { return p.try(putFH(fh), truncate(0)) == nfs4.OK })
	if n := r.sender.count(control.Truncate); n < servers || n > 2*servers {
		t.Errorf("%d truncations for one cut at %d data servers", n, servers)
	}
	p.want(nfs4.OK, putFH(fh), layoutGet(id))
}

// TestRemoveTells: the last close of a removed file is when its objects go.
func TestRemoveTells(t *testing.T) {
	r := newRig(t, &storetest.Mem{})
	p := r.mount("a")
	fh, id := p.create("f")
	p.want(nfs4.OK, putFH(fh), layoutGet(id))
	p.want(nfs4.OK, putRoot(), remove("f"))
	if n := r.sender.count(control.Remove); n != 0 {
		t.Errorf("%d removals while the file is open", n)
	}
	p.want(nfs4.OK, putFH(fh), closeOp(id))
	r.eventually("removal at all data servers", func() bool { return r.sender.count(control.Remove) == servers })
	p.want(nfs4.ErrStale, putFH(fh), truncate(0))
}

// TestEvictWaits: what a dead client had is in the way until every data server
// has acknowledged that it is fenced.
func TestEvictWaits(t *testing.T) {
	r := newRig(t, &storetest.Mem{})
	p, q := r.mount("dies"), r.mount("lives")
	fh, id := p.create("f")
	p.want(nfs4.OK, putFH(fh), layoutGet(id))
	lock := func(who *peer, open nfs4.Stateid) nfs4.Status {
		return who.try(putFH(fh), client.Op{Num: nfs4.OpLock, Args: &nfs4.LockArgs{
			LockType: nfs4.LockWrite, Length: nfs4.LengthToEnd,
			Locker: nfs4.Locker{NewLockOwner: true, OpenStateid: open, Owner: nfs4.LockOwner{Owner: []byte("l")}},
		}, Res: &nfs4.LockRes{}})
	}
	if s := lock(p, id); s != nfs4.OK {
		t.Fatal(s)
	}
	var or nfs4.OpenRes
	q.want(nfs4.OK, putRoot(), client.Op{Num: nfs4.OpOpen, Args: &nfs4.OpenArgs{
		ShareAccess: nfs4.ShareAccessBoth, Owner: nfs4.OpenOwner{Owner: []byte("o")}, Claim: nfs4.OpenClaim{Name: []byte("f")},
	}, Res: &or})
	r.ops.mu.Lock()
	obj := r.ops.State.Layouts(r.file(fh).Inode, 0)
	r.ops.mu.Unlock()
	if len(obj) != 1 {
		t.Fatalf("layouts %v", obj)
	}
	r.sender.mu.Lock()
	r.sender.sizes[layout.Object(r.file(fh))] = 777
	r.sender.mu.Unlock()
	release := r.sender.hold()
	if !r.srv.Evict(t.Context(), p.ClientID(), "") {
		t.Fatal("not evicted")
	}
	if s := lock(q, or.Stateid); s != nfs4.ErrDenied && s != nfs4.ErrDelay {
		t.Errorf("lock before the fence is acknowledged: %v", s)
	}
	release()
	r.eventually("lock after the fence", func() bool { return lock(q, or.Stateid) == nfs4.OK })
	if n := r.sender.count(control.FenceClient); n != servers {
		t.Errorf("%d fences at %d data servers", n, servers)
	}
	// The size that nobody committed is what the data servers say.
	var a nfs4.GetattrRes
	r.eventually("size", func() bool {
		return q.try(putFH(fh), client.Op{Num: nfs4.OpGetattr, Args: &nfs4.GetattrArgs{AttrRequest: nfs4.BitmapOf(nfs4.AttrSize)}, Res: &a}) == nfs4.OK
	})
	if a.ObjAttributes.Size != 777 {
		t.Errorf("size %d, want 777", a.ObjAttributes.Size)
	}
}

// file opens a filehandle.
func (r *rig) file(fh nfs4.FH) layout.Handle {
	r.t.Helper()
	h, s := r.ops.Keys().OpenMDS(fh)
	if s != nfs4.OK {
		r.t.Fatal(s)
	}
	return h
}

// marked returns the files that the store has marked.
func (r *rig) marked() (inos []uint64) {
	r.t.Helper()
	must(r.t, r.ops.Store.View(r.t.Context(), func(tx store.Tx) error {
		inos = nil
		return r.ops.Volume.ScanOpenRW(tx, 0, func(h layout.Handle) (bool, error) {
			inos = append(inos, h.Inode)
			return true, nil
		})
	}))
	return inos
}

// TestMarks: a file is marked as long as it may grow unseen, and no longer.
func TestMarks(t *testing.T) {
	r := newRig(t, &storetest.Mem{})
	p := r.mount("a")
	fh, id := p.create("f")
	ino := r.file(fh).Inode
	check := func(what string, want bool) {
		t.Helper()
		r.ops.sweepMarks(t.Context())
		if got := len(r.marked()) == 1; got != want || r.ops.marks.has(ino) != want {
			t.Errorf("%s: marked %v, want %v", what, got, want)
		}
	}
	check("open for writing", true)
	p.want(nfs4.OK, putFH(fh), closeOp(id))
	r.ops.unsure.add(ino)
	check("the size is still to be learned", true)
	r.ops.unsure.drop(ino)
	unlock, ok := r.ops.files.tryLock(ino)
	if !ok {
		t.Fatal("not locked")
	}
	check("somebody decides about it", true)
	unlock()
	check("nobody can write", false)
}

// TestMarksOutliveGrace: layouts from before the restart may be in use until
// grace is over, though nobody here knows of them.
func TestMarksOutliveGrace(t *testing.T) {
	mem := &storetest.Mem{}
	r := newRig(t, mem)
	p := r.mount("a")
	fh, _ := p.create("f")
	ino := r.file(fh).Inode
	again := newRig(t, mem)
	must(t, again.ops.LearnSizes(t.Context()))
	again.ops.unsure.drop(ino) // as if it were learned
	again.ops.sweepMarks(t.Context())
	if len(again.marked()) != 1 {
		t.Error("the mark goes while the client may reclaim")
	}
	again.mount("a") // which has nothing to reclaim
	again.eventually("end of the mark", func() bool {
		again.ops.sweepMarks(t.Context())
		return len(again.marked()) == 0
	})
	again.eventually("fence of the old client id", func() bool { return again.sender.count(control.FenceClient) == servers })
}

// TestRecords: a client is on record once it has a session, and its old records
// go when it has reclaimed.
func TestRecords(t *testing.T) {
	mem := &storetest.Mem{}
	ids := func(r *rig) (list []nfs4.ClientID) {
		t.Helper()
		must(t, r.ops.Store.View(t.Context(), func(tx store.Tx) error {
			list = nil
			return r.ops.Cluster.ScanClients(tx, func(c ns.ClientRecord) (bool, error) {
				list = append(list, c.ID)
				return true, nil
			})
		}))
		return list
	}
	r := newRig(t, mem)
	p := r.mount("a")
	if got := ids(r); len(got) != 1 || got[0] != p.ClientID() {
		t.Errorf("on record %x, want %x", got, p.ClientID())
	}
	again := newRig(t, mem)
	if u := again.ops.Usage(); !u.Grace {
		t.Error("no grace after a restart with a client on record")
	}
	q := again.mount("a") // RECLAIM_COMPLETE at once
	if got := ids(again); len(got) != 1 || got[0] != q.ClientID() || got[0] == p.ClientID() {
		t.Errorf("on record %x, want %x", got, q.ClientID())
	}
	if u := again.ops.Usage(); u.Grace {
		t.Error("grace goes on after all have reclaimed")
	}
	must(t, q.Close(t.Context()))
	again.eventually("end of the record", func() bool { return len(ids(again)) == 0 })
}

// TestLostAreOffTheRecord: nothing new is granted before those who did not come
// back in time are off the record: after one more restart they could reclaim what
// conflicts with it.
func TestLostAreOffTheRecord(t *testing.T) {
	var failing atomic.Bool
	mem := &storetest.Mem{}
	mem.Fail = func([]store.Write) error {
		if failing.Load() {
			return errors.New("disk on fire")
		}
		return nil
	}
	newRig(t, mem).mount("lost").create("f")
	r := newRig(t, mem)
	p := r.mount("other")
	open := []client.Op{putRoot(), {Num: nfs4.OpOpen, Args: &nfs4.OpenArgs{
		ShareAccess: nfs4.ShareAccessBoth, Owner: nfs4.OpenOwner{Owner: []byte("o")}, Claim: nfs4.OpenClaim{Name: []byte("f")},
	}, Res: &nfs4.OpenRes{}}}
	p.want(nfs4.ErrGrace, open...)
	failing.Store(true)
	r.ops.mu.Lock()
	_, _, waiting := r.ops.State.Grace(r.ops.Now())
	for _, name := range waiting { // as if their time were up
		r.ops.State.Unrecord(name)
	}
	r.ops.wake()
	r.ops.mu.Unlock()
	p.want(nfs4.ErrDelay, open...)
	failing.Store(false)
	r.eventually("open", func() bool { return p.try(open...) == nfs4.OK })
}

// TestNoDelegationBesideLost: while a client that was lost in a restart may still
// write to a file by its layout nobody gets a delegation of it.
func TestNoDelegationBesideLost(t *testing.T) {
	mem := &storetest.Mem{}
	lost := newRig(t, mem).mount("lost")
	fh, id := lost.create("f")
	lost.want(nfs4.OK, putFH(fh), layoutGet(id))
	r := newRig(t, mem)
	release := r.sender.hold()
	c, err := client.Dial(t.Context(), r.addr, client.Config{Owner: []byte("other"), Cred: root, Minor: 2,
		Callback: func(context.Context, nfs4.CBOpNum, *xdr.Decoder, *xdr.Encoder) nfs4.Status { return nfs4.OK }})
	must(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	p := &peer{t, c}
	r.ops.mu.Lock()
	_, _, waiting := r.ops.State.Grace(r.ops.Now())
	for _, name := range waiting {
		r.ops.State.Unrecord(name)
	}
	r.ops.wake()
	r.ops.mu.Unlock()
	open := func() (nfs4.Status, nfs4.DelegationType) {
		var res nfs4.OpenRes
		args := &nfs4.OpenArgs{ShareAccess: nfs4.ShareAccessRead | nfs4.WantReadDeleg, Owner: nfs4.OpenOwner{Owner: []byte("o")}, Claim: nfs4.OpenClaim{Name: []byte("f")}}
		return p.try(putRoot(), client.Op{Num: nfs4.OpOpen, Args: args, Res: &res}), res.Delegation.Type
	}
	r.eventually("end of grace", func() bool { s, _ := open(); return s != nfs4.ErrGrace })
	if s, typ := open(); s != nfs4.ErrDelay {
		t.Errorf("%v, delegation of type %v", s, typ)
	}
	release()
	r.eventually("delegation", func() bool {
		s, typ := open()
		return s == nfs4.OK && typ == nfs4.DelegateRead
	})
}

// TestBarred: a client that has a revoked delegation not yet freed is not on
// record, though it was not done reclaiming when that was revoked.
func TestBarred(t *testing.T) {
	r := newRig(t, &storetest.Mem{})
	id := r.mount("a").ClientID()
	complete := func(set func(*ns.ClientRecord)) (is bool) {
		t.Helper()
		must(t, r.ops.Store.Update(t.Context(), func(tx store.Tx) error {
			c, err := r.ops.Cluster.Client(tx, id)
			if set(&c); err == nil {
				err = r.ops.Cluster.PutClient(tx, c)
			}
			is = c.Complete
			return err
		}))
		return is
	}
	look := func(*ns.ClientRecord) {}
	if !complete(look) {
		t.Fatal("not on record")
	}
	complete(func(c *ns.ClientRecord) { c.Complete = false })
	if s := r.ops.bar(t.Context(), id); s != nfs4.OK {
		t.Fatal(s)
	}
	must(t, r.ops.reclaimComplete(t.Context(), id))
	if complete(look) {
		t.Error("on record after RECLAIM_COMPLETE")
	}
	r.ops.unbar(t.Context(), id) // it has nothing left to free
	if !complete(look) {
		t.Error("not on record when all is freed")
	}
	if len(r.ops.barred) != 0 {
		t.Error("barred still")
	}
}

func TestFileLocks(t *testing.T) {
	var l fileLocks
	unlock, err := l.lock(t.Context(), 7)
	must(t, err)
	if _, ok := l.tryLock(7); ok {
		t.Error("locked twice")
	}
	other, ok := l.tryLock(8)
	if !ok {
		t.Error("another file is locked as well")
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.lock(ctx, 7); !errors.Is(err, context.Canceled) {
		t.Errorf("wait with a context that ended: %v", err)
	}
	got := make(chan func())
	go func() {
		u, err := l.lock(context.Background(), 7)
		if err != nil {
			t.Error(err)
		}
		got <- u
	}()
	select {
	case <-got:
		t.Fatal("locked twice")
	case <-time.After(20 * time.Millisecond):
	}
	unlock()
	(<-got)()
	if len(l.m) != 0 {
		t.Errorf("%d locks are left", len(l.m))
	}
}

// TestRecallNext: a recall that begins while the goroutine for the one before
// still ends is not lost.
func TestRecallNext(t *testing.T) {
	r := newRig(t, &storetest.Mem{})
	p := r.mount("a")
	fh, id := p.create("f")
	p.want(nfs4.OK, putFH(fh), layoutGet(id))
	key := recallKey{p.ClientID(), r.file(fh).Inode, false}
	r.ops.mu.Lock()
	r.ops.recalls[key] = true // a goroutine that is about to end
	r.ops.mu.Unlock()
	v, s := r.ops.onFile(t.Context(), key.file, state.RecallReq{File: key.file})
	if s != nfs4.OK || len(v.Effects.Recall) != 1 {
		t.Fatalf("%v, %v", s, v.Effects)
	}
	// Its recall found the goroutine busy.
	g, more := r.ops.recallNext(t.Context(), key)
	if !more || g.stateid != v.Effects.Recall[0].Stateid {
		t.Errorf("recall %v, %v; want %v", g.stateid, more, v.Effects.Recall[0].Stateid)
	}
	r.ops.mu.Lock()
	act, _ := r.ops.State.Apply(r.ops.State.Decide(time.Now(), state.RecallDoneReq{
		File: key.file, Client: key.client, Stateid: g.stateid, Answer: nfs4.ErrNoMatchingLayout,
	}).Change)
	r.ops.mu.Unlock()
	_ = act
	if _, more := r.ops.recallNext(t.Context(), key); more || r.ops.recalls[key] {
		t.Error("a recall that is over goes on")
	}
}

func TestSupportedAttrs(t *testing.T) {
	for minor := range uint32(3) {
		sup := supported(minor)
		if extra := ofExclusive(minor).Without(sup); !extra.IsZero() {
			t.Errorf("4.%d: suppattr_exclcreat has what is not supported: %v", minor, extra)
		}
		if extra := ofInode().Without(ns.FillMask()); !extra.IsZero() {
			t.Errorf("attributes that nobody fills: %v", extra)
		}
		if extra := sup.Without(nfs4.KnownAttrs()); !extra.IsZero() {
			t.Errorf("attributes that cannot be encoded: %v", extra)
		}
	}
}

// TestTable: every operation says what its number is called, and those that
// modify have a bound on their reply.
func TestTable(t *testing.T) {
	for num, row := range newRig(t, &storetest.Mem{}).ops.Table() {
		if row.Name != strings.TrimPrefix(num.String(), "OP_") || row.Run == nil || row.Minors == 0 {
			t.Errorf("%v: %+v", num, row)
		}
	}
}

func TestCuts(t *testing.T) {
	var c cuts
	met, free := c.watch(7)
	if !free || met() {
		t.Error("a truncation before the first")
	}
	end := c.begin(7)
	if _, free := c.watch(7); free || !met() {
		t.Error("a truncation goes unseen")
	}
	if _, free := c.watch(8); !free {
		t.Error("a truncation of another file is in the way")
	}
	end()
	if again, free := c.watch(7); !free || again() || !met() {
		t.Error("after the truncation")
	}
}

// TestOvertaken: a recall names the requests that gave the layouts, as long as
// their replies may be on their way, and not too many.
func TestOvertaken(t *testing.T) {
	r := newRig(t, &storetest.Mem{})
	p := r.mount("a")
	fh, id := p.create("f")
	p.want(nfs4.OK, putFH(fh), layoutGet(id))
	r.ops.mu.Lock()
	g := r.ops.State.Layouts(r.file(fh).Inode, 0)[0]
	r.ops.mu.Unlock()
	if g.Session == (nfs4.SessionID{}) || g.Call.SequenceID == 0 {
		t.Fatalf("given by %x, %+v", g.Session, g.Call)
	}
	now := g.Given.Add(underWay - 1)
	got := overtaken(now, []state.Grant{g, g})
	if len(got) != 1 || got[0].SessionID != g.Session || len(got[0].Calls) != 1 || got[0].Calls[0] != g.Call {
		t.Errorf("%+v", got)
	}
	if got := overtaken(now.Add(1), []state.Grant{g}); len(got) != 0 {
		t.Errorf("%+v after a while", got)
	}
	many := make([]state.Grant, 100)
	for i := range many {
		many[i] = g
		many[i].Given, many[i].Call.SequenceID = g.Given.Add(-time.Duration(i)*time.Millisecond), uint32(i+1)
		many[i].Session[0] = byte(i % 2)
	}
	got = overtaken(g.Given, many)
	if n := len(got[0].Calls) + len(got[1].Calls); len(got) != 2 || n != maxOvertaken || got[0].Calls[0].SequenceID != 1 {
		t.Errorf("%d sessions, %d calls, first %+v", len(got), n, got[0].Calls[0])
	}
}
