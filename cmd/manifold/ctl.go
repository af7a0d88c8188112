package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"manifold/cmd/internal/boot"
	"manifold/mds/admin"
)

// adminPlaces are where ctl looks for a server if it is not told.
func adminPlaces() []string {
	return []string{"./" + defaultData + "/" + adminSocket, "/run/manifold/" + adminSocket}
}

const adminSocket = "admin.sock"

// ctl is what its subcommands share.
type ctl struct {
	printer
	admin   string
	timeout time.Duration
}

func ctlCommand() *cobra.Command {
	c := &ctl{}
	cmd := &cobra.Command{
		Use:   "ctl",
		Short: "Administer a running metadata server",
		Long: `Administer a running metadata server through its admin socket.

The socket is the one of --admin, else of the environment variable
MANIFOLD_ADMIN, else the first of these that exists:
` + fmt.Sprintf("  unix:%s\n  unix:%s\n", adminPlaces()[0], adminPlaces()[1]) + `
Exit status: 0 done, 1 failed, 2 wrong usage, 3 no server answers.`,
		RunE: needSubcommand,
	}
	fs := cmd.PersistentFlags()
	fs.StringVar(&c.admin, "admin", "", "admin `SOCKET` of the server, as unix:PATH")
	fs.DurationVar(&c.timeout, "timeout", 10*time.Second, "how long to wait for the answer")
	c.register(fs)
	cmd.AddCommand(c.statusCommand(), c.mdsCommand(), c.dsCommand(), c.clientCommand(), c.layoutCommand(), c.storeCommand())
	return cmd
}

// ask makes a RunE of work on a server.
func (c *ctl) ask(work func(ctx context.Context, cmd *cobra.Command, b admin.Backend, args []string) error) func(*cobra.Command, []string) error {
	return action(func(cmd *cobra.Command, args []string) (err error) {
		if err := c.check(); err != nil {
			return err
		}
		addr, err := c.address()
		if err != nil {
			return err
		}
		conn, err := admin.Dial(addr)
		if err != nil {
			return boot.Usage("--admin: %v", err)
		}
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
		defer cancel()
		if err := work(ctx, cmd, conn, args); ctx.Err() != nil && err != nil {
			return fmt.Errorf("%w: no answer from %s within %v", admin.ErrUnavailable, addr, c.timeout)
		} else if err != nil {
			return err
		}
		return nil
	})
}

// address is where the server is.
func (c *ctl) address() (string, error) {
	if c.admin != "" {
		return c.admin, nil
	}
	if addr := os.Getenv("MANIFOLD_ADMIN"); addr != "" {
		return addr, nil
	}
	for _, path := range adminPlaces() {
		if _, err := os.Stat(path); err == nil {
			return "unix:" + path, nil
		}
	}
	return "", fmt.Errorf("%w: no admin socket at %s or %s: say where it is with --admin unix:PATH", admin.ErrUnavailable, adminPlaces()[0], adminPlaces()[1])
}

// group makes a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, RunE: needSubcommand}
	cmd.AddCommand(commands...)
	return cmd
}

// needs is the Args of a command with one argument, called name.
func needs(name string, check func(string) error) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return boot.Usage("%s takes one argument, %s", cmd.CommandPath(), name)
		}
		if check != nil {
			return check(args[0])
		}
		return nil
	}
}
