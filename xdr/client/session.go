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
	slots   []slot     // as many as were asked for
	limit   int        // slots below it may be used: sr_target_highest_slotid + 1
	gen     uint32     // moves with limit
	waiters []chan int // of capacity 1, each gets a slot
}

type slot struct {
	seq  uint32 // of the request under way, or the next
	busy bool
	gen  uint32 // the session's when the slot was taken
}

// newSession is one of at most slots, of which the server granted some.
func newSession(id nfs4.SessionID, fore nfs4.ChannelAttrs, slots int) *session {
	s := &session{id: id, fore: fore, dead: make(chan struct{}), slots: make([]slot, slots), limit: int(fore.MaxRequests)}
	for i := range s.slots {
		s.slots[i].seq = 1
	}
	return s
}

// acquire takes the lowest free slot, waiting for one in turn. ok is false
// when the session died; err is ctx's.
func (s *session) acquire(ctx context.Context) (n int, ok bool, err error) {
	s.mu.Lock()
	if len(s.waiters) == 0 {
		if n := s.lowest(); n >= 0 {
			s.take(n)
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

// take makes slot n busy. mu is held.
func (s *session) take(n int) { s.slots[n].busy, s.slots[n].gen = true, s.gen }

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
		s.take(n)
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

// heard obeys the server's wish for fewer or more slots (RFC 8881 section
// 18.46.3), as the reply on slot n has it. Those over it are used up, not taken
// from their owners. A reply to what was sent before the last change of that
// kind may be older than it, and is not heard.
func (s *session) heard(n int, highest, target uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots[n].gen != s.gen {
		return
	}
	have := int(min(uint64(highest)+1, uint64(len(s.slots))))
	gone := s.slots[have:]
	if !slices.ContainsFunc(gone, func(s slot) bool { return s.busy }) {
		for i := range gone {
			gone[i].seq = 1 // those that come again begin anew
		}
	}
	s.setLimit(min(target, highest))
}

// recalled obeys CB_RECALL_SLOT (RFC 8881 section 20.8).
func (s *session) recalled(target uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLimit(min(target, uint32(s.limit-1)))
}

// setLimit makes highest the last slot that may be used. mu is held.
func (s *session) setLimit(highest uint32) {
	limit := int(min(uint64(highest)+1, uint64(len(s.slots))))
	if limit != s.limit {
		s.limit = limit
		s.gen++
		s.serve()
	}
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
