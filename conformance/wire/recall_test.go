package wire_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// TestRecallOnTruncate: a client that cuts a file has the others' layouts taken
// back first, however they answer.
func TestRecallOnTruncate(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"no matching layout", "ok then return", "delay first", "old stateid first"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := shared(t)
			p, q := c.newPeer(t, "holder"), c.newPeer(t, "cutter")
			dir := p.dir()
			o := p.create(dir, "f")
			data := pattern(1, 500_000)
			pl := o.layout(nfs4.IOModeRW)
			pl.write(0, data)
			pl.commit(uint64(len(data)))
			var asked atomic.Int32
			answers := make(chan nfs4.Stateid, 100)
			p.recalled(func(a *nfs4.CBLayoutRecallArgs) nfs4.Status {
				n := asked.Add(1)
				switch {
				case how == "delay first" && n == 1:
					return nfs4.ErrDelay
				case how == "old stateid first" && n == 1:
					return nfs4.ErrOldStateID
				case how == "ok then return":
					answers <- a.Recall.Stateid
					return nfs4.OK
				}
				return nfs4.ErrNoMatchingLayout
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				other := q.open(dir, "f", nfs4.ShareAccessBoth)
				q.must(putFH(o.fh), resize(other.id, 100))
			}()
			first := p.awaitRecall()
			if first.Recall.Stateid.Seqid != pl.get.Stateid.Seqid+1 || first.Recall.Stateid.Other != pl.get.Stateid.Other {
				t.Errorf("recalled with %v, the layout has %v", first.Recall.Stateid, pl.get.Stateid)
			}
			if string(first.Recall.FH) != string(o.fh) || first.Recall.Length != nfs4.LengthToEnd || first.Type != nfs4.LayoutFiles {
				t.Errorf("recall %+v", first)
			}
			switch how {
			case "old stateid first":
				if again := p.awaitRecall(); again.Recall.Stateid.Seqid != first.Recall.Stateid.Seqid+1 {
					t.Errorf("recalled again with %v", again.Recall.Stateid)
				}
			case "delay first":
				p.awaitRecall()
			case "ok then return":
				id := <-answers
				// Meanwhile there is no new layout, and I/O goes on with the old one.
				eventually(t, "refusal of another layout", func() error {
					s := p.try(putFH(o.fh), layoutGetOp(layoutGetArgs(pl.get.Stateid, nfs4.IOModeRW), &nfs4.LayoutGetRes{}))
					if s != nfs4.ErrReturnConflict {
						return s // RECALLCONFLICT until our answer is in
					}
					return nil
				})
				if err := pl.tryWrite(0, []byte("x"), nfs4.Unstable); err != nil {
					t.Errorf("write while the recall waits: %v", err)
				}
				p.must(putFH(o.fh), layoutReturnOp(id, nfs4.IOModeAny, &nfs4.LayoutReturnRes{}))
			}
			<-done
			if n := p.size(o.fh); n != 100 {
				t.Errorf("size %d, want 100", n)
			}
			// The way back up shows zeros, not what was cut off.
			q.must(putFH(o.fh), resize(nfs4.StateidAnonymous(), uint64(len(data))))
			again := o.layout(nfs4.IOModeRW)
			got := again.readAll(0, len(data), uint64(len(data)))
			want := append(append([]byte(nil), data[:100]...), make([]byte, len(data)-100)...)
			if how == "ok then return" {
				want[0] = 'x'
			}
			sameBytes(t, "cut and grown", got, want)
			sameBytes(t, "cut and grown, by proxy", o.read(0, len(data)), want)
		})
	}
}

// TestRevoke: a client that neither answers nor returns loses its layout after a
// lease, and the data servers refuse it; others get new layouts.
func TestRevoke(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"always delay", "ok and no return"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 4)
			p, q := c.newPeer(t, "holder"), c.newPeer(t, "cutter")
			dir := p.dir()
			o := p.create(dir, "f")
			data := pattern(2, 500_000)
			pl := o.layout(nfs4.IOModeRW)
			pl.write(0, data)
			pl.commit(uint64(len(data)))
			p.recalled(func(*nfs4.CBLayoutRecallArgs) nfs4.Status {
				if how == "always delay" {
					return nfs4.ErrDelay
				}
				return nfs4.OK
			})
			other := q.open(dir, "f", nfs4.ShareAccessBoth)
			begin := time.Now()
			q.want(nfs4.ErrDelay, putFH(o.fh), resize(other.id, 0)) // not for ever in one call
			if err := pl.tryWrite(0, data[:100], nfs4.Unstable); err != nil {
				t.Errorf("write before the deadline: %v", err)
			}
			q.must(putFH(o.fh), resize(other.id, 0))
			if d := time.Since(begin); d < lease-time.Second {
				t.Errorf("revoked after %v, the lease is %v", d, lease)
			}
			for off := uint64(0); off < 4*64<<10; off += 64 << 10 {
				if err := pl.tryWrite(off, data[:100], nfs4.Unstable); !refused(err) {
					t.Errorf("write with the revoked layout at %d: %v", off, err)
				}
				if _, err := pl.tryRead(off, 10, 0); !refused(err) {
					t.Errorf("read with the revoked layout at %d: %v", off, err)
				}
			}
			p.want(nfs4.ErrAdminRevoked, putFH(o.fh), layoutCommitOp(pl.get.Stateid, 100, &nfs4.LayoutCommitRes{}))
			p.recalled(nil)
			sameBytes(t, "cut file", other.read(0, 100), nil)
			// Both get new layouts, and these work.
			fresh := o.layout(nfs4.IOModeRW)
			fresh.write(0, data)
			fresh.commit(uint64(len(data)))
			sameBytes(t, "after a new layout", other.layout(nfs4.IOModeRead).readAll(0, len(data), uint64(len(data))), data)
			// Free what was revoked.
			p.must(client.Op{Num: nfs4.OpFreeStateid, Args: &nfs4.FreeStateidArgs{Stateid: pl.get.Stateid}})
		})
	}
}

