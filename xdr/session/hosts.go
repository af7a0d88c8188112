package session

import "slices"

// hosts counts clients by the address that they came from, so that one address
// cannot take the room of all.
type hosts map[string]*host

type host struct {
	confirmed   int
	unconfirmed []*client // oldest first
}

// address is a Peer's address without its port.
func address(remote string) string {
	for i := len(remote) - 1; i >= 0; i-- {
		if remote[i] == ':' {
			return remote[:i]
		}
	}
	return remote
}

func (hs hosts) of(c *client) *host {
	h := hs[c.host]
	if h == nil {
		h = &host{}
		hs[c.host] = h
	}
	return h
}

// propose counts a client that is not confirmed yet.
func (hs hosts) propose(c *client) {
	h := hs.of(c)
	h.unconfirmed = append(h.unconfirmed, c)
}

// confirm counts one that is from now on.
func (hs hosts) confirm(c *client) {
	h := hs.of(c)
	h.withdraw(c)
	h.confirmed++
}

// remove forgets a client, confirmed or not.
func (hs hosts) remove(c *client) {
	h := hs.of(c)
	if c.confirmed {
		h.confirmed--
	} else {
		h.withdraw(c)
	}
	if h.confirmed == 0 && len(h.unconfirmed) == 0 {
		delete(hs, c.host)
	}
}

func (h *host) withdraw(c *client) {
	if i := slices.Index(h.unconfirmed, c); i >= 0 {
		h.unconfirmed = slices.Delete(h.unconfirmed, i, i+1)
	}
}

// crowded says whether an address has as many confirmed clients as it may.
func (t *Table) crowded(c *client) bool {
	return t.hosts.of(c).confirmed >= t.cfg.MaxPerHost
}

// hostShare is which part of the unconfirmed clients may be of one address, but
// 8 always may.
const hostShare = 16

// displaced returns the unconfirmed client that makes room for a newer one from
// an address: that address's oldest if it has its share, else the oldest of all
// if there are as many as may be; nil if there is room.
func (t *Table) displaced(from string) *client {
	if h := t.hosts[from]; h != nil && len(h.unconfirmed) >= max(t.cfg.MaxUnconfirmed/hostShare, 8) {
		for _, c := range h.unconfirmed {
			if c.planned == nil {
				return c
			}
		}
		return h.unconfirmed[0]
	}
	if len(t.unconfirmed) >= t.cfg.MaxUnconfirmed {
		return t.stalest()
	}
	return nil
}
