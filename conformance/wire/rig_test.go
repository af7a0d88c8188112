// Package wire_test speaks to whole clusters in one process over TCP: a
// metadata server, data servers, and clients that say exactly what a test has
// them say.
//
// Its nouns: a cluster is one metadata server and its data servers, each of
// which can be stopped and started again on its folder and address; a peer is
// one NFS client; an open is a file that a peer opened; a plan is a layout that a
// peer got, with the way to the data servers.
package wire_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"manifold/ds"
	"manifold/mds"
	"manifold/mds/admin"
	"manifold/xdr/compound"
)

const (
	// patience bounds every wait for something that has to happen.
	patience = 30 * time.Second
	// lease is the shortest that a metadata server takes.
	lease = 5 * time.Second
)

// cluster is a metadata server and its data servers, by position.
type cluster struct {
	t   testing.TB
	log *zap.Logger
	ops compound.Observer // of the metadata server; may be nil
	dir string
	cfg mds.Config

	mds     *mds.Server
	stopMDS func()
	ds      []*node
}

// node is one data server.
type node struct {
	c      *cluster
	listen string
	server *ds.Server // nil: stopped
	done   chan error
}

// option changes a cluster's configuration.
type option func(*mds.Config)

func noProxyIO(c *mds.Config) { c.NoProxyIO = true }

// noCourtesy has what a client holds go with its lease.
func noCourtesy(c *mds.Config) { c.Courtesy = -1 }

// newCluster starts a cluster with n data servers that are up.
func newCluster(t testing.TB, n int, opts ...option) *cluster {
	t.Helper()
	log := zap.NewNop()
	if os.Getenv("WIRE_LOG") != "" {
		log = zaptest.NewLogger(t)
	}
	return newClusterWith(t, n, log, nil, opts...)
}

// newClusterWith is newCluster with a log and an observer.
func newClusterWith(t testing.TB, n int, log *zap.Logger, ops compound.Observer, opts ...option) *cluster {
	t.Helper()
	dir := t.TempDir()
	c := &cluster{t: t, log: log, ops: ops, dir: dir, cfg: mds.Config{
		Data: filepath.Join(dir, "mds"), Listen: "127.0.0.1:0", Control: "127.0.0.1:0",
		Lease: lease, StripeUnit: 64 << 10,
	}}
	for _, o := range opts {
		o(&c.cfg)
	}
	c.startMDS()
	c.cfg.Listen, c.cfg.Control = c.mds.Addr().String(), c.mds.ControlAddr().String()
	t.Cleanup(func() { c.stopMDS() })
	for range n {
		c.add()
	}
	c.waitUp(n)
	return c
}

// startMDS starts the metadata server, anew or for the first time.
func (c *cluster) startMDS() {
	c.t.Helper()
	var s *mds.Server
	c.eventually("the metadata server's addresses to be free", func() (err error) {
		s, err = mds.New(c.cfg, mds.Options{Log: c.log.Named("mds"), Ops: c.ops})
		return err
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	c.mds = s
	c.stopMDS = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("metadata server: %v", err)
		}
	})
}

// restartMDS stops the metadata server and starts it again on its data.
func (c *cluster) restartMDS() {
	c.t.Helper()
	c.stopMDS()
	c.startMDS()
}

// add starts one more data server.
func (c *cluster) add() *node {
	c.t.Helper()
	n := &node{c: c, listen: "127.0.0.1:0"}
	c.ds = append(c.ds, n)
	n.start()
	c.t.Cleanup(n.stop)
	return n
}

// folder is the data folder of n.
func (n *node) folder() string {
	for i, m := range n.c.ds {
		if m == n {
			return filepath.Join(n.c.dir, fmt.Sprintf("ds%d", i+1))
		}
	}
	panic("not of this cluster")
}

func (n *node) start() {
	n.c.t.Helper()
	cfg := ds.Config{
		Data: n.folder(), Listen: []string{n.listen}, MDS: []string{n.c.mds.ControlAddr().String()}, Token: n.c.mds.Token(),
		Krb5Keytab: n.c.cfg.Krb5Keytab, Log: n.c.log.Named(filepath.Base(n.folder())),
	}
	var s *ds.Server
	n.c.eventually("the data server's address to be free", func() (err error) {
		s, err = ds.New(cfg)
		return err
	})
	if host, _ := netip.ParseAddrPort(n.listen); host.Port() == 0 {
		n.listen = netip.AddrPortFrom(host.Addr(), s.Addrs()[0].Port()).String()
	}
	n.server, n.done = s, make(chan error, 1)
	go func() { n.done <- s.Run(context.Background()) }()
}

func (n *node) stop() {
	if n.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.server.Shutdown(ctx); err != nil {
		n.c.t.Errorf("data server: %v", err)
	}
	if err := <-n.done; err != nil {
		n.c.t.Errorf("data server: %v", err)
	}
	n.server = nil
}

// id is the number of n at the metadata server.
func (n *node) id() uint32 {
	n.c.t.Helper()
	s, err := n.c.mds.DataServer(n.c.t.Context(), filepath.Base(n.folder()))
	if err != nil {
		n.c.t.Fatal(err)
	}
	return s.ID
}

// states returns the states of all data servers by name.
func (c *cluster) states() map[string]string {
	c.t.Helper()
	list, err := c.mds.DataServers(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	m := map[string]string{}
	for _, d := range list {
		m[d.Name] = d.State
	}
	return m
}

// waitUp waits until n data servers are up.
func (c *cluster) waitUp(n int) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("%d data servers up", n), func() error {
		up := 0
		for _, s := range c.states() {
			if s == "up" || s == "draining" {
				up++
			}
		}
		if up != n {
			return fmt.Errorf("%v", c.states())
		}
		return nil
	})
}

// status is what an administrator sees.
func (c *cluster) status() admin.Status {
	c.t.Helper()
	s, err := c.mds.Status(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// waitGrace waits until grace is over.
func (c *cluster) waitGrace() {
	c.t.Helper()
	c.eventually("the end of grace", func() error {
		if c.status().Grace {
			return fmt.Errorf("grace")
		}
		return nil
	})
}

// eventually calls f until it returns nil.
func (c *cluster) eventually(what string, f func() error) {
	c.t.Helper()
	eventually(c.t, what, f)
}

func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no %s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

type mdsConfig = mds.Config

// admDS is how an administrator names a data server by number.
func admDS(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// objects counts the object files of all data servers.
func (c *cluster) objects() (n int) {
	c.t.Helper()
	for _, m := range c.ds {
		n += len(m.objects())
	}
	return n
}

// objects returns the sizes of n's object files by path.
func (n *node) objects() map[string]int64 {
	n.c.t.Helper()
	sizes := map[string]int64{}
	// Two levels of folders with names of two digits, and files in them.
	paths, err := filepath.Glob(filepath.Join(n.folder(), "[0-9a-f][0-9a-f]", "[0-9a-f][0-9a-f]", "*"))
	if err != nil {
		n.c.t.Fatal(err)
	}
	for _, path := range paths {
		if i, err := os.Stat(path); err == nil {
			sizes[path] = i.Size()
		}
	}
	return sizes
}
