package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"manifold/mds/admin"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// idOf is how an administrator names a peer.
func idOf(p *peer) string { return fmt.Sprintf("%016x", uint64(p.nfs.ClientID())) }

// bulkReturnOp is LAYOUTRETURN of more than one file.
func bulkReturnOp(kind uint32, m nfs4.IOMode) client.Op {
	return client.Op{Num: nfs4.OpLayoutReturn, Args: &nfs4.LayoutReturnArgs{
		LayoutType: nfs4.LayoutFiles, IOMode: m, Return: nfs4.LayoutReturn{Kind: kind},
	}, Res: &nfs4.LayoutReturnRes{}}
}

// rangeReturnOp is LAYOUTRETURN of a part of a file.
func rangeReturnOp(id nfs4.Stateid, m nfs4.IOMode, off, n uint64, r *nfs4.LayoutReturnRes) client.Op {
	op := layoutReturnOp(id, m, r)
	f := &op.Args.(*nfs4.LayoutReturnArgs).Return.File
	f.Offset, f.Length = off, n
	return op
}

// bulkKinds are the two scopes, and what the client sees of them.
var bulkKinds = map[string]uint32{admin.ScopeFSID: nfs4.LayoutReturnFSID, admin.ScopeAll: nfs4.LayoutReturnAll}

// TestBulkRecall: everything is taken back from one client in one call, however
// it answers, and meanwhile it gets no layout. Another client is left alone.
func TestBulkRecall(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"no matching layout", "delay first", "bulk return", "returns one by one", "returns in parts", "bulk return before the answer"} {
		for scope, kind := range bulkKinds {
			t.Run(how+", "+scope, func(t *testing.T) {
				t.Parallel()
				bulkRecall(t, how, scope, kind)
			})
		}
	}
}

func bulkRecall(t *testing.T, how, scope string, kind uint32) {
	c := shared(t)
	p, q := c.newPeer(t, "holder"), c.newPeer(t, "other")
	dir := p.dir()
	var plans []*plan
	for i := range 3 {
		plans = append(plans, p.create(dir, entryName(i)).layout(nfs4.IOModeRW))
	}
	plans[0].write(0, pattern(1, 100_000))
	idle := p.create(dir, "idle")
	theirs := q.open(dir, entryName(0), nfs4.ShareAccessBoth).layout(nfs4.IOModeRW)
	asked, release := 0, make(chan struct{})
	p.recalled(func(a *nfs4.CBLayoutRecallArgs) nfs4.Status {
		if asked++; asked == 1 {
			<-release
		}
		switch {
		case how == "delay first" && asked == 1:
			return nfs4.ErrDelay
		case how == "no matching layout" || how == "delay first":
			return nfs4.ErrNoMatchingLayout
		}
		return nfs4.OK
	})
	type answer struct {
		n   uint64
		err error
	}
	done := make(chan answer, 1)
	go func() {
		n, err := c.mds.RecallLayouts(t.Context(), admin.Recall{Scope: scope, Client: idOf(p)})
		done <- answer{n, err}
	}()
	get := func(o *open, id nfs4.Stateid) nfs4.Status {
		return p.try(putFH(o.fh), layoutGetOp(layoutGetArgs(id, nfs4.IOModeRW), &nfs4.LayoutGetRes{}))
	}
	eventually(t, "refusal of another layout", func() error {
		if s := get(plans[0].o, plans[0].get.Stateid); s != nfs4.ErrRecallConflict {
			return s
		}
		return nil
	})
	if s := get(idle, idle.id); s != nfs4.ErrRecallConflict {
		t.Errorf("layout of a file that has none: %v", s)
	}
	plans[0].commit(100_000)
	bulkAnswer(p, how, kind, plans, release)
	got := <-done
	if got.err != nil || got.n != 3 {
		t.Errorf("recalled %d layouts, %v", got.n, got.err)
	}
	a := p.awaitRecall()
	if a.Type != nfs4.LayoutFiles || a.IOMode != nfs4.IOModeAny || a.Changed || a.Recall.Kind != kind ||
		kind == nfs4.LayoutReturnFSID && a.Recall.FSID != p.stat(dir, nfs4.AttrFSID).FSID {
		t.Errorf("recall %+v", a)
	}
	if err := layoutsOf(c, p); err != nil {
		t.Error(err)
	}
	p.want(nfs4.ErrBadStateID, putFH(plans[0].o.fh), layoutGetOp(layoutGetArgs(plans[0].get.Stateid, nfs4.IOModeRW), &nfs4.LayoutGetRes{}))
	plans[0].o.layout(nfs4.IOModeRW)
	if n := len(q.recalls); n != 0 {
		t.Errorf("%d recalls from another client", n)
	}
	theirs.write(0, pattern(2, 10))
}

