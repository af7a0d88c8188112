package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"manifold/layout"
)

const (
	// lease is what the servers give clients; chaos is made of the same stuff.
	lease = 5 * time.Second
	grace = 6 * time.Second
	// unit is the stripe unit, and what clients write at a time: a cell.
	unit  = 64
	cells = 8 // of a file, at most
)

// world is one run.
type world struct {
	seed  uint64
	fault mutant
	start time.Time

	wire    *wire
	mds     *mds
	ds      []*dataServer
	clients []*simClient
	judge   *judge
	journal journal

	mu     sync.Mutex
	failed string // why the run failed, with the journal; the first counts
	stop   chan struct{}

	trapMu sync.Mutex
	trap   *trap
	work   sync.WaitGroup // nodes' goroutines
}

func newWorld(seed uint64, fault mutant) *world {
	w := &world{seed: seed, fault: fault, start: time.Now(), stop: make(chan struct{})}
	w.wire = newWire(w)
	w.judge = newJudge(w)
	return w
}

// dice is the random numbers of one thing in the world. Each has its own, so
// that what one does does not change another's.
func (w *world) dice(what ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, what...)
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// now is the time since the world's start.
func (w *world) now() time.Duration { return time.Since(w.start) }

// log writes down what happened.
func (w *world) log(who, format string, args ...any) {
	w.journal.add(fmt.Sprintf("%12v %-4s %s", w.now(), who, fmt.Sprintf(format, args...)))
}

// fail ends the run.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != "" {
		return
	}
	w.failed = fmt.Sprintf(format, args...) + "\nat " + w.now().String() + ", the last events:\n" + w.journal.String()
	close(w.stop)
}

func (w *world) over() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// run is the whole life of the world. It returns why it failed, "" if it did not.
func (w *world) run(t *testing.T) string {
	rnd := w.dice("world")
	w.mds = newMDS(w)
	w.mds.up()
	for i := range 1 + rnd.IntN(3) {
		w.ds = append(w.ds, newDataServer(w, layout.DSID(i+1)))
	}
	for i := range 2 + rnd.IntN(3) {
		w.clients = append(w.clients, newClient(w, fmt.Sprintf("c%d", i)))
	}
	w.guarded("world", func() {
		w.prepare()
		w.chaos(rnd)
		w.trapMu.Lock()
		w.trap = nil
		w.trapMu.Unlock()
		w.wire.heal()
		w.log("----", "everything heals")
		w.mds.up()
		for _, d := range w.ds {
			d.up()
		}
		w.finish()
	})
	for _, c := range w.clients {
		c.halt()
	}
	last := w.mds.process()
	w.mds.halt()
	for _, d := range w.ds {
		d.halt()
	}
	w.work.Wait()
	w.wire.down("mds")
	if w.failed == "" {
		if left := last.census(); left != "" {
			w.fail("everybody is gone, and there is still %s", left)
		}
	}
	return w.failed
}

// guarded runs a node's goroutine: a panic is a failure of the run.
func (w *world) guarded(who string, fn func()) {
	defer func() {
		if p := recover(); p != nil {
			w.fail("%s panicked: %v\n%s", who, p, debug.Stack())
		}
	}()
	fn()
}

// spawn runs a node's goroutine, which run waits for.
func (w *world) spawn(who string, fn func()) {
	w.work.Go(func() { w.guarded(who, fn) })
}

// sleep waits for d; false if the run failed meanwhile.
func (w *world) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.stop:
		return false
	}
}

// journal is what happened last.
type journal struct {
	mu    sync.Mutex
	lines [60]string
	n     int
	hash  uint64
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines[j.n%len(j.lines)] = line
	j.n++
	h := fnv.New64a()
	fmt.Fprint(h, j.hash, line)
	j.hash = h.Sum64()
	if verbose != nil && *verbose {
		fmt.Println(line)
	}
}

// String returns the lines, oldest first.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var b strings.Builder
	for i := max(0, j.n-len(j.lines)); i < j.n; i++ {
		b.WriteString("  " + j.lines[i%len(j.lines)] + "\n")
	}
	return b.String()
}
