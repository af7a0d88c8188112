package session

import (
	"fmt"
	"testing"

	"manifold/xdr/nfs4"
)

// at is a Peer at an address.
func at(ip string, conn ConnID) Peer {
	return Peer{Conn: conn, Principal: root.Principal, Remote: fmt.Sprintf("%s:%d", ip, 600+conn), Minor: 2}
}

func planned(tab *Table, id nfs4.ClientID, seq uint32, from Peer) CreatePlan {
	return tab.PlanSession(start, &nfs4.CreateSessionArgs{
		ClientID: id, Sequence: seq, ForeChanAttrs: linuxFore(), BackChanAttrs: linuxBack(),
	}, from)
}

// TestFloodOfOwners: EXCHANGE_IDs with fresh owners from one address push out
// each other, not those of a client elsewhere that is about to be confirmed.
func TestFloodOfOwners(t *testing.T) {
	tab := New(Config{MaxUnconfirmed: 160})
	good := tab.ExchangeID(start, exchangeArgsOf("good", 1), at("192.0.2.9", 1))
	for i := range 5000 {
		if v := tab.ExchangeID(start, exchangeArgsOf(fmt.Sprint("bad", i), 1), at("[2001:db8::1]", ConnID(2+i%7))); v.Status != nfs4.OK {
			t.Fatal(v.Status)
		}
	}
	if n := len(tab.unconfirmed); n != 11 {
		t.Errorf("%d unconfirmed clients, 10 of one address may be", n)
	}
	p := planned(tab, good.Res.ClientID, good.Res.SequenceID, at("192.0.2.9", 1))
	if p.Status != nfs4.OK {
		t.Errorf("CREATE_SESSION of the good client: %v", p.Status)
	}
	tab.CommitSession(start, &p)
	if err := tab.audit(); err != nil {
		t.Error(err)
	}
	// From many addresses the oldest of all goes.
	for i := range 400 {
		tab.ExchangeID(start, exchangeArgsOf(fmt.Sprint("many", i), 1), at(fmt.Sprint("198.51.100.", i%200), 3))
	}
	if n := len(tab.unconfirmed); n != 160 {
		t.Errorf("%d unconfirmed clients", n)
	}
	if _, ok := tab.Client(good.Res.ClientID); !ok {
		t.Error("the good client is gone")
	}
	if err := tab.audit(); err != nil {
		t.Error(err)
	}
}

// TestClientsOfOneAddress: one address takes its share of the confirmed clients.
func TestClientsOfOneAddress(t *testing.T) {
	tab := New(Config{MaxClients: 10, MaxPerHost: 3})
	confirm := func(owner, ip string) (nfs4.ClientID, nfs4.Status) {
		v := tab.ExchangeID(start, exchangeArgsOf(owner, 1), at(ip, 1))
		p := planned(tab, v.Res.ClientID, v.Res.SequenceID, at(ip, 1))
		if p.Status == nfs4.OK {
			tab.CommitSession(start, &p)
		}
		return v.Res.ClientID, p.Status
	}
	var first nfs4.ClientID
	for i := range 5 {
		id, s := confirm(fmt.Sprint("bad", i), "192.0.2.1")
		if want := map[bool]nfs4.Status{true: nfs4.OK, false: nfs4.ErrDelay}[i < 3]; s != want {
			t.Errorf("client %d: %v, want %v", i, s, want)
		}
		if i == 0 {
			first = id
		}
	}
	if _, s := confirm("good", "192.0.2.2"); s != nfs4.OK {
		t.Errorf("from another address: %v", s)
	}
	tab.Drop(first)
	if _, s := confirm("bad4", "192.0.2.1"); s != nfs4.OK {
		t.Errorf("when one has left: %v", s)
	}
	if err := tab.audit(); err != nil {
		t.Error(err)
	}
	for _, c := range tab.Clients() {
		tab.Drop(c.ID)
	}
	for name, n := range tab.Census() {
		if n != 0 && name != "connections" {
			t.Errorf("%d %s are left", n, name)
		}
	}
}

// TestFaults: a client whose SEQUENCEs are out of step is given up in the end,
// one that errs now and then is not.
func TestFaults(t *testing.T) {
	tab := New(Config{MaxFaults: 5})
	id, res := mount(t, tab, "a", 1)
	sid, seq := res.SessionID, uint32(0)
	ask := func(seq uint32) nfs4.Status {
		v := tab.Sequence(start, &nfs4.SequenceArgs{SessionID: sid, SequenceID: seq}, Request{Conn: 1, Ops: 2})
		if v.Slot != nil {
			tab.Done(start, v.Slot, nil)
		}
		return v.Status
	}
	for range 50 {
		if _, over := tab.Fault(sid, ask(seq+7)); over {
			t.Fatal("given up for one error in two")
		}
		seq++
		if s := ask(seq); s != nfs4.OK {
			t.Fatal(s)
		}
	}
	for _, s := range []nfs4.Status{nfs4.OK, nfs4.ErrDelay, nfs4.ErrRetryUncachedRep, nfs4.ErrBadSession, nfs4.ErrTooManyOps} {
		for range 10 {
			if _, over := tab.Fault(sid, s); over {
				t.Fatalf("given up for %v", s)
			}
		}
	}
	for i := range 5 {
		who, over := tab.Fault(sid, ask(seq+7))
		if over != (i == 4) || who != id {
			t.Errorf("error %d: client %#x, over %v", i, who, over)
		}
	}
	if _, over := tab.Fault(nfs4.SessionID{9}, nfs4.ErrSeqMisordered); over {
		t.Error("nobody's session")
	}
}
