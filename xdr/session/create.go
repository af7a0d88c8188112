package session

import (
	"time"

	"manifold/xdr/nfs4"
)

// ClientRecord is what must be on stable storage before a client may have
// state, so that it may reclaim after a restart (RFC 8881 section 8.4.3).
type ClientRecord struct {
	ID        nfs4.ClientID
	OwnerID   []byte // co_ownerid
	Verifier  nfs4.Verifier
	Principal Principal
	Machine   bool // SP4_MACH_CRED: Principal is the machine credential
	ImplName  string
	Remote    string
	// Replaces is the earlier incarnation of the same owner, 0 for none. Its
	// state goes once the plan is committed.
	Replaces nfs4.ClientID
}

// CreatePlan is what CREATE_SESSION is going to do. If Status is not OK, or
// Replay is set, that is the answer and there is nothing to commit. Otherwise
// the caller keeps NeedsRecord (if any), then calls CommitSession or, if it
// could not keep it, AbandonSession; until then further CREATE_SESSIONs of the
// client get NFS4ERR_DELAY.
type CreatePlan struct {
	Status nfs4.Status
	Replay bool
	// Res is the reply if Status is OK: send it after CommitSession.
	Res nfs4.CreateSessionRes
	// NeedsRecord is set if this session confirms the client.
	NeedsRecord *ClientRecord
	// MayReclaim is set by the caller between the two phases if NeedsRecord's
	// owner, with the same verifier, was on record when the server started: see
	// Table.MayReclaim.
	MayReclaim bool

	sess *session // in client.planned
}

const createMask = nfs4.CreateSessionFlagPersist | nfs4.CreateSessionFlagConnBackChan | nfs4.CreateSessionFlagConnRDMA

// PlanSession decides CREATE_SESSION (RFC 8881 section 18.36), which
// CommitSession carries out. Errors: NFS4ERR_STALE_CLIENTID, NFS4ERR_INVAL
// (flags), NFS4ERR_TOOSMALL, NFS4ERR_SEQ_MISORDERED, NFS4ERR_CLID_INUSE (an
// unconfirmed client of another principal), NFS4ERR_WRONG_CRED (a protected
// client without its machine credential), NFS4ERR_DELAY (another one of this
// client under way, or a limit of the Config reached).
//
// Only a success takes csa_sequence: after an error the client may send
// better arguments with the same one.
func (t *Table) PlanSession(now time.Time, a *nfs4.CreateSessionArgs, from Peer) (p CreatePlan) {
	c := t.clients[a.ClientID]
	if c == nil {
		p.Status = nfs4.ErrStaleClientID
		return p
	}
	if a.Flags&^createMask != 0 {
		p.Status = nfs4.ErrInval
		return p
	}
	fore, status := t.negotiateFore(&a.ForeChanAttrs)
	if status != nfs4.OK {
		p.Status = status
		return p
	}
	back, status := t.negotiateBack(&a.BackChanAttrs, a.Flags&nfs4.CreateSessionFlagConnBackChan != 0)
	if status != nfs4.OK {
		p.Status = status
		return p
	}
	wrong := c.guard(&from)
	switch {
	case wrong != nfs4.OK && (c.confirmed || c.principal == from.Principal):
		p.Status = wrong
	case c.planned != nil:
		p.Status = nfs4.ErrDelay
	case c.created && a.Sequence == c.createSeq:
		p.Replay, p.Res = true, c.createReply
	case a.Sequence != c.createSeq+1:
		p.Status = nfs4.ErrSeqMisordered
	default:
		if p.Status = t.admit(c, from); p.Status == nfs4.OK {
			t.plan(&p, c, a, fore, back, from)
		}
	}
	return p
}

// admit checks c's right to a new session, and makes room for it.
func (t *Table) admit(c *client, from Peer) nfs4.Status {
	if !c.confirmed {
		old := t.confirmed[c.owner]
		switch {
		case c.principal != from.Principal:
			return nfs4.ErrClidInUse
		case old != nil && old.planned != nil:
			return nfs4.ErrDelay
		case old == nil && (len(t.confirmed)+t.confirming >= t.cfg.MaxClients || t.crowded(c)):
			return nfs4.ErrDelay
		}
	}
	if len(c.sessions) >= t.cfg.MaxSessions {
		// Sessions pile up if a client loses its connections and makes new
		// ones: the one longest out of use goes, unless a connection is alive.
		stale := c.abandoned()
		if stale == nil {
			return nfs4.ErrDelay
		}
		t.destroy(stale)
	}
	return nfs4.OK
}