// bulkAnswer is what a client does with a recall that it answers when release is
// closed.
func bulkAnswer(p *peer, how string, kind uint32, plans []*plan, release chan struct{}) {
	p.t.Helper()
	one := func(pl *plan) {
		p.must(putFH(pl.o.fh), layoutReturnOp(pl.get.Stateid, nfs4.IOModeAny, &nfs4.LayoutReturnRes{}))
	}
	switch how {
	case "bulk return before the answer":
		p.must(putFH(plans[0].o.fh), bulkReturnOp(kind, nfs4.IOModeAny))
		close(release)
	case "bulk return":
		close(release)
		one(plans[1]) // on its way already
		p.must(putFH(plans[0].o.fh), bulkReturnOp(kind, nfs4.IOModeRead))
		p.must(putFH(plans[0].o.fh), bulkReturnOp(kind, nfs4.IOModeAny))
	case "returns one by one":
		one(plans[0])
		close(release)
		one(plans[1])
		one(plans[2])
	case "returns in parts":
		close(release)
		for _, pl := range plans {
			var r nfs4.LayoutReturnRes
			p.must(putFH(pl.o.fh), rangeReturnOp(pl.get.Stateid, nfs4.IOModeRW, 0, 4096, &r))
			if !r.Present {
				p.t.Error("all returned with a part")
			}
			if p.must(putFH(pl.o.fh), rangeReturnOp(r.Stateid, nfs4.IOModeRW, 4096, nfs4.LengthToEnd, &r)); r.Present {
				p.t.Error("something left after all was returned")
			}
		}
	default:
		close(release)
	}
}

// TestBulkRecallNeverAnswered: what a client does not return in time is fenced,
// all of it, and it gets new layouts then.
func TestBulkRecallNeverAnswered(t *testing.T) {
	t.Parallel()
	for _, how := range []nfs4.Status{nfs4.OK, nfs4.ErrDelay} {
		t.Run(how.String(), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 2)
			p := c.newPeer(t, "holder")
			dir := p.dir()
			var plans []*plan
			for i := range 20 {
				pl := p.create(dir, entryName(i)).layout(nfs4.IOModeRW)
				pl.write(0, pattern(byte(i), 1000))
				plans = append(plans, pl)
			}
			p.recalled(func(*nfs4.CBLayoutRecallArgs) nfs4.Status { return how })
			begin := time.Now()
			n, err := c.mds.RecallLayouts(t.Context(), admin.Recall{Scope: admin.ScopeAll})
			if n != 20 || err != nil {
				t.Errorf("recalled %d layouts, %v", n, err)
			}
			if d := time.Since(begin); d < lease-time.Second {
				t.Errorf("revoked after %v, the lease is %v", d, lease)
			}
			p.recalled(nil)
			for i, pl := range plans {
				// The fence is durable, and on its way to the data servers.
				eventually(t, "fence at the data servers", func() error {
					if err := pl.tryWrite(5000, []byte("late"), nfs4.Unstable); !refused(err) {
						return fmt.Errorf("write with revoked layout %d: %w", i, err)
					}
					return nil
				})
				p.want(nfs4.ErrAdminRevoked, putFH(pl.o.fh), layoutCommitOp(pl.get.Stateid, 100, &nfs4.LayoutCommitRes{}))
				fresh := pl.o.layout(nfs4.IOModeRW)
				sameBytes(t, "what was written before", fresh.readAll(0, 1000, 1000), pattern(byte(i), 1000))
			}
		})
	}
}

