package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"manifold/cmd/internal/boot"
	"manifold/ds"
)

// dsStopTime is how long a stopping data server goes on with calls under way.
const dsStopTime = 5 * time.Second

// dsFlags are a data server's flags.
type dsFlags struct {
	boot.Options
	cfg       ds.Config
	tokenFile string
	replies   boot.Size
}

func dsCommand() *cobra.Command { return dsCommandOf(&dsFlags{}) }

// dsCommandOf makes the command that fills f in.
func dsCommandOf(f *dsFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ds --data DIR --listen HOST:PORT --mds HOST:PORT --token-file FILE",
		Short: "Run a data server",
		Long: `Run a data server. It joins the metadata server at --mds (its --control
address) with the token in --token-file, a copy of the metadata server's
join.token, and serves clients at --listen.` + settingsHelp,
		Args: cobra.NoArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			if err := boot.Load(cmd.Flags()); err != nil {
				return err
			}
			if err := require(cmd.Flags(), "data", "listen", "mds", "token-file"); err != nil {
				return err
			}
			if err := f.finish(); err != nil {
				return err
			}
			return serve(&f.Options, f.run)
		}),
	}
	fs := cmd.Flags()
	f.Options.Register(fs)
	fs.StringVar(&f.cfg.Data, "data", "", "`DIR` of the objects, on ext4 or XFS; made if missing")
	fs.StringSliceVar(&f.cfg.Listen, "listen", nil, "`HOST:PORT` for clients; may be given several times")
	fs.StringSliceVar(&f.cfg.Advertise, "advertise", nil, "`HOST:PORT` that clients are told (default: those of --listen)")
	fs.StringSliceVar(&f.cfg.MDS, "mds", nil, "`HOST:PORT`: the metadata server's --control; of several ones, each")
	fs.DurationVar(&f.cfg.Alone, "writes-without-mds", 0, "how long clients' writes are taken when no metadata server is heard of, at least 10s (default: for ever)")
	fs.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the join token")
	fs.Var(&f.replies, "reply-cache", "`SIZE` of memory for replies that clients may ask for again, at least 1MiB (default 1GiB)")
	fs.StringVar(&f.cfg.Name, "id", "", "`NAME` of the data server, one of its own (default: the data folder's)")
	fs.StringVar(&f.cfg.Krb5Keytab, "krb5-keytab", "", "`FILE` with the keys of nfs/HOST, for clients that use Kerberos")
	fs.IntVar(&f.cfg.Krb5Contexts, "krb5-contexts", 0, "`N` security contexts of clients are kept at most (default: 16384)")
	return cmd
}

// finish completes the flags once they are loaded.
func (f *dsFlags) finish() error {
	b, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return fmt.Errorf("--token-file: %w", err)
	}
	f.cfg.Token = strings.TrimSpace(string(b))
	f.cfg.ReplyCache = int64(min(f.replies, math.MaxInt64))
	if f.cfg.Token == "" {
		return boot.Usage("--token-file: %s is empty", f.tokenFile)
	}
	if err := f.cfg.Validate(); err != nil {
		return boot.Usage("%v", err)
	}
	return nil
}

// dsSurround connects a data server's configuration to its surroundings.
func dsSurround(cfg *ds.Config, app *boot.App) {
	cfg.Version = buildInfo().Version
	cfg.Log = app.Log.Named("ds")
	cfg.Operations, cfg.Connections = app.Metrics.Operations(boot.RoleDS), app.Metrics.Connections(boot.RoleDS)
}

// run is the data server's life.
func (f *dsFlags) run(ctx context.Context, app *boot.App) error {
	dsSurround(&f.cfg, app)
	srv, err := ds.New(f.cfg)
	if err != nil {
		return boot.Explain(err)
	}
	app.Metrics.Slots(boot.RoleDS, srv.SlotUse)
	g, ctx := errgroup.WithContext(ctx)
	runDS(ctx, g, srv, ctx.Done(), app.Log, func() bool { return false })
	g.Go(func() error {
		select {
		case <-srv.Ready():
			app.SetReady(true)
		case <-ctx.Done():
		}
		return nil
	})
	err = g.Wait()
	app.SetReady(false)
	return err
}

// runDS runs srv in g until stop is closed, and then lets it finish its calls.
// If it ends by itself, that ends g, unless unwanted says that this was to come.
func runDS(ctx context.Context, g *errgroup.Group, srv *ds.Server, stop <-chan struct{}, log *zap.Logger, unwanted func() bool) {
	ended := make(chan struct{})
	g.Go(func() error {
		defer close(ended)
		err := srv.Run(context.WithoutCancel(ctx))
		if err != nil && unwanted() {
			log.Warn("data server ended", zap.Error(err))
			return nil
		}
		return err
	})
	g.Go(func() error {
		select {
		case <-stop:
		case <-ended:
			return nil
		}
		stopDS(ctx, srv, log)
		return nil
	})
}

// stopDS lets srv finish its calls, ctx or not, for a while.
func stopDS(ctx context.Context, srv *ds.Server, log *zap.Logger) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), dsStopTime)
	defer cancel()
	if err := srv.Shutdown(late); err != nil {
		log.Warn("data server stopped with calls cut off", zap.Error(err))
	}
}
