package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"manifold/mds/admin"
)

func (c *ctl) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the server at a glance",
		Args:  cobra.NoArgs,
		RunE: c.ask(func(ctx context.Context, cmd *cobra.Command, b admin.Backend, _ []string) error {
			s, err := b.Status(ctx)
			if err != nil {
				return err
			}
			return c.print(cmd, s, func(t *table) { statusTable(t, s) })
		}),
	}
}

func statusTable(t *table, s admin.Status) {
	state := "serving"
	if s.Grace {
		state = "grace: clients reclaim what they held before the restart"
	}
	t.row("state", state)
	t.row("version", s.Version)
	t.row("cluster", s.ClusterID)
	t.row("uptime", secondsText(s.UptimeSeconds))
	t.row("lease", secondsText(s.LeaseSeconds))
	t.row("data servers", fmt.Sprintf("%d of %d up", s.DataServersUp, s.DataServersTotal))
	t.row("clients", s.Clients)
	t.row("opens", s.Opens)
	t.row("locks", s.Locks)
	t.row("layouts", fmt.Sprintf("%d, %d being recalled", s.Layouts, s.Recalls))
	t.row("proxy I/O", fmt.Sprintf("%s read, %s written, %d refused", bytesText(s.ProxyReadBytes), bytesText(s.ProxyWrittenBytes), s.ProxyRefused))
}
