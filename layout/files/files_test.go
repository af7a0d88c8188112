package files

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"manifold/layout"
	"manifold/xdr"
	"manifold/xdr/nfs4"
)

func addr(netid, ap string) layout.Address {
	return layout.Address{Netid: netid, AddrPort: netip.MustParseAddrPort(ap)}
}

func handles(n, size int) (fhs []nfs4.FH) {
	for i := range n {
		fhs = append(fhs, nfs4.FH(bytes.Repeat([]byte{byte(i)}, size)))
	}
	return fhs
}

func someLayout() *layout.Layout {
	return &layout.Layout{
		Device: nfs4.DeviceID{0: 0xde, 15: 0x01},
		Stripe: layout.Stripe{Unit: 1 << 20, Width: 2, First: 1},
		FHs:    []nfs4.FH{{0xa1, 0xa2, 0xa3, 0xa4, 0xa5}, {0xb1, 0xb2, 0xb3, 0xb4}},
	}
}

func someDevice() *layout.Device {
	return &layout.Device{Paths: [][]layout.Address{
		{addr("rdma", "10.0.0.1:20049"), addr("tcp", "10.0.0.1:2049")},
		{addr("tcp6", "[2001:db8::2]:2049")},
	}}
}

// Golden bytes, laid out by hand from RFC 8881 section 13.3.
const (
	goldenLayout = `
de000000 00000000 00000000 00000001
00100000
00000001
00000000 00000000
00000002
00000005 a1a2a3a4 a5000000
00000004 b1b2b3b4`
	goldenDevice = `
00000002 00000000 00000001
00000002
00000002
00000004 72646d61
0000000e 31302e30 2e302e31 2e37382e 38310000
00000003 74637000
0000000c 31302e30 2e302e31 2e382e31
00000001
00000004 74637036
0000000f 32303031 3a646238 3a3a322e 382e3100`
)

func golden(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGoldenLayout(t *testing.T) {
	want := golden(t, goldenLayout)
	got, err := Driver{}.Layout(someLayout())
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("body %x, %v\nwant %x", got, err, want)
	}
	l, err := DecodeLayout(want)
	if err != nil || !reflect.DeepEqual(&l, someLayout()) {
		t.Errorf("decoded %+v, %v", l, err)
	}
}

func TestGoldenDevice(t *testing.T) {
	want := golden(t, goldenDevice)
	got, err := Driver{}.Device(someDevice())
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("body %x, %v\nwant %x", got, err, want)
	}
	d, err := DecodeDevice(want)
	if err != nil || !reflect.DeepEqual(&d, someDevice()) {
		t.Errorf("decoded %+v, %v", d, err)
	}
}

func TestWidest(t *testing.T) {
	for _, c := range []struct {
		n, size int
		fits    bool
	}{{MaxDS, 48, true}, {MaxDS + 1, 48, false}, {30, 128, true}, {31, 128, false}, {1, 129, false}, {1, 0, false}} {
		l := &layout.Layout{Stripe: layout.Stripe{Unit: 64, Width: c.n}, FHs: handles(c.n, c.size)}
		b, err := Driver{}.Layout(l)
		if (err == nil) != c.fits || len(b) > MaxBody || err != nil && !errors.Is(err, ErrForm) {
			t.Errorf("%d handles of %d bytes: %d bytes, %v", c.n, c.size, len(b), err)
		}
	}
	if MaxDS != 78 {
		t.Errorf("MaxDS = %d", MaxDS)
	}
}

func TestLayoutForms(t *testing.T) {
	for name, spoil := range map[string]func(*layout.Layout){
		"no unit":          func(l *layout.Layout) { l.Stripe.Unit = 0 },
		"odd unit":         func(l *layout.Layout) { l.Stripe.Unit = 100 },
		"unit of 4 GiB":    func(l *layout.Layout) { l.Stripe.Unit = 1 << 32 },
		"one handle":       func(l *layout.Layout) { l.FHs = l.FHs[:1] },
		"no data server":   func(l *layout.Layout) { l.FHs, l.Stripe.Width = nil, 0 },
		"first over width": func(l *layout.Layout) { l.Stripe.First = 2 },
		"first negative":   func(l *layout.Layout) { l.Stripe.First = -1 },
	} {
		l := someLayout()
		spoil(l)
		if b, err := (Driver{}).Layout(l); !errors.Is(err, ErrForm) {
			t.Errorf("%s: %x, %v", name, b, err)
		}
	}
}

