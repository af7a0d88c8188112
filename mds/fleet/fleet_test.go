package fleet

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/mds/ns"
	"manifold/mds/store"
	"manifold/mds/store/storetest"
	"manifold/xdr/nfs4"
)

// load opens a fleet on what is in m.
func load(t *testing.T, m *storetest.Mem) *Fleet {
	t.Helper()
	st := m.Open()
	t.Cleanup(func() { st.Close() })
	f, err := Load(t.Context(), st, Defaults{Unit: 1 << 20}, zaptest.NewLogger(t), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// hello is a data server that introduces itself.
func hello(uuid byte, name string, addrs ...string) control.Hello {
	h := control.Hello{UUID: [16]byte{uuid}, Name: name, Usage: control.Usage{CapacityBytes: 100 << 30, FreeBytes: 90 << 30, UsedBytes: 10 << 30}}
	for _, a := range addrs {
		h.Addresses = append(h.Addresses, layout.TCP(netip.MustParseAddrPort(a)))
	}
	return h
}

func register(t *testing.T, f *Fleet, h control.Hello) layout.DSID {
	t.Helper()
	id, err := f.Register(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// up registers a data server and brings it up.
func up(t *testing.T, f *Fleet, h control.Hello) layout.DSID {
	t.Helper()
	id := register(t, f, h)
	f.Attached(id, h)
	f.Ready(id)
	return id
}

func stateOf(t *testing.T, f *Fleet, id layout.DSID) State {
	t.Helper()
	for _, i := range f.List() {
		if i.ID == id {
			return i.State
		}
	}
	t.Fatalf("no data server %d", id)
	return ""
}

func TestRegister(t *testing.T) {
	m := &storetest.Mem{}
	f := load(t, m)
	var moved []layout.DSID
	f.Moved = func(id layout.DSID) { moved = append(moved, id) }
	a, b := register(t, f, hello(1, "a", "10.0.0.1:2049")), register(t, f, hello(2, "b", "10.0.0.2:2049"))
	if a == 0 || b == 0 || a == b {
		t.Fatalf("numbers %d and %d", a, b)
	}
	if again := register(t, f, hello(1, "a", "10.0.0.1:2049")); again != a {
		t.Errorf("number %d, then %d", a, again)
	}
	if _, err := f.Register(t.Context(), hello(3, "a", "10.0.0.3:2049")); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a name twice: %v", err)
	}
	if len(moved) != 0 {
		t.Errorf("moved: %v", moved)
	}
	if id := register(t, f, hello(1, "a", "10.0.0.9:2049")); id != a || len(moved) != 1 || moved[0] != a {
		t.Errorf("new address: number %d, moved %v", id, moved)
	}
	// All of it is durable, and numbers are not given again.
	f = load(t, m)
	list := f.List()
	if len(list) != 2 || list[0].Addresses[0] != "10.0.0.9:2049" || list[1].Name != "b" || list[0].State != Down {
		t.Errorf("after a restart: %+v", list)
	}
	if err := f.SetRemoved(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Register(t.Context(), hello(2, "b", "10.0.0.2:2049")); !errors.Is(err, errRemoved) {
		t.Errorf("a removed one comes back: %v", err)
	}
	f = load(t, m)
	if c := register(t, f, hello(4, "b", "10.0.0.2:2049")); c == a || c == b {
		t.Errorf("number %d again", c) // the name is free, the number is not
	}
	if err := f.SetDraining(t.Context(), 99, true); err == nil {
		t.Error("an unknown data server drains")
	}
}

// TestRegisterNotKept: a registration that did not become durable did not happen.
func TestRegisterNotKept(t *testing.T) {
	fail := errors.New("disk on fire")
	var failing bool
	m := &storetest.Mem{}
	m.Fail = func([]store.Write) error {
		if failing {
			return fail
		}
		return nil
	}
	f := load(t, m)
	failing = true
	if _, err := f.Register(t.Context(), hello(1, "a", "10.0.0.1:2049")); err == nil {
		t.Fatal("registered without a store")
	}
	if n := len(f.List()); n != 0 {
		t.Errorf("%d data servers are shown", n)
	}
	failing = false
	f = load(t, m) // a store that failed once takes nothing more
	id := register(t, f, hello(1, "a", "10.0.0.1:2049"))
	if list := load(t, m).List(); len(list) != 1 || list[0].ID != id {
		t.Errorf("after a restart: %+v", list)
	}
}

func TestStates(t *testing.T) {
	m := &storetest.Mem{}
	f := load(t, m)
	h := hello(1, "a", "10.0.0.1:2049")
	id := register(t, f, h)
	f.Ready(id) // not attached: it means nothing
	if s := stateOf(t, f, id); s != Down {
		t.Errorf("registered: %s", s)
	}
	f.Attached(id, h)
	if s := stateOf(t, f, id); s != Down {
		t.Errorf("attached, not caught up: %s", s)
	}
	f.Ready(id)
	if s := stateOf(t, f, id); s != Up {
		t.Errorf("ready: %s", s)
	}
	f.Heartbeat(id, control.Usage{CapacityBytes: 5, FreeBytes: 3})
	if s := f.Space(); s.Total != 5 || s.Free != 3 || s.Avail != 3 {
		t.Errorf("space %+v", s)
	}
	if err := f.SetDraining(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	if s := stateOf(t, f, id); s != Draining {
		t.Errorf("draining: %s", s)
	}
	f.Detached(id, errors.New("gone"))
	if s := stateOf(t, f, id); s != Down {
		t.Errorf("detached: %s", s)
	}
	f = load(t, m)
	up(t, f, h)
	if s := stateOf(t, f, id); s != Draining {
		t.Errorf("after a restart: %s", s)
	}
	if err := f.SetRemoved(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if ids := f.All(); len(ids) != 0 {
		t.Errorf("removed and still there: %v", ids)
	}
	if s := f.Space(); s.Total != 0 {
		t.Errorf("space %+v", s)
	}
}

func TestPlace(t *testing.T) {
	f := load(t, &storetest.Mem{})
	if _, err := f.Place(ns.Policy{}, 1); !errors.Is(err, nfs4.ErrDelay) {
		t.Errorf("no data server: %v", err)
	}
	h := hello(1, "a", "10.0.0.1:2049")
	a := up(t, f, h)
	b := up(t, f, hello(2, "b", "10.0.0.2:2049"))
	c := up(t, f, hello(3, "c", "10.0.0.3:2049"))
	l, err := f.Place(ns.Policy{}, 1)
	if err != nil || len(l.DS) != 3 || l.Unit != 1<<20 {
		t.Errorf("defaults: %+v, %v", l, err)
	}
	l, err = f.Place(ns.Policy{Width: 2, Unit: 65536}, 1)
	if err != nil || len(l.DS) != 2 || l.Unit != 65536 {
		t.Errorf("a policy: %+v, %v", l, err)
	}
	if err := f.SetDraining(t.Context(), a, true); err != nil {
		t.Fatal(err)
	}
	f.Detached(b, errors.New("gone"))
	for ino := range uint64(20) {
		if l, err := f.Place(ns.Policy{}, ino); err != nil || len(l.DS) != 1 || l.DS[0] != c {
			t.Fatalf("one is draining, one down: %+v, %v", l, err)
		}
	}
	f.Heartbeat(c, control.Usage{CapacityBytes: 100 << 30})
	if _, err := f.Place(ns.Policy{}, 1); !errors.Is(err, nfs4.ErrNoSpc) {
		t.Errorf("all full: %v", err)
	}
}

func TestDevices(t *testing.T) {
	f := load(t, &storetest.Mem{})
	a := up(t, f, hello(1, "a", "10.0.0.1:2049"))
	b := up(t, f, hello(2, "b", "0.0.0.0:2050"))
	c := up(t, f, hello(3, "c", "[::]:2051", "10.0.0.3:2051"))
	local4, other4, local6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1")
	all := []layout.DSID{a, b, c}
	d, err := f.Device(all, local4)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"10.0.0.1:2049", "192.0.2.1:2050", "192.0.2.1:2051"} {
		if got := d.Paths[i][0].AddrPort.String(); got != want {
			t.Errorf("data server %d is announced at %s, want %s", all[i], got, want)
		}
	}
	again, _ := f.Device(all, local4)
	far, _ := f.Device(all, other4)
	if again.ID != d.ID || far.ID == d.ID {
		t.Errorf("ids %x, %x, %x", d.ID, again.ID, far.ID)
	}
	// 0.0.0.0 cannot be reached over IPv6; [::] can.
	if _, err := f.Device([]layout.DSID{b}, local6); err == nil {
		t.Error("0.0.0.0 is announced to a client that came by IPv6")
	}
	if six, err := f.Device([]layout.DSID{c}, local6); err != nil || six.Paths[0][0].AddrPort.String() != "[2001:db8::1]:2051" {
		t.Errorf("[::]: %+v, %v", six, err)
	}
	// A client whose own address is not known gets what needs none.
	if x, err := f.Device([]layout.DSID{c}, netip.Addr{}); err != nil || len(x.Paths[0]) != 1 {
		t.Errorf("no local address: %+v, %v", x, err)
	}
	if got, ok := f.DeviceByID(d.ID); !ok || got.ID != d.ID {
		t.Error("a device that was told is not known")
	}
	if _, ok := f.DeviceByID(nfs4.DeviceID{1}); ok {
		t.Error("a device that was never told is known")
	}
	ids := f.Devices()
	if len(ids) != 4 || ids[0] == ids[1] {
		t.Errorf("devices %x", ids)
	}
	if _, err := f.Device([]layout.DSID{a, 99}, local4); err == nil {
		t.Error("a device of a data server that is none")
	}
	if err := f.SetRemoved(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Device(all, local4); err == nil {
		t.Error("a device of a removed data server")
	}
}

func TestSpaceOfOneDisk(t *testing.T) {
	f := load(t, &storetest.Mem{})
	for i := range byte(3) {
		h := hello(i+1, string('a'+rune(i)), "10.0.0.1:2049")
		h.Usage.Disk = "disk-x"
		if i == 2 {
			h.Usage.Disk = "disk-y"
		}
		up(t, f, h)
	}
	if s := f.Space(); s.Total != 200<<30 || s.Free != 180<<30 {
		t.Errorf("two disks of 100 GiB: %+v", s)
	}
}

func TestFits(t *testing.T) {
	f := load(t, &storetest.Mem{})
	for i := range byte(4) { // two of them on one disk, each of 90 GiB free
		h := hello(i+1, string('a'+rune(i)), "10.0.0.1:2049")
		switch i {
		case 0, 1:
			h.Usage.Disk = "disk-x"
		case 3:
			h.Usage = control.Usage{}
		}
		up(t, f, h)
	}
	for _, c := range []struct {
		ds   []layout.DSID
		gib  uint64
		want bool
	}{
		{[]layout.DSID{1}, 90, true}, {[]layout.DSID{1}, 91, false}, {[]layout.DSID{1, 2}, 90, true}, {[]layout.DSID{1, 2}, 91, false},
		{[]layout.DSID{1, 3}, 180, true}, {[]layout.DSID{1, 3}, 181, false}, {[]layout.DSID{1, 2, 3}, 136, false}, {[]layout.DSID{4}, 1 << 30, true},
	} {
		if got := f.Fits(c.ds, c.gib<<30); got != c.want {
			t.Errorf("%d GiB on %v: %v, want %v", c.gib, c.ds, got, c.want)
		}
	}
}
