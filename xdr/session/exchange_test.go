package session

import (
	"fmt"
	"testing"
	"time"

	"manifold/xdr/nfs4"
)

// TestExchangeTable asks every combination of: which record the owner has,
// whether verifier and principal are the record's, whether it is an update,
// and whether the owner has state, with a live lease or not. What must come
// out is said by RFC 8881 section 18.35.4, here written as a second opinion.
func TestExchangeTable(t *testing.T) {
	for _, record := range []string{"none", "unconfirmed", "confirmed"} {
		for bits := range 32 {
			c := exchangeCase{
				record:    record,
				verifier:  bits&1 != 0,
				principal: bits&2 != 0,
				update:    bits&4 != 0,
				state:     bits&8 != 0,
				lapsed:    bits&16 != 0,
			}
			t.Run(fmt.Sprintf("%+v", c), c.run)
		}
	}
}

type exchangeCase struct {
	record              string
	verifier, principal bool // the same as the record's
	update              bool
	state, lapsed       bool
}

// expect returns the status, whether the old client id comes back, and whether
// the old record goes at once.
func (c exchangeCase) expect() (status nfs4.Status, same, drops bool) {
	confirmed := c.record == "confirmed"
	switch {
	case c.update && !confirmed:
		return nfs4.ErrNoEnt, false, false
	case c.update && !c.verifier:
		return nfs4.ErrNotSame, false, false
	case c.update && !c.principal:
		return nfs4.ErrPerm, false, false
	case c.update:
		return nfs4.OK, true, false
	case confirmed && !c.principal && c.state && !c.lapsed:
		return nfs4.ErrClidInUse, false, false
	case confirmed && !c.principal:
		return nfs4.OK, false, true
	case confirmed && c.verifier:
		return nfs4.OK, true, false
	}
	return nfs4.OK, false, false
}

func (c exchangeCase) run(t *testing.T) {
	tab := New(Config{HasState: func(nfs4.ClientID) bool { return c.state }})
	var old nfs4.ClientID
	switch c.record {
	case "unconfirmed":
		old = tab.ExchangeID(start, exchangeArgsOf("a", 1), root).Res.ClientID
	case "confirmed":
		var res nfs4.CreateSessionRes
		old, res = mount(t, tab, "a", 1)
		tab.DestroySession(res.SessionID, nil, Peer{})
	}
	now, from, a := start, root, exchangeArgsOf("a", 1)
	if c.lapsed {
		now = now.Add(91 * time.Second)
	}
	if !c.verifier {
		a.ClientOwner.Verifier[0]++
	}
	if !c.principal {
		from.Principal.UID++
	}
	if c.update {
		a.Flags = nfs4.ExchgidFlagUpdConfirmedRecA
	}
	status, same, drops := c.expect()
	v := tab.ExchangeID(now, a, from)
	if v.Status != status {
		t.Fatalf("%v, want %v", v.Status, status)
	}
	if status == nfs4.OK && (v.Res.ClientID == old) != same {
		t.Errorf("client id %#x after %#x", v.Res.ClientID, old)
	}
	if confirmed := v.Res.Flags&nfs4.ExchgidFlagConfirmedR != 0; confirmed != same {
		t.Errorf("flags %#x", v.Res.Flags)
	}
	if drops != (v.Dropped != 0) || drops && v.Dropped != old {
		t.Errorf("dropped %#x", v.Dropped)
	}
	// A confirmed record that is not dropped still works; a refusal changes nothing.
	_, kept := tab.clients[old]
	if c.record == "confirmed" && kept == drops {
		t.Errorf("old record there: %t", kept)
	}
	if status != nfs4.OK && c.record == "unconfirmed" && !kept {
		t.Errorf("a refusal took the record")
	}
	if err := tab.audit(); err != nil {
		t.Error(err)
	}
}