// TestBulkRecallWaits: no call for everything goes out while a single layout is
// being recalled.
func TestBulkRecallWaits(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "holder"), c.newPeer(t, "cutter")
	dir := p.dir()
	one, two := p.create(dir, "one"), p.create(dir, "two")
	pl := one.layout(nfs4.IOModeRW)
	two.layout(nfs4.IOModeRW)
	p.recalled(func(a *nfs4.CBLayoutRecallArgs) nfs4.Status {
		if a.Recall.Kind == nfs4.LayoutReturnFile {
			return nfs4.OK
		}
		return nfs4.ErrNoMatchingLayout
	})
	q.want(nfs4.ErrDelay, putFH(one.fh), resize(nfs4.StateidAnonymous(), 0))
	if a := p.awaitRecall(); a.Recall.Kind != nfs4.LayoutReturnFile {
		t.Fatalf("recall %+v", a)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.mds.RecallLayouts(t.Context(), admin.Recall{Scope: admin.ScopeFSID, Client: idOf(p)})
		done <- err
	}()
	eventually(t, "refusal of another layout", func() error {
		if s := p.try(putFH(two.fh), layoutGetOp(layoutGetArgs(two.id, nfs4.IOModeRW), &nfs4.LayoutGetRes{})); s != nfs4.ErrRecallConflict {
			return s
		}
		return nil
	})
	if n := len(p.recalls); n != 0 {
		t.Errorf("%d recalls more", n)
	}
	id := pl.get.Stateid
	id.Seqid++ // the recall's
	p.must(putFH(one.fh), layoutReturnOp(id, nfs4.IOModeAny, &nfs4.LayoutReturnRes{}))
	if a := p.awaitRecall(); a.Recall.Kind != nfs4.LayoutReturnFSID {
		t.Errorf("recall %+v", a)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	q.must(putFH(one.fh), resize(nfs4.StateidAnonymous(), 0))
}

