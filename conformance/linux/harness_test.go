package linux_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"manifold/conformance/linux/work"
)

// TestHarness shows that a guest does what it is asked, on a file system of its
// own, that several requests go on at once, and that a dead guest is noticed.
func TestHarness(t *testing.T) {
	g := boot(t, "bookworm", "harness", t.TempDir(), 0)
	do := func(op work.Op) work.Result {
		t.Helper()
		res, err := g.Do(t.Context(), op)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := do(work.Exec{Argv: []string{"uname", "-nr"}}); res.Text != "harness "+g.Kernel.Version+"\n" {
		t.Errorf("uname says %q", res.Text)
	}
	do(work.Mount{Source: "none", Dir: "/mnt/t", Type: "tmpfs"})
	steps := slices.DeleteFunc(work.Storm(1, 65536, 4<<20, 100), func(s work.Step) bool { return s.Do == "direct" }) // tmpfs has none
	do(work.Plan{Path: "/mnt/t/f", Steps: steps})
	do(work.Verify{Path: "/mnt/t/f", Steps: steps, How: "buffered"})
	do(work.Names{Dir: "/mnt/t/names"})
	do(work.Tree{Dir: "/mnt/t/tree", Files: 1000, Size: 10})
	refused := work.Refused{Dir: "/mnt/t/refused", Group: 2000, Prepare: true}
	do(refused)
	refused.Prepare = false
	if _, err := g.DoAs(t.Context(), work.Cred{UID: 1000, GID: 1000, Groups: []int{2000}}, refused); err != nil {
		t.Error(err)
	}
	if _, err := g.Do(t.Context(), work.ReadFile{Path: "/no/such"}); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("error %v, want ENOENT", err)
	}
	long := strings.Repeat("x", 20000) // longer than a packet
	if res := do(work.Exec{Argv: []string{"echo", long}}); res.Text != long+"\n" {
		t.Errorf("a long line came back with %d bytes", len(res.Text))
	}

	ack := work.Ack{Dir: "/mnt/t/ack", Log: "/tmp/ack.log", Size: 1000, Seed: 5}
	job, err := g.Start(work.Cred{}, ack)
	if err != nil {
		t.Fatal(err)
	}
	for do(work.Exec{Argv: []string{"wc", "-l", "/tmp/ack.log"}}).Text == "0 /tmp/ack.log\n" {
		time.Sleep(time.Millisecond)
	}
	if err := job.Cancel(); err != nil {
		t.Fatal(err)
	}
	wrote, err := job.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if read := do(ack.Checked()); read.N != wrote.N {
		t.Errorf("%d changes acknowledged, %d found", wrote.N, read.N)
	}

	job, err = g.Start(work.Cred{}, work.Exec{Argv: []string{"sleep", "60"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := g.Do(ctx, work.PowerOff{}); err == nil || ctx.Err() != nil {
		t.Errorf("power off: %v", err)
	}
	if _, err := job.Wait(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("a request to a dead guest: %v", err)
	}
}
