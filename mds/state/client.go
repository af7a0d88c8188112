package state

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"manifold/xdr/nfs4"
)

// client is one client id's share of the Core.
type client struct {
	id       nfs4.ClientID
	name     string
	reclaims bool          // was on record, so may reclaim during grace
	complete bool          // has sent RECLAIM_COMPLETE
	going    bool          // Expire was called
	lapsed   time.Time     // since when it is a courtesy client; zero if it is none
	stakes   index[*stake] // by file
	// revoked holds, by file, the number of the last layout that was revoked.
	revoked map[uint64]uint64
	// lost is the delegations that were revoked and not freed: the file by number.
	lost map[uint64]uint64
	bulk *bulk // recall of everything, under way, or nil
	n    Counts
}

// stake is what one client has in one file. It is there as long as there is an
// open, a layout or a delegation.
type stake struct {
	client  *client
	file    *file
	opens   few[string, *open] // by open-owner
	writers int                // opens for writing
	grant   *grant
	deleg   *deleg
}

// file is what all clients have in one file. It is there as long as a stake is.
type file struct {
	id     uint64
	stakes few[nfs4.ClientID, *stake]
	opens  int
	// access and deny count the opens with OPEN4_SHARE_..._READ and _WRITE.
	access, deny [2]int
	locks        []byteLock // by first byte
	longest      uint64     // last less first byte of the longest of locks, or more
	waits        []lockWait // by arrival
	blocked      int        // recalls under way that all layouts must wait for
	writable     int        // layouts to write
	delegs       int
	recalled     int    // delegations under recall
	writer       *deleg // the one to write, if there is one
}

// used says whether anybody has the file open, or may have it open by itself.
func (f *file) used() bool { return f.opens+f.delegs > 0 }

// mayWrite says whether a client may write to the file.
func (st *stake) mayWrite() bool {
	return st.writers > 0 || st.deleg != nil && st.deleg.write
}

// of says whether st belongs to the client, and to the file unless that is 0.
func (st *stake) of(id nfs4.ClientID, file uint64) bool {
	return st.client.id == id && (file == 0 || st.file.id == file)
}

// client returns one that may still act.
func (c *Core) client(id nfs4.ClientID) (*client, nfs4.Status) {
	cl := c.clients[id]
	if cl == nil || cl.going {
		return nil, nfs4.ErrExpired
	}
	return cl, nfs4.OK
}

// stake returns what a client has in a file, or nil.
func (c *Core) stake(id nfs4.ClientID, file uint64) *stake {
	if f := c.files.get(file); f != nil {
		return f.stakes.get(id)
	}
	return nil
}

// enter returns what a client has in a file, which may be nothing yet.
func (c *Core) enter(cl *client, id uint64) *stake {
	if st := cl.stakes.get(id); st != nil {
		return st
	}
	f := c.files.get(id)
	if f == nil {
		f = &file{id: id}
		c.files.put(id, f)
	}
	st := &stake{client: cl, file: f}
	f.stakes.add(st)
	cl.stakes.put(id, st)
	return st
}

// leave forgets a stake in which there is nothing left.
func (c *Core) leave(st *stake) {
	if st.opens.len() > 0 || st.grant != nil || st.deleg != nil {
		return
	}
	st.client.stakes.drop(st.file.id)
	st.file.stakes.drop(st)
	if st.file.stakes.len() == 0 {
		c.files.drop(st.file.id)
	}
}

// revoke notes that the layout of a file was revoked. The number of notes is
// bounded: the oldest goes.
func (cl *client) revoke(g *grant, bound int) {
	cl.revoked[g.stake.file.id] = g.num
	if len(cl.revoked) > bound {
		oldest := g.stake.file.id
		for file, num := range cl.revoked {
			if num < cl.revoked[oldest] {
				oldest = file
			}
		}
		delete(cl.revoked, oldest)
	}
}

// wasRevoked says whether the layout with number num of a file was revoked, or
// is older than one that was. file 0 is any.
func (cl *client) wasRevoked(num, file uint64, sid nfs4.Stateid) bool {
	if file != 0 {
		return num <= cl.revoked[file] && tagged(sid, cl.id, file)
	}
	for file, last := range cl.revoked {
		if num <= last && tagged(sid, cl.id, file) {
			return true
		}
	}
	return false
}

