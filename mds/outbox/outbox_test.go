package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

func TestInOrder(t *testing.T) {
	b := newBench(t)
	b.Attached(1)
	if ds := await(t, "ready", b.ready); ds != 1 {
		t.Errorf("data server %d ready", ds)
	}
	one := []layout.DSID{1}
	b.add(one, func(tx store.Tx) error {
		return errors.Join(
			b.FenceObject(tx, one, object(5), 3), b.Truncate(tx, one, object(5), 1<<40),
			b.FenceClient(tx, one, 77), b.Remove(tx, one, object(6)))
	})
	b.told("1: ready", "1: fence-object 5 below 3", "1: truncate 5 to 1099511627776", "1: fence-client 77", "1: remove 6")
	b.waitObject(5)
	if err := b.WaitClient(t.Context(), 77); err != nil {
		t.Error(err)
	}
	b.truncate(8, 0, 1)
	b.waitObject(8)
	if got := b.backlog(); got != "1:0" {
		t.Errorf("backlog %s", got)
	}
}

func TestAborted(t *testing.T) {
	b := newBench(t)
	b.Attached(1)
	await(t, "ready", b.ready)
	no := errors.New("no")
	err := b.store.Update(t.Context(), func(tx store.Tx) error {
		return errors.Join(b.Truncate(tx, []layout.DSID{1}, object(5), 0), no)
	})
	if !errors.Is(err, no) {
		t.Fatal(err)
	}
	b.Kick([]layout.DSID{1, 99})
	b.remove(6, 1)
	b.told("1: ready", "1: remove 6")
}

