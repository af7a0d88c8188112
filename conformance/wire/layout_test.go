package wire_test

import (
	"fmt"
	"net"
	"slices"
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

func TestLayoutGetRefused(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	q := c.newPeer(t, "b")
	ro := q.open(dir, "f", nfs4.ShareAccessRead)
	var r nfs4.LayoutGetRes
	change := func(f func(*nfs4.LayoutGetArgs)) *nfs4.LayoutGetArgs {
		a := layoutGetArgs(o.id, nfs4.IOModeRW)
		f(a)
		return a
	}
	for _, x := range []struct {
		what string
		args *nfs4.LayoutGetArgs
		want nfs4.Status
	}{
		{"flexfiles", change(func(a *nfs4.LayoutGetArgs) { a.LayoutType = nfs4.LayoutFlexFiles }), nfs4.ErrUnknownLayoutType},
		{"iomode any", change(func(a *nfs4.LayoutGetArgs) { a.IOMode = nfs4.IOModeAny }), nfs4.ErrBadIOMode},
		{"iomode 0", change(func(a *nfs4.LayoutGetArgs) { a.IOMode = 0 }), nfs4.ErrBadIOMode},
		{"length 0, minlength over it", change(func(a *nfs4.LayoutGetArgs) { a.Length, a.MinLength = 0, 1 }), nfs4.ErrInval},
		{"range past 2^64", change(func(a *nfs4.LayoutGetArgs) { a.Offset, a.Length = 1<<63, 1<<63+1 }), nfs4.ErrInval},
		{"minlength over length", change(func(a *nfs4.LayoutGetArgs) { a.Length, a.MinLength = 1, 2 }), nfs4.ErrInval},
		{"maxcount 100", change(func(a *nfs4.LayoutGetArgs) { a.MaxCount = 100 }), nfs4.ErrTooSmall},
		{"maxcount 0", change(func(a *nfs4.LayoutGetArgs) { a.MaxCount = 0 }), nfs4.ErrTooSmall},
		{"anonymous stateid", change(func(a *nfs4.LayoutGetArgs) { a.Stateid = nfs4.StateidAnonymous() }), nfs4.ErrBadStateID},
		{"current stateid, but there is none", change(func(a *nfs4.LayoutGetArgs) { a.Stateid = nfs4.StateidCurrent() }), nfs4.ErrBadStateID},
		{"another client's open", change(func(a *nfs4.LayoutGetArgs) { a.Stateid = ro.id }), nfs4.ErrBadStateID},
	} {
		if got := p.try(putFH(o.fh), layoutGetOp(x.args, &r)); got != x.want {
			t.Errorf("%s: %v, want %v", x.what, got, x.want)
		}
	}
	q.want(nfs4.ErrOpenMode, putFH(o.fh), layoutGetOp(layoutGetArgs(ro.id, nfs4.IOModeRW), &r))
	// Part of the file asked for: still all of it is given.
	a := layoutGetArgs(o.id, nfs4.IOModeRW)
	a.Offset, a.Length = 8192, 4096
	p.must(putFH(o.fh), layoutGetOp(a, &r))
	if l := r.Layouts[0]; l.Offset != 0 || l.Length != nfs4.LengthToEnd {
		t.Errorf("layout of %d+%d", l.Offset, l.Length)
	}
	// Once more with the layout stateid, and with the open's: one "other".
	first := r.Stateid
	p.must(putFH(o.fh), layoutGetOp(layoutGetArgs(first, nfs4.IOModeRW), &r))
	if r.Stateid.Other != first.Other || r.Stateid.Seqid != first.Seqid+1 {
		t.Errorf("layout stateids %v, %v", first, r.Stateid)
	}
	p.must(putFH(o.fh), layoutGetOp(layoutGetArgs(o.id, nfs4.IOModeRead), &r))
	if r.Stateid.Other != first.Other || r.Stateid.Seqid != first.Seqid+2 {
		t.Errorf("layout stateids %v, %v", first, r.Stateid)
	}
	zero := first
	zero.Seqid = 0
	p.want(nfs4.ErrBadStateID, putFH(o.fh), layoutGetOp(layoutGetArgs(zero, nfs4.IOModeRead), &r))
}

// TestLayoutFits: exactly as much as the body takes is enough for maxcount, as
// Linux counts it.
func TestLayoutFits(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	pl := o.layout(nfs4.IOModeRW)
	a := layoutGetArgs(o.id, nfs4.IOModeRW)
	a.MaxCount = uint32(len(pl.get.Layouts[0].Body))
	p.want(nfs4.OK, putFH(o.fh), layoutGetOp(a, &nfs4.LayoutGetRes{}))
	a.MaxCount--
	p.want(nfs4.ErrTooSmall, putFH(o.fh), layoutGetOp(a, &nfs4.LayoutGetRes{}))
}

// TestLayoutRights: what a READ layout's handle is good for.
func TestLayoutRights(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "a"), c.newPeer(t, "b")
	dir := p.dir()
	o := p.create(dir, "f")
	data := pattern(4, 300_000)
	rw := o.layout(nfs4.IOModeRW)
	rw.write(0, data)
	rw.commit(uint64(len(data)))
	ro := q.open(dir, "f", nfs4.ShareAccessRead).layout(nfs4.IOModeRead)
	sameBytes(t, "read by another client", ro.readAll(0, len(data), uint64(len(data))), data)
	if err := ro.tryWrite(0, []byte("no"), nfs4.Unstable); !refused(err) {
		t.Errorf("write with a READ layout: %v", err)
	}
	if _, err := ro.server(0).Commit(t.Context(), sys(0, 0), ro.body.FHs[0], 0, 0); !refused(err) {
		t.Errorf("commit with a READ layout: %v", err)
	}
	forged := append(nfs4.FH(nil), ro.body.FHs[0]...)
	forged[2] |= 2 // may write
	if _, _, _, err := ro.server(0).Write(t.Context(), sys(0, 0), forged, nfs4.Stateid{}, 0, []byte("no"), nfs4.Unstable); !isStatus(err, nfs4.ErrStale) {
		t.Errorf("write with a forged handle: %v", err)
	}
	sameBytes(t, "after refused writes", o.read(0, len(data)), data)
	// Every data server has its share, at the file's own offsets.
	for i := range 4 {
		held := 0
		for piece := range rw.body.Stripe.Pieces(0, uint64(len(data))) {
			if piece.Index == i {
				held += int(piece.Length)
			}
		}
		if held == 0 {
			t.Errorf("data server %d holds nothing", i)
		}
	}
	// Reads past the end, at it, and in a hole.
	if got := ro.readAll(uint64(len(data))-10, 100, uint64(len(data))); len(got) != 10 {
		t.Errorf("%d bytes at the end, want 10", len(got))
	}
	rw.write(10<<20, []byte("far"))
	rw.commit(10<<20 + 3)
	want := append(append(append([]byte(nil), data...), make([]byte, 10<<20-len(data))...), "far"...)
	sameBytes(t, "with a hole", ro.readAll(0, len(want)+1000, uint64(len(want))), want)
}

