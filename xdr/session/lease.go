package session

import (
	"slices"
	"time"

	"manifold/xdr/nfs4"
)

// DestroyClientID decides DESTROY_CLIENTID (RFC 8881 section 18.50).
// confirmed says that the client had a record to be removed. Errors:
// NFS4ERR_STALE_CLIENTID, NFS4ERR_CLIENTID_BUSY with sessions or state,
// NFS4ERR_WRONG_CRED (a protected client without its machine credential).
func (t *Table) DestroyClientID(id nfs4.ClientID, from Peer) (confirmed bool, status nfs4.Status) {
	c := t.clients[id]
	switch {
	case c == nil:
		return false, nfs4.ErrStaleClientID
	case c.guard(&from) != nfs4.OK:
		return false, nfs4.ErrWrongCred
	case len(c.sessions) > 0 || c.planned != nil || t.hasState(c):
		return false, nfs4.ErrClientIDBusy
	}
	t.remove(c)
	return c.confirmed, nfs4.OK
}

// Drop forgets a client and its sessions at once: its lease ran out, or an
// administrator wants it. False if there is no such client.
func (t *Table) Drop(id nfs4.ClientID) bool {
	c := t.clients[id]
	if c == nil {
		return false
	}
	t.remove(c)
	return true
}

// Expired returns the confirmed clients, ordered by id, whose lease has run
// out (RFC 8881 section 8.3). They stay, and a SEQUENCE renews their lease,
// until the caller Drops them. Unconfirmed clients older than a lease are
// forgotten.
func (t *Table) Expired(now time.Time) (ids []nfs4.ClientID) {
	for id, c := range t.clients {
		switch {
		case !t.lapsed(now, c) || c.planned != nil:
		case c.confirmed:
			ids = append(ids, id)
		default:
			t.remove(c)
		}
	}
	slices.Sort(ids)
	return ids
}

// SetFlags sets SeqStatus bits in every SEQUENCE reply to a client, until
// ClearFlags. The bits about the back channel are the Table's own business.
func (t *Table) SetFlags(id nfs4.ClientID, flags uint32) {
	if c := t.clients[id]; c != nil {
		c.flags |= flags &^ backFlags
	}
}

// ClearFlags clears bits that SetFlags set. Linux acts on a flag at every
// SEQUENCE reply that has it.
func (t *Table) ClearFlags(id nfs4.ClientID, flags uint32) {
	if c := t.clients[id]; c != nil {
		c.flags &^= flags
	}
}

// Notify sets SeqStatus bits until the client has seen them: in every SEQUENCE
// reply until a request shows that one of these replies arrived. It is for what
// the client acts on once, and never reports as handled.
func (t *Table) Notify(id nfs4.ClientID, flags uint32) {
	if c := t.clients[id]; c != nil {
		c.notice |= flags &^ backFlags
		c.news++
	}
}

// backFlags are the status bits that this package computes.
const backFlags = nfs4.SeqStatusCBPathDown | nfs4.SeqStatusCBPathDownSession | nfs4.SeqStatusBackchannelFault

// statusFlags returns the bits of sr_status_flags that all sessions of c see.
func (c *client) statusFlags() uint32 {
	wanted, flags := false, c.flags|c.notice
	for _, s := range c.sessions {
		if s.callable() {
			return flags
		}
		wanted = wanted || s.backWanted
	}
	if wanted {
		return flags | nfs4.SeqStatusCBPathDown
	}
	return flags
}

// statusFlags returns the bits that s alone sees. A session that never asked
// for a back channel is not told that it has none.
func (s *session) statusFlags() uint32 {
	switch {
	case !s.backWanted:
		return 0
	case s.fault:
		return nfs4.SeqStatusBackchannelFault
	case s.backConn() == 0:
		return nfs4.SeqStatusCBPathDownSession
	}
	return 0
}

// ReclaimComplete decides RECLAIM_COMPLETE (RFC 8881 section 18.51) for a
// client that has a session; for one file system it changes nothing. The
// caller has kept it durably before, unless ReclaimDone. Errors:
// NFS4ERR_COMPLETE_ALREADY, and NFS4ERR_DEADSESSION if the client is gone.
func (t *Table) ReclaimComplete(id nfs4.ClientID, a *nfs4.ReclaimCompleteArgs) nfs4.Status {
	c := t.clients[id]
	switch {
	case c == nil:
		return nfs4.ErrDeadSession
	case a.OneFS:
		return nfs4.OK
	case c.reclaimed:
		return nfs4.ErrCompleteAlready
	}
	c.reclaimed = true
	return nfs4.OK
}

// ReclaimDone says whether the client has done RECLAIM_COMPLETE for all file
// systems.
func (t *Table) ReclaimDone(id nfs4.ClientID) bool {
	c := t.clients[id]
	return c != nil && c.reclaimed
}

// MayReclaim says whether the client was on record when the server started
// (CreatePlan.MayReclaim) and has not done RECLAIM_COMPLETE yet.
func (t *Table) MayReclaim(id nfs4.ClientID) bool {
	c := t.clients[id]
	return c != nil && c.mayReclaim && !c.reclaimed
}
