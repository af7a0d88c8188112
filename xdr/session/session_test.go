package session

import (
	"fmt"
	"testing"
	"time"

	"manifold/xdr/nfs4"
)

var (
	start = time.Unix(1e9, 0)
	root  = Peer{Conn: 1, Principal: Principal{Flavor: 1}, Remote: "192.0.2.1:900", Minor: 2}
)

// linuxFore and linuxBack are what Linux asks for with 1 MiB of wsize.
func linuxFore() nfs4.ChannelAttrs {
	return nfs4.ChannelAttrs{
		MaxRequestSize: 1049620, MaxResponseSize: 1049480, MaxResponseSizeCached: 1300, MaxOperations: 8, MaxRequests: 64,
	}
}

func linuxBack() nfs4.ChannelAttrs {
	return nfs4.ChannelAttrs{MaxRequestSize: 4096, MaxResponseSize: 4096, MaxOperations: 2, MaxRequests: 16}
}

func exchangeArgsOf(owner string, verf byte) *nfs4.ExchangeIDArgs {
	return &nfs4.ExchangeIDArgs{ClientOwner: nfs4.ClientOwner{OwnerID: []byte(owner), Verifier: nfs4.Verifier{verf}}}
}

// mount makes a client with one session, as a mount does.
func mount(t testing.TB, tab *Table, owner string, conn ConnID) (nfs4.ClientID, nfs4.CreateSessionRes) {
	t.Helper()
	v := tab.ExchangeID(start, exchangeArgsOf(owner, 1), root)
	if v.Status != nfs4.OK {
		t.Fatal(v.Status)
	}
	p := tab.PlanSession(start, &nfs4.CreateSessionArgs{
		ClientID: v.Res.ClientID, Sequence: v.Res.SequenceID,
		Flags:         nfs4.CreateSessionFlagPersist | nfs4.CreateSessionFlagConnBackChan,
		ForeChanAttrs: linuxFore(), BackChanAttrs: linuxBack(),
		CBProgram: 0x40000000, SecParms: []nfs4.CallbackSecParms{{Flavor: nfs4.SecFlavorSys}},
	}, Peer{Conn: conn, Principal: root.Principal})
	if p.Status != nfs4.OK {
		t.Fatal(p.Status)
	}
	if _, status := tab.CommitSession(start, &p); status != nfs4.OK {
		t.Fatal(status)
	}
	return v.Res.ClientID, p.Res
}

func TestLinuxSession(t *testing.T) {
	_, res := mount(t, New(Config{}), "linux", 1)
	want := linuxFore()
	want.MaxResponseSizeCached = 8 << 10 // OPEN with LAYOUTGET does not fit into 1300
	if fmt.Sprint(res.ForeChanAttrs) != fmt.Sprint(want) {
		t.Errorf("fore %+v, want %+v", res.ForeChanAttrs, want)
	}
	if back := linuxBack(); fmt.Sprint(res.BackChanAttrs) != fmt.Sprint(back) {
		t.Errorf("back %+v, want %+v", res.BackChanAttrs, back)
	}
	if res.Flags != nfs4.CreateSessionFlagConnBackChan {
		t.Errorf("flags %d", res.Flags)
	}
}

