package wire_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// TestStorm has several clients do everything at once to a few files. Nothing
// may hang, nothing may be the server's fault, and nothing may be left over.
func TestStorm(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	dir := c.newPeer(t, "dir").dir()
	var wg sync.WaitGroup
	end := time.Now().Add(3 * time.Second)
	for i := range 5 {
		p := c.newPeer(t, fmt.Sprint(i))
		r := rand.New(rand.NewPCG(uint64(i), 9))
		wg.Go(func() {
			for time.Now().Before(end) {
				p.storm(dir, r)
			}
		})
	}
	wg.Wait()
	last := c.newPeer(t, "last")
	for i := range stormFiles {
		switch s := last.try(putFH(dir), remove(entryName(i))); s {
		case nfs4.OK, nfs4.ErrNoEnt:
		default:
			t.Errorf("remove: %v", s)
		}
	}
	eventually(t, "end of everything", func() error {
		s := c.status()
		if s.Opens+s.Locks+s.Layouts+s.Recalls != 0 || c.objects() != 0 {
			return fmt.Errorf("%d opens, %d locks, %d layouts, %d recalls, %d objects", s.Opens, s.Locks, s.Layouts, s.Recalls, c.objects())
		}
		return nil
	})
}

const stormFiles = 4

// storm opens a file, does some things to it, and closes it.
func (p *peer) storm(dir nfs4.FH, r *rand.Rand) {
	name := entryName(r.IntN(stormFiles))
	how := nfs4.CreateHow{Attrs: mode(0o666)}
	if r.IntN(4) == 0 {
		how.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}
	}
	var or nfs4.OpenRes
	var fh nfs4.GetFHRes
	if !p.fine(putFH(dir), openOp(creating(openArgs("storm", name, 3), how), &or), getFH(&fh)) {
		return
	}
	o := &open{p: p, fh: fh.Object, id: or.Stateid}
	var get nfs4.LayoutGetRes
	layouts := 0
	for range r.IntN(8) {
		switch r.IntN(6) {
		case 0:
			if p.fine(putFH(o.fh), layoutGetOp(layoutGetArgs(o.id, nfs4.IOModeRW), &get)) {
				layouts++
				pl := &plan{o: o, get: get}
				pl.read()
				data := pattern(byte(r.Uint32()), 1+r.IntN(200_000))
				if err := pl.tryWrite(uint64(r.IntN(300_000)), data, nfs4.Unstable); err != nil && !refused(err) {
					p.t.Errorf("write: %v", err)
				}
				p.fine(putFH(o.fh), layoutCommitOp(get.Stateid, uint64(len(data)), &nfs4.LayoutCommitRes{}))
			}
		case 1:
			p.fine(putFH(o.fh), resize(o.id, uint64(r.IntN(400_000))))
		case 2:
			p.fine(putFH(o.fh), writeOp(o.id, uint64(r.IntN(300_000)), pattern(3, 1+r.IntN(100_000)), nfs4.Unstable, &nfs4.WriteRes{}))
		case 3:
			p.fine(putFH(o.fh), readOp(o.id, uint64(r.IntN(300_000)), 100_000, &nfs4.ReadRes{}))
		case 4:
			p.fine(putFH(dir), saveFH(), rename(name, entryName(r.IntN(stormFiles))))
		case 5:
			p.fine(putFH(dir), remove(name))
		}
	}
	if layouts > 0 && r.IntN(2) == 0 {
		p.fine(putFH(o.fh), layoutReturnOp(get.Stateid, nfs4.IOModeAny, &nfs4.LayoutReturnRes{}))
	}
	if s := p.try(putFH(o.fh), closeOp(nfs4.Stateid{Other: o.id.Other})); s != nfs4.OK {
		p.t.Errorf("close: %v", s)
	}
}

