package krb5

import (
	"fmt"
	"testing"

	"github.com/jcmturner/gokrb5/v8/types"
)

// BenchmarkMessages signs, and encrypts, as a server does for a call without
// data and for one of 1 MiB.
func BenchmarkMessages(b *testing.B) {
	for _, kind := range []int32{18, 20} {
		key := types.EncryptionKey{KeyType: kind, KeyValue: make([]byte, keySize(kind))}
		m, err := newMessages(key, true, true, 1)
		if err != nil {
			b.Fatal(err)
		}
		for _, n := range []int{200, 1 << 20} {
			msg := make([]byte, n)
			b.Run(fmt.Sprintf("type=%d/mic=%d", kind, n), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(n))
				for b.Loop() {
					_, _ = m.MIC(msg)
				}
			})
			b.Run(fmt.Sprintf("type=%d/wrap=%d", kind, n), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(n))
				for b.Loop() {
					_, _ = m.Wrap(msg)
				}
			})
		}
	}
}
