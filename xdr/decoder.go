// Package xdr is the External Data Representation (RFC 4506) over byte slices.
//
// Its nouns: a Decoder walks one received record and hands out parts of it; an
// Encoder appends to one growing buffer. Neither uses reflection, and neither
// copies opaque data: what a Decoder returns aliases the record and is good
// only as long as the record's buffer is.
//
// Every length that comes from the wire is checked against a bound given by
// the caller, and against what is left of the record, before anything is
// allocated. The first error sticks: later calls return zero values, so a
// decoding function reads straight down and looks at Err once.
package xdr

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors of a Decoder. Callers compare with errors.Is.
var (
	// ErrShort means that the record ends inside an item.
	ErrShort = errors.New("xdr: record too short")
	// ErrTooLong means that an opaque, a string or an array is over its bound.
	ErrTooLong = errors.New("xdr: length over its bound")
	// ErrPadding means that the bytes that round an item up to four are not zero.
	ErrPadding = errors.New("xdr: padding is not zero")
	// ErrValue means that a value is not one that its type allows (a bool of
	// 2, an unknown arm of a union).
	ErrValue = errors.New("xdr: value out of range")
)

// Decoder reads one record. The zero Decoder is an empty record.
type Decoder struct {
	buf []byte
	off int
	err error
}

// NewDecoder returns a Decoder at the start of b. It keeps b.
func NewDecoder(b []byte) Decoder { return Decoder{buf: b} }

// Err returns the first error, or nil.
func (d *Decoder) Err() error { return d.err }

// Offset returns how many bytes were consumed.
func (d *Decoder) Offset() int { return d.off }

// Before returns the record's first n bytes, at most Offset of them.
func (d *Decoder) Before(n int) []byte { return d.buf[:min(n, d.off)] }

// Remaining returns how many bytes are left.
func (d *Decoder) Remaining() int { return len(d.buf) - d.off }

// Rest returns the bytes that are left, without consuming them.
func (d *Decoder) Rest() []byte { return d.buf[d.off:] }

// Fail records err, unless an earlier error is there already.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = err
		d.off = len(d.buf)
	}
}

// take returns the next n bytes, or nil after an error.
func (d *Decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > len(d.buf)-d.off {
		d.Fail(fmt.Errorf("%w: %d bytes wanted at offset %d, %d left", ErrShort, n, d.off, len(d.buf)-d.off))
		return nil
	}
	b := d.buf[d.off : d.off+n : d.off+n]
	d.off += n
	return b
}

// Uint32 reads an unsigned int (RFC 4506 section 4.2).
func (d *Decoder) Uint32() uint32 {
	if b := d.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// Int32 reads an int or an enum.
func (d *Decoder) Int32() int32 { return int32(d.Uint32()) }

// Uint64 reads an unsigned hyper.
func (d *Decoder) Uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Int64 reads a hyper.
func (d *Decoder) Int64() int64 { return int64(d.Uint64()) }

// Bool reads a bool; anything but 0 and 1 is ErrValue.
func (d *Decoder) Bool() bool {
	v := d.Uint32()
	if v > 1 {
		d.Fail(fmt.Errorf("%w: bool %d", ErrValue, v))
	}
	return v == 1
}

// Fixed reads a fixed-length opaque of n bytes and its padding. The result
// aliases the record.
func (d *Decoder) Fixed(n int) []byte {
	b := d.take(n)
	d.pad(n)
	if d.err != nil {
		return nil
	}
	return b
}

// Opaque reads a variable-length opaque of at most max bytes. The result
// aliases the record.
func (d *Decoder) Opaque(max int) []byte {
	n := d.Uint32()
	if d.err != nil {
		return nil
	}
	if uint64(n) > uint64(max) {
		d.Fail(fmt.Errorf("%w: opaque of %d bytes, %d allowed", ErrTooLong, n, max))
		return nil
	}
	return d.Fixed(int(n))
}

// String reads a string of at most max bytes. It copies.
func (d *Decoder) String(max int) string { return string(d.Opaque(max)) }

// Count reads the length of an array of at most max elements, each of which
// takes at least size bytes on the wire. A count that what is left of the
// record cannot hold is an error, so a caller may allocate Count elements.
func (d *Decoder) Count(max, size int) int {
	n := d.Uint32()
	if d.err != nil {
		return 0
	}
	if uint64(n) > uint64(max) {
		d.Fail(fmt.Errorf("%w: array of %d elements, %d allowed", ErrTooLong, n, max))
		return 0
	}
	if uint64(n)*uint64(size) > uint64(d.Remaining()) {
		d.Fail(fmt.Errorf("%w: array of %d elements in %d bytes", ErrShort, n, d.Remaining()))
		return 0
	}
	return int(n)
}

// pad consumes the zero bytes that round an item of n bytes up to four.
func (d *Decoder) pad(n int) {
	for _, c := range d.take(-n & 3) {
		if c != 0 {
			d.Fail(ErrPadding)
			return
		}
	}
}
