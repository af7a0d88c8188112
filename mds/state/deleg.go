package state

import (
	"slices"
	"time"

	"manifold/xdr/nfs4"
)

// deleg is the delegation that one client holds of one file.
type deleg struct {
	sid   nfs4.Stateid
	num   uint64
	stake *stake
	write bool
	given time.Time // also when it was made one to write
	due   time.Time // when its recall ends in revocation; zero if none is under way
}

// show returns d as others may see it.
func (d *deleg) show() Delegation {
	out := Delegation{Client: d.stake.client.id, File: d.stake.file.id, Stateid: d.sid,
		Type: nfs4.DelegateRead, Deadline: d.due}
	if d.write {
		out.Type = nfs4.DelegateWrite
	}
	return out
}

// bars says whether another client must not have s while d is out. Under a
// delegation to read the holder opens the file for reading by itself, so
// nobody may deny that (RFC 8881 section 10.4).
func (d *deleg) bars(s share) bool {
	return d.write || s.access&nfs4.ShareAccessWrite != 0 || s.deny&nfs4.ShareDenyRead != 0
}

// admits says whether a delegation may be given to the client of st, which
// may be nil, as far as opens and layouts of other clients go: a delegation that
// is in the way of the OPEN itself has been taken back. f may be nil.
func (f *file) admits(st *stake, write bool) bool {
	switch {
	case f == nil:
		return true
	case write:
		return f.stakes.len() == 1 && st != nil
	}
	var mine file // what of f's counts is the client's own
	if st != nil {
		for _, o := range st.opens.all() {
			mine.tally(o.share, 1)
		}
		if st.grant != nil && st.grant.rw() {
			mine.writable = 1
		}
	}
	return f.access[1] == mine.access[1] && f.deny[0] == mine.deny[0] && f.writable == mine.writable
}

// wish is what an OPEN would like: why says why not, if not even looking
// further is worth it.
func (r OpenReq) wish(c *Core, e env) (write, ok bool, why nfs4.WhyNoDelegation) {
	if r.Reclaim {
		ok = r.Prev == nfs4.DelegateRead || r.Prev == nfs4.DelegateWrite
		return r.Prev == nfs4.DelegateWrite, ok, nfs4.NoDelegNotWanted
	}
	want, writes := r.Want&nfs4.WantDelegMask, r.Access&nfs4.ShareAccessWrite != 0
	switch {
	case want == nfs4.WantCancel:
		return false, false, nfs4.NoDelegCancelled
	case r.DelegCur, want > nfs4.WantAnyDeleg:
		return false, false, nfs4.NoDelegNotWanted
	case !r.CanCallback, r.Created && want == nfs4.WantNoPreference, want == nfs4.WantWriteDeleg && !writes:
		return false, false, nfs4.NoDelegResource
	case c.cooling.hot(r.File, e.now, c.cfg.DelegPause):
		return false, false, nfs4.NoDelegContention
	}
	return writes && want != nfs4.WantReadDeleg, true, 0
}

// delegate decides which delegation an OPEN that is granted gives along (RFC
// 8881 sections 10.4, 18.16.3).
func (r OpenReq) delegate(c *Core, e env, cl *client) (give delegAct, out Delegation, why nfs4.WhyNoDelegation) {
	write, ok, why := r.wish(c, e)
	if !ok {
		return give, out, why
	}
	f, st := c.files.get(r.File), cl.stakes.get(r.File)
	if st != nil && st.deleg != nil {
		return r.again(e, st.deleg, write)
	}
	if f != nil && f.recalled > 0 {
		return give, out, nfs4.NoDelegContention
	}
	if !f.admits(st, write) {
		// What is no use to write may be of use to read, for a client that says so.
		if r.Reclaim || !write || r.Want&nfs4.WantDelegMask != nfs4.WantAnyDeleg || !f.admits(st, false) {
			return give, out, nfs4.NoDelegContention
		}
		write = false
	}
	if c.room(cl, delegs, 1) != nfs4.OK {
		return give, out, nfs4.NoDelegResource
	}
	give = delegAct{write: write, now: e.now}
	give.sid, give.num = c.mint(kindDeleg, r.Client, r.File)
	out = Delegation{Client: r.Client, File: r.File, Stateid: give.sid, Type: nfs4.DelegateRead}
	if write {
		out.Type = nfs4.DelegateWrite
	}
	if r.Reclaim && !r.CanCallback {
		// It cannot be recalled, and the client may have changes to write back.
		give.due = c.deadline(e.now)
		out.Recall, out.Deadline = true, give.due
	}
	return give, out, 0
}