// TestRecallAgain: two recalls that follow each other at once both come to
// their end, many times over.
func TestRecallAgain(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "holder"), c.newPeer(t, "cutter")
	dir := p.dir()
	o := p.create(dir, "f")
	for i := range 60 {
		o.layout(nfs4.IOModeRW)
		q.must(putFH(o.fh), resize(nfs4.StateidAnonymous(), uint64(i)))
	}
	if n := len(p.recalls); n != 60 {
		t.Errorf("%d recalls, want 60", n)
	}
}

// TestTruncatingOpenRecalls is the same as an O_TRUNC.
func TestTruncatingOpenRecalls(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "holder"), c.newPeer(t, "cutter")
	dir := p.dir()
	o := p.create(dir, "f")
	pl := o.layout(nfs4.IOModeRW)
	data := pattern(3, 300_000)
	pl.write(0, data) // and no LAYOUTCOMMIT: what the cut takes was never known of
	how := nfs4.CreateHow{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}}
	other := q.openWith(dir, creating(openArgs("cutter", "f", 3), how))
	p.awaitRecall()
	q.must(putFH(o.fh), resize(other.id, uint64(len(data))))
	sameBytes(t, "grown", other.read(0, len(data)), make([]byte, len(data)))
	// The cutter's own layout stays, and is good for the new end.
	mine := other.layout(nfs4.IOModeRW)
	q.must(putFH(o.fh), resize(other.id, 10))
	if n := len(q.recalls); n != 0 {
		t.Errorf("%d recalls from the one who cuts", n)
	}
	mine.write(10, []byte("more"))
	mine.commit(14)
	sameBytes(t, "after the cut", other.read(0, 100), append(make([]byte, 10), "more"...))
}

// TestNoRecallForTheRefused: a SETATTR that may not be is no reason to take
// anybody's layout.
func TestNoRecallForTheRefused(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p, q := c.newPeer(t, "holder"), c.newPeer(t, "other")
	dir := p.dir()
	o := p.create(dir, "f")
	p.must(putFH(o.fh), setattr(nfs4.StateidAnonymous(), mode(0o644)))
	o.layout(nfs4.IOModeRW)
	q.as(1000, 1000).want(nfs4.ErrAccess, putFH(o.fh), resize(nfs4.StateidAnonymous(), 0))
	if n := len(p.recalls); n != 0 {
		t.Errorf("%d recalls", n)
	}
}

// TestCloseRecalls: a layout that was to be returned on close, and was not, is
// asked for.
func TestCloseRecalls(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	o.layout(nfs4.IOModeRW)
	o.close()
	p.awaitRecall()
	eventually(t, "an end of the layout", func() error {
		return layoutsOf(c, p)
	})
}

// layoutsOf says that a peer still has layouts.
func layoutsOf(c *cluster, p *peer) error {
	list, err := c.mds.Clients(context.Background())
	if err != nil {
		return err
	}
	for _, cl := range list {
		if cl.ID == fmt.Sprintf("%016x", uint64(p.nfs.ClientID())) {
			if cl.Layouts == 0 {
				return nil
			}
			return fmt.Errorf("%d layouts", cl.Layouts)
		}
	}
	return errors.New("client not known")
}

// TestTruncateWhileAway: a data server that is away keeps a truncation from
// being answered; it is done before the data server serves again.
func TestTruncateWhileAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4)
	p := c.newPeer(t, "a")
	o := p.create(p.dir(), "f")
	data := pattern(5, 1<<20)
	pl := o.layout(nfs4.IOModeRW)
	pl.write(0, data)
	pl.commit(uint64(len(data)))
	gone := c.ds[2]
	gone.stop()
	p.want(nfs4.ErrDelay, putFH(o.fh), resize(o.id, 1000))
	// Until it is done nobody gets at the file's data.
	p.want(nfs4.ErrDelay, putFH(o.fh), layoutGetOp(layoutGetArgs(o.id, nfs4.IOModeRW), &nfs4.LayoutGetRes{}))
	p.want(nfs4.ErrDelay, putFH(o.fh), readOp(o.id, 0, 10, &nfs4.ReadRes{}))
	p.want(nfs4.ErrDelay, putFH(o.fh), resize(o.id, 1000))
	gone.start()
	p.must(putFH(o.fh), resize(o.id, 1000))
	for path, n := range gone.objects() {
		if n > 1000 {
			t.Errorf("%s has %d bytes still", path, n)
		}
	}
	p.must(putFH(o.fh), resize(o.id, uint64(len(data))))
	want := append(append([]byte(nil), data[:1000]...), make([]byte, len(data)-1000)...)
	sameBytes(t, "cut and grown", o.layout(nfs4.IOModeRW).readAll(0, len(data), uint64(len(data))), want)
	sameBytes(t, "cut and grown, by proxy", o.read(0, len(data)), want)
}
