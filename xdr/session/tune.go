package session

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"manifold/xdr/nfs4"
)

const (
	// firstSlots is what a new session gets when memory is no longer plenty. If
	// its client needs 64, it has them after three replies.
	firstSlots = 8
	// leastSlots are never asked back: one for the request that takes long, one
	// for the lease.
	leastSlots = 2
	// slotRecalls is how often one wish for slots is sent by callback. Linux
	// answers each with one SEQUENCE: the first one's reply tells it the target,
	// the second shows that it knows; one more for a callback that is lost.
	slotRecalls = 3
	// recallsAtOnce bounds the callbacks of one Tune.
	recallsAtOnce = 64
)

// SlotRecall is a session whose client is to be told by CB_RECALL_SLOT (RFC 8881
// section 20.8) that it has too many slots: Table.CallbackOn, then SlotsRecalled.
type SlotRecall struct {
	Client  nfs4.ClientID
	Session nfs4.SessionID
	Target  uint32 // rsa_target_highest_slotid
	give    int    // slots
}

// SlotUse sums the slot tables up. Recalls are CB_RECALL_SLOTs asked for.
type SlotUse struct {
	Sessions, Granted, InUse int
	CacheBytes               int64 // reserved for the slots' replies
	Recalls                  uint64
}

// SlotUse returns how the slots are used now.
func (t *Table) SlotUse() SlotUse {
	u := SlotUse{Sessions: len(t.sessions), CacheBytes: t.cacheBytes, Recalls: t.recalls}
	for _, s := range t.sessions {
		u.Granted += len(s.slots)
		u.InUse += s.busy
	}
	return u
}

// plenty says that a new session may have all that it asks for, scarce that
// memory is so short that no session grows and unused slots are asked back.
func (t *Table) plenty() bool { return t.cacheBytes < t.cfg.MaxCacheBytes/2 }
func (t *Table) scarce() bool { return t.cacheBytes > t.scarceFrom() }

func (t *Table) scarceFrom() int64 { return t.cfg.MaxCacheBytes / 4 * 3 }

// first returns how many slots a new session begins with, if there is memory.
func (t *Table) first(want uint32) uint32 {
	if t.plenty() {
		return want
	}
	return min(want, firstSlots)
}

// used notes that the client uses the first n slots of s, and gives more to one
// that uses all: as many again, up to what it wants.
func (t *Table) used(s *session, n uint32) {
	s.peak = max(s.peak, n)
	if n < s.target || s.target >= s.want || s.target > uint32(len(s.slots)) || t.scarce() {
		return
	}
	s.aim(s.target + min(s.target, s.want-s.target, t.room(s)))
}

// Tune looks at all sessions, now and then: while memory for replies is scarce
// it gives up those of clients without lease and connection, and lowers the
// targets of those that do not use their slots, or have more than their share. It returns whether memory is scarce, and the clients to be told
// by callback: SEQUENCE replies tell the others. Slots go only when the client
// has shown that it knows: see resize.
func (t *Table) Tune(now time.Time) (recalls []SlotRecall, scarce bool) {
	next := !t.tuned.IsZero() && now.Sub(t.tuned) >= t.cfg.Lease
	if next || t.tuned.IsZero() {
		t.tuned = now
	}
	scarce = t.scarce()
	for _, s := range t.sessions {
		if scarce && len(s.bound) == 0 && t.lapsed(now, s.client) {
			t.destroy(s) // its client may stay (RFC 8881 section 8.4.2.3), and makes another
			continue
		}
		if scarce {
			s.aim(min(s.target, max(min(max(s.peak, s.before), t.share(s)), leastSlots)))
		}
		if next {
			s.before, s.peak = s.peak, 0
		}
		if s.target < uint32(len(s.slots)) && s.asked < slotRecalls && !s.asking && s.callable() {
			recalls = append(recalls, SlotRecall{s.client.id, s.id, s.target - 1, len(s.slots) - int(s.target)})
		}
	}
	// Those first that have the most to give.
	slices.SortFunc(recalls, func(a, b SlotRecall) int {
		return cmp.Or(cmp.Compare(b.give, a.give), bytes.Compare(a.Session[:], b.Session[:]))
	})
	recalls = recalls[:min(len(recalls), recallsAtOnce)]
	for _, r := range recalls {
		s := t.sessions[r.Session]
		s.asked++
		s.asking = true
		t.recalls++
	}
	return recalls, scarce
}

// share is how many slots each session may have if all are as large as s, and
// memory is not to be scarce.
func (t *Table) share(s *session) uint32 {
	if s.cached == 0 {
		return s.target
	}
	return uint32(min(t.scarceFrom()/int64(s.cached)/int64(len(t.sessions)), int64(s.target)))
}

// SlotsRecalled ends a SlotRecall, however it went. A client that did not take
// it may be told again by a later Tune.
func (t *Table) SlotsRecalled(r *SlotRecall) {
	if s := t.sessions[r.Session]; s != nil {
		s.asking = false
	}
}
