package wire_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"manifold/xdr/nfs4"
)

// TestProxyEqualsLayout writes the same file both ways, at odd places and in odd
// sizes, and reads it back both ways.
func TestProxyEqualsLayout(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	pl := o.layout(nfs4.IOModeRW)
	r := rand.New(rand.NewPCG(1, 2))
	var model []byte
	put := func(off int, data []byte) {
		if end := off + len(data); end > len(model) {
			model = append(model, make([]byte, end-len(model))...)
		}
		copy(model[off:], data)
	}
	stable := []nfs4.StableHow{nfs4.Unstable, nfs4.DataSync, nfs4.FileSync}
	for i := range 60 {
		off, n := r.IntN(3<<20), 1+r.IntN(200_000)
		if i%10 == 0 {
			n = 1 << 20
		}
		data := pattern(byte(i), n)
		put(off, data)
		if r.IntN(2) == 0 {
			how := stable[r.IntN(3)]
			var w nfs4.WriteRes
			p.must(putFH(o.fh), writeOp(o.id, uint64(off), data, how, &w))
			if int(w.Count) != n || w.Committed < how {
				t.Fatalf("WRITE of %d bytes, stability %d: %+v", n, how, w)
			}
		} else {
			if err := pl.tryWrite(uint64(off), data, nfs4.Unstable); err != nil {
				t.Fatal(err)
			}
			pl.commit(uint64(off + n))
		}
	}
	p.must(putFH(o.fh), commitOp(&nfs4.CommitRes{}))
	size := uint64(len(model))
	if n := p.size(o.fh); n != size {
		t.Fatalf("size %d, want %d", n, size)
	}
	sameBytes(t, "by proxy", o.read(0, len(model)+100), model)
	sameBytes(t, "by layout", pl.readAll(0, len(model)+100, size), model)
	for range 50 {
		off := r.IntN(len(model))
		n := min(1+r.IntN(300_000), len(model)-off)
		sameBytes(t, fmt.Sprintf("by proxy at %d", off), o.read(uint64(off), n), model[off:off+n])
		sameBytes(t, fmt.Sprintf("by layout at %d", off), pl.readAll(uint64(off), n, size), model[off:off+n])
	}
}

func TestProxyReads(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	read := func(off uint64, n uint32) (r nfs4.ReadRes) {
		t.Helper()
		p.must(putFH(o.fh), readOp(o.id, off, n, &r))
		return r
	}
	if r := read(0, 100); !r.EOF || len(r.Data) != 0 {
		t.Errorf("empty file: %d bytes, eof %v", len(r.Data), r.EOF)
	}
	p.must(putFH(o.fh), resize(o.id, 100_000)) // all hole
	for _, x := range []struct {
		off  uint64
		n    uint32
		want int
		eof  bool
	}{
		{0, 10, 10, false}, {0, 100_000, 100_000, true}, {99_990, 100, 10, true}, {100_000, 10, 0, true},
		{1 << 62, 10, 0, true}, {1<<64 - 1, 10, 0, true}, {50_000, 0, 0, false}, {0, 1<<32 - 1, 100_000, true},
	} {
		r := read(x.off, x.n)
		if len(r.Data) != x.want || r.EOF != x.eof {
			t.Errorf("READ of %d at %d: %d bytes, eof %v; want %d, %v", x.n, x.off, len(r.Data), r.EOF, x.want, x.eof)
		}
		for _, b := range r.Data {
			if b != 0 {
				t.Fatal("a hole is not all zeros")
			}
		}
	}
	data := pattern(1, 2<<20)
	for off := 0; off < len(data); off += 1 << 20 {
		var w nfs4.WriteRes
		p.must(putFH(o.fh), writeOp(o.id, uint64(off), data[off:off+1<<20], nfs4.Unstable, &w))
		if w.Count != 1<<20 {
			t.Errorf("WRITE of 1 MiB wrote %d", w.Count)
		}
	}
	if r := read(0, 1<<20); len(r.Data) != 1<<20 || r.EOF {
		t.Errorf("READ of 1 MiB: %d bytes, eof %v", len(r.Data), r.EOF)
	}
	sameBytes(t, "2 MiB", o.read(0, len(data)), data)
	p.want(nfs4.ErrFBig, putFH(o.fh), writeOp(o.id, 1<<63-1, []byte("xx"), nfs4.FileSync, &nfs4.WriteRes{}))
	p.want(nfs4.ErrInval, putFH(o.fh), writeOp(o.id, 0, []byte("xx"), 7, &nfs4.WriteRes{}))
	p.want(nfs4.OK, putFH(o.fh), writeOp(o.id, 0, nil, nfs4.FileSync, &nfs4.WriteRes{}))
	p.want(nfs4.ErrBadStateID, putFH(o.fh), readOp(nfs4.Stateid{Seqid: 1, Other: o.id.Other}, 0, 1, &nfs4.ReadRes{}),
		writeOp(nfs4.Stateid{Seqid: 9, Other: o.id.Other}, 0, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{}))
}

