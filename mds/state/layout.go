package state

import (
	"slices"
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// grant is the layout that one client holds of one file. It is given whole, of
// one iomode or both, and may come back in parts. What is left when all of it is
// back, while a recall is still under way, holds nothing: it keeps the stateid
// good for the LAYOUTRETURN of all that was recalled, with which a client ends
// that (RFC 8881 section 12.5.5.1).
type grant struct {
	sid           nfs4.Stateid
	num           uint64
	stake         *stake
	reads, writes spans
	onClose       bool // logr_return_on_close was set
	ds            []layout.DSID
	recall        *recall // under way, or nil
	given         time.Time
	session       nfs4.SessionID // of the request by which it was given last
	call          nfs4.ReferringCall
}

// recall is a CB_LAYOUTRECALL that has not come to its end.
type recall struct {
	seqid    uint32
	deadline time.Time
	answered bool // with OK: LAYOUTRETURN is to come
	blocking bool // nobody gets a layout of the file meanwhile
	changed  bool // the layout is going to be another one
	bulk     bool // it is part of the recall of everything of the client
}

// rw says whether the client may write by g, holds whether it may do anything.
func (g *grant) rw() bool    { return len(g.writes) > 0 }
func (g *grant) holds() bool { return len(g.reads)+len(g.writes) > 0 }

// show returns g as others may see it.
func (g *grant) show() Grant {
	out := Grant{Client: g.stake.client.id, File: g.stake.file.id, Stateid: g.sid,
		IOMode: nfs4.IOModeRead, Reads: g.reads, Writes: g.writes, DS: g.ds,
		Given: g.given, Session: g.session, Call: g.call}
	if g.rw() {
		out.IOMode = nfs4.IOModeRW
	}
	if g.recall != nil {
		out.Deadline, out.Changed = g.recall.deadline, g.recall.changed
	}
	return out
}

// recalled returns g as it is to be recalled.
func (g *grant) recalled(r recall) Grant {
	out := g.show()
	out.Stateid.Seqid, out.Deadline, out.Changed = r.seqid, r.deadline, r.changed
	return out
}

func (r LayoutGetReq) decide(c *Core, e env) Verdict {
	cl, s := c.client(r.Client)
	if s != nfs4.OK {
		return refuse(s)
	}
	if r.IOMode != nfs4.IOModeRead && r.IOMode != nfs4.IOModeRW {
		return refuse(nfs4.ErrBadIOMode)
	}
	st := cl.stakes.get(r.File)
	if s := r.admit(c); s != nfs4.OK {
		return refuse(s)
	} else if st == nil {
		return refuse(nfs4.ErrBadStateID)
	}
	g, rw := st.grant, r.IOMode == nfs4.IOModeRW
	switch {
	case cl.bulk != nil:
		return refuse(nfs4.ErrRecallConflict)
	case g != nil && g.recall != nil && g.holds() && g.recall.answered:
		return refuse(nfs4.ErrReturnConflict)
	case g != nil && g.recall != nil && g.holds():
		return refuse(nfs4.ErrRecallConflict)
	case st.file.blocked > 0:
		return refuse(nfs4.ErrLayoutTryLater)
	case rw && !st.mayWrite() && (g == nil || !g.rw()):
		return refuse(nfs4.ErrOpenMode)
	}
	act := layoutGetAct{LayoutGetReq: r, now: e.now}
	if g != nil {
		// Also with an open stateid, as in OPEN's compound or from a client that
		// forgot the layout: a second "other" would make it return everything.
		act.sid, act.num = bump(g.sid), g.num
	} else if s := c.room(cl, layouts, 1); s != nfs4.OK {
		v := c.full(s, layouts)
		v.Status = nfs4.ErrLayoutUnavailable // the client then does its I/O through this server
		return v
	} else {
		act.sid, act.num = c.mint(kindLayout, r.Client, r.File)
	}
	return Verdict{Stateid: act.sid, Change: Change{act}}
}

// admit checks the stateid.
func (r LayoutGetReq) admit(c *Core) nfs4.Status {
	k, _, s := c.parse(r.Stateid)
	switch {
	case s != nfs4.OK:
	case k == kindLayout:
		_, s = c.findGrant(r.Client, r.File, r.Stateid)
	case k == kindDeleg:
		_, s = c.findDeleg(r.Client, r.File, r.Stateid)
	default:
		_, s = c.findUse(r.Client, r.File, r.Stateid)
	}
	return s
}

// layoutGetAct adds to a client's layout of a file, or makes it.
type layoutGetAct struct {
	LayoutGetReq
	now time.Time
	sid nfs4.Stateid
	num uint64
}

func (a layoutGetAct) apply(c *Core, _ *Effects) bool {
	cl, s := c.client(a.Client)
	if s != nfs4.OK || cl.bulk != nil {
		return false // the recall of everything may reach the client before the reply
	}
	st := c.enter(cl, a.File)
	g := st.grant
	if g == nil {
		g = &grant{num: a.num, stake: st}
		st.grant = g
		c.layouts.put(a.num, g)
		c.count(cl, layouts, 1)
	}
	g.sid, g.onClose = a.sid, a.ReturnOnClose
	g.given, g.session, g.call = a.now, a.Session, a.Call
	if !g.holds() {
		c.setRecall(g, nil) // all is back, and the client goes on
	}
	if a.IOMode == nfs4.IOModeRW {
		g.become(g.reads, wholeFile())
	} else {
		g.become(wholeFile(), g.writes)
	}
	for _, ds := range a.DS {
		if !slices.Contains(g.ds, ds) {
			g.ds = append(g.ds, ds)
			c.use(ds, g)
		}
	}
	return true
}

// use notes that a layout needs a data server.
func (c *Core) use(ds layout.DSID, g *grant) {
	if c.onDS[ds] == nil {
		c.onDS[ds] = map[*grant]struct{}{}
	}
	c.onDS[ds][g] = struct{}{}
}

func (r LayoutReturnReq) decide(c *Core, e env) Verdict {
	cl, s := c.client(r.Client)
	switch {
	case s != nfs4.OK:
		return refuse(s)
	case r.IOMode < nfs4.IOModeRead || r.IOMode > nfs4.IOModeAny:
		return refuse(nfs4.ErrBadIOMode)
	case r.Reclaim && r.All, !r.All && !r.Range.Valid():
		return refuse(nfs4.ErrInval)
	case r.Reclaim:
		// Of a layout from before the restart, which nobody here knows of (RFC
		// 8881 section 18.44.3).
		return refuse(c.mayReturn(e.now, cl))
	}
	act := layoutReturnAct{client: r.Client, span: layout.WholeFile(),
		read: r.IOMode != nfs4.IOModeRW, rw: r.IOMode != nfs4.IOModeRead}
	if r.All {
		return Verdict{Change: Change{act}}
	}
	g, s := c.findGrant(r.Client, r.File, r.Stateid)
	if s != nfs4.OK {
		return refuse(s)
	}
	act.num, act.sid, act.span = g.num, bump(g.sid), r.Range
	v := Verdict{Change: Change{act}}
	if reads, writes := g.without(act); g.stays(act, reads, writes) {
		v.Present, v.Stateid = true, act.sid
	}
	return v
}

// mayReturn says whether a client may do to layouts from before the restart
// what LAYOUTRETURN and LAYOUTCOMMIT with reclaim do.
func (c *Core) mayReturn(now time.Time, cl *client) nfs4.Status {
	switch {
	case !c.inGrace(now) || cl.complete:
		return nfs4.ErrNoGrace
	case !cl.reclaims:
		return nfs4.ErrReclaimBad
	}
	return nfs4.OK
}

// layoutReturnAct gives back a layout, or with num 0 all of a client.
type layoutReturnAct struct {
	client   nfs4.ClientID
	num      uint64
	sid      nfs4.Stateid
	span     layout.Range
	read, rw bool
}

// all says whether nothing can be left after a.
func (a layoutReturnAct) all() bool { return a.read && a.rw && a.span.Contains(layout.WholeFile()) }

// without returns what is left of g after a.
func (g *grant) without(a layoutReturnAct) (reads, writes spans) {
	reads, writes = g.reads, g.writes
	if a.read {
		reads = reads.without(a.span)
	}
	if a.rw {
		writes = writes.without(a.span)
	}
	return reads, writes
}

// stays says whether g's stateid is still good after a, which leaves reads and
// writes: also if nothing is left, as long as the client has to end a recall of
// this layout by returning all that was recalled.
func (g *grant) stays(a layoutReturnAct, reads, writes spans) bool {
	return len(reads)+len(writes) > 0 || g.recall != nil && !g.recall.bulk && !a.all()
}

func (a layoutReturnAct) apply(c *Core, _ *Effects) bool {
	cl, s := c.client(a.client)
	if s != nfs4.OK {
		return false
	}
	if a.num != 0 {
		if g := c.layouts.get(a.num); g != nil {
			g.sid = a.sid
			c.giveBack(g, a)
		}
		return true
	}
	for _, st := range cl.stakes.m {
		if st.grant != nil {
			c.giveBack(st.grant, a)
		}
	}
	if a.all() {
		c.dropBulk(cl)
	}
	return true
}

func (c *Core) giveBack(g *grant, a layoutReturnAct) {
	reads, writes := g.without(a)
	if !g.stays(a, reads, writes) {
		c.dropGrant(g)
		c.leave(g.stake)
		return
	}
	g.become(reads, writes)
	if !g.holds() {
		over := *g.recall
		over.blocking = false
		c.setRecall(g, &over)
	}
}

// become changes what is held.
func (g *grant) become(reads, writes spans) {
	if g.rw() {
		g.stake.file.writable--
	}
	g.reads, g.writes = reads, writes
	if g.rw() {
		g.stake.file.writable++
	}
}

// dropGrant ends a layout, and its recall. The stake stays.
func (c *Core) dropGrant(g *grant) {
	g.become(nil, nil)
	c.setRecall(g, nil)
	for _, ds := range g.ds {
		delete(c.onDS[ds], g)
		if len(c.onDS[ds]) == 0 {
			delete(c.onDS, ds)
		}
	}
	c.layouts.drop(g.num)
	g.stake.grant = nil
	c.count(g.stake.client, layouts, -1)
	c.endBulk(g.stake.client)
}

func (r LayoutCommitReq) decide(c *Core, e env) Verdict {
	cl, s := c.client(r.Client)
	switch {
	case s != nfs4.OK:
		return refuse(s)
	case r.Reclaim:
		return refuse(c.mayReturn(e.now, cl))
	}
	k, num, s := c.parse(r.Stateid)
	st := cl.stakes.get(r.File)
	v := Verdict{Writer: st != nil && (st.mayWrite() || st.grant != nil && st.grant.rw())}
	switch {
	case !r.Stateid.IsSpecial() && c.foreign(r.Stateid):
		if st != nil && st.mayWrite() {
			return v
		}
		// Linux lets this one pass. The size is learned from the data servers.
		return refuse(nfs4.ErrBadLayout)
	case s != nfs4.OK || k != kindLayout || num > c.next || !tagged(r.Stateid, r.Client, r.File):
		return refuse(nfs4.ErrBadStateID)
	}
	if g := c.layouts.get(num); g != nil && g.sid.Other == r.Stateid.Other {
		if _, s = c.findGrant(r.Client, r.File, r.Stateid); s != nfs4.OK {
			return refuse(s)
		}
		return v
	}
	if cl.wasRevoked(num, r.File, r.Stateid) {
		return refuse(nfs4.ErrAdminRevoked)
	}
	return v
}