func TestLayoutCommit(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	pl := o.layout(nfs4.IOModeRW)
	commit := func(id nfs4.Stateid, end uint64) (nfs4.LayoutCommitRes, nfs4.Attrs) {
		t.Helper()
		var r nfs4.LayoutCommitRes
		var a nfs4.GetattrRes
		p.must(putFH(o.fh), layoutCommitOp(id, end, &r), getattr(&a, nfs4.AttrSize, nfs4.AttrChange, nfs4.AttrTimeModify))
		return r, a.ObjAttributes
	}
	before := p.stat(o.fh, nfs4.AttrChange)
	r, a := commit(pl.get.Stateid, 1000)
	if !r.NewSize.Present || r.NewSize.Size != 1000 || a.Size != 1000 || a.Change <= before.Change {
		t.Errorf("commit of 1000 bytes: %+v, %+v", r, a)
	}
	r, a = commit(pl.get.Stateid, 500)
	if r.NewSize.Present || a.Size != 1000 {
		t.Errorf("commit below the end: %+v, %+v", r, a)
	}
	r, a = commit(pl.get.Stateid, 0)
	if r.NewSize.Present || a.Size != 1000 {
		t.Errorf("commit of nothing: %+v, %+v", r, a)
	}
	// An old seqid, then a stateid of a layout that was given back.
	p.must(putFH(o.fh), layoutGetOp(layoutGetArgs(pl.get.Stateid, nfs4.IOModeRW), &nfs4.LayoutGetRes{}))
	if _, a = commit(pl.get.Stateid, 2000); a.Size != 2000 {
		t.Errorf("commit with an old seqid: %+v", a)
	}
	late := pl.get.Stateid
	late.Seqid++
	p.must(putFH(o.fh), layoutReturnOp(late, nfs4.IOModeAny, &nfs4.LayoutReturnRes{}))
	if _, a = commit(pl.get.Stateid, 3000); a.Size != 3000 {
		t.Errorf("commit after the return: %+v", a)
	}
	bad := layoutCommitOp(pl.get.Stateid, 1<<63+1, &nfs4.LayoutCommitRes{})
	p.want(nfs4.ErrInval, putFH(o.fh), bad)
	p.want(nfs4.ErrBadStateID, putFH(o.fh), layoutCommitOp(o.id, 10, &nfs4.LayoutCommitRes{}))
	other := layoutCommitOp(pl.get.Stateid, 10, &nfs4.LayoutCommitRes{})
	other.Args.(*nfs4.LayoutCommitArgs).LayoutUpdate.Type = nfs4.LayoutFlexFiles
	p.want(nfs4.ErrUnknownLayoutType, putFH(o.fh), other)
	reclaim := layoutCommitOp(pl.get.Stateid, 10, &nfs4.LayoutCommitRes{})
	reclaim.Args.(*nfs4.LayoutCommitArgs).Reclaim = true
	p.want(nfs4.ErrNoGrace, putFH(o.fh), reclaim)
}

