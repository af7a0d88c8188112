package client

import (
	"errors"
	"fmt"
	"testing"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/tcp"
)

// TestReplies feeds replies that do not fit the request.
func TestReplies(t *testing.T) {
	good := func(edit func(words []uint32) []uint32) []byte {
		var e xdr.Encoder
		for _, w := range edit([]uint32{0, 0, 2, uint32(nfs4.OpPutFH), 0, uint32(nfs4.OpRemove), 0, 1, 0, 1, 0, 2}) {
			e.Uint32(w)
		}
		return e.Bytes()
	}
	set := func(i int, v uint32) func([]uint32) []uint32 {
		return func(w []uint32) []uint32 { w[i] = v; return w }
	}
	for _, tc := range []struct {
		name   string
		reply  []byte
		bad    bool
		n      int
		status nfs4.Status
	}{
		{"good", good(set(0, 0)), false, 2, 0},
		{"empty", nil, true, 0, 0},
		{"cut", good(func(w []uint32) []uint32 { return w[:10] }), true, 2, 0},
		{"too many results", good(set(2, 3)), true, 0, 0},
		{"too few results", good(set(2, 1)), true, 1, 0},
		{"another operation", good(set(5, 3)), true, 1, 0},
		{"goes on after an error", good(func(w []uint32) []uint32 { w[0], w[4] = 70, 70; return w }), true, 0, 70},
		{"statuses differ", good(set(6, 2)), true, 1, 0},
		{"no results", good(func(w []uint32) []uint32 { return []uint32{10021, 0, 0} }), false, 0, nfs4.ErrMinorVersMismatch},
		{"illegal", good(func(w []uint32) []uint32 { return []uint32{10044, 0, 1, 10044, 10044} }), false, 1, nfs4.ErrOpIllegal},
	} {
		m := message{clone: true, ops: []Op{putFH(nil), {Num: nfs4.OpRemove, Res: &nfs4.RemoveRes{}}}}
		d := xdr.NewDecoder(tc.reply)
		if err := m.decode(&d); errors.Is(err, errReply) != tc.bad || m.done != tc.n || m.status != tc.status {
			t.Errorf("%s: %v, %d results, %v", tc.name, err, m.done, m.status)
		}
	}
}

func FuzzReply(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 25, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 9, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		res := readInto{p: make([]byte, 3)}
		m := message{ops: []Op{{Num: nfs4.OpRead, Res: &res}, {Num: nfs4.OpLock, Res: &nfs4.LockRes{}}}}
		d := xdr.NewDecoder(b)
		err := m.decode(&d)
		if res.n > 3 || m.done > 2 || err == nil && m.status == nfs4.OK && m.done != 2 {
			t.Fatalf("%d bytes, %d results, %v", res.n, m.done, err)
		}
	})
}

func BenchmarkCompound(b *testing.B) {
	for _, size := range []int{0, 4 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("read %d", size), func(b *testing.B) {
			f := newFake(b)
			f.file = make([]byte, size)
			ln, err := tcp.Listen(bg, "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			srv := tcp.NewServer(f, tcp.Config{})
			go srv.Serve(ln)
			defer srv.Shutdown(bg)
			cfg := f.config()
			cfg.Dialer = nil
			c, err := Dial(bg, ln.Addr().String(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close(bg)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				p := make([]byte, size)
				for pb.Next() {
					if _, _, err := c.Read(bg, rpc.Cred{}, nfs4.FH("file"), nfs4.Stateid{}, 0, p); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
