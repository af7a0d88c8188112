package state

import (
	"cmp"
	"slices"
	"time"

	"manifold/xdr/nfs4"
)

// settle is how long after a delegation was given a client that does not know
// it is believed to be about to learn of it: CB_RECALL may overtake the reply
// to OPEN (RFC 8881 section 2.10.6.3).
const settle = 5 * time.Second

// breakDelegs says whether delegations of other clients keep client id from s
// of a file, which may be nil, and answers what is to be done about them.
func (c *Core) breakDelegs(e env, f *file, id nfs4.ClientID, s share) (v Verdict, inWay bool) {
	if f == nil || f.delegs == 0 {
		return v, false
	}
	if st := f.stakes.get(id); st != nil && st.deleg != nil && (f.delegs == 1 || st.deleg.write) {
		return v, false
	}
	if f.writer == nil && s.access&nfs4.ShareAccessWrite == 0 && s.deny&nfs4.ShareDenyRead == 0 {
		return v, false // many may read the same file: do not look at each
	}
	var acts delegRecallActs
	var gone fading
	for other, st := range f.stakes.all() {
		d := st.deleg
		switch {
		case d == nil || other == id || !d.bars(s):
		case st.client.fading():
			gone.add(st.client)
		case d.due.IsZero():
			act := delegRecallAct{num: d.num, now: e.now, due: c.deadline(e.now)}
			acts = append(acts, act)
			out := d.show()
			out.Deadline = act.due
			v.Effects.RecallDeleg = append(v.Effects.RecallDeleg, out)
		}
	}
	v.Status = nfs4.ErrDelay
	v.Effects.Expire = gone.expire()
	slices.SortFunc(v.Effects.RecallDeleg, byDeleg)
	if len(acts) > 0 {
		v.Change = Change{acts}
	}
	return v, true
}

func (r DelegConflictReq) decide(c *Core, e env) Verdict {
	use := share{access: nfs4.ShareAccessRead}
	if r.Change {
		if c.inGrace(e.now) {
			return refuse(nfs4.ErrGrace) // a delegation may be yet to be reclaimed
		}
		use.access = nfs4.ShareAccessWrite
	}
	v, _ := c.breakDelegs(e, c.files.get(r.File), r.Client, use)
	return v
}

// delegRecallAct begins the recall of a delegation.
type delegRecallAct struct {
	num      uint64
	now, due time.Time
}

// delegRecallActs is several at once. What asks for a recall need not hold the
// file's lock, so a recall that began meanwhile goes on as it is.
type delegRecallActs []delegRecallAct

func (as delegRecallActs) apply(c *Core, _ *Effects) bool {
	done := false
	for _, a := range as {
		d := c.delegs.get(a.num)
		if d == nil {
			continue
		}
		if d.due.IsZero() {
			c.setDue(d, a.due)
			c.cool(d.stake.file.id, a.now)
		}
		done = true
	}
	return done
}

// delegDone is RecallDoneReq of a delegation.
func (r RecallDoneReq) delegDone(c *Core, e env) Verdict {
	st := c.stake(r.Client, r.File)
	if st == nil || st.deleg == nil || st.deleg.due.IsZero() || st.deleg.sid.Other != r.Stateid.Other {
		return Verdict{} // returned meanwhile
	}
	var v Verdict
	d := st.deleg
	act := delegEndAct{num: d.num, now: e.now}
	late := !e.now.Before(d.due)
	unknown := r.Answer == nfs4.ErrBadHandle || r.Answer == nfs4.ErrBadStateID
	switch {
	case unknown && !r.Revoke && (late || !e.now.Before(d.given.Add(settle))):
		act.left, v.Effects.Recall = c.leftLayout(e, st, st.opens.len())
	case r.Revoke || late:
		act.revoke = true
		v.Effects.Revoked = []Delegation{d.show()}
		if g := st.grant; d.write && g != nil && g.rw() {
			// What it has cached must not be written over what others write now.
			act.fence = true
			v.Effects.Fence, v.Effects.Grown = []Grant{g.show()}, []uint64{r.File}
		} else {
			act.left, v.Effects.Recall = c.leftLayout(e, st, st.opens.len())
		}
	case r.Answer == nfs4.OK:
		return v
	default:
		v.Effects.RecallDeleg = []Delegation{d.show()}
		return v
	}
	v.Change = Change{act}
	return v
}

// OverdueDelegs returns the delegations whose recall is past its deadline, by
// file and client: to each belongs a RecallDoneReq with Revoke.
func (c *Core) OverdueDelegs(now time.Time) []Delegation {
	var out []Delegation
	for d := range c.recalled {
		if !now.Before(d.due) {
			out = append(out, d.show())
		}
	}
	slices.SortFunc(out, byDeleg)
	c.cooling.forget(now, c.cfg.DelegPause, c.cfg.Total.Delegs)
	return out
}

// Surplus returns the clients that are to be asked with CB_RECALL_ANY (RFC 8881
// section 20.6), in order: those that have most of what one client may have, and
// once that goes for all together, those that have no less than others.
func (c *Core) Surplus() []nfs4.ClientID {
	var out []nfs4.ClientID
	most := func(n, limit int) bool { return n > 0 && n >= limit-limit/8 }
	holders := 0
	for _, cl := range c.clients {
		holders += min(cl.n.Delegs, 1)
	}
	for _, cl := range c.clients {
		n := cl.n.Delegs
		if most(n, c.cfg.PerClient.Delegs) || most(c.n.Delegs, c.cfg.Total.Delegs) && n*holders >= c.n.Delegs && n > 0 {
			out = append(out, cl.id)
		}
	}
	slices.Sort(out)
	return out
}

// cooling is the files of which a delegation was recalled lately.
type cooling struct {
	at    map[uint64]time.Time
	order []cooled // oldest first, some of them outdated by at
}

type cooled struct {
	file uint64
	at   time.Time
}

// hot says whether a file is not to be delegated.
func (k *cooling) hot(file uint64, now time.Time, pause time.Duration) bool {
	at, ok := k.at[file]
	return ok && now.Before(at.Add(pause))
}

// cool notes that a delegation of the file is being recalled, or was returned
// because of that. As many files are remembered as there may be delegations.
func (c *Core) cool(file uint64, now time.Time) {
	k, pause := &c.cooling, c.cfg.DelegPause
	if pause == 0 {
		return
	}
	k.at[file] = now
	k.order = append(k.order, cooled{file, now})
	k.forget(now, pause, max(c.cfg.Total.Delegs, 1))
}

// forget forgets the files that are cool, and the first if there are more than
// most.
func (k *cooling) forget(now time.Time, pause time.Duration, most int) {
	for len(k.order) > 0 && (len(k.order) > most || !now.Before(k.order[0].at.Add(pause))) {
		first := k.order[0]
		k.order = k.order[1:]
		if k.at[first.file].Equal(first.at) {
			delete(k.at, first.file)
		}
	}
	if len(k.order) == 0 {
		k.order = nil
	}
}

// byDeleg orders Delegations.
func byDeleg(a, b Delegation) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Client, b.Client))
}
