package session

import "manifold/xdr/nfs4"

// SetSlots asks that every session of a client (0: of all clients) have n fore
// slots, 1 to MaxSlots of the Config and as many as the cache memory allows.
// The table grows or shrinks as the client's requests show that it has learnt
// of it (RFC 8881 section 2.10.6.1).
func (t *Table) SetSlots(id nfs4.ClientID, n uint32) {
	n = max(min(n, t.cfg.MaxSlots), 1)
	for _, s := range t.sessions {
		if (id == 0 || s.client.id == id) && s.target != n {
			s.target = n
			s.gen++
		}
	}
}

// reserve takes cache memory for up to n more slots of s, and returns for how
// many there was enough.
func (t *Table) reserve(s *session, n uint32) uint32 {
	if s.cached > 0 {
		n = uint32(min(int64(n), (t.cfg.MaxCacheBytes-t.cacheBytes)/int64(s.cached)))
	}
	t.cacheBytes += int64(n) * int64(s.cached)
	return n
}

// grow appends n unused slots.
func (s *session) grow(n uint32) {
	block := make([]Slot, n)
	for i := range block {
		block[i].sess = s
		s.slots = append(s.slots, &block[i])
	}
}

// resize brings the number of slots nearer to the target when a new request
// comes on slot, whose sa_highest_slotid is high.
//
// Slots go when the client has seen the target and has nothing outstanding
// above it. They come back, with fresh sequence ids, only when the client has
// seen that they were gone, because only then does it start again at 1.
func (t *Table) resize(s *session, slot *Slot, high uint32) {
	n := uint32(len(s.slots))
	if s.target == n {
		return
	}
	seen := slot.used && slot.gen == s.gen
	if s.target > n {
		if more := t.more(s, seen); more > 0 {
			s.grow(more)
			s.shrunk = false
		}
		return
	}
	if !seen || high >= s.target {
		return
	}
	for _, gone := range s.slots[s.target:] {
		if gone.busy || gone == slot {
			return
		}
	}
	clear(s.slots[s.target:])
	s.slots = s.slots[:s.target]
	t.cacheBytes -= int64(n-s.target) * int64(s.cached)
	s.shrunk = true
}

// more reserves the slots that s may have beyond those it has now.
func (t *Table) more(s *session, seen bool) uint32 {
	if s.shrunk && !seen {
		return 0
	}
	return t.reserve(s, s.target-uint32(len(s.slots)))
}
