package linux_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"manifold/conformance/linux/expect"
)

// The outside suites that run on a mount are given by environment variables;
// the comment of package conformance/pynfs says how to get each. Each has a
// server of its own.
const (
	cthonVariable           = "CTHON_DIR"
	pjdfstestVariable       = "PJDFSTEST_DIR"
	pjdfstestTestsVariable  = "PJDFSTEST_TESTS"
	xfstestsVariable        = "XFSTESTS_DIR"
	xfstestsTestsVariable   = "XFSTESTS_TESTS"
	xfstestsVersionVariable = "XFSTESTS_VERSION"
)

// suiteNumber tells the guest, and the server, of the suites from others.
// Further ones have the numbers after it.
const suiteNumber = 9

// suite is a built tree of an outside suite, as the guest sees it, with the
// guest and the server that it runs on.
type suite struct {
	client
	world  *world
	server *server
	tree   string // a copy that the guest may write
}

// newSuite makes a suite of the tree that variable names, or skips the test.
// built is a file that a built tree has; on is the Debian release of the kernel.
func newSuite(t *testing.T, variable, built, on string) suite {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		t.Skipf("%s is not set: it names a built tree of the suite; the comment of package conformance/pynfs says how to get one", variable)
	}
	if _, err := os.Stat(filepath.Join(dir, built)); err != nil {
		t.Fatalf("%s does not name a built tree: %v", variable, err)
	}
	w := &world{t: t, bin: tool(t, "manifold"), shared: t.TempDir(), servers: map[string]*server{}}
	tree := filepath.Join(w.shared, "suite")
	if out, err := exec.Command("cp", "-a", dir, tree).CombinedOutput(); err != nil { // with the times, which make compares
		t.Fatalf("copy %s: %v: %s", dir, err, out)
	}
	return suite{world: w, tree: tree}.another(t, on, 0)
}

// another returns the suite on a guest, and a server, of its own: number n.
func (s suite) another(t *testing.T, on string, n int) suite {
	t.Helper()
	name := fmt.Sprint("suites", n)
	s.client = boot(t, on, name, s.world.shared, suiteNumber+n)
	s.world.clients = append(s.world.clients, s.client)
	s.server = s.world.keep(t, name, func() *server { return s.world.upIn(t, suiteNumber+n, smallDisk(t)) })
	return s
}

// smallDisk returns a folder on a file system of its own, in memory, that has
// room for 3 GiB: a suite may fill it, and no more than it.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "mf") // short: a Unix socket lies in it
	if err == nil {
		err = unix.Mount("none", dir, "tmpfs", 0, "size=3g")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Unmount(dir, unix.MNT_DETACH), os.Remove(dir)); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// judge compares results with the list of that name in testdata.
func judge(t *testing.T, name string, results []expect.Result) {
	t.Helper()
	expect.Judge(t, name, path.Join("testdata", name+".txt"), results)
}

// tail is the end of a program's output, for a note.
func tail(text string) string {
	const most = 1000
	return text[max(0, len(text)-most):]
}

// Results that a test of a parser wants, with a part of the note.
func passed(id string) expect.Result  { return expect.Result{ID: id} }
func skipped(id string) expect.Result { return expect.Result{ID: id, Outcome: expect.Skipped} }
func failed(id, note string) expect.Result {
	return expect.Result{ID: id, Outcome: expect.Failed, Note: note}
}

func alike(got, want expect.Result) bool {
	return got.ID == want.ID && got.Outcome == want.Outcome && strings.Contains(got.Note, want.Note)
}

// TestSuiteLists reads every list, so that a bad line is seen without a suite.
func TestSuiteLists(t *testing.T) {
	for _, name := range []string{"cthon04", "pjdfstest", "xfstests"} {
		if _, err := expect.Read(path.Join("testdata", name+".txt")); err != nil {
			t.Error(err)
		}
	}
}
