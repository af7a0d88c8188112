package script_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"manifold/ds"
	"manifold/ds/store"
	"manifold/layout"
	"manifold/mds"
	"manifold/mds/admin"
)

// cluster is a metadata server and its data servers, ds1 first.
type cluster struct {
	dir   string
	names *names
	cfg   mds.Config
	log   *zap.Logger

	mds     *mds.Server // nil: stopped
	stopMDS context.CancelFunc
	doneMDS chan error
	nodes   []*node
}

// node is one data server.
type node struct {
	c      *cluster
	name   string
	listen string
	server *ds.Server // nil: stopped
	stop   context.CancelFunc
	done   chan error
}

// act runs a command of the cluster's.
func (c *cluster) act(a args) string {
	switch a.word(0) {
	case "cluster":
		return c.start(a)
	case "start", "stop", "restart":
		if a.word(1) != "mds" {
			c.node(a.word(1)).start()
			c.waitDS(a.word(1), "up")
			return "up"
		}
		if a.word(0) != "start" {
			check(c.closeMDS())
		}
		if a.word(0) != "stop" {
			c.startMDS()
		}
		return "ok"
	case "objects":
		return c.objects(c.names.object(a.word(1)), false)
	case "ctl":
		return c.ctl(a)
	}
	panic(broken{fmt.Errorf("no command %q", a.word(0))})
}

func (c *cluster) start(a args) string {
	lease, err := time.ParseDuration(a.str("lease", "5s"))
	check(err)
	c.log = zap.NewNop()
	if os.Getenv("SCRIPT_LOG") != "" {
		c.log, err = zap.NewDevelopment()
		check(err)
	}
	c.cfg = mds.Config{
		Data: filepath.Join(c.dir, "mds"), Listen: "127.0.0.1:0", Control: "127.0.0.1:0", Lease: lease,
		StripeUnit: a.num("unit", 64<<10), Width: int(a.num("width", 0)), NoProxyIO: a.has("noproxy"),
		// Stories tell what becomes of a lease that runs out, and their clients know
		// no delegations.
		Courtesy: -1, NoDelegations: true,
	}
	c.startMDS()
	c.cfg.Listen, c.cfg.Control, c.cfg.Token = c.mds.Addr().String(), c.mds.ControlAddr().String(), c.mds.Token()
	for i := range a.num("ds", 4) {
		// One after the other, so that they get their numbers in order.
		n := &node{c: c, name: fmt.Sprintf("ds%d", i+1), listen: "127.0.0.1:0"}
		c.nodes = append(c.nodes, n)
		n.start()
		c.waitDS(n.name, "up")
	}
	return fmt.Sprintf("%d data servers up", len(c.nodes))
}

