package compound

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// createBody is the most that CREATE_SESSION's result takes, in bytes.
const createBody = 16 + 4 + 4 + 2*(7*4+4)

// sessionOps are the rows that every role has.
func (s *Server) sessionOps() Table {
	const first = AllowedFirst
	return Table{
		nfs4.OpSequence:          {Name: "SEQUENCE", Flags: first, Minors: V41Up}, // runner.sequence
		nfs4.OpExchangeID:        {Name: "EXCHANGE_ID", Flags: first, Minors: V41Up, Run: Handle(s.exchangeID)},
		nfs4.OpCreateSession:     {Name: "CREATE_SESSION", Flags: first | Modifies, Minors: V41Up, ReplyMax: createBody, Run: Handle(s.createSession)},
		nfs4.OpDestroySession:    {Name: "DESTROY_SESSION", Flags: first, Minors: V41Up, Run: Args(s.destroySession)},
		nfs4.OpDestroyClientID:   {Name: "DESTROY_CLIENTID", Flags: first, Minors: V41Up, Run: Args(s.destroyClientID)},
		nfs4.OpBindConnToSession: {Name: "BIND_CONN_TO_SESSION", Flags: first | Alone, Minors: V41Up, Run: Handle(s.bindConn)},
		nfs4.OpBackchannelCtl:    {Name: "BACKCHANNEL_CTL", Minors: V41Up, Run: Args(s.backchannelCtl)},
		nfs4.OpReclaimComplete:   {Name: "RECLAIM_COMPLETE", Minors: V41Up, Run: Args(s.reclaimComplete)},
		nfs4.OpSaveFH:            {Name: "SAVEFH", Flags: NeedsFH, Minors: V41Up, Run: Void(saveFH)},
		nfs4.OpRestoreFH:         {Name: "RESTOREFH", Minors: V41Up, Run: Void(restoreFH)},
		nfs4.OpGetFH:             {Name: "GETFH", Flags: NeedsFH, Minors: V41Up, Run: Handle(getFH)},
	}
}

func saveFH(_ context.Context, c *Call) nfs4.Status {
	c.Save()
	return nfs4.OK
}

func restoreFH(_ context.Context, c *Call) nfs4.Status {
	if c.SavedFH == nil {
		return nfs4.ErrRestoreFH
	}
	c.Restore()
	return nfs4.OK
}

func getFH(_ context.Context, c *Call, _ *nfs4.GetFHArgs, r *nfs4.GetFHRes) nfs4.Status {
	r.Object = c.FH
	return nfs4.OK
}

// peer is where an operation on clients and sessions comes from.
func (c *Call) peer() session.Peer {
	return session.Peer{
		Conn: session.ConnID(c.Conn), Principal: c.principal(), Protected: c.Protected(), Remote: c.Remote.String(), Minor: c.Minor,
	}
}

// principal is who calls.
func (c *Call) principal() session.Principal {
	p := session.Principal{Flavor: c.Cred.Flavor}
	switch p.Flavor {
	case rpc.AuthSys:
		p.UID = c.Cred.Sys.UID
	case rpc.AuthGSS:
		p.Name = c.Cred.GSS.Principal
	}
	return p
}

// locked runs fn under the sessions' lock, which a panic does not leave held.
func locked[T any](s *Server, fn func(*session.Table) T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fn(s.cfg.Sessions)
}

// exchangeID: RFC 8881 section 18.35.
func (s *Server) exchangeID(ctx context.Context, c *Call, a *nfs4.ExchangeIDArgs, r *nfs4.ExchangeIDRes) nfs4.Status {
	v := locked(s, func(t *session.Table) session.ExchangeVerdict { return t.ExchangeID(c.Now, a, c.peer()) })
	s.drop(ctx, v.Dropped)
	*r = v.Res
	return v.Status
}

