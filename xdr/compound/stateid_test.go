package compound

import (
	"strings"
	"testing"

	"manifold/xdr/nfs4"
	"manifold/xdr/session"
)

// TestCurrentStateid: which operations set, clear, save and restore it (RFC
// 8881 sections 8.2.3 and 16.2.3.1.2). The last operation answers the stateid
// that the special one stands for: LOCKU by seqid 0, CLOSE by the exact seqid.
func TestCurrentStateid(t *testing.T) {
	const bad = ^uint32(0)
	for _, tc := range []struct {
		words string
		other byte // of the stateid: the length of the name opened
		seqid uint32
	}{
		{"putfh:a close", 0, bad},
		{"putfh:a open:ff close", 2, 7},
		{"putfh:a open:ff locku", 2, 0},
		{"putfh:a open:xf locku", 2, 0}, // sets the stateid before the filehandle
		{"putfh:a open:xf close", 2, 7},
		{"putfh:a open:ff getattr getfh close", 2, 7},
		{"putfh:a open:ff link locku", 0, bad}, // no saved filehandle
		{"putfh:a open:ff open:fff locku", 3, 0},
		{"putfh:a open:ff putfh:a close", 0, bad},
		{"putfh:a open:ff putfh:b close", 0, bad},
		{"putfh:a open:ff lookup:b close", 0, bad},
		{"putfh:a open:ff create:b close", 0, bad},
		{"putfh:a open:ff savefh close", 2, 7},
		{"putfh:a open:ff savefh putfh:b close", 0, bad},
		{"putfh:a open:ff savefh putfh:b restorefh close", 2, 7},
		{"putfh:a savefh open:ff restorefh close", 0, bad},
		{"putfh:a open:ff savefh putfh:b open:f restorefh close", 2, 7},
		{"putfh:a open:ff savefh putfh:b open:f close", 1, 7},
		{"putfh:a open:ff secinfo putfh:a close", 0, bad},
		{"putfh:a open:ff free", 2, 0},
		{"putfh:a open:ff secinfo free", 0, bad}, // has no filehandle any more
	} {
		run(t, strings.ReplaceAll(tc.words, " ", "_"), session.Config{}, func(t *testing.T, e *env) {
			e.login(nil)
			r := e.say("seq " + tc.words)
			if tc.seqid == bad {
				if r.status != nfs4.ErrBadStateID && r.status != nfs4.ErrNoFileHandle {
					t.Errorf("%v; want BAD_STATEID", r)
				}
				return
			}
			want := nfs4.Stateid{Seqid: tc.seqid, Other: [12]byte{1, tc.other}}
			if got, ok := r.last().(*nfs4.Stateid); !ok || *got != want {
				t.Errorf("%v: %v, want %v", r, got, want)
			}
		})
	}
	run(t, "forgotten with the compound", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		e.want("seq putfh:a open:ff savefh", "OK SEQUENCE=OK PUTFH=OK OPEN=OK SAVEFH=OK")
		e.want("seq getfh", "NOFILEHANDLE SEQUENCE=OK GETFH=NOFILEHANDLE")
		e.want("seq restorefh", "RESTOREFH SEQUENCE=OK RESTOREFH=RESTOREFH")
		e.want("seq putfh:a close", "BAD_STATEID SEQUENCE=OK PUTFH=OK CLOSE=BAD_STATEID")
	})
}

// TestResolve: only the special stateid is replaced, and what it is replaced
// by keeps its seqid where that matters.
func TestResolve(t *testing.T) {
	own := nfs4.Stateid{Seqid: 3, Other: [12]byte{9}}
	for num, seqid := range map[nfs4.OpNum]uint32{
		nfs4.OpRead: 0, nfs4.OpSetattr: 0, nfs4.OpLock: 0, nfs4.OpFreeStateid: 0,
		nfs4.OpClose: 3, nfs4.OpOpenDowngrade: 3, nfs4.OpLayoutGet: 3, nfs4.OpLayoutCommit: 3, nfs4.OpLayoutReturn: 3,
	} {
		c := Call{num: num}
		c.SetStateid(own)
		id := nfs4.StateidCurrent()
		if s := c.Resolve(&id); s != nfs4.OK || id != (nfs4.Stateid{Seqid: seqid, Other: own.Other}) {
			t.Errorf("%v: %v, %v", num, id, s)
		}
		c.SetStateid(nfs4.StateidBypass()) // a READ may have used it: stays what it is
		id = nfs4.StateidCurrent()
		if s := c.Resolve(&id); s != nfs4.OK || !id.IsBypass() {
			t.Errorf("%v: %v, %v", num, id, s)
		}
	}
	for _, id := range []nfs4.Stateid{{}, own, {Seqid: 2}, nfs4.StateidBypass()} {
		var c Call
		if got := id; c.Resolve(&got) != nfs4.OK || got != id {
			t.Errorf("%v became %v", id, got)
		}
	}
}

// TestFilehandle: SAVEFH and RESTOREFH carry the role's file along.
func TestFilehandle(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		for words, want := range map[string]string{
			"putfh:a getfh":                                    "a",
			"putfh:a lookup:b lookup:c getfh":                  "a/b/c",
			"putfh:a savefh lookup:b getfh":                    "a/b",
			"putfh:a savefh lookup:b restorefh lookup:d getfh": "a/d",
		} {
			r := e.say("seq " + words)
			if got, ok := r.last().(*nfs4.GetFHRes); !ok || string(got.Object) != want {
				t.Errorf("%s: %v", words, r)
			}
		}
		if got := e.say("seq putfh:abc savefh putfh:x restorefh getattr").last().(*nfs4.GetattrRes).ObjAttributes.Size; got != 3 {
			t.Errorf("the file's name has %d bytes", got)
		}
	})
}