// again decides about a client that holds a delegation of the file already.
// One that did not ask is told nothing of it: it may be about to return it, and
// would take this for a new one.
func (r OpenReq) again(e env, d *deleg, write bool) (give delegAct, out Delegation, why nfs4.WhyNoDelegation) {
	want := r.Want & nfs4.WantDelegMask
	switch {
	case r.Reclaim && (d.write || !write):
		out = d.show()
		out.Recall = !d.due.IsZero()
		return give, out, 0
	case !r.Reclaim && want == nfs4.WantNoPreference:
		return give, out, nfs4.NoDelegNotWanted
	case d.stake.file.recalled > 0:
		return give, out, nfs4.NoDelegContention
	case d.write && want == nfs4.WantReadDeleg:
		return give, out, nfs4.NoDelegNotSuppDowngrade
	case d.write || !write:
		return give, d.show(), 0
	case !d.stake.file.admits(d.stake, true):
		return give, out, nfs4.NoDelegContention
	}
	give = delegAct{num: d.num, sid: bump(d.sid), write: true, now: e.now}
	out = d.show()
	out.Stateid, out.Type = give.sid, nfs4.DelegateWrite
	return give, out, 0
}

// delegAct gives a delegation, or makes one to read one to write. It is the
// part of an openAct; with num 0 it is nothing.
type delegAct struct {
	num   uint64
	sid   nfs4.Stateid
	write bool
	now   time.Time
	due   time.Time
}

func (c *Core) giveDeleg(st *stake, a delegAct) {
	if a.num == 0 {
		return
	}
	d := st.deleg
	if d == nil {
		d = &deleg{num: a.num, stake: st}
		st.deleg = d
		c.delegs.put(a.num, d)
		st.file.delegs++
		c.count(st.client, delegs, 1)
	}
	d.sid, d.write, d.given = a.sid, a.write, a.now
	if d.write {
		st.file.writer = d
	}
	if !a.due.IsZero() {
		c.setDue(d, a.due)
	}
}

// setDue begins the recall of a delegation, or with the zero time ends it.
func (c *Core) setDue(d *deleg, due time.Time) {
	if !d.due.IsZero() {
		d.stake.file.recalled--
		delete(c.recalled, d)
	}
	if !due.IsZero() {
		d.stake.file.recalled++
		c.recalled[d] = struct{}{}
	}
	d.due = due
}

// dropDeleg ends a delegation, and its recall. The stake stays.
func (c *Core) dropDeleg(d *deleg) {
	c.setDue(d, time.Time{})
	st := d.stake
	if st.file.writer == d {
		st.file.writer = nil
	}
	st.deleg = nil
	c.delegs.drop(d.num)
	st.file.delegs--
	c.count(st.client, delegs, -1)
}

func (r DelegReturnReq) decide(c *Core, e env) Verdict {
	if _, s := c.client(r.Client); s != nfs4.OK {
		return refuse(s)
	}
	d, s := c.findDeleg(r.Client, r.File, r.Stateid)
	if s != nfs4.OK {
		return refuse(s)
	}
	act, v := delegEndAct{client: r.Client, num: d.num, now: e.now}, Verdict{}
	act.left, v.Effects.Recall = c.leftLayout(e, d.stake, d.stake.opens.len())
	v.Change = Change{act}
	return v
}

