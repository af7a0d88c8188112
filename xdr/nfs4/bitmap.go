package nfs4

import (
	"fmt"

	"manifold/xdr"
)

// Bitmap is a bitmap4 of three words: bit n is bit n%32 of word n/32. That is
// room for every attribute, operation and notification that is defined; words
// beyond are read, and dropped.
//
//xdr:manual
type Bitmap [3]uint32

// BitmapOf returns the bitmap with the given bits.
func BitmapOf(bits ...Attr) Bitmap {
	var b Bitmap
	for _, n := range bits {
		b.Set(n)
	}
	return b
}

// Has says whether bit n is set. A bit beyond the three words never is.
func (b Bitmap) Has(n Attr) bool { return n < 96 && b[n/32]&(1<<(n%32)) != 0 }

// Set sets bit n, which is below 96.
func (b *Bitmap) Set(n Attr) { b[n/32] |= 1 << (n % 32) }

// Clear clears bit n, which is below 96.
func (b *Bitmap) Clear(n Attr) { b[n/32] &^= 1 << (n % 32) }

// And returns the bits that are in both.
func (b Bitmap) And(c Bitmap) Bitmap { return Bitmap{b[0] & c[0], b[1] & c[1], b[2] & c[2]} }

// Or returns the bits that are in either.
func (b Bitmap) Or(c Bitmap) Bitmap { return Bitmap{b[0] | c[0], b[1] | c[1], b[2] | c[2]} }

// Without returns the bits of b that are not in c.
func (b Bitmap) Without(c Bitmap) Bitmap {
	return Bitmap{b[0] &^ c[0], b[1] &^ c[1], b[2] &^ c[2]}
}

// IsZero says whether no bit is set.
func (b Bitmap) IsZero() bool { return b == Bitmap{} }

// EncodeXDR appends as many words as are needed, without zero words at the end.
func (b *Bitmap) EncodeXDR(e *xdr.Encoder) {
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	e.Uint32(uint32(n))
	for _, w := range b[:n] {
		e.Uint32(w)
	}
}

// DecodeXDR reads up to MaxBitmapWords words, and keeps three.
func (b *Bitmap) DecodeXDR(d *xdr.Decoder) { b.decode(d) }

// decode is DecodeXDR; it says whether a bit was set in a word that it dropped.
func (b *Bitmap) decode(d *xdr.Decoder) (dropped bool) {
	*b = Bitmap{}
	n := d.Count(MaxBitmapWords, 4)
	for i := range n {
		w := d.Uint32()
		if i < len(b) {
			b[i] = w
		} else if w != 0 {
			dropped = true
		}
	}
	return dropped
}

// badArm reports a union whose discriminant has no arm.
func badArm(d *xdr.Decoder, union string, v uint32) {
	d.Fail(fmt.Errorf("%w: %s has no arm %d", xdr.ErrValue, union, v))
}
