package nfs4

import (
	"bytes"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"

	"manifold/xdr"
)

func TestRoundTrip(t *testing.T) {
	f := newFiller(t, 1)
	all := everything()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for range 200 {
			in, out := all[name](), all[name]()
			f.value(reflect.ValueOf(in).Elem(), "")
			b := encode(in)
			if left, err := decode(out, b); left != 0 || err != nil {
				t.Fatalf("%s: %d bytes left, error %v\nof %+v", name, left, err, in)
			}
			if !reflect.DeepEqual(in, out) {
				t.Fatalf("%s:\nencoded %+v\ndecoded %+v", name, in, out)
			}
			if len(b)%4 != 0 {
				t.Fatalf("%s: %d bytes", name, len(b))
			}
		}
	}
}

// A value decoded over an older one must not keep anything of it.
func TestDecodeOverwrites(t *testing.T) {
	f := newFiller(t, 2)
	all := everything()
	for name, make := range all {
		used := make()
		for range 50 {
			in := make()
			f.value(reflect.ValueOf(in).Elem(), "")
			if left, err := decode(used, encode(in)); left != 0 || err != nil {
				t.Fatalf("%s: %d bytes left, error %v", name, left, err)
			}
			if got, want := encode(used), encode(in); !bytes.Equal(got, want) {
				t.Fatalf("%s: %x, want %x", name, got, want)
			}
		}
	}
}

func TestTruncated(t *testing.T) {
	f := newFiller(t, 3)
	for name, make := range everything() {
		in := make()
		f.value(reflect.ValueOf(in).Elem(), "")
		b := encode(in)
		for n := range b {
			if _, err := decode(make(), b[:n:n]); err == nil {
				t.Errorf("%s: %d of %d bytes were enough", name, n, len(b))
				break
			}
		}
	}
}

func TestErrArms(t *testing.T) {
	denied := LockDenied{Offset: 1, Length: 2, LockType: LockWrite, Owner: LockOwner{3, []byte("me")}}
	for _, c := range []struct {
		in, out errCodec
		s       Status
		size    int
	}{
		{&LockRes{Denied: denied}, &LockRes{}, ErrDenied, 36},
		{&LockRes{}, &LockRes{}, ErrGrace, 0},
		{&LockTRes{Denied: denied}, &LockTRes{}, ErrDenied, 36},
		{&LockTRes{}, &LockTRes{}, ErrInval, 0},
		{&SetattrRes{BitmapOf(AttrMode)}, &SetattrRes{}, ErrPerm, 12},
		{&LayoutGetRes{WillSignalAvail: true}, &LayoutGetRes{}, ErrLayoutTryLater, 4},
		{&LayoutGetRes{}, &LayoutGetRes{}, ErrLayoutUnavailable, 0},
		{&GetDeviceInfoRes{MinCount: 77}, &GetDeviceInfoRes{}, ErrTooSmall, 4},
		{&GetDeviceInfoRes{}, &GetDeviceInfoRes{}, ErrNoEnt, 0},
		{&CopyRes{Requirements: CopyRequirements{true, false}}, &CopyRes{}, ErrOffloadNoReqs, 8},
		{&CopyRes{}, &CopyRes{}, ErrNotSupp, 0},
	} {
		var e xdr.Encoder
		c.in.EncodeErr(&e, c.s)
		d := xdr.NewDecoder(e.Bytes())
		c.out.DecodeErr(&d, c.s)
		if e.Len() != c.size || d.Err() != nil || d.Remaining() != 0 || !reflect.DeepEqual(c.in, c.out) {
			t.Errorf("%T after %v: %d bytes, %v: %+v became %+v", c.in, c.s, e.Len(), d.Err(), c.in, c.out)
		}
	}
}

// u32 returns words as XDR.
func u32(words ...uint32) []byte {
	var e xdr.Encoder
	for _, w := range words {
		e.Uint32(w)
	}
	return e.Bytes()
}

func opaque(n int) []byte {
	var e xdr.Encoder
	e.Opaque(make([]byte, n))
	return e.Bytes()
}

func TestLimits(t *testing.T) {
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	zeros := func(n int) []byte { return make([]byte, n) }
	for _, c := range []struct {
		name string
		into codec
		in   []byte
		want error
	}{
		{"filehandle of 128", &PutFHArgs{}, opaque(128), nil},
		{"filehandle of 129", &PutFHArgs{}, opaque(129), xdr.ErrTooLong},
		{"bitmap of 8 words", &GetattrArgs{}, u32(8, 1, 2, 3, 4, 5, 6, 7, 8), nil},
		{"bitmap of 9 words", &GetattrArgs{}, u32(9, 1, 2, 3, 4, 5, 6, 7, 8, 9), xdr.ErrTooLong},
		{"bitmap of 2^32-1 words", &GetattrArgs{}, u32(1<<32-1, 1), xdr.ErrTooLong},
		{"open owner of 1025", &OpenOwner{}, cat(zeros(8), opaque(1025)), xdr.ErrTooLong},
		{"name of 4097", &LookupArgs{}, opaque(4097), xdr.ErrTooLong},
		{"tag of 1025", &CompoundArgs{}, cat(opaque(1025), zeros(8)), xdr.ErrTooLong},
		{"stateids past the record", &TestStateidArgs{}, u32(4096, 0, 0, 0, 0), xdr.ErrShort},
		{"stateids past the bound", &TestStateidArgs{}, u32(4097), xdr.ErrTooLong},
		{"two impl ids", &ExchangeIDArgs{}, cat(zeros(8), u32(0, 0, 0), u32(2), zeros(40)), xdr.ErrTooLong},
		{"17 gids", &CallbackSecParms{}, cat(u32(1, 0, 0, 0, 0, 17), zeros(68)), xdr.ErrTooLong},
		{"17 sec parms", &BackchannelCtlArgs{}, cat(u32(0, 17), zeros(68)), xdr.ErrTooLong},
		{"unknown sec flavor", &CallbackSecParms{}, u32(390003), xdr.ErrValue},
		{"unknown claim", &OpenClaim{}, u32(7), xdr.ErrValue},
		{"unknown create mode", &CreateHow{}, u32(4), xdr.ErrValue},
		{"unknown state protection", &StateProtectArgs{}, u32(3), xdr.ErrValue},
		{"unknown recall", &LayoutRecall{}, u32(4), xdr.ErrValue},
		{"unknown delegation", &OpenDelegation{}, u32(6), xdr.ErrValue},
		{"bool of 2", &ReclaimCompleteArgs{}, u32(2), xdr.ErrValue},
		{"ACL of 1025", &ACL41{}, cat(u32(0, 1025), zeros(16*1025)), xdr.ErrTooLong},
		{"ACL of 1024", &ACL41{}, cat(u32(0, 1024), zeros(16*1024)), nil},
		{"who of 1025", &ACE{}, cat(u32(0, 0, 0), opaque(1025)), xdr.ErrTooLong},
		{"path of 257", &Pathname{}, cat(u32(257), zeros(4*257)), xdr.ErrTooLong},
		{"attributes past the bound", &Attrs{}, u32(1, 0, MaxAttrBytes+1), xdr.ErrTooLong},
		{"attribute value short", &Attrs{}, u32(1, 1<<AttrSize, 4, 0), xdr.ErrShort},
		{"attribute value long", &Attrs{}, u32(1, 1<<AttrSize, 12, 0, 0, 0), xdr.ErrValue},
		{"attribute bytes without a mask", &Attrs{}, u32(0, 4, 0), xdr.ErrValue},
	} {
		if _, err := decode(c.into, c.in); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}
