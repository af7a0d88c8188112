package wire_test

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

func allocateOp(id nfs4.Stateid, off, n uint64) client.Op {
	return client.Op{Num: nfs4.OpAllocate, Args: &nfs4.AllocateArgs{Stateid: id, Offset: off, Length: n}}
}

func deallocateOp(id nfs4.Stateid, off, n uint64) client.Op {
	return client.Op{Num: nfs4.OpDeallocate, Args: &nfs4.DeallocateArgs{Stateid: id, Offset: off, Length: n}}
}

func seekOp(id nfs4.Stateid, off uint64, what nfs4.Content, r *nfs4.SeekRes) client.Op {
	return client.Op{Num: nfs4.OpSeek, Args: &nfs4.SeekArgs{Stateid: id, Offset: off, What: what}, Res: r}
}

// unit is the stripe unit of the clusters here.
const unit = 64 << 10

// TestAllocate: room is reserved without a change of what is read; the file
// grows if it ends before, for good.
func TestAllocate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	p.must(putFH(o.fh), allocateOp(o.id, 0, 10)) // nothing is placed yet
	if n := p.size(o.fh); n != 10 {
		t.Errorf("size %d, want 10", n)
	}
	pl := o.layout(nfs4.IOModeRW)
	data := pattern(1, 5*unit+17)
	pl.write(0, data)
	pl.commit(uint64(len(data)))
	change := func() uint64 { return p.stat(o.fh, nfs4.AttrChange).Change }
	before := change()
	p.must(putFH(o.fh), allocateOp(o.id, 3*unit, 250*unit+1))
	const size = 253*unit + 1
	want := append(data, make([]byte, size-len(data))...)
	if n := p.size(o.fh); n != size || change() == before {
		t.Errorf("size %d, want %d; change %d was %d", n, size, change(), before)
	}
	sameBytes(t, "by proxy", o.read(0, size+100), want)
	sameBytes(t, "by layout", pl.readAll(0, size+100, size), want)
	var taken uint64
	for _, n := range c.ds {
		taken += n.blocks()
	}
	if taken < size {
		t.Errorf("%d bytes are reserved of %d", taken, size)
	}
	p.must(putFH(o.fh), allocateOp(o.id, 5, 100), allocateOp(nfs4.StateidAnonymous(), 0, 1))
	sameBytes(t, "after reserving what was there", o.read(0, size), want)

	c.restartMDS()
	p = c.newPeer(t, "b")
	c.waitUp(3)
	c.waitGrace()
	o = p.open(dir, "f", nfs4.ShareAccessBoth)
	if n := p.size(o.fh); n != size {
		t.Errorf("size %d after a restart, want %d", n, size)
	}
	p.must(putFH(o.fh), resize(o.id, 100)) // which gives the room back
	taken = 0
	for _, n := range c.ds {
		taken += n.blocks()
	}
	if taken > 3*unit {
		t.Errorf("%d bytes are still taken by a file of 100", taken)
	}
}

// TestAllocateTooMuch: what is not there is refused, and nothing has happened.
func TestAllocateTooMuch(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	o.write(0, []byte("data"), nfs4.FileSync)
	p.want(nfs4.ErrNoSpc, putFH(o.fh), allocateOp(o.id, 0, 1<<60))
	if n := p.size(o.fh); n != 4 {
		t.Errorf("size %d, want 4", n)
	}
	sameBytes(t, "the file", o.read(0, 100), []byte("data"))
}