// unrevoke forgets that the layout sid was revoked.
func (cl *client) unrevoke(sid nfs4.Stateid) {
	num := binary.BigEndian.Uint64(sid.Other[4:]) & (1<<numBits - 1)
	for file, last := range cl.revoked {
		if num <= last && tagged(sid, cl.id, file) {
			delete(cl.revoked, file)
		}
	}
}

// AddClient lets a confirmed client have state, and says whether it may
// reclaim: name (co_ownerid with its verifier, or what else the record was
// kept under) is on record as one that may, and grace runs. A client known already is left as it
// is. ErrDelay if there are too many (Stale may name one to expire), ErrExpired
// if it is going.
func (c *Core) AddClient(now time.Time, id nfs4.ClientID, name string) (reclaims bool, s nfs4.Status) {
	if cl := c.clients[id]; cl != nil {
		if cl.going {
			return false, nfs4.ErrExpired
		}
		return cl.reclaims, nfs4.OK
	}
	if c.n.Clients >= c.cfg.Total.Clients {
		return false, nfs4.ErrDelay
	}
	reclaims = c.waiting[name] && c.inGrace(now)
	c.clients[id] = &client{
		id: id, name: name, reclaims: reclaims,
		revoked: map[uint64]uint64{}, lost: map[uint64]uint64{},
	}
	c.n.Clients++
	return reclaims, nfs4.OK
}

// Expire begins the end of a client: lease expiry, DESTROY_CLIENTID, a new
// incarnation. From now on nothing is granted to it, but what it holds still
// stands in the way of others. The caller fences what Effects say, waits until
// the data servers acknowledged, then calls Forget. It may be called again.
func (c *Core) Expire(id nfs4.ClientID) Effects {
	var e Effects
	cl := c.clients[id]
	if cl == nil {
		return e
	}
	cl.going = true
	c.unlapse(cl)
	c.Unrecord(cl.name)
	for file, st := range cl.stakes.m {
		if st.grant != nil && st.grant.rw() {
			e.Grown = append(e.Grown, file)
		}
	}
	if cl.n.Layouts > 0 {
		e.Fence = []Grant{cl.everything()}
	}
	slices.Sort(e.Grown)
	return e
}

// Shed drops what a client holds of most files at most, which is a part of
// Forget for a client that may hold very much; more says that something is left.
// Expire was called for it, and it is fenced.
func (c *Core) Shed(id nfs4.ClientID, most int) (e Effects, more bool) {
	cl := c.clients[id]
	if cl == nil || !cl.going {
		return e, false
	}
	for _, st := range cl.stakes.m {
		if most--; most < 0 {
			return e, true
		}
		c.dropStake(st, &e)
	}
	return e, false
}

// dropStake drops all that a client has in a file.
func (c *Core) dropStake(st *stake, e *Effects) {
	had := st.opens.len() > 0 || st.deleg != nil
	if len(st.file.locks) > 0 {
		c.unlock(st, nil)
	}
	for _, o := range st.opens.all() {
		c.dropOpen(o)
	}
	if st.grant != nil {
		c.dropGrant(st.grant)
	}
	if st.deleg != nil {
		c.dropDeleg(st.deleg)
	}
	if had && !st.file.used() {
		e.Idle = append(e.Idle, st.file.id)
	}
	e.Notify = append(e.Notify, c.release(st.file)...)
	c.leave(st)
}

// Forget drops a client and everything it holds. Effects are the Idle files, and
// whom to Notify. An unknown client is no error.
func (c *Core) Forget(id nfs4.ClientID) Effects {
	var e Effects
	cl := c.clients[id]
	if cl == nil {
		return e
	}
	for _, st := range cl.stakes.m {
		c.dropStake(st, &e)
	}
	slices.Sort(e.Idle)
	c.Unrecord(cl.name)
	c.unlapse(cl)
	c.dropBulk(cl)
	delete(c.clients, id)
	c.n.Clients--
	return e
}

// byFile orders Grants.
func byFile(a, b Grant) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Client, b.Client))
}