func (c *cluster) startMDS() {
	var s *mds.Server
	eventually("the metadata server's addresses", func() bool {
		var err error
		s, err = mds.New(c.cfg, mds.Options{Log: c.log.Named("mds")})
		return err == nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	c.mds, c.stopMDS, c.doneMDS = s, cancel, make(chan error, 1)
	go func() { c.doneMDS <- s.Run(ctx) }()
}

func (c *cluster) closeMDS() error {
	if c.mds == nil {
		return nil
	}
	c.stopMDS()
	c.mds = nil
	return <-c.doneMDS
}

func (c *cluster) close() error {
	var errs []error
	for _, n := range c.nodes {
		if n.server != nil {
			n.stop()
			errs = append(errs, <-n.done)
		}
	}
	return errors.Join(append(errs, c.closeMDS())...)
}

// node finds a data server by its name.
func (c *cluster) node(name string) *node {
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	panic(broken{fmt.Errorf("no data server %q", name)})
}

// at names the data server at an address.
func (c *cluster) at(addr string) string {
	for _, n := range c.nodes {
		if n.listen == addr {
			return n.name
		}
	}
	return addr
}

func (n *node) start() {
	cfg := ds.Config{
		Data: filepath.Join(n.c.dir, n.name), Listen: []string{n.listen}, MDS: []string{n.c.cfg.Control}, Token: n.c.cfg.Token,
		Log: n.c.log.Named(n.name),
	}
	var s *ds.Server
	eventually(n.name+"'s address", func() bool {
		var err error
		s, err = ds.New(cfg)
		return err == nil
	})
	if ap := netip.MustParseAddrPort(n.listen); ap.Port() == 0 {
		n.listen = netip.AddrPortFrom(ap.Addr(), s.Addrs()[0].Port()).String()
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.server, n.stop, n.done = s, cancel, make(chan error, 1)
	go func() { n.done <- s.Run(ctx) }()
}

// kill cuts all calls off.
func (n *node) kill() {
	n.stop()
	check(<-n.done)
	n.server = nil
}

func (c *cluster) waitDS(name, state string) {
	eventually(name+" "+state, func() bool {
		d, err := c.mds.DataServer(context.Background(), name)
		return err == nil && (d.State == state || state == "up" && d.State == "draining")
	})
}

func (c *cluster) status() admin.Status {
	s, err := c.mds.Status(context.Background())
	check(err)
	return s
}

// count is one number of the status.
func (c *cluster) count(key string) uint64 {
	if key == "mounts" {
		list, err := c.mds.Clients(context.Background())
		check(err)
		return uint64(len(list))
	}
	s := c.status()
	return map[string]uint64{"clients": s.Clients, "opens": s.Opens, "locks": s.Locks, "layouts": s.Layouts}[key]
}

// objects says how long an object is at each data server: "-" where there is
// none. It looks at the disks, so it also works for servers that are down.
func (c *cluster) objects(obj layout.Object, brief bool) string {
	var out []string
	for _, n := range c.nodes {
		s := "-"
		check(filepath.WalkDir(filepath.Join(c.dir, n.name), func(_ string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if o, ok := store.ParseName(e.Name()); err != nil || !ok || o.Inode != obj.Inode {
				return err
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil {
				s = bytesOf(uint64(info.Size()))
			}
			return err
		}))
		if !brief {
			s = n.name + " " + s
		}
		out = append(out, s)
	}
	if brief {
		return strings.Join(out, " ")
	}
	return strings.Join(out, ", ")
}

// ctl is what an administrator asks.
func (c *cluster) ctl(a args) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	switch a.word(1) {
	case "layout":
		if a.word(2) == "get" {
			return c.showLayout(ctx, a.word(3))
		}
		err = c.mds.SetLayout(ctx, a.word(3), admin.Policy{StripeUnit: a.num("unit", 0), Width: int(a.num("width", 0))})
	case "drain", "undrain":
		err = c.mds.SetDrain(ctx, a.word(2), a.word(1) == "drain")
	case "remove":
		err = c.mds.RemoveDS(ctx, a.word(2))
	case "status":
		s := c.status()
		return fmt.Sprintf("%d/%d data servers up, %d clients, %d opens, %d locks, %d layouts",
			s.DataServersUp, s.DataServersTotal, s.Clients, s.Opens, s.Locks, s.Layouts)
	case "grace":
		if c.status().Grace {
			return "grace"
		}
		return "no grace"
	case "proxy":
		s := c.status()
		return fmt.Sprintf("%s read, %s written, %d refused", bytesOf(s.ProxyReadBytes), bytesOf(s.ProxyWrittenBytes), s.ProxyRefused)
	default:
		err = fmt.Errorf("no command %q", a.word(1))
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func (c *cluster) showLayout(ctx context.Context, path string) string {
	l, err := c.mds.Layout(ctx, path)
	switch {
	case err != nil:
		return err.Error()
	case l.Kind == admin.KindDir:
		return fmt.Sprintf("new files: unit %s, width %d", bytesOf(l.Policy.StripeUnit), l.Policy.Width)
	case len(l.Stripes) == 0:
		return "not placed"
	}
	var on []string
	for _, s := range l.Stripes {
		on = append(on, s.Name)
	}
	return "unit " + bytesOf(l.StripeUnit) + ", width " + strconv.Itoa(l.Width) + ": " + strings.Join(on, " ")
}
