package session

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"manifold/xdr/nfs4"
)

// ConnID names one connection for as long as the process lives. 0 is no
// connection.
type ConnID uint64

// Principal is who sent a request, as far as two requests must come from the
// same one: the RPC flavor, and the uid (AUTH_SYS) or the name (RPCSEC_GSS).
type Principal struct {
	Flavor uint32
	UID    uint32
	Name   string
}

// Peer is where an operation outside a session comes from.
type Peer struct {
	Conn      ConnID
	Principal Principal
	Protected bool   // the request's integrity is (RPCSEC_GSS)
	Remote    string // address, for ClientInfo only
	Minor     uint32 // minor version of the COMPOUND
}

// Table holds the clients and sessions of one server instance.
type Table struct {
	cfg Config

	clients     map[nfs4.ClientID]*client
	confirmed   map[string]*client // by co_ownerid
	unconfirmed map[string]*client // by co_ownerid
	sessions    map[nfs4.SessionID]*session
	conns       map[ConnID][]*session // the sessions that a connection is bound to
	hosts       hosts

	confirming  int // plans that would confirm a client
	lastClient  uint32
	lastSession uint64
	cacheBytes  int64 // reserved by the reply caches of all sessions
	recalls     uint64
	tuned       time.Time // when Tune began to count anew
}

// New returns an empty Table.
func New(cfg Config) *Table {
	return &Table{
		cfg:         cfg.withDefaults(),
		clients:     map[nfs4.ClientID]*client{},
		confirmed:   map[string]*client{},
		unconfirmed: map[string]*client{},
		sessions:    map[nfs4.SessionID]*session{},
		conns:       map[ConnID][]*session{},
		hosts:       hosts{},
	}
}

// client is the record of RFC 8881 section 18.35.4: owner, verifier,
// principal, client id, confirmed.
type client struct {
	id        nfs4.ClientID
	owner     string
	verifier  nfs4.Verifier
	principal Principal
	machine   bool        // SP4_MACH_CRED: principal is the machine credential
	allow     nfs4.Bitmap // what it may do for others
	confirmed bool

	implName, implDomain, remote string
	host                         string // address that EXCHANGE_ID came from
	faults                       int    // see Fault

	// The contrived slot of CREATE_SESSION (section 2.10.6.1.1): the sequence
	// id of the last one that succeeded, and its reply.
	createSeq   uint32
	created     bool
	createReply nfs4.CreateSessionRes
	// planned is the session that a CREATE_SESSION between its two phases is
	// about to add.
	planned *session

	sessions   []*session // oldest first
	renewed    time.Time  // unconfirmed: when it was made
	busy       int        // requests that run
	flags      uint32     // set by SetFlags
	notice     uint32     // set by Notify
	news       uint64     // moves with notice
	mayReclaim bool
	reclaimed  bool
}

// nextClientID returns a client id that no client has.
func (t *Table) nextClientID() nfs4.ClientID {
	for {
		t.lastClient++
		id := nfs4.ClientID(t.cfg.ClientIDHigh)<<32 | nfs4.ClientID(t.lastClient)
		if _, taken := t.clients[id]; !taken && t.lastClient != 0 {
			return id
		}
	}
}

// nextSessionID returns a session id that nobody can guess without the Seed,
// and that another instance returns only by a collision of SHA-256.
func (t *Table) nextSessionID() (id nfs4.SessionID) {
	t.lastSession++
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(t.cfg.Seed[:], t.lastSession))
	copy(id[:], sum[:])
	return id
}

// hasState says whether c holds state outside this package.
func (t *Table) hasState(c *client) bool {
	return t.cfg.HasState != nil && t.cfg.HasState(c.id)
}

// lapsed says whether c's lease ran out. A client with a request under way
// does not lose its lease.
func (t *Table) lapsed(now time.Time, c *client) bool {
	return c.busy == 0 && now.Sub(c.renewed) > t.cfg.Lease
}

// remove forgets c and its sessions. A plan for it cannot be committed then.
func (t *Table) remove(c *client) {
	for len(c.sessions) > 0 {
		t.destroy(c.sessions[len(c.sessions)-1])
	}
	t.hosts.remove(c)
	delete(t.clients, c.id)
	if t.confirmed[c.owner] == c {
		delete(t.confirmed, c.owner)
	}
	if t.unconfirmed[c.owner] == c {
		delete(t.unconfirmed, c.owner)
	}
}
