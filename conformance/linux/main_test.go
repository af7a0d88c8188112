package linux_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"manifold/conformance/linux"
	"manifold/conformance/linux/kernel"
	"manifold/mds/store/etcd/etcdtest"
)

// programs lists what the harness and its scenarios run, and the packages that
// have it.
func programs() map[string]string {
	return map[string]string{
		"ip": "iproute2", "unshare": "util-linux", "patchelf": "patchelf", "mount.nfs4": "nfs-common",
		"fio": "fio", "git": "git", "gcc": "gcc", "tar": "tar", "cp": "coreutils",
	}
}

// Where the outside leaves for the inside what it built, and why there will be
// no tests.
const (
	toolsVariable  = "MANIFOLD_TEST_TOOLS"
	reasonVariable = "MANIFOLD_TEST_SKIP"
)

// binaryVariable names a manifold program to test instead of the one that is
// built from this module.
const binaryVariable = "MANIFOLD_BIN"

// testMain runs the tests in namespaces of their own. Where that is not
// possible each test skips and says why; on CI, where that must not pass
// unseen, the run fails.
func testMain(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		return skipAll(m, errors.New("-short leaves out the kernel tests"))
	}
	if os.Getenv(toolsVariable) == "" {
		if err := outside(); err != nil {
			if os.Getenv("CI") != "" {
				fmt.Fprintln(os.Stderr, "kernel tests cannot run here:", err)
				return 1
			}
			return skipAll(m, err)
		}
	}
	inside, status, err := linux.Isolate()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "isolation:", err)
		status = 1
	case inside:
		status = m.Run()
	}
	if !inside {
		err = os.RemoveAll(os.Getenv(toolsVariable))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return status
}

// skipAll runs the tests so that each skips for the reason of err.
func skipAll(m *testing.M, err error) int {
	if err := os.Setenv(reasonVariable, err.Error()); err != nil {
		return 1
	}
	return m.Run()
}

// outside does what needs the network and the Go tool.
func outside() error {
	if err := linux.Possible(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := linux.Prepare(ctx, programs(), kernel.Suites()); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "manifold-tools-") // not in /dev/shm, which a guest sees as its own
	if err != nil {
		return err
	}
	if err := linux.Build(ctx, filepath.Join(dir, "agent"), "manifold/conformance/linux/agent"); err != nil {
		return err
	}
	if err := linux.Build(ctx, filepath.Join(dir, "manifold"), "manifold/cmd/manifold"); err != nil && os.Getenv(binaryVariable) == "" {
		fmt.Fprintln(os.Stderr, "WARNING:", err) // the server's tests will say so too
	}
	if os.Getenv(etcdtest.BinEnv) == "" {
		etcd, err := etcdtest.Build()
		if err = errors.Join(err, os.Setenv(etcdtest.BinEnv, etcd)); err != nil {
			return err
		}
	}
	return os.Setenv(toolsVariable, dir)
}

// tool returns the path of a program that was built outside, or skips the test.
func tool(t *testing.T, name string) string {
	t.Helper()
	if reason := os.Getenv(reasonVariable); reason != "" {
		t.Skip("kernel tests are skipped: ", reason)
	}
	path := filepath.Join(os.Getenv(toolsVariable), name)
	if other := os.Getenv(binaryVariable); name == "manifold" && other != "" {
		path = other
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s was not built: %v", name, err)
	}
	return path
}
