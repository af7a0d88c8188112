package xdr

import (
	"bytes"
	"errors"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	var e Encoder
	e.Uint32(7)
	e.Int64(-9)
	e.Bool(true)
	e.Opaque([]byte("abcde"))
	e.String("xyz")
	e.Fixed([]byte{1, 2, 3, 4, 5})
	at := e.Len()
	e.Uint32(0)
	copy(e.Reserve(2), "hi")
	e.SetUint32(at, 2)
	e.Pad(2)

	d := NewDecoder(e.Bytes())
	if v := d.Uint32(); v != 7 {
		t.Errorf("Uint32 = %d", v)
	}
	if v := d.Int64(); v != -9 {
		t.Errorf("Int64 = %d", v)
	}
	if !d.Bool() {
		t.Error("Bool = false")
	}
	if v := d.Opaque(5); string(v) != "abcde" {
		t.Errorf("Opaque = %q", v)
	}
	if v := d.String(3); v != "xyz" {
		t.Errorf("String = %q", v)
	}
	if v := d.Fixed(5); !bytes.Equal(v, []byte{1, 2, 3, 4, 5}) {
		t.Errorf("Fixed = %v", v)
	}
	if v := d.Opaque(10); string(v) != "hi" {
		t.Errorf("reserved opaque = %q", v)
	}
	if d.Err() != nil || d.Remaining() != 0 {
		t.Errorf("err %v, %d bytes left", d.Err(), d.Remaining())
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []byte
		read func(*Decoder)
		want error
	}{
		{"short integer", []byte{0, 0, 1}, func(d *Decoder) { d.Uint32() }, ErrShort},
		{"opaque over its bound", []byte{0, 0, 0, 9}, func(d *Decoder) { d.Opaque(8) }, ErrTooLong},
		{"opaque over the record", []byte{0, 0, 0, 8, 1}, func(d *Decoder) { d.Opaque(8) }, ErrShort},
		{"huge opaque", []byte{255, 255, 255, 255}, func(d *Decoder) { d.Opaque(1 << 30) }, ErrTooLong},
		{"padding", []byte{0, 0, 0, 1, 'a', 0, 0, 1}, func(d *Decoder) { d.Opaque(8) }, ErrPadding},
		{"padding cut off", []byte{0, 0, 0, 1, 'a'}, func(d *Decoder) { d.Opaque(8) }, ErrShort},
		{"array over its bound", []byte{0, 0, 0, 3}, func(d *Decoder) { d.Count(2, 4) }, ErrTooLong},
		{"array over the record", []byte{0, 0, 0, 3, 0, 0, 0, 0}, func(d *Decoder) { d.Count(9, 4) }, ErrShort},
		{"bool", []byte{0, 0, 0, 2}, func(d *Decoder) { d.Bool() }, ErrValue},
	} {
		d := NewDecoder(c.in)
		c.read(&d)
		if !errors.Is(d.Err(), c.want) {
			t.Errorf("%s: err = %v, want %v", c.name, d.Err(), c.want)
		}
		if d.Uint64() != 0 || d.Opaque(4) != nil {
			t.Errorf("%s: a value after the error", c.name)
		}
	}
}

func TestOpaqueAliases(t *testing.T) {
	in := []byte{0, 0, 0, 4, 'd', 'a', 't', 'a'}
	d := NewDecoder(in)
	if v := d.Opaque(4); &v[0] != &in[4] {
		t.Error("Opaque copied")
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 'a', 0, 0, 0, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, in []byte) {
		d := NewDecoder(in)
		for d.Err() == nil && d.Remaining() > 0 {
			switch len(in) % 4 {
			case 0:
				d.Opaque(64)
			case 1:
				d.Bool()
			case 2:
				if n := d.Count(1000, 8); n*8 > d.Remaining() {
					t.Fatalf("%d elements in %d bytes", n, d.Remaining())
				}
			case 3:
				d.Fixed(3)
			}
		}
	})
}
