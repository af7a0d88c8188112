package state

import "manifold/xdr/nfs4"

// open is one open-owner's open of one file.
type open struct {
	sid   nfs4.Stateid
	num   uint64
	stake *stake
	owner string
	share
	// seen has bit access<<2|deny set for each OPEN that share is the union of:
	// OPEN_DOWNGRADE may go back to a union of some of them.
	seen   uint16
	owners few[string, *lockOwner]
}

// share is an access and a deny mode, each of bits OPEN4_SHARE_..._READ and
// _WRITE.
type share struct{ access, deny uint32 }

func (s share) valid() bool {
	return s.access >= nfs4.ShareAccessRead && s.access <= nfs4.ShareAccessBoth && s.deny <= nfs4.ShareDenyBoth
}

func (s share) bit() uint16 { return 1 << (s.access<<2 | s.deny) }

// within returns those OPENs of seen that ask for no more than s.
func (s share) within(seen uint16) (kept uint16, union share) {
	for access := range uint32(4) {
		for deny := range uint32(4) {
			one := share{access, deny}
			if seen&one.bit() != 0 && access&^s.access == 0 && deny&^s.deny == 0 {
				kept |= one.bit()
				union = share{union.access | access, union.deny | deny}
			}
		}
	}
	return kept, union
}

// tally adds a share to the file's counters, or takes it out.
func (f *file) tally(s share, by int) {
	for i := range 2 {
		f.access[i] += by * int(s.access>>i&1)
		f.deny[i] += by * int(s.deny>>i&1)
	}
}

// conflicts says whether another open than own, which may be nil, denies s or
// has what s denies (RFC 8881 section 18.16.3). f may be nil.
func (f *file) conflicts(s share, own *open) bool {
	if f == nil {
		return false
	}
	var mine share
	if own != nil {
		mine = own.share
	}
	for i := range 2 {
		if s.access>>i&1 != 0 && f.deny[i] > int(mine.deny>>i&1) ||
			s.deny>>i&1 != 0 && f.access[i] > int(mine.access>>i&1) {
			return true
		}
	}
	return false
}

func (r OpenReq) decide(c *Core, e env) Verdict {
	want := share{r.Access, r.Deny}
	cl, s := c.client(r.Client)
	switch {
	case s != nfs4.OK:
		return refuse(s)
	case !want.valid() || r.Reclaim && r.DelegCur:
		return refuse(nfs4.ErrInval)
	}
	if s := r.admit(c, e, cl); s != nfs4.OK {
		return refuse(s)
	}
	// Its holder may have closed what stands here as open, so what shares deny is
	// known only when a delegation is back.
	f := c.files.get(r.File)
	if v, inWay := c.breakDelegs(e, f, r.Client, want); inWay {
		return v
	}
	var own *open
	if st := cl.stakes.get(r.File); st != nil {
		own = st.opens.get(string(r.Owner))
	}
	if r.Reclaim && f.conflicts(want, own) {
		return refuse(nfs4.ErrReclaimConflict)
	} else if v, inWay := f.opposed(r.Client, want, own, nfs4.ErrShareDenied); inWay {
		return v
	}
	act := openAct{client: r.Client, file: r.File, owner: string(r.Owner), want: want}
	if own != nil {
		act.sid, act.num = bump(own.sid), own.num
	} else if s := c.room(cl, opens, 1); s != nfs4.OK {
		return c.full(s, opens)
	} else {
		act.sid, act.num = c.mint(kindOpen, r.Client, r.File)
	}
	v := Verdict{Stateid: act.sid}
	act.deleg, v.Delegation, v.WhyNone = r.delegate(c, e, cl)
	v.Change = Change{act}
	return v
}

// admit says whether the client may open anything now. What it opened under a
// delegation is no new state: nobody else can have got, or reclaim, what
// conflicts with it.
func (r OpenReq) admit(c *Core, e env, cl *client) nfs4.Status {
	if r.DelegCur {
		d, s := c.findDeleg(r.Client, r.File, r.Deleg)
		within := r.Access&nfs4.ShareAccessWrite == 0 && r.Deny&nfs4.ShareDenyRead == 0
		if s != nfs4.OK || d.write || within {
			return s
		}
	}
	return c.mayClaim(e.now, cl, r.Reclaim)
}

// openAct adds a share to an open-owner's open, or makes that.
type openAct struct {
	client nfs4.ClientID
	file   uint64
	owner  string
	want   share
	sid    nfs4.Stateid
	num    uint64
	deleg  delegAct
}

func (a openAct) apply(c *Core, _ *Effects) bool {
	cl, s := c.client(a.client)
	if s != nfs4.OK {
		return false
	}
	st := c.enter(cl, a.file)
	o := st.opens.get(a.owner)
	if o == nil {
		o = &open{num: a.num, stake: st, owner: a.owner}
		st.opens.add(o)
		c.opens.put(a.num, o)
		st.file.opens++
		c.count(cl, opens, 1)
	}
	o.sid = a.sid
	o.seen |= a.want.bit()
	o.become(share{o.access | a.want.access, o.deny | a.want.deny})
	c.giveDeleg(st, a.deleg)
	return true
}

// become changes what an open has and denies.
func (o *open) become(s share) {
	o.stake.file.tally(o.share, -1)
	o.stake.file.tally(s, 1)
	o.stake.writers += int(s.access>>1&1) - int(o.access>>1&1)
	o.share = s
}

