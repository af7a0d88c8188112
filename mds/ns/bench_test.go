package ns

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"manifold/mds/store"
	"manifold/mds/store/bolt"
	"manifold/xdr/nfs4"
)

func benchFixture(b *testing.B) *fixture {
	s, err := bolt.Open(filepath.Join(b.TempDir(), "meta.db"), bolt.Config{})
	if err != nil {
		b.Fatal(err)
	}
	return newFixtureOn(b, s)
}

// BenchmarkCreate: files made in one directory by 1, 16 and 128 goroutines, each
// durable before the next.
func BenchmarkCreate(b *testing.B) {
	for _, workers := range []int{1, 16, 128} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			f := benchFixture(b)
			now := time.Now()
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for range workers {
				wg.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						name := fmt.Appendf(nil, "file-%d", i)
						err := f.store.Update(context.Background(), func(tx store.Tx) error {
							_, err := f.vol.Create(tx, now, root, f.root, name, &Node{Type: nfs4.TypeReg, Guarded: true})
							return err
						})
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	f := benchFixture(b)
	f.fill(f.root, 10_000)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, err := f.tryLookup(alice, f.root, fmt.Sprintf("file-%05d", i%10_000)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadDir: one entry with its inode, in pages of 100.
func BenchmarkReadDir(b *testing.B) {
	f := benchFixture(b)
	f.fill(f.root, 10_000)
	b.ReportAllocs()
	b.ResetTimer()
	var cookie uint64
	for at := 0; at < b.N; {
		n := 0
		f.view(func(tx store.Tx) error {
			_, eof, err := f.vol.ReadDir(tx, root, f.root, cookie, f.vol.cookies, func(e Entry) (bool, error) {
				if n == 100 {
					return false, nil
				}
				n++
				cookie = e.Cookie
				_, err := f.vol.Get(tx, e.Handle)
				return true, err
			})
			if eof {
				cookie = 0
			}
			return err
		})
		at += n
	}
}
