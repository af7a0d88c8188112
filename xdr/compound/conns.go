package compound

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// linger is how long requests that a session admitted go on after their
// connection closed.
const linger = 10 * time.Second

// link is a connection that may be bound to a session. ctx ends linger after
// the connection does.
type link struct {
	conn *rpc.Conn
	ctx  context.Context
}

// link returns the link of a connection, which callbacks find by its number
// until it closes; nil if it has closed. mu is held, and while it is, a
// connection that has a link may be bound to sessions: one that closes
// meanwhile is unbound afterwards.
func (s *Server) link(conn *rpc.Conn) *link {
	if l := s.conns[conn.ID()]; l != nil {
		return l
	}
	select {
	case <-conn.Done():
		return nil
	default:
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{conn: conn, ctx: ctx}
	s.conns[conn.ID()] = l
	go func() {
		<-conn.Done()
		time.AfterFunc(linger, cancel)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn.ID())
		s.cfg.Sessions.ConnClosed(session.ConnID(conn.ID()))
	}()
	return l
}

// Expire drops the clients whose lease ran out, unless the role lets them stay,
// and returns how many it dropped; and it sees to the slots of the others. The
// role calls it now and then, every second or so. ctx ends with the Server.
func (s *Server) Expire(ctx context.Context, now time.Time) int {
	ids := s.expired(now)
	s.drop(ctx, ids...)
	s.tune(ctx, now)
	return len(ids)
}

func (s *Server) expired(now time.Time) (drop []nfs4.ClientID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := s.cfg.Sessions.Expired(now)
	for id := range s.lapsed {
		if _, still := slices.BinarySearch(late, id); !still {
			s.renewed(id) // by the retry of a SEQUENCE
		}
	}
	for _, id := range late {
		if s.cfg.Hooks.Lapsed != nil && s.cfg.Hooks.Lapsed(now, id) {
			s.lapsed[id] = true
			continue
		}
		s.cfg.Sessions.Drop(id)
		drop = append(drop, id)
	}
	return drop
}

// Evict drops a client whatever its lease says; false if it is not known. why
// is what it did, for the administrator, who is told in one line of the log;
// with "" it did nothing, and none is.
func (s *Server) Evict(ctx context.Context, id nfs4.ClientID, why string) bool {
	s.mu.Lock()
	info, ok := s.cfg.Sessions.Client(id)
	s.cfg.Sessions.Drop(id)
	s.mu.Unlock()
	if !ok {
		return false
	}
	if why != "" {
		s.cfg.Log.Warn("client evicted: it loses its sessions and its state", zap.String("client", info.Remote),
			zap.ByteString("owner", info.Owner), zap.String("clientid", fmt.Sprintf("%#x", uint64(id))), zap.String("why", why))
		if s.cfg.Observer != nil {
			s.cfg.Observer.Evicted()
		}
	}
	s.drop(ctx, id)
	return true
}

// Flag sets SEQ4_STATUS bits in the client's SEQUENCE replies; Unflag clears them.
func (s *Server) Flag(id nfs4.ClientID, flags uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Sessions.SetFlags(id, flags)
}

// Unflag clears SEQ4_STATUS bits that Flag set.
func (s *Server) Unflag(id nfs4.ClientID, flags uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Sessions.ClearFlags(id, flags)
}

// Notify sets SEQ4_STATUS bits in the client's SEQUENCE replies until it has seen
// one of them.
func (s *Server) Notify(id nfs4.ClientID, flags uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Sessions.Notify(id, flags)
}

// MayReclaim says whether a client was on record at the start and has not
// said RECLAIM_COMPLETE yet.
func (s *Server) MayReclaim(id nfs4.ClientID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Sessions.MayReclaim(id)
}

// Census counts what the Server keeps, by the name of the table: the sessions',
// and its own, which are all 0 when all clients and connections are gone.
func (s *Server) Census() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.cfg.Sessions.Census()
	n["links"], n["minors"], n["lapsed"] = len(s.conns), len(s.minors), len(s.lapsed)
	return n
}

// Clients describes every client, in the order of their ids.
func (s *Server) Clients() []session.ClientInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Sessions.Clients()
}
