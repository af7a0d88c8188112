package session

import (
	"fmt"
	"slices"

	"manifold/xdr/nfs4"
)

// audit checks what must hold of a Table between any two calls.
func (t *Table) audit() error {
	if len(t.confirmed) > t.cfg.MaxClients || len(t.unconfirmed) > t.cfg.MaxUnconfirmed {
		return fmt.Errorf("%d confirmed and %d unconfirmed clients", len(t.confirmed), len(t.unconfirmed))
	}
	if n := len(t.confirmed) + len(t.unconfirmed); n != len(t.clients) {
		return fmt.Errorf("%d clients, %d by owner", len(t.clients), n)
	}
	sessions, byHost := 0, map[string]*host{}
	for id, c := range t.clients {
		h := byHost[c.host]
		if h == nil {
			h = &host{}
			byHost[c.host] = h
		}
		if c.confirmed {
			h.confirmed++
		} else if !slices.Contains(t.hosts.of(c).unconfirmed, c) {
			return fmt.Errorf("client %#x is not listed under %q", id, c.host)
		}
		sessions += len(c.sessions)
		if err := t.auditClient(c); err != nil {
			return fmt.Errorf("client %#x: %w", id, err)
		}
		if c.id != id || uint32(id>>32) != t.cfg.ClientIDHigh {
			return fmt.Errorf("client %#x under %#x", c.id, id)
		}
	}
	for name, h := range t.hosts {
		if byHost[name] == nil || byHost[name].confirmed != h.confirmed {
			return fmt.Errorf("address %q: %+v, has %+v", name, h, byHost[name])
		}
	}
	if sessions != len(t.sessions) {
		return fmt.Errorf("%d sessions, clients have %d", len(t.sessions), sessions)
	}
	if t.cacheBytes < 0 || t.cacheBytes > t.cfg.MaxCacheBytes {
		return fmt.Errorf("%d bytes of cache", t.cacheBytes)
	}
	return t.auditConns()
}

func (t *Table) auditClient(c *client) error {
	byOwner := t.unconfirmed
	if c.confirmed {
		byOwner = t.confirmed
	}
	if byOwner[c.owner] != c {
		return fmt.Errorf("not found by its owner %q", c.owner)
	}
	if !c.confirmed && len(c.sessions) > 0 {
		return fmt.Errorf("unconfirmed, with %d sessions", len(c.sessions))
	}
	if c.confirmed && len(c.sessions) > t.cfg.MaxSessions {
		return fmt.Errorf("%d sessions", len(c.sessions))
	}
	busy := 0
	for _, s := range c.sessions {
		busy += s.busy
		if err := t.auditSession(c, s); err != nil {
			return fmt.Errorf("session %x: %w", s.id, err)
		}
	}
	if busy != c.busy {
		return fmt.Errorf("busy %d, its sessions %d", c.busy, busy)
	}
	return nil
}

func (t *Table) auditSession(c *client, s *session) error {
	if t.sessions[s.id] != s || s.client != c || s.dead {
		return fmt.Errorf("not found, of another client, or dead")
	}
	n := uint32(len(s.slots))
	if n == 0 || n > t.cfg.MaxSlots || s.target == 0 || s.target > t.cfg.MaxSlots || s.lost > s.gen {
		return fmt.Errorf("%d slots, target %d, generation %d, of the loss %d", n, s.target, s.gen, s.lost)
	}
	busy := 0
	for i, slot := range s.slots {
		if slot.busy {
			busy++
		}
		if slot.sess != s || uint32(cap(slot.reply)) > s.cached || slot.kept && !slot.used {
			return fmt.Errorf("slot %d: %+v", i, slot)
		}
	}
	if busy != s.busy {
		return fmt.Errorf("busy %d, its slots %d", s.busy, busy)
	}
	if s.dying && busy == 0 && !s.callingBack() {
		return fmt.Errorf("dying and idle")
	}
	if len(s.bound) > t.cfg.MaxConns {
		return fmt.Errorf("%d connections", len(s.bound))
	}
	for _, b := range s.bound {
		if b.conn == 0 || b.dir == 0 || !slices.Contains(t.conns[b.conn], s) {
			return fmt.Errorf("binding %+v", b)
		}
	}
	return nil
}

// auditConns checks that every binding is known on both sides. A planned
// session is bound, but not in the table yet; its cache counts too.
func (t *Table) auditConns() error {
	cache, seen := int64(0), map[*session]bool{}
	count := func(s *session) {
		if !seen[s] {
			seen[s] = true
			cache += int64(len(s.slots)) * int64(s.cached)
		}
	}
	for _, s := range t.sessions {
		count(s)
	}
	for _, c := range t.clients {
		if c.planned != nil {
			count(c.planned)
		}
	}
	for conn, all := range t.conns {
		if len(all) == 0 || conn == 0 {
			return fmt.Errorf("connection %d with %d sessions", conn, len(all))
		}
		for _, s := range all {
			if s.dead || s.find(conn) < 0 {
				return fmt.Errorf("connection %d names a session that is not bound to it", conn)
			}
			count(s)
		}
	}
	if cache > t.cacheBytes {
		return fmt.Errorf("cache of %d bytes, accounted %d", cache, t.cacheBytes)
	}
	return nil
}

// wish has every session of a client (0: of all) have n slots, no more and no
// fewer, as Tune and use would have it.
func (t *Table) wish(id nfs4.ClientID, n uint32) {
	n = max(min(n, t.cfg.MaxSlots), 1)
	for _, s := range t.sessions {
		if id == 0 || s.client.id == id {
			s.want = n
			s.aim(n)
		}
	}
}
