package xdr

import "encoding/binary"

// Encoder appends to a buffer. The zero Encoder is ready for use. It never
// fails: bounds on what a reply may hold are the business of whoever reserves
// the buffer (compound checks ReplyMax before an operation runs).
type Encoder struct {
	buf []byte
}

// NewEncoder returns an Encoder that appends to b, which may be a slice of
// length 0 with the capacity that is expected.
func NewEncoder(b []byte) Encoder { return Encoder{buf: b} }

// Bytes returns what was encoded so far. It aliases the Encoder's buffer.
func (e *Encoder) Bytes() []byte { return e.buf }

// Len returns how many bytes were encoded so far.
func (e *Encoder) Len() int { return len(e.buf) }

// Truncate forgets everything after the first n bytes.
func (e *Encoder) Truncate(n int) { e.buf = e.buf[:n] }

// Uint32 appends an unsigned int.
func (e *Encoder) Uint32(v uint32) { e.buf = binary.BigEndian.AppendUint32(e.buf, v) }

// Int32 appends an int or an enum.
func (e *Encoder) Int32(v int32) { e.Uint32(uint32(v)) }

// Uint64 appends an unsigned hyper.
func (e *Encoder) Uint64(v uint64) { e.buf = binary.BigEndian.AppendUint64(e.buf, v) }

// Int64 appends a hyper.
func (e *Encoder) Int64(v int64) { e.Uint64(uint64(v)) }

// Bool appends a bool.
func (e *Encoder) Bool(v bool) {
	if v {
		e.Uint32(1)
	} else {
		e.Uint32(0)
	}
}

// Fixed appends a fixed-length opaque and its padding.
func (e *Encoder) Fixed(b []byte) {
	e.buf = append(e.buf, b...)
	e.pad(len(b))
}

// Opaque appends a variable-length opaque.
func (e *Encoder) Opaque(b []byte) {
	e.Uint32(uint32(len(b)))
	e.Fixed(b)
}

// String appends a string.
func (e *Encoder) String(s string) {
	e.Uint32(uint32(len(s)))
	e.buf = append(e.buf, s...)
	e.pad(len(s))
}

// Raw appends bytes that are XDR already.
func (e *Encoder) Raw(b []byte) { e.buf = append(e.buf, b...) }

// Reserve appends n bytes and returns them for the caller to fill, so that
// file data is read straight into the reply. Their content is undefined until
// then. n need not be a multiple of four: Pad appends the padding when it is
// known how many bytes stay.
func (e *Encoder) Reserve(n int) []byte {
	at := len(e.buf)
	e.Grow(n)
	e.buf = e.buf[:at+n]
	return e.buf[at:]
}

// Grow makes room for n more bytes without another allocation.
func (e *Encoder) Grow(n int) {
	if cap(e.buf)-len(e.buf) < n {
		grown := make([]byte, len(e.buf), 2*cap(e.buf)+n)
		copy(grown, e.buf)
		e.buf = grown
	}
}

// Pad appends the zero bytes that round an opaque of n bytes up to four.
func (e *Encoder) Pad(n int) { e.pad(n) }

// SetUint32 overwrites the four bytes at offset at, which the caller wrote
// before as a placeholder (a count or a length known only afterwards).
func (e *Encoder) SetUint32(at int, v uint32) { binary.BigEndian.PutUint32(e.buf[at:], v) }

func (e *Encoder) pad(n int) {
	var zero [3]byte
	e.buf = append(e.buf, zero[:-n&3]...)
}
