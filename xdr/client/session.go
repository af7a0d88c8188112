package client

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"manifold/xdr/nfs4"
)

// session is one session's fore channel slots, and the callbacks'.
type session struct {
	id       nfs4.SessionID
	fore     nfs4.ChannelAttrs // as granted
	back     bool              // callbacks were asked for
	cb       *callbacks
	dead     chan struct{} // closed when the server has lost it, or we give it up
	deadOnce sync.Once
	binding  atomic.Bool // a BIND_CONN_TO_SESSION for the back channel is under way

	mu      sync.Mutex
	slots   []slot
	limit   int        // slots below it may be used: sr_target_highest_slotid + 1
	waiters []chan int // of capacity 1, each gets a slot
}

type slot struct {
	seq  uint32 // of the request under way, or the next
	busy bool
}

func newSession(id nfs4.SessionID, fore nfs4.ChannelAttrs) *session {
	s := &session{id: id, fore: fore, dead: make(chan struct{}), slots: make([]slot, fore.MaxRequests)}
	for i := range s.slots {
		s.slots[i].seq = 1
	}
	s.limit = len(s.slots)
	return s
}

// acquire takes the lowest free slot, waiting for one in turn. ok is false
// when the session died; err is ctx's.
func (s *session) acquire(ctx context.Context) (n int, ok bool, err error) {
	s.mu.Lock()
	if len(s.waiters) == 0 {
		if n := s.lowest(); n >= 0 {
			s.slots[n].busy = true
			s.mu.Unlock()
			return n, true, nil
		}
	}
	w := make(chan int, 1)
	s.waiters = append(s.waiters, w)
	s.mu.Unlock()
	select {
	case n := <-w:
		return n, true, nil
	case <-s.dead:
		return 0, false, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiters, w); i >= 0 {
		s.waiters = slices.Delete(s.waiters, i, i+1)
	} else {
		s.free(<-w)
	}
	return 0, true, ctx.Err()
}

// lowest returns the lowest slot that may be used, or -1. mu is held.
func (s *session) lowest() int {
	for i := range s.slots[:s.limit] {
		if !s.slots[i].busy {
			return i
		}
	}
	return -1
}

// free gives a slot back, and free ones to those who wait. mu is held.
func (s *session) free(n int) {
	s.slots[n].busy = false
	s.serve()
}

// serve hands free slots to waiters. mu is held.
func (s *session) serve() {
	for len(s.waiters) > 0 {
		n := s.lowest()
		if n < 0 {
			return
		}
		s.slots[n].busy = true
		s.waiters[0] <- n
		s.waiters = s.waiters[1:]
	}
}

// release gives slot n back; used says that the server took its sequence.
func (s *session) release(n int, used bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if used {
		s.slots[n].seq++
	}
	s.free(n)
}

// skip moves slot n, which its caller keeps, past a sequence that the server took.
func (s *session) skip(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots[n].seq++
}

// sequence fills in the SEQUENCE of the request on slot n.
func (s *session) sequence(n int, cache bool) nfs4.SequenceArgs {
	s.mu.Lock()
	defer s.mu.Unlock()
	highest := n
	for i := range s.slots {
		if s.slots[i].busy {
			highest = max(highest, i)
		}
	}
	return nfs4.SequenceArgs{
		SessionID: s.id, SequenceID: s.slots[n].seq, SlotID: uint32(n),
		HighestSlotID: uint32(highest), CacheThis: cache,
	}
}

// target obeys the server's wish for fewer or more slots (RFC 8881 section
// 18.46.3). Those over it are used up, not taken from their owners.
func (s *session) target(highest uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = int(min(uint64(highest)+1, uint64(len(s.slots))))
	s.serve()
}

// kill marks the session as lost: its slots are void.
func (s *session) kill() { s.deadOnce.Do(func() { close(s.dead) }) }

func (s *session) isDead() bool {
	select {
	case <-s.dead:
		return true
	default:
		return false
	}
}
