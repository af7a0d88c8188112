package rivalry

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"manifold/conformance/linux/work"
)

// run starts op and returns what cancels it and waits for it.
func run(t *testing.T, op work.Op) (stop func() (work.Result, error)) {
	ctx, cancel := context.WithCancel(t.Context())
	type end struct {
		res work.Result
		err error
	}
	done := make(chan end, 1)
	go func() { res, err := op.Run(ctx); done <- end{res, err} }()
	return func() (work.Result, error) { cancel(); e := <-done; return e.res, e.err }
}

// await waits for an event in a log and returns all there are by then.
func await(t *testing.T, log, what string) []Event {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		list, err := ReadEvents(log)
		for _, e := range list {
			if err == nil && e.What == what {
				return list
			}
		}
	}
	t.Fatalf("no event %q in %s", what, log)
	return nil
}

func TestGuardAndRivals(t *testing.T) {
	dir := t.TempDir()
	g := Guard{Dir: filepath.Join(dir, "g"), Log: filepath.Join(dir, "guard")}
	guarding := run(t, g)
	await(t, g.Log, "wrote")
	var rivals []Rival
	var trying []func() (work.Result, error)
	for _, kind := range []string{POSIX, OFD, Flock} {
		for _, wait := range []bool{false, true} {
			r := Rival{Path: filepath.Join(g.Dir, kind), Kind: kind, Wait: wait, Log: filepath.Join(dir, kind)}
			if kind == POSIX {
				r.Kind = OFD
			}
			if wait {
				r.Log += "-wait"
			}
			rivals, trying = append(rivals, r), append(trying, run(t, r))
			if !wait {
				await(t, r.Log, "denied")
			}
		}
	}
	res, err := guarding()
	if err != nil {
		t.Fatal(err)
	}
	guarded, err := ReadEvents(g.Log)
	if err != nil {
		t.Fatal(err)
	}
	release := guarded[len(guarded)-1]
	for i, r := range rivals {
		tried := await(t, r.Log, "got")
		if got := tried[len(tried)-1]; !got.At.After(release.At) || release.What != "release" {
			t.Errorf("%v: %+v, but %+v", r, got, release)
		}
		if got, err := trying[i](); err != nil || got.N != res.N {
			t.Errorf("%v read round %d, %v, want %d", r, got.N, err, res.N)
		}
	}
}

// TestGuardNotices shows that a Guard's checks can fail.
func TestGuardNotices(t *testing.T) {
	for what, change := range map[string]func(g Guard) error{
		"other contents": func(g Guard) error { return os.Truncate(filepath.Join(g.Dir, Flock), 0) },
		"a name too many": func(g Guard) error {
			return os.WriteFile(filepath.Join(g.Dir, "x"), nil, 0o600)
		},
	} {
		dir := t.TempDir()
		files := make([]*os.File, 0, 2)
		for _, kind := range []string{Flock, Gone} {
			f, err := os.Create(filepath.Join(dir, kind))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
			if _, err := f.WriteAt(round(3), guardedOff); err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		if what == "other contents" {
			if err := os.Remove(filepath.Join(dir, Gone)); err != nil {
				t.Fatal(err)
			}
			if err := same(files, 3); err != nil {
				t.Fatal(err)
			}
		}
		if err := change(Guard{Dir: dir}); err != nil {
			t.Fatal(err)
		}
		if err := same(files, 3); err == nil {
			t.Errorf("%s was not noticed", what)
		}
	}
}

func TestProbe(t *testing.T) {
	dir := t.TempDir()
	p := Probe{Dir: filepath.Join(dir, "p"), Watch: "/nowhere", Log: filepath.Join(dir, "log")}
	stop := run(t, p)
	await(t, p.Log, "statfs")
	for _, e := range await(t, p.Log, "lock") {
		if e.At.Before(e.Since) || time.Since(e.At) > time.Minute {
			t.Errorf("an event with the times %+v", e)
		}
	}
	if res, err := stop(); err != nil || res.N < 2 {
		t.Errorf("%d events, %v", res.N, err)
	}
	if err := os.WriteFile(p.Log, []byte("1 x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadEvents(p.Log); err == nil {
		t.Error("a bad line was read")
	}
}
