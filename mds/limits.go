package mds

import (
	"time"

	"manifold/mds/state"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/tcp"
	"manifold/xdr/session"
)

// Limits bound what clients may take: all of them together, one, and those of
// one address. See the package's comment for what comes after.
type Limits struct {
	// MaxClients, MaxOpens, MaxLocks and MaxLayouts bound the state of all
	// clients together: 4096, 1 M, 1 M and 1 M.
	MaxClients, MaxOpens, MaxLocks, MaxLayouts int
	// MaxDelegations bounds the delegations of all clients together: 256 k.
	MaxDelegations int
	// ClientShare is how much of each of these, but MaxClients, one client may
	// have, in percent: 25.
	ClientShare int
	// MaxFileLocks bounds the byte ranges locked in one file: 16384.
	MaxFileLocks int
	// MaxClientsPerAddress bounds the clients of one IP address: a quarter of
	// MaxClients, but 64 at least. MaxUnconfirmed bounds client ids for which no
	// CREATE_SESSION has come yet: 1024, of which one address may have a sixteenth.
	// For one more the oldest goes.
	MaxClientsPerAddress, MaxUnconfirmed int
	// MaxConns and MaxConnsPerAddress bound TCP connections: 4096, and a quarter
	// of MaxConns, but 64 at least. One more is closed at once.
	MaxConns, MaxConnsPerAddress int
	// FirstRecord is how long a client that connected may take to its first call:
	// 30 s.
	FirstRecord time.Duration
	// MaxCallBytes bounds the buffers of calls that are not answered yet, or
	// whose replies are not taken, in bytes: 1 GiB. When it is reached each
	// connection goes on with one call at a time.
	MaxCallBytes int64
	// MaxIgnored is how many recalls in a row a client may leave unanswered until
	// it is evicted: 16. MaxFaults is how many more SEQUENCEs out of step than in
	// step it may send: 1000.
	MaxIgnored, MaxFaults int
}

// withDefaults returns l with every zero field filled in.
func (l Limits) withDefaults() Limits {
	for _, f := range l.counts() {
		if *f.n == 0 {
			*f.n = f.def
		}
	}
	if l.MaxClientsPerAddress == 0 {
		l.MaxClientsPerAddress = max(l.MaxClients/4, 64)
	}
	if l.MaxConnsPerAddress == 0 {
		l.MaxConnsPerAddress = max(l.MaxConns/4, 64)
	}
	if l.FirstRecord == 0 {
		l.FirstRecord = 30 * time.Second
	}
	if l.MaxCallBytes == 0 {
		l.MaxCallBytes = 1 << 30
	}
	return l
}

// limit is a field of Limits.
type limit struct {
	name string
	n    *int
	def  int
}

// counts are those that count something. A default of 0 comes from another.
func (l *Limits) counts() []limit {
	return []limit{
		{"clients", &l.MaxClients, 4096}, {"opens", &l.MaxOpens, 1 << 20}, {"locks", &l.MaxLocks, 1 << 20},
		{"layouts", &l.MaxLayouts, 1 << 20}, {"delegations", &l.MaxDelegations, 1 << 18}, {"client share", &l.ClientShare, 25},
		{"locks of a file", &l.MaxFileLocks, 1 << 14}, {"clients of an address", &l.MaxClientsPerAddress, 0},
		{"unconfirmed clients", &l.MaxUnconfirmed, 1024}, {"connections", &l.MaxConns, 4096},
		{"connections of an address", &l.MaxConnsPerAddress, 0}, {"ignored recalls", &l.MaxIgnored, 16}, {"faults", &l.MaxFaults, 1000},
	}
}

// validate says what is wrong with limits that are complete.
func (l Limits) validate(bad func(ok bool, format string, args ...any)) {
	for _, f := range l.counts() {
		bad(*f.n > 0, "limit of %s: %d is negative", f.name, *f.n)
	}
	bad(l.ClientShare <= 100, "limit of client share: %d %% is more than there is", l.ClientShare)
	bad(l.FirstRecord >= time.Second, "first record: %v is less than 1s", l.FirstRecord)
	bad(l.MaxCallBytes >= 1<<20, "limit of call memory: %d is less than 1 MiB", l.MaxCallBytes)
}

// share is what one client may have of n.
func (l Limits) share(n int) int {
	return max(int(int64(n)*int64(l.ClientShare)/100), 1)
}

// state fills in what a client, and all clients, may have.
func (l Limits) state(cfg *state.Config, delegations bool) {
	cfg.Total = state.Counts{Clients: l.MaxClients, Opens: l.MaxOpens, Owners: l.MaxLocks, Locks: l.MaxLocks, Layouts: l.MaxLayouts}
	cfg.PerClient = state.Counts{
		Opens: l.share(l.MaxOpens), Owners: l.share(l.MaxLocks), Locks: l.share(l.MaxLocks), Layouts: l.share(l.MaxLayouts),
	}
	if delegations {
		cfg.Total.Delegs, cfg.PerClient.Delegs = l.MaxDelegations, l.share(l.MaxDelegations)
	}
	cfg.FileLocks = l.MaxFileLocks
}

// sessions fills in the limits of a session table.
func (l Limits) sessions(cfg *session.Config) {
	cfg.MaxClients, cfg.MaxPerHost, cfg.MaxUnconfirmed, cfg.MaxFaults = l.MaxClients, l.MaxClientsPerAddress, l.MaxUnconfirmed, l.MaxFaults
}

// tcp is how a server of clients' connections is to be.
func (l Limits) tcp(cfg *rpc.Config) tcp.Config {
	cfg.FirstRecord, cfg.MaxTotalBytes = l.FirstRecord, l.MaxCallBytes
	return tcp.Config{RPC: cfg, MaxConns: l.MaxConns, MaxPerAddress: l.MaxConnsPerAddress}
}
