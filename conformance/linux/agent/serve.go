package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"manifold/conformance/linux/rivalry"
	"manifold/conformance/linux/work"
)

// server runs each request in a goroutine of its own: one may last minutes.
type server struct {
	mu      sync.Mutex // guards out and running
	out     *json.Encoder
	running map[uint64]context.CancelFunc
}

// serve answers requests until the connection to the harness breaks.
func serve(harness string) error {
	f, err := net.DialTimeout("tcp", harness, 10*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	s := &server{out: json.NewEncoder(f), running: map[uint64]context.CancelFunc{}}
	requests := json.NewDecoder(bufio.NewReader(f))
	for {
		var req work.Request
		if err := requests.Decode(&req); err != nil {
			return fmt.Errorf("request: %w", err)
		}
		s.start(req)
	}
}

// start begins, or cancels, one request.
func (s *server) start(req work.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if req.Cancel {
		if cancel := s.running[req.ID]; cancel != nil {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.running[req.ID] = cancel
	go func() {
		defer cancel()
		s.reply(work.Serve(ctx, req, rivalry.Ops()...))
	}()
}

func (s *server) reply(r work.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, r.ID)
	if err := s.out.Encode(r); err != nil {
		fmt.Println("agent: reply:", err)
	}
}
