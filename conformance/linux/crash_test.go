package linux_test

import (
	"context"
	"flag"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"manifold/conformance/linux/work"
)

// crashLease is the lease of the servers that are crashed, in seconds. It
// bounds how long they wait for clients to reclaim.
const crashLease = 10

// crashes is how often the MDS is crashed. More give better numbers.
var crashes = flag.Int("crashes", 3, "how often to crash the metadata server")

// crash is how a server is killed, once or several times in a row: then the
// later ones fall into the grace period after the first.
type crash struct {
	kills  int
	outage time.Duration // how long it stays away each time
	killed time.Time     // the last time
	up     time.Time     // when it accepted connections again
}

// plan lists n crashes.
func plan(n int) []crash {
	kinds := []crash{{kills: 1}, {kills: 1, outage: 2 * time.Second}, {kills: 2}}
	var out []crash
	for i := range n {
		out = append(out, kinds[i%len(kinds)])
	}
	return out
}

// crashed is the server that is crashed.
func (w *world) crashed(t *testing.T) *server {
	t.Helper()
	return w.keep(t, "apart", func() *server { return w.apart(t, 3, "--lease", fmt.Sprint(crashLease, "s")) })
}

// crashMDS kills the MDS while every client writes. Meanwhile each client guards
// files whose locks the next client wants, and each measures how long it waits.
func crashMDS(t *testing.T, w *world) {
	s := w.crashed(t)
	q := w.quarrel(t, s)
	list := w.crash(t, "MDS crash", s, 0, plan(*crashes))
	q.settle(t, list)
}

// crashDS does the same to one data server.
func crashDS(t *testing.T, w *world) {
	s := w.crashed(t)
	w.crash(t, "DS crash", s, 2, plan(2))
}

// writer is a client that logs what the server has acknowledged.
type writer struct {
	client
	ack  work.Ack
	job  interface{ Cancel() error }
	wait func(ctx context.Context) (work.Result, error)
}

// crash kills process number victim of s as planned while every client writes,
// and compares what is there afterwards with what had been acknowledged. It
// returns the crashes with their times.
func (w *world) crash(t *testing.T, column string, s *server, victim int, list []crash) []crash {
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
	for i := range list {
		w.progress(t, writers, 30)
		s.crash(t, victim, &list[i])
	}
	w.progress(t, writers, 60)
	for _, wr := range writers {
		w.table.run(t, wr.Kernel, column, wr.Kernel.Series(), func(t *testing.T) { w.lost(t, s, wr) })
	}
	return list
}

// crash kills process number victim as c says, and starts it again.
func (s *server) crash(t *testing.T, victim int, c *crash) {
	t.Helper()
	p := s.processes[victim]
	for range c.kills {
		c.killed = time.Now()
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(c.outage) // the outage itself, not a wait for something
		if err := p.Restart(t.Context(), s.listen[victim:victim+1]); err != nil {
			t.Fatal(err)
		}
		c.up = time.Now()
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
	wr.do(t, wr.ack.Checked())
	for _, other := range w.clients {
		if other.Name == wr.Name {
			continue
		}
		dir := other.mount(t, s.address, "cold", "vers=4.2,nosharecache")
		check := wr.ack.Checked()
		check.Dir = path.Join(dir, path.Base(wr.ack.Dir))
		if got := other.do(t, check); got.N != res.N {
			t.Errorf("%s found %d changes, want %d", other.Name, got.N, res.N)
		}
		break
	}
	t.Logf("%d changes acknowledged, the longest took %d ms", res.N, res.Stall)
}
