package wire_test

import (
	"testing"
	"time"

	"manifold/xdr/nfs4"
)

// holder is a client that opens a file of a directory and locks some of it.
type holder struct {
	*raw
	fh nfs4.FH
	id nfs4.Stateid
}

func (c *cluster) holder(t *testing.T, owner string, dir nfs4.FH) *holder {
	t.Helper()
	h := &holder{raw: newRaw(t, c.cfg.Listen, owner, 1)}
	h.want(nfs4.OK, reclaimComplete())
	h.lock(t, dir, owner)
	return h
}

// lock opens the file and locks it, as soon as that is allowed.
func (h *holder) lock(t *testing.T, dir nfs4.FH, owner string) {
	t.Helper()
	var or nfs4.OpenRes
	var fh nfs4.GetFHRes
	eventually(t, "lock by "+owner, func() error {
		a := openArgs("o", "f", 3|nfs4.WantNoDeleg)
		if s := h.try(putFH(dir), openOp(creating(a, nfs4.CreateHow{Attrs: mode(0o666)}), &or), getFH(&fh)); s != nfs4.OK {
			return s
		}
		h.fh, h.id = fh.Object, or.Stateid
		if s := h.try(putFH(h.fh), lockOp(newLock(&open{id: h.id}, owner, nfs4.LockWrite, 0, 10), &nfs4.LockRes{})); s != nfs4.OK {
			return s
		}
		return nil
	})
}

// back is the same client after a restart of the server: reclaimed is what its
// reclaim of the open is answered with.
func (h *holder) back(t *testing.T, c *cluster) (again *holder, reclaimed nfs4.Status) {
	t.Helper()
	again = &holder{raw: newRaw(t, c.cfg.Listen, string(h.owner), 1), fh: h.fh}
	var or nfs4.OpenRes
	reclaimed = again.try(putFH(h.fh), reclaimOpen(&or))
	again.id = or.Stateid
	return again, reclaimed
}

// TestEdgeConditions: who lost a lock to another client, over a restart or over
// the end of its lease, does not reclaim it after one more restart, though it
// could not know; who lost nothing does (RFC 8881 section 8.4.3).
func TestEdgeConditions(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, h *holder, c *cluster) {
		t.Helper()
		if _, s := h.back(t, c); s != nfs4.ErrReclaimBad {
			t.Errorf("reclaim by who lost it: %v", s)
		}
	}
	t.Run("two restarts", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, 1, func(c *mdsConfig) { c.Grace = time.Second })
		dir := c.newPeer(t, "plain").dir()
		lost := c.holder(t, "lost", dir)
		c.restartMDS() // and it does not come back in time
		c.waitUp(1)
		c.waitGrace()
		other := c.holder(t, "other", dir)
		c.cfg.Grace = time.Minute
		c.restartMDS()
		refused(t, lost, c)
		if _, s := other.back(t, c); s != nfs4.OK {
			t.Errorf("reclaim by who has it: %v", s)
		}
	})
	t.Run("partition", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, 1, func(c *mdsConfig) { c.Grace = time.Minute })
		dir := c.newPeer(t, "plain").dir()
		lost := c.holder(t, "lost", dir)
		other := c.holder(t, "other", dir) // when the lease of the first has run out
		other.want(nfs4.OK, putFH(other.fh), closeOp(other.id))
		c.restartMDS()
		refused(t, lost, c)
	})
	t.Run("twice back", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, 1, func(c *mdsConfig) { c.Grace = time.Minute })
		dir := c.newPeer(t, "plain").dir()
		h := c.holder(t, "keeps", dir)
		for range 3 { // each time before it is done reclaiming
			c.restartMDS()
			var s nfs4.Status
			if h, s = h.back(t, c); s != nfs4.OK {
				t.Fatalf("reclaim: %v", s)
			}
			lock := newLock(&open{id: h.id}, "keeps", nfs4.LockWrite, 0, 10)
			lock.Reclaim = true
			h.want(nfs4.OK, putFH(h.fh), lockOp(lock, &nfs4.LockRes{}))
		}
	})
}
