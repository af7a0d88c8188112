package mds

import (
	"errors"
	"net/netip"
	"os/user"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"manifold/mds/ns"
	"manifold/mds/op"
)

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, t := range texts {
		list = append(list, netip.MustParsePrefix(t))
	}
	return list
}

func TestParseExport(t *testing.T) {
	anyone := ExportRule{AnonUID: 65534, AnonGID: 65534}
	rule := func(change func(*ExportRule)) ExportRule {
		r := anyone
		change(&r)
		return r
	}
	for text, want := range map[string]ExportRule{
		"clients=":    anyone,
		"clients=*":   anyone,
		"access=rw":   anyone,
		"squash=none": anyone,
		"access=ro":   rule(func(r *ExportRule) { r.ReadOnly = true }),
		"clients=10.0.0.0/8,access=ro,squash=root": rule(func(r *ExportRule) {
			r.Clients, r.ReadOnly, r.Squash = prefixes("10.0.0.0/8"), true, op.SquashRoot
		}),
		" squash = all , clients = 10.1.2.3 , fd00::/8,fe80::1, anon_uid=0,anon_gid=4294967294": rule(func(r *ExportRule) {
			r.Clients, r.Squash, r.AnonUID, r.AnonGID = prefixes("10.1.2.3/32", "fd00::/8", "fe80::1/128"), op.SquashAll, 0, 4294967294
		}),
		"sec=krb5p: krb5i :sys,access=ro": rule(func(r *ExportRule) {
			r.ReadOnly, r.Sec = true, []op.Sec{op.SecKrb5p, op.SecKrb5i, op.SecSys}
		}),
		"clients=::ffff:10.1.2.3": rule(func(r *ExportRule) { r.Clients = prefixes("10.1.2.3/32") }),
		"clients=0.0.0.0/0,::/0":  rule(func(r *ExportRule) { r.Clients = prefixes("0.0.0.0/0", "::/0") }),
	} {
		if got, err := ParseExport(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q = %+v, %v, want %+v", text, got, err, want)
		}
	}
}

// What is wrong with a rule is named, with what would be right.
func TestParseExportErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                            `"" is not KEY=VALUE`,
		"10.0.0.0/8":                  `"10.0.0.0/8" is not KEY=VALUE`,
		"access=ro,10.0.0.0/8":        `"10.0.0.0/8" is not KEY=VALUE`,
		"client=10.0.0.0/8":           `unknown key "client"`,
		"=":                           `unknown key ""`,
		"access=ro,access=rw":         "access is said twice",
		"access=r":                    `"r" is neither rw nor ro`,
		"access=":                     `"" is neither rw nor ro`,
		"squash=everybody":            `"everybody" is none of none, root and all`,
		"anon_uid=-1":                 "0 to 4294967294",
		"anon_uid=4294967295":         "0 to 4294967294",
		"anon_gid=nogroup":            "0 to 4294967294",
		"clients=10.0.0.300":          "neither an address nor a network",
		"clients=host.example":        "names are not looked up",
		"clients=10.0.0.0/33":         "is not a network",
		"clients=10.0.0.0/":           "is not a network",
		"clients=10.1.2.3/8":          "the network is 10.0.0.0/8",
		"clients=::ffff:10.0.0.0/104": "write the network as IPv4",
		"clients=fe80::1%eth0":        "leave the zone out",
		"sec=":                        `"" is none of sys, krb5`,
		"sec=krb5x":                   `"krb5x" is none of sys, krb5`,
		"sec=sys:krb5:sys":            "sys is said twice",
	} {
		if r, err := ParseExport(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q = %+v, %v, want %s", text, r, err, want)
		}
	}
}

func TestCheckExports(t *testing.T) {
	one := ExportRule{Clients: prefixes("10.0.0.0/8")}
	many := make([]netip.Prefix, maxClients+1)
	for want, rules := range map[string][]ExportRule{
		"rule 2 is for every client, so that the 1 after it never count": {one, {}, one},
		"257 rules, more than 256":                                       slices.Repeat([]ExportRule{one}, maxRules+1),
		"1025 addresses and networks, more than 1024":                    {{Clients: many}},
		"rule 2: sec: Kerberos needs krb5-keytab":                        {one, {Sec: []op.Sec{op.SecSys, op.SecKrb5}}},
	} {
		c := valid(t)
		c.Exports = rules
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	c := valid(t)
	if c.Exports = []ExportRule{one, {ReadOnly: true}}; c.Validate() != nil {
		t.Error(c.Validate())
	}
}

func FuzzParseExport(f *testing.F) {
	f.Add("clients=10.0.0.0/8,::1,access=ro,squash=root,anon_uid=1,anon_gid=2")
	f.Add("clients=*,,=,squash")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseExport(text)
		if err == nil && slices.ContainsFunc(r.Clients, func(p netip.Prefix) bool { return !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() }) {
			t.Errorf("%q = %+v", text, r)
		}
	})
}

// library is a user database that is asked.
type library struct {
	asked atomic.Int32
	gids  []uint32
	err   error
	held  chan struct{} // not nil: an answer waits for it
}

func (l *library) lookup(uint32) ([]uint32, error) {
	l.asked.Add(1)
	if l.held != nil {
		<-l.held
	}
	return l.gids, l.err
}

