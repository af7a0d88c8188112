package mds

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// groupsTime is how long what was looked up counts, missingTime a failure.
	groupsTime  = 5 * time.Minute
	missingTime = time.Minute
	// groupsWait is how long a call waits for a look-up.
	groupsWait = time.Second
	// maxUsers bounds the users that are remembered, maxLookups the look-ups at
	// once.
	maxUsers   = 4096
	maxLookups = 16
	// groupsPause is how long the log is spared another line on failures.
	groupsPause = time.Minute
)

// lookups knows what the user database of this machine says of users, who are
// named by a K. What cannot be had in time is not known.
type lookups[K comparable, V any] struct {
	lookup  func(K) (V, error)
	failing string // for the log: what follows from a failure
	now     func() time.Time
	wait    time.Duration
	log     *zap.Logger
	busy    chan struct{} // one for each look-up

	mu     sync.Mutex // guards:
	known  map[K]*answer[V]
	logged time.Time
	failed int // since then
}

// answer is what is known of a user: asked for until done is closed, then
// read-only.
type answer[V any] struct {
	asked time.Time
	done  chan struct{}
	value V
	err   error // why there is no value
}

func newLookups[K comparable, V any](lookup func(K) (V, error), failing string, log *zap.Logger) *lookups[K, V] {
	return &lookups[K, V]{
		lookup: lookup, failing: failing, now: time.Now, wait: groupsWait, log: log,
		busy: make(chan struct{}, maxLookups), known: map[K]*answer[V]{},
	}
}

// Reasons why a user is not known in time.
var (
	errMany = errors.New("too many look-ups")
	errSlow = errors.New("the look-up takes long")
)

// of returns what is known of a user, after wait at the latest.
func (g *lookups[K, V]) of(uid K) (none V, err error) {
	m, left := g.member(uid)
	if m == nil {
		g.complain(uid, errMany)
		return none, errMany
	}
	if left > 0 {
		late := time.NewTimer(left)
		defer late.Stop()
		select {
		case <-m.done:
		case <-late.C:
		}
	}
	select {
	case <-m.done:
		return m.value, m.err
	default:
		g.complain(uid, errSlow)
		return none, errSlow
	}
}

// member returns what is known or asked of a user, and how long to wait for it.
// Nil if there are too many look-ups.
func (g *lookups[K, V]) member(uid K) (*answer[V], time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if m := g.known[uid]; m != nil && (!m.finished() || !m.old(now)) {
		return m, g.wait - now.Sub(m.asked)
	}
	if delete(g.known, uid); !g.makeRoom(now) {
		return nil, 0
	}
	m := &answer[V]{asked: now, done: make(chan struct{})}
	g.known[uid] = m
	go g.ask(uid, m)
	return m, g.wait
}

func (m *answer[V]) finished() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// old says whether a finished m is to be asked for again.
func (m *answer[V]) old(now time.Time) bool {
	if m.err == nil {
		return now.Sub(m.asked) >= groupsTime
	}
	return now.Sub(m.asked) >= missingTime
}

// makeRoom forgets somebody if as many users as may be are remembered: those
// that are out of date, or else one that is not. g.mu is held.
func (g *lookups[K, V]) makeRoom(now time.Time) bool {
	if len(g.known) < maxUsers {
		return true
	}
	var one *K
	for uid, m := range g.known {
		switch {
		case !m.finished():
		case m.old(now):
			delete(g.known, uid)
		case one == nil:
			one = &uid
		}
	}
	if len(g.known) >= maxUsers && one != nil {
		delete(g.known, *one)
	}
	return len(g.known) < maxUsers
}

// ask completes m.
func (g *lookups[K, V]) ask(uid K, m *answer[V]) {
	g.busy <- struct{}{}
	value, err := g.lookup(uid)
	<-g.busy
	if m.err = err; err == nil {
		m.value = value
	} else {
		g.complain(uid, err)
	}
	close(m.done)
}

// complain logs, not too often, what follows from not knowing a user.
func (g *lookups[K, V]) complain(uid K, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed++
	if now := g.now(); now.Sub(g.logged) >= groupsPause {
		g.log.Warn(g.failing, zap.String("user", fmt.Sprint(uid)), zap.Int("failures", g.failed), zap.Error(err))
		g.logged, g.failed = now, 0
	}
}
