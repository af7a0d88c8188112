// Package tcp carries rpc over TCP.
//
// Its nouns: a Server accepts connections from listeners and runs an rpc.Conn
// on each, up to a limit in all and from one address; Dial makes one from our side. Sockets have keepalive,
// so that a peer which vanished is noticed, and no delay of small segments.
package tcp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"manifold/xdr/rpc"
)

// keepAlive finds a dead peer within a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}

// Listen listens on addr ("host:port"). MPTCP is off: it brings a server
// nothing, and such sockets lack zero copy sends.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	lc.SetMultipathTCP(false)
	return lc.Listen(ctx, "tcp", addr)
}

// Dial connects to addr and serves the connection until it closes. h answers
// the peer's calls; nil refuses them. ctx bounds the dial only.
func Dial(ctx context.Context, addr string, h rpc.Handler, cfg *rpc.Config) (*rpc.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive}
	d.SetMultipathTCP(false)
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := rpc.NewConn(context.WithoutCancel(ctx), nc, h, cfg)
	go func() { _ = c.Serve() }() // why it ended is told to those that wait for replies
	return c, nil
}

// Config holds a Server's limits.
type Config struct {
	// RPC is the configuration of each connection, shared. Default: rpc's.
	RPC *rpc.Config
	// MaxConns is how many connections may be open at once: 4096. One more is
	// closed as soon as it is accepted.
	MaxConns int
	// MaxPerAddress is how many of them may come from one IP address: a quarter
	// of MaxConns, but 64 at least. One more is closed likewise.
	MaxPerAddress int
}

// Server runs a Handler on every connection that its listeners accept.
type Server struct {
	h        rpc.Handler
	cfg      Config
	log      *zap.Logger
	observer rpc.Observer
	ctx      context.Context // ends with Shutdown: for those who accept
	stop     context.CancelFunc
	wg       sync.WaitGroup

	refused refusals

	mu        sync.Mutex
	closed    bool
	conns     map[*rpc.Conn]struct{}
	hosts     map[netip.Addr]int // connections by address
	listeners map[net.Listener]struct{}
}

// NewServer returns a Server that accepts nothing yet.
func NewServer(h rpc.Handler, cfg Config) *Server {
	if cfg.RPC == nil {
		cfg.RPC = &rpc.Config{}
	}
	if cfg.MaxConns <= 0 {
		cfg.MaxConns = 4096
	}
	if cfg.MaxPerAddress <= 0 {
		cfg.MaxPerAddress = max(cfg.MaxConns/4, 64)
	}
	log := cfg.RPC.Log
	if log == nil {
		log = zap.NewNop()
	}
	s := &Server{h: h, cfg: cfg, log: log, observer: cfg.RPC.Observer, conns: map[*rpc.Conn]struct{}{}, hosts: map[netip.Addr]int{}, listeners: map[net.Listener]struct{}{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Serve accepts connections from ln until Shutdown, when it returns nil, or
// until ln fails. It closes ln. One Server may serve several listeners.
func (s *Server) Serve(ln net.Listener) error {
	defer ln.Close()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.listeners[ln] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, ln)
		s.mu.Unlock()
	}()
	var pause time.Duration
	for {
		nc, err := ln.Accept()
		if err == nil {
			pause = 0
			s.start(nc)
			continue
		}
		if s.ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		// Out of file descriptors, or a peer that left while it waited: go on,
		// but do not spin.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.log.Warn("accept failed", zap.Error(err), zap.Duration("pause", pause))
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return nil
		}
	}
}

// start serves one accepted connection, if there is room.
func (s *Server) start(nc net.Conn) {
	from := host(nc.RemoteAddr())
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		nc.Close()
		return
	}
	if why := s.room(from); why != "" {
		s.mu.Unlock()
		s.refuse(nc, why)
		return
	}
	c := rpc.NewConn(context.Background(), nc, s.h, s.cfg.RPC)
	s.conns[c] = struct{}{}
	s.enter(from)
	s.wg.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.wg.Done()
		_ = c.Serve() // the Observer is told why it ended
		s.mu.Lock()
		delete(s.conns, c)
		s.leave(from)
		s.mu.Unlock()
	}()
}

// Conns returns how many connections are open.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Shutdown stops accepting and reading, waits until every call in work is
// answered, and closes the connections. When ctx ends first it closes them at
// once, which cancels the handlers' context, and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.stop()
	for ln := range s.listeners {
		ln.Close()
	}
	conns := make([]*rpc.Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()

	var wg sync.WaitGroup
	for _, c := range conns {
		wg.Go(func() { _ = c.Shutdown(ctx) })
	}
	wg.Wait() // each ends with ctx at the latest
	finished := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(finished)
	}()
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
