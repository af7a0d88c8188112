package rpc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"manifold/xdr"
)

// words makes a message out of words in hex, "..." and the like left out.
func words(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sysBody is an AUTH_SYS body: stamp, machine "ab", uid 1000, gid 100, gids 4 and 5.
const sysBody = "deadbeef 00000002 61620000 000003e8 00000064 00000002 00000004 00000005"

func TestDecodeCall(t *testing.T) {
	const proc = "00000003 00000004 00000001 "
	gids17 := strings.Repeat("00000001", 17)
	for _, tc := range []struct {
		name, in string // in: after xid and message type
		want     Stat
		err      error
		rest     string
	}{
		{"none", "00000002" + proc + "00000000 00000000 00000000 00000000 cafe0000", 0, nil, "cafe0000"},
		{"sys", "00000002" + proc + "00000001 00000020" + sysBody + "00000000 00000000", 0, nil, ""},
		{"sys without groups", "00000002" + proc + "00000001 00000014 00000000 00000000 00000001 00000002 00000000 00000000 00000000", 0, nil, ""},
		{"verifier ignored", "00000002" + proc + "00000000 00000000 00000001 00000004 00000000 11111111", 0, nil, "11111111"},
		{"rpc version 1", "00000001" + proc, RPCMismatch, nil, ""},
		{"rpc version 3, nothing after it", "00000003", RPCMismatch, nil, ""},
		{"none with a body", "00000002" + proc + "00000000 00000004 00000000 00000000 00000000", AuthBadCred, nil, ""},
		{"sys empty", "00000002" + proc + "00000001 00000000 00000000 00000000", AuthBadCred, nil, ""},
		{"sys of 17 groups", "00000002" + proc + "00000001 00000058 00000000 00000000 00000001 00000002 00000011" + gids17 + "00000000 00000000", AuthBadCred, nil, ""},
		{"sys with a tail", "00000002" + proc + "00000001 00000024" + sysBody + "00000000 00000000 00000000", AuthBadCred, nil, ""},
		{"sys with a machine of 256", "00000002" + proc + "00000001 00000118 00000000 00000100" + strings.Repeat("61", 256) + strings.Repeat("00", 16) + "00000000 00000000", AuthBadCred, nil, ""},
		{"credential over 400", "00000002" + proc + "00000001 00000191", AuthBadCred, nil, ""},
		{"verifier over 400", "00000002" + proc + "00000000 00000000 00000000 00000191", AuthBadVerf, nil, ""},
		{"flavour short", "00000002" + proc + "00000002 00000000 00000000 00000000", AuthRejectedCred, nil, ""},
		{"flavour gss", "00000002" + proc + "00000006 00000004 00000001 00000000 00000000", AuthRejectedCred, nil, ""},
		{"no version", "", 0, errMessage, ""},
		{"cut in the numbers", "00000002 00000003 00000004", 0, errMessage, ""},
		{"cut in the credential", "00000002" + proc + "00000001 00000020 00000000", 0, errMessage, ""},
		{"no verifier", "00000002" + proc + "00000000 00000000", 0, errMessage, ""},
		{"cut in the verifier", "00000002" + proc + "00000000 00000000 00000000 00000008 00000000", 0, errMessage, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c Call
			d := xdr.NewDecoder(words(t, tc.in))
			rej, reject, err := c.decodeCall(&d, &credCache{}, []uint32{AuthNone, AuthSys}, nil)
			if !errors.Is(err, tc.err) || reject != (tc.want != 0) || rej.Stat != tc.want {
				t.Fatalf("got %v, %v, %v", rej, reject, err)
			}
			if err == nil && !reject && !bytes.Equal(c.Body.Rest(), words(t, tc.rest)) {
				t.Errorf("arguments %x", c.Body.Rest())
			}
			if err == nil && !reject && (c.Prog != 3 || c.Vers != 4 || c.Proc != 1) {
				t.Errorf("call %+v", c)
			}
		})
	}
}

func TestCredential(t *testing.T) {
	var cc credCache
	for _, stamp := range []string{"deadbeef", "00000000"} {
		sys, ok := cc.sys(words(t, stamp+sysBody[8:]))
		if !ok || sys.Machine != "ab" || sys.UID != 1000 || sys.GID != 100 || len(sys.GIDs) != 2 || sys.GIDs[1] != 5 {
			t.Fatalf("got %+v, %v", sys, ok)
		}
	}
	if cc.next != 1 {
		t.Error("the stamp counts in the cache")
	}
	body := words(t, sysBody)
	if n := testing.AllocsPerRun(100, func() { cc.sys(body) }); n != 0 {
		t.Errorf("%v allocations for a known credential", n)
	}
	// More users than entries: each still gets his own.
	for i := range 20 {
		b := words(t, sysBody)
		b[15] = byte(i)
		if sys, ok := cc.sys(b); !ok || sys.UID != 0x300+uint32(i) {
			t.Fatalf("user %d got %+v", i, sys)
		}
	}
	long := Cred{Flavor: AuthSys, Sys: SysCred{Machine: strings.Repeat("m", 300), GIDs: make([]uint32, 20)}}
	var e xdr.Encoder
	long.encode(&e)
	d := xdr.NewDecoder(e.Bytes())
	if d.Uint32() != AuthSys {
		t.Fatal("flavour")
	}
	sys, ok := cc.sys(d.Opaque(maxAuth))
	if !ok || len(sys.Machine) != 255 || len(sys.GIDs) != 16 {
		t.Errorf("what is over the bounds was not cut: %d, %d, %v", len(sys.Machine), len(sys.GIDs), ok)
	}
}

