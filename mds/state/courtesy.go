package state

import (
	"slices"
	"time"

	"manifold/xdr/nfs4"
)

// fading says whether what the client holds is to give way: its lease ran out,
// or its end has begun.
func (cl *client) fading() bool { return cl.going || !cl.lapsed.IsZero() }

// fading is clients that are in the way and will not stay there.
type fading []*client

func (cs *fading) add(cl *client) {
	if !slices.Contains(*cs, cl) {
		*cs = append(*cs, cl)
	}
}

// expire returns those whose end has not begun.
func (cs fading) expire() []nfs4.ClientID {
	var out []nfs4.ClientID
	for _, cl := range cs {
		if !cl.going {
			out = append(out, cl.id)
		}
	}
	slices.Sort(out)
	return out
}

// delay has the request try again when they are gone.
func (cs fading) delay() Verdict {
	return Verdict{Status: nfs4.ErrDelay, Effects: Effects{Expire: cs.expire()}}
}

// opposed says whether the file's opens but own, which may be nil, stand
// against client id's s, and answers with status if they are to stay.
func (f *file) opposed(id nfs4.ClientID, s share, own *open, status nfs4.Status) (v Verdict, inWay bool) {
	if !f.conflicts(s, own) {
		return v, false
	}
	var gone fading
	for other, st := range f.stakes.all() {
		for _, o := range st.opens.all() {
			if o == own || s.access&o.deny|s.deny&o.access == 0 {
				continue
			}
			if other == id || !st.client.fading() {
				return refuse(status), true
			}
			gone.add(st.client)
		}
	}
	return gone.delay(), true
}

// Courtesy is to be called when a client's lease runs out (RFC 8881 section
// 8.4.2.3: the server need not throw its state away at once). True makes
// it a courtesy client: it keeps everything until somebody's request conflicts
// with that (Effects.Expire), room is needed, or Stale names it. False means
// that it is to be expired now: nothing is gained by keeping it, or somebody
// waits for what it holds. Its record must stay as long as the client does, and
// go, durably, before Forget: then what it may reclaim after a restart is what
// nobody else got (RFC 8881 section 8.4.3).
func (c *Core) Courtesy(now time.Time, id nfs4.ClientID) bool {
	cl := c.clients[id]
	switch {
	case cl == nil || cl.going || c.cfg.Courtesy == 0 || cl.stakes.len() == 0:
		return false
	case !cl.lapsed.IsZero():
		return true
	}
	for _, st := range cl.stakes.m {
		if st.grant != nil && st.grant.holds() && st.grant.recall != nil || st.deleg != nil && !st.deleg.due.IsZero() || st.waitedFor() {
			return false
		}
	}
	cl.lapsed = now
	c.courtesy[cl] = struct{}{}
	return true
}

// Renew is to be called when a client whose lease had run out is heard of
// again, before its request is decided. True says that it lost nothing; false
// that it is unknown or its end has begun, and it gets NFS4ERR_EXPIRED.
func (c *Core) Renew(id nfs4.ClientID) bool {
	cl := c.clients[id]
	if cl == nil || cl.going {
		return false
	}
	c.unlapse(cl)
	return true
}

func (c *Core) unlapse(cl *client) {
	cl.lapsed = time.Time{}
	delete(c.courtesy, cl)
}

// Stale returns the courtesy clients that are to be expired though nobody wants
// what they hold: those whose time is up, and the oldest if there are as many
// clients as there may be. They are in order.
func (c *Core) Stale(now time.Time) []nfs4.ClientID {
	var gone fading
	for cl := range c.courtesy {
		if !now.Before(cl.lapsed.Add(c.cfg.Courtesy)) {
			gone.add(cl)
		}
	}
	if len(gone) == 0 && c.n.Clients >= c.cfg.Total.Clients {
		if cl := c.oldest(func(*Counts) *int { return &c.n.Clients }); cl != nil {
			gone.add(cl)
		}
	}
	return gone.expire()
}