// TestDeallocate makes holes at odd places, which all see as zeros: who has a
// layout, and who has not.
func TestDeallocate(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	p.must(putFH(o.fh), deallocateOp(o.id, 0, 1<<40)) // of nothing
	pl := o.layout(nfs4.IOModeRW)
	other := c.newPeer(t, "b").open(dir, "f", nfs4.ShareAccessRead).layout(nfs4.IOModeRead)
	want := pattern(2, 9*unit+100)
	size := uint64(len(want))
	pl.write(0, want)
	pl.commit(size)
	for _, r := range []struct{ off, n uint64 }{
		{1, 1}, {unit - 1, 2}, {2*unit + 5, 4 * unit}, {7 * unit, unit}, {size - 10, 1 << 40}, {size + 5, 7}, {1 << 50, 1 << 50},
	} {
		before := p.stat(o.fh, nfs4.AttrChange).Change
		p.must(putFH(o.fh), deallocateOp(o.id, r.off, r.n))
		from := min(r.off, size)
		clear(want[from:min(from+r.n, size)])
		a := p.stat(o.fh, nfs4.AttrChange, nfs4.AttrSize)
		if a.Size != size || a.Change == before {
			t.Errorf("after a hole at %d: size %d, want %d; change %d was %d", r.off, a.Size, size, a.Change, before)
		}
		what := fmt.Sprintf("with a hole at %d of %d", r.off, r.n)
		sameBytes(t, what+", by proxy", o.read(0, len(want)+1), want)
		sameBytes(t, what+", by layout", pl.readAll(0, len(want), size), want)
		sameBytes(t, what+", by another's layout", other.readAll(0, len(want), size), want)
	}
	pl.write(2*unit, []byte("anew"))
	copy(want[2*unit:], "anew")
	sameBytes(t, "written again", pl.readAll(0, len(want), size), want)
}

// TestDeallocateNeedsAll: if a data server is away the client is told to come
// again, and then all is zeros.
func TestDeallocateNeedsAll(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	o.write(0, pattern(3, 4*unit), nfs4.FileSync)
	c.ds[1].stop()
	p.want(nfs4.ErrDelay, putFH(o.fh), deallocateOp(o.id, 0, 4*unit))
	c.ds[1].start()
	c.waitUp(2)
	c.eventually("hole", func() error {
		if s := p.try(putFH(o.fh), deallocateOp(o.id, 0, 4*unit)); s != nfs4.OK {
			return s
		}
		return nil
	})
	sameBytes(t, "the file", o.read(0, 4*unit), make([]byte, 4*unit))
}

func TestSeek(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	var r nfs4.SeekRes
	p.want(nfs4.ErrNXIO, putFH(o.fh), seekOp(o.id, 0, nfs4.ContentData, &r))
	p.want(nfs4.ErrNXIO, putFH(o.fh), seekOp(o.id, 0, nfs4.ContentHole, &r))
	const size = 40 * unit
	p.must(putFH(o.fh), resize(o.id, size))
	wantSeek := func(off uint64, what nfs4.Content, at uint64, eof bool) {
		t.Helper()
		p.must(putFH(o.fh), seekOp(o.id, off, what, &r))
		if r.Offset != at || r.EOF != eof {
			t.Errorf("SEEK of %d from %d: %d, eof %v; want %d, %v", what, off, r.Offset, r.EOF, at, eof)
		}
	}
	wantSeek(0, nfs4.ContentData, size, true)
	wantSeek(5, nfs4.ContentHole, 5, false)
	pl := o.layout(nfs4.IOModeRW)
	pl.write(2*unit, pattern(1, 3*unit)) // on three data servers
	pl.write(30*unit, pattern(2, unit/2))
	pl.write(39*unit, pattern(3, unit))
	for _, x := range []struct {
		off  uint64
		what nfs4.Content
		at   uint64
		eof  bool
	}{
		{0, nfs4.ContentData, 2 * unit, false}, {2*unit + 7, nfs4.ContentData, 2*unit + 7, false},
		{5 * unit, nfs4.ContentData, 30 * unit, false}, {31 * unit, nfs4.ContentData, 39 * unit, false},
		{0, nfs4.ContentHole, 0, false}, {2*unit + 7, nfs4.ContentHole, 5 * unit, false},
		{30 * unit, nfs4.ContentHole, 30*unit + unit/2, false}, {39 * unit, nfs4.ContentHole, size, true},
	} {
		wantSeek(x.off, x.what, x.at, x.eof)
	}
	p.must(putFH(o.fh), deallocateOp(o.id, 3*unit, unit))
	wantSeek(2*unit, nfs4.ContentHole, 3*unit, false)
	wantSeek(3*unit, nfs4.ContentData, 4*unit, false)
	p.want(nfs4.ErrNXIO, putFH(o.fh), seekOp(o.id, size, nfs4.ContentHole, &r))
	// What was written and not committed yet counts.
	pl.write(50*unit, []byte("end"))
	wantSeek(40*unit, nfs4.ContentData, 50*unit, false)
	wantSeek(50*unit, nfs4.ContentHole, 50*unit+3, true)
}

