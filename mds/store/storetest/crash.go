package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"manifold/mds/store"
)

// crashEnv tells the test process that it is the one to be killed.
const crashEnv = "MANIFOLD_STORETEST_CRASH"

const crashWorkers = 8

// Crash starts the test binary again to run the same test, which must do
// nothing but call Crash; kills it with SIGKILL while it updates a Store from many
// goroutines; opens the Store again and looks for everything that was
// acknowledged, and for Updates of which only a part is there. open opens the
// Store of a directory.
func Crash(t *testing.T, open func(dir string) (store.Store, error)) {
	if dir := os.Getenv(crashEnv); dir != "" {
		crashVictim(dir, open)
		return
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	acked := make([]int, crashWorkers) // by each worker, over all rounds
	for round := range 6 {
		crashRound(t, dir, 50+rng.IntN(600), acked)
		s, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		err = s.View(context.Background(), func(tx store.Tx) error { return checkCrash(t, tx, acked) })
		if err = errors.Join(err, s.Close()); err != nil || t.Failed() {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	if acked[0] == 0 {
		t.Error("nothing was acknowledged")
	}
}

// crashRound lets a process work until it has acknowledged so many Updates,
// and kills it.
func crashRound(t *testing.T, dir string, after int, acked []int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), crashEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if n == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
		// What was in the pipe when it died counts: it was acknowledged. The
		// last line may be cut off.
		var worker, seq int
		if k, _ := fmt.Sscanf(lines.Text(), "ack %d %d end", &worker, &seq); k == 2 && strings.HasSuffix(lines.Text(), "end") {
			acked[worker] = max(acked[worker], seq)
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.Success() || cmd.ProcessState.ExitCode() > 0 {
		t.Fatalf("the process ended by itself: %v", err)
	}
}

// crashVictim updates until it is killed.
func crashVictim(dir string, open func(dir string) (store.Store, error)) {
	s, err := open(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, filepath.Base(dir), err)
		os.Exit(3)
	}
	var out sync.Mutex
	var wg sync.WaitGroup
	for w := range crashWorkers {
		wg.Go(func() {
			for {
				seq := 0
				err := s.Update(context.Background(), func(tx store.Tx) (err error) {
					seq, err = crashStep(tx, w)
					return err
				})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(3)
				}
				out.Lock()
				fmt.Printf("ack %d %d end\n", w, seq)
				out.Unlock()
			}
		})
	}
	wg.Wait()
}

// crashStep adds a worker's next pair of rows and raises its counter, all of
// which go together. Every fourth step removes the pair before.
func crashStep(tx store.Tx, worker int) (int, error) {
	counter := fmt.Appendf(nil, "n%d", worker)
	old, err := tx.Get(counter)
	if err != nil {
		return 0, err
	}
	seq := 0
	if old != nil {
		if _, err := fmt.Sscan(string(old), &seq); err != nil {
			return 0, err
		}
	}
	seq++
	if seq%4 == 0 {
		err = errors.Join(tx.Delete(crashKey('a', worker, seq-1)), tx.Delete(crashKey('z', worker, seq-1)))
	}
	val := []byte(strings.Repeat("v", seq*37%3000))
	return seq, errors.Join(err, tx.Put(counter, fmt.Append(nil, seq)),
		tx.Put(crashKey('a', worker, seq), val), tx.Put(crashKey('z', worker, seq), val))
}

func crashKey(half byte, worker, seq int) []byte {
	return fmt.Appendf(nil, "%c%d-%08d", half, worker, seq)
}

// checkCrash compares what a Store holds with the counters in it, and these
// with what was acknowledged, and makes them the new acked.
func checkCrash(t *testing.T, tx store.Tx, acked []int) error {
	for w := range acked {
		v, err := tx.Get(fmt.Appendf(nil, "n%d", w))
		if err != nil {
			return err
		}
		seq := 0
		if v != nil {
			if _, err := fmt.Sscan(string(v), &seq); err != nil {
				return err
			}
		}
		if seq < acked[w] {
			t.Errorf("worker %d: %d is acknowledged, the store has %d", w, acked[w], seq)
		}
		acked[w] = seq
		for i := 1; i <= seq+1; i++ {
			want := i <= seq && (i%4 != 3 || i == seq)
			for _, half := range []byte{'a', 'z'} {
				v, err := tx.Get(crashKey(half, w, i))
				if err != nil {
					return err
				}
				if (v != nil) != want || want && len(v) != i*37%3000 {
					t.Errorf("worker %d of %d: %c%d is %d bytes (%v), want there %v", w, seq, half, i, len(v), v != nil, want)
				}
			}
		}
	}
	return nil
}