func testGroups(l *library, now *time.Time) (*lookups[uint32, []uint32], *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	g := newGroups(zap.New(core))
	g.lookup, g.now = l.lookup, func() time.Time { return *now }
	g.wait = time.Minute // a look-up here takes no time, but the machine may be busy
	return g, logs
}

func TestGroupsCache(t *testing.T) {
	l, now := &library{gids: []uint32{1, 2}}, time.Unix(1000, 0)
	g, _ := testGroups(l, &now)
	expect := func(what string, ok bool, asked int32, gids ...uint32) {
		t.Helper()
		got, err := g.of(7)
		if known := err == nil; known != ok || !slices.Equal(got, gids) || l.asked.Load() != asked {
			t.Errorf("%s: %v, %v, asked %d times", what, got, err, l.asked.Load())
		}
	}
	expect("first", true, 1, 1, 2)
	now = now.Add(groupsTime - 1)
	l.gids = []uint32{3}
	expect("remembered", true, 1, 1, 2)
	now = now.Add(1)
	expect("out of date", true, 2, 3)
	now = now.Add(groupsTime)
	l.err = errors.New("no directory server")
	expect("failed", false, 3)
	now = now.Add(missingTime - 1)
	l.err = nil
	expect("failed, remembered", false, 3)
	now = now.Add(1)
	expect("back", true, 4, 3)
	if _, err := parseGroups(make([]string, maxGroups+1)); err == nil {
		t.Error("too many groups of one user")
	}
}

// TestGroupsLate: a database that hangs delays a user's calls at first only.
func TestGroupsLate(t *testing.T) {
	l, now := &library{gids: []uint32{1}, held: make(chan struct{})}, time.Unix(1000, 0)
	g, logs := testGroups(l, &now)
	g.wait = time.Millisecond
	if _, err := g.of(7); err == nil {
		t.Fatal("known before the database answered")
	}
	g.wait = time.Hour
	now = now.Add(2 * g.wait) // so that nobody waits an hour now
	if _, err := g.of(7); err == nil {
		t.Fatal("known before the database answered")
	}
	if n := l.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	m := g.known[7]
	close(l.held)
	<-m.done
	now = m.asked
	if gids, err := g.of(7); err != nil || !slices.Equal(gids, []uint32{1}) {
		t.Errorf("afterwards: %v, %v", gids, err)
	}
	if n := logs.Len(); n != 2 {
		t.Errorf("%d lines in the log in two hours of failures", n)
	}
}

// TestGroupsBounds: as many users as may be are remembered, whoever asks.
func TestGroupsBounds(t *testing.T) {
	l, now := &library{err: errors.New("unknown")}, time.Unix(1000, 0)
	g, logs := testGroups(l, &now)
	for uid := range uint32(maxUsers + 100) {
		g.of(uid)
	}
	if len(g.known) != maxUsers {
		t.Errorf("%d users remembered", len(g.known))
	}
	if n := logs.Len(); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
	now = now.Add(missingTime)
	if g.of(1 << 20); len(g.known) != 1 {
		t.Errorf("%d users remembered when all are out of date", len(g.known))
	}
	// When all of them are being asked for there is no room.
	hung := &library{held: make(chan struct{})}
	defer close(hung.held)
	g, _ = testGroups(hung, &now)
	g.wait = 0
	for uid := range uint32(maxUsers + 1) {
		if _, err := g.of(uid); err == nil {
			t.Fatalf("user %d is known", uid)
		}
	}
	if len(g.known) != maxUsers {
		t.Errorf("%d users asked for", len(g.known))
	}
	if n := hung.asked.Load(); n > maxLookups {
		t.Errorf("%d look-ups at once", n)
	}
}

func TestSystemGroups(t *testing.T) {
	gids, err := systemGroups(0)
	if err != nil || !slices.Contains(gids, 0) {
		t.Errorf("root's groups: %v, %v", gids, err)
	}
	if gids, err := systemGroups(4294967294); err == nil {
		t.Errorf("groups of nobody that is known: %v", gids)
	}
}

func TestUserOf(t *testing.T) {
	broken := errors.New("no directory server")
	lookup := func(name string) (ns.Cred, error) {
		switch name {
		case "alice":
			return ns.Cred{UID: 7, GID: 8, GIDs: []uint32{8, 9}}, nil
		case "late":
			return ns.Cred{}, broken
		}
		return ns.Cred{}, user.UnknownUserError(name)
	}
	nobody, late := ns.Cred{UID: op.Nobody, GID: op.Nobody}, ns.Cred{UID: 1 << 31}
	for principal, want := range map[string]ns.Cred{
		"alice@R": {UID: 7, GID: 8, GIDs: []uint32{8, 9}}, "bob@R": nobody, "late@R": late,
		"alice@S": nobody, "alice": nobody, "@R": nobody, "": nobody, "alice@r": nobody,
		"nfs/client.test@R": {}, "host/client.test@R": {}, "root/client.test@R": {}, "CLIENT$@R": {},
		"nfs/client.test@S": nobody, "CLIENT$@S": nobody, "alice/admin@R": nobody, "nfs@R": nobody, "x/y$@R": nobody, "nfs/a/b@R": nobody,
	} {
		got, ok := known(userOf(principal, "R", lookup))
		if !ok {
			got = late
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v, want %+v", principal, got, want)
		}
	}
	if who, ok := newUsers("R", zap.NewNop())("root@R"); !ok || who.UID != 0 || !slices.Contains(who.GIDs, 0) {
		t.Errorf("root is %+v, %v", who, ok)
	}
}
