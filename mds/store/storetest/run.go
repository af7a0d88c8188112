package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"manifold/mds/store"
)

// Run tests a Store. fresh makes an empty place for one, and returns what opens
// it: again, after the Store before was closed.
func Run(t *testing.T, fresh func(t *testing.T) (open func() (store.Store, error))) {
	tests := []struct {
		name string
		fn   func(t *testing.T, open func() (store.Store, error))
	}{
		{"Values", testValues},
		{"Bounds", testBounds},
		{"Abort", testAbort},
		{"ScanOverlay", testScanOverlay},
		{"ScanStops", testScanStops},
		{"ScanStorm", testScanStorm},
		{"ReadOnly", testReadOnly},
		{"Snapshot", testSnapshot},
		{"Cancelled", testCancelled},
		{"Panic", testPanic},
		{"Counter", testCounter},
		{"Transfers", testTransfers},
		{"Model", testModel},
		{"Reopen", testReopen},
		{"CloseDrains", testCloseDrains},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) { tc.fn(t, fresh(t)) })
	}
}

var ctx = context.Background()

func start(t *testing.T, open func() (store.Store, error)) store.Store {
	t.Helper()
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func update(t *testing.T, s store.Store, fn func(tx store.Tx) error) {
	t.Helper()
	if err := s.Update(ctx, fn); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, s store.Store, pairs ...string) {
	t.Helper()
	update(t, s, func(tx store.Tx) error { return putAll(tx, pairs...) })
}

func putAll(tx store.Tx, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := tx.Put([]byte(pairs[i]), []byte(pairs[i+1])); err != nil {
			return err
		}
	}
	return nil
}

// list writes a range as "k=v k=v".
func list(tx store.Tx, from, to string) (string, error) {
	var out []byte
	var end []byte
	if to != "" {
		end = []byte(to)
	}
	err := tx.Scan([]byte(from), end, func(k, v []byte) (bool, error) {
		if len(out) > 0 {
			out = append(out, ' ')
		}
		out = fmt.Appendf(out, "%s=%s", k, v)
		return true, nil
	})
	return string(out), err
}

func wantList(t *testing.T, tx store.Tx, from, to, want string) {
	t.Helper()
	if got, err := list(tx, from, to); err != nil || got != want {
		t.Errorf("[%s,%s): got %q, %v, want %q", from, to, got, err, want)
	}
}

func view(t *testing.T, s store.Store, want string) {
	t.Helper()
	err := s.View(ctx, func(tx store.Tx) error { wantList(t, tx, "", "", want); return nil })
	if err != nil {
		t.Error(err)
	}
}

func testValues(t *testing.T, open func() (store.Store, error)) {
	s := start(t, open)
	key, val := []byte("k"), []byte("value")
	update(t, s, func(tx store.Tx) error {
		if err := errors.Join(tx.Put(key, val), tx.Put([]byte("empty"), nil), tx.Put([]byte{0, 255}, []byte{0})); err != nil {
			return err
		}
		key[0], val[0] = 'X', 'X' // the Tx must have copied them
		return nil
	})
	get := func(tx store.Tx) error {
		for _, c := range []struct{ key, want []byte }{
			{[]byte("k"), []byte("value")}, {[]byte("empty"), []byte{}}, {[]byte{0, 255}, []byte{0}}, {[]byte("none"), nil}, {[]byte("X"), nil},
		} {
			got, err := tx.Get(c.key)
			if err != nil || !bytes.Equal(got, c.want) || (got == nil) != (c.want == nil) {
				t.Errorf("Get(%q) = %v, %v, want %v", c.key, got, err, c.want)
			}
		}
		return nil
	}
	update(t, s, get)
	if err := s.View(ctx, get); err != nil {
		t.Error(err)
	}
	update(t, s, func(tx store.Tx) error {
		return errors.Join(tx.Delete([]byte("k")), tx.Delete([]byte("k")), tx.Delete([]byte("never")))
	})
	view(t, s, "\x00\xff=\x00 empty=")
}

