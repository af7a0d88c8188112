package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"manifold/cmd/internal/boot"
	"manifold/mds"
	"manifold/mds/admin"
)

// mdsFlags are a metadata server's flags, those that up has too.
type mdsFlags struct {
	boot.Options
	cfg     mds.Config
	unit    boot.Size
	replies boot.Size
	deleg   bool
	admin   string
	exports exportFlag
	limits  limitFlags
}

func (f *mdsFlags) register(fs *pflag.FlagSet, listen string) {
	f.Options.Register(fs)
	f.limits.register(fs)
	fs.StringVar(&f.cfg.Listen, "listen", listen, "`HOST:PORT` that clients mount from")
	fs.DurationVar(&f.cfg.Lease, "lease", 90*time.Second, "how long a client's state outlives its last word, from 5s to 1h")
	fs.DurationVar(&f.cfg.Grace, "grace", 0, "how long clients may reclaim after a restart (default: the lease, or the one before the restart if longer, and a tenth)")
	fs.BoolVar(&f.deleg, "delegations", true, "let clients that have a file to themselves open, close and lock it by themselves")
	fs.DurationVar(&f.cfg.Courtesy, "courtesy", 24*time.Hour, "how long a client whose lease ran out keeps what nobody else wants; 0 is not at all")
	fs.Var(&f.unit, "stripe-unit", "of new files: a `SIZE` such as 64KiB or 4M, a multiple of 4KiB (default 1MiB)")
	fs.Var(&f.replies, "reply-cache", "`SIZE` of memory for replies that clients may ask for again, at least 1MiB (default 1GiB)")
	fs.IntVar(&f.cfg.Width, "width", 0, "data servers that a new file is striped over (default: all)")
	fs.Var(&f.exports, "export", "a `RULE` of who may do what, as in clients=10.0.0.0/8,access=ro,squash=root,sec=sys:krb5; repeated, the first that is for a client's address counts (default: all may)")
	boot.ListKey(fs, "export", "exports")
	fs.BoolVar(&f.cfg.ManageGIDs, "manage-gids", false, "look users' groups up on this machine: of those that clients send there are 16 at most")
	fs.BoolVar(&f.cfg.UTF8Names, "utf8-names", false, "refuse new names that are not UTF-8")
	fs.StringVar(&f.cfg.Krb5Keytab, "krb5-keytab", "", "`FILE` with the keys of nfs/HOST, for clients that use Kerberos where --export says sec=krb5, krb5i or krb5p")
	fs.StringVar(&f.cfg.Krb5Realm, "krb5-realm", "", "`REALM` whose users are those of this machine (default: krb5.conf's default_realm)")
	fs.IntVar(&f.cfg.Krb5Contexts, "krb5-contexts", 0, "`N` security contexts of clients are kept at most (default: 16384)")
	fs.BoolVar(&f.cfg.NoProxyIO, "no-proxy-io", false, "refuse I/O through the metadata server: for tests of the way to the data servers")
	fs.StringVar(&f.admin, "admin", "", "admin `SOCKET` for ctl, as unix:PATH (default: admin.sock in the data folder)")
}

// finish completes the flags once they are loaded. dir is the data folder.
func (f *mdsFlags) finish(dir string) error {
	f.cfg.StripeUnit, f.cfg.NoDelegations, f.cfg.Exports = uint64(f.unit), !f.deleg, f.exports.rules
	f.cfg.ReplyCache = int64(min(f.replies, math.MaxInt64))
	f.cfg.Limits = f.limits.limits()
	if f.cfg.Courtesy == 0 {
		f.cfg.Courtesy = -1
	}
	if f.admin == "" {
		f.admin = "unix:" + filepath.Join(dir, adminSocket)
	}
	if err := f.cfg.Validate(); err != nil {
		return boot.Usage("%v", err)
	}
	return nil
}

// mdsOptions connects a metadata server to its surroundings.
func mdsOptions(app *boot.App) mds.Options {
	return mds.Options{
		Log: app.Log.Named("mds"), RPC: app.Metrics.Connections(boot.RoleMDS), Ops: app.Metrics.Operations(boot.RoleMDS),
		Version: buildInfo().Version,
	}
}

func mdsCommand() *cobra.Command { return mdsCommandOf(&mdsFlags{}) }

