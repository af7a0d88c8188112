package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"manifold/mds/store"
	"manifold/mds/store/storetest"
)

var ctx = context.Background()

// gate is a Mem whose commits wait for the test, which decides their outcome.
type gate struct {
	storetest.Mem
	entered chan []store.Write // a commit has begun
	outcome chan error         // how it is to end
}

func newGate() (*gate, store.Store) {
	g := &gate{entered: make(chan []store.Write), outcome: make(chan error)}
	g.Fail = func(batch []store.Write) error {
		g.entered <- batch
		return <-g.outcome
	}
	return g, g.Open()
}

// update starts an Update on a goroutine and returns when fn has run.
func update(s store.Store, fn func(tx store.Tx) error) <-chan error {
	ran, done := make(chan struct{}), make(chan error, 1)
	go func() {
		var once sync.Once
		done <- s.Update(ctx, func(tx store.Tx) error {
			defer once.Do(func() { close(ran) })
			return fn(tx)
		})
	}()
	<-ran
	return done
}

func put(key, val string) func(store.Tx) error {
	return func(tx store.Tx) error { return tx.Put([]byte(key), []byte(val)) }
}

// sees returns an fn that fails with "saw VALUE" of key.
func sees(key string) func(store.Tx) error {
	return func(tx store.Tx) error {
		v, err := tx.Get([]byte(key))
		return errors.Join(err, fmt.Errorf("saw %q", v))
	}
}

func quiet(t *testing.T, what string, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("%s returned (%v) before the commit that it depends on", what, err)
	default:
	}
}

func keys(batch []store.Write) (ks []string) {
	for _, w := range batch {
		ks = append(ks, string(w.Key))
	}
	return ks
}