// TestReconnect is what Linux does when its connection breaks with requests
// under way: everything again on a new connection, then, told so by the status
// flags, BIND_CONN_TO_SESSION.
func TestReconnect(t *testing.T) {
	tab := New(Config{})
	id, res := mount(t, tab, "linux", 1)
	ask := func(conn ConnID, slot, seq uint32) SeqVerdict {
		a := nfs4.SequenceArgs{SessionID: res.SessionID, SlotID: slot, SequenceID: seq, HighestSlotID: 2, CacheThis: true}
		return tab.Sequence(start, &a, Request{Conn: conn, Ops: 4, Bytes: 250, Fingerprint: uint64(slot + 1)})
	}
	done, running := ask(1, 0, 1), ask(1, 1, 1)
	tab.Done(start, done.Slot, []byte("created"))
	cb, _ := tab.Callback(id)
	tab.ConnClosed(1)
	tab.CallbackDone(&cb, false, nfs4.OK)

	if v := ask(2, 0, 1); string(v.Replay) != "created" {
		t.Errorf("the finished one: %+v", v)
	}
	if v := ask(2, 1, 1); v.Status != nfs4.ErrDelay {
		t.Errorf("the running one: %v", v.Status)
	}
	tab.Done(start, running.Slot, []byte("renamed"))
	if v := ask(2, 1, 1); string(v.Replay) != "renamed" {
		t.Errorf("the running one, later: %+v", v)
	}
	v := ask(2, 2, 1) // never arrived before
	if want := uint32(nfs4.SeqStatusCBPathDown | nfs4.SeqStatusCBPathDownSession); v.Slot == nil || v.Res.StatusFlags != want {
		t.Fatalf("the lost one: %v, flags %#x", v.Status, v.Res.StatusFlags)
	}
	tab.Done(start, v.Slot, []byte("removed"))

	bound, status := tab.BindConn(&nfs4.BindConnToSessionArgs{SessionID: res.SessionID, Dir: nfs4.BindForeOrBoth}, Peer{Conn: 2})
	if status != nfs4.OK || bound.Dir != nfs4.BindBoth || bound.SessionID != res.SessionID {
		t.Fatalf("%v %+v", status, bound)
	}
	if v = ask(2, 2, 2); v.Res.StatusFlags != 0 {
		t.Errorf("flags %#x", v.Res.StatusFlags)
	}
	again, status := tab.Callback(id)
	if status != nfs4.OK || again.Conn != 2 || again.Slot != cb.Slot || again.Sequence != cb.Sequence {
		t.Errorf("%v: %+v after %+v", status, again, cb)
	}
}

// TestRestart is what Linux does when the server restarts under it.
func TestRestart(t *testing.T) {
	before, after := New(Config{ClientIDHigh: 1}), New(Config{ClientIDHigh: 2, Seed: [32]byte{2}})
	id, res := mount(t, before, "linux", 1)
	seq := nfs4.SequenceArgs{SessionID: res.SessionID, SequenceID: 1}
	if v := after.Sequence(start, &seq, Request{Conn: 9, Ops: 2}); v.Status != nfs4.ErrBadSession {
		t.Errorf("SEQUENCE: %v", v.Status)
	}
	if status := after.DestroySession(res.SessionID, nil, Peer{}); status != nfs4.ErrBadSession {
		t.Errorf("DESTROY_SESSION: %v", status)
	}
	create := nfs4.CreateSessionArgs{ClientID: id, Sequence: 2, ForeChanAttrs: linuxFore(), BackChanAttrs: linuxBack()}
	if p := after.PlanSession(start, &create, root); p.Status != nfs4.ErrStaleClientID {
		t.Errorf("CREATE_SESSION: %v", p.Status)
	}
	v := after.ExchangeID(start, exchangeArgsOf("linux", 1), root)
	if v.Status != nfs4.OK || v.Res.Flags&nfs4.ExchgidFlagConfirmedR != 0 || v.Res.ClientID == id {
		t.Fatalf("EXCHANGE_ID: %v %+v", v.Status, v.Res)
	}
	create.ClientID, create.Sequence = v.Res.ClientID, v.Res.SequenceID
	p := after.PlanSession(start, &create, root)
	if p.Status != nfs4.OK || p.NeedsRecord == nil || p.NeedsRecord.Verifier != (nfs4.Verifier{1}) {
		t.Fatalf("CREATE_SESSION: %v %+v", p.Status, p.NeedsRecord)
	}
	p.MayReclaim = true
	if after.CommitSession(start, &p); !after.MayReclaim(v.Res.ClientID) {
		t.Error("no right to reclaim")
	}
	if status := after.ReclaimComplete(v.Res.ClientID, &nfs4.ReclaimCompleteArgs{}); status != nfs4.OK || after.MayReclaim(v.Res.ClientID) {
		t.Errorf("RECLAIM_COMPLETE: %v", status)
	}
}
