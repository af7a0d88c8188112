package state

import "manifold/xdr/nfs4"

// count adds to one of the Counts of a client and of all.
func (c *Core) count(cl *client, field func(*Counts) *int, by int) {
	*field(&cl.n) += by
	*field(&c.n) += by
}

// room says whether a client may have by more of something: ErrResource if its
// own bound is in the way, since only the client can make room, and ErrDelay if
// it is the server's.
func (c *Core) room(cl *client, field func(*Counts) *int, by int) nfs4.Status {
	switch {
	case *field(&cl.n)+by > *field(&c.cfg.PerClient):
		return nfs4.ErrResource
	case *field(&c.n)+by > *field(&c.cfg.Total):
		return nfs4.ErrDelay
	}
	return nfs4.OK
}

func opens(n *Counts) *int   { return &n.Opens }
func owners(n *Counts) *int  { return &n.Owners }
func locks(n *Counts) *int   { return &n.Locks }
func layouts(n *Counts) *int { return &n.Layouts }
func delegs(n *Counts) *int  { return &n.Delegs }

// full refuses for want of room. If it is the server's bound, somebody has to
// go: the client whose lease ran out first; without such a one, the one that
// hogs what there is.
func (c *Core) full(s nfs4.Status, field func(*Counts) *int) Verdict {
	v := refuse(s)
	if s == nfs4.ErrResource {
		return v
	}
	if cl := c.oldest(field); cl != nil {
		v.Effects.Expire = []nfs4.ClientID{cl.id}
	} else if cl := c.hog(field); cl != nil {
		v.Effects.Evict = []nfs4.ClientID{cl.id}
	}
	return v
}

// oldest returns the courtesy client that has been one for longest of those
// that have any of field, or nil.
func (c *Core) oldest(field func(*Counts) *int) *client {
	var found *client
	for cl := range c.courtesy {
		if *field(&cl.n) == 0 {
			continue
		}
		if found == nil || cl.lapsed.Before(found.lapsed) || cl.lapsed.Equal(found.lapsed) && cl.id < found.id {
			found = cl
		}
	}
	return found
}

// MayOpen says whether a client may have one more open, before a file is made
// that it could not open then: ErrResource, ErrExpired, ErrDelay with Effects.
func (c *Core) MayOpen(id nfs4.ClientID) Verdict {
	cl, s := c.client(id)
	if s != nfs4.OK {
		return refuse(s)
	}
	if s := c.room(cl, opens, 1); s != nfs4.OK {
		return c.full(s, opens)
	}
	return Verdict{}
}

// hog returns the client that has most of field, if that is half of what one
// client may have, or more; else nil: there is just not enough.
func (c *Core) hog(field func(*Counts) *int) *client {
	var found *client
	for _, cl := range c.clients {
		n := *field(&cl.n)
		switch {
		case 2*n < *field(&c.cfg.PerClient):
			continue
		case cl.going:
			return nil // there will be room
		}
		if found == nil || n > *field(&found.n) || n == *field(&found.n) && cl.id < found.id {
			found = cl
		}
	}
	return found
}

// Live says whether a client is known, and its end has not begun.
func (c *Core) Live(id nfs4.ClientID) bool {
	cl := c.clients[id]
	return cl != nil && !cl.going
}

// Full says that there may be no more clients.
func (c *Core) Full() bool { return c.n.Clients >= c.cfg.Total.Clients }

// Census counts what the Core keeps of clients, by the name of the table. All
// are 0 when all clients are gone, but "cooling" later, and "waiting" after
// grace.
func (c *Core) Census() map[string]int {
	n := map[string]int{
		"clients": len(c.clients), "courtesy": len(c.courtesy), "files": c.files.len(), "opens": c.opens.len(),
		"lock_owners": c.owners.len(), "layouts": c.layouts.len(), "delegations": c.delegs.len(),
		"data_servers": len(c.onDS), "layout_recalls": len(c.recalls), "delegation_recalls": len(c.recalled),
		"bulk_recalls": len(c.bulks), "waited_for": len(c.waited), "cooling": len(c.cooling.at), "waiting": len(c.waiting), "locks": 0, "revoked": 0,
	}
	for _, f := range c.files.m {
		n["locks"] += len(f.locks)
	}
	for _, cl := range c.clients {
		n["revoked"] += len(cl.revoked) + len(cl.lost)
	}
	return n
}