func TestTooWeak(t *testing.T) {
	var c Call
	d := xdr.NewDecoder(words(t, "00000002 00000003 00000004 00000001 00000000 00000000 00000000 00000000"))
	rej, _, _ := c.decodeCall(&d, &credCache{}, []uint32{AuthSys}, nil)
	if rej.Stat != AuthTooWeak {
		t.Errorf("got %v", rej)
	}
}

func TestReject(t *testing.T) {
	for _, tc := range []struct {
		rej  Reject
		wire string // after xid 7 and REPLY
	}{
		{Reject{Stat: ProgUnavail}, "00000000 00000000 00000000 00000001"},
		{Reject{Stat: ProgMismatch, Low: 3, High: 4}, "00000000 00000000 00000000 00000002 00000003 00000004"},
		{Reject{Stat: ProcUnavail}, "00000000 00000000 00000000 00000003"},
		{Reject{Stat: GarbageArgs}, "00000000 00000000 00000000 00000004"},
		{Reject{Stat: SystemErr}, "00000000 00000000 00000000 00000005"},
		{Reject{Stat: RPCMismatch, Low: 2, High: 2}, "00000001 00000000 00000002 00000002"},
		{Reject{Stat: AuthBadCred}, "00000001 00000001 00000001"},
		{Reject{Stat: AuthRejectedCred}, "00000001 00000001 00000002"},
		{Reject{Stat: AuthBadVerf}, "00000001 00000001 00000003"},
		{Reject{Stat: AuthTooWeak}, "00000001 00000001 00000005"},
	} {
		var e xdr.Encoder
		encodeReject(&e, 7, tc.rej, AuthNone, nil)
		if want := words(t, "00000007 00000001"+tc.wire); !bytes.Equal(e.Bytes(), want) {
			t.Errorf("%v: got %x, want %x", tc.rej, e.Bytes(), want)
		}
		d := xdr.NewDecoder(e.Bytes()[8:])
		var got Reject
		if err := decodeReply(&d, nil); !errors.As(err, &got) || got != tc.rej {
			t.Errorf("%v came back as %v", tc.rej, err)
		}
		if strings.HasPrefix(tc.rej.Error(), "rpc: reply status") {
			t.Errorf("%d has no words", tc.rej.Stat)
		}
	}
}

func TestDecodeReply(t *testing.T) {
	for _, tc := range []struct {
		name, in, rest string
		bad            bool
	}{
		{"success", "00000000 00000000 00000000 00000000 12345678", "12345678", false},
		{"verifier skipped", "00000000 00000005 00000004 99999999 00000000 12345678", "12345678", false},
		{"empty", "", "", true},
		{"reply_stat 2", "00000002", "", true},
		{"no accept_stat", "00000000 00000000 00000000", "", true},
		{"accept_stat 6", "00000000 00000000 00000000 00000006", "", true},
		{"mismatch without versions", "00000000 00000000 00000000 00000002 00000001", "", true},
		{"verifier too long", "00000000 00000000 00000194", "", true},
		{"reject_stat 2", "00000001 00000002", "", true},
		{"auth_stat huge", "00000001 00000001 00010000", "", true},
		{"no auth_stat", "00000001 00000001", "", true},
	} {
		d := xdr.NewDecoder(words(t, tc.in))
		err := decodeReply(&d, nil)
		if errors.Is(err, errMessage) != tc.bad || !tc.bad && !bytes.Equal(d.Rest(), words(t, tc.rest)) {
			t.Errorf("%s: %v, rest %x", tc.name, err, d.Rest())
		}
	}
}

func FuzzDecodeCall(f *testing.F) {
	f.Add(words(f, "00000002 00000003 00000004 00000001 00000001 00000020"+sysBody+"00000000 00000000 01020304"))
	f.Add(words(f, "00000001"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Call
		cc := &credCache{}
		for range 2 { // the second time out of the cache
			d := xdr.NewDecoder(b)
			rej, reject, err := c.decodeCall(&d, cc, []uint32{AuthNone, AuthSys}, nil)
			if err != nil || reject {
				if reject && rej.Stat == 0 {
					t.Fatal("refused for no reason")
				}
				continue
			}
			if len(c.Cred.Sys.GIDs) > maxGIDs || len(c.Cred.Sys.Machine) > maxMachine {
				t.Fatalf("credential over its bounds: %+v", c.Cred)
			}
			var e xdr.Encoder
			encodeCall(&e, 1, c.Prog, c.Vers, c.Proc, &c.Cred)
			e.Raw(c.Body.Rest())
			again := xdr.NewDecoder(e.Bytes()[12:])
			var c2 Call
			if _, reject, err := c2.decodeCall(&again, cc, []uint32{AuthNone, AuthSys}, nil); reject || err != nil {
				t.Fatalf("what we send we do not take: %v", err)
			}
			if !bytes.Equal(c2.Body.Rest(), c.Body.Rest()) || c2.Cred.Sys.UID != c.Cred.Sys.UID {
				t.Fatal("changed on the way")
			}
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	f.Add(words(f, "00000000 00000000 00000000 00000000 12345678"))
	f.Add(words(f, "00000001 00000000 00000002 00000002"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := xdr.NewDecoder(b)
		var rej Reject
		if err := decodeReply(&d, nil); err != nil && !errors.As(err, &rej) && !errors.Is(err, errMessage) {
			t.Fatalf("an error of no kind: %v", err)
		}
	})
}
