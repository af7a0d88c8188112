package state

import (
	"slices"
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// grant is the layout that one client holds of one file: whole, of one iomode or
// both.
type grant struct {
	sid      nfs4.Stateid
	num      uint64
	stake    *stake
	read, rw bool
	onClose  bool // logr_return_on_close was set
	ds       []layout.DSID
	recall   *recall // under way, or nil
}

// recall is a CB_LAYOUTRECALL that has not come to its end.
type recall struct {
	seqid    uint32
	deadline time.Time
	answered bool // with OK: LAYOUTRETURN is to come
	blocking bool // nobody gets a layout of the file meanwhile
}

// show returns g as others may see it.
func (g *grant) show() Grant {
	out := Grant{Client: g.stake.client.id, File: g.stake.file.id, Stateid: g.sid,
		IOMode: nfs4.IOModeRead, DS: g.ds}
	if g.rw {
		out.IOMode = nfs4.IOModeRW
	}
	if g.recall != nil {
		out.Deadline = g.recall.deadline
	}
	return out
}

// recalled returns g as it is to be recalled.
func (g *grant) recalled(r recall) Grant {
	out := g.show()
	out.Stateid.Seqid, out.Deadline = r.seqid, r.deadline
	return out
}

func (r LayoutGetReq) decide(c *Core, _ env) Verdict {
	cl, s := c.client(r.Client)
	if s != nfs4.OK {
		return refuse(s)
	}
	if r.IOMode != nfs4.IOModeRead && r.IOMode != nfs4.IOModeRW {
		return refuse(nfs4.ErrBadIOMode)
	}
	st := cl.stakes[r.File]
	if s := r.admit(c); s != nfs4.OK {
		return refuse(s)
	} else if st == nil {
		return refuse(nfs4.ErrBadStateID)
	}
	g, rw := st.grant, r.IOMode == nfs4.IOModeRW
	switch {
	case g != nil && g.recall != nil && g.recall.answered:
		return refuse(nfs4.ErrReturnConflict)
	case g != nil && g.recall != nil:
		return refuse(nfs4.ErrRecallConflict)
	case st.file.blocked > 0:
		return refuse(nfs4.ErrLayoutTryLater)
	case rw && !st.mayWrite() && (g == nil || !g.rw):
		return refuse(nfs4.ErrOpenMode)
	}
	act := layoutGetAct{client: r.Client, file: r.File, rw: rw, ds: r.DS, onClose: r.ReturnOnClose}
	if g != nil {
		// Also with an open stateid, as in OPEN's compound or from a client that
		// forgot the layout: a second "other" would make it return everything.
		act.sid, act.num = bump(g.sid), g.num
	} else if c.room(cl, layouts, 1) != nfs4.OK {
		// The client then does its I/O through this server.
		return c.full(nfs4.ErrLayoutUnavailable, layouts)
	} else {
		act.sid, act.num = c.mint(kindLayout, r.Client, r.File)
	}
	return Verdict{Stateid: act.sid, Change: Change{act}}
}

// admit checks the stateid. One from before a restart is ErrBadStateID, which
// makes Linux ask again with another; it passes ErrStaleStateID on to the
// application.
func (r LayoutGetReq) admit(c *Core) nfs4.Status {
	k, _, s := c.parse(r.Stateid)
	switch {
	case s != nfs4.OK:
		s = nfs4.ErrBadStateID
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
	client  nfs4.ClientID
	file    uint64
	rw      bool
	onClose bool
	ds      []layout.DSID
	sid     nfs4.Stateid
	num     uint64
}

func (a layoutGetAct) apply(c *Core, _ *Effects) bool {
	cl, s := c.client(a.client)
	if s != nfs4.OK {
		return false
	}
	st := c.enter(cl, a.file)
	g := st.grant
	if g == nil {
		g = &grant{num: a.num, stake: st}
		st.grant = g
		c.layouts[a.num] = g
		c.count(cl, layouts, 1)
	}
	g.sid, g.onClose = a.sid, a.onClose
	g.become(g.read || !a.rw, g.rw || a.rw)
	for _, ds := range a.ds {
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
	case r.Reclaim:
		// Of a layout from before the restart, which nobody here knows of (RFC
		// 8881 section 18.44.3).
		return refuse(c.mayReturn(e.now, cl))
	}
	act := layoutReturnAct{client: r.Client,
		read: r.IOMode != nfs4.IOModeRW, rw: r.IOMode != nfs4.IOModeRead}
	if r.All {
		return Verdict{Change: Change{act}}
	}
	g, s := c.findGrant(r.Client, r.File, r.Stateid)
	switch {
	case s != nfs4.OK:
		return refuse(s)
	case !r.Range.Valid():
		return refuse(nfs4.ErrInval)
	}
	act.num, act.sid = g.num, bump(g.sid)
	if !r.Range.Contains(layout.WholeFile()) {
		act.read, act.rw = false, false
	}
	v := Verdict{Change: Change{act}}
	if left, _ := g.without(act); left {
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
	read, rw bool
}

// without says what is left of g after a: anything at all, and for writing.
func (g *grant) without(a layoutReturnAct) (left, rw bool) {
	rw = g.rw && !a.rw
	return rw || g.read && !a.read, rw
}

func (a layoutReturnAct) apply(c *Core, _ *Effects) bool {
	cl, s := c.client(a.client)
	if s != nfs4.OK {
		return false
	}
	if a.num != 0 {
		if g := c.layouts[a.num]; g != nil {
			g.sid = a.sid
			c.giveBack(g, a)
		}
		return true
	}
	for _, st := range cl.stakes {
		if st.grant != nil {
			c.giveBack(st.grant, a)
		}
	}
	return true
}

func (c *Core) giveBack(g *grant, a layoutReturnAct) {
	left, rw := g.without(a)
	if !left {
		c.dropGrant(g)
		c.leave(g.stake)
		return
	}
	g.become(g.read && !a.read, rw)
}

// become changes the iomodes of a layout.
func (g *grant) become(read, rw bool) {
	if g.rw {
		g.stake.file.writable--
	}
	if rw {
		g.stake.file.writable++
	}
	g.read, g.rw = read, rw
}

// dropGrant ends a layout, and its recall. The stake stays.
func (c *Core) dropGrant(g *grant) {
	g.become(false, false)
	c.setRecall(g, nil)
	for _, ds := range g.ds {
		delete(c.onDS[ds], g)
		if len(c.onDS[ds]) == 0 {
			delete(c.onDS, ds)
		}
	}
	delete(c.layouts, g.num)
	g.stake.grant = nil
	c.count(g.stake.client, layouts, -1)
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
	switch {
	case s == nfs4.ErrStaleStateID:
		if st := cl.stakes[r.File]; st != nil && st.mayWrite() {
			return Verdict{}
		}
		// Linux lets this one pass. The size is learned from the data servers.
		return refuse(nfs4.ErrBadLayout)
	case s != nfs4.OK || k != kindLayout || num > c.next || !tagged(r.Stateid, r.Client, r.File):
		return refuse(nfs4.ErrBadStateID)
	}
	if g := c.layouts[num]; g != nil && g.sid.Other == r.Stateid.Other {
		_, s = c.findGrant(r.Client, r.File, r.Stateid)
		return refuse(s)
	}
	if cl.wasRevoked(num, r.File, r.Stateid) {
		return refuse(nfs4.ErrAdminRevoked)
	}
	return Verdict{}
}