// TestGroupFills: while one batch is being committed, what comes gathers in the
// next one; nobody returns early; the order of keys is ascending.
func TestGroupFills(t *testing.T) {
	g, s := newGate()
	first := update(s, put("m", "1"))
	if got := keys(<-g.entered); !slices.Equal(got, []string{"m"}) {
		t.Fatal(got)
	}
	var second []<-chan error
	for _, k := range []string{"z", "a", "k"} {
		second = append(second, update(s, put(k, "2")))
	}
	quiet(t, "the first", first)
	g.outcome <- nil
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if got := keys(<-g.entered); !slices.Equal(got, []string{"a", "k", "z"}) {
		t.Fatal(got)
	}
	for _, done := range second {
		quiet(t, "of the second batch", done)
	}
	g.outcome <- nil
	for _, done := range second {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestGroupNothingEarly: neither an error nor a success that was decided upon
// what is not durable gets out before it is; one that was not does at once.
func TestGroupNothingEarly(t *testing.T) {
	g, s := newGate()
	first := update(s, put("a", "1"))
	<-g.entered
	err := s.View(ctx, func(tx store.Tx) error {
		v, err := tx.Get([]byte("a"))
		if v != nil {
			t.Error("a View sees what is not durable")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	refused := update(s, sees("a"))
	readOnly := update(s, func(tx store.Tx) error {
		return tx.Scan([]byte("a"), []byte("b"), func(_, _ []byte) (bool, error) { return true, nil })
	})
	elsewhere := update(s, sees("b"))
	if err := <-elsewhere; err == nil || err.Error() != `saw ""` {
		t.Errorf("elsewhere: %v", err)
	}
	second := update(s, func(tx store.Tx) error { return tx.Delete([]byte("a")) })
	deeper := update(s, sees("a"))
	quiet(t, "an error", refused)
	quiet(t, "a success", readOnly)
	g.outcome <- nil
	if err := <-refused; err == nil || err.Error() != `saw "1"` {
		t.Errorf("refused: %v", err)
	}
	if err := errors.Join(<-readOnly, <-first); err != nil {
		t.Error(err)
	}
	<-g.entered
	quiet(t, "one that saw the second batch", deeper)
	g.outcome <- nil
	if err := <-deeper; err == nil || err.Error() != `saw ""` {
		t.Errorf("deeper: %v", err)
	}
	if err := errors.Join(<-second, s.Close()); err != nil {
		t.Error(err)
	}
}

// TestGroupFailure: a failed commit fails all in it and all stacked on it;
// afterwards the store goes on from what was durable before.
func TestGroupFailure(t *testing.T) {
	g, s := newGate()
	durable := update(s, put("d", "1"))
	<-g.entered
	g.outcome <- nil
	if err := <-durable; err != nil {
		t.Fatal(err)
	}
	var lost []<-chan error
	lost = append(lost, update(s, put("a", "1")))
	<-g.entered
	lost = append(lost, update(s, put("b", "1")), update(s, sees("a")), update(s, sees("b")))
	aborted := errors.New("aborted")
	own := update(s, func(tx store.Tx) error { return errors.Join(put("c", "1")(tx), aborted) })
	if err := <-own; !errors.Is(err, aborted) {
		t.Errorf("an abort that depends on nothing: %v", err)
	}
	g.outcome <- fmt.Errorf("test: %w", store.ErrNoSpace)
	for i, done := range lost {
		if err := <-done; !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("%d: %v", i, err)
		}
	}
	after := update(s, func(tx store.Tx) error {
		for _, c := range []struct{ k, want string }{{"a", ""}, {"b", ""}, {"c", ""}, {"d", "1"}} {
			if v, err := tx.Get([]byte(c.k)); err != nil || string(v) != c.want {
				t.Errorf("%s = %q, %v", c.k, v, err)
			}
		}
		return put("e", "1")(tx)
	})
	if got := keys(<-g.entered); !slices.Equal(got, []string{"e"}) {
		t.Error(got)
	}
	g.outcome <- nil
	if err := errors.Join(<-after, s.Close()); err != nil {
		t.Error(err)
	}
}

// TestGroupFailed: after an outcome that nobody knows, all later Updates are
// refused, and Views go on.
func TestGroupFailed(t *testing.T) {
	g, s := newGate()
	first := update(s, put("a", "1"))
	<-g.entered
	g.outcome <- fmt.Errorf("%w: flush", store.ErrFailed)
	if err := <-first; !errors.Is(err, store.ErrFailed) {
		t.Error(err)
	}
	err := s.Update(ctx, func(store.Tx) error { t.Error("fn was called"); return nil })
	if !errors.Is(err, store.ErrFailed) {
		t.Error(err)
	}
	if err := s.View(ctx, func(store.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestGroupBound: a batch takes only so much; who comes then waits until it is
// on its way, and can give up.
func TestGroupBound(t *testing.T) {
	g, s := newGate()
	all := []<-chan error{update(s, put("first", ""))}
	<-g.entered
	big := make([]byte, store.MaxValue)
	for i := range 8 * store.MaxUpdateBytes / store.MaxValue {
		all = append(all, update(s, func(tx store.Tx) error { return tx.Put(fmt.Appendf(nil, "big%d", i), big) }))
	}
	cancelled, cancel := context.WithCancel(ctx)
	gaveUp := make(chan error)
	go func() {
		gaveUp <- s.Update(cancelled, func(store.Tx) error { t.Error("fn was called"); return nil })
	}()
	late := make(chan error)
	go func() { late <- s.Update(ctx, put("late", "")) }()
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	g.outcome <- nil
	if got := keys(<-g.entered); slices.Contains(got, "late") {
		t.Error("over the bound")
	}
	g.outcome <- nil
	if got := keys(<-g.entered); !slices.Equal(got, []string{"late"}) {
		t.Error(got)
	}
	g.outcome <- nil
	for _, done := range append(all, late) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestGroupCloseDrains: Close waits for the commit at work and for what has
// gathered, and refuses what comes later.
func TestGroupCloseDrains(t *testing.T) {
	g, s := newGate()
	first := update(s, put("a", "1"))
	<-g.entered
	second := update(s, put("b", "1"))
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	g.outcome <- nil
	<-g.entered
	quiet(t, "Close", closed)
	g.outcome <- nil
	if err := errors.Join(<-first, <-second, <-closed); err != nil {
		t.Error(err)
	}
	if err := s.Update(ctx, put("c", "1")); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}
