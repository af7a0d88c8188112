package state

import (
	"fmt"
	"testing"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// BenchmarkCycle opens a file, gets a layout, locks, and undoes all that, while
// there are few or many other files open: the two must cost about the same.
func BenchmarkCycle(b *testing.B) {
	for _, others := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			cfg := testConfig()
			cfg.PerClient = Counts{Opens: 1 << 20, Owners: 1 << 20, Locks: 1 << 20, Layouts: 1 << 20}
			cfg.Total = cfg.PerClient
			cfg.Total.Clients = 2
			c := newCoreWith(b, cfg, 2)
			ds := []layout.DSID{1, 2, 3, 4}
			for file := range others {
				o := must(b, c, OpenReq{Client: 1, File: uint64(file + 10), Access: 3}).Stateid
				must(b, c, LayoutGetReq{Client: 1, File: uint64(file + 10), Stateid: o, IOMode: nfs4.IOModeRW, DS: ds})
			}
			b.ReportAllocs()
			for b.Loop() {
				o := must(b, c, OpenReq{Client: 2, File: 1, Access: 3}).Stateid
				l := must(b, c, LayoutGetReq{Client: 2, File: 1, Stateid: o, IOMode: nfs4.IOModeRW, DS: ds}).Stateid
				k := must(b, c, LockReq{Client: 2, File: 1, NewOwner: true, Stateid: o, Range: layout.WholeFile(), Type: nfs4.LockWrite}).Stateid
				must(b, c, LockuReq{2, 1, k, layout.WholeFile()})
				must(b, c, LayoutReturnReq{Client: 2, File: 1, Stateid: l, IOMode: nfs4.IOModeAny, Range: layout.WholeFile()})
				must(b, c, CloseReq{2, 1, o})
			}
		})
	}
}
