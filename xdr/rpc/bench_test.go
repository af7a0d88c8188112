package rpc

import (
	"context"
	"fmt"
	"testing"
)

func benchmarkCalls(b *testing.B, inline bool, outstanding, size int) {
	na, nb := loopback(b)
	p := newPair(na, nb, limits{Inline: inline})
	defer p.close(b)
	args := pattern(size)
	put := raw(args)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.SetParallelism(max(outstanding/2, 1))
	b.ResetTimer()
	work := func(next func() bool) {
		req := Request{Prog: 100, Vers: 1, Proc: procEcho, Cred: Cred{Flavor: AuthSys, Sys: SysCred{Machine: "m"}}, Size: size, Args: put}
		for next() {
			if err := p.a.Do(context.Background(), &req); err != nil {
				b.Fatal(err)
			}
		}
	}
	if outstanding == 1 {
		work(b.Loop)
		return
	}
	b.RunParallel(func(pb *testing.PB) { work(pb.Next) })
}

func BenchmarkCall(b *testing.B) {
	for _, inline := range []bool{false, true} {
		for _, n := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("inline=%v/outstanding=%d", inline, n), func(b *testing.B) { benchmarkCalls(b, inline, n, 128) })
		}
	}
	b.Run("echo 1 MiB", func(b *testing.B) { benchmarkCalls(b, false, 4, 1<<20) })
}