// createSession: RFC 8881 section 18.36. The client's record is durable before
// the client is confirmed.
func (s *Server) createSession(ctx context.Context, c *Call, a *nfs4.CreateSessionArgs, r *nfs4.CreateSessionRes) nfs4.Status {
	plan := locked(s, func(t *session.Table) session.CreatePlan {
		if s.link(c.rpcConn) == nil {
			return session.CreatePlan{Status: nfs4.ErrDelay} // to nobody
		}
		return t.PlanSession(c.Now, a, c.peer())
	})
	*r = plan.Res
	if plan.Status != nfs4.OK || plan.Replay {
		return plan.Status
	}
	defer s.abandon(&plan) // unless it is committed; a hook may panic
	rec := plan.NeedsRecord
	if rec != nil && s.cfg.Hooks.Confirm != nil {
		var err error
		if plan.MayReclaim, err = s.cfg.Hooks.Confirm(ctx, *rec); errors.Is(err, nfs4.ErrDelay) {
			return nfs4.ErrDelay // no room yet
		} else if err != nil {
			s.cfg.Log.Error("client record not kept, its session is refused", zap.Stringer("client", c.Remote), zap.Error(err))
			return nfs4.ErrServerFault
		}
	}
	var dropped nfs4.ClientID
	status := locked(s, func(t *session.Table) (status nfs4.Status) {
		if dropped, status = t.CommitSession(c.Now, &plan); status == nfs4.OK {
			s.minors[a.ClientID] = c.Minor
			s.renewed(a.ClientID)
		}
		return status
	})
	s.drop(ctx, dropped)
	switch {
	case rec == nil:
	case status != nfs4.OK:
		s.drop(ctx, rec.ID) // evicted meanwhile: its record must not stay
	default:
		s.cfg.Log.Info("client confirmed", zap.String("clientid", fmt.Sprintf("%#x", uint64(rec.ID))),
			zap.ByteString("owner", rec.OwnerID), zap.String("impl", rec.ImplName),
			zap.Stringer("client", c.Remote), zap.String("principal", rec.Principal.Name), zap.Bool("machine_cred", rec.Machine))
	}
	return status
}

// abandon gives a plan up if it was not carried out.
func (s *Server) abandon(plan *session.CreatePlan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Sessions.AbandonSession(plan)
}

// renewed tells the role of a client that is heard of again after its lease ran
// out. mu is held.
func (s *Server) renewed(id nfs4.ClientID) {
	if s.lapsed[id] {
		delete(s.lapsed, id)
		s.cfg.Hooks.Renewed(id)
	}
}

// drop tells the role that a client is gone.
func (s *Server) drop(ctx context.Context, ids ...nfs4.ClientID) {
	for _, id := range ids {
		if id == 0 {
			continue
		}
		s.mu.Lock()
		delete(s.minors, id)
		delete(s.lapsed, id)
		s.mu.Unlock()
		if s.cfg.Hooks.Drop != nil {
			s.cfg.Hooks.Drop(ctx, id)
		}
	}
}

// destroySession: RFC 8881 section 18.37.
func (s *Server) destroySession(_ context.Context, c *Call, a *nfs4.DestroySessionArgs) nfs4.Status {
	if c.Session == a.SessionID && c.index != c.nops-1 {
		return nfs4.ErrNotOnlyOp // the session of this COMPOUND may only go with its last operation
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Sessions.DestroySession(a.SessionID, c.slot, c.peer())
}

// destroyClientID: RFC 8881 section 18.50.
func (s *Server) destroyClientID(ctx context.Context, c *Call, a *nfs4.DestroyClientIDArgs) nfs4.Status {
	var confirmed bool
	status := locked(s, func(t *session.Table) (status nfs4.Status) {
		confirmed, status = t.DestroyClientID(a.ClientID, c.peer())
		return status
	})
	if confirmed && status == nfs4.OK {
		s.drop(ctx, a.ClientID)
		s.cfg.Log.Info("client left", zap.String("clientid", fmt.Sprintf("%#x", uint64(a.ClientID))), zap.Stringer("client", c.Remote))
	}
	return status
}

// bindConn: RFC 8881 section 18.34.
func (s *Server) bindConn(_ context.Context, c *Call, a *nfs4.BindConnToSessionArgs, r *nfs4.BindConnToSessionRes) (status nfs4.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link(c.rpcConn) == nil {
		return nfs4.ErrDelay // to nobody
	}
	*r, status = s.cfg.Sessions.BindConn(a, c.peer())
	return status
}

// backchannelCtl: RFC 8881 section 18.33.
func (s *Server) backchannelCtl(_ context.Context, c *Call, a *nfs4.BackchannelCtlArgs) nfs4.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Sessions.BackchannelCtl(c.slot, a)
}

// reclaimComplete: RFC 8881 section 18.51. For one file system it is noted by
// nobody: grace covers the whole server.
func (s *Server) reclaimComplete(ctx context.Context, c *Call, a *nfs4.ReclaimCompleteArgs) nfs4.Status {
	if a.OneFS && c.FH == nil {
		return nfs4.ErrNoFileHandle
	}
	done := locked(s, func(t *session.Table) bool { return t.ReclaimDone(c.Client) })
	if !a.OneFS && !done && s.cfg.Hooks.ReclaimComplete != nil {
		if err := s.cfg.Hooks.ReclaimComplete(ctx, c.Client); err != nil {
			s.cfg.Log.Error("RECLAIM_COMPLETE not kept", zap.Stringer("client", c.Remote), zap.Error(err))
			if errors.Is(err, nfs4.ErrDelay) {
				return nfs4.ErrDelay // the server stops
			}
			return nfs4.ErrServerFault
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Sessions.ReclaimComplete(c.Client, a)
}