// TestComesBack: all that gathered first, then Ready, then the news.
func TestComesBack(t *testing.T) {
	b := newBench(t)
	const n = 3*maxBatch + 10
	for i := range uint64(n) {
		b.remove(i, 1, 2)
	}
	if got, want := b.backlog(), fmt.Sprintf("1:%d 2:%d", n, n); got != want {
		t.Errorf("backlog %s, want %s", got, want)
	}
	b.Attached(2)
	await(t, "ready", b.ready)
	lines := b.fleet.lines(2)
	if len(lines) != n+1 || lines[n] != "ready" {
		t.Fatalf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	for i, line := range lines[:n] {
		if line != fmt.Sprintf("remove %d", i) {
			t.Fatalf("line %d: %s", i, line)
		}
	}
	if got, want := b.backlog(), fmt.Sprintf("1:%d 2:0", n); got != want {
		t.Errorf("backlog %s, want %s", got, want)
	}
	// Detached and attached again: ready again, nothing else.
	b.Detached(2)
	b.Attached(2)
	await(t, "ready", b.ready)
	if lines := b.fleet.lines(2); len(lines) != n+2 {
		t.Errorf("%d lines", len(lines))
	}
}

func TestRestart(t *testing.T) {
	b := newBench(t)
	b.truncate(5, 100, 1, 2)
	b.Attached(2)
	await(t, "ready", b.ready)
	b.close()
	b.open()
	if !b.Pending(object(5)) {
		t.Error("nothing pending after the restart")
	}
	b.Attached(1)
	b.waitObject(5)
	if got := b.fleet.lines(2); !slices.Equal(got, []string{"truncate 5 to 100", "ready"}) {
		t.Errorf("data server 2: %v", got)
	}
	// Numbers go on where they were.
	b.truncate(6, 0, 1)
	b.waitObject(6)
	if got := b.backlog(); got != "1:0 2:0" {
		t.Errorf("backlog %s", got)
	}
}

func TestPending(t *testing.T) {
	b := newBench(t)
	one := []layout.DSID{1}
	b.add(one, func(tx store.Tx) error {
		return errors.Join(b.FenceObject(tx, one, object(5), 3), b.Remove(tx, one, object(6)), b.Truncate(tx, one, object(7), 0))
	})
	for inode, want := range map[uint64]bool{5: false, 6: false, 7: true, 8: false} {
		if got := b.Pending(object(inode)); got != want {
			t.Errorf("Pending(%d) = %v", inode, got)
		}
	}
	b.Attached(1)
	b.waitObject(7)
	if b.Pending(object(7)) {
		t.Error("pending after the wait")
	}
}

func TestWaitEnds(t *testing.T) {
	b := newBench(t)
	b.truncate(5, 0, 1, 2)
	b.Attached(1)
	await(t, "ready", b.ready)
	// Data server 2 is away.
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	wait := func(ctx context.Context) { ended <- b.WaitObject(ctx, object(5)) }
	go wait(ctx)
	go wait(t.Context())
	cancel()
	if err := await(t, "end of the wait", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: %v", err)
	}
	select {
	case err := <-ended:
		t.Fatalf("the other wait ended: %v", err)
	default:
	}
	b.Attached(2)
	if err := await(t, "end of the wait", ended); err != nil {
		t.Errorf("wait: %v", err)
	}
	b.truncate(6, 0, 3)
	go func() { ended <- b.WaitObject(t.Context(), object(6)) }()
	b.Outbox.Close()
	if err := await(t, "end of the wait", ended); !errors.Is(err, ErrClosed) && !errors.Is(err, context.Canceled) {
		t.Errorf("wait: %v", err)
	}
	b.Attached(3)
	if len(b.waiters) != 0 {
		t.Errorf("%d waiters left", len(b.waiters))
	}
}

// TestWaitIsForDeletion holds the commit that deletes the row: acknowledged is
// not enough for a wait to end.
func TestWaitIsForDeletion(t *testing.T) {
	b := newBench(t)
	var acked atomic.Bool
	hold, held := make(chan struct{}), make(chan struct{}, 10)
	b.mem.Fail = func([]store.Write) error {
		if acked.Load() {
			held <- struct{}{}
			<-hold
		}
		return nil
	}
	b.fleet.status = func(_ layout.DSID, c control.Command) nfs4.Status {
		if c.Kind == control.Truncate {
			acked.Store(true)
		}
		return nfs4.OK
	}
	b.truncate(5, 0, 1)
	ended := make(chan error, 1)
	go func() { ended <- b.WaitObject(t.Context(), object(5)) }()
	b.Attached(1)
	await(t, "deletion", held)
	select {
	case err := <-ended:
		t.Fatalf("the wait ended before the deletion was durable: %v", err)
	default:
	}
	if !b.Pending(object(5)) {
		t.Error("not pending, and yet not deleted")
	}
	acked.Store(false)
	close(hold)
	if err := await(t, "end of the wait", ended); err != nil {
		t.Error(err)
	}
}

func TestDrop(t *testing.T) {
	b := newBench(t)
	for i := range uint64(2*dropPart + 5) {
		b.truncate(i, 0, 1)
	}
	b.truncate(9999, 0, 2)
	ended := make(chan error, 1)
	go func() { ended <- b.WaitObject(t.Context(), object(2*dropPart)) }()
	if err := b.Drop(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := await(t, "end of the wait", ended); err != nil {
		t.Error(err)
	}
	b.truncate(7, 0, 1, 2)
	if got := b.backlog(); got != "2:2" {
		t.Errorf("backlog %s", got)
	}
	b.Attached(2)
	b.waitObject(7)
	if b.Pending(object(3)) {
		t.Error("an index row is left")
	}
}

func TestSenderFails(t *testing.T) {
	b := newBench(t)
	tries := 0
	b.fleet.down = func(layout.DSID) (before, after error) {
		switch tries++; tries {
		case 1:
			return control.ErrDetached, nil
		case 2:
			return nil, control.ErrDetached
		}
		return nil, nil
	}
	b.truncate(5, 0, 1)
	b.Attached(1)
	b.waitObject(5)
	await(t, "ready", b.ready)
	if got := b.fleet.lines(1); !slices.Equal(got, []string{"truncate 5 to 0", "truncate 5 to 0", "ready"}) {
		t.Errorf("told %v", got)
	}
}

func TestStoreFails(t *testing.T) {
	b := newBench(t)
	b.truncate(5, 0, 1)
	b.mem.Fail = func([]store.Write) error { return store.ErrNoSpace }
	b.Attached(1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.WaitObject(ctx, object(5)); err == nil {
		t.Error("the wait ended well although the row could not be deleted")
	}
	if !b.Pending(object(5)) {
		t.Error("not pending")
	}
}
