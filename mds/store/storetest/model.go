package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"manifold/mds/store"
)

// testModel runs random Updates, one after the other but with many commits in
// flight, and compares what each sees with a map.
func testModel(t *testing.T, open func() (store.Store, error)) {
	s := start(t, open)
	rng := rand.New(rand.NewPCG(7, 7))
	model := map[string]string{}
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range 400 {
		// The order of Updates is the order in which fn runs, so the next may
		// begin when fn has run, and need not wait for the commit.
		ran := make(chan map[string]string, 1)
		base := maps.Clone(model)
		seed := rng.Uint64()
		wg.Go(func() {
			err := s.Update(ctx, func(tx store.Tx) error {
				after, err := modelStep(t, tx, maps.Clone(base), rand.New(rand.NewPCG(seed, 0)))
				if err != nil {
					after = base
				}
				ran <- after
				return err
			})
			if err != nil && !errors.Is(err, errAbort) {
				t.Errorf("step %d: %v", i, err)
			}
		})
		model = <-ran
	}
	wg.Wait()
	err := s.View(ctx, func(tx store.Tx) error { compare(t, tx, model, "", ""); return nil })
	if err != nil {
		t.Error(err)
	}
}

var errAbort = errors.New("abort")

func modelStep(t *testing.T, tx store.Tx, m map[string]string, rng *rand.Rand) (map[string]string, error) {
	key := func() string { return fmt.Sprintf("%02d", rng.IntN(60)) }
	for range rng.IntN(8) {
		k := key()
		switch rng.IntN(5) {
		case 0:
			delete(m, k)
			if err := tx.Delete([]byte(k)); err != nil {
				return m, err
			}
		case 1:
			compare(t, tx, m, k, key())
		case 2:
			got, err := tx.Get([]byte(k))
			want, ok := m[k]
			if err != nil || string(got) != want || ok != (got != nil) {
				t.Errorf("Get(%s) = %q, %v, want %q, %v", k, got, err, want, ok)
			}
		default:
			m[k] = fmt.Sprint(rng.IntN(1000))
			if err := tx.Put([]byte(k), []byte(m[k])); err != nil {
				return m, err
			}
		}
	}
	if rng.IntN(5) == 0 {
		return m, errAbort
	}
	return m, nil
}

// compare scans a range and looks for what the model has in it.
func compare(t *testing.T, tx store.Tx, m map[string]string, from, to string) {
	t.Helper()
	var want []byte
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k >= from && (to == "" || k < to) {
			want = fmt.Appendf(want, "%s=%s ", k, m[k])
		}
	}
	got, err := list(tx, from, to)
	if err != nil || got != string(bytes.TrimRight(want, " ")) {
		t.Errorf("[%s,%s): got %q, %v, want %q", from, to, got, err, want)
	}
}

func testReopen(t *testing.T, open func() (store.Store, error)) {
	for i := range 3 {
		s, err := open()
		if err != nil {
			t.Fatal(err)
		}
		want := [...]string{"", "k0=v", "k0=v k1=v"}[i]
		view(t, s, want)
		put(t, s, fmt.Sprintf("k%d", i), "v")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		never := func(store.Tx) error { t.Error("fn was called"); return nil }
		if err := s.Update(ctx, never); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Update after Close: %v", err)
		}
		if err := s.View(ctx, never); !errors.Is(err, store.ErrClosed) {
			t.Errorf("View after Close: %v", err)
		}
	}
}

// testCloseDrains closes while many update: whatever Update said yes to is
// there afterwards, the rest was refused with ErrClosed.
func testCloseDrains(t *testing.T, open func() (store.Store, error)) {
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	const workers = 16
	acked := make([]int, workers)
	var wg sync.WaitGroup
	progress := make(chan struct{}, workers*1000)
	for w := range workers {
		wg.Go(func() {
			for i := range 1000 {
				err := s.Update(ctx, func(tx store.Tx) error { return putAll(tx, fmt.Sprintf("%02d-%04d", w, i), "") })
				if err != nil {
					if !errors.Is(err, store.ErrClosed) {
						t.Errorf("worker %d: %v", w, err)
					}
					return
				}
				acked[w] = i + 1
				progress <- struct{}{}
			}
		})
	}
	for range 3 * workers {
		<-progress
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	s = start(t, open)
	err = s.View(ctx, func(tx store.Tx) error {
		for w, n := range acked {
			for i := range n {
				if v, err := tx.Get(fmt.Appendf(nil, "%02d-%04d", w, i)); err != nil || v == nil {
					t.Errorf("%02d-%04d was acknowledged and is lost (%v)", w, i, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