// TestSpaceRefused: what is no range, no file, or not the caller's to change.
func TestSpaceRefused(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	o.write(0, []byte("data"), nfs4.FileSync)
	ro := p.openWith(dir, openArgs("reader", "f", nfs4.ShareAccessRead))
	stranger := c.newPeer(t, "b").as(1000, 1000)
	stale := o.id
	stale.Other[11] ^= 0xff
	var r nfs4.SeekRes
	change := map[string]func(id nfs4.Stateid, off, n uint64) client.Op{"ALLOCATE": allocateOp, "DEALLOCATE": deallocateOp}
	for name, op := range change {
		for what, x := range map[string]struct {
			p    *peer
			ops  []client.Op
			want nfs4.Status
		}{
			"an empty range":           {p, []client.Op{putFH(o.fh), op(o.id, 3, 0)}, nfs4.ErrInval},
			"a range past 2^63":        {p, []client.Op{putFH(o.fh), op(o.id, 1<<63-1, 2)}, nfs4.ErrFBig},
			"a range past 2^64":        {p, []client.Op{putFH(o.fh), op(o.id, 5, 1<<64-1)}, nfs4.ErrFBig},
			"no file":                  {p, []client.Op{op(o.id, 0, 1)}, nfs4.ErrNoFileHandle},
			"a directory":              {p, []client.Op{putFH(dir), op(nfs4.StateidAnonymous(), 0, 1)}, nfs4.ErrIsDir},
			"an open for reading":      {p, []client.Op{putFH(o.fh), op(ro.id, 0, 1)}, nfs4.ErrOpenMode},
			"an unknown stateid":       {p, []client.Op{putFH(o.fh), op(stale, 0, 1)}, nfs4.ErrBadStateID},
			"somebody who may not":     {stranger, []client.Op{putFH(p.walk(dir, p.private(dir))), op(nfs4.StateidAnonymous(), 0, 1)}, nfs4.ErrAccess},
			"another client's stateid": {stranger, []client.Op{putFH(o.fh), op(o.id, 0, 1)}, nfs4.ErrBadStateID},
		} {
			if got := x.p.try(x.ops...); got != x.want {
				t.Errorf("%s of %s: %v, want %v", name, what, got, x.want)
			}
		}
	}
	p.want(nfs4.ErrUnionNotSupp, putFH(o.fh), seekOp(o.id, 0, 7, &r))
	p.want(nfs4.ErrIsDir, putFH(dir), seekOp(nfs4.StateidAnonymous(), 0, nfs4.ContentData, &r))
	p.want(nfs4.ErrBadStateID, putFH(o.fh), seekOp(stale, 0, nfs4.ContentData, &r))
	sameBytes(t, "the file", o.read(0, 100), []byte("data"))

	// At a data server these are the metadata server's to ask.
	pl := o.layout(nfs4.IOModeRW)
	for name, op := range map[string]client.Op{
		"ALLOCATE": allocateOp(nfs4.StateidAnonymous(), 0, 1), "DEALLOCATE": deallocateOp(nfs4.StateidAnonymous(), 0, 1),
		"SEEK": seekOp(nfs4.StateidAnonymous(), 0, nfs4.ContentData, &r),
	} {
		err := pl.server(0).Compound(t.Context(), sys(0, 0), putFH(pl.body.FHs[0]), op)
		if err == nil {
			t.Errorf("a data server does a client's %s", name)
		}
	}
}

// private makes a file that only its owner may change, and returns its name.
func (p *peer) private(dir nfs4.FH) string {
	p.t.Helper()
	name := fmt.Sprint("private", p.t.Name()[:4], p.stat(dir, nfs4.AttrChange).Change)
	a := creating(openArgs("owner", name, nfs4.ShareAccessBoth), nfs4.CreateHow{Mode: nfs4.CreateGuarded, Attrs: mode(0o600)})
	p.openWith(dir, a).close()
	return name
}

// blocks is what n's objects take on its disk, in bytes.
func (n *node) blocks() (sum uint64) {
	n.c.t.Helper()
	for path := range n.objects() {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			n.c.t.Fatal(err)
		}
		sum += uint64(st.Blocks) * 512
	}
	return sum
}
