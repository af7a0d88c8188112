package main

import (
	"context"

	"github.com/spf13/cobra"

	"manifold/mds/admin"
)

func (c *ctl) clientCommand() *cobra.Command {
	return group("client", "List NFS clients", &cobra.Command{
		Use: "list", Short: "List the NFS clients", Args: cobra.NoArgs,
		RunE: c.ask(func(ctx context.Context, cmd *cobra.Command, b admin.Backend, _ []string) error {
			list, err := b.Clients(ctx)
			if err != nil {
				return err
			}
			return c.print(cmd, list, func(t *table) { clientTable(t, list) })
		}),
	})
}

func clientTable(t *table, list []admin.Client) {
	t.row("ID", "ADDRESS", "SESSIONS", "OPENS", "LAYOUTS", "SEEN", "OWNER")
	for _, k := range list {
		owner := k.Owner
		if !k.Confirmed {
			owner += " (unconfirmed)"
		}
		t.row(k.ID, k.Address, k.Sessions, k.Opens, k.Layouts, secondsText(k.LastRenewalSecondsAgo), owner)
	}
}
