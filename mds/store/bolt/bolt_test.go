package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"manifold/mds/store"
	"manifold/mds/store/storetest"
)

var ctx = context.Background()

func TestSuite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() (store.Store, error) {
		path := filepath.Join(t.TempDir(), "meta.db")
		return func() (store.Store, error) { return Open(path, Config{}) }
	})
}

func TestCrash(t *testing.T) {
	storetest.Crash(t, func(dir string) (store.Store, error) {
		return Open(filepath.Join(dir, "meta.db"), Config{})
	})
}

const inUseEnv = "MANIFOLD_BOLT_IN_USE"

// TestInUse: another process, and this one, cannot open the file a second time.
func TestInUse(t *testing.T) {
	if path := os.Getenv(inUseEnv); path != "" {
		_, err := Open(path, Config{LockTimeout: time.Millisecond})
		fmt.Println(errors.Is(err, store.ErrInUse), err)
		os.Exit(0)
	}
	path := filepath.Join(t.TempDir(), "meta.db")
	s, err := Open(path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestInUse$")
	cmd.Env = append(os.Environ(), inUseEnv+"="+path)
	out, err := cmd.CombinedOutput()
	if want := "true metadata store " + path + ": store: in use by another process"; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%s, %v, want %s", out, err, want)
	}
	if _, err := Open(path, Config{LockTimeout: time.Millisecond}); !errors.Is(err, store.ErrInUse) {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(path, Config{LockTimeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPermissions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	for range 2 {
		s, err := Open(path, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, bytes.Repeat([]byte("junk"), 10000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{junk, dir, filepath.Join(dir, "no", "such", "dir")} {
		s, err := Open(path, Config{})
		if err == nil {
			_ = s.Close()
			t.Errorf("opened %s", path)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("%v does not name the file", err)
		}
	}
}

// TestFull: past MaxSize Updates fail with ErrNoSpace and leave everything as
// it was; Views go on, and after a removal there is room again.
func TestFull(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "meta.db"), Config{MaxSize: 24 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fill := func(i int) error {
		return s.Update(ctx, func(tx store.Tx) error {
			return tx.Put(fmt.Appendf(nil, "k%03d", i), make([]byte, store.MaxValue))
		})
	}
	n := 0
	for ; err == nil && n < 200; n++ {
		err = fill(n)
	}
	if !errors.Is(err, store.ErrNoSpace) || n < 10 {
		t.Fatalf("after %d: %v", n, err)
	}
	count := func() (keys int) {
		err := s.View(ctx, func(tx store.Tx) error {
			return tx.Scan(nil, nil, func(_, _ []byte) (bool, error) { keys++; return true, nil })
		})
		if err != nil {
			t.Error(err)
		}
		return keys
	}
	if got := count(); got != n-1 {
		t.Errorf("%d keys, want %d", got, n-1)
	}
	err = s.Update(ctx, func(tx store.Tx) error {
		for i := range 10 {
			if err := tx.Delete(fmt.Appendf(nil, "k%03d", i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// The pages come free when no older state is read any more.
	if err := s.Update(ctx, func(tx store.Tx) error { return tx.Put([]byte("small"), nil) }); err != nil {
		t.Fatal(err)
	}
	if err := fill(900); err != nil {
		t.Error(err)
	}
	if got := count(); got != n-1-10+2 {
		t.Errorf("%d keys", got)
	}
}

// TestUnknownOutcome: bbolt's file is closed under it, so a commit
// fails half-way. The Store refuses Updates, and Views show the state before.
func TestUnknownOutcome(t *testing.T) {
	var file *os.File
	capture := func(path string, flag int, mode fs.FileMode) (f *os.File, err error) {
		file, err = os.OpenFile(path, flag, mode)
		return file, err
	}
	b, err := open(filepath.Join(t.TempDir(), "meta.db"), Config{}, capture)
	if err != nil {
		t.Fatal(err)
	}
	s := store.NewGroup(b, store.Bounds{})
	put := func(k string) error {
		return s.Update(ctx, func(tx store.Tx) error { return tx.Put([]byte(k), []byte("v")) })
	}
	if err := put("a"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := put("b"); !errors.Is(err, store.ErrFailed) {
			t.Error(err)
		}
	}
	err = s.View(ctx, func(tx store.Tx) error {
		a, _ := tx.Get([]byte("a"))
		if b, _ := tx.Get([]byte("b")); b != nil || a == nil {
			t.Errorf("%q %q", a, b)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	_ = s.Close() // the file is closed: it may well complain
}

// TestRemap: a commit that may move the map waits for readers, who wait for
// it in turn, and everybody gets on.
func TestRemap(t *testing.T) {
	b, err := open(filepath.Join(t.TempDir(), "meta.db"), Config{Volatile: true}, os.OpenFile)
	if err != nil {
		t.Fatal(err)
	}
	s := store.NewGroup(b, store.Bounds{})
	defer s.Close()
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			last := 0
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := 0
				err := s.View(ctx, func(tx store.Tx) error {
					v, err := tx.Get([]byte("n"))
					n = len(v)
					return err
				})
				if err != nil || n < last {
					t.Errorf("%d after %d, %v", n, last, err)
				}
				last = n
			}
		})
	}
	for i := range 300 {
		// The snapshot is withdrawn as if the map were to move.
		batch := []store.Write{{Key: []byte("n"), Val: make([]byte, i)}}
		b.withdraw()
		if err := b.Commit(batch); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	readers.Wait()
}

// TestMayRemap: only what comes near the end of the map may move it.
func TestMayRemap(t *testing.T) {
	b, err := open(filepath.Join(t.TempDir(), "meta.db"), Config{Volatile: true}, os.OpenFile)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	small := []store.Write{{Key: []byte("k"), Val: []byte("v")}}
	if b.mayRemap(small) {
		t.Error("a small batch in a small file")
	}
	if !b.mayRemap(make([]store.Write, minMap/(32<<10))) {
		t.Error("a batch as large as the map")
	}
}

func BenchmarkView(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "meta.db"), Config{Volatile: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for at := range 25 {
		err := s.Update(ctx, func(tx store.Tx) error {
			for i := range 4000 {
				if err := tx.Put(fmt.Appendf(nil, "key-%08d", at*4000+i), make([]byte, 250)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			err := s.View(ctx, func(tx store.Tx) error {
				_, err := tx.Get(fmt.Appendf(nil, "key-%08d", i*7919%100_000))
				return err
			})
			if err != nil {
				b.Error(err)
			}
		}
	})
}
