package wire_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// common is the cluster of the tests that leave the servers alone. It lives as
// long as the test process.
var common = struct {
	once sync.Once
	c    *cluster
	tb   commonTB
}{}

// commonTB is a testing.TB that outlives single tests.
type commonTB struct {
	testing.TB
	cleanups []func()
	dir      string
	failed   bool
}

func (tb *commonTB) Cleanup(f func()) { tb.cleanups = append(tb.cleanups, f) }
func (tb *commonTB) TempDir() string  { return tb.dir }
func (tb *commonTB) Helper()          {}

// Errorf is for what goes wrong when the tests are over.
func (tb *commonTB) Errorf(format string, args ...any) {
	tb.failed = true
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// shared is a cluster of four data servers that other tests use as well.
func shared(t *testing.T) *cluster {
	t.Helper()
	common.once.Do(func() {
		var err error
		if common.tb.dir, err = os.MkdirTemp("", "wire"); err != nil {
			t.Fatal(err)
		}
		common.tb.TB = t
		common.c = newCluster(&common.tb, 4)
	})
	if common.c == nil {
		t.Fatal("no cluster")
	}
	return common.c
}

func TestMain(m *testing.M) {
	// The tests wait for leases and data servers more than they work.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if err := flag.Set("test.parallel", "12"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	for i := len(common.tb.cleanups) - 1; i >= 0; i-- {
		common.tb.cleanups[i]()
	}
	if common.tb.failed {
		code = 1
	}
	if common.tb.dir != "" {
		os.RemoveAll(common.tb.dir)
	}
	os.Exit(code)
}