// TestRecallOfFile: an administrator takes back one file's layouts.
func TestRecallOfFile(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	p, q := c.newPeer(t, "a"), c.newPeer(t, "b")
	var root nfs4.GetFHRes
	p.must(putRoot(), getFH(&root))
	o := p.create(root.Object, "f")
	o.layout(nfs4.IOModeRW)
	p.create(root.Object, "g").layout(nfs4.IOModeRW)
	q.open(root.Object, "f", nfs4.ShareAccessRead).layout(nfs4.IOModeRead)
	recall := func(r admin.Recall) uint64 {
		t.Helper()
		n, err := c.mds.RecallLayouts(t.Context(), r)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	if n := recall(admin.Recall{Path: "/f", Client: idOf(q)}); n != 1 || len(q.recalls) != 1 || len(p.recalls) != 0 {
		t.Errorf("%d layouts of one client, %d and %d recalls", n, len(q.recalls), len(p.recalls))
	}
	if n := recall(admin.Recall{Path: "/f"}); n != 1 || len(p.recalls) != 1 {
		t.Errorf("%d layouts, %d recalls", n, len(p.recalls))
	}
	if n := recall(admin.Recall{Path: "/f"}); n != 0 {
		t.Errorf("%d layouts again", n)
	}
	o.layout(nfs4.IOModeRW)
	for _, x := range []struct {
		r    admin.Recall
		want error
	}{
		{admin.Recall{Path: "/nowhere"}, admin.ErrNotFound}, {admin.Recall{Path: "/"}, admin.ErrInvalid}, {admin.Recall{}, admin.ErrInvalid},
		{admin.Recall{Scope: "some"}, admin.ErrInvalid}, {admin.Recall{Path: "/f", Scope: admin.ScopeAll}, admin.ErrInvalid},
		{admin.Recall{Scope: admin.ScopeAll, Client: "77"}, admin.ErrNotFound}, {admin.Recall{Scope: admin.ScopeAll, Client: "x"}, admin.ErrInvalid},
	} {
		if _, err := c.mds.RecallLayouts(t.Context(), x.r); !errors.Is(err, x.want) {
			t.Errorf("%+v: %v, want %v", x.r, err, x.want)
		}
	}
}

// TestMovedWithMany: a data server gets another address. A client that has many
// layouts on it is asked for everything at once, one that has few for each; both
// hear that the layouts change, and who asked for it that the device is gone.
func TestMovedWithMany(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	many, few, deaf := c.newPeer(t, "many"), c.newPeer(t, "few"), c.newPeer(t, "deaf")
	dir := many.dir()
	var first *plan
	for i := range 120 {
		pl := &plan{o: many.create(dir, entryName(i))}
		pl.o.p.must(putFH(pl.o.fh), layoutGetOp(layoutGetArgs(pl.o.id, nfs4.IOModeRW), &pl.get))
		if i == 0 {
			pl.read() // asks for the device
			first = pl
		}
	}
	few.open(dir, entryName(0), nfs4.ShareAccessBoth).layout(nfs4.IOModeRead)
	busy := few.open(dir, entryName(1), nfs4.ShareAccessBoth)
	busy.layout(nfs4.IOModeRead)
	var wg sync.WaitGroup
	few.recalled(func(a *nfs4.CBLayoutRecallArgs) nfs4.Status {
		if bytes.Equal(a.Recall.FH, busy.fh) {
			// It needs another at once, and that is not taken from it again.
			wg.Go(func() { busy.layout(nfs4.IOModeRead) })
		}
		return nfs4.ErrNoMatchingLayout
	})
	quiet := deviceInfoOp(first.body.Device, 1<<16, &nfs4.GetDeviceInfoRes{})
	deaf.must(quiet)
	quiet.Args.(*nfs4.GetDeviceInfoArgs).NotifyTypes = nfs4.BitmapOf(nfs4.NotifyDeviceIDChange)
	deaf.must(quiet)                           // what was asked for last counts
	mute := newReplayRig(t, c, few, "mute", 0) // without a back channel
	mute.do(reclaimComplete())
	mute.do(deviceInfoOp(first.body.Device, 1<<16, &nfs4.GetDeviceInfoRes{}))
	n := c.ds[1]
	n.stop()
	n.listen = "127.0.0.1:0"
	n.start()
	eventually(t, "word of the device in a SEQUENCE", func() error {
		if f := mute.flags(); f&nfs4.SeqStatusDevIDDeleted == 0 {
			return fmt.Errorf("flags %#x", f)
		}
		return nil
	})
	if f := mute.flags(); f&nfs4.SeqStatusDevIDDeleted != 0 {
		t.Errorf("flags %#x once it was heard", f)
	}
	for _, p := range []*peer{many, few} {
		select {
		case id := <-p.gone:
			if id != first.body.Device {
				t.Errorf("%s: device %x is gone, not %x", p.owner, id, first.body.Device)
			}
		case <-time.After(patience):
			t.Fatalf("%s was not told of the device", p.owner)
		}
	}
	wg.Wait()
	if a := many.awaitRecall(); a.Recall.Kind != nfs4.LayoutReturnFSID || !a.Changed || len(many.recalls) != 0 {
		t.Errorf("recall %+v, and %d more", a, len(many.recalls))
	}
	for range 2 {
		if a := few.awaitRecall(); a.Recall.Kind != nfs4.LayoutReturnFile || !a.Changed {
			t.Errorf("recall %+v", a)
		}
	}
	if len(few.recalls)+len(deaf.gone)+len(many.gone) != 0 {
		t.Errorf("%d recalls, %d and %d notifications too many", len(few.recalls), len(deaf.gone), len(many.gone))
	}
	deaf.want(nfs4.ErrNoEnt, deviceInfoOp(first.body.Device, 1<<16, &nfs4.GetDeviceInfoRes{}))
	again := first.o.layout(nfs4.IOModeRW)
	again.write(0, pattern(1, 200_000))
}