func TestNoProxyIO(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, noProxyIO)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	p.want(nfs4.ErrIO, putFH(o.fh), readOp(o.id, 0, 10, &nfs4.ReadRes{}))
	p.want(nfs4.ErrIO, putFH(o.fh), writeOp(o.id, 0, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{}))
	pl := o.layout(nfs4.IOModeRW)
	data := pattern(1, 300_000)
	pl.write(0, data)
	pl.commit(uint64(len(data)))
	sameBytes(t, "by layout", pl.readAll(0, len(data), uint64(len(data))), data)
	if s := c.status(); s.ProxyReadBytes != 0 || s.ProxyWrittenBytes != 0 || s.ProxyRefused != 2 {
		t.Errorf("counters %+v", s)
	}
}

// TestProxyWaitsForDS: I/O that needs a data server that is away is told to
// come again, and succeeds when it is back. The rest of the file goes on.
func TestProxyWaitsForDS(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	data := pattern(1, 128<<10) // one stripe unit each
	o.write(0, data, nfs4.FileSync)
	c.ds[0].stop()
	wait, fine := 0, 0
	for _, off := range []uint64{0, 64 << 10} {
		switch s := p.try(putFH(o.fh), readOp(o.id, off, 1000, &nfs4.ReadRes{})); s {
		case nfs4.OK:
			fine++
		case nfs4.ErrDelay:
			wait++
		default:
			t.Errorf("READ at %d: %v", off, s)
		}
	}
	if wait != 1 || fine != 1 {
		t.Errorf("%d reads wait and %d do not, want 1 each", wait, fine)
	}
	p.want(nfs4.ErrDelay, putFH(o.fh), writeOp(o.id, 0, data, nfs4.FileSync, &nfs4.WriteRes{}))
	p.want(nfs4.ErrDelay, putFH(o.fh), commitOp(&nfs4.CommitRes{}))
	if s := c.status(); s.ProxyReadBytes != 1000 {
		t.Errorf("%d bytes read by proxy, want 1000", s.ProxyReadBytes)
	}
	// New files go to the one that is left.
	eventually(t, "one data server down", func() error {
		if s := c.states()["ds1"]; s != "down" {
			return fmt.Errorf("%s", s)
		}
		return nil
	})
	g := p.create(dir, "g")
	g.write(0, data, nfs4.FileSync)
	sameBytes(t, "new file", g.read(0, len(data)), data)
	c.ds[0].start()
	o.write(0, data, nfs4.FileSync)
	sameBytes(t, "after it came back", o.read(0, len(data)), data)
}

// TestNoDS: without any data server names work, data waits.
func TestNoDS(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	p.want(nfs4.ErrLayoutTryLater, putFH(o.fh), layoutGetOp(layoutGetArgs(o.id, nfs4.IOModeRW), &nfs4.LayoutGetRes{}))
	p.want(nfs4.ErrDelay, putFH(o.fh), writeOp(o.id, 0, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{}))
	p.want(nfs4.OK, putFH(o.fh), readOp(o.id, 0, 10, &nfs4.ReadRes{}))
	if a := p.stat(dir, nfs4.AttrSpaceTotal, nfs4.AttrSpaceFree); a.SpaceTotal != 0 {
		t.Errorf("space without data servers: %+v", a)
	}
	c.add()
	c.waitUp(1)
	o.write(0, []byte("at last"), nfs4.FileSync)
	sameBytes(t, "with a data server", o.read(0, 100), []byte("at last"))
	o.layout(nfs4.IOModeRW)
}

// TestProxyWriteAgainstCut: a WRITE that meets a truncation comes before it or
// after it. What is acknowledged and within the size is there.
func TestProxyWriteAgainstCut(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "writes"), c.newPeer(t, "cuts")
	dir := p.dir()
	o := p.create(dir, "f")
	other := q.open(dir, "f", nfs4.ShareAccessBoth)
	data := pattern(1, 400_000)
	for i := range 60 {
		o.write(0, data, nfs4.Unstable) // something to cut
		var wg sync.WaitGroup
		wg.Go(func() { p.must(putFH(o.fh), writeOp(o.id, 0, data, nfs4.Unstable, &nfs4.WriteRes{})) })
		wg.Go(func() {
			time.Sleep(time.Duration(i*30) * time.Microsecond)
			q.must(putFH(o.fh), resize(other.id, 0))
		})
		wg.Wait()
		if n := int(p.size(o.fh)); n != 0 {
			sameBytes(t, fmt.Sprintf("round %d", i), o.read(0, len(data)), data)
		}
		if t.Failed() {
			return
		}
	}
}
