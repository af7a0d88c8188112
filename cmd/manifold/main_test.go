package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asProgram makes this test binary behave as manifold: the tests run it.
const asProgram = "RUN_AS_MANIFOLD"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// patience is how long anything may take before a test gives up.
const patience = 30 * time.Second

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = []string{asProgram + "=1", "PATH=" + os.Getenv("PATH")}
	cmd.Dir = t.TempDir()
	return cmd
}

// call runs a command to its end.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return finish(t, program(t, args...))
}

func finish(t *testing.T, cmd *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// server is a running manifold.
type server struct {
	cmd  *exec.Cmd
	out  *watched
	log  *watched
	done chan struct{}
}

// watched is output that can be waited for.
type watched struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func newWatched() *watched { return &watched{more: make(chan struct{}, 1)} }

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(b)
	select {
	case w.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// spawn runs a server.
func spawn(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{cmd: program(t, args...), out: newWatched(), log: newWatched(), done: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait() // the state tells
		close(s.done)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
		if t.Failed() {
			t.Logf("manifold %s said\n%s%s", strings.Join(args, " "), s.out, s.log)
		}
		if log := s.log.String(); strings.Contains(log, "panic:") || strings.Contains(log, "DATA RACE") {
			t.Errorf("manifold %s:\n%s", strings.Join(args, " "), log)
		}
	})
	return s
}

// said waits until w matches and returns the groups.
func (s *server) said(t *testing.T, w *watched, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	late := time.After(patience)
	for {
		if m := re.FindStringSubmatch(w.String()); m != nil {
			return m
		}
		select {
		case <-w.more:
		case <-s.done:
			if m := re.FindStringSubmatch(w.String()); m != nil {
				return m
			}
			t.Fatalf("ended before it said %q", pattern)
		case <-late:
			t.Fatalf("does not say %q", pattern)
		}
	}
}

// stop asks for a clean end and returns the exit code.
func (s *server) stop(t *testing.T) int {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.done:
	case <-time.After(patience):
		t.Fatal("does not stop")
	}
	return s.cmd.ProcessState.ExitCode()
}

// box is a data folder with a path short enough for a socket in it.
func tempBox(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// up starts `manifold up` on dir and waits for the mount line.
func up(t *testing.T, dir string, args ...string) *server {
	t.Helper()
	s := spawn(t, append([]string{"up", "--data", dir, "--listen", "127.0.0.1:0"}, args...)...)
	s.said(t, s.out, `admin socket: (unix:\S+)\n`)
	return s
}

// ctl asks the server of a data folder, in JSON.
func ctlJSON(t *testing.T, dir string, into any, args ...string) {
	t.Helper()
	code, out, errs := call(t, append([]string{"ctl", "--admin", "unix:" + filepath.Join(dir, "admin.sock"), "-o", "json"}, args...)...)
	if code != 0 {
		t.Fatalf("ctl %q: exit %d, %s", args, code, errs)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("ctl %q: %v in %s", args, err, out)
	}
}

func httpGet(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.Status + "\n" + string(b)
}
