package osfs

import (
	"sync/atomic"
	"testing"

	"manifold/ds/store/storetest"
)

// BenchmarkSmallFile is what a small file costs: made, written, synced, and in
// the end removed.
func BenchmarkSmallFile(b *testing.B) {
	b.Run("one", func(b *testing.B) { smallFiles(b, 1) })
	b.Run("sixteen", func(b *testing.B) { smallFiles(b, 8) }) // each of 2 CPUs
}

func smallFiles(b *testing.B, parallel int) {
	s, err := Open(Config{Root: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var next atomic.Int64
	data := make([]byte, 4096)
	b.SetParallelism(parallel)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			obj := storetest.Obj(int(next.Add(1)))
			if _, err := s.WriteAt(obj, data, 0); err != nil {
				b.Error(err)
			}
			if err := s.Sync(obj); err != nil {
				b.Error(err)
			}
			if err := s.Remove(obj); err != nil {
				b.Error(err)
			}
		}
	})
}