func TestNegotiate(t *testing.T) {
	tab := New(Config{MaxRequest: 5000, MaxResponse: 6000, MaxCached: 2000, MaxOps: 3, MaxSlots: 5000, MaxBackSlots: 3})
	attrs := func(req, resp, cached, ops, slots uint32) nfs4.ChannelAttrs {
		return nfs4.ChannelAttrs{
			MaxRequestSize: req, MaxResponseSize: resp, MaxResponseSizeCached: cached, MaxOperations: ops, MaxRequests: slots,
		}
	}
	for _, c := range []struct {
		name       string
		asked      nfs4.ChannelAttrs
		fore, back nfs4.ChannelAttrs
		fs, bs     nfs4.Status
	}{
		{"large", attrs(1<<30, 1<<30, 1<<30, 1<<30, 1<<30), attrs(5000, 6000, 2000, 8, 1024), attrs(5000, 6000, 2000, 8, 3), 0, 0},
		{"small", attrs(200, 300, 10, 2, 1), attrs(200, 300, 10, 2, 1), attrs(200, 300, 10, 2, 1), 0, 0},
		{"generous", attrs(4096, 4096, 1024, 8, 1), attrs(4096, 4096, 2000, 8, 1), attrs(4096, 4096, 1024, 8, 1), 0, 0},
		{"not over the reply", attrs(4096, 1500, 1024, 8, 1), attrs(4096, 1500, 1500, 8, 1), attrs(4096, 1500, 1024, 8, 1), 0, 0},
		{"at its word", attrs(4096, 4096, 1023, 8, 1), attrs(4096, 4096, 1023, 8, 1), attrs(4096, 4096, 1023, 8, 1), 0, 0},
		{"no slots", attrs(4096, 4096, 0, 8, 0), attrs(4096, 4096, 0, 8, 1), attrs(4096, 4096, 0, 8, 0), 0, 0},
		{"one operation", attrs(4096, 4096, 0, 1, 1), attrs(4096, 4096, 0, 1, 1), attrs(0, 0, 0, 0, 0), 0, nfs4.ErrTooSmall},
		{"least", attrs(128, 128, 0, 2, 1), attrs(128, 128, 0, 2, 1), attrs(128, 128, 0, 2, 1), 0, 0},
		{"request", attrs(127, 128, 0, 2, 1), attrs(0, 0, 0, 0, 0), attrs(0, 0, 0, 0, 0), nfs4.ErrTooSmall, nfs4.ErrTooSmall},
		{"response", attrs(128, 127, 0, 2, 1), attrs(0, 0, 0, 0, 0), attrs(0, 0, 0, 0, 0), nfs4.ErrTooSmall, nfs4.ErrTooSmall},
		{"no operation", attrs(128, 128, 0, 0, 1), attrs(0, 0, 0, 0, 0), attrs(0, 0, 0, 0, 0), nfs4.ErrTooSmall, nfs4.ErrTooSmall},
	} {
		c.asked.HeaderPadSize, c.asked.RDMAIRD = 512, []uint32{9}
		fore, fs := tab.negotiateFore(&c.asked)
		if fs != c.fs || fmt.Sprint(fore) != fmt.Sprint(c.fore) {
			t.Errorf("%s: fore %v %+v, want %v %+v", c.name, fs, fore, c.fs, c.fore)
		}
		back, bs := tab.negotiateBack(&c.asked, true)
		if bs != c.bs || fmt.Sprint(back) != fmt.Sprint(c.back) {
			t.Errorf("%s: back %v %+v, want %v %+v", c.name, bs, back, c.bs, c.back)
		}
	}
	if _, status := tab.negotiateBack(&nfs4.ChannelAttrs{}, true); status != nfs4.ErrTooSmall {
		t.Errorf("wanted back channel of nothing: %v", status)
	}
}

// TestExchangeFlags: Linux fails the mount for any bit that it does not know,
// UPD_CONFIRMED_REC_A among them.
func TestExchangeFlags(t *testing.T) {
	const linuxMask = 0x80070107
	tab := New(Config{Role: ^uint32(0), Echo: ^uint32(0)})
	for _, flags := range []uint32{0, 0x101, nfs4.ExchgidFlagArgsMask42 &^ nfs4.ExchgidFlagUpdConfirmedRecA} {
		a := exchangeArgsOf("linux", 1)
		a.Flags = flags
		if v := tab.ExchangeID(start, a, root); v.Status != nfs4.OK || v.Res.Flags&^linuxMask != 0 {
			t.Errorf("flags %#x: %v %#x", flags, v.Status, v.Res.Flags)
		} else if v.Res.Flags&nfs4.ExchgidFlagConfirmedR != 0 {
			t.Errorf("flags %#x: confirmed", flags)
		}
	}
	old, fence := root, exchangeArgsOf("linux", 1)
	old.Minor, fence.Flags = 1, nfs4.ExchgidFlagSuppFenceOps
	if v := tab.ExchangeID(start, fence, old); v.Status != nfs4.ErrInval {
		t.Errorf("a flag of minor version 2 in minor version 1: %v", v.Status)
	}
	mount(t, tab, "linux", 1)
	a := exchangeArgsOf("linux", 1)
	a.Flags = nfs4.ExchgidFlagUpdConfirmedRecA
	if v := tab.ExchangeID(start, a, root); v.Res.Flags != nfs4.ExchgidFlagConfirmedR|nfs4.ExchgidFlagMaskPNFS {
		t.Errorf("update: %v %#x", v.Status, v.Res.Flags)
	}
}

