package layout

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"testing"

	"manifold/xdr/nfs4"
)

func key(id uint8) Key {
	k := Key{ID: id}
	for i := range k.Secret {
		k.Secret[i] = id + byte(i)
	}
	return k
}

func ring(t testing.TB, current uint8, ids ...uint8) *Keyring {
	t.Helper()
	var keys []Key
	for _, id := range ids {
		keys = append(keys, key(id))
	}
	k, err := NewKeyring(current, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var (
	someCap = Capability{Object{1, 0x1122334455667788, 3}, 0x99aabbccddeeff00, RightRead | RightWrite, 42}
	someFH  = Handle{1, 0x1122334455667788, 3}
)

// TestMAC holds the MAC against the standard library's HMAC.
func TestMAC(t *testing.T) {
	k := ring(t, 7, 7)
	fh := k.SealDS(someCap)
	secret := key(7).Secret
	h := hmac.New(sha256.New, secret[:])
	h.Write(fh[:32])
	if !bytes.Equal(fh[32:], h.Sum(nil)[:16]) {
		t.Errorf("DS handle: MAC %x", fh[32:])
	}
	fh = k.SealMDS(someFH)
	h.Reset()
	h.Write(fh[:20])
	if !bytes.Equal(fh[20:], h.Sum(nil)[:12]) {
		t.Errorf("MDS handle: MAC %x", fh[20:])
	}
}

func TestHandleForm(t *testing.T) {
	k := ring(t, 7, 7)
	ds, mds := k.SealDS(someCap), k.SealMDS(someFH)
	if len(ds) != 48 || len(mds) != 32 {
		t.Fatalf("handles of %d and %d bytes", len(ds), len(mds))
	}
	want := []byte{0xd1, 7, 3, 0, 0, 0, 0, 1, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0, 3,
		0, 0, 0, 42, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0}
	if !bytes.Equal(ds[:32], want) {
		t.Errorf("DS handle  %x\nwant         %x", ds[:32], want)
	}
	want = []byte{0xa1, 7, 0, 0, 0, 0, 0, 1, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0, 3}
	if !bytes.Equal(mds[:20], want) {
		t.Errorf("MDS handle %x\nwant        %x", mds[:20], want)
	}
	if c, s := k.OpenDS(ds); s != nfs4.OK || c != someCap {
		t.Errorf("OpenDS = %+v, %v", c, s)
	}
	if h, s := k.OpenMDS(mds); s != nfs4.OK || h != someFH {
		t.Errorf("OpenMDS = %+v, %v", h, s)
	}
}

// TestEveryBit flips each bit of both handles: none may open.
func TestEveryBit(t *testing.T) {
	k := ring(t, 7, 6, 7)
	for _, fh := range []nfs4.FH{k.SealDS(someCap), k.SealMDS(someFH)} {
		for bit := range 8 * len(fh) {
			bad := bytes.Clone(fh)
			bad[bit/8] ^= 1 << (bit % 8)
			if c, s := k.OpenDS(bad); s == nfs4.OK {
				t.Errorf("bit %d flipped, opens as %+v", bit, c)
			}
			if h, s := k.OpenMDS(bad); s == nfs4.OK {
				t.Errorf("bit %d flipped, opens as %+v", bit, h)
			}
		}
	}
}

func TestWrongHandle(t *testing.T) {
	k := ring(t, 7, 7)
	ds, mds := k.SealDS(someCap), k.SealMDS(someFH)
	stranger := ring(t, 8, 8)
	forged, err := NewKeyring(7, Key{ID: 7})
	if err != nil {
		t.Fatal(err)
	}
	with := func(fh nfs4.FH, at int, v byte) nfs4.FH {
		fh = bytes.Clone(fh)
		fh[at] = v
		return fh
	}
	for _, c := range []struct {
		name    string
		fh      nfs4.FH
		ds, mds nfs4.Status
	}{
		{"none", nil, nfs4.ErrBadHandle, nfs4.ErrBadHandle},
		{"DS handle", ds, nfs4.OK, nfs4.ErrBadHandle},
		{"MDS handle", mds, nfs4.ErrBadHandle, nfs4.OK},
		{"cut short", ds[:47], nfs4.ErrBadHandle, nfs4.ErrBadHandle},
		{"too long", append(bytes.Clone(ds), 0), nfs4.ErrBadHandle, nfs4.ErrBadHandle},
		{"zeros", make(nfs4.FH, 48), nfs4.ErrBadHandle, nfs4.ErrBadHandle},
		{"rights unknown", with(ds, 2, 4), nfs4.ErrBadHandle, nfs4.ErrBadHandle},
		{"spare byte", with(mds, 3, 1), nfs4.ErrBadHandle, nfs4.ErrBadHandle},
		{"rights widened", with(k.SealDS(Capability{Rights: RightRead}), 2, 3), nfs4.ErrStale, nfs4.ErrBadHandle},
		{"key not known", stranger.SealDS(someCap), nfs4.ErrStale, nfs4.ErrBadHandle},
		{"key not known", stranger.SealMDS(someFH), nfs4.ErrBadHandle, nfs4.ErrStale},
		{"forged", forged.SealDS(someCap), nfs4.ErrStale, nfs4.ErrBadHandle},
		{"forged", forged.SealMDS(someFH), nfs4.ErrBadHandle, nfs4.ErrStale},
	} {
		if _, s := k.OpenDS(c.fh); s != c.ds {
			t.Errorf("%s: OpenDS = %v, want %v", c.name, s, c.ds)
		}
		if _, s := k.OpenMDS(c.fh); s != c.mds {
			t.Errorf("%s: OpenMDS = %v, want %v", c.name, s, c.mds)
		}
	}
}

func TestRotation(t *testing.T) {
	old := ring(t, 1, 1)
	before := old.SealDS(someCap)
	both, err := old.With(key(2))
	if err != nil {
		t.Fatal(err)
	}
	if both.Current() != 2 || old.Current() != 1 {
		t.Errorf("current keys %d, %d", both.Current(), old.Current())
	}
	after := both.SealDS(someCap)
	for _, fh := range []nfs4.FH{before, after} {
		if c, s := both.OpenDS(fh); s != nfs4.OK || c != someCap {
			t.Errorf("both keys: %v", s)
		}
	}
	if after[1] != 2 {
		t.Errorf("sealed with key %d", after[1])
	}
	if _, s := old.OpenDS(after); s != nfs4.ErrStale {
		t.Errorf("old ring, new handle: %v", s)
	}
	late, err := both.Without(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, s := late.OpenDS(before); s != nfs4.ErrStale {
		t.Errorf("retired key: %v", s)
	}
	if _, err := late.Without(2); err == nil {
		t.Error("the current key could be left out")
	}
}

func TestNotAKeyring(t *testing.T) {
	many := make([]Key, 17)
	for i := range many {
		many[i] = key(uint8(i))
	}
	for name, keys := range map[string][]Key{
		"none": nil, "twice": {key(1), key(1)}, "no current": {key(2)}, "too many": many,
	} {
		if _, err := NewKeyring(1, keys...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzParseKeyring(f *testing.F) {
	b, _ := ring(f, 2, 3, 1, 2).MarshalBinary()
	f.Add(b)
	f.Add(b[:40])
	f.Add([]byte{1, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		k, err := ParseKeyring(in)
		if err != nil {
			return
		}
		out, _ := k.MarshalBinary()
		again, err := ParseKeyring(out)
		if err != nil {
			t.Fatal(err)
		}
		if c, s := again.OpenDS(k.SealDS(someCap)); s != nfs4.OK || c != someCap {
			t.Fatalf("after the round trip: %v", s)
		}
	})
}

func FuzzOpen(f *testing.F) {
	k := ring(f, 7, 6, 7)
	f.Add([]byte(k.SealDS(someCap)))
	f.Add([]byte(k.SealMDS(someFH)))
	f.Add(make([]byte, 48))
	f.Fuzz(func(t *testing.T, in []byte) {
		// What opens must be what the ring itself seals: nothing else does.
		if c, s := k.OpenDS(in); s == nfs4.OK && in[1] == k.Current() && !bytes.Equal(in, k.SealDS(c)) {
			t.Fatalf("%x opens as %+v", in, c)
		}
		if h, s := k.OpenMDS(in); s == nfs4.OK && in[1] == k.Current() && !bytes.Equal(in, k.SealMDS(h)) {
			t.Fatalf("%x opens as %+v", in, h)
		}
	})
}

func BenchmarkOpenDS(b *testing.B) {
	k := ring(b, 7, 7)
	fh := k.SealDS(someCap)
	b.ReportAllocs()
	for b.Loop() {
		if _, s := k.OpenDS(fh); s != nfs4.OK {
			b.Fatal(s)
		}
	}
}
