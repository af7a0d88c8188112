package ds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"go.uber.org/zap"

	"manifold/ds/fence"
	"manifold/layout"
	"manifold/xdr/compound"
	"manifold/xdr/rpc"
)

// Config is what a data server is made of.
type Config struct {
	// Data is the data folder. It is made if it is missing; it belongs to one
	// process at a time.
	Data string
	// Listen are the addresses for NFS clients, HOST:PORT, 1 to 16. An empty
	// host is every address of both families; port 0 is any free one.
	Listen []string
	// Advertise are the addresses that clients are told, HOST:PORT; default:
	// those of Listen. For a wildcard each client is told the address by which
	// it reached the metadata server.
	Advertise []string
	// MDS are the metadata servers' control addresses, HOST:PORT, up to 16.
	MDS []string
	// Alone is how long writes are taken when no metadata server is heard of; 0 is
	// for ever. Reads and COMMITs are always served.
	Alone time.Duration
	// Token is the join token.
	Token string
	// Name is for people; default: the base name of Data. At most 64 bytes.
	Name string
	// Version of the software, for people.
	Version string

	// MaxConns bounds the connections of clients, MaxClients the clients,
	// OpenFiles the object files that are kept open. 0 is the default of
	// xdr/rpc/tcp, xdr/session and ds/store/osfs.
	MaxConns, MaxClients, OpenFiles int
	// ReplyCache bounds the memory for replies that clients may ask for again, of
	// all of them together, in bytes: at least 1 MiB. 0 is the default of
	// xdr/session, 1 GiB.
	ReplyCache int64
	// Krb5Keytab is a file with the keys of nfs/HOST, for clients that
	// authenticate by Kerberos. None: they cannot. It is read again when it
	// changes. What they may do is said by their filehandles, as ever.
	Krb5Keytab string
	// Krb5Contexts bounds their security contexts: 16384, some 1 KiB each.
	Krb5Contexts int

	// Fences bounds the fences; zero is fence.DefaultLimits.
	Fences fence.Limits

	// Log gets what an administrator must know; nil is silence.
	Log *zap.Logger
	// Operations and Connections are told what happens, for metrics; nil: nobody.
	Operations  compound.Observer
	Connections rpc.Observer
}

const (
	// leastAlone is more than a metadata server takes to come back.
	leastAlone   = 10 * time.Second
	maxAddresses = 16
	maxName      = 64
	minReplies   = 1 << 20
)

// Validate says what is wrong with c, all of it, in the words of its fields.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Data == "" {
		bad("no data folder")
	}
	if n := len(c.Listen); n < 1 || n > maxAddresses {
		bad("%d listen addresses, want 1 to %d", n, maxAddresses)
	}
	if n := len(c.Advertise); n > maxAddresses {
		bad("%d addresses to advertise, want at most %d", n, maxAddresses)
	}
	for _, addr := range c.Listen {
		if err := checkHostPort(addr, 0); err != nil {
			bad("listen address %w", err)
		}
	}
	for _, addr := range c.Advertise {
		if err := checkHostPort(addr, 1); err != nil {
			bad("address to advertise %w", err)
		}
	}
	if n := len(c.MDS); n < 1 || n > maxAddresses {
		bad("%d metadata servers, want 1 to %d", n, maxAddresses)
	}
	for _, addr := range c.MDS {
		if err := checkHostPort(addr, 1); err != nil {
			bad("control address of the metadata server %w", err)
		}
	}
	if c.Alone < 0 || c.Alone > 0 && c.Alone < leastAlone {
		bad("%v of writes without a metadata server, want %v at least", c.Alone, leastAlone)
	}
	if c.Token == "" {
		bad("no join token")
	}
	if len(c.Name) > maxName {
		bad("name of %d bytes, want at most %d", len(c.Name), maxName)
	}
	if c.MaxConns < 0 || c.MaxClients < 0 || c.OpenFiles < 0 || c.Krb5Contexts < 0 || c.Fences.Clients < 0 || c.Fences.Objects < 0 {
		bad("a limit below 0")
	}
	if c.ReplyCache != 0 && c.ReplyCache < minReplies {
		bad("reply cache of %d bytes, want at least %d", c.ReplyCache, minReplies)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ds: %w", err)
	}
	return nil
}

// checkHostPort checks the form of HOST:PORT; the port is at least least.
func checkHostPort(s string, least uint64) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q: %w", s, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < least {
		return fmt.Errorf("%q: port is no number from %d to 65535", s, least)
	}
	return nil
}

// withDefaults returns c with what was left out.
func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Name == "" {
		abs, err := filepath.Abs(c.Data)
		if err != nil {
			abs = c.Data
		}
		c.Name = filepath.Base(abs)
		c.Name = c.Name[:min(len(c.Name), maxName)]
	}
	if c.Fences == (fence.Limits{}) {
		c.Fences = fence.DefaultLimits()
	}
	return c
}

// addresses returns what clients are told: c.Advertise, its names resolved, or
// where we are bound.
func (c *Config) addresses(ctx context.Context, bound []netip.AddrPort) ([]layout.Address, error) {
	var list []layout.Address
	for _, s := range c.Advertise {
		aps, err := resolve(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("ds: address to advertise: %w", err)
		}
		for _, ap := range aps {
			list = append(list, layout.TCP(ap))
		}
	}
	if len(list) == 0 {
		for _, ap := range bound {
			list = append(list, layout.TCP(ap))
		}
	}
	return list[:min(len(list), maxAddresses)], nil
}

// resolve returns the addresses of HOST:PORT; an empty host is the wildcard.
func resolve(ctx context.Context, s string) ([]netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	if host == "" {
		return []netip.AddrPort{netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(n))}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var list []netip.AddrPort
	for _, ip := range ips {
		list = append(list, netip.AddrPortFrom(ip.Unmap(), uint16(n)))
	}
	return list, nil
}
