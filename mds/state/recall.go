package state

import (
	"slices"
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// setRecall begins, changes or with nil ends the recall of a layout.
func (c *Core) setRecall(g *grant, r *recall) {
	if g.recall != nil && g.recall.blocking {
		g.stake.file.blocked--
	}
	if r != nil && r.blocking {
		g.stake.file.blocked++
	}
	g.recall = r
	if r == nil {
		delete(c.recalls, g)
		return
	}
	c.recalls[g] = struct{}{}
}

// deadline is when a recall that begins now must be over. It is never less
// than what the RFC has a server wait, as long as the configuration says a lease
// (RFC 8881 section 12.5.5).
func (c *Core) deadline(now time.Time) time.Time { return now.Add(c.cfg.Recall) }

func (r RecallReq) decide(c *Core, e env) Verdict {
	if r.File == 0 {
		return r.all(c, e)
	}
	f := c.files.get(r.File)
	if f == nil {
		return Verdict{}
	}
	var v Verdict
	var acts recallActs
	var gone fading
	for id, st := range f.stakes.all() {
		g := st.grant
		if g == nil || !g.holds() || r.Client != 0 && id != r.Client || r.Client == 0 && id == r.Except {
			continue
		}
		act := recallAct{client: id, file: r.File, num: g.num}
		if g.recall != nil {
			act.recall = *g.recall
		} else {
			act.recall = recall{seqid: bump(g.sid).Seqid, deadline: c.deadline(e.now), changed: r.Changed}
			if !st.client.fading() {
				v.Effects.Recall = append(v.Effects.Recall, g.recalled(act.recall))
			}
		}
		if st.client.fading() {
			gone.add(st.client)
		}
		act.recall.blocking = act.recall.blocking || r.Client == 0
		acts = append(acts, act)
	}
	slices.SortFunc(v.Effects.Recall, byFile)
	v.Effects.Expire = gone.expire()
	if len(acts) > 0 {
		v.Change = Change{acts}
	}
	return v
}

// recallAct sets how far the recall of a layout is.
type recallAct struct {
	client nfs4.ClientID
	file   uint64
	num    uint64
	recall recall
}

func (a recallAct) apply(c *Core, _ *Effects) bool {
	g := c.layouts.get(a.num)
	if g == nil {
		return false
	}
	if !g.holds() {
		a.recall.blocking = false
	}
	if g.recall == nil || g.recall.seqid != a.recall.seqid {
		g.sid.Seqid = a.recall.seqid
	}
	c.setRecall(g, &a.recall)
	return true
}

// recallActs is several at once.
type recallActs []recallAct

func (as recallActs) apply(c *Core, e *Effects) bool {
	done := false
	for _, a := range as {
		done = a.apply(c, e) || done
	}
	return done
}

func (r RecallDoneReq) decide(c *Core, e env) Verdict {
	if r.File == 0 {
		return r.allDone(c, e)
	}
	if k, _, s := c.parse(r.Stateid); s == nfs4.OK && k == kindDeleg {
		return r.delegDone(c, e)
	}
	st := c.stake(r.Client, r.File)
	if st == nil || st.grant == nil || st.grant.recall == nil || st.grant.sid.Other != r.Stateid.Other {
		return Verdict{} // returned meanwhile
	}
	g := st.grant
	act := recallAct{client: r.Client, file: r.File, num: g.num, recall: *g.recall}
	late := r.Revoke || !e.now.Before(g.recall.deadline)
	switch {
	case r.Answer == nfs4.ErrNoMatchingLayout && !r.Revoke, !g.holds() && (late || r.Answer != nfs4.OK):
		return Verdict{Change: Change{endAct{num: g.num}}}
	case late:
		v := Verdict{Change: Change{endAct{num: g.num, revoke: true}}}
		v.Effects.Fence = []Grant{g.show()}
		if g.rw() {
			v.Effects.Grown = []uint64{r.File}
		}
		return v
	case r.Answer == nfs4.OK:
		act.recall.answered = true
		return Verdict{Change: Change{act}}
	case r.Answer == nfs4.ErrOldStateID || g.sid.Seqid != g.recall.seqid:
		// The client was ahead, or is after a LAYOUTRETURN of a part.
		act.recall.seqid = bump(g.sid).Seqid
	}
	v := Verdict{Change: Change{act}}
	v.Effects.Recall = []Grant{g.recalled(act.recall)}
	return v
}

// endAct ends a recall: the client has no layout of the file any more.
type endAct struct {
	num    uint64
	revoke bool
}

func (a endAct) apply(c *Core, _ *Effects) bool {
	g := c.layouts.get(a.num)
	if g == nil {
		return false
	}
	if a.revoke {
		g.stake.client.revoke(g, c.cfg.PerClient.Layouts)
	}
	c.dropGrant(g)
	c.leave(g.stake)
	return true
}

// Overdue returns the layouts whose recall is past its deadline, by file and
// client: to each belongs a RecallDoneReq with Revoke. Some may not be held any
// more, and just end then. Of what was recalled as everything of a client it has
// one Grant with File 0.
func (c *Core) Overdue(now time.Time) []Grant {
	var out []Grant
	for g := range c.recalls {
		if !g.recall.bulk && !now.Before(g.recall.deadline) {
			out = append(out, g.show())
		}
	}
	for cl := range c.bulks {
		if !now.Before(cl.bulk.deadline) {
			out = append(out, cl.everything())
		}
	}
	slices.SortFunc(out, byFile)
	return out
}

// Opens returns how many opens and delegations the file has: the holder of a
// delegation may have it open without a word.
func (c *Core) Opens(file uint64) int {
	if f := c.files.get(file); f != nil {
		return f.opens + f.delegs
	}
	return 0
}

// Layouts returns the layouts of a file, by client, but that of except (0 for
// nobody).
func (c *Core) Layouts(file uint64, except nfs4.ClientID) []Grant {
	var out []Grant
	if f := c.files.get(file); f != nil {
		for id, st := range f.stakes.all() {
			if st.grant != nil && st.grant.holds() && id != except {
				out = append(out, st.grant.show())
			}
		}
	}
	slices.SortFunc(out, byFile)
	return out
}

// LayoutsOf returns the layouts of a client, by file.
func (c *Core) LayoutsOf(id nfs4.ClientID) []Grant {
	var out []Grant
	if cl := c.clients[id]; cl != nil {
		for _, st := range cl.stakes.m {
			if st.grant != nil && st.grant.holds() {
				out = append(out, st.grant.show())
			}
		}
	}
	slices.SortFunc(out, byFile)
	return out
}

// LayoutsOn returns the layouts that use a data server, by file and client.
func (c *Core) LayoutsOn(ds layout.DSID) []Grant {
	var out []Grant
	for g := range c.onDS[ds] {
		if g.holds() {
			out = append(out, g.show())
		}
	}
	slices.SortFunc(out, byFile)
	return out
}