func TestDeviceForms(t *testing.T) {
	one := []layout.Address{addr("tcp", "10.0.0.1:2049")}
	many := make([][]layout.Address, 257)
	for i := range many {
		many[i] = one
	}
	for name, paths := range map[string][][]layout.Address{
		"none": nil, "no path": {one, nil}, "too many": many,
		"too many paths": {many[0], func() (p []layout.Address) {
			for range 17 {
				p = append(p, one...)
			}
			return p
		}()},
	} {
		if b, err := (Driver{}).Device(&layout.Device{Paths: paths}); !errors.Is(err, ErrForm) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if b, err := (Driver{}).Device(&layout.Device{Paths: many[:256]}); err != nil {
		t.Errorf("256 data servers: %v", err)
	} else if d, err := DecodeDevice(b); err != nil || len(d.Paths) != 256 {
		t.Errorf("256 data servers back: %d, %v", len(d.Paths), err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	patch := func(text string, at int, v byte) []byte {
		b := golden(t, text)
		b[at] = v
		return b
	}
	for _, c := range []struct {
		name string
		body []byte
		want error
	}{
		{"dense", patch(goldenLayout, 19, 1), ErrForm},
		{"commit through the MDS", patch(goldenLayout, 19, 2), ErrForm},
		{"no unit", patch(goldenLayout, 17, 0), ErrForm},
		{"first over width", patch(goldenLayout, 23, 2), ErrForm},
		{"pattern offset", patch(goldenLayout, 31, 1), ErrForm},
		{"bytes left over", append(golden(t, goldenLayout), 0, 0, 0, 0), ErrForm},
		{"more handles than there are", patch(goldenLayout, 35, 3), xdr.ErrShort},
		{"huge count", patch(goldenLayout, 32, 0xff), xdr.ErrTooLong},
		{"huge handle", patch(goldenLayout, 38, 0xff), xdr.ErrTooLong},
		{"empty", nil, xdr.ErrShort},
	} {
		if l, err := DecodeLayout(c.body); !errors.Is(err, c.want) {
			t.Errorf("layout, %s: %+v, %v, want %v", c.name, l, err, c.want)
		}
	}
	for _, c := range []struct {
		name string
		body []byte
		want error
	}{
		{"indices turned", patch(goldenDevice, 11, 2), ErrForm},
		{"no path", []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, ErrForm},
		{"unknown transport", patch(goldenDevice, 24, 'x'), layout.ErrAddress},
		{"huge count", patch(goldenDevice, 0, 0xff), xdr.ErrTooLong},
		{"empty device", make([]byte, 8), ErrForm},
		{"empty", nil, xdr.ErrShort},
	} {
		if d, err := DecodeDevice(c.body); !errors.Is(err, c.want) {
			t.Errorf("device, %s: %+v, %v, want %v", c.name, d, err, c.want)
		}
	}
}

func TestReturned(t *testing.T) {
	if err := (Driver{}).Returned(nil); err != nil {
		t.Error(err)
	}
	if err := (Driver{}).Returned([]byte{0}); !errors.Is(err, ErrForm) {
		t.Error("a body was taken")
	}
	var d layout.Driver = Driver{}
	if d.Type() != 1 {
		t.Errorf("Type = %v", d.Type())
	}
}

func FuzzDecodeLayout(f *testing.F) {
	f.Add(golden(f, goldenLayout))
	f.Fuzz(func(t *testing.T, in []byte) {
		l, err := DecodeLayout(in)
		if err != nil {
			return
		}
		if out, err := (Driver{}).Layout(&l); err != nil || !bytes.Equal(out, in) {
			t.Fatalf("%x -> %+v -> %x, %v", in, l, out, err)
		}
	})
}

func FuzzDecodeDevice(f *testing.F) {
	b, _ := Driver{}.Device(someDevice())
	f.Add(b)
	f.Fuzz(func(t *testing.T, in []byte) {
		d, err := DecodeDevice(in)
		if err != nil {
			return
		}
		// An address has several spellings: compare what was read, not bytes.
		out, err := Driver{}.Device(&d)
		if err != nil {
			t.Fatalf("%+v: %v", d, err)
		}
		if again, err := DecodeDevice(out); err != nil || !reflect.DeepEqual(again, d) {
			t.Fatalf("%+v -> %+v, %v", d, again, err)
		}
	})
}
