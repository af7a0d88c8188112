package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"manifold/mds/admin"
)

func (c *ctl) dsCommand() *cobra.Command {
	return group("ds", "List and manage data servers",
		&cobra.Command{
			Use: "list", Short: "List the data servers", Args: cobra.NoArgs,
			RunE: c.ask(func(ctx context.Context, cmd *cobra.Command, b admin.Backend, _ []string) error {
				list, err := b.DataServers(ctx)
				if err != nil {
					return err
				}
				return c.print(cmd, list, func(t *table) { dsTable(t, list) })
			}),
		},
		&cobra.Command{
			Use: "show ID", Short: "Show one data server, by number or name", Args: needs("ID", nil),
			RunE: c.ask(func(ctx context.Context, cmd *cobra.Command, b admin.Backend, args []string) error {
				d, err := b.DataServer(ctx, args[0])
				if err != nil {
					return err
				}
				return c.print(cmd, d, func(t *table) { dsDetails(t, d) })
			}),
		},
		&cobra.Command{
			Use: "drain ID", Short: "Keep new files off a data server", Args: needs("ID", nil),
			Long: "Keep new files off a data server. What lies on it stays there and is served.",
			RunE: c.setDrain(true),
		},
		&cobra.Command{
			Use: "undrain ID", Short: "Let a data server take new files again", Args: needs("ID", nil),
			RunE: c.setDrain(false),
		},
		&cobra.Command{
			Use: "remove ID", Short: "Take a data server out of the cluster for good", Args: needs("ID", nil),
			Long: "Take a data server out of the cluster for good. Its folder cannot join again: it would have to be emptied.",
			RunE: c.ask(func(ctx context.Context, cmd *cobra.Command, b admin.Backend, args []string) error {
				if err := b.RemoveDS(ctx, args[0]); err != nil {
					return err
				}
				return c.showDS(ctx, cmd, b, args[0])
			}),
		},
	)
}

func (c *ctl) setDrain(on bool) func(*cobra.Command, []string) error {
	return c.ask(func(ctx context.Context, cmd *cobra.Command, b admin.Backend, args []string) error {
		if err := b.SetDrain(ctx, args[0], on); err != nil {
			return err
		}
		return c.showDS(ctx, cmd, b, args[0])
	})
}

// showDS shows what became of a data server.
func (c *ctl) showDS(ctx context.Context, cmd *cobra.Command, b admin.Backend, id string) error {
	d, err := b.DataServer(ctx, id)
	if err != nil {
		return err
	}
	return c.print(cmd, d, func(t *table) { dsTable(t, []admin.DataServer{d}) })
}

func dsTable(t *table, list []admin.DataServer) {
	t.row("ID", "NAME", "STATE", "ADDRESS", "USED", "FREE", "READ", "WRITTEN")
	for _, d := range list {
		address := "-"
		if len(d.Addresses) > 0 {
			address = d.Addresses[0]
		}
		if len(d.Addresses) > 1 {
			address += ",.."
		}
		t.row(d.ID, d.Name, d.State, address, bytesText(d.UsedBytes), bytesText(d.FreeBytes), bytesText(d.ReadBytes), bytesText(d.WrittenBytes))
	}
}

func dsDetails(t *table, d admin.DataServer) {
	t.row("id", d.ID)
	t.row("name", d.Name)
	t.row("uuid", d.UUID)
	t.row("state", d.State)
	t.row("addresses", strings.Join(d.Addresses, " "))
	t.row("capacity", bytesText(d.CapacityBytes))
	t.row("used", bytesText(d.UsedBytes))
	t.row("free", bytesText(d.FreeBytes))
	t.row("read", bytesText(d.ReadBytes))
	t.row("written", bytesText(d.WrittenBytes))
	t.row("last heard", secondsText(d.HeartbeatAgeSeconds))
	t.row("version", d.Version)
}
