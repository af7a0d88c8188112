package outbox

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// TestFailingObject: a row that cannot be done holds up its object only.
func TestFailingObject(t *testing.T) {
	b := newBench(t)
	var ill atomic.Bool
	ill.Store(true)
	b.fleet.status = func(_ layout.DSID, c control.Command) nfs4.Status {
		if ill.Load() && c.Kind == control.FenceObject && c.Object.Inode == 5 {
			return nfs4.ErrIO
		}
		return nfs4.OK
	}
	one := []layout.DSID{1}
	b.add(one, func(tx store.Tx) error {
		return errors.Join(b.FenceObject(tx, one, object(5), 3), b.Truncate(tx, one, object(5), 0), b.Truncate(tx, one, object(6), 0))
	})
	b.Attached(1)
	b.waitObject(6)
	for range 3 {
		for line := ""; line != "1: fence-object 5 below 3 failed"; {
			line = await(t, "another try", b.fleet.told)
		}
	}
	b.truncate(7, 0, 1)
	b.waitObject(7)
	select {
	case <-b.ready:
		t.Error("ready although a fence is not kept")
	default:
	}
	if got := b.backlog(); got != "1:2" {
		t.Errorf("backlog %s", got)
	}
	ill.Store(false)
	b.waitObject(5)
	await(t, "ready", b.ready)
	lines := b.fleet.lines(1)
	fence := slices.Index(lines, "fence-object 5 below 3")
	if fence < 0 || !slices.Contains(lines[fence:], "truncate 5 to 0") {
		t.Errorf("no truncation after the fence: %v", lines)
	}
}

// TestFailingRemove: a removal that fails does not keep a data server away.
func TestFailingRemove(t *testing.T) {
	b := newBench(t)
	var ill atomic.Bool
	ill.Store(true)
	b.fleet.status = func(_ layout.DSID, c control.Command) nfs4.Status {
		if ill.Load() && c.Kind == control.Remove {
			return nfs4.ErrIO
		}
		return nfs4.OK
	}
	b.remove(5, 1)
	b.truncate(6, 0, 1)
	b.Attached(1)
	await(t, "ready", b.ready)
	if got := b.backlog(); got != "1:1" {
		t.Errorf("backlog %s", got)
	}
	ill.Store(false)
	for line := ""; line != "1: remove 5"; {
		line = await(t, "another try", b.fleet.told)
	}
}

// TestManyFailing: rows behind many that fail still get their turn.
func TestManyFailing(t *testing.T) {
	b := newBench(t)
	b.fleet.status = func(_ layout.DSID, c control.Command) nfs4.Status {
		if c.Kind == control.Remove {
			return nfs4.ErrIO
		}
		return nfs4.OK
	}
	const many = 5 * maxBatch
	for i := range uint64(many) {
		b.remove(i+1, 1)
	}
	b.truncate(100000, 0, 1)
	b.Attached(1)
	b.waitObject(100000)
	await(t, "ready", b.ready)
	b.fence(77, 1)
	if err := b.WaitClient(t.Context(), 77); err != nil {
		t.Error(err)
	}
	if got := b.backlog(); got != "1:1280" {
		t.Errorf("backlog %s", got)
	}
}

// TestReadyFails: a data server that refuses Ready is asked again.
func TestReadyFails(t *testing.T) {
	b := newBench(t)
	var tries atomic.Int32
	b.fleet.status = func(_ layout.DSID, c control.Command) nfs4.Status {
		if c.Kind == control.Ready && tries.Add(1) < 3 {
			return nfs4.ErrIO
		}
		return nfs4.OK
	}
	b.Attached(1)
	await(t, "ready", b.ready)
	if tries.Load() != 3 {
		t.Errorf("%d tries", tries.Load())
	}
}
