package linux_test

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"manifold/conformance/linux/kernel"
	"manifold/conformance/linux/work"
)

// scenario is one thing that a client must be able to do.
type scenario struct {
	column string // of the compatibility table
	name   string
	test   func(t *testing.T, w *world, c client)
	all    bool // on every kernel, not only the oldest
}

// scenarios lists them in order. The oldest kernel runs all of them, each other
// kernel those that depend on the client.
func scenarios() []scenario {
	return []scenario{
		{"mount 4.1", "mount vers=4.1", mountVersion("4.1"), true},
		{"mount 4.2", "mount vers=4.2", mountVersion("4.2"), true},
		{"striped I/O", "dd 64 MiB", ddFile, true},
		{"striped I/O", "dd, cp and fio 256 MiB", bigFiles, false},
		{"every stripe shape", "storms", someStorms, true},
		{"every stripe shape", "all storms", allStorms, false},
		{"holes and ends", "edges", edges, true},
		{"name space", "names", names, true},
		{"name space", "10000 files", manyFiles, false},
		{"name space", "git", gitCommit, false},
		{"name space", "tar", tarInOut, false},
		{"name space", "compile", compile, false},
		{"no layout driver", "without driver", withoutDriver, true},
	}
}

// TestKernelClient runs every scenario on real kernels. Each kernel boots once.
func TestKernelClient(t *testing.T) {
	w := newWorld(t)
	for i, c := range w.clients {
		t.Run(c.Kernel.Series(), func(t *testing.T) {
			for _, s := range scenarios() {
				if s.all || i == 0 {
					w.table.run(t, c.Kernel, s.column, s.name, func(t *testing.T) {
						s.test(t, w, c)
					})
				}
			}
			if t.Failed() {
				w.explain(t, c)
			}
		})
	}
	for _, s := range shared() {
		t.Run(s.name, func(t *testing.T) {
			s.test(t, w)
			w.explainAll(t)
		})
	}
	w.content(t)
	w.report(t)
}

// report prints the compatibility table, and writes it where the flag says if
// the run was whole.
func (w *world) report(t *testing.T) {
	kernels := make([]kernel.Kernel, len(w.clients))
	for i, c := range w.clients {
		kernels[i] = c.Kernel
	}
	text := w.table.markdown(kernels)
	t.Log("compatibility:\n" + text)
	whole := flag.Lookup("test.run").Value.String() == ""
	if *readme != "" && whole {
		if err := writeBetweenMarks(*readme, text); err != nil {
			t.Error(err)
		}
	}
}

// explain prints what may say why a test on c failed.
func (w *world) explain(t *testing.T, c client) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	log, err := c.Do(ctx, work.ReadFile{Path: "dmesg"})
	if err != nil {
		t.Log(err, "; console:\n", c.Stacks())
	}
	const most = 3000
	t.Log("end of the client's kernel log:\n" + log.Text[max(0, len(log.Text)-most):])
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, s := range w.servers {
		if s == nil {
			continue
		}
		for _, p := range s.processes {
			t.Logf("end of the log of server %q:\n%s", name, p.Log())
		}
	}
}

// keep is the server of that name; make makes it when it is first asked for. It
// lives as long as the test that owns w. One that did not start is not tried
// again.
func (w *world) keep(t *testing.T, name string, make func() *server) *server {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	s, tried := w.servers[name]
	if !tried {
		w.servers[name] = nil
		s = make()
		w.servers[name] = s
	}
	if s == nil {
		t.Fatalf("the server %q did not start", name)
	}
	return s
}

func TestMain(m *testing.M) { os.Exit(testMain(m)) }
