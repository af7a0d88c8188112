package op

import (
	"fmt"
	"testing"

	"manifold/ds/internal/dstest"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// BenchmarkRead and BenchmarkWrite are one client with one request at a time,
// both ends in this process.
func BenchmarkRead(b *testing.B)  { benchmark(b, nfs4.OpRead) }
func BenchmarkWrite(b *testing.B) { benchmark(b, nfs4.OpWrite) }

func benchmark(b *testing.B, num nfs4.OpNum) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			r := newRig(b)
			c := dstest.Dial(b, r.addr, "client")
			data := make([]byte, size)
			if _, err := r.disk.WriteAt(testObject, data, 0); err != nil {
				b.Fatal(err)
			}
			op := client.Op{Num: num, Args: &nfs4.WriteArgs{Data: data}, Res: &nfs4.WriteRes{}}
			if num == nfs4.OpRead {
				op.Args, op.Res = &nfs4.ReadArgs{Count: uint32(size)}, &nfs4.ReadRes{}
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if s, err := c.On(b.Context(), r.fh(rw), op); s != nfs4.OK || err != nil {
					b.Fatal(s, err)
				}
			}
		})
	}
}
