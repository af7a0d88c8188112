package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what is known of how the program was made.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"date"` // of the commit
	Go      string `json:"go"`
}

// buildInfo reads what the Go tool wrote into the program.
func buildInfo() build {
	b := build{Version: "devel", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	dirty := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+dirty"
			}
		}
	}
	if b.Commit != "" {
		b.Commit += dirty
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	return b
}

func versionCommand() *cobra.Command {
	p := &printer{}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			b := buildInfo()
			return p.print(cmd, b, func(t *table) {
				t.row("manifold", b.Version)
				t.row("commit", cmp.Or(b.Commit, "unknown"))
				t.row("date", cmp.Or(b.Date, "unknown"))
				t.row("go", b.Go)
			})
		}),
	}
	p.register(cmd.Flags())
	return cmd
}
