// Package etcd keeps a store.Store in etcd, for several metadata servers of
// which one at a time leads.
//
// Its nouns: a Member is one server's part in it, leading or not; the record is
// what etcd holds under the Member's prefix; the replica is the Member's copy of
// the record in a local file; a Lead is the time in which this Member, and no
// other, may change the record; a term is one Lead's name.
//
// # The record
//
// Under the prefix are: "lead", who leads, which lives as long as the lease of
// the one that wrote it; "seq", written by every transaction; "redo/", see below;
// and the map itself, each key with a "d" in front.
//
// Every transaction compares the creation of "lead" and the revision of "seq"
// with what the Lead knows. So it takes effect only while the Lead lasts, only
// upon the state that the Lead has seen, and only once: one whose outcome is
// unknown is sent again as it is. A Lead begins by writing "seq", after which
// nothing that another Lead left on its way can take effect.
//
// A batch that is over etcd's limits on one transaction is first written to
// "redo/" in pieces, the last of which makes it final, then carried out in
// several transactions and taken away. Whoever leads next carries out what is
// final there and drops what is not.
//
// # The replica
//
// Reads never go to etcd: the Lead writes each transaction to its replica as well,
// and the other Members follow the record by a watch, so that one of them that
// takes over has nothing to load but what it has not heard of yet. The
// replica holds no memory in proportion to the record. It is not flushed: after
// a stop of the machine it is made anew, as it is when etcd has compacted what
// the Member missed, or is another cluster than before.
//
// # Time
//
// A Lead ends for its holder a tenth of the lease before etcd can end it: the
// lease is counted from before the request that renewed it was sent, on this
// machine's monotonic clock. The tenth covers clocks that run at different
// rates; it does not cover a virtual machine that is stopped by its host and
// does not notice. Such a one can change nothing, but may answer from its
// replica until its clock is right again.
package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"manifold/mds/store"
)

// ErrLost means that the Lead is over. It wraps store.ErrFailed.
var ErrLost = fmt.Errorf("%w: another metadata server may lead", store.ErrFailed)

// Config says where etcd is and who this is. Zero fields take the default named
// with them.
type Config struct {
	// Endpoints are etcd's members, as http://HOST:PORT or https://HOST:PORT.
	Endpoints []string
	// CA, Cert and Key are PEM files: who signed etcd's certificates (default: the
	// system's roots), and this server's own certificate.
	CA, Cert, Key string
	// User and Password log in to etcd, if it asks for that.
	User, Password string
	// Prefix is what all keys begin with: "manifold/". One etcd serves several
	// clusters by different prefixes, none of which begins with another.
	Prefix string
	// ID names this server among those of the cluster. Address is what the others
	// are told while it leads, and Version of the software, for people.
	ID, Address, Version string
	// Lease is how long a Lead outlives its holder: 2 s, which is also the least
	// that etcd grants by default. Whole seconds, to 60 s.
	Lease time.Duration
	// MaxOps and MaxBytes bound a transaction: 128 and 1 MiB, which fits etcd's
	// defaults of --max-txn-ops 128 and --max-request-bytes 1.5 MiB.
	MaxOps, MaxBytes int
	// Quota is etcd's --quota-backend-bytes, which etcd before 3.6 does not tell:
	// 2 GiB.
	Quota int64
	// Replica is the file of the local copy.
	Replica string
	// Log may be nil.
	Log *zap.Logger
}

// minOps leaves room in a transaction for one write beside what every one has.
const minOps = 16