func (r DowngradeReq) decide(c *Core, _ env) Verdict {
	if _, s := c.client(r.Client); s != nfs4.OK {
		return refuse(s)
	}
	o, s := c.findOpen(r.Client, r.File, r.Stateid)
	if s != nfs4.OK {
		return refuse(s)
	}
	to := share{r.Access, r.Deny}
	if !to.valid() {
		return refuse(nfs4.ErrInval)
	}
	kept, union := to.within(o.seen)
	if union != to {
		return refuse(nfs4.ErrInval)
	}
	sid := bump(o.sid)
	return Verdict{Stateid: sid, Change: Change{downgradeAct{r.Client, o.num, sid, to, kept}}}
}

// downgradeAct takes away from an open.
type downgradeAct struct {
	client nfs4.ClientID
	num    uint64
	sid    nfs4.Stateid
	to     share
	kept   uint16
}

func (a downgradeAct) apply(c *Core, _ *Effects) bool {
	o := c.opens.get(a.num)
	if _, s := c.client(a.client); s != nfs4.OK || o == nil {
		return false
	}
	o.become(a.to)
	o.sid, o.seen = a.sid, a.kept
	return true
}

func (r CloseReq) decide(c *Core, e env) Verdict {
	if _, s := c.client(r.Client); s != nfs4.OK {
		return refuse(s)
	}
	o, s := c.findOpen(r.Client, r.File, r.Stateid)
	if s != nfs4.OK {
		return refuse(s)
	}
	v := Verdict{Stateid: nfs4.StateidInvalid()}
	act := closeAct{client: r.Client, file: r.File, num: o.num}
	if o.stake.deleg == nil {
		act.left, v.Effects.Recall = c.leftLayout(e, o.stake, o.stake.opens.len()-1)
	}
	v.Change = Change{act}
	return v
}

// leftLayout returns the recall of the layout that a client was to return with
// its last open or delegation of the file and did not, if opens are left and no
// delegation (RFC 8881 section 18.43.3: be prepared to recall). With recallAct's
// num 0 there is none.
func (c *Core) leftLayout(e env, st *stake, opens int) (recallAct, []Grant) {
	g := st.grant
	if g == nil || !g.onClose || g.recall != nil || opens > 0 {
		return recallAct{}, nil
	}
	act := recallAct{client: st.client.id, file: st.file.id, num: g.num,
		recall: recall{seqid: bump(g.sid).Seqid, deadline: c.deadline(e.now)}}
	return act, []Grant{g.recalled(act.recall)}
}

// closeAct drops an open, and begins to recall the layout that it leaves.
type closeAct struct {
	client nfs4.ClientID
	file   uint64
	num    uint64
	left   recallAct
}

func (a closeAct) apply(c *Core, e *Effects) bool {
	o := c.opens.get(a.num)
	if _, s := c.client(a.client); s != nfs4.OK || o == nil {
		return false
	}
	st := o.stake
	c.dropOpen(o)
	e.Notify = c.release(st.file)
	if !st.file.used() {
		e.Idle = append(e.Idle, a.file)
	}
	if a.left.num != 0 {
		a.left.apply(c, e)
	}
	c.leave(st)
	return true
}

// dropOpen ends an open and the locks taken or waited for through it. The stake
// stays.
func (c *Core) dropOpen(o *open) {
	c.endWaits(o.stake.file, func(w lockWait) bool { return w.open == o })
	ranges := 0
	for _, lo := range o.owners.all() {
		ranges += lo.ranges
	}
	if ranges > 0 {
		c.unlock(o.stake, o)
	}
	for _, lo := range o.owners.all() {
		c.dropOwner(lo)
	}
	o.become(share{})
	st := o.stake
	st.opens.drop(o)
	c.opens.drop(o.num)
	st.file.opens--
	c.count(st.client, opens, -1)
}

func (r IOReq) decide(c *Core, e env) Verdict {
	if _, s := c.client(r.Client); s != nfs4.OK {
		return refuse(s)
	}
	f := c.files.get(r.File)
	use := share{access: nfs4.ShareAccessRead}
	if r.Write {
		use.access = nfs4.ShareAccessWrite
	}
	if r.Stateid.IsAnonymous() || r.Stateid.IsBypass() {
		switch {
		case c.inGrace(e.now):
			// A share reservation that denies this may be yet to be reclaimed.
			return refuse(nfs4.ErrGrace)
		}
		v, inWay := c.breakDelegs(e, f, r.Client, use)
		if !inWay && !(r.Stateid.IsBypass() && !r.Write) {
			v, _ = f.opposed(r.Client, use, nil, nfs4.ErrLocked)
		}
		return v
	}
	if k, _, s := c.parse(r.Stateid); s == nfs4.OK && k == kindDeleg {
		d, s := c.findDeleg(r.Client, r.File, r.Stateid)
		if s == nfs4.OK && (r.Write && !d.write || r.Empty) {
			s = nfs4.ErrOpenMode
		}
		return refuse(s)
	}
	o, s := c.findUse(r.Client, r.File, r.Stateid)
	switch {
	case s != nfs4.OK:
		return refuse(s)
	case use.access&^o.access == 0:
		return Verdict{}
	case r.Write:
		return refuse(nfs4.ErrOpenMode)
	}
	// A client that writes parts of pages must read them first, so an open for
	// writing may read too, but not past another's denial (RFC 8881 section
	// 9.1.2).
	v, _ := f.opposed(r.Client, use, o, nfs4.ErrLocked)
	return v
}

// refuse is a Verdict that changes nothing.
func refuse(s nfs4.Status) Verdict { return Verdict{Status: s} }