// mdsCommandOf makes the command that fills f in.
func mdsCommandOf(f *mdsFlags) *cobra.Command {
	var etcd etcdFlags
	cmd := &cobra.Command{
		Use:   "mds --data DIR --listen HOST:PORT --control HOST:PORT",
		Short: "Run a metadata server",
		Long: `Run a metadata server. Clients mount from --listen, data servers join at
--control, which belongs on a private network. They show the join token that is
written to join.token in the data folder.

With --etcd the metadata are in etcd, and any number of metadata servers may run
on it, each with its own --id and data folder. One leads and serves; the others
stand by, and one of them takes over when it is gone.` + settingsHelp,
		Args: cobra.NoArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			if err := boot.Load(cmd.Flags()); err != nil {
				return err
			}
			if err := require(cmd.Flags(), "data", "listen", "control"); err != nil {
				return err
			}
			if err := etcd.finish(&f.cfg); err != nil {
				return err
			}
			if err := f.finish(f.cfg.Data); err != nil {
				return err
			}
			return serve(&f.Options, f.run)
		}),
	}
	fs := cmd.Flags()
	f.register(fs, "")
	etcd.register(fs)
	fs.StringVar(&f.cfg.Data, "data", "", "`DIR` of the metadata store; made if missing")
	fs.StringVar(&f.cfg.Control, "control", "", "`HOST:PORT` where data servers join, on a private network")
	return cmd
}

// settingsHelp ends the help of each server command.
const settingsHelp = `

Every flag can also be given by an environment variable (--log-level:
MANIFOLD_LOG_LEVEL) or in a YAML file named by --config, whose keys are the
flags' names. The command line counts before the environment, and that before
the file.

SIGTERM and SIGINT stop the server cleanly; a second one stops it at once.`

// serve runs work until a signal asks for the end.
func serve(o *boot.Options, work func(context.Context, *boot.App) error) error {
	app, err := o.Start()
	if err != nil {
		return err
	}
	ctx := boot.Signals(context.Background())
	stopping := context.AfterFunc(ctx, func() { app.Log.Info("stopping; another signal stops at once") })
	defer stopping()
	err = work(ctx, app)
	late, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	app.Close(late)
	return err
}

// require says which of the named flags have no value.
func require(fs *pflag.FlagSet, names ...string) error {
	for _, n := range names {
		switch v := fs.Lookup(n).Value.String(); v {
		case "", "[]":
			return boot.Usage("--%s is needed", n)
		}
	}
	return nil
}

// run is the metadata server's life.
func (f *mdsFlags) run(ctx context.Context, app *boot.App) error {
	unlock, err := boot.LockFolder(f.cfg.Data)
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }()
	if f.cfg.Etcd != nil {
		return f.runNode(ctx, app)
	}
	srv, err := mds.New(f.cfg, mdsOptions(app))
	if err != nil {
		return fmt.Errorf("metadata server: %w", boot.Explain(err))
	}
	g, ctx := errgroup.WithContext(ctx)
	if err := serveAdmin(ctx, g, f.admin, srv); err != nil {
		return err
	}
	app.Metrics.Cluster(srv)
	app.Metrics.Slots(boot.RoleMDS, srv.SlotUse)
	app.Log.Info("data servers join with", zap.Stringer("control", srv.ControlAddr()), zap.String("token_file", filepath.Join(f.cfg.Data, mds.TokenFile)))
	g.Go(func() error { return srv.Run(ctx) })
	app.SetReady(true)
	err = g.Wait()
	app.SetReady(false)
	return err
}

// runNode is the life of one of several metadata servers.
func (f *mdsFlags) runNode(ctx context.Context, app *boot.App) error {
	node, err := mds.NewNode(f.cfg, mdsOptions(app))
	if err != nil {
		return fmt.Errorf("metadata server: %w", boot.Explain(err))
	}
	g, ctx := errgroup.WithContext(ctx)
	if err := serveAdmin(ctx, g, f.admin, node); err != nil {
		return err
	}
	app.Metrics.Cluster(node)
	g.Go(func() error { return node.Run(ctx) })
	app.SetReady(true) // to lead, or to serve
	err = g.Wait()
	app.SetReady(false)
	return err
}

// serveAdmin serves the admin socket until ctx ends, in g.
func serveAdmin(ctx context.Context, g *errgroup.Group, addr string, b admin.Backend) error {
	ln, err := admin.Listen(addr)
	if err != nil {
		return err
	}
	g.Go(func() error { return admin.NewServer(b).Serve(ctx, ln) })
	return nil
}
