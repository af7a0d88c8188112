// Package mds is the metadata server: it wires the store, the name space, the
// state, the operations and the listeners together, and holds no rule of the
// protocol itself.
//
// Its nouns: a Config says where and how; an ExportRule, what clients at some
// addresses may do; a Server is one metadata server, from New (everything is open
// and bound) through Run (it serves) to its end; a Node is one of several processes
// that share a store in etcd, and has a Server while it leads.
//
// # What survives what
//
// Names, attributes, sizes that were committed, where a file's data lies,
// policies, extended attributes, access control lists, the cluster's keys, the
// data servers' numbers, and the orders that data servers have not carried out
// yet (package outbox) are in the store: they survive everything that the disk
// survives, and no reply speaks of them before they are there.
//
// Opens, byte-range locks and delegations are in memory. Over a restart of this
// server their clients reclaim them: those that were on record, are of the same
// boot, and had said before that they were done reclaiming. Until all of them
// are back, or grace is over, nobody gets what they might reclaim; who comes
// later reclaims nothing, nor after the next restart. Neither does a client that
// has a revoked delegation it has not freed. Who waits for a lock asks again.
//
// Layouts are not reclaimed: clients go on with those they have until they have
// reclaimed, or grace is over, and then the data servers refuse the old ones.
// Reply caches do not survive; a client that had no answer does its request
// again, and what protects it is the request's own form (an exclusive create's
// verifier).
//
// A size that a client had not committed survives with the data: the store
// knows which files were being written, and the data servers are asked.
//
// A client whose lease runs out keeps its state until somebody wants what it
// holds, or Config.Courtesy is over; then the data servers are told first to
// refuse its handles, and what it had written counts.
//
// A data server's restart loses what was not committed there; its write verifier
// says so, and clients write it again. It serves only when it has done what it
// was told while it was away.
//
// # Clients that misbehave
//
// A client that floods the server hurts itself first. There is a bound for all
// clients together, for one, and for those of one address (Limits). Who is over
// its own gets the protocol's answer: NFS4ERR_RESOURCE for opens and locks,
// NFS4ERR_LAYOUTUNAVAILABLE for layouts, no delegation, NFS4ERR_DELAY for
// sessions and clients; its oldest unconfirmed client id is forgotten; its
// connection is closed. Where the bound of all is reached somebody has to go,
// and the request that finds no room is NFS4ERR_DELAY, to be sent again:
//
//   - first the client whose lease ran out first, of those that hold any of what
//     ran out;
//   - if there is none, the client that holds most of it, provided that it is at
//     least half of what one may hold. Where all hold about as much, nobody goes:
//     there is not enough, and the bound should be higher;
//   - for room for one more client, those that hold nothing, the one not heard
//     of for longest first.
//
// Evicted is also who returned none of Limits.MaxIgnored layouts and delegations
// in a row that were recalled, each of which has cost others a lease, and whose
// SEQUENCEs are out of step Limits.MaxFaults more times than in step.
//
// To be evicted is what a lease that ran out is without courtesy: sessions and
// state go, the data servers are told first to refuse the client's handles, and
// what it had written counts. One line in the log names its address, its owner
// string, and why, and manifold_clients_evicted_total counts it. It may come back
// as a new client.
//
// A connection on which no call comes within Limits.FirstRecord, that stops in
// the middle of a call, or on which replies are not taken for a minute is closed.
package mds

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"manifold/mds/address"
	"manifold/mds/store/etcd"
	"manifold/xdr/compound"
	"manifold/xdr/rpc"
)

