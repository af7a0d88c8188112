package krb5

import (
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/types"
)

// FuzzToken: no token of a stranger makes the mechanism panic, or a context.
func FuzzToken(f *testing.F) {
	f.Add(frame(tokenAPReq, []byte{0x6e, 0x03, 0x30, 0x01, 0x00}))
	f.Add(frame(tokenError, nil))
	f.Add([]byte{0x60, 0x80})
	m := &Mechanism{path: "/no/such"}
	m.seen[0] = map[[32]byte]struct{}{}
	f.Fuzz(func(t *testing.T, token []byte) {
		if acc, err := m.Accept(time.Now(), token); err == nil {
			t.Errorf("accepted: %+v", acc)
		}
	})
}

// FuzzMessage: no message token makes a context panic, or verifies.
func FuzzMessage(f *testing.F) {
	for _, kind := range []int32{17, 18, 19, 20} {
		key := types.EncryptionKey{KeyType: kind, KeyValue: make([]byte, keySize(kind))}
		a, err := newMessages(key, true, true, 1)
		if err != nil {
			f.Fatal(err)
		}
		wrapped, _ := a.Wrap([]byte("abc"))
		mic, _ := a.MIC([]byte("abc"))
		f.Add(uint8(kind), wrapped)
		f.Add(uint8(kind), mic)
	}
	f.Fuzz(func(t *testing.T, kind uint8, token []byte) {
		key := types.EncryptionKey{KeyType: 17 + int32(kind)%4, KeyValue: make([]byte, keySize(17+int32(kind)%4))}
		b, err := newMessages(key, true, true, 1) // what an acceptor sends an acceptor does not take
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Unwrap(token); err == nil {
			t.Error("unwrapped")
		}
		if b.Verify(nil, token) == nil {
			t.Error("verified")
		}
	})
}
