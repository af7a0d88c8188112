package state

import (
	"errors"
	"maps"
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// Config says how a Core is to be. All fields are needed, but Courtesy,
// DelegPause and the limits on delegations, which may be 0.
type Config struct {
	// Boot is the number of this start of the server, in every stateid: it must
	// differ from that of all earlier ones, and not be 0 or 2^32-1.
	Boot uint32
	// Grace is how long clients may reclaim after New; 0 means not at all.
	Grace time.Duration
	// Recall is how long a client may take to give up a layout or a delegation:
	// about a lease.
	Recall time.Duration
	// DelegPause is how long after the recall of a delegation nobody gets one
	// of the same file.
	DelegPause time.Duration
	// Courtesy is how long a client without a lease keeps what nobody else
	// wants; 0 is not at all.
	Courtesy time.Duration
	// PerClient bounds one client (its Clients is not looked at), Total all.
	PerClient, Total Counts
	// FileLocks bounds the byte ranges locked in one file: where one of them is
	// long, every LOCK looks at all that begin before it. 0 is 16384.
	FileLocks int
}

const fileLocks = 1 << 14

// Validate says what is wrong with the configuration.
func (cfg Config) Validate() error {
	for _, n := range []Counts{cfg.PerClient, cfg.Total} {
		if n.Opens < 1 || n.Owners < 1 || n.Locks < 1 || n.Layouts < 1 || n.Delegs < 0 {
			return errors.New("state: a limit is too low")
		}
	}
	switch {
	case cfg.Total.Clients < 1 || cfg.FileLocks < 0:
		return errors.New("state: a limit is too low")
	case cfg.Boot == 0 || cfg.Boot == 1<<32-1:
		return errors.New("state: boot number 0 or 2^32-1")
	case cfg.Grace < 0 || cfg.Recall <= 0 || cfg.DelegPause < 0 || cfg.Courtesy < 0:
		return errors.New("state: a time is not positive")
	}
	return nil
}

// Core is all state of one metadata server. It has no mutex: see the package's
// comment for what the caller must hold.
type Core struct {
	cfg     Config
	next    uint64 // number of the newest stateid
	clients map[nfs4.ClientID]*client
	files   index[*file]
	opens   index[*open] // this and the next three by number of the stateid
	owners  index[*lockOwner]
	layouts index[*grant]
	delegs  index[*deleg]
	onDS    map[layout.DSID]map[*grant]struct{}
	waited  map[*file]struct{} // those with waits for locks
	recalls map[*grant]struct{}
	bulks   map[*client]struct{} // clients of which everything is recalled
	// recalled is the delegations under recall, cooling the files that had one.
	recalled map[*deleg]struct{}
	cooling  cooling
	courtesy map[*client]struct{}
	n        Counts

	waiting map[string]bool // clients of record that may yet come back, and whether they may reclaim
	until   time.Time       // end of grace
}

// env is what Decide knows besides the Request.
type env struct {
	now time.Time
}

// New returns a Core without state, in grace until each client of record has
// reclaimed or now+Grace. record names the clients that had state before the
// restart, each by the name that AddClient will be given, and says whether they
// may reclaim it. Those that may not are waited for, too: until they have heard
// of the restart they believe that they still have what they had (RFC 8881
// section 8.4.2.1: grace is as long as a lease). Errors: those of Validate.
func New(cfg Config, now time.Time, record map[string]bool) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.FileLocks == 0 {
		cfg.FileLocks = fileLocks
	}
	c := &Core{
		cfg:     cfg,
		clients: map[nfs4.ClientID]*client{},
		onDS:    map[layout.DSID]map[*grant]struct{}{},
		waited:  map[*file]struct{}{},
		recalls: map[*grant]struct{}{},
		bulks:   map[*client]struct{}{},
		waiting: map[string]bool{},
		until:   now.Add(cfg.Grace),

		recalled: map[*deleg]struct{}{},
		cooling:  cooling{at: map[uint64]time.Time{}},
		courtesy: map[*client]struct{}{},
	}
	maps.Copy(c.waiting, record)
	return c, nil
}

// Decide answers r and changes nothing, but for setting aside numbers of
// stateids that no other Decide will use.
func (c *Core) Decide(now time.Time, r Request) Verdict { return r.decide(c, env{now}) }

// Apply makes a Verdict's Change. It returns what can only be known now (Idle),
// and false if nothing was done because the client is gone or going: then the
// operation answers ErrExpired. A report on a recall that has come to its end
// meanwhile is also false, and means nothing.
func (c *Core) Apply(ch Change) (Effects, bool) {
	var e Effects
	if ch.act == nil {
		return e, true
	}
	ok := ch.act.apply(c, &e)
	return e, ok
}

// Counts returns how much state there is.
func (c *Core) Counts() Counts { return c.n }

// Knows says whether a client has been added and not forgotten.
func (c *Core) Knows(id nfs4.ClientID) bool { return c.clients[id] != nil }

// CountsOf returns how much state a client has: all zero if it has none, or is
// not known (DESTROY_CLIENTID asks).
func (c *Core) CountsOf(id nfs4.ClientID) Counts {
	if cl := c.clients[id]; cl != nil {
		return cl.n
	}
	return Counts{}
}
