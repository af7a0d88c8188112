package wire_test

import (
	"testing"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// TestReturnOfParts: a layout may come back in parts, of either iomode; when the
// last byte is back the stateid is no good any more, and nobody is asked for it.
func TestReturnOfParts(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "a"), c.newPeer(t, "b")
	o := p.create(p.dir(), "f")
	pl := o.layout(nfs4.IOModeRW)
	id := pl.get.Stateid
	ret := func(m nfs4.IOMode, off, n uint64) (present bool) {
		t.Helper()
		var r nfs4.LayoutReturnRes
		p.must(putFH(o.fh), rangeReturnOp(id, m, off, n, &r))
		if r.Present && (r.Stateid.Other != id.Other || r.Stateid.Seqid != id.Seqid+1) {
			t.Errorf("stateid %v follows %v", r.Stateid, id)
		}
		id = r.Stateid
		return r.Present
	}
	for _, part := range []struct {
		m      nfs4.IOMode
		off, n uint64
	}{{nfs4.IOModeRead, 0, nfs4.LengthToEnd}, {nfs4.IOModeRW, 4096, 4096}, {nfs4.IOModeRW, 4096, 4096}, {nfs4.IOModeAny, 0, 4096}} {
		if !ret(part.m, part.off, part.n) {
			t.Fatalf("nothing left after %+v", part)
		}
	}
	p.want(nfs4.ErrInval, putFH(o.fh), rangeReturnOp(id, nfs4.IOModeAny, 10, 0, &nfs4.LayoutReturnRes{}))
	p.want(nfs4.ErrInval, putFH(o.fh), rangeReturnOp(id, nfs4.IOModeAny, 10, nfs4.LengthToEnd-5, &nfs4.LayoutReturnRes{}))
	if ret(nfs4.IOModeRW, 8192, nfs4.LengthToEnd) {
		t.Error("something left after all was returned")
	}
	p.want(nfs4.ErrBadStateID, putFH(o.fh), layoutGetOp(layoutGetArgs(pl.get.Stateid, nfs4.IOModeRW), &nfs4.LayoutGetRes{}))
	q.must(putFH(o.fh), resize(nfs4.StateidAnonymous(), 100))
	if n := len(p.recalls); n != 0 {
		t.Errorf("%d recalls of what was returned", n)
	}
	// What is left of one is asked for like a whole one.
	pl = o.layout(nfs4.IOModeRW)
	id = pl.get.Stateid
	ret(nfs4.IOModeRW, 0, 1<<20)
	q.must(putFH(o.fh), resize(nfs4.StateidAnonymous(), 50))
	if a := p.awaitRecall(); a.Recall.Stateid.Seqid != id.Seqid+1 {
		t.Errorf("recalled with %v after %v", a.Recall.Stateid, id)
	}
}

// TestRecallInParts: who waits for a layout need not wait for the last
// LAYOUTRETURN, which names all that was recalled and is good all the same.
func TestRecallInParts(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "holder"), c.newPeer(t, "cutter")
	dir := p.dir()
	o := p.create(dir, "f")
	pl := o.layout(nfs4.IOModeRW)
	pl.write(0, pattern(1, 300_000))
	pl.commit(300_000)
	p.recalled(func(*nfs4.CBLayoutRecallArgs) nfs4.Status { return nfs4.OK })
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		q.must(putFH(o.fh), resize(nfs4.StateidAnonymous(), 10))
	}()
	a := p.awaitRecall()
	var r nfs4.LayoutReturnRes
	p.must(putFH(o.fh), rangeReturnOp(a.Recall.Stateid, nfs4.IOModeAny, 0, 100_000, &r))
	if !r.Present {
		t.Fatal("nothing left after a part")
	}
	pl.write(200_000, pattern(2, 1000)) // what is still held is good
	p.must(putFH(o.fh), rangeReturnOp(r.Stateid, nfs4.IOModeAny, 100_000, nfs4.LengthToEnd, &r))
	if !r.Present {
		t.Error("no stateid for the last LAYOUTRETURN")
	}
	<-cut
	last := r.Stateid
	p.must(putFH(o.fh), layoutReturnOp(last, nfs4.IOModeAny, &r))
	if r.Present {
		t.Error("something left after the last LAYOUTRETURN")
	}
	p.want(nfs4.ErrBadStateID, putFH(o.fh), layoutReturnOp(last, nfs4.IOModeAny, &r))
	if err := layoutsOf(c, p); err != nil {
		t.Error(err)
	}
	q.must(putFH(o.fh), resize(nfs4.StateidAnonymous(), 300_000))
	want := append(pattern(1, 10), make([]byte, 299_990)...)
	sameBytes(t, "cut and grown", o.read(0, 300_000), want)
}