func TestServerIdentity(t *testing.T) {
	cfg := Config{
		Owner: nfs4.ServerOwner{MinorID: 3, MajorID: []byte("mds")}, Scope: []byte("cluster"),
		ImplID: &nfs4.ImplID{Domain: []byte("example.org"), Name: []byte("manifold")},
	}
	res := New(cfg).ExchangeID(start, exchangeArgsOf("a", 1), root).Res
	if string(res.ServerOwner.MajorID) != "mds" || res.ServerOwner.MinorID != 3 || string(res.ServerScope) != "cluster" {
		t.Errorf("%+v", res)
	}
	if len(res.ServerImplID) != 1 || string(res.ServerImplID[0].Name) != "manifold" {
		t.Errorf("%+v", res.ServerImplID)
	}
	if res.StateProtect.How != nfs4.StateProtectNone {
		t.Errorf("%+v", res.StateProtect)
	}
}

// TestNoAliasing: what the Table keeps shares no memory with a request, whose
// buffer goes back to its pool.
func TestNoAliasing(t *testing.T) {
	tab := New(Config{})
	buf := []byte("owner impl domain machine")
	e := &nfs4.ExchangeIDArgs{ClientImplID: []nfs4.ImplID{{Name: buf[6:10], Domain: buf[11:17]}}}
	e.ClientOwner.OwnerID = buf[:5]
	id := tab.ExchangeID(start, e, root).Res.ClientID
	gids := []uint32{4, 5}
	p := tab.PlanSession(start, &nfs4.CreateSessionArgs{
		ClientID: id, Sequence: 1, Flags: nfs4.CreateSessionFlagConnBackChan,
		ForeChanAttrs: linuxFore(), BackChanAttrs: linuxBack(),
		SecParms: []nfs4.CallbackSecParms{
			{Flavor: nfs4.SecFlavorNone},
			{Flavor: nfs4.SecFlavorSys, Sys: nfs4.AuthSysParms{MachineName: buf[18:], UID: 3, GIDs: gids}},
			{Flavor: nfs4.SecFlavorSys, Sys: nfs4.AuthSysParms{UID: 9}},
		},
	}, root)
	clear(buf)
	clear(gids)
	tab.CommitSession(start, &p)
	cb, status := tab.Callback(id)
	if status != nfs4.OK {
		t.Fatal(status)
	}
	sys := cb.Sec.Sys
	if cb.Sec.Flavor != nfs4.SecFlavorSys || string(sys.MachineName) != "machine" || sys.UID != 3 || fmt.Sprint(sys.GIDs) != "[4 5]" {
		t.Errorf("%+v", cb.Sec)
	}
	info := tab.Clients()[0]
	if string(info.Owner) != "owner" || info.ImplName != "impl" || info.ImplDomain != "domain" || info.Remote != root.Remote {
		t.Errorf("%+v", info)
	}
	if string(p.NeedsRecord.OwnerID) != "owner" || p.NeedsRecord.ID != id || p.NeedsRecord.ImplName != "impl" {
		t.Errorf("%+v", p.NeedsRecord)
	}
}

