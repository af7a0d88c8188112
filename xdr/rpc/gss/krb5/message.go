package krb5

import (
	"bytes"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/crypto/common"
	"github.com/jcmturner/gokrb5/v8/crypto/etype"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Per-message tokens (RFC 4121 section 4.2).
const (
	headerSize = 16

	idMIC  = 0x0404
	idWrap = 0x0504

	flagAcceptor = 1 // sent by the acceptor
	flagSealed   = 2 // encrypted
	flagSubkey   = 4 // with the acceptor's subkey
)

// maxFiller bounds the filler of a wrapped message; AES needs none.
const maxFiller = 1024

var (
	errToken = errors.New("krb5: malformed message token")
	errMIC   = errors.New("krb5: message does not verify")
)

// keySize returns the length in bytes of an encryption type's keys, 0 for one
// that we do not take.
func keySize(t int32) int {
	switch t {
	case etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128:
		return 16
	case etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA384_192:
		return 32
	}
	return 0
}

// messages is one end of a context.
type messages struct {
	et           etype.EType
	key          []byte
	ours, theirs direction
	seq          atomic.Uint64 // of the next token
}

// direction is what goes one way.
type direction struct {
	flags byte
	mic   []byte // key of the MICs
	seal  uint32 // key usage of wrapped messages
}

// newMessages returns the acceptor's or the initiator's end. subkey: key is the
// acceptor's subkey. seq is where our tokens' numbers begin.
func newMessages(key types.EncryptionKey, acceptor, subkey bool, seq uint64) (*messages, error) {
	if n := keySize(key.KeyType); n == 0 || n != len(key.KeyValue) {
		return nil, fmt.Errorf("krb5: encryption type %d with a key of %d bytes is not taken", key.KeyType, len(key.KeyValue))
	}
	et, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		return nil, err
	}
	m := &messages{et: et, key: bytes.Clone(key.KeyValue)}
	m.seq.Store(seq)
	flags := byte(0)
	if subkey {
		flags = flagSubkey
	}
	initiator := direction{flags: flags, seal: keyusage.GSSAPI_INITIATOR_SEAL}
	if initiator.mic, err = et.DeriveKey(m.key, common.GetUsageKc(keyusage.GSSAPI_INITIATOR_SIGN)); err != nil {
		return nil, err
	}
	accepting := direction{flags: flags | flagAcceptor, seal: keyusage.GSSAPI_ACCEPTOR_SEAL}
	if accepting.mic, err = et.DeriveKey(m.key, common.GetUsageKc(keyusage.GSSAPI_ACCEPTOR_SIGN)); err != nil {
		return nil, err
	}
	m.ours, m.theirs = initiator, accepting
	if acceptor {
		m.ours, m.theirs = accepting, initiator
	}
	return m, nil
}

// header writes the 16 bytes that begin a token; for a MIC fill is all ones.
func header(id uint16, flags byte, fill uint32, seq uint64) (h [headerSize]byte) {
	binary.BigEndian.PutUint16(h[0:], id)
	h[2], h[3] = flags, 0xff
	binary.BigEndian.PutUint32(h[4:], fill)
	binary.BigEndian.PutUint64(h[8:], seq)
	return h
}

const micFill = 0xffffffff

// sum is the checksum of msg and a header (RFC 4121 section 4.2.4).
func (m *messages) sum(key, msg, header []byte) []byte {
	mac := hmac.New(m.et.GetHashFunc(), key)
	mac.Write(msg)
	mac.Write(header)
	return mac.Sum(nil)[:m.et.GetHMACBitLength()/8]
}

// MICSize implements gss.Context.
func (m *messages) MICSize() int { return headerSize + m.et.GetHMACBitLength()/8 }

// WrapSize implements gss.Context: header, confounder, header and checksum.
func (m *messages) WrapSize() int { return 2*headerSize + m.sealSize() }

// sealSize is what encryption adds.
func (m *messages) sealSize() int { return m.et.GetConfounderByteSize() + m.et.GetHMACBitLength()/8 }

// MIC implements gss.Context (RFC 4121 section 4.2.6.1).
func (m *messages) MIC(msg []byte) ([]byte, error) {
	h := header(idMIC, m.ours.flags, micFill, m.seq.Add(1)-1)
	return append(h[:], m.sum(m.ours.mic, msg, h[:])...), nil
}

// Verify implements gss.Context.
func (m *messages) Verify(msg, mic []byte) error {
	if len(mic) != m.MICSize() {
		return errToken
	}
	want := header(idMIC, m.theirs.flags, micFill, binary.BigEndian.Uint64(mic[8:]))
	if !bytes.Equal(want[:], mic[:headerSize]) {
		return errToken
	}
	if !hmac.Equal(m.sum(m.theirs.mic, msg, want[:]), mic[headerSize:]) {
		return errMIC
	}
	return nil
}

// Wrap implements gss.Context (RFC 4121 section 4.2.6.2), without filler and
// rotation.
func (m *messages) Wrap(msg []byte) ([]byte, error) {
	h := header(idWrap, m.ours.flags|flagSealed, 0, m.seq.Add(1)-1)
	plain := make([]byte, 0, len(msg)+headerSize)
	plain = append(append(plain, msg...), h[:]...)
	_, sealed, err := m.et.EncryptMessage(m.key, plain, m.ours.seal)
	if err != nil {
		return nil, err
	}
	return append(h[:], sealed...), nil
}

// Unwrap implements gss.Context. Receivers take any rotation (RFC 4121 section
// 4.2.5).
func (m *messages) Unwrap(token []byte) ([]byte, error) {
	if len(token) < headerSize+m.sealSize()+headerSize {
		return nil, errToken
	}
	filler := int(binary.BigEndian.Uint16(token[4:]))
	rotation := int(binary.BigEndian.Uint16(token[6:]))
	// The header inside has no rotation.
	want := header(idWrap, m.theirs.flags|flagSealed, uint32(filler)<<16, binary.BigEndian.Uint64(token[8:]))
	if !bytes.Equal(want[:4], token[:4]) || filler > maxFiller {
		return nil, errToken
	}
	sealed := token[headerSize:]
	if n := rotation % len(sealed); n != 0 {
		sealed = append(append(make([]byte, 0, len(sealed)), sealed[n:]...), sealed[:n]...)
	}
	plain, err := m.et.DecryptMessage(m.key, sealed, m.theirs.seal)
	if err != nil {
		return nil, errMIC
	}
	end := len(plain) - headerSize - filler
	if end < 0 || !bytes.Equal(plain[len(plain)-headerSize:], want[:]) {
		return nil, errToken
	}
	return plain[:end], nil
}
