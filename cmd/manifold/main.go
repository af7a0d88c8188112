// Command manifold is parallel NFS for GPU racks, in one program: `manifold up`
// runs everything on one machine, `manifold mds` and `manifold ds` are the
// metadata server and a data server, `manifold ctl` administers them.
//
// There is a small file for each subcommand. Its nouns: a metadata server's
// flags (mdsFlags) are shared by up and mds; a box is the data folder of up; a
// printer shows what ctl got as a table, JSON or YAML. All that a command does
// ends in an error, and exitCode says what a script sees of it.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"manifold/cmd/internal/boot"
	"manifold/mds/admin"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// What scripts see. The numbers are told in ctl's help.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
)

// failure marks what a command's own work ended with, as opposed to cobra's
// finding that it is not called as it should be.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// action makes a RunE of work.
func action(work func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := work(cmd, args); err != nil {
			return failure{err}
		}
		return nil
	}
}

func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case !errors.As(err, new(failure)), errors.Is(err, boot.ErrUsage):
		return exitUsage
	case errors.Is(err, admin.ErrUnavailable):
		return exitUnreachable
	}
	return exitFailed
}

// run is main for a command line; it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "manifold",
		Short:         "Parallel NFS: a metadata server, data servers, and the kernel's own client",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          needSubcommand,
	}
	root.AddCommand(upCommand(), mdsCommand(), dsCommand(), ctlCommand(), versionCommand())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	code := exitCode(err)
	if err != nil {
		fmt.Fprintln(stderr, "manifold:", err)
	}
	if code == exitUsage {
		fmt.Fprintf(stderr, "See `%s --help`.\n", cmd.CommandPath())
	}
	return code
}

// needSubcommand is the RunE of a command that only holds others.
func needSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
	}
	cmd.SetOut(cmd.ErrOrStderr())
	if err := cmd.Help(); err != nil {
		return err
	}
	return errors.New("which of its commands?")
}