// Config is a metadata server's configuration. Zero fields take the default
// named with them.
type Config struct {
	// Data is the folder of the store and the join token. It is made if missing.
	// On etcd, the store in it is a copy.
	Data string
	// Etcd keeps the metadata in etcd, for several metadata servers: see NewNode.
	// Its Replica is below Data.
	Etcd *etcd.Config
	// Address is the address that clients mount from, which moves to the one that
	// leads. None: they have to find it by other means.
	Address address.Floating
	// Listen is where clients mount from: host:port.
	Listen string
	// Control is where data servers join: host:port, on a private network.
	Control string
	// Lease is the lease time: 90 s. From 5 s to 1 h.
	Lease time.Duration
	// Grace is how long clients may reclaim after a restart: the lease, or that
	// from before the restart if it was longer, and a tenth. It ends as soon as all
	// of them have.
	Grace time.Duration
	// NoProxyIO refuses READ and WRITE here, so that I/O that does not take the
	// way to the data servers fails: for tests.
	NoProxyIO bool
	// StripeUnit and Width are those of files whose directory says nothing:
	// 1 MiB, a multiple of 4096; and 0, all data servers.
	StripeUnit uint64
	Width      int
	// Token is what data servers show to join, at least 16 bytes. Empty: the one
	// in Data/join.token, which is made at the first start.
	Token string
	// Limits bound what clients may take.
	Limits
	// NoDelegations gives no delegations.
	NoDelegations bool
	// ReplyCache bounds the memory for replies that clients may ask for again, of
	// all of them together: 1 GiB, at least 1 MiB. Each slot of a session takes 8
	// KiB of it, so it bounds the requests that may be under way: see xdr/session.
	ReplyCache int64
	// Courtesy is how long a client without a lease keeps what nobody else wants:
	// 24 h. Negative: not at all, its state goes with its lease.
	Courtesy time.Duration
	// Exports are the export's rules, of which the first that is for a client's
	// address counts: see ParseExport. None: every client may do everything
	// that its users may.
	Exports []ExportRule
	// ManageGIDs looks the groups of users up on this machine, in place of those
	// that clients send, which are 16 at most.
	ManageGIDs bool
	// UTF8Names refuses new names that are not UTF-8. Names that are there already
	// stay what they are.
	UTF8Names bool
	// Krb5Keytab is a file with the keys of nfs/HOST, for clients that
	// authenticate by Kerberos. None: they cannot. It is read again when it
	// changes. Whether they may is said by Exports.
	Krb5Keytab string
	// Krb5Realm is the realm whose principals are users of this machine: the
	// default realm of krb5.conf.
	Krb5Realm string
	// Krb5Contexts bounds the security contexts of all clients together: 16384,
	// some 1 KiB each.
	Krb5Contexts int
}

// Options are a Server's surroundings. Nil ones are silent.
type Options struct {
	Log *zap.Logger
	RPC rpc.Observer
	Ops compound.Observer
	// Version is told to the administrator.
	Version string
}

// The store's file below a data folder, and that of the copy of what is in etcd.
const (
	StoreFile   = "meta.db"
	ReplicaFile = "replica.db"
)

const (
	defaultLease = 90 * time.Second
	defaultStay  = 24 * time.Hour
	defaultUnit  = 1 << 20
	unitGranule  = 4096
	maxUnit      = 1 << 30

	defaultReplies = 1 << 30
	minReplies     = 1 << 20
)

// withDefaults returns c with every zero field filled in.
func (c Config) withDefaults() Config {
	if c.Lease == 0 {
		c.Lease = defaultLease
	}
	if c.StripeUnit == 0 {
		c.StripeUnit = defaultUnit
	}
	if c.ReplyCache == 0 {
		c.ReplyCache = defaultReplies
	}
	if c.Courtesy == 0 {
		c.Courtesy = defaultStay
	}
	c.Limits = c.Limits.withDefaults()
	if c.Etcd != nil {
		e := *c.Etcd
		e.Replica = filepath.Join(c.Data, ReplicaFile)
		c.Etcd = &e
	}
	return c
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(c.Data != "", "data: no folder given")
	for name, addr := range map[string]string{"listen": c.Listen, "control": c.Control} {
		_, _, err := net.SplitHostPort(addr)
		bad(err == nil, "%s: %q is not host:port", name, addr)
	}
	bad(c.Lease >= 5*time.Second && c.Lease <= time.Hour, "lease: %v is not between 5s and 1h", c.Lease)
	bad(c.Grace >= 0 && c.Grace <= 2*time.Hour, "grace: %v is not between 0 and 2h", c.Grace)
	bad(validUnit(c.StripeUnit), "stripe unit: %d is not a multiple of %d up to %d", c.StripeUnit, unitGranule, maxUnit)
	bad(c.Width >= 0 && c.Width <= maxWidth, "width: %d is not between 0 and %d", c.Width, maxWidth)
	bad(c.Krb5Realm == "" || c.Krb5Keytab != "", "krb5 realm: of no use without krb5 keytab")
	bad(c.Token == "" || len(c.Token) >= 16, "token: shorter than 16 bytes")
	bad(c.Krb5Contexts >= 0, "limit of krb5 contexts: %d is negative", c.Krb5Contexts)
	c.Limits.validate(bad)
	bad(c.ReplyCache >= minReplies, "reply cache: %d bytes are fewer than %d", c.ReplyCache, minReplies)
	bad(c.Etcd != nil || c.Address == address.Floating{}, "service address: needs several metadata servers, on etcd")
	if c.Etcd != nil {
		if err := c.Etcd.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	if err := checkExports(c.Exports, c.Krb5Keytab != ""); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func validUnit(u uint64) bool { return u > 0 && u%unitGranule == 0 && u <= maxUnit }
