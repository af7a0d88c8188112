package mds

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
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
	// once, maxGroups the groups of one user.
	maxUsers   = 4096
	maxLookups = 16
	maxGroups  = 4096
	// groupsPause is how long the log is spared another line on failures.
	groupsPause = time.Minute
)

// groups knows the supplementary groups of users from the user database of this
// machine. What cannot be had in time is not known.
type groups struct {
	lookup func(uid uint32) ([]uint32, error)
	now    func() time.Time
	wait   time.Duration
	log    *zap.Logger
	busy   chan struct{} // one for each look-up

	mu     sync.Mutex // guards:
	known  map[uint32]*membership
	logged time.Time
	failed int // since then
}

// membership is a user's groups: asked for until done is closed, then read-only.
type membership struct {
	asked time.Time
	done  chan struct{}
	gids  []uint32
	ok    bool
}

func newGroups(log *zap.Logger) *groups {
	return &groups{
		lookup: systemGroups, now: time.Now, wait: groupsWait, log: log,
		busy: make(chan struct{}, maxLookups), known: map[uint32]*membership{},
	}
}

// of returns a user's groups, or false after groups.wait at the latest. It is
// op.Parts.Groups.
func (g *groups) of(uid uint32) ([]uint32, bool) {
	m, left := g.member(uid)
	if m == nil {
		g.complain(uid, errors.New("too many look-ups"))
		return nil, false
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
		return m.gids, m.ok
	default:
		g.complain(uid, errors.New("the look-up takes long"))
		return nil, false
	}
}

// member returns what is known or asked of a user, and how long to wait for it.
// Nil if there are too many look-ups.
func (g *groups) member(uid uint32) (*membership, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if m := g.known[uid]; m != nil && (!m.finished() || !m.old(now)) {
		return m, g.wait - now.Sub(m.asked)
	}
	if delete(g.known, uid); !g.makeRoom(now) {
		return nil, 0
	}
	m := &membership{asked: now, done: make(chan struct{})}
	g.known[uid] = m
	go g.ask(uid, m)
	return m, g.wait
}

func (m *membership) finished() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// old says whether a finished m is to be asked for again.
func (m *membership) old(now time.Time) bool {
	if m.ok {
		return now.Sub(m.asked) >= groupsTime
	}
	return now.Sub(m.asked) >= missingTime
}

// makeRoom forgets somebody if as many users as may be are remembered: those
// that are out of date, or else one that is not. g.mu is held.
func (g *groups) makeRoom(now time.Time) bool {
	if len(g.known) < maxUsers {
		return true
	}
	var one *uint32
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
func (g *groups) ask(uid uint32, m *membership) {
	g.busy <- struct{}{}
	gids, err := g.lookup(uid)
	<-g.busy
	if err == nil && len(gids) > maxGroups {
		err = fmt.Errorf("%d groups, more than %d", len(gids), maxGroups)
	}
	if m.ok = err == nil; m.ok {
		m.gids = gids
	}
	if err != nil {
		g.complain(uid, err)
	}
	close(m.done)
}

// complain logs, not too often, that a client's word counts.
func (g *groups) complain(uid uint32, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed++
	if now := g.now(); now.Sub(g.logged) >= groupsPause {
		g.log.Warn("groups of a user not found on this machine: those that the client sends count",
			zap.Uint32("uid", uid), zap.Int("failures", g.failed), zap.Error(err))
		g.logged, g.failed = now, 0
	}
}

// systemGroups asks this machine's user database.
func systemGroups(uid uint32) ([]uint32, error) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return nil, err
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	gids := make([]uint32, 0, len(ids))
	for _, id := range ids {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("group %q: %w", id, err)
		}
		gids = append(gids, uint32(n))
	}
	return gids, nil
}
