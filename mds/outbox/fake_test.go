package outbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/mds/store"
	"manifold/mds/store/storetest"
	"manifold/xdr/nfs4"
)

const patience = 20 * time.Second

func await[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s", what)
		panic("not reached")
	}
}

// fleet is a Sender whose data servers write down what they are told.
type fleet struct {
	mu     sync.Mutex
	log    map[layout.DSID][]string
	status func(layout.DSID, control.Command) nfs4.Status // nil: OK
	// down makes Do fail: before it does anything, or when all is done.
	down func(layout.DSID) (before, after error)
	told chan string
}

func newFleet() *fleet {
	return &fleet{log: map[layout.DSID][]string{}, told: make(chan string, 100000)}
}

func (f *fleet) Do(_ context.Context, ds layout.DSID, cmds ...control.Command) ([]control.Ack, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var before, after error
	if f.down != nil {
		before, after = f.down(ds)
	}
	if before != nil {
		return nil, before
	}
	if len(cmds) > maxBatch {
		return nil, fmt.Errorf("%d commands at once", len(cmds))
	}
	acks := make([]control.Ack, len(cmds))
	for i, c := range cmds {
		if f.status != nil {
			acks[i].Status = f.status(ds, c)
		}
		line := say(c)
		if acks[i].Status != nfs4.OK {
			line += " failed"
		}
		f.log[ds] = append(f.log[ds], line)
		select {
		case f.told <- fmt.Sprintf("%d: %s", ds, line):
		default: // nobody listens
		}
	}
	return acks, after
}

func (f *fleet) lines(ds layout.DSID) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log[ds])
}

func say(c control.Command) string {
	switch c.Kind {
	case control.FenceClient:
		return fmt.Sprintf("%v %d", c.Kind, c.Client)
	case control.FenceObject:
		return fmt.Sprintf("%v %d below %d", c.Kind, c.Object.Inode, c.Epoch)
	case control.Truncate:
		return fmt.Sprintf("%v %d to %d", c.Kind, c.Object.Inode, c.Size)
	case control.Remove:
		return fmt.Sprintf("%v %d", c.Kind, c.Object.Inode)
	}
	return c.Kind.String()
}

func object(inode uint64) layout.Object { return layout.Object{Volume: 1, Inode: inode, Gen: 9} }

// bench is an Outbox on a store in memory.
type bench struct {
	*Outbox
	t     *testing.T
	mem   *storetest.Mem
	store store.Store
	fleet *fleet
	ready chan layout.DSID
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, mem: &storetest.Mem{}, fleet: newFleet(), ready: make(chan layout.DSID, 1000)}
	b.open()
	t.Cleanup(b.close)
	return b
}

func (b *bench) open() {
	b.store = b.mem.Open()
	b.Outbox = New(Config{
		Store: b.store, Sender: b.fleet, Ready: func(ds layout.DSID) { b.ready <- ds },
		RetryFirst: time.Millisecond, RetryLast: 4 * time.Millisecond,
	})
}

func (b *bench) close() {
	b.Outbox.Close()
	if err := b.store.Close(); err != nil {
		b.t.Error(err)
	}
}

// add runs fn in a transaction and kicks ds.
func (b *bench) add(ds []layout.DSID, fn func(store.Tx) error) {
	b.t.Helper()
	if err := b.store.Update(b.t.Context(), fn); err != nil {
		b.t.Fatal(err)
	}
	b.Kick(ds)
}

func (b *bench) truncate(inode, size uint64, ds ...layout.DSID) {
	b.t.Helper()
	b.add(ds, func(tx store.Tx) error { return b.Truncate(tx, ds, object(inode), size) })
}

func (b *bench) remove(inode uint64, ds ...layout.DSID) {
	b.t.Helper()
	b.add(ds, func(tx store.Tx) error { return b.Remove(tx, ds, object(inode)) })
}

func (b *bench) fence(client nfs4.ClientID, ds ...layout.DSID) {
	b.t.Helper()
	b.add(ds, func(tx store.Tx) error { return b.FenceClient(tx, ds, client) })
}

func (b *bench) waitObject(inode uint64) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	if err := b.WaitObject(ctx, object(inode)); err != nil {
		b.t.Fatalf("WaitObject(%d): %v", inode, err)
	}
}

// told takes what data servers were told, which must be want.
func (b *bench) told(want ...string) {
	b.t.Helper()
	for _, w := range want {
		if got := await(b.t, w, b.fleet.told); got != w {
			b.t.Fatalf("told %q, want %q", got, w)
		}
	}
}

// backlog gives "1:3 2:0", the depth of each data server.
func (b *bench) backlog() string {
	b.t.Helper()
	all, err := b.Backlogs(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	var words []string
	for _, l := range all {
		if (l.Depth == 0) != l.Oldest.IsZero() {
			b.t.Errorf("backlog %+v", l)
		}
		words = append(words, fmt.Sprintf("%d:%d", l.DS, l.Depth))
	}
	return strings.Join(words, " ")
}
