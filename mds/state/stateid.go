package state

import (
	"encoding/binary"

	"manifold/xdr/nfs4"
)

// kind is what a stateid stands for.
type kind uint8

const (
	kindOpen   kind = 1
	kindLock   kind = 2
	kindLayout kind = 3
	kindDeleg  kind = 4
)

// A stateid's other: boot number (4 bytes), kind (4 bits), a hash of client and
// file (12 bits), number (6 bytes), all big-endian. The hash tells whose a
// layout stateid was when nothing else of it is left.
const numBits = 48

// mint returns a stateid that no other state of this boot has, with seqid 1.
func (c *Core) mint(k kind, id nfs4.ClientID, file uint64) (nfs4.Stateid, uint64) {
	c.next++
	sid := nfs4.Stateid{Seqid: 1}
	binary.BigEndian.PutUint32(sid.Other[:], c.cfg.Boot)
	word := uint64(k)<<60 | tag(id, file)<<numBits | c.next
	binary.BigEndian.PutUint64(sid.Other[4:], word)
	return sid, c.next
}

// parse takes a stateid of this boot apart. One of an earlier boot is as bad as
// any: NFS4ERR_STALE_STATEID is moot where sessions tell of the restart (RFC 8881
// section 15.1.16.5), and has Linux look after its lease, which is in order, and
// ask the same again for ever.
func (c *Core) parse(sid nfs4.Stateid) (kind, uint64, nfs4.Status) {
	if sid.IsSpecial() || c.foreign(sid) {
		return 0, 0, nfs4.ErrBadStateID
	}
	word := binary.BigEndian.Uint64(sid.Other[4:])
	return kind(word >> 60), word & (1<<numBits - 1), nfs4.OK
}

// foreign says whether a stateid, which is no special one, is of another boot.
func (c *Core) foreign(sid nfs4.Stateid) bool {
	return binary.BigEndian.Uint32(sid.Other[:]) != c.cfg.Boot
}

// tag is 12 bits of a hash over client and file.
func tag(id nfs4.ClientID, file uint64) uint64 {
	h := (uint64(id)*0x9e3779b97f4a7c15 ^ file) * 0xbf58476d1ce4e5b9
	return h >> 52
}

// tagged says whether sid was minted for client and file, as far as its tag can
// tell.
func tagged(sid nfs4.Stateid, id nfs4.ClientID, file uint64) bool {
	return binary.BigEndian.Uint64(sid.Other[4:])>>numBits&0xfff == tag(id, file)
}

// bump returns the next version of sid. Seqids skip 0 (RFC 8881 section 8.2.2).
func bump(sid nfs4.Stateid) nfs4.Stateid {
	if sid.Seqid++; sid.Seqid == 0 {
		sid.Seqid = 1
	}
	return sid
}

// older says whether seqid a comes before b, around the wrap.
func older(a, b uint32) bool { return int32(a-b) < 0 }

// checkSeqid compares a given seqid with the newest: 0 means the newest
// (RFC 8881 section 8.2.2). It does not hold for layouts.
func checkSeqid(given, newest uint32) nfs4.Status {
	switch {
	case given == 0 || given == newest:
		return nfs4.OK
	case older(given, newest):
		return nfs4.ErrOldStateID
	}
	return nfs4.ErrBadStateID
}

// findOpen returns the open that sid names. file 0 is any.
func (c *Core) findOpen(id nfs4.ClientID, file uint64, sid nfs4.Stateid) (*open, nfs4.Status) {
	k, num, s := c.parse(sid)
	if s != nfs4.OK {
		return nil, s
	}
	o := c.opens.get(num)
	if k != kindOpen || o == nil || o.sid.Other != sid.Other || !o.stake.of(id, file) {
		return nil, nfs4.ErrBadStateID
	}
	return o, checkSeqid(sid.Seqid, o.sid.Seqid)
}

// findOwner returns the lock-owner that sid names. file 0 is any.
func (c *Core) findOwner(id nfs4.ClientID, file uint64, sid nfs4.Stateid) (*lockOwner, nfs4.Status) {
	k, num, s := c.parse(sid)
	if s != nfs4.OK {
		return nil, s
	}
	lo := c.owners.get(num)
	if k != kindLock || lo == nil || lo.sid.Other != sid.Other || !lo.open.stake.of(id, file) {
		return nil, nfs4.ErrBadStateID
	}
	return lo, checkSeqid(sid.Seqid, lo.sid.Seqid)
}

// findUse returns the open that sid names or, for a lock-owner's, belongs to:
// what READ and WRITE may be done with, but for a delegation.
func (c *Core) findUse(id nfs4.ClientID, file uint64, sid nfs4.Stateid) (*open, nfs4.Status) {
	if k, _, s := c.parse(sid); s == nfs4.OK && k == kindLock {
		lo, s := c.findOwner(id, file, sid)
		if s != nfs4.OK {
			return nil, s
		}
		return lo.open, nfs4.OK
	}
	return c.findOpen(id, file, sid)
}

// findGrant returns the layout that sid names, with any seqid it ever had
// (RFC 8881 section 12.5.5.2.1.4). file 0 is any.
func (c *Core) findGrant(id nfs4.ClientID, file uint64, sid nfs4.Stateid) (*grant, nfs4.Status) {
	k, num, s := c.parse(sid)
	if s != nfs4.OK {
		return nil, s
	}
	if k != kindLayout {
		return nil, nfs4.ErrBadStateID
	}
	g := c.layouts.get(num)
	if g == nil || g.sid.Other != sid.Other || !g.stake.of(id, file) {
		if cl := c.clients[id]; cl != nil && cl.wasRevoked(num, file, sid) {
			return nil, nfs4.ErrAdminRevoked
		}
		return nil, nfs4.ErrBadStateID
	}
	if sid.Seqid == 0 || older(g.sid.Seqid, sid.Seqid) {
		return nil, nfs4.ErrBadStateID
	}
	return g, nfs4.OK
}

// TestStateid is TEST_STATEID of one stateid (RFC 8881 section 18.48).
func (c *Core) TestStateid(id nfs4.ClientID, sid nfs4.Stateid) nfs4.Status {
	if _, s := c.client(id); s != nfs4.OK {
		return s
	}
	k, _, s := c.parse(sid)
	if s != nfs4.OK {
		return s
	}
	switch k {
	case kindOpen:
		_, s = c.findOpen(id, 0, sid)
	case kindLock:
		_, s = c.findOwner(id, 0, sid)
	case kindLayout:
		_, s = c.findGrant(id, 0, sid)
	case kindDeleg:
		_, s = c.findDeleg(id, 0, sid)
	default:
		s = nfs4.ErrBadStateID
	}
	return s
}

// FreeStateid is FREE_STATEID (RFC 8881 section 18.38): ErrLocksHeld if
// anything is held under it. It frees lock-owners without locks and what
// revocation left.
func (c *Core) FreeStateid(id nfs4.ClientID, sid nfs4.Stateid) nfs4.Status {
	s := c.TestStateid(id, sid)
	switch s {
	case nfs4.OK:
	case nfs4.ErrAdminRevoked:
		c.clients[id].unrevoke(sid)
		return nfs4.OK
	case nfs4.ErrDelegRevoked:
		_, num, _ := c.parse(sid)
		delete(c.clients[id].lost, num)
		return nfs4.OK
	default:
		return s
	}
	if lo, s := c.findOwner(id, 0, sid); s == nfs4.OK && lo.ranges == 0 {
		c.dropOwner(lo)
		return nfs4.OK
	}
	return nfs4.ErrLocksHeld
}