// TestReplayIsACopy: a replay that is being sent is not touched by the slot's
// next request.
func TestReplayIsACopy(t *testing.T) {
	tab := New(Config{})
	_, res := mount(t, tab, "a", 1)
	ask := func(seq uint32) SeqVerdict {
		return tab.Sequence(start, &nfs4.SequenceArgs{SessionID: res.SessionID, SequenceID: seq, CacheThis: true}, Request{Conn: 1, Ops: 2})
	}
	reply := []byte("first")
	tab.Done(start, ask(1).Slot, reply)
	copy(reply, "XXXXX")
	replay := ask(1).Replay
	tab.Done(start, ask(2).Slot, []byte("other"))
	if string(replay) != "first" {
		t.Errorf("replay is %q", replay)
	}
	if again := ask(2).Replay; string(again) != "other" {
		t.Errorf("replay is %q", again)
	}
}

func TestSequenceIDsWrap(t *testing.T) {
	tab := New(Config{})
	id, res := mount(t, tab, "a", 1)
	slot := tab.sessions[res.SessionID].slots[0]
	slot.seq, slot.used = 1<<32-1, true
	v := tab.Sequence(start, &nfs4.SequenceArgs{SessionID: res.SessionID, SequenceID: 0}, Request{Conn: 1, Ops: 2})
	if v.Slot == nil {
		t.Fatalf("after 2^32-1 comes 0: %v", v.Status)
	}
	tab.Done(start, v.Slot, nil)
	v = tab.Sequence(start, &nfs4.SequenceArgs{SessionID: res.SessionID, SequenceID: 0}, Request{Conn: 1, Ops: 2})
	if v.Status != nfs4.ErrRetryUncachedRep {
		t.Fatalf("retry of 0: %v", v.Status)
	}
	back := &tab.sessions[res.SessionID].backSlots[0]
	back.seq = 1<<32 - 1
	cb, _ := tab.Callback(id)
	if cb.Sequence != 0 {
		t.Fatalf("callback %d", cb.Sequence)
	}
	tab.CallbackDone(&cb, true, nfs4.OK)
	if cb, _ = tab.Callback(id); cb.Sequence != 1 {
		t.Fatalf("callback %d", cb.Sequence)
	}
}

func TestIDs(t *testing.T) {
	a, b := New(Config{ClientIDHigh: 1}), New(Config{ClientIDHigh: 2, Seed: [32]byte{1}})
	seen := map[nfs4.SessionID]bool{}
	for i := range 100 {
		for _, tab := range []*Table{a, b} {
			id, res := mount(t, tab, fmt.Sprint(i), 1)
			if uint32(id>>32) != tab.cfg.ClientIDHigh || seen[res.SessionID] {
				t.Fatalf("client id %#x, session id %x", id, res.SessionID)
			}
			seen[res.SessionID] = true
		}
	}
	// The lower half comes round again, but never to a client that lives, nor to 0.
	a.lastClient = 1<<32 - 2
	v := a.ExchangeID(start, exchangeArgsOf("x", 1), root)
	w := a.ExchangeID(start, exchangeArgsOf("y", 1), root)
	if v.Res.ClientID != 1<<32|(1<<32-1) || w.Res.ClientID != 1<<32|101 {
		t.Errorf("%#x, %#x", v.Res.ClientID, w.Res.ClientID)
	}
}