func TestLayoutReturn(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	rw := o.layout(nfs4.IOModeRW)
	both := o.layout(nfs4.IOModeRead)
	var r nfs4.LayoutReturnRes
	ret := func(id nfs4.Stateid, m nfs4.IOMode) client.Op { return layoutReturnOp(id, m, &r) }
	p.must(putFH(o.fh), ret(both.get.Stateid, nfs4.IOModeRead))
	if !r.Present || r.Stateid.Seqid != both.get.Stateid.Seqid+1 || r.Stateid.Other != rw.get.Stateid.Other {
		t.Errorf("return of one iomode of two: %+v", r)
	}
	p.must(putFH(o.fh), ret(r.Stateid, nfs4.IOModeRW))
	if r.Present {
		t.Errorf("return of the last: %+v", r)
	}
	p.want(nfs4.ErrBadStateID, putFH(o.fh), ret(rw.get.Stateid, nfs4.IOModeAny))
	p.want(nfs4.ErrBadIOMode, putFH(o.fh), ret(rw.get.Stateid, 9))
	p.want(nfs4.ErrNoFileHandle, ret(rw.get.Stateid, nfs4.IOModeAny))
	// A new one has a new "other" or a higher seqid.
	again := o.layout(nfs4.IOModeRW)
	if again.get.Stateid.Other == rw.get.Stateid.Other && again.get.Stateid.Seqid <= both.get.Stateid.Seqid+2 {
		t.Errorf("layout after all was returned: %v", again.get.Stateid)
	}
	body := ret(again.get.Stateid, nfs4.IOModeAny)
	body.Args.(*nfs4.LayoutReturnArgs).Return.File.Body = []byte("junk")
	p.want(nfs4.ErrBadXDR, putFH(o.fh), body)
	flex := ret(again.get.Stateid, nfs4.IOModeAny)
	flex.Args.(*nfs4.LayoutReturnArgs).LayoutType = nfs4.LayoutFlexFiles
	p.want(nfs4.ErrUnknownLayoutType, putFH(o.fh), flex)
	// All of them, and those of the file system.
	for _, kind := range []uint32{nfs4.LayoutReturnAll, nfs4.LayoutReturnFSID} {
		o.layout(nfs4.IOModeRW)
		g := p.create(dir, fmt.Sprint("g", kind))
		g.layout(nfs4.IOModeRead)
		all := client.Op{Num: nfs4.OpLayoutReturn, Args: &nfs4.LayoutReturnArgs{
			LayoutType: nfs4.LayoutFiles, IOMode: nfs4.IOModeAny, Return: nfs4.LayoutReturn{Kind: kind},
		}, Res: &r}
		if kind == nfs4.LayoutReturnFSID {
			p.want(nfs4.ErrNoFileHandle, all)
			p.must(putFH(dir), all)
		} else {
			p.must(all)
		}
		p.want(nfs4.ErrBadStateID, putFH(o.fh), ret(again.get.Stateid, nfs4.IOModeAny))
		g.close()
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	pl := p.create(dir, "f").layout(nfs4.IOModeRW)
	var r nfs4.GetDeviceInfoRes
	p.want(nfs4.ErrTooSmall, deviceInfoOp(pl.body.Device, 10, &r))
	need := r.MinCount
	if need < 100 {
		t.Errorf("mincount %d", need)
	}
	p.want(nfs4.ErrTooSmall, deviceInfoOp(pl.body.Device, need-1, &r))
	p.want(nfs4.OK, deviceInfoOp(pl.body.Device, need, &r))
	if r.Notification != nfs4.BitmapOf(nfs4.NotifyDeviceIDChange, nfs4.NotifyDeviceIDDelete) {
		t.Errorf("notifications %v", r.Notification)
	}
	p.want(nfs4.OK, deviceInfoOp(pl.body.Device, 0, &r))
	p.want(nfs4.ErrNoEnt, deviceInfoOp(nfs4.DeviceID{1, 2, 3}, 1<<16, &r))
	flex := deviceInfoOp(pl.body.Device, 1<<16, &r)
	flex.Args.(*nfs4.GetDeviceInfoArgs).LayoutType = nfs4.LayoutFlexFiles
	p.want(nfs4.ErrUnknownLayoutType, flex)
	var ids nfs4.GetDeviceListRes
	list := client.Op{Num: nfs4.OpGetDeviceList, Args: &nfs4.GetDeviceListArgs{LayoutType: nfs4.LayoutFiles, MaxDevices: 100}, Res: &ids}
	p.must(putFH(dir), list)
	if !ids.EOF || !slices.Contains(ids.DeviceIDs, pl.body.Device) {
		t.Errorf("GETDEVICELIST: %+v", ids)
	}
	for i, id := range ids.DeviceIDs {
		p.must(deviceInfoOp(id, 1<<16, &r))
		if slices.Contains(ids.DeviceIDs[:i], id) {
			t.Errorf("device %x twice", id)
		}
	}
	// All files on the same data servers have one device, wherever they begin.
	firsts := map[int]bool{}
	for i := range 8 {
		other := p.create(dir, entryName(i)).layout(nfs4.IOModeRW)
		if other.body.Device != pl.body.Device {
			t.Error("another device for the same data servers")
		}
		firsts[other.body.Stripe.First] = true
	}
	if len(firsts) < 2 {
		t.Errorf("all files begin on the same data server: %v", firsts)
	}
}

// TestPlacement: a draining data server gets no new file, a width is kept.
func TestPlacement(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, func(c *mdsConfig) { c.Width = 3 })
	p := c.newPeer(t, "a")
	dir := p.dir()
	drained := c.ds[1]
	if err := c.mds.SetDrain(t.Context(), admDS(drained.id()), true); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		pl := p.create(dir, entryName(i)).layout(nfs4.IOModeRW)
		if len(pl.body.FHs) != 3 {
			t.Errorf("width %d, want 3", len(pl.body.FHs))
		}
		for _, paths := range pl.dev.Paths {
			if paths[0].AddrPort.String() == drained.listen {
				t.Errorf("%s lies on the draining data server", entryName(i))
			}
		}
	}
	if s := c.states()["ds2"]; s != "draining" {
		t.Errorf("state %q", s)
	}
	// Only two are left to choose from: two are taken.
	c.ds[3].stop()
	eventually(t, "a data server down", func() error {
		if s := c.states()["ds4"]; s != "down" {
			return fmt.Errorf("%s", s)
		}
		return nil
	})
	pl := p.create(dir, "narrow").layout(nfs4.IOModeRW)
	if len(pl.body.FHs) != 2 {
		t.Errorf("width %d, want 2", len(pl.body.FHs))
	}
	pl.write(0, pattern(1, 200_000))
}

// TestWildcard: a data server that listens everywhere is announced at the
// address by which the client reached the metadata server.
func TestWildcard(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0, func(c *mdsConfig) { c.Listen = "0.0.0.0:0" })
	n := &node{c: c, listen: "0.0.0.0:0"}
	c.ds = append(c.ds, n)
	n.start()
	t.Cleanup(n.stop)
	c.waitUp(1)
	_, port, err := net.SplitHostPort(c.mds.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	devices := map[nfs4.DeviceID]bool{}
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		c.cfg.Listen = net.JoinHostPort(host, port)
		p := c.newPeer(t, host)
		o := p.create(p.dir(), "f")
		pl := o.layout(nfs4.IOModeRW)
		if got := pl.dev.Paths[0][0].Addr().String(); got != host {
			t.Errorf("announced at %s to a client of %s", got, host)
		}
		devices[pl.body.Device] = true
		pl.write(0, []byte("over there"))
		pl.commit(10)
		sameBytes(t, "by proxy", o.read(0, 100), []byte("over there"))
	}
	if len(devices) != 2 {
		t.Error("one device id for two addresses")
	}
}
