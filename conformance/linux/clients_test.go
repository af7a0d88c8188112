package linux_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"manifold/conformance/linux/work"
)

// sharedScenario is one that needs all the clients at once.
type sharedScenario struct {
	name string
	test func(t *testing.T, w *world)
}

// shared lists them in order.
func shared() []sharedScenario {
	return []sharedScenario{
		{"close to open", closeToOpen},
		{"locks", locks},
		{"crash of the metadata server", crashMDS},
		{"crash of a data server", crashDS},
	}
}

// explainAll prints what may say why a test failed.
func (w *world) explainAll(t *testing.T) {
	if t.Failed() {
		for _, c := range w.clients {
			w.explain(t, c)
		}
	}
}

// pairs calls test with each client and the next one.
func (w *world) pairs(t *testing.T, column string, test func(t *testing.T, a, b client)) {
	for i, a := range w.clients {
		b := w.clients[(i+1)%len(w.clients)]
		w.table.run(t, a.Kernel, column, a.Kernel.Series()+" and "+b.Kernel.Series(), func(t *testing.T) { test(t, a, b) })
	}
}

// closeToOpen lets two clients write one file in turns. What one wrote and
// closed the other must see when it opens, whatever it has in its cache.
func closeToOpen(t *testing.T, w *world) {
	s := w.direct(t)
	w.pairs(t, "two clients", func(t *testing.T, a, b client) {
		dirs := []string{a.mount(t, s.address, "t", "vers=4.2"), b.mount(t, s.address, "t", "vers=4.2")}
		name := "shared-" + a.Kernel.Suite
		var steps []work.Step
		for turn := range 6 {
			clients := []client{a, b}
			writer, reader := turn%2, (turn+1)%2
			more := work.Storm(uint64(turn)+100, mib, 8*mib, 8)
			steps = append(steps, more...)
			clients[writer].do(t, work.Plan{Path: path.Join(dirs[writer], name), Steps: more})
			clients[reader].do(t, work.Verify{Path: path.Join(dirs[reader], name), Steps: steps, How: "buffered"})
		}
		a.direct(t, dirs[0])
		b.direct(t, dirs[1])
		s.noProxy(t)
	})
}

// locks lets two clients quarrel about byte ranges.
func locks(t *testing.T, w *world) {
	s := w.direct(t)
	w.pairs(t, "locks", func(t *testing.T, a, b client) {
		dirA, dirB := a.mount(t, s.address, "t", "vers=4.2"), b.mount(t, s.address, "t", "vers=4.2")
		name := "locks-" + a.Kernel.Suite
		hold := a.hold(t, work.Lock{Path: path.Join(dirA, name), Off: 100, Len: 50, Write: true})
		b.taken(t, work.Lock{Path: path.Join(dirB, name), Off: 120, Len: 1})
		b.do(t, work.Lock{Path: path.Join(dirB, name), Do: "try", Off: 150, Len: 100, Write: true})
		waiting, err := b.Start(work.Cred{}, work.Lock{Path: path.Join(dirB, name), Do: "try", Off: 0, Wait: true})
		if err != nil {
			t.Fatal(err)
		}
		b.taken(t, work.Lock{Path: path.Join(dirB, name), Off: 120, Len: 1}) // meanwhile the other asked
		begin := time.Now()
		hold(t)
		ctx, cancel := context.WithTimeout(t.Context(), opLimit)
		defer cancel()
		if _, err := waiting.Wait(ctx); err != nil {
			t.Errorf("a lock that was waited for: %v", err)
		}
		t.Logf("a lock that is waited for is had %v after it is free", time.Since(begin).Round(time.Millisecond))
		shared := a.hold(t, work.Lock{Path: path.Join(dirA, name), Len: 10})
		b.do(t, work.Lock{Path: path.Join(dirB, name), Do: "try", Len: 10})
		b.taken(t, work.Lock{Path: path.Join(dirB, name), Len: 10, Write: true})
		shared(t)
	})
}

// hold takes a lock, returns once it is held, and gives it back when the
// returned function is called.
func (c client) hold(t *testing.T, l work.Lock) (release func(t *testing.T)) {
	t.Helper()
	l.Do, l.Held = "hold", "/tmp/held"
	c.sh(t, "/", "rm -f /tmp/held; mkfifo /tmp/held")
	job, err := c.Start(work.Cred{}, l)
	if err != nil {
		t.Fatal(err)
	}
	c.do(t, work.ReadFile{Path: "/tmp/held"}) // ends when the holder has opened and closed it
	return func(t *testing.T) {
		t.Helper()
		if err := job.Cancel(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), opLimit)
		defer cancel()
		if _, err := job.Wait(ctx); err != nil {
			t.Error(err)
		}
	}
}

