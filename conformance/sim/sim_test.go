package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	oneSeed = flag.Uint64("sim.seed", 0, "run this seed only")
	first   = flag.Uint64("sim.first", 1, "the first seed")
	seeds   = flag.Int("sim.seeds", 200, "how many seeds")
	budget  = flag.Duration("sim.budget", 0, "as many seeds as this time allows, whatever -sim.seeds says")
	jobs    = flag.Int("sim.jobs", runtime.NumCPU(), "processes that share the seeds")
	share   = flag.Int("sim.share", -1, "which of these processes this is; set by the test itself")
	verbose = flag.Bool("sim.v", false, "print all that happens")
)

// One processor, so that what happens at one instant happens in one order. The
// heap of a world is small, so that collecting it often is what would cost most.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(800)
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

// outcome is what became of some seeds.
type outcome struct {
	Seeds  int
	Did    map[string]int // how often what went well
	Seed   uint64         // that failed first, 0: none
	Failed string         // why
}

// some runs every step-th seed from the first on, until one fails.
func some(t *testing.T, from uint64, n, step int) (o outcome) {
	o.Did = map[string]int{}
	end := time.Now().Add(*budget)
	for seed := from; *budget > 0 && time.Now().Before(end) || *budget == 0 && seed < *first+uint64(n); seed += uint64(step) {
		failed, w := simulate(t, seed, sound)
		if failed != "" {
			o.Seed, o.Failed = seed, failed
			return o
		}
		o.Seeds++
		for what, n := range w.judge.seen {
			o.Did[what] += n
		}
	}
	return o
}

// outcomeMark stands before an outcome on the standard output of a process.
const outcomeMark = "outcome: "

// shared has several processes run the seeds, each on its own processor.
func shared(t *testing.T, n int) (all outcome) {
	all.Did = map[string]int{}
	var mu sync.Mutex
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range *jobs {
		work.Go(func() {
			o, err := run(ctx, os.Args[0], "-sim.share", fmt.Sprint(i), "-sim.jobs", fmt.Sprint(*jobs),
				"-sim.first", fmt.Sprint(*first), "-sim.seeds", fmt.Sprint(n), "-sim.budget", budget.String())
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() != nil && err != nil {
				return // another has found something
			}
			if err != nil {
				t.Errorf("process %d: %v", i, err)
				return
			}
			all.Seeds += o.Seeds
			for what, n := range o.Did {
				all.Did[what] += n
			}
			if o.Seed != 0 && (all.Seed == 0 || o.Seed < all.Seed) {
				all.Seed, all.Failed = o.Seed, o.Failed
				cancel()
			}
		})
	}
	work.Wait()
	return all
}

// run runs TestSim of a program, and returns what it found.
func run(ctx context.Context, program string, args ...string) (o outcome, err error) {
	cmd := exec.CommandContext(ctx, program, append([]string{"-test.run", "^TestSim$", "-test.v"}, args...)...)
	out, err := cmd.CombinedOutput()
	for line := range bytes.Lines(out) {
		if text, ok := strings.CutPrefix(string(line), outcomeMark); ok {
			return o, json.Unmarshal([]byte(text), &o)
		}
	}
	return o, fmt.Errorf("%w\n%.20000s", err, out)
}

// TestSim runs many seeds.
func TestSim(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 20)
	}
	begin := time.Now()
	var o outcome
	switch {
	case *share >= 0:
		o = some(t, *first+uint64(*share), n, *jobs)
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s%s\n", outcomeMark, text)
		return
	case *oneSeed != 0:
		*first = *oneSeed
		o = some(t, *first, 1, 1)
	case *jobs > 1 && !testing.Short():
		o = shared(t, n)
	default:
		o = some(t, *first, n, 1)
	}
	if o.Seed != 0 {
		t.Fatalf("seed %d: %s\nAgain with: go test ./conformance/sim -run TestSim -sim.seed %d", o.Seed, o.Failed, o.Seed)
	}
	for _, what := range slices.Sorted(maps.Keys(o.Did)) {
		t.Logf("%-40s %d", what, o.Did[what])
	}
	took := time.Since(begin)
	t.Logf("%d seeds in %v: %.1f a second", o.Seeds, took.Round(time.Second/10), float64(o.Seeds)/took.Seconds())
	for _, what := range must {
		if o.Seeds >= 100 && o.Did[what] == 0 {
			t.Errorf("no %s ever: the simulation proves nothing about it", what)
		}
	}
}

// must is what happens in every few worlds.
var must = []string{
	"open", "LOCK", "WRITE", "READ", "COMMIT", "LAYOUTCOMMIT", "SETATTR", "recall, returned", "reclaim", "name",
	"delegation, type 1", "delegation, type 2", "delegation reclaimed, type 1", "delegation reclaimed, type 2", "open by itself", "lock by itself",
	"claim of an open", "claim of a lock", "CB_RECALL, NFS4_OK", "CB_GETATTR, NFS4_OK", "DELEGRETURN", "delegation lost, NFS4ERR_DELEG_REVOKED",
	"write that is cached", "SETATTR of the mode", "LAYOUTRETURN of all", "back without a lease, and nothing is lost", "back without a lease, too late",
	"killed at commit", "killed at order", "killed at callback",
}

// mutantSeeds is how many seeds have a chance to find a mutant.
const mutantSeeds = 1500

// TestMutants switches one guard off at a time: the judge must notice.
func TestMutants(t *testing.T) {
	if *oneSeed != 0 || *share >= 0 || *budget != 0 {
		t.Skip("of sound worlds")
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
