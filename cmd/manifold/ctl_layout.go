package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"manifold/cmd/internal/boot"
	"manifold/mds/admin"
)

// pathHelp is said with every PATH.
const pathHelp = "PATH is as seen from the volume's root, such as /dir/file: not a path on a client's mount."

func (c *ctl) layoutCommand() *cobra.Command {
	return group("layout", "Show and set how files are striped, take layouts back", c.layoutGetCommand(), c.layoutSetCommand(), c.layoutRecallCommand())
}

func (c *ctl) layoutGetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "get PATH", Short: "Show how a file, or what is made in a directory, is striped", Args: needs("PATH", checkPath),
		Long: "Show how a file is striped, or how files made in a directory will be.\n" + pathHelp,
		RunE: c.ask(func(ctx context.Context, cmd *cobra.Command, b admin.Backend, args []string) error {
			return c.showLayout(ctx, cmd, b, args[0])
		}),
	}
}

func (c *ctl) layoutSetCommand() *cobra.Command {
	var unit boot.Size
	var width int
	var pool string
	cmd := &cobra.Command{
		Use: "set PATH", Short: "Set how files made in a directory will be striped", Args: needs("PATH", checkPath),
		Long: "Set how files made in a directory from now on, or an empty file, will be striped.\n" +
			"What is not given is set to the server's default.\n" + pathHelp,
		Example: "  manifold ctl layout set /scratch --stripe-unit 4MiB --width 8",
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			fs := cmd.Flags()
			switch {
			case !fs.Changed("stripe-unit") && !fs.Changed("width") && !fs.Changed("pool"):
				return boot.Usage("nothing to set: give --stripe-unit, --width or --pool")
			case fs.Changed("stripe-unit") && unit == 0:
				return boot.Usage("--stripe-unit: 0 is no size")
			case width < 0:
				return boot.Usage("--width: %d is below 0", width)
			}
			return nil
		},
		RunE: c.ask(func(ctx context.Context, cmd *cobra.Command, b admin.Backend, args []string) error {
			if err := b.SetLayout(ctx, args[0], admin.Policy{StripeUnit: uint64(unit), Width: width, Pool: pool}); err != nil {
				return err
			}
			return c.showLayout(ctx, cmd, b, args[0])
		}),
	}
	cmd.Flags().Var(&unit, "stripe-unit", "bytes on one data server before the next one's turn: a `SIZE` such as 64KiB, 1MiB or 4M")
	cmd.Flags().IntVar(&width, "width", 0, "how many data servers a file is striped over; 0 for the server's default")
	cmd.Flags().StringVar(&pool, "pool", "", "`NAME` of the pool of data servers to take them from")
	return cmd
}

func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") {
		return boot.Usage("%q does not begin with \"/\". %s", path, pathHelp)
	}
	return nil
}

func (c *ctl) showLayout(ctx context.Context, cmd *cobra.Command, b admin.Backend, path string) error {
	l, err := b.Layout(ctx, path)
	if err != nil {
		return err
	}
	return c.print(cmd, l, func(t *table) { layoutTable(t, l) })
}

func layoutTable(t *table, l admin.Layout) {
	size := func(n uint64) string { z := boot.Size(n); return z.String() }
	t.row("path", l.Path)
	t.row("kind", l.Kind)
	width, unit := "default", "default"
	if l.Policy.Width > 0 {
		width = fmt.Sprint(l.Policy.Width)
	}
	if l.Policy.StripeUnit > 0 {
		unit = size(l.Policy.StripeUnit)
	}
	t.row("policy", fmt.Sprintf("stripe unit %s, width %s, pool %s", unit, width, cmp.Or(l.Policy.Pool, "default")))
	if l.Kind != admin.KindFile {
		return
	}
	t.row("size", fmt.Sprintf("%s (%d bytes)", bytesText(l.Size), l.Size))
	if l.Width == 0 {
		t.row("striped", "not yet: data servers are chosen at the first write")
		return
	}
	t.row("stripe unit", size(l.StripeUnit))
	t.row("width", l.Width)
	for i, s := range l.Stripes {
		t.row(fmt.Sprintf("stripe %d", i), fmt.Sprintf("%d (%s)", s.ID, s.Name))
	}
}
