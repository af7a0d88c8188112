package state

import (
	"maps"
	"slices"
	"time"

	"manifold/xdr/nfs4"
)

// inGrace says whether clients may still reclaim (RFC 8881 section 8.4.2.1).
func (c *Core) inGrace(now time.Time) bool {
	return len(c.waiting) > 0 && now.Before(c.until)
}

// mayClaim says whether a client may get new state, or with reclaim that which
// it had before the restart (RFC 8881 sections 8.4.2, 18.51.3).
func (c *Core) mayClaim(now time.Time, cl *client, reclaim bool) nfs4.Status {
	grace := c.inGrace(now)
	switch {
	case !reclaim && (grace || !cl.complete):
		// Also without grace, a client must say first that it has nothing to
		// reclaim.
		return nfs4.ErrGrace
	case !reclaim:
		return nfs4.OK
	case !grace || cl.complete:
		return nfs4.ErrNoGrace
	case !cl.reclaims:
		return nfs4.ErrReclaimBad
	}
	return nfs4.OK
}

// ReclaimComplete is RECLAIM_COMPLETE with rca_one_fs false (RFC 8881 section
// 18.51): the client is done reclaiming, and may ask for new state. A second
// one is ErrCompleteAlready.
func (c *Core) ReclaimComplete(id nfs4.ClientID) nfs4.Status {
	cl, s := c.client(id)
	if s != nfs4.OK {
		return s
	}
	if cl.complete {
		return nfs4.ErrCompleteAlready
	}
	cl.complete = true
	c.Unrecord(cl.name)
	return nfs4.OK
}

// Unrecord takes a client off the list of those that grace waits for: its
// record was removed, or it has come back as a new incarnation that has nothing
// to reclaim.
func (c *Core) Unrecord(name string) { delete(c.waiting, name) }

// Grace says whether the grace period runs, until when at most, and which
// clients of record have neither reclaimed nor gone. Once it is over, those
// lost their right to reclaim (RFC 8881 section 8.4.3).
func (c *Core) Grace(now time.Time) (active bool, until time.Time, waiting []string) {
	return c.inGrace(now), c.until, slices.Sorted(maps.Keys(c.waiting))
}
