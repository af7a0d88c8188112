package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"manifold/cmd/internal/boot"
	"manifold/ds"
	"manifold/mds"
	"manifold/mds/admin"
)

const (
	defaultData        = "manifold-data"
	defaultDataServers = 4
	maxDataServers     = 64
)

// upFlags are the flags of up.
type upFlags struct {
	mdsFlags
	dir         string
	dataServers int
	countGiven  bool
	dsListen    []string
	say         func(format string, args ...any) // to standard output
}

func upCommand() *cobra.Command { return upCommandOf(&upFlags{}) }

// upCommandOf makes the command that fills u in.
func upCommandOf(u *upFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything on this machine: a metadata server and data servers in one process",
		Long: `Run a metadata server and data servers in one process, on one data folder, and
print how to mount. The data folder holds everything; with it, up starts again
where it stopped. More data servers may be added at a later start.` + settingsHelp,
		Example: "  manifold up --data /srv/manifold\n  manifold up --data ./manifold-data --listen 127.0.0.1:20490   # no root needed",
		Args:    cobra.NoArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			u.say = func(format string, args ...any) { fmt.Fprintf(cmd.OutOrStdout(), format, args...) }
			if err := boot.Load(cmd.Flags()); err != nil {
				return err
			}
			if err := u.finish(cmd.Flags()); err != nil {
				return err
			}
			return serve(&u.Options, u.run)
		}),
	}
	fs := cmd.Flags()
	u.register(fs, "0.0.0.0:2049")
	fs.StringVar(&u.dir, "data", defaultData, "`DIR` of everything; made if missing")
	fs.IntVar(&u.dataServers, "data-servers", defaultDataServers, "how many data servers; at a later start: as many as there are")
	fs.StringSliceVar(&u.dsListen, "ds-listen", nil, "`HOST:PORT` of each data server (default: the ports after --listen's)")
	return cmd
}

// finish completes the flags once they are loaded.
func (u *upFlags) finish(fs *pflag.FlagSet) error {
	if u.dir == "" {
		return boot.Usage("--data is needed")
	}
	u.countGiven = fs.Changed("data-servers")
	if n := len(u.dsListen); n > 0 && u.countGiven && n != u.dataServers {
		return boot.Usage("--ds-listen has %d addresses for %d data servers", n, u.dataServers)
	} else if n > 0 {
		u.dataServers, u.countGiven = n, true
	}
	if u.dataServers < 1 || u.dataServers > maxDataServers {
		return boot.Usage("--data-servers: %d is not between 1 and %d", u.dataServers, maxDataServers)
	}
	// The way between the servers of one process is nobody else's.
	u.cfg.Data, u.cfg.Control = filepath.Join(u.dir, "mds"), "127.0.0.1:0"
	return u.mdsFlags.finish(u.dir)
}

// listeners returns where n data servers listen.
func (u *upFlags) listeners(n int) ([]string, error) {
	list := u.dsListen
	if len(list) == 0 {
		host, port, err := net.SplitHostPort(u.cfg.Listen)
		if err != nil {
			return nil, boot.Usage("--listen: %v", err)
		}
		first, err := net.LookupPort("tcp", port)
		if err != nil || first+n > 65535 {
			return nil, boot.Usage("--listen: no %d ports for data servers follow port %s: use --ds-listen", n, port)
		}
		for i := 1; i <= n; i++ {
			next := first + i
			if first == 0 {
				next = 0 // any free one, as for the metadata server
			}
			list = append(list, net.JoinHostPort(host, strconv.Itoa(next)))
		}
	}
	if len(list) < n {
		return nil, boot.Usage("--ds-listen has %d addresses for %d data servers", len(list), n)
	}
	seen := map[string]bool{u.cfg.Listen: true}
	for _, addr := range list {
		if seen[addr] && !strings.HasSuffix(addr, ":0") {
			return nil, boot.Usage("--ds-listen: %s is given twice: each server needs its own address", addr)
		}
		seen[addr] = true
	}
	return list, nil
}