// abandoned returns the session of c that was used least recently among those
// without a connection and a request, or nil.
func (c *client) abandoned() (stale *session) {
	for _, s := range c.sessions {
		if s.busy == 0 && len(s.bound) == 0 && (stale == nil || s.used.Before(stale.used)) {
			stale = s
		}
	}
	return stale
}

// plan builds the session and the reply, and reserves what they need.
func (t *Table) plan(p *CreatePlan, c *client, a *nfs4.CreateSessionArgs, fore, back nfs4.ChannelAttrs, from Peer) {
	s := &session{client: c, program: a.CBProgram, cached: fore.MaxResponseSizeCached, createSeq: a.Sequence}
	s.want = fore.MaxRequests
	fore.MaxRequests = t.reserve(s, t.first(s.want))
	if fore.MaxRequests == 0 {
		p.Status = nfs4.ErrDelay
		return
	}
	s.id = t.nextSessionID()
	s.fore, s.back = fore, back
	s.extend(fore.MaxRequests)
	s.target, s.peak = fore.MaxRequests, fore.MaxRequests
	s.backSlots, s.backUsable = make([]backSlot, back.MaxRequests), back.MaxRequests
	s.sec, s.secOK = chooseSec(a.SecParms)
	s.backWanted = a.Flags&nfs4.CreateSessionFlagConnBackChan != 0 && s.canCallBack()

	p.Res = nfs4.CreateSessionRes{SessionID: s.id, Sequence: a.Sequence, ForeChanAttrs: fore, BackChanAttrs: back}
	dir := dirFore
	if s.backWanted {
		p.Res.Flags = nfs4.CreateSessionFlagConnBackChan
		dir |= dirBack
	}
	// Bound already now, so that a connection that closes before the commit
	// is unbound like any other.
	t.bind(s, from.Conn, dir)
	c.planned, p.sess = s, s
	if !c.confirmed {
		s.confirms = true
		t.confirming++
		p.NeedsRecord = &ClientRecord{
			ID: c.id, OwnerID: []byte(c.owner), Verifier: c.verifier, Principal: c.principal,
			Machine: c.machine, ImplName: c.implName, Remote: c.remote,
		}
		if old := t.confirmed[c.owner]; old != nil {
			p.NeedsRecord.Replaces = old.id
		}
	}
}

// CommitSession carries a plan out, which renews the lease. dropped is the
// earlier incarnation of the client that is gone now, 0 for none: the caller
// drops its state before it answers. A status other than OK
// (NFS4ERR_STALE_CLIENTID) is the answer if the client went away meanwhile.
func (t *Table) CommitSession(now time.Time, p *CreatePlan) (dropped nfs4.ClientID, status nfs4.Status) {
	s := t.take(p)
	if s == nil {
		return 0, nfs4.OK
	}
	c := s.client
	if t.clients[c.id] != c || c.planned != s {
		t.release(s)
		return 0, nfs4.ErrStaleClientID
	}
	if !c.confirmed {
		if old := t.confirmed[c.owner]; old != nil {
			t.remove(old)
			dropped = old.id
		}
		delete(t.unconfirmed, c.owner)
		t.confirmed[c.owner] = c
		t.hosts.confirm(c)
		c.confirmed = true
		c.mayReclaim = p.MayReclaim
	}
	c.planned = nil
	c.createSeq, c.created, c.createReply = s.createSeq, true, p.Res
	c.sessions = append(c.sessions, s)
	c.renewed, s.used = now, now
	t.sessions[s.id] = s
	return dropped, nfs4.OK
}

// AbandonSession gives a plan up. The client may try again with the same
// csa_sequence.
func (t *Table) AbandonSession(p *CreatePlan) {
	s := t.take(p)
	if s == nil {
		return
	}
	if s.client.planned == s {
		s.client.planned = nil
	}
	t.release(s)
}

// take returns the session of a plan that is not carried out or given up yet,
// or nil.
func (t *Table) take(p *CreatePlan) *session {
	s := p.sess
	p.sess = nil
	if s != nil && s.confirms {
		s.confirms = false
		t.confirming--
	}
	return s
}