// fine runs a compound and says whether it succeeded. Some answers are nothing
// to wonder at.
func (p *peer) fine(ops ...client.Op) bool {
	switch s := p.try(ops...); s {
	case nfs4.OK:
		return true
	case nfs4.ErrNoEnt, nfs4.ErrDelay, nfs4.ErrRecallConflict, nfs4.ErrReturnConflict, nfs4.ErrLayoutTryLater, nfs4.ErrBadStateID, nfs4.ErrAdminRevoked:
	default:
		p.t.Errorf("%v: %v", names(ops), s)
	}
	return false
}

// TestLostReply: an operation whose connection broke while it ran is done once,
// and its reply is there for who asks again.
func TestLostReply(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	for i := range 40 {
		owner := fmt.Sprint(t.Name(), i, time.Now().UnixNano())
		r := newRaw(t, c.cfg.Listen, owner, 1)
		r.want(nfs4.OK, reclaimComplete())
		name := entryName(i)
		p.must(putFH(dir), makeDir(name, 0o755))
		// The connection ends somewhere around the operation.
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*50)*time.Microsecond)
		r.seq++
		_, _, err := client.Send(ctx, r.conn, sys(0, 0), 1, r.sequence(0, r.seq, true), putFH(dir), remove(name))
		cancel()
		r.conn.Close()
		again := dialRaw(t, c.cfg.Listen, owner, 1)
		again.sess, again.seq = r.sess, r.seq
		var s nfs4.Status
		eventually(t, "reply", func() error {
			if _, s = again.send(again.sequence(0, r.seq, true), putFH(dir), remove(name)); s == nfs4.ErrDelay {
				return s // it still runs
			}
			return nil
		})
		if s != nfs4.OK {
			t.Errorf("try %d: first %v, again %v", i, err, s)
		}
		p.want(nfs4.ErrNoEnt, putFH(dir), lookup(name))
		again.conn.Close()
	}
}

// TestLimits: past its limits the server says so, and goes on.
func TestLimits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(c *mdsConfig) {
		c.MaxOpens, c.MaxLocks, c.MaxLayouts, c.MaxClients, c.ClientShare = 3, 3, 2, 2, 100
	})
	p := c.newPeer(t, "a")
	dir := p.dir()
	var files []*open
	for i := range 3 {
		files = append(files, p.create(dir, entryName(i)))
	}
	if s := p.try(putFH(dir), openOp(creating(openArgs("owner", "over", 3), nfs4.CreateHow{Attrs: mode(0o666)}), &nfs4.OpenRes{})); s != nfs4.ErrResource && s != nfs4.ErrDelay {
		t.Errorf("one open too many: %v", s)
	}
	files[0].layout(nfs4.IOModeRW)
	files[1].layout(nfs4.IOModeRW)
	p.want(nfs4.ErrLayoutUnavailable, putFH(files[2].fh), layoutGetOp(layoutGetArgs(files[2].id, nfs4.IOModeRW), &nfs4.LayoutGetRes{}))
	files[2].write(0, []byte("by proxy then"), nfs4.FileSync)
	for i := range uint64(3) {
		p.must(putFH(files[0].fh), lockOp(newLock(files[0], "l", nfs4.LockWrite, 10*i, 1), &nfs4.LockRes{}))
	}
	if s := p.try(putFH(files[0].fh), lockOp(newLock(files[0], "l", nfs4.LockWrite, 100, 1), &nfs4.LockRes{})); s != nfs4.ErrResource && s != nfs4.ErrDelay {
		t.Errorf("one lock too many: %v", s)
	}
	files[0].close()
	b := c.newPeer(t, "b").create(dir, "b") // who holds nothing makes room
	third := dialRaw(t, c.cfg.Listen, "c", 1)
	s := third.exchange()
	if s == nfs4.OK {
		_, s = third.send(client.Op{Num: nfs4.OpCreateSession, Args: third.sessionArgs(4), Res: &third.sess})
	}
	if s != nfs4.ErrDelay && s != nfs4.ErrResource {
		t.Errorf("one client too many: %v", s)
	}
	b.close()
	p.create(dir, "again").close()
}
