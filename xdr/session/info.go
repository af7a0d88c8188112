package session

import (
	"cmp"
	"slices"
	"time"

	"manifold/xdr/nfs4"
)

// ClientInfo describes a client for the administrator.
type ClientInfo struct {
	ID          nfs4.ClientID
	Owner       []byte // co_ownerid
	ImplName    string // nii_name
	ImplDomain  string // nii_domain
	Remote      string
	Principal   Principal
	Sessions    int
	Slots       int // fore slots of all sessions
	Busy        int // requests that run
	Conns       int
	LastRenewal time.Time // unconfirmed: of its EXCHANGE_ID
	Confirmed   bool
	MayReclaim  bool
	Reclaimed   bool
	Flags       uint32 // SeqStatus... bits that any of its sessions would see
}

// Clients describes every client, ordered by ID.
func (t *Table) Clients() []ClientInfo {
	infos := make([]ClientInfo, 0, len(t.clients))
	for _, c := range t.clients {
		infos = append(infos, t.describe(c))
	}
	slices.SortFunc(infos, func(a, b ClientInfo) int { return cmp.Compare(a.ID, b.ID) })
	return infos
}

// Client describes one client; false if there is none of that id.
func (t *Table) Client(id nfs4.ClientID) (ClientInfo, bool) {
	c := t.clients[id]
	if c == nil {
		return ClientInfo{}, false
	}
	return t.describe(c), true
}

func (t *Table) describe(c *client) ClientInfo {
	info := ClientInfo{
		ID: c.id, Owner: []byte(c.owner), ImplName: c.implName, ImplDomain: c.implDomain,
		Remote: c.remote, Principal: c.principal, Sessions: len(c.sessions), Busy: c.busy,
		Conns: len(t.Conns(c.id)), LastRenewal: c.renewed, Confirmed: c.confirmed,
		MayReclaim: c.mayReclaim, Reclaimed: c.reclaimed, Flags: c.statusFlags(),
	}
	for _, s := range c.sessions {
		info.Slots += len(s.slots)
		info.Flags |= s.statusFlags()
	}
	return info
}

// Census counts what the Table keeps, by the name of the table. All are 0 when
// all clients and connections are gone.
func (t *Table) Census() map[string]int {
	return map[string]int{
		"clients": len(t.clients), "confirmed": len(t.confirmed), "unconfirmed": len(t.unconfirmed),
		"sessions": len(t.sessions), "connections": len(t.conns), "addresses": len(t.hosts),
		"confirming": t.confirming, "cache_bytes": int(t.cacheBytes),
	}
}
