package nfs4

import (
	"bytes"
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"manifold/xdr"
)

func TestKnown(t *testing.T) {
	for n := range OpNum(11000) {
		_, implemented := operations[n]
		if defined := implemented || slices.Contains(forbidden, n); n.Known(2) != defined {
			t.Errorf("%v.Known(2) = %v, but it has codecs: %v", n, n.Known(2), defined)
		}
		if n.Known(1) && (!n.Known(2) || n >= OpAllocate) {
			t.Errorf("%v is known to 4.1", n)
		}
		if n.Known(0) || n.Known(3) {
			t.Errorf("%v is known to another minor version", n)
		}
		cb := CBOpNum(n)
		if _, ok := callbacks[cb]; cb.Known(2) != ok || cb.Known(1) != (ok && cb != CBOffload) {
			t.Errorf("%v: known %v, %v", cb, cb.Known(1), cb.Known(2))
		}
	}
	if OpReclaimComplete.Known(1) != true || OpSequence.Known(1) != true {
		t.Error("4.1 lacks its own operations")
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		OK.String():              "NFS4_OK",
		ErrNoEnt.Error():         "NFS4ERR_NOENT",
		ErrXattr2Big.String():    "NFS4ERR_XATTR2BIG",
		Status(3).String():       "Status(3)",
		OpGetDeviceInfo.String(): "GETDEVICEINFO",
		OpNum(99).String():       "OpNum(99)",
		CBLayoutRecall.String():  "CB_LAYOUTRECALL",
		AttrFSLocations.String(): "fs_locations",
		Attr(90).String():        "Attr(90)",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]Status{
		"":                        ErrInval,
		"a":                       OK,
		".":                       ErrBadName,
		"..":                      ErrBadName,
		"...":                     OK,
		".a":                      OK,
		"a/b":                     ErrBadChar,
		"/":                       ErrBadChar,
		"a\x00":                   ErrBadChar,
		"\xff\xfe":                OK,
		strings.Repeat("x", 255):  OK,
		strings.Repeat("x", 256):  ErrNameTooLong,
		strings.Repeat("/", 4096): ErrNameTooLong,
	} {
		if got := ValidName([]byte(name)); got != want {
			t.Errorf("ValidName(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestNetAddr(t *testing.T) {
	for _, c := range []struct{ transport, addr, netid, uaddr string }{
		{"tcp", "10.1.2.3:2049", "tcp", "10.1.2.3.8.1"},
		{"rdma", "10.1.2.3:20049", "rdma", "10.1.2.3.78.81"},
		{"tcp", "[::1]:65535", "tcp6", "::1.255.255"},
		{"tcp", "[fe80::1%eth0]:1", "tcp6", "fe80::1%eth0.0.1"},
	} {
		ap := netip.MustParseAddrPort(c.addr)
		a := NetAddrOf(c.transport, ap)
		if string(a.NetID) != c.netid || string(a.UAddr) != c.uaddr {
			t.Errorf("%s: %s %s, want %s %s", c.addr, a.NetID, a.UAddr, c.netid, c.uaddr)
		}
		if back, err := a.AddrPort(); back != ap || err != nil {
			t.Errorf("%s: back %v, error %v", c.uaddr, back, err)
		}
	}
	if a := NetAddrOf("tcp", netip.MustParseAddrPort("[::ffff:1.2.3.4]:5")); string(a.NetID) != "tcp" || string(a.UAddr) != "1.2.3.4.0.5" {
		t.Errorf("mapped address: %s %s", a.NetID, a.UAddr)
	}
	for _, bad := range []string{"", ".", "1.2", "1.2.3.4", "1.2.3.4.5", "1.2.3.4.256.1", "1.2.3.4.-1.1", "1.2.3.4.1.", "host.8.1", "1.2.3.4.+8.1", "::1"} {
		if ap, err := (NetAddr{UAddr: []byte(bad)}).AddrPort(); !errors.Is(err, ErrUAddr) {
			t.Errorf("%q: %v, error %v", bad, ap, err)
		}
	}
}

func TestStateids(t *testing.T) {
	plain := Stateid{1, [12]byte{3: 9}}
	for _, c := range []struct {
		s                                     Stateid
		anon, bypass, current, invalid, specl bool
	}{
		{StateidAnonymous(), true, false, false, false, true},
		{StateidBypass(), false, true, false, false, true},
		{StateidCurrent(), false, false, true, false, true},
		{StateidInvalid(), false, false, false, true, true},
		{Stateid{Seqid: 2}, false, false, false, false, true},
		{plain, false, false, false, false, false},
	} {
		if c.s.IsAnonymous() != c.anon || c.s.IsBypass() != c.bypass || c.s.IsCurrent() != c.current ||
			c.s.IsInvalid() != c.invalid || c.s.IsSpecial() != c.specl {
			t.Errorf("%v is judged wrong", c.s)
		}
	}
}

func TestBitmap(t *testing.T) {
	b := BitmapOf(0, 31, 32, 95)
	if b != (Bitmap{1 | 1<<31, 1, 1 << 31}) || !b.Has(95) || b.Has(94) || b.Has(96) || b.Has(1<<31) {
		t.Errorf("bits of %x", b)
	}
	b.Clear(95)
	if b.Has(95) || b.IsZero() {
		t.Errorf("after Clear: %x", b)
	}
	if got := b.And(BitmapOf(32, 33)); got != BitmapOf(32) {
		t.Errorf("And: %x", got)
	}
	if got := b.Or(BitmapOf(1)); got != BitmapOf(0, 1, 31, 32) {
		t.Errorf("Or: %x", got)
	}
	if got := b.Without(BitmapOf(0, 32)); got != BitmapOf(31) {
		t.Errorf("Without: %x", got)
	}
}

func TestTime(t *testing.T) {
	for _, std := range []time.Time{time.Unix(0, 0), time.Unix(1, 999999999), time.Unix(-1, 5), time.Unix(1<<40, 1)} {
		if got := TimeOf(std); !got.Std().Equal(std) || !got.Valid() {
			t.Errorf("%v became %v", std, got)
		}
	}
	if (Time{0, 1e9}).Valid() {
		t.Error("1e9 nanoseconds are valid")
	}
	sorted := []Time{{-2, 9}, {-1, 0}, {-1, 1}, {0, 0}, {0, 1}, {1, 0}}
	for i, x := range sorted {
		for j, y := range sorted {
			if got := x.Compare(y); got != min(1, max(-1, i-j)) {
				t.Errorf("%v.Compare(%v) = %d", x, y, got)
			}
		}
	}
}

func TestUnknownAttrs(t *testing.T) {
	size := u32(0, 7)
	for _, c := range []struct {
		name    string
		in      []byte
		unknown bool
	}{
		{"all known", slices.Concat(u32(1, 1<<AttrSize, 8), size), false},
		{"bit 95", slices.Concat(u32(3, 1<<AttrSize, 0, 1<<31, 12), size, u32(0)), true},
		{"bit 96", slices.Concat(u32(4, 1<<AttrSize, 0, 0, 1, 12), size, u32(0)), true},
		{"zero words beyond", slices.Concat(u32(4, 1<<AttrSize, 0, 0, 0, 8), size), false},
	} {
		var a Attrs
		if left, err := decode(&a, c.in); left != 0 || err != nil {
			t.Errorf("%s: %d left, error %v", c.name, left, err)
		}
		if a.Unknown != c.unknown || a.Size != 7 {
			t.Errorf("%s: unknown %v, size %d", c.name, a.Unknown, a.Size)
		}
	}
	// What is not known is never sent, so that the list stays readable.
	a := Attrs{Mask: Bitmap{1 << AttrSize, 0, 1 << 31}, Size: 7}
	if got, want := encode(&a), slices.Concat(u32(1, 1<<AttrSize, 8), size); !bytes.Equal(got, want) {
		t.Errorf("encoded %x, want %x", got, want)
	}
}

func TestReaddirAdd(t *testing.T) {
	ent := DirEntry{Cookie: 3, Name: []byte("abc"), Attrs: Attrs{Mask: BitmapOf(AttrFileID), FileID: 4}}
	const each = 4 + 8 + 8 + 8 + 4 + 8 // next, cookie, name, bitmap, length, fileid
	var r ReaddirRes
	if r.Len() != 16 || len(encode(&r)) != 16 {
		t.Errorf("empty: Len %d, %d bytes", r.Len(), len(encode(&r)))
	}
	if !r.Add(&ent, 16+each) || r.Len() != 16+each {
		t.Errorf("an entry that just fits: Len %d, want %d", r.Len(), 16+each)
	}
	if r.Add(&ent, 16+2*each-1) || r.Len() != 16+each {
		t.Errorf("an entry that does not fit: Len %d", r.Len())
	}
	if !r.Add(&ent, math.MaxInt) || len(encode(&r)) != r.Len() {
		t.Errorf("Len %d, %d bytes", r.Len(), len(encode(&r)))
	}
	var back ReaddirRes
	if left, err := decode(&back, encode(&r)); left != 0 || err != nil || len(back.Entries) != 2 || string(back.Entries[1].Name) != "abc" {
		t.Errorf("decoded %+v, %d left, error %v", back, left, err)
	}
}

// hot is the args of the compounds that clients send most.
type hot struct {
	seq   SequenceArgs
	putfh PutFHArgs
	get   GetattrArgs
	read  ReadArgs
	write WriteArgs
}

func (h *hot) record() []byte {
	var e xdr.Encoder
	h.seq.EncodeXDR(&e)
	h.putfh.EncodeXDR(&e)
	h.get.EncodeXDR(&e)
	h.read.EncodeXDR(&e)
	h.write.EncodeXDR(&e)
	return e.Bytes()
}

func (h *hot) decode(b []byte) error {
	d := xdr.NewDecoder(b)
	h.seq.DecodeXDR(&d)
	h.putfh.DecodeXDR(&d)
	h.get.DecodeXDR(&d)
	h.read.DecodeXDR(&d)
	h.write.DecodeXDR(&d)
	return d.Err()
}

func hotRecord() []byte {
	return (&hot{putfh: PutFHArgs{make(FH, 48)}, get: GetattrArgs{BitmapOf(AttrSize, AttrMode)},
		write: WriteArgs{Data: make([]byte, 64<<10)}}).record()
}

func TestNoAllocs(t *testing.T) {
	b := hotRecord()
	var h hot
	if n := testing.AllocsPerRun(100, func() {
		if err := h.decode(b); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("decoding allocates %v times", n)
	}
	if &h.write.Data[0] != &b[len(b)-len(h.write.Data)] {
		t.Error("WRITE's data is a copy")
	}
	attrs := Attrs{Mask: BitmapOf(AttrType, AttrChange, AttrSize, AttrFSID, AttrOwner, AttrTimeModify), Owner: []byte("1000")}
	rec := encode(&attrs)
	var back Attrs
	var e xdr.Encoder
	e.Grow(1024)
	if n := testing.AllocsPerRun(100, func() {
		e.Truncate(0)
		attrs.EncodeXDR(&e)
		d := xdr.NewDecoder(rec)
		back.DecodeXDR(&d)
	}); n != 0 {
		t.Errorf("fattr4 allocates %v times", n)
	}
}

func BenchmarkDecodeHot(b *testing.B) {
	rec := hotRecord()
	var h hot
	b.ReportAllocs()
	for b.Loop() {
		if err := h.decode(rec); err != nil {
			b.Fatal(err)
		}
	}
}
