package main

import (
	"time"

	"github.com/spf13/pflag"

	"manifold/cmd/internal/boot"
	"manifold/mds"
)

// limitFlags are the bounds on what clients may take.
type limitFlags struct {
	mds.Limits
	calls boot.Size
}

func (f *limitFlags) register(fs *pflag.FlagSet) {
	f.calls = 1 << 30
	fs.IntVar(&f.MaxClients, "max-clients", 4096, "clients at once")
	fs.IntVar(&f.MaxClientsPerAddress, "max-clients-per-address", 0, "clients at once from one IP address (default: a quarter of --max-clients, at least 64)")
	fs.IntVar(&f.MaxUnconfirmed, "max-unconfirmed", 1024, "clients at once that have not made a session yet; for one more the oldest is forgotten")
	fs.IntVar(&f.MaxOpens, "max-opens", 1<<20, "open files of all clients together")
	fs.IntVar(&f.MaxLocks, "max-locks", 1<<20, "byte-range locks of all clients together")
	fs.IntVar(&f.MaxFileLocks, "max-locks-per-file", 1<<14, "byte-range locks in one file")
	fs.IntVar(&f.MaxLayouts, "max-layouts", 1<<20, "layouts of all clients together; without one a client does its I/O through this server")
	fs.IntVar(&f.MaxDelegations, "max-delegations", 1<<18, "delegations of all clients together")
	fs.IntVar(&f.ClientShare, "client-share", 25, "`PERCENT` of opens, locks, layouts and delegations that one client may have")
	fs.IntVar(&f.MaxConns, "max-connections", 4096, "TCP connections of clients at once")
	fs.IntVar(&f.MaxConnsPerAddress, "max-connections-per-address", 0, "TCP connections at once from one IP address (default: a quarter of --max-connections, at least 64)")
	fs.DurationVar(&f.FirstRecord, "first-call", 30*time.Second, "how long a client that connected may take to its first call, at least 1s")
	fs.Var(&f.calls, "max-call-memory", "`SIZE` of the buffers of all calls under way; beyond it each connection goes on with one call at a time")
	fs.IntVar(&f.MaxIgnored, "max-ignored-recalls", 16, "recalls in a row that a client may ignore before it is evicted")
	fs.IntVar(&f.MaxFaults, "max-sequence-faults", 1000, "more SEQUENCEs out of step than in step before a client is evicted")
}

// limits are the bounds as they were given.
func (f *limitFlags) limits() mds.Limits {
	f.MaxCallBytes = int64(f.calls)
	return f.Limits
}
