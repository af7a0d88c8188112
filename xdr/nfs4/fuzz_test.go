package nfs4

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
)

// fuzzCodec decodes data into what make makes. What decodes must encode to
// something that decodes to the same bytes again.
func fuzzCodec(t *testing.T, data []byte, make func() codec) {
	x := make()
	if _, err := decode(x, data); err != nil {
		return
	}
	b := encode(x)
	y := make()
	if left, err := decode(y, b); left != 0 || err != nil {
		t.Fatalf("%T: encoding is bad: %d left, error %v\n%+v", x, left, err, x)
	}
	if c := encode(y); !bytes.Equal(b, c) {
		t.Fatalf("%T: %x became %x", x, b, c)
	}
}

// seed adds one random value of each row, its number in front.
func seed[K OpNum | CBOpNum](f *testing.F, rows map[K]pair, res bool) {
	fill := newFiller(f, 5)
	for n, p := range rows {
		c := p.args()
		if res {
			c = p.res()
		}
		fill.value(reflect.ValueOf(c).Elem(), "")
		f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(n)), encode(c)...))
	}
}

func FuzzDecodeArgs(f *testing.F) {
	seed(f, operations, false)
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) >= 4 {
			if p, ok := operations[OpNum(binary.BigEndian.Uint32(in))]; ok {
				fuzzCodec(t, in[4:], p.args)
			}
		}
	})
}

func FuzzDecodeRes(f *testing.F) {
	seed(f, operations, true)
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) >= 4 {
			if p, ok := operations[OpNum(binary.BigEndian.Uint32(in))]; ok {
				fuzzCodec(t, in[4:], p.res)
			}
		}
	})
}

func FuzzCallbacks(f *testing.F) {
	seed(f, callbacks, false)
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) >= 4 {
			if p, ok := callbacks[CBOpNum(binary.BigEndian.Uint32(in))]; ok {
				fuzzCodec(t, in[4:], p.args)
				fuzzCodec(t, in[4:], p.res)
			}
		}
	})
}

func FuzzAttrs(f *testing.F) {
	fill := newFiller(f, 6)
	for range 20 {
		var a Attrs
		fill.attrs(&a)
		f.Add(encode(&a))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		fuzzCodec(t, in, func() codec { return new(Attrs) })
	})
}