// TestCallbackOfTwoSessions: with the slots of one session taken, another
// one's are used.
func TestCallbackOfTwoSessions(t *testing.T) {
	tab := New(Config{MaxBackSlots: 1})
	id, first := mount(t, tab, "a", 1)
	_, second := mount(t, tab, "a", 2)
	one, _ := tab.Callback(id)
	two, status := tab.Callback(id)
	if status != nfs4.OK || one.Session != second.SessionID || one.Conn != 2 || two.Session != first.SessionID || two.Conn != 1 {
		t.Errorf("%v, %+v, %+v", status, one, two)
	}
	if one.MaxRequest != 4096 || one.MaxResponse != 4096 || one.MaxOps != 2 || one.Client != id {
		t.Errorf("%+v", one)
	}
	if _, status = tab.Callback(id); status != nfs4.ErrDelay {
		t.Errorf("no slot: %v", status)
	}
	tab.CallbackDone(&one, true, nfs4.OK)
	if three, status := tab.Callback(id); status != nfs4.OK || three.Session != second.SessionID || three.Sequence != 2 {
		t.Errorf("%v, %+v", status, three)
	}
	// That all slots are in use does not mean that there is no way.
	tab.ConnClosed(1)
	if !tab.CanCallback(id) || tab.CanCallback(id+1) {
		t.Error("one way is left, and only to this client")
	}
	if tab.ConnClosed(2); tab.CanCallback(id) {
		t.Error("no way is left")
	}
}

// TestMisuse: calls that have nothing to act on change nothing.
func TestMisuse(t *testing.T) {
	tab := New(Config{})
	tab.Done(start, nil, nil)
	tab.ConnClosed(4)
	tab.SetFlags(4, 1)
	tab.ClearFlags(4, 1)
	tab.wish(4, 4)
	tab.AbandonSession(&CreatePlan{})
	if d, s := tab.CommitSession(start, &CreatePlan{}); d != 0 || s != nfs4.OK {
		t.Error(d, s)
	}
	if tab.CallbackDone(&Callback{}, true, nfs4.OK) {
		t.Error("retry of nothing")
	}
	id, res := mount(t, tab, "a", 0)
	if tab.CallbackDone(&Callback{Session: res.SessionID, Slot: 99}, true, nfs4.OK) {
		t.Error("retry of nothing")
	}
	if status := tab.BackchannelCtl(nil, &nfs4.BackchannelCtlArgs{}); status != nfs4.ErrDeadSession {
		t.Error(status)
	}
	// Connection 0 is none: no callbacks through it.
	if _, status := tab.Callback(id); status != nfs4.ErrCBPathDown {
		t.Error(status)
	}
	if err := tab.audit(); err != nil {
		t.Error(err)
	}
}

// steady runs SEQUENCEs of a mount with 16 connections, and keeps each reply.
func steady(tb testing.TB) func() {
	tab := New(Config{})
	_, res := mount(tb, tab, "a", 1)
	reply := make([]byte, 400)
	seq, i := [64]uint32{}, 0
	return func() {
		i++
		n := uint32(i % 64)
		seq[n]++
		a := nfs4.SequenceArgs{SessionID: res.SessionID, SlotID: n, SequenceID: seq[n], HighestSlotID: 63, CacheThis: true}
		v := tab.Sequence(start, &a, Request{Conn: ConnID(1 + i%16), Ops: 5, Bytes: 300, Fingerprint: uint64(i)})
		if v.Slot == nil {
			tb.Fatal(v.Status)
		}
		tab.Done(start, v.Slot, reply)
	}
}

func TestSequenceDoesNotAllocate(t *testing.T) {
	run := steady(t)
	for range 200 {
		run()
	}
	if n := testing.AllocsPerRun(1000, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSequence(b *testing.B) {
	run := steady(b)
	for range 200 {
		run()
	}
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}

// BenchmarkTune is one look at 4096 sessions, while memory is scarce and all are
// to be told, which takes the owner's lock.
func BenchmarkTune(b *testing.B) {
	tab := New(Config{MaxCacheBytes: 64 << 13 * 1500})
	for i := range 4096 {
		mount(b, tab, fmt.Sprint(i), ConnID(i+1))
	}
	b.ResetTimer()
	for b.Loop() {
		recalls, scarce := tab.Tune(start)
		if !scarce || len(recalls) > recallsAtOnce {
			b.Fatal(len(recalls), scarce)
		}
		for _, r := range recalls {
			tab.SlotsRecalled(&r)
			tab.sessions[r.Session].asked = 0
		}
	}
}
