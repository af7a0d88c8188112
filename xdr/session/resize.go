package session

// aim makes n the number of fore slots that s is to have. The slot table
// follows as the client's requests show that it has learnt of it.
func (s *session) aim(n uint32) {
	if s.target != n {
		s.target, s.asked = n, 0
		s.gen++
	}
}

// reserve takes cache memory for up to n more slots of s, and returns for how
// many there was enough.
func (t *Table) reserve(s *session, n uint32) uint32 {
	n = min(n, t.room(s))
	t.cacheBytes += int64(n) * int64(s.cached)
	return n
}

// room returns for how many more slots of s there is cache memory.
func (t *Table) room(s *session) uint32 {
	if s.cached == 0 {
		return t.cfg.MaxSlots
	}
	return uint32(min((t.cfg.MaxCacheBytes-t.cacheBytes)/int64(s.cached), int64(t.cfg.MaxSlots)))
}

// extend appends n unused slots.
func (s *session) extend(n uint32) {
	block := make([]Slot, n)
	for i := range block {
		block[i].sess = s
		s.slots = append(s.slots, &block[i])
	}
}

// resize brings the number of slots nearer to the target when a new request
// comes on slot, whose sa_highest_slotid is high (RFC 8881 section 2.10.6.1).
//
// Slots go when the client has seen the target and has nothing outstanding
// above it. They come back, with fresh sequence ids, only when the client has
// seen that they were gone, because only then does it start again at 1.
func (t *Table) resize(s *session, slot *Slot, high uint32) {
	n := uint32(len(s.slots))
	switch {
	case s.target > n && slot.sawLoss(s):
		s.extend(t.reserve(s, s.target-n))
	case s.target < n && slot.sawTarget(s) && high < s.target:
		for _, gone := range s.slots[s.target:] {
			if gone.busy || gone == slot {
				return
			}
		}
		clear(s.slots[s.target:])
		s.slots = s.slots[:s.target]
		t.cacheBytes -= int64(n-s.target) * int64(s.cached)
		s.gen++
		s.lost = s.gen
	}
}

// sawTarget says whether the client has seen what is wanted of it now: a reply
// that said so was given on slot, and it goes on there.
func (slot *Slot) sawTarget(s *session) bool { return slot.used && slot.gen == s.gen }

// sawLoss says whether the client has seen how few slots were left when some
// went last.
func (slot *Slot) sawLoss(s *session) bool { return s.lost == 0 || slot.used && slot.gen >= s.lost }