func (c Config) withDefaults() Config {
	if c.Prefix == "" {
		c.Prefix = "manifold/"
	}
	if c.Lease == 0 {
		c.Lease = 2 * time.Second
	}
	if c.MaxOps == 0 {
		c.MaxOps = 128
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 1 << 20
	}
	if c.Quota == 0 {
		c.Quota = 2 << 30
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// Renewal is the time between two renewals of a lease.
func (c Config) Renewal() time.Duration { return c.withDefaults().Lease / 5 }

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(len(c.Endpoints) > 0, "etcd endpoints: none given")
	for _, e := range c.Endpoints {
		bad(strings.HasPrefix(e, "http://") || strings.HasPrefix(e, "https://"), "etcd endpoint %q: does not begin with http:// or https://", e)
	}
	bad((c.Cert == "") == (c.Key == ""), "etcd certificate: the certificate and the key belong together")
	bad(c.User != "" || c.Password == "", "etcd password: no user given")
	bad(len(c.Prefix) <= 256, "etcd prefix: longer than 256 bytes")
	bad(c.ID != "", "etcd: this server has no name")
	bad(c.Lease >= time.Second && c.Lease <= time.Minute && c.Lease%time.Second == 0, "etcd lease: %v is not a number of seconds from 1 to 60", c.Lease)
	bad(c.MaxOps >= minOps, "etcd transaction: %d operations are fewer than %d", c.MaxOps, minOps)
	bad(c.MaxBytes >= store.MaxValue+store.MaxKey+4096, "etcd transaction: %d bytes are fewer than the largest value", c.MaxBytes)
	bad(c.Quota > 0, "etcd quota: %d is negative", c.Quota)
	bad(c.Replica != "", "etcd replica: no file given")
	return errors.Join(errs...)
}

// tls returns nil if no endpoint asks for it.
func (c Config) tls() (*tls.Config, error) {
	secure := false
	for _, e := range c.Endpoints {
		secure = secure || strings.HasPrefix(e, "https://")
	}
	if !secure {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("etcd CA: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("etcd CA: no certificate in %s", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("etcd certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// Times of requests to etcd. A request that a member does not answer is tried
// with another one.
const (
	tryTime   = 700 * time.Millisecond
	retryTime = 50 * time.Millisecond
	loadTime  = time.Minute
	// probeTime is how often a silent connection is tried: etcd closes one that
	// is tried more often than every five seconds.
	probeTime = 6 * time.Second
)

// Member is one metadata server's part in the record. All methods may be called
// by many goroutines at once, Lead by one at a time.
type Member struct {
	cfg     Config
	etcd    *clientv3.Client
	replica *replica
	log     *zap.Logger
	ctx     context.Context // ends at Close
	stop    context.CancelFunc
	follow  *follower // nil while this Member leads
	status  status
	tasks   sync.WaitGroup
}

// Open connects to etcd, which need not answer yet, and begins to follow the record.
// The caller closes the Member. Errors: a bad Config, or a replica that cannot
// be opened.
func Open(cfg Config) (*Member, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	secure, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cfg.Endpoints, TLS: secure, Username: cfg.User, Password: cfg.Password,
		DialTimeout: tryTime, DialKeepAliveTime: probeTime, DialKeepAliveTimeout: time.Second,
		MaxUnaryRetries: 1, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	rep, err := openReplica(cfg.Replica, cfg.Log)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	m := &Member{cfg: cfg, etcd: client, replica: rep, log: cfg.Log}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.follow = m.startFollowing()
	m.tasks.Go(func() { m.announce(m.ctx) })
	return m, nil
}

// Close stops following and lets the replica be used again by the next Open. A
// Lead has to be closed before. A second Close does nothing.
func (m *Member) Close() error {
	if m.ctx.Err() != nil {
		return nil
	}
	m.stop()
	if m.follow != nil {
		m.follow.end()
	}
	m.tasks.Wait()
	return errors.Join(m.replica.close(), m.etcd.Close())
}

// key is a key of the record that is not of the map.
func (m *Member) key(name string) string { return m.cfg.Prefix + name }

// Names of the record's keys after the prefix.
const (
	keyLead   = "lead"
	keyMember = "member/"
	keySeq    = "seq"
	keyRedo   = "redo/"
	keyFinal  = "redo-final"
	mapKey    = "d"
	mapEnd    = "e"
)
