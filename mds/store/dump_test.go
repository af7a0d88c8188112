package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"manifold/mds/store"
	"manifold/mds/store/storetest"
)

// filled is a store with n records.
func filled(t testing.TB, n int) store.Store {
	t.Helper()
	s := new(storetest.Mem).Open()
	for from := 0; from < n; from += 100 {
		err := s.Update(t.Context(), func(tx store.Tx) error {
			for i := from; i < min(n, from+100); i++ {
				if err := tx.Put(fmt.Appendf(nil, "k%06d", i), []byte(strings.Repeat("v", i*7%300))); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestDump: what was dumped comes back, and a dump that is not whole changes
// nothing.
func TestDump(t *testing.T) {
	for _, n := range []int{0, 1, 20_000} {
		src := filled(t, n)
		var b bytes.Buffer
		sum, err := store.Dump(t.Context(), src, &b)
		if err != nil || sum.Records != uint64(n) {
			t.Fatalf("dump of %d: %+v, %v", n, sum, err)
		}
		dst := new(storetest.Mem).Open()
		got, err := store.Restore(t.Context(), dst, bytes.NewReader(b.Bytes()))
		if err != nil || got != sum {
			t.Errorf("restored %+v of %+v, %v", got, sum, err)
		}
		if again, err := store.Restore(t.Context(), dst, bytes.NewReader(b.Bytes())); n > 0 && !errors.Is(err, store.ErrNotEmpty) {
			t.Errorf("restored over it: %+v, %v", again, err)
		}
		copied := new(storetest.Mem).Open()
		if got, err := store.Copy(t.Context(), copied, src); err != nil || got != sum {
			t.Errorf("copied %+v of %+v, %v", got, sum, err)
		}
	}
}

func TestDumpDamaged(t *testing.T) {
	var b bytes.Buffer
	if _, err := store.Dump(t.Context(), filled(t, 5), &b); err != nil {
		t.Fatal(err)
	}
	for i := range b.Len() {
		bad := bytes.Clone(b.Bytes())
		bad[i] ^= 1
		for _, d := range [][]byte{bad, b.Bytes()[:i], append(bytes.Clone(b.Bytes()), 0)} {
			s := new(storetest.Mem).Open()
			if _, err := store.Restore(t.Context(), s, bytes.NewReader(d)); !errors.Is(err, store.ErrDump) {
				t.Fatalf("byte %d: %v", i, err)
			}
			if sum, err := store.Sum(t.Context(), s); err != nil || sum.Records != 0 {
				t.Fatalf("byte %d: %+v restored, %v", i, sum, err)
			}
		}
	}
}

func FuzzDump(f *testing.F) {
	var b bytes.Buffer
	if _, err := store.Dump(f.Context(), filled(f, 3), &b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, d []byte) {
		sum, err := store.CheckDump(bytes.NewReader(d))
		if err != nil {
			return
		}
		s := new(storetest.Mem).Open()
		if got, err := store.Restore(t.Context(), s, bytes.NewReader(d)); err != nil || got != sum {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}
