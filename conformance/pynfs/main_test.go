package pynfs

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"manifold/conformance/linux"
)

// The environment variables: where the suite is, what interprets it, and the
// manifold to test, which testMain sets if nobody else did.
const (
	suiteVariable  = "PYNFS_DIR"
	pythonVariable = "PYTHON"
	binaryVariable = "MANIFOLD_BIN"
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

// testMain runs the tests in a network of their own, where port 2049 is free
// and whatever they start ends with them. Without a suite there is no need.
func testMain(m *testing.M) int {
	flag.Parse()
	if os.Getenv(suiteVariable) == "" || testing.Short() {
		return m.Run()
	}
	if os.Getenv(binaryVariable) == "" {
		dir, err := build()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }() // the system's temporary folder is cleaned anyway
	}
	inside, status, err := linux.Isolate()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "isolation, which needs root:", err)
		return 1
	case inside:
		return m.Run()
	}
	return status
}

// build compiles manifold, for which the network may be needed, into a folder.
func build() (dir string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir, err = os.MkdirTemp("", "manifold-pynfs-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "manifold")
	if err := linux.Build(ctx, bin, "manifold/cmd/manifold"); err != nil {
		return "", err
	}
	return dir, os.Setenv(binaryVariable, bin)
}