// TestReturnedStateid: when all is back the COMPOUND has no current stateid.
func TestReturnedStateid(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	current := nfs4.StateidCurrent()
	get := func() client.Op { return layoutGetOp(layoutGetArgs(o.id, nfs4.IOModeRW), &nfs4.LayoutGetRes{}) }
	ret := func(off uint64) client.Op {
		return rangeReturnOp(current, nfs4.IOModeAny, off, nfs4.LengthToEnd, &nfs4.LayoutReturnRes{})
	}
	p.want(nfs4.OK, putFH(o.fh), get(), ret(4096), ret(0))
	p.want(nfs4.ErrBadStateID, putFH(o.fh), get(), ret(0), ret(0))
	p.want(nfs4.ErrBadStateID, putFH(o.fh), get(), ret(0), readOp(current, 0, 1, &nfs4.ReadRes{}))
	p.want(nfs4.OK, putFH(o.fh), get(), ret(0), get(), ret(0))
}

// TestReclaimReturns: lora_reclaim outside grace, and with a bulk return.
func TestReclaimReturns(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	pl := o.layout(nfs4.IOModeRW)
	reclaim := func(op client.Op) client.Op {
		op.Args.(*nfs4.LayoutReturnArgs).Reclaim = true
		return op
	}
	p.want(nfs4.ErrNoGrace, putFH(o.fh), reclaim(layoutReturnOp(pl.get.Stateid, nfs4.IOModeAny, &nfs4.LayoutReturnRes{})))
	p.want(nfs4.ErrInval, putFH(o.fh), reclaim(bulkReturnOp(nfs4.LayoutReturnFSID, nfs4.IOModeAny)))
	p.want(nfs4.ErrInval, reclaim(bulkReturnOp(nfs4.LayoutReturnAll, nfs4.IOModeAny)))
	pl.write(0, []byte("still there"))
}

// TestCommitByReader: who can only read a file does not change its size or times
// by LAYOUTCOMMIT, not with the stateid of a layout to read nor with an old one;
// who could write it does.
func TestCommitByReader(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "owner")
	dir := p.dir()
	o := p.create(dir, "f")
	p.must(putFH(o.fh), setattr(nfs4.StateidAnonymous(), mode(0o644)))
	q := c.newPeer(t, "reader")
	q.cred = sys(1000, 1000)
	before := p.stat(o.fh, nfs4.AttrChange, nfs4.AttrTimeModify, nfs4.AttrSize)
	ro := q.open(dir, "f", nfs4.ShareAccessRead)
	pl := ro.layout(nfs4.IOModeRead)
	commit := layoutCommitOp(pl.get.Stateid, 1<<40, &nfs4.LayoutCommitRes{})
	q.want(nfs4.ErrBadLayout, putFH(o.fh), commit)
	pl.giveBack()
	q.want(nfs4.ErrBadLayout, putFH(o.fh), commit)
	if after := p.stat(o.fh, nfs4.AttrChange, nfs4.AttrTimeModify, nfs4.AttrSize); after.Size != 0 || after.Change != before.Change || after.TimeModify != before.TimeModify {
		t.Errorf("%+v became %+v", before, after)
	}
	// The owner has it closed and everything returned: its word counts.
	rw := o.layout(nfs4.IOModeRW)
	rw.write(0, pattern(1, 1000))
	rw.giveBack()
	o.close()
	p.must(putFH(o.fh), layoutCommitOp(rw.get.Stateid, 1000, &nfs4.LayoutCommitRes{}))
	if n := p.size(o.fh); n != 1000 {
		t.Errorf("size %d after a late commit", n)
	}
}

// TestCommitTimes: LAYOUTCOMMIT with a size, a time, both and neither.
func TestCommitTimes(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	pl := o.layout(nfs4.IOModeRW)
	look := func() nfs4.Attrs { return p.stat(o.fh, nfs4.AttrSize, nfs4.AttrChange, nfs4.AttrTimeModify) }
	was := look()
	for _, x := range []struct {
		what string
		end  uint64
		sec  int64 // of mtime, from the present one
	}{{"neither", 0, 0}, {"size", 100, 0}, {"time", 0, 1000}, {"both", 200, 2000}, {"an earlier time", 0, -5000}, {"a lesser size", 50, 0}} {
		var r nfs4.LayoutCommitRes
		op := layoutCommitOp(pl.get.Stateid, x.end, &r)
		mtime := nfs4.Time{Sec: was.TimeModify.Sec + x.sec}
		op.Args.(*nfs4.LayoutCommitArgs).TimeModify = nfs4.NewTime{Present: x.sec != 0, Time: mtime}
		p.must(putFH(o.fh), op)
		now := look()
		if now.Change <= was.Change || now.Size != max(was.Size, x.end) {
			t.Errorf("%s: %+v became %+v", x.what, was, now)
		}
		if r.NewSize.Present != (now.Size != was.Size) || r.NewSize.Present && r.NewSize.Size != now.Size {
			t.Errorf("%s: new size %+v, from %d to %d", x.what, r.NewSize, was.Size, now.Size)
		}
		if x.sec > 0 && now.TimeModify != mtime {
			t.Errorf("%s: mtime %+v, want %+v", x.what, now.TimeModify, mtime)
		}
		if x.sec < 0 && now.TimeModify.Compare(mtime) <= 0 {
			t.Errorf("%s: mtime went back to %+v", x.what, now.TimeModify)
		}
		was = now
	}
}