func testBounds(t *testing.T, open func() (store.Store, error)) {
	s := start(t, open)
	bad := []func(tx store.Tx) error{
		func(tx store.Tx) error { return tx.Put(nil, []byte("v")) },
		func(tx store.Tx) error { return tx.Delete(nil) },
		func(tx store.Tx) error { return tx.Put(make([]byte, store.MaxKey+1), nil) },
		func(tx store.Tx) error { return tx.Put([]byte("k"), make([]byte, store.MaxValue+1)) },
		func(tx store.Tx) error {
			for i := range store.MaxUpdateOps + 1 {
				if err := tx.Put(fmt.Appendf(nil, "%d", i), nil); err != nil {
					return err
				}
			}
			return nil
		},
		func(tx store.Tx) error {
			for i := range store.MaxUpdateBytes/store.MaxValue + 1 {
				if err := tx.Put(fmt.Appendf(nil, "%d", i), make([]byte, store.MaxValue)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	for i, fn := range bad {
		if err := s.Update(ctx, fn); !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("%d: %v", i, err)
		}
		overlooked := func(tx store.Tx) error { _ = fn(tx); return nil }
		if err := s.Update(ctx, overlooked); !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("%d, overlooked by fn: %v", i, err)
		}
	}
	view(t, s, "")
	big := bytes.Repeat([]byte("v"), store.MaxValue)
	key := bytes.Repeat([]byte("k"), store.MaxKey)
	update(t, s, func(tx store.Tx) error { return tx.Put(key, big) })
	update(t, s, func(tx store.Tx) error {
		if got, err := tx.Get(key); err != nil || !bytes.Equal(got, big) {
			t.Errorf("largest value: %d bytes, %v", len(got), err)
		}
		return nil
	})
}

func testAbort(t *testing.T, open func() (store.Store, error)) {
	s := start(t, open)
	put(t, s, "a", "1", "b", "2")
	boom := errors.New("boom")
	err := s.Update(ctx, func(tx store.Tx) error {
		if err := errors.Join(tx.Put([]byte("a"), []byte("9")), tx.Delete([]byte("b")), tx.Put([]byte("c"), []byte("9"))); err != nil {
			return err
		}
		wantList(t, tx, "", "", "a=9 c=9")
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	view(t, s, "a=1 b=2")
	update(t, s, func(tx store.Tx) error { wantList(t, tx, "", "", "a=1 b=2"); return nil })
}

func testScanOverlay(t *testing.T, open func() (store.Store, error)) {
	s := start(t, open)
	put(t, s, "b", "1", "d", "1", "f", "1", "h", "1")
	update(t, s, func(tx store.Tx) error {
		err := errors.Join(putAll(tx, "a", "2", "d", "2", "e", "2", "i", "2"), tx.Delete([]byte("f")), tx.Delete([]byte("g")))
		wantList(t, tx, "", "", "a=2 b=1 d=2 e=2 h=1 i=2")
		wantList(t, tx, "b", "h", "b=1 d=2 e=2")
		wantList(t, tx, "c", "d", "")
		wantList(t, tx, "d\x00", "e\x00", "e=2")
		wantList(t, tx, "i\x00", "", "")
		// More writes after a Scan, among them on what it saw.
		err = errors.Join(err, putAll(tx, "c", "3", "f", "3"), tx.Delete([]byte("a")))
		wantList(t, tx, "", "", "b=1 c=3 d=2 e=2 f=3 h=1 i=2")
		return err
	})
	view(t, s, "b=1 c=3 d=2 e=2 f=3 h=1 i=2")
	// A Scan that deletes as it goes ends, and sees each key at most once.
	update(t, s, func(tx store.Tx) error {
		var seen []string
		err := tx.Scan([]byte("b"), []byte("g"), func(k, _ []byte) (bool, error) {
			seen = append(seen, string(k))
			return true, errors.Join(tx.Delete(k), tx.Put(append([]byte("x"), k...), nil))
		})
		if want := []string{"b", "c", "d", "e", "f"}; !slices.Equal(seen, want) {
			t.Errorf("saw %v", seen)
		}
		return err
	})
	view(t, s, "h=1 i=2 xb= xc= xd= xe= xf=")
}

func testScanStops(t *testing.T, open func() (store.Store, error)) {
	s := start(t, open)
	put(t, s, "a", "1", "c", "1", "e", "1")
	err := s.View(ctx, func(tx store.Tx) error { scanStops(t, tx, 3); return nil })
	if err != nil {
		t.Error(err)
	}
	update(t, s, func(tx store.Tx) error {
		err := putAll(tx, "b", "2", "d", "2")
		scanStops(t, tx, 5)
		return err
	})
}

// scanStops ends a Scan at each of so many keys, with an error and without.
func scanStops(t *testing.T, tx store.Tx, keys int) {
	t.Helper()
	for at := range keys {
		for _, end := range []error{nil, errors.New("end")} {
			n := 0
			err := tx.Scan(nil, nil, func(_, _ []byte) (bool, error) {
				if n++; n <= at {
					return true, nil
				}
				return end != nil, end // an error ends it, whatever else fn says
			})
			if n != at+1 || !errors.Is(err, end) {
				t.Errorf("to stop at %d: called %d times, %v, want %v", at, n, err, end)
			}
		}
	}
}

// testScanStorm: Updates scan what others have just written, while that is on
// its way to the medium. Each worker always finds all of its own rows.
func testScanStorm(t *testing.T, open func() (store.Store, error)) {
	const workers, rounds = 8, 40
	s := start(t, open)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				mine, all := 0, 0
				err := s.Update(ctx, func(tx store.Tx) error {
					mine, all = 0, 0
					if err := tx.Put(fmt.Appendf(nil, "%03d-%d", i, w), nil); err != nil {
						return err
					}
					return tx.Scan(nil, nil, func(k, _ []byte) (bool, error) {
						if int(k[len(k)-1]-'0') == w {
							mine++
						}
						all++
						return true, nil
					})
				})
				if err != nil || mine != i+1 || all < mine {
					t.Errorf("worker %d: found %d of %d, %v", w, mine, i+1, err)
				}
			}
		})
	}
	wg.Wait()
}

