package wire_test

import (
	"testing"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

func TestLayoutInOpen(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := &open{p: p}
	pl := &plan{o: o}
	var fh nfs4.GetFHRes
	a := creating(openArgs("owner", "f", nfs4.ShareAccessBoth), nfs4.CreateHow{Mode: nfs4.CreateExclusive4_1, Attrs: mode(0o644)})
	p.must(putFH(dir), openOp(a, &o.r), getFH(&fh), access(63, &nfs4.AccessRes{}),
		getattr(&nfs4.GetattrRes{}, nfs4.AttrSize), layoutGetOp(layoutGetArgs(nfs4.StateidCurrent(), nfs4.IOModeRW), &pl.get))
	o.fh, o.id = fh.Object, o.r.Stateid
	pl.read()
	if n := len(pl.body.FHs); n != 4 || len(pl.dev.Paths) != 4 {
		t.Errorf("%d handles, %d data servers, want 4", n, len(pl.dev.Paths))
	}
	l := pl.get.Layouts[0]
	if l.Offset != 0 || l.Length != nfs4.LengthToEnd || l.IOMode != nfs4.IOModeRW || !pl.get.ReturnOnClose || len(l.Body) > 4096 {
		t.Errorf("layout %d+%d, iomode %d, return on close %v, %d bytes", l.Offset, l.Length, l.IOMode, pl.get.ReturnOnClose, len(l.Body))
	}
	data := pattern(1, 1<<20+12345)
	pl.write(0, data)
	pl.commit(uint64(len(data)))
	if got := p.size(o.fh); got != uint64(len(data)) {
		t.Errorf("size %d, want %d", got, len(data))
	}
	sameBytes(t, "by layout", pl.readAll(0, len(data), uint64(len(data))), data)
	sameBytes(t, "by proxy", o.read(0, len(data)), data)
	p.must(putFH(o.fh), layoutReturnOp(pl.get.Stateid, nfs4.IOModeAny, &nfs4.LayoutReturnRes{}), closeOp(o.id))
}

var _ client.Op
