package tcp

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// host is the address that a connection counts for.
func host(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// room says whether one more connection from an address may be open, and if not
// why. mu is held.
func (s *Server) room(from netip.Addr) (why string) {
	switch {
	case len(s.conns) >= s.cfg.MaxConns:
		return "as many are open as may be"
	case s.hosts[from] >= s.cfg.MaxPerAddress:
		return "as many are open from its address as may be"
	}
	return ""
}

// refuse closes a connection for which there is no room.
func (s *Server) refuse(nc net.Conn, why string) {
	n := s.refused.count.Add(1)
	if s.refused.due(time.Now()) {
		s.log.Warn("connection refused", zap.Stringer("peer", nc.RemoteAddr()), zap.String("why", why), zap.Int64("refused_so_far", n))
	}
	if s.observer != nil {
		s.observer.ConnRefused() // first: who was refused may look at once
	}
	nc.Close()
}

// enter and leave count a connection. mu is held.
func (s *Server) enter(from netip.Addr) { s.hosts[from]++ }

func (s *Server) leave(from netip.Addr) {
	if s.hosts[from]--; s.hosts[from] == 0 {
		delete(s.hosts, from)
	}
}

// refusedPause is how long the log is spared another line on refused connections.
const refusedPause = 10 * time.Second

// refusals counts, and lets a line be logged once in refusedPause.
type refusals struct {
	count atomic.Int64
	last  atomic.Int64 // Unix nanoseconds
}

func (r *refusals) due(now time.Time) bool {
	last := r.last.Load()
	return (last == 0 || now.UnixNano()-last >= int64(refusedPause)) && r.last.CompareAndSwap(last, now.UnixNano())
}
