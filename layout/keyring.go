package layout

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
)

// Key is one secret of the cluster. A filehandle names the key that signed it
// by its ID.
type Key struct {
	ID     uint8
	Secret [32]byte
}

// Keyring signs filehandles with its current key and opens those that any of
// its keys signed. It does not change once made: to rotate keys, make another
// one with With (and, when no client can hold an older handle any more,
// Without), keep it in the store, send it to the data servers and, when they
// have it, begin to seal with it.
type Keyring struct {
	current uint8
	keys    []Key // by ID, at least one
	pads    [256]*pads
}

// pads are a key's two HMAC blocks (RFC 2104), so that a MAC is two calls of
// SHA-256 on the stack. A data server opens a handle for every READ and WRITE.
type pads struct {
	inner, outer [sha256.BlockSize]byte
}

// maxKeys bounds a Keyring: the current key and those that are being retired.
const maxKeys = 16

// errKeyring means keys that make no Keyring.
var errKeyring = errors.New("layout: not a keyring")

// NewKeyring returns the ring of keys that seals with the one whose ID is
// current. None or more than 16 keys, an ID twice and no key with the current
// ID are errors.
func NewKeyring(current uint8, keys ...Key) (*Keyring, error) {
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("%w: %d keys", errKeyring, len(keys))
	}
	k := &Keyring{current: current, keys: slices.Clone(keys)}
	slices.SortFunc(k.keys, func(a, b Key) int { return int(a.ID) - int(b.ID) })
	for _, key := range k.keys {
		if k.pads[key.ID] != nil {
			return nil, fmt.Errorf("%w: key %d twice", errKeyring, key.ID)
		}
		k.pads[key.ID] = newPads(key.Secret)
	}
	if k.pads[current] == nil {
		return nil, fmt.Errorf("%w: current key %d missing", errKeyring, current)
	}
	return k, nil
}

// With returns a ring that seals with key and opens with it and all keys of k.
func (k *Keyring) With(key Key) (*Keyring, error) {
	return NewKeyring(key.ID, append(slices.Clone(k.keys), key)...)
}

// Without returns a ring that no longer opens what the key id signed. The
// current key cannot be left out.
func (k *Keyring) Without(id uint8) (*Keyring, error) {
	return NewKeyring(k.current, slices.DeleteFunc(slices.Clone(k.keys), func(key Key) bool { return key.ID == id })...)
}

// Current returns the ID of the key that seals.
func (k *Keyring) Current() uint8 { return k.current }

// The encoding of a ring: version, current id, number of keys, then of each
// key its id and secret.
const (
	ringVersion = 1
	ringHead    = 3
	ringKey     = 1 + len(Key{}.Secret)
)

// MarshalBinary returns the ring's secrets in the form in which the store and
// the control channel carry them. It cannot fail.
func (k *Keyring) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, ringHead+len(k.keys)*ringKey)
	b = append(b, ringVersion, k.current, byte(len(k.keys)))
	for _, key := range k.keys {
		b = append(append(b, key.ID), key.Secret[:]...)
	}
	return b, nil
}

// ParseKeyring returns the ring that MarshalBinary encoded, or an error if b
// is no such encoding.
func ParseKeyring(b []byte) (*Keyring, error) {
	if len(b) < ringHead || b[0] != ringVersion || len(b) != ringHead+int(b[2])*ringKey {
		return nil, fmt.Errorf("%w: %d bytes", errKeyring, len(b))
	}
	keys := make([]Key, b[2])
	for i := range keys {
		at := b[ringHead+i*ringKey:]
		keys[i].ID = at[0]
		copy(keys[i].Secret[:], at[1:])
	}
	return NewKeyring(b[1], keys...)
}

func newPads(secret [32]byte) *pads {
	var p pads
	for i := range p.inner {
		var c byte
		if i < len(secret) {
			c = secret[i]
		}
		p.inner[i], p.outer[i] = c^0x36, c^0x5c
	}
	return &p
}

// sum returns HMAC-SHA256 of msg, which is at most dsBody bytes.
func (p *pads) sum(msg []byte) [sha256.Size]byte {
	var in [sha256.BlockSize + dsBody]byte
	copy(in[:], p.inner[:])
	n := copy(in[sha256.BlockSize:], msg)
	inner := sha256.Sum256(in[:sha256.BlockSize+n])

	var out [sha256.BlockSize + sha256.Size]byte
	copy(out[:], p.outer[:])
	copy(out[sha256.BlockSize:], inner[:])
	return sha256.Sum256(out[:])
}

// sign puts the MAC of fh's first body bytes behind them, cut to the room
// there is. The MAC covers the tag, so one role's handle is none of the other's.
func (k *Keyring) sign(fh []byte, body int) {
	mac := k.pads[fh[1]].sum(fh[:body])
	copy(fh[body:], mac[:])
}

// verify says whether the key that fh names is known and signed fh.
func (k *Keyring) verify(fh []byte, body int) bool {
	p := k.pads[fh[1]]
	if p == nil {
		return false
	}
	mac := p.sum(fh[:body])
	return subtle.ConstantTimeCompare(mac[:len(fh)-body], fh[body:]) == 1
}
