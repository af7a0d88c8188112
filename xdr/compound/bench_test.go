package compound

import (
	"testing"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// BenchmarkCompound serves SEQUENCE, PUTFH, GETATTR, cached or not.
func BenchmarkCompound(b *testing.B) {
	for name, words := range map[string]string{"uncached": "seq putfh:abcdefgh getattr", "cached": "cseq putfh:abcdefgh getattr", "lone": "seq"} {
		b.Run(name, func(b *testing.B) {
			s, p := still(b, newRole())
			p.enter(b, s, name)
			ops := p.parse(words)
			seq := ops[0].args.(*nfs4.SequenceArgs)
			enc := encoderOf(1, "", ops)
			var call rpc.Call
			var out rpc.Reply
			out.Enc.Grow(4 << 10)
			b.ReportAllocs()
			for b.Loop() {
				enc.SetUint32(12+4+16, seq.SequenceID)
				seq.SequenceID++
				call = rpc.Call{Prog: Program, Vers: Version, Proc: procCompound, Cred: p.cred, Body: xdr.NewDecoder(enc.Bytes()), Size: enc.Len() + 60}
				out.Enc.Truncate(0)
				s.ServeRPC(b.Context(), p.srv, &call, &out)
				if n := out.Enc.Bytes()[3]; n != 0 {
					b.Fatalf("status %d", n)
				}
			}
		})
	}
}
