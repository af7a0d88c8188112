package layout

import (
	"net/netip"
	"testing"
)

func TestUniversal(t *testing.T) {
	for _, c := range []struct{ ap, netid, text string }{
		{"192.0.2.1:2049", "tcp", "192.0.2.1.8.1"},
		{"[::ffff:192.0.2.1]:2049", "tcp", "192.0.2.1.8.1"},
		{"[2001:db8::1]:65535", "tcp6", "2001:db8::1.255.255"},
		{"[fe80::1%eth0]:1", "tcp6", "fe80::1%eth0.0.1"},
	} {
		a := TCP(netip.MustParseAddrPort(c.ap))
		if a.Netid != c.netid || a.Universal() != c.text {
			t.Errorf("TCP(%s) = %s %s", c.ap, a.Netid, a.Universal())
		}
		back, err := ParseAddress(a.Netid, a.Universal())
		if err != nil || back != a {
			t.Errorf("back: %+v, %v", back, err)
		}
	}
}

func TestBadAddress(t *testing.T) {
	for _, c := range [][2]string{
		{"tcp", ""}, {"tcp", "1.2.3.4"}, {"tcp", "1.2.3.4.8"}, {"tcp", "1.2.3.4.8.256"}, {"tcp", "1.2.3.4.8.-1"},
		{"tcp", "host.8.1"}, {"tcp", "::1.8.1"}, {"tcp6", "1.2.3.4.8.1"}, {"udp", "1.2.3.4.8.1"}, {"tcp", "."},
		{"tcp6", "::1%" + string(make([]byte, 100)) + ".8.1"},
	} {
		if a, err := ParseAddress(c[0], c[1]); err == nil {
			t.Errorf("ParseAddress(%q, %q) = %+v", c[0], c[1], a)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add("tcp", "192.0.2.1.8.1")
	f.Add("tcp6", "fe80::1%0.0.1.8.1")
	f.Fuzz(func(t *testing.T, netid, universal string) {
		a, err := ParseAddress(netid, universal)
		if err != nil {
			return
		}
		if back, err := ParseAddress(a.Netid, a.Universal()); err != nil || back != a {
			t.Fatalf("%q -> %+v -> %q -> %+v, %v", universal, a, a.Universal(), back, err)
		}
	})
}

func TestDeviceID(t *testing.T) {
	paths := func(texts ...string) (p [][]Address) {
		for _, s := range texts {
			p = append(p, []Address{TCP(netip.MustParseAddrPort(s))})
		}
		return p
	}
	a := paths("10.0.0.1:2049", "10.0.0.2:2049")
	base := NewDevice([]DSID{1, 2}, a)
	if again := NewDevice([]DSID{1, 2}, paths("10.0.0.1:2049", "10.0.0.2:2049")); again.ID != base.ID {
		t.Error("the same device has another id")
	}
	joined := [][]Address{append(a[0][:1:1], a[1]...), a[1]}
	rdma := [][]Address{{{"rdma", a[0][0].AddrPort}}, a[1]}
	for name, d := range map[string]Device{
		"other order":   NewDevice([]DSID{2, 1}, a),
		"other address": NewDevice([]DSID{1, 2}, paths("10.0.0.1:2049", "10.0.0.3:2049")),
		"other port":    NewDevice([]DSID{1, 2}, paths("10.0.0.1:2049", "10.0.0.2:2050")),
		"more paths":    NewDevice([]DSID{1, 2}, joined),
		"transport":     NewDevice([]DSID{1, 2}, rdma),
		"fewer":         NewDevice([]DSID{1}, a[:1]),
		"none":          NewDevice(nil, nil),
	} {
		if d.ID == base.ID {
			t.Errorf("%s: the same id", name)
		}
	}
}
