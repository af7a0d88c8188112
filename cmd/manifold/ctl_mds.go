package main

import (
	"context"

	"github.com/spf13/cobra"

	"manifold/mds/admin"
)

func (c *ctl) mdsCommand() *cobra.Command {
	list := func(ctx context.Context, cmd *cobra.Command, b admin.Backend) error {
		servers, err := b.MetadataServers(ctx)
		if err != nil {
			return err
		}
		return c.print(cmd, servers, func(t *table) { mdsTable(t, servers) })
	}
	return group("mds", "List metadata servers, and move the lead",
		&cobra.Command{
			Use: "list", Short: "List the metadata servers that are there", Args: cobra.NoArgs,
			RunE: c.ask(func(ctx context.Context, cmd *cobra.Command, b admin.Backend, _ []string) error {
				return list(ctx, cmd, b)
			}),
		},
		&cobra.Command{
			Use: "handover", Short: "Let another metadata server lead", Args: cobra.NoArgs,
			Long: "Let another metadata server lead: clients wait for about a second. The one that is asked\n" +
				"must lead. It keeps out of the way for ten seconds, so that it can be stopped for maintenance.",
			RunE: c.ask(func(ctx context.Context, cmd *cobra.Command, b admin.Backend, _ []string) error {
				if err := b.Handover(ctx); err != nil {
					return err
				}
				return list(ctx, cmd, b)
			}),
		},
	)
}

func mdsTable(t *table, list []admin.MetadataServer) {
	t.row("NAME", "STATE", "FOR", "ADDRESS", "VERSION")
	for _, m := range list {
		name, since := m.Name, "-"
		if name == "" {
			name = "-"
		}
		if m.ForSeconds >= 0 {
			since = secondsText(m.ForSeconds)
		}
		t.row(name, m.State, since, m.Address, m.Version)
	}
}
