package etcd

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"manifold/mds/store"
	"manifold/mds/store/bolt"
	"manifold/mds/store/etcd/etcdtest"
)

// BenchmarkCreate writes what making a file writes, from several clients at once:
// an inode, a name, and the directory's inode. To compare within one run: bolt,
// etcd by this package, and etcd by its bare client with one transaction for each.
//
//	go test -run '^$' -bench Create -benchtime 2000x ./mds/store/etcd
func BenchmarkCreate(b *testing.B) {
	c := etcdtest.Start(b, 3)
	file, err := bolt.Open(filepath.Join(b.TempDir(), "meta.db"), bolt.Config{})
	if err != nil {
		b.Fatal(err)
	}
	led, err := openLeading(b.Context(), config(b, c.Endpoints(), "bench", "a"))
	if err != nil {
		b.Fatal(err)
	}
	bare := c.Client()
	b.Cleanup(func() {
		for _, s := range []store.Store{file, led} {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		}
	})
	inode, name := make([]byte, 300), make([]byte, 60)
	update := func(s store.Store) func(i int) error {
		return func(i int) error {
			return s.Update(context.Background(), func(tx store.Tx) error {
				for _, w := range []store.Write{
					{Key: fmt.Appendf(nil, "i%012d", i), Val: inode}, {Key: fmt.Appendf(nil, "d%012d", i), Val: name}, {Key: []byte("parent"), Val: inode},
				} {
					if err := tx.Put(w.Key, w.Val); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	for _, engine := range []struct {
		name   string
		create func(i int) error
	}{
		{"bolt", update(file)},
		{"etcd", update(led)},
		{"etcd, one transaction each", func(i int) error {
			_, err := bare.Txn(context.Background()).Then(
				clientv3.OpPut(fmt.Sprintf("bare/i%012d", i), string(inode)), clientv3.OpPut(fmt.Sprintf("bare/d%012d", i), string(name)),
				clientv3.OpPut("bare/parent", string(inode))).Commit()
			return err
		}},
	} {
		for _, clients := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/%d", engine.name, clients), func(b *testing.B) {
				before := led.member.Status()
				var wg sync.WaitGroup
				for k := range clients {
					wg.Go(func() {
						for i := k; i < b.N; i += clients {
							if err := engine.create(i); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
				if after := led.member.Status(); after.Transactions > before.Transactions {
					b.ReportMetric(float64(after.Writes-before.Writes)/float64(after.Transactions-before.Transactions), "writes/txn")
				}
			})
		}
	}
}
