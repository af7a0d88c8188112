package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
)

var (
	oneSeed = flag.Uint64("sim.seed", 0, "run this seed only")
	first   = flag.Uint64("sim.first", 1, "the first seed")
	seeds   = flag.Int("sim.seeds", 200, "how many seeds")
	verbose = flag.Bool("sim.v", false, "print all that happens")
)

// One processor, so that what happens at one instant happens in one order.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// simulate runs one world.
func simulate(t *testing.T, seed uint64, fault mutant) (failed string, w *world) {
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(seed, fault)
		failed = w.run(t)
	})
	return failed, w
}

// TestSim runs many seeds.
func TestSim(t *testing.T) {
	from, n := *first, *seeds
	if *oneSeed != 0 {
		from, n = *oneSeed, 1
	}
	if testing.Short() {
		n = min(n, 20)
	}
	did := map[string]int{}
	for seed := from; seed < from+uint64(n); seed++ {
		failed, w := simulate(t, seed, sound)
		if failed != "" {
			t.Fatalf("seed %d: %s\nAgain with: go test ./conformance/sim -run TestSim -sim.seed %d", seed, failed, seed)
		}
		for what, n := range w.judge.seen {
			did[what] += n
		}
	}
	for _, what := range slices.Sorted(maps.Keys(did)) {
		t.Logf("%-30s %d", what, did[what])
	}
	for _, what := range []string{"open", "LOCK", "WRITE", "READ", "COMMIT", "LAYOUTCOMMIT", "SETATTR", "recall, returned", "reclaim", "name"} {
		if n >= 100 && did[what] == 0 {
			t.Errorf("no %s ever: the simulation proves nothing about it", what)
		}
	}
}

// mutantSeeds is how many seeds have a chance to find a mutant.
const mutantSeeds = 300

// TestMutants switches one guard off at a time: the judge must notice.
func TestMutants(t *testing.T) {
	if *oneSeed != 0 {
		t.Skip("one seed")
	}
	for fault := lazyFence; fault <= noReplay; fault++ {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			for seed := *first; seed < *first+mutantSeeds; seed++ {
				if failed, _ := simulate(t, seed, fault); failed != "" {
					t.Logf("found with seed %d: %.300s", seed, failed)
					return
				}
			}
			t.Errorf("not found by %d seeds", mutantSeeds)
		})
	}
}

// TestRepeats: a seed decides what happens, but where the scheduler is made to
// be random.
func TestRepeats(t *testing.T) {
	same := 0
	const n = 6
	for seed := uint64(1); seed <= n; seed++ {
		_, a := simulate(t, seed, sound)
		_, b := simulate(t, seed, sound)
		if a.journal.hash == b.journal.hash && a.journal.n == b.journal.n {
			same++
		}
	}
	t.Logf("%d of %d seeds went the same way twice", same, n)
	if same < n/2 && !raceDetector() {
		t.Error("seeds cannot be run again")
	}
}

// raceDetector says whether the test was built with it: it shuffles goroutines.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "-race" && s.Value == "true"
	})
}
