package session

import (
	"time"

	"manifold/xdr/nfs4"
)

// ExchangeVerdict is the answer to EXCHANGE_ID.
type ExchangeVerdict struct {
	Status nfs4.Status
	Res    nfs4.ExchangeIDRes // if Status is OK
	// Dropped is a client that another principal's EXCHANGE_ID has replaced
	// (RFC 8881 section 18.35.4, case 3), 0 for none. It had no state, or its
	// lease had run out: the caller drops what state there is.
	Dropped nfs4.ClientID
}

// ExchangeID decides EXCHANGE_ID: the nine cases of RFC 8881 section 18.35.4.
// SP4_NONE and SP4_MACH_CRED are offered; a record keeps the protection that it
// was made with. Errors: NFS4ERR_INVAL (flags, SP4_MACH_CRED from a request
// without integrity), NFS4ERR_ENCR_ALG_UNSUPP (SP4_SSV), NFS4ERR_CLID_INUSE,
// NFS4ERR_NOENT, NFS4ERR_NOT_SAME, NFS4ERR_PERM, NFS4ERR_WRONG_CRED (the record
// is protected, and the request is not), and NFS4ERR_DELAY while a
// CREATE_SESSION of the same owner is between its two phases.
func (t *Table) ExchangeID(now time.Time, a *nfs4.ExchangeIDArgs, from Peer) (v ExchangeVerdict) {
	if a.Flags&^flagsOf(from.Minor) != 0 {
		v.Status = nfs4.ErrInval
		return v
	}
	if _, _, v.Status = t.protection(&a.StateProtect, &from); v.Status != nfs4.OK {
		return v
	}
	update := a.Flags&nfs4.ExchgidFlagUpdConfirmedRecA != 0
	c := t.confirmed[string(a.ClientOwner.OwnerID)]
	switch {
	case update && c == nil: // case 7
		v.Status = nfs4.ErrNoEnt
	case update && c.verifier != a.ClientOwner.Verifier: // case 8
		v.Status = nfs4.ErrNotSame
	case update && c.principal != from.Principal: // case 9
		v.Status = nfs4.ErrPerm
	case c != nil && c.principal == from.Principal && c.guard(&from) != nfs4.OK:
		v.Status = nfs4.ErrWrongCred
	case update: // case 6
		c.describe(a, from)
		v.Res = t.exchangeRes(a, c)
	case c != nil && c.principal != from.Principal: // case 3
		if !t.lapsed(now, c) && (len(c.sessions) > 0 || c.planned != nil || t.hasState(c)) {
			v.Status = nfs4.ErrClidInUse
			return v
		}
		if v = t.propose(now, a, from); v.Status == nfs4.OK {
			t.remove(c)
			v.Dropped = c.id
		}
	case c != nil && c.verifier == a.ClientOwner.Verifier: // case 2
		v.Res = t.exchangeRes(a, c)
	default: // cases 1, 4 and 5
		v = t.propose(now, a, from)
	}
	return v
}

// propose adds an unconfirmed record, in place of one of the same owner.
func (t *Table) propose(now time.Time, a *nfs4.ExchangeIDArgs, from Peer) (v ExchangeVerdict) {
	owner := string(a.ClientOwner.OwnerID)
	old := t.unconfirmed[owner]
	if old == nil {
		old = t.displaced(address(from.Remote))
	}
	if old != nil {
		if old.planned != nil {
			v.Status = nfs4.ErrDelay
			return v
		}
		t.remove(old)
	}
	c := &client{
		id:        t.nextClientID(),
		owner:     owner,
		verifier:  a.ClientOwner.Verifier,
		principal: from.Principal,
		renewed:   now,
		host:      address(from.Remote),
	}
	how, allow, _ := t.protection(&a.StateProtect, &from)
	c.machine, c.allow = how == nfs4.StateProtectMachCred, allow
	c.describe(a, from)
	t.clients[c.id] = c
	t.hosts.propose(c)
	t.unconfirmed[owner] = c
	v.Res = t.exchangeRes(a, c)
	return v
}

// stalest returns the unconfirmed client to give up for a newer one: the
// oldest that is not about to be confirmed, if there is any such.
func (t *Table) stalest() *client {
	var oldest *client
	for _, c := range t.unconfirmed {
		if oldest == nil || oldest.planned != nil ||
			c.planned == nil && (c.renewed.Before(oldest.renewed) || c.renewed.Equal(oldest.renewed) && c.id < oldest.id) {
			oldest = c
		}
	}
	return oldest
}

// describe notes what an administrator wants to know of the client.
func (c *client) describe(a *nfs4.ExchangeIDArgs, from Peer) {
	c.remote = from.Remote
	if len(a.ClientImplID) > 0 {
		c.implName = string(a.ClientImplID[0].Name)
		c.implDomain = string(a.ClientImplID[0].Domain)
	}
}

// exchangeRes builds the reply. EXCHGID4_FLAG_UPD_CONFIRMED_REC_A is never in
// it: Linux refuses a server that sets it.
func (t *Table) exchangeRes(a *nfs4.ExchangeIDArgs, c *client) nfs4.ExchangeIDRes {
	res := nfs4.ExchangeIDRes{
		ClientID:     c.id,
		SequenceID:   c.createSeq + 1,
		Flags:        t.cfg.Role | a.Flags&t.cfg.Echo,
		StateProtect: c.protectRes(),
		ServerOwner:  t.cfg.Owner,
		ServerScope:  t.cfg.Scope,
	}
	if c.confirmed {
		res.Flags |= nfs4.ExchgidFlagConfirmedR
	}
	if t.cfg.ImplID != nil {
		res.ServerImplID = []nfs4.ImplID{*t.cfg.ImplID}
	}
	return res
}

// flagsOf are the flags of EXCHANGE_ID that a minor version defines.
func flagsOf(minor uint32) uint32 {
	if minor < 2 {
		return nfs4.ExchgidFlagArgsMask
	}
	return nfs4.ExchgidFlagArgsMask42
}