// run is the life of all servers.
func (u *upFlags) run(ctx context.Context, app *boot.App) error {
	unlock, err := boot.LockFolder(u.dir)
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }()
	srv, err := mds.New(u.cfg, mdsOptions(app))
	if err != nil {
		return fmt.Errorf("metadata server: %w", boot.Explain(err))
	}
	b := &box{dir: u.dir, Backend: srv, log: app.Log}
	members, err := u.members(ctx, app, srv, b)
	if err != nil {
		return err
	}
	app.Metrics.Cluster(srv)
	app.Metrics.Slots(boot.RoleMDS, srv.SlotUse)
	g, ctx := errgroup.WithContext(ctx)
	b.running = members
	if err := serveAdmin(ctx, g, u.admin, b); err != nil {
		return err
	}
	// The metadata server stops first: it may be reading and writing at the
	// data servers for a client.
	stopped := make(chan struct{})
	g.Go(func() error {
		defer close(stopped)
		return srv.Run(ctx)
	})
	for i, d := range members {
		runDS(ctx, g, d.srv, stopped, app.Log, func() bool { return b.state(ctx, d.name) == removed })
		// One after the other, so that in a new box their numbers are in order.
		waitFor(ctx, app.Log, srv, "data servers to join", func(list []admin.DataServer) bool { return len(list) > i })
	}
	g.Go(func() error {
		up := func(d admin.DataServer) bool { return d.State == "up" || d.State == "draining" }
		if waitFor(ctx, app.Log, srv, "data servers to be up", func(list []admin.DataServer) bool { return countIf(list, up) >= len(members) }) {
			app.SetReady(true)
			u.announce(srv)
		}
		return nil
	})
	err = g.Wait()
	app.SetReady(false)
	return err
}

// members makes the data servers. After an error those made are shut down.
func (u *upFlags) members(ctx context.Context, app *boot.App, srv *mds.Server, b *box) (made []member, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, d := range made {
			_ = d.srv.Shutdown(ctx) // it serves nobody yet
		}
	}()
	n, err := b.count(ctx, u.dataServers, u.countGiven)
	if err != nil {
		return nil, err
	}
	listen, err := u.listeners(n)
	if err != nil {
		return nil, err
	}
	for i := range n {
		name := dsName(i + 1)
		start, err := b.starts(ctx, name)
		if err != nil {
			return made, err
		}
		if !start {
			app.Log.Warn("not started: it was removed from the cluster; with its folder emptied it would join anew",
				zap.String("data_server", name), zap.String("folder", b.path(name)))
			continue
		}
		cfg := ds.Config{
			Data: b.path(name), Listen: listen[i : i+1], MDS: []string{srv.ControlAddr().String()}, Token: srv.Token(), Name: name,
			ReplyCache: u.cfg.ReplyCache,
			Krb5Keytab: u.cfg.Krb5Keytab, Krb5Contexts: u.cfg.Krb5Contexts,
		}
		dsSurround(&cfg, app)
		cfg.Log = cfg.Log.With(zap.String("data_server", name))
		d, err := ds.New(cfg)
		if err != nil {
			return made, fmt.Errorf("data server %s: %w", name, boot.Explain(err))
		}
		app.Metrics.Slots(boot.RoleDS, d.SlotUse)
		made = append(made, member{name, d})
	}
	return made, nil
}

// waitFor waits until done says so of the data servers, and reports every ten
// seconds that it still does. It returns false if ctx ends before.
func waitFor(ctx context.Context, log *zap.Logger, b admin.Backend, what string, done func([]admin.DataServer) bool) bool {
	tick, slow := time.NewTicker(10*time.Millisecond), time.NewTicker(10*time.Second)
	defer tick.Stop()
	defer slow.Stop()
	for {
		list, err := b.DataServers(ctx)
		if err == nil && done(list) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-slow.C:
			states := make([]string, len(list))
			for i, d := range list {
				states[i] = d.Name + " " + d.State
			}
			log.Warn("waiting for "+what, zap.Strings("known", states), zap.Error(err))
		case <-tick.C:
		}
	}
}

func countIf(list []admin.DataServer, is func(admin.DataServer) bool) (n int) {
	for _, d := range list {
		if is(d) {
			n++
		}
	}
	return n
}

// announce says how to use what runs.
func (u *upFlags) announce(srv *mds.Server) {
	host, _, _ := net.SplitHostPort(u.cfg.Listen) // it is bound, so it has the form
	u.say("%s\n", mountLine(reachable(host), srv.Addr()))
	u.say("admin socket: %s\n", u.admin)
}
