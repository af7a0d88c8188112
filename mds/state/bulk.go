package state

import (
	"maps"
	"slices"
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// bulk is the recall of everything that a client holds: CB_LAYOUTRECALL of an
// fsid or of all (RFC 8881 section 12.5.5.2.1.5). It has no stateid, so replies
// on their way cannot be told from what comes after it. It is not sent before
// the recalls of single layouts of the client are over, and from when it is
// wanted until it is over the client gets no layout.
//
// It ends with LAYOUTRETURN of the same kind, with NFS4ERR_NOMATCHING_LAYOUT, or
// when the client has answered and all is back one by one: the RFC has a
// LAYOUTRETURN of one file answered NFS4ERR_RECALLCONFLICT in section
// 12.5.5.2.1.5, does not list that error for it in section 15.2, and has clients
// return that way before the last one in section 18.44.4. What is returned is
// taken, since it can only take away.
type bulk struct {
	sent     bool
	answered bool // with OK: LAYOUTRETURN is to come
	changed  bool
	deadline time.Time
}

// everything is all layouts of a client, as one Grant with File 0.
func (cl *client) everything() Grant {
	all, uses := Grant{Client: cl.id, IOMode: nfs4.IOModeRead}, map[layout.DSID]bool{}
	for _, st := range cl.stakes.m {
		if st.grant == nil {
			continue
		}
		if st.grant.rw() {
			all.IOMode = nfs4.IOModeRW
		}
		for _, ds := range st.grant.ds {
			uses[ds] = true
		}
	}
	all.DS = slices.Sorted(maps.Keys(uses))
	if cl.bulk != nil {
		all.Deadline, all.Changed = cl.bulk.deadline, cl.bulk.changed
	}
	return all
}

// alone says whether no layout of the client is being recalled by itself.
func (cl *client) alone() bool {
	for _, st := range cl.stakes.m {
		if g := st.grant; g != nil && g.holds() && g.recall != nil && !g.recall.bulk {
			return false
		}
	}
	return true
}

// all is RecallReq with File 0.
func (r RecallReq) all(c *Core, e env) Verdict {
	cl := c.clients[r.Client]
	switch {
	case cl == nil || cl.bulk == nil && cl.n.Layouts == 0 || cl.bulk != nil && cl.bulk.sent:
		return Verdict{}
	case cl.fading():
		return Verdict{Effects: Effects{Expire: fading{cl}.expire()}}
	}
	// What the single ones may still take, and then as long again.
	next := bulk{changed: r.Changed, deadline: c.deadline(c.deadline(e.now))}
	if cl.bulk != nil {
		next = *cl.bulk
	}
	var v Verdict
	if cl.alone() {
		next.sent, next.deadline = true, c.deadline(e.now)
		all := cl.everything()
		all.Deadline, all.Changed = next.deadline, next.changed
		v.Effects.Recall = []Grant{all}
	}
	v.Change = Change{bulkAct{client: cl.id, next: next}}
	return v
}

// bulkAct sets how far the recall of everything of a client is.
type bulkAct struct {
	client nfs4.ClientID
	next   bulk
}

func (a bulkAct) apply(c *Core, _ *Effects) bool {
	cl, s := c.client(a.client)
	if s != nfs4.OK {
		return false
	}
	cl.bulk = &a.next
	c.bulks[cl] = struct{}{}
	for _, st := range cl.stakes.m {
		g := st.grant
		switch {
		case g == nil || g.recall != nil && !g.recall.bulk:
		case g.recall == nil:
			c.setRecall(g, &recall{seqid: g.sid.Seqid, deadline: a.next.deadline, changed: a.next.changed, bulk: true})
		default:
			g.recall.deadline = a.next.deadline
		}
	}
	c.endBulk(cl)
	return true
}

// endBulk ends the recall of everything of a client that has answered it and
// holds nothing any more.
func (c *Core) endBulk(cl *client) {
	if cl.bulk != nil && cl.bulk.answered && cl.n.Layouts == 0 {
		c.dropBulk(cl)
	}
}

func (c *Core) dropBulk(cl *client) {
	cl.bulk = nil
	delete(c.bulks, cl)
}

// allDone is RecallDoneReq with File 0.
func (r RecallDoneReq) allDone(c *Core, e env) Verdict {
	cl, s := c.client(r.Client)
	if s != nfs4.OK || cl.bulk == nil {
		return Verdict{} // returned meanwhile
	}
	next := *cl.bulk
	switch {
	case r.Answer == nfs4.ErrNoMatchingLayout && !r.Revoke && next.sent:
		return Verdict{Change: Change{bulkEndAct{cl.id}}}
	case r.Revoke || !e.now.Before(next.deadline):
		var v Verdict
		for _, st := range cl.stakes.m {
			if g := st.grant; g != nil && g.holds() {
				v.Effects.Fence = append(v.Effects.Fence, g.show())
			}
		}
		slices.SortFunc(v.Effects.Fence, byFile)
		if len(v.Effects.Fence) == 0 {
			v.Change = Change{bulkEndAct{cl.id}}
		}
		return v
	case r.Answer == nfs4.OK:
		next.answered = true
		return Verdict{Change: Change{bulkAct{client: cl.id, next: next}}}
	}
	return Verdict{Effects: Effects{Recall: []Grant{cl.everything()}}}
}

// bulkEndAct ends the recall of everything of a client, which has no layout any
// more.
type bulkEndAct struct {
	client nfs4.ClientID
}

func (a bulkEndAct) apply(c *Core, _ *Effects) bool {
	cl, s := c.client(a.client)
	if s != nfs4.OK || cl.bulk == nil {
		return false
	}
	c.dropBulk(cl)
	for _, st := range cl.stakes.m {
		// One that is recalled by itself was not there yet when the client answered.
		if g := st.grant; g != nil && (!g.holds() || g.recall != nil && g.recall.bulk) {
			c.dropGrant(g)
			c.leave(st)
		}
	}
	return true
}

// RecallingAll says whether everything of a client is being recalled, by when it
// must be back, and whether CB_LAYOUTRECALL may be sent: if not, RecallReq is to
// be asked again. Of a client whose end has begun nothing is recalled any more.
func (c *Core) RecallingAll(id nfs4.ClientID) (deadline time.Time, sent, ok bool) {
	if cl := c.clients[id]; cl != nil && cl.bulk != nil && !cl.going {
		return cl.bulk.deadline, cl.bulk.sent, true
	}
	return time.Time{}, false, false
}