// taken fails the test unless the lock is refused.
func (c client) taken(t *testing.T, l work.Lock) {
	t.Helper()
	l.Do = "try"
	ctx, cancel := context.WithTimeout(t.Context(), opLimit)
	defer cancel()
	if _, err := c.Do(ctx, l); !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EACCES) {
		t.Errorf("a lock that another client holds: %v, want EAGAIN", err)
	}
}

// crashLease is the lease of the servers that are crashed, in seconds. It
// bounds how long they wait for clients to reclaim.
const crashLease = 10

// outage is how long a crashed server stays away.
const outage = 2 * time.Second

// crashMDS kills the MDS while every client writes, twice: once it is back at
// once, once after a while. A lock is held across both.
func crashMDS(t *testing.T, w *world) {
	s := w.keep(t, "apart", func() *server { return w.apart(t, 3, "--lease", fmt.Sprint(crashLease, "s")) })
	a, b := w.clients[0], w.clients[1]
	dirA, dirB := a.mount(t, s.address, "lock", "vers=4.2"), b.mount(t, s.address, "lock", "vers=4.2")
	release := a.hold(t, work.Lock{Path: path.Join(dirA, "held"), Write: true})
	w.crash(t, "MDS crash", s, 0)
	b.taken(t, work.Lock{Path: path.Join(dirB, "held"), Write: true})
	release(t)
	b.do(t, work.Lock{Path: path.Join(dirB, "held"), Do: "try", Write: true})
}

// crashDS does the same to one data server.
func crashDS(t *testing.T, w *world) {
	s := w.keep(t, "apart", func() *server { return w.apart(t, 3, "--lease", fmt.Sprint(crashLease, "s")) })
	w.crash(t, "DS crash", s, 2)
}

// writer is a client that logs what the server has acknowledged.
type writer struct {
	client
	ack  work.Ack
	job  interface{ Cancel() error }
	wait func(ctx context.Context) (work.Result, error)
}

// crash kills process number victim of s while every client writes, and
// compares what is there afterwards with what had been acknowledged.
func (w *world) crash(t *testing.T, column string, s *server, victim int) {
	var writers []writer
	for i, c := range w.clients {
		dir := c.mount(t, s.address, "t", []string{"vers=4.2", "vers=4.1", "vers=4.2"}[i%3])
		name := strings.ReplaceAll(column, " ", "-") + "-" + c.Kernel.Suite
		ack := work.Ack{Dir: path.Join(dir, name), Log: filepath.Join(w.shared, name), Size: 300_000, Seed: uint64(i)<<32 + 1}
		job, err := c.Start(work.Cred{}, ack)
		if err != nil {
			t.Fatal(err)
		}
		writers = append(writers, writer{client: c, ack: ack, job: job, wait: job.Wait})
	}
	p := s.processes[victim]
	for _, away := range []time.Duration{0, outage} {
		w.progress(t, writers, 30)
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(away) // the outage itself, not a wait for something
		if err := p.Restart(t.Context(), s.listen[victim:victim+1]); err != nil {
			t.Fatal(err)
		}
	}
	w.progress(t, writers, 60)
	for _, wr := range writers {
		w.table.run(t, wr.Kernel, column, wr.Kernel.Series(), func(t *testing.T) { w.lost(t, s, wr) })
	}
}

// progress waits until each writer has had n more changes acknowledged.
func (w *world) progress(t *testing.T, writers []writer, n int) {
	t.Helper()
	for _, wr := range writers {
		goal := -1
		for deadline := time.Now().Add(opLimit); ; time.Sleep(50 * time.Millisecond) {
			log, err := wr.Do(t.Context(), work.ReadFile{Path: wr.ack.Log})
			lines := strings.Count(log.Text, "\n")
			if goal < 0 && err == nil {
				goal = lines + n
			}
			if goal >= 0 && lines >= goal {
				break
			}
			if time.Now().After(deadline) {
				w.explain(t, wr.client)
				t.Fatalf("%s: %d changes acknowledged after %v, want %d: %v", wr.Name, lines, opLimit, goal, err)
			}
		}
	}
}

// lost stops the writer and looks, on its own mount and on another client's,
// for every change that was acknowledged.
func (w *world) lost(t *testing.T, s *server, wr writer) {
	if err := wr.job.Cancel(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), opLimit)
	defer cancel()
	res, err := wr.wait(ctx)
	if err != nil {
		t.Fatalf("the writer: %v", err)
	}
	wr.do(t, work.DropCaches{})
	wr.do(t, work.AckCheck{Ack: wr.ack})
	for _, other := range w.clients {
		if other.Name == wr.Name {
			continue
		}
		dir := other.mount(t, s.address, "cold", "vers=4.2,nosharecache")
		check := work.AckCheck{Ack: wr.ack}
		check.Dir = path.Join(dir, path.Base(wr.ack.Dir))
		if got := other.do(t, check); got.N != res.N {
			t.Errorf("%s found %d changes, want %d", other.Name, got.N, res.N)
		}
		break
	}
	t.Logf("%d changes acknowledged, the longest took %d ms", res.N, res.Stall)
}