// delegEndAct ends a delegation, and begins to recall the layout that it leaves
// or, with fence, drops it.
type delegEndAct struct {
	client nfs4.ClientID // who returns it; 0 if nobody does
	num    uint64
	revoke bool
	fence  bool
	left   recallAct
	now    time.Time
}

func (a delegEndAct) apply(c *Core, e *Effects) bool {
	d := c.delegs.get(a.num)
	if d == nil {
		return false
	}
	st := d.stake
	if a.client != 0 && st.client.going {
		return false
	}
	if !d.due.IsZero() {
		c.cool(st.file.id, a.now)
	}
	if a.revoke {
		st.client.noteRevoked(d, c.cfg.PerClient.Delegs)
	}
	if a.fence && st.grant != nil {
		st.client.revoke(st.grant, c.cfg.PerClient.Layouts)
		c.dropGrant(st.grant)
	}
	c.dropDeleg(d)
	if !st.file.used() {
		e.Idle = append(e.Idle, st.file.id)
	}
	if a.left.num != 0 {
		a.left.apply(c, e)
	}
	c.leave(st)
	return true
}

// noteRevoked keeps a revoked delegation's stateid known until FREE_STATEID
// (RFC 8881 section 10.2.1). The number of notes is bounded: the oldest goes.
func (cl *client) noteRevoked(d *deleg, bound int) {
	cl.lost[d.num] = d.stake.file.id
	if len(cl.lost) > max(bound, 1) {
		oldest := d.num
		for num := range cl.lost {
			oldest = min(oldest, num)
		}
		delete(cl.lost, oldest)
	}
}

// findDeleg returns the delegation that sid names. file 0 is any.
func (c *Core) findDeleg(id nfs4.ClientID, file uint64, sid nfs4.Stateid) (*deleg, nfs4.Status) {
	k, num, s := c.parse(sid)
	if s != nfs4.OK {
		return nil, s
	}
	if k != kindDeleg {
		return nil, nfs4.ErrBadStateID
	}
	d := c.delegs.get(num)
	if d != nil && d.sid.Other == sid.Other && d.stake.of(id, file) {
		return d, checkSeqid(sid.Seqid, d.sid.Seqid)
	}
	if cl := c.clients[id]; cl != nil {
		of, ok := cl.lost[num]
		if ok && (file == 0 || of == file) && tagged(sid, id, of) {
			return nil, nfs4.ErrDelegRevoked
		}
	}
	return nil, nfs4.ErrBadStateID
}

func (r GetattrReq) decide(c *Core, _ env) Verdict {
	f := c.files.get(r.File)
	if f == nil || f.writer == nil || f.writer.stake.client.id == r.Client || f.writer.stake.client.fading() {
		return Verdict{}
	}
	return Verdict{Delegation: f.writer.show()}
}

// Delegations returns the delegations of a file, by client, but that of except
// (0 for nobody).
func (c *Core) Delegations(file uint64, except nfs4.ClientID) []Delegation {
	var out []Delegation
	if f := c.files.get(file); f != nil && f.delegs > 0 {
		for id, st := range f.stakes.all() {
			if st.deleg != nil && id != except {
				out = append(out, st.deleg.show())
			}
		}
	}
	slices.SortFunc(out, byDeleg)
	return out
}

// DelegationsOf returns the delegations of a client, by file.
func (c *Core) DelegationsOf(id nfs4.ClientID) []Delegation {
	var out []Delegation
	if cl := c.clients[id]; cl != nil {
		for _, st := range cl.stakes.m {
			if st.deleg != nil {
				out = append(out, st.deleg.show())
			}
		}
	}
	slices.SortFunc(out, byDeleg)
	return out
}

// Revoked returns how many revoked delegations a client has not freed yet:
// until there are none SEQ4_STATUS_RECALLABLE_STATE_REVOKED stands.
func (c *Core) Revoked(id nfs4.ClientID) int {
	if cl := c.clients[id]; cl != nil {
		return len(cl.lost)
	}
	return 0
}
