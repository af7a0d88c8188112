package linux_test

import (
	"context"
	"errors"
	"path"
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
		{"client gone for ever", clientGone},
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