func testReadOnly(t *testing.T, open func() (store.Store, error)) {
	s := start(t, open)
	err := s.View(ctx, func(tx store.Tx) error {
		if err := tx.Put([]byte("a"), nil); !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("Put: %v", err)
		}
		if err := tx.Delete([]byte("a")); !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("Delete: %v", err)
		}
		return store.ErrReadOnly
	})
	if !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("View: %v", err)
	}
	view(t, s, "")
}

// testSnapshot: a View shows one state while Updates go on; a later one shows
// what Update returned for.
func testSnapshot(t *testing.T, open func() (store.Store, error)) {
	s := start(t, open)
	put(t, s, "a", "1")
	err := s.View(ctx, func(tx store.Tx) error {
		done := make(chan error)
		go func() {
			done <- s.Update(ctx, func(tx store.Tx) error { return putAll(tx, "a", "2", "b", "2") })
		}()
		if err := <-done; err != nil {
			return err
		}
		wantList(t, tx, "", "", "a=1")
		view(t, s, "a=2 b=2")
		wantList(t, tx, "", "", "a=1")
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func testCancelled(t *testing.T, open func() (store.Store, error)) {
	s := start(t, open)
	dead, cancel := context.WithCancel(ctx)
	cancel()
	never := func(store.Tx) error { t.Error("fn was called"); return nil }
	if err := s.Update(dead, never); !errors.Is(err, context.Canceled) {
		t.Errorf("Update: %v", err)
	}
	if err := s.View(dead, never); !errors.Is(err, context.Canceled) {
		t.Errorf("View: %v", err)
	}
	// One that waits for its turn.
	entered, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.Update(ctx, func(tx store.Tx) error {
			close(entered)
			<-leave
			return putAll(tx, "a", "1")
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-entered
	waiting, cancel := context.WithCancel(ctx)
	wg.Go(func() {
		if err := s.Update(waiting, never); !errors.Is(err, context.Canceled) {
			t.Errorf("waiting Update: %v", err)
		}
	})
	cancel()
	close(leave)
	wg.Wait()
	// One that is cancelled after fn ran: all of it is kept, or nothing.
	for i := range 50 {
		late, cancel := context.WithCancel(ctx)
		err := s.Update(late, func(tx store.Tx) error {
			cancel()
			return putAll(tx, fmt.Sprintf("x%02d", i), "1", fmt.Sprintf("y%02d", i), "1")
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("late: %v", err)
		}
		update(t, s, func(tx store.Tx) error {
			x, errX := tx.Get(fmt.Appendf(nil, "x%02d", i))
			y, errY := tx.Get(fmt.Appendf(nil, "y%02d", i))
			if !bytes.Equal(x, y) || err == nil && x == nil {
				t.Errorf("%d: half an update: %q %q", i, x, y)
			}
			return errors.Join(errX, errY)
		})
		cancel()
	}
}

// testPanic: a panic in fn reaches the caller, and the Store goes on.
func testPanic(t *testing.T, open func() (store.Store, error)) {
	s := start(t, open)
	for _, call := range []func(context.Context, func(store.Tx) error) error{s.Update, s.View} {
		func() {
			defer func() {
				if r := recover(); r != "ouch" {
					t.Errorf("recovered %v", r)
				}
			}()
			err := call(ctx, func(tx store.Tx) error {
				_ = tx.Put([]byte("a"), []byte("1"))
				panic("ouch")
			})
			t.Errorf("returned %v", err)
		}()
	}
	put(t, s, "b", "1")
	view(t, s, "b=1")
}

func testCounter(t *testing.T, open func() (store.Store, error)) {
	const workers, rounds = 16, 100
	s := start(t, open)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range rounds {
				err := s.Update(ctx, func(tx store.Tx) error {
					old, err := tx.Get([]byte("n"))
					if err != nil {
						return err
					}
					var n int
					if old != nil {
						if _, err := fmt.Sscan(string(old), &n); err != nil {
							return err
						}
					}
					return putAll(tx, "n", fmt.Sprint(n+1))
				})
				if err != nil {
					t.Errorf("worker %d: %v", w, err)
					return
				}
			}
		})
	}
	wg.Wait()
	view(t, s, fmt.Sprintf("n=%d", workers*rounds))
}

// testTransfers: many move units between accounts, some fail half-way; a View
// never sees a sum that is not whole, nor less than what was acknowledged.
func testTransfers(t *testing.T, open func() (store.Store, error)) {
	const accounts, workers, rounds = 10, 8, 60
	s := start(t, open)
	update(t, s, func(tx store.Tx) error {
		for i := range accounts {
			if err := tx.Put([]byte{'a', byte(i)}, []byte{100}); err != nil {
				return err
			}
		}
		return nil
	})
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					checkSum(t, s, accounts*100)
				}
			}
		})
	}
	for w := range workers {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for range rounds {
				transfer(t, s, byte(rng.IntN(accounts)), byte(rng.IntN(accounts)), rng.IntN(4) == 0)
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	checkSum(t, s, accounts*100)
}

func checkSum(t *testing.T, s store.Store, want int) {
	sum := 0
	err := s.View(ctx, func(tx store.Tx) error {
		return tx.Scan([]byte("a"), []byte("b"), func(_, v []byte) (bool, error) { sum += int(v[0]); return true, nil })
	})
	if err != nil || sum != want {
		t.Errorf("sum %d, %v, want %d", sum, err, want)
	}
}

func transfer(t *testing.T, s store.Store, from, to byte, fail bool) {
	half := errors.New("half")
	err := s.Update(ctx, func(tx store.Tx) error {
		move := func(acct byte, by int) error {
			v, err := tx.Get([]byte{'a', acct})
			if err != nil {
				return err
			}
			return tx.Put([]byte{'a', acct}, []byte{byte(int(v[0]) + by)})
		}
		if err := move(from, -1); err != nil {
			return err
		}
		if fail {
			return half
		}
		return move(to, +1)
	})
	if fail != errors.Is(err, half) || !fail && err != nil {
		t.Errorf("transfer: %v", err)
	}
}
