package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"manifold/cmd/internal/boot"
	"manifold/mds/admin"
)

// recallTimeout is how long `ctl layout recall` waits if it is not told: more
// than a client has to return layouts with any usual lease.
const recallTimeout = 3 * time.Minute

func (c *ctl) layoutRecallCommand() *cobra.Command {
	var fsid, all bool
	var client string
	cmd := &cobra.Command{
		Use: "recall [PATH]", Short: "Take layouts back from clients", Args: cobra.MaximumNArgs(1),
		Long: "Take layouts back from clients, and wait until they are back. A client that does not\n" +
			"return one within a lease is fenced at the data servers. Clients ask for new layouts when\n" +
			"they need them; nothing is lost but a moment.\n\n" +
			"Give a file's PATH, or --fsid or --all for everything that clients have: these say what the\n" +
			"clients are asked for, all layouts of the file system or all of the server.\n" + pathHelp,
		Example: "  manifold ctl layout recall /scratch/file\n  manifold ctl layout recall --fsid --client 0000000100000001",
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("timeout") {
				c.timeout = recallTimeout
			}
			switch {
			case fsid && all, (fsid || all) && len(args) > 0:
				return boot.Usage("more than one of PATH, --fsid and --all")
			case len(args) > 0:
				return checkPath(args[0])
			case !fsid && !all:
				return boot.Usage("nothing to recall: give a PATH, --fsid or --all")
			}
			return nil
		},
		RunE: c.ask(func(ctx context.Context, cmd *cobra.Command, b admin.Backend, args []string) error {
			r := admin.Recall{Client: client}
			switch {
			case fsid:
				r.Scope = admin.ScopeFSID
			case all:
				r.Scope = admin.ScopeAll
			default:
				r.Path = args[0]
			}
			n, err := b.RecallLayouts(ctx, r)
			if err != nil {
				return err
			}
			done := struct {
				Layouts uint64 `json:"layouts"`
			}{n}
			return c.print(cmd, done, func(t *table) { t.row("layouts recalled", n) })
		}),
	}
	cmd.Flags().BoolVar(&fsid, "fsid", false, "all layouts of the file system")
	cmd.Flags().BoolVar(&all, "all", false, "all layouts")
	cmd.Flags().StringVar(&client, "client", "", "only those of the client with this `ID`, see `ctl client list`")
	return cmd
}
