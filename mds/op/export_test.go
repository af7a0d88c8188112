package op

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

func rulesFor(texts ...[]string) (rules []ExportRule) {
	for i, list := range texts {
		r := ExportRule{AnonUID: uint32(i)} // which tells them apart
		for _, t := range list {
			r.Clients = append(r.Clients, netip.MustParsePrefix(t))
		}
		rules = append(rules, r)
	}
	return rules
}

func TestMatch(t *testing.T) {
	rules := rulesFor([]string{"10.1.0.0/16", "192.168.0.7/32"}, []string{"10.0.0.0/8", "fe80::/10"}, []string{"fd00::/8", "0.0.0.0/1"})
	for addr, want := range map[string]int{
		"10.1.2.3": 0, "192.168.0.7": 0, "10.2.0.0": 1, "fe80::1": 1, "fe80::1%eth0": 1, "fd00::5": 2, "127.0.0.1": 2,
		"192.168.0.8": -1, "::1": -1, "2001:db8::1": -1, "::ffff:10.1.2.3": -1, // the engine unmaps
	} {
		got := -1
		if r := match(rules, netip.MustParseAddr(addr)); r != nil {
			got = int(r.AnonUID)
		}
		if got != want {
			t.Errorf("%s: rule %d, want %d", addr, got, want)
		}
	}
	// A connection without an address is for the rule of all only.
	if match(rules, netip.Addr{}) != nil || match(append(rules, ExportRule{}), netip.Addr{}) == nil {
		t.Error("a caller without an address")
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	rules := rulesFor(slices.Repeat([]string{"10.1.0.0/16", "fd00::/8"}, 100), []string{"127.0.0.0/8", "fe80::/10"})
	for _, text := range []string{"127.0.0.1", "fe80::1%eth0", "192.168.0.1"} {
		a := netip.MustParseAddr(text)
		if n := testing.AllocsPerRun(100, func() { match(rules, a) }); n != 0 {
			t.Errorf("%s: %v allocations", text, n)
		}
	}
}

func TestSquash(t *testing.T) {
	who := func(uid, gid uint32, gids ...uint32) ns.Cred { return ns.Cred{UID: uid, GID: gid, GIDs: gids} }
	for _, c := range []struct {
		squash     Squash
		from, want ns.Cred
	}{
		{SquashNone, who(0, 0, 0, 5), who(0, 0, 0, 5)},
		{SquashNone, who(3, 4, 5), who(3, 4, 5)},
		{SquashRoot, who(0, 0), who(10, 20)},
		{SquashRoot, who(0, 4, 5), who(10, 4, 5)},
		{SquashRoot, who(3, 0, 5, 0, 6, 0), who(3, 20, 5, 20, 6, 20)},
		{SquashRoot, who(3, 4, 5), who(3, 4, 5)},
		{SquashAll, who(0, 0, 0), who(10, 20)},
		{SquashAll, who(3, 4, 5), who(10, 20)},
	} {
		r := ExportRule{Squash: c.squash, AnonUID: 10, AnonGID: 20}
		sent := slices.Clone(c.from.GIDs)
		got := r.squash(c.from)
		if got.UID != c.want.UID || got.GID != c.want.GID || !slices.Equal(got.GIDs, c.want.GIDs) {
			t.Errorf("squash %d: %+v is %+v, want %+v", c.squash, c.from, got, c.want)
		}
		if !slices.Equal(sent, c.from.GIDs) {
			t.Errorf("squash %d: the caller's list is now %v", c.squash, c.from.GIDs)
		}
	}
}

// TestArrive: who calls is decided once for all files of a volume in a COMPOUND,
// and from what the server knows of groups.
func TestArrive(t *testing.T) {
	asked := 0
	o := New(Config{Exports: []ExportRule{{Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Squash: SquashRoot, AnonUID: 10, AnonGID: 20}}},
		Parts{Groups: func(uid uint32) ([]uint32, bool) {
			asked++
			return []uint32{0, 77}, uid == 7
		}}, nfs4.Verifier{}, nil)
	call := func(addr string, c rpc.Cred) *compound.Call {
		return &compound.Call{Remote: netip.AddrPortFrom(netip.MustParseAddr(addr), 700), Cred: c}
	}
	c := call("10.1.1.1", rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{UID: 7, GID: 8, GIDs: []uint32{1, 2}}})
	for inode := range uint64(3) {
		o.arrive(c, nfs4.FH{1}, layout.Handle{Volume: 1, Inode: inode})
		if who := cred(c); who.UID != 7 || who.GID != 8 || !slices.Equal(who.GIDs, []uint32{20, 77}) || here(c).Inode != inode {
			t.Errorf("caller %+v at %+v", who, here(c))
		}
	}
	if asked != 1 {
		t.Errorf("groups asked for %d times", asked)
	}
	o.arrive(c, nfs4.FH{1}, layout.Handle{Volume: 2})
	if asked != 2 {
		t.Error("another volume has another export's rules")
	}
	c = call("10.1.1.1", rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{UID: 9, GID: 8, GIDs: []uint32{1, 2}}})
	if o.arrive(c, nfs4.FH{1}, layout.Handle{Volume: 1}); !slices.Equal(cred(c).GIDs, []uint32{1, 2}) {
		t.Errorf("a user that the server does not know: %+v", cred(c))
	}
	c = call("10.1.1.1", rpc.Cred{})
	if o.arrive(c, nfs4.FH{1}, layout.Handle{Volume: 1}); cred(c).UID != Nobody || cred(c).GID != Nobody {
		t.Errorf("a caller without a credential: %+v", cred(c))
	}
	o.Users = func(p string) (ns.Cred, bool) { return ns.Cred{UID: 5, GID: 0}, p == "alice@R" }
	o.cfg.Exports[0].Sec = []Sec{SecKrb5i, SecKrb5p}
	krb := func(p string, s rpc.Service) *compound.Call {
		c := call("10.1.1.1", rpc.Cred{Flavor: rpc.AuthGSS, GSS: rpc.GSSCred{Principal: p, Service: s}})
		o.arrive(c, nfs4.FH{1}, layout.Handle{Volume: 1})
		return c
	}
	c = krb("alice@R", rpc.ServicePrivacy)
	if s := secured(c, nfs4.OpGetattr); cred(c).UID != 5 || cred(c).GID != 20 || s != nfs4.OK {
		t.Errorf("a principal: %+v, %v", cred(c), s)
	}
	for next, want := range map[nfs4.OpNum]nfs4.Status{nfs4.OpGetattr: nfs4.ErrWrongSec, nfs4.OpLookup: nfs4.OK, 0: nfs4.OK, nfs4.OpClose: nfs4.OK} {
		if s := secured(krb("alice@R", rpc.ServiceNone), next); s != want {
			t.Errorf("krb5 at an export for krb5i and krb5p, %v next: %v", next, s)
		}
	}
	if s := secured(krb("late@R", rpc.ServiceIntegrity), nfs4.OpGetattr); s != nfs4.ErrDelay {
		t.Errorf("a principal that is not known yet: %v", s)
	}
	c = call("11.1.1.1", rpc.Cred{Flavor: rpc.AuthSys})
	if o.arrive(c, nfs4.FH{1}, layout.Handle{Volume: 1}); cred(c).UID != Nobody {
		t.Errorf("a caller that no rule is for: %+v", cred(c))
	}
}

func TestSparse(t *testing.T) {
	var s sparse
	now := time.Unix(1000, 0)
	for _, want := range []bool{true, false, false} {
		if got := s.due(now); got != want {
			t.Errorf("%v: %v", now, got)
		}
		now = now.Add(refusalPause / 3)
	}
	if !s.due(now.Add(1)) {
		t.Error("not any more")
	}
}
