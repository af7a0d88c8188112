package ns

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"manifold/xdr/nfs4"
)

// aceLetters are the bits of an entry as nfs4_setfacl writes them.
const aceLetters = "r1 w2 a4 n8 N16 x32 D64 t128 T256 d65536 c131072 C262144 o524288 y1048576"

// parseText reads "A::OWNER@:rw D:g:100:x A:fdi:EVERYONE@:r" as a client's ACL.
func parseText(t testing.TB, text string) []nfs4.ACE {
	t.Helper()
	acl := []nfs4.ACE{}
	for _, entry := range strings.Fields(text) {
		f := strings.Split(entry, ":")
		if len(f) != 4 {
			t.Fatalf("entry %q", entry)
		}
		a := nfs4.ACE{Type: map[string]uint32{"A": nfs4.ACEAllowed, "D": nfs4.ACEDenied}[f[0]], Who: []byte(f[2])}
		for _, c := range f[1] {
			a.Flag |= map[rune]uint32{'f': 1, 'd': 2, 'n': 4, 'i': 8, 'g': 0x40}[c]
		}
		for _, word := range strings.Fields(aceLetters) {
			if strings.Contains(f[3], word[:1]) {
				n, _ := strconv.Atoi(word[1:])
				a.Mask |= uint32(n)
			}
		}
		acl = append(acl, a)
	}
	return acl
}

// text is the reverse of parseText.
func text(acl []ace) string {
	var out []string
	for _, w := range formatACL(acl) {
		var flags, mask strings.Builder
		for i, c := range "fdni" {
			if w.Flag>>i&1 != 0 {
				flags.WriteRune(c)
			}
		}
		if w.Flag&nfs4.ACEIdentifierGroup != 0 {
			flags.WriteByte('g')
		}
		for _, word := range strings.Fields(aceLetters) {
			if n, _ := strconv.Atoi(word[1:]); w.Mask&uint32(n) != 0 {
				mask.WriteByte(word[0])
			}
		}
		out = append(out, fmt.Sprintf("%c:%s:%s:%s", "AD"[w.Type], flags.String(), w.Who, mask.String()))
	}
	return strings.Join(out, " ")
}

func acl(t testing.TB, s string) []ace {
	t.Helper()
	a, err := parseACL(parseText(t, s))
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return a
}

func TestOfMode(t *testing.T) {
	for mode, want := range map[uint32]string{
		0o644: "A::OWNER@:rwatTcCy A::GROUP@:rtcy A::EVERYONE@:rtcy",
		0o755: "A::OWNER@:rwaxtTcCy A::GROUP@:rxtcy A::EVERYONE@:rxtcy",
		0o000: "A::OWNER@:tTcCy A::GROUP@:tcy A::EVERYONE@:tcy",
		0o604: "A::OWNER@:rwatTcCy D::GROUP@:r A::GROUP@:tcy A::EVERYONE@:rtcy",
		0o077: "D::OWNER@:rwax A::OWNER@:tTcCy A::GROUP@:rwaxtcy A::EVERYONE@:rwaxtcy",
		0o526: "D::OWNER@:wa A::OWNER@:rxtTcCy D::GROUP@:r A::GROUP@:watcy A::EVERYONE@:rwatcy",
	} {
		if got := text(ofMode(mode)); got != want {
			t.Errorf("%o: %s, want %s", mode, got, want)
		}
	}
}

// TestModeAndACLAgree: the ACL that stands for a mode gives everybody what the
// mode does, and the mode computed from it is the mode.
func TestModeAndACLAgree(t *testing.T) {
	for mode := range uint32(0o1000) {
		plain := &Inode{Type: nfs4.TypeReg, Mode: mode, UID: alice.UID, GID: alice.GID}
		listed := *plain
		listed.acl, listed.hasACL = ofMode(mode), true
		for _, c := range []Cred{root, alice, bob, carol, {UID: 5, GIDs: []uint32{100}}, {UID: 1000, GID: 9}} {
			want, _ := plain.rights(&c)
			if got, _ := listed.rights(&c); got != want {
				t.Fatalf("mode %o, %+v: rights %#x, want %#x", mode, c, got, want)
			}
		}
		if got := modeOf(listed.acl); got != mode {
			t.Fatalf("mode %o: ACL says %o", mode, got)
		}
		if again := withMode(listed.acl, mode, false); !slices.Equal(again, listed.acl) {
			t.Fatalf("mode %o: set again: %s", mode, text(again))
		}
	}
}

func TestEvaluate(t *testing.T) {
	in := &Inode{Type: nfs4.TypeReg, UID: alice.UID, GID: alice.GID, hasACL: true}
	const r, w, x = maskRead, maskWrite, maskExec
	for _, c := range []struct {
		acl  string
		cred Cred
		want uint32 // of r, w, x
	}{
		{"", alice, 0},
		{"", bob, 0},
		{"", root, r | w},
		{"A::EVERYONE@:rwax", bob, r | w | x},
		{"A::EVERYONE@:x", root, r | w | x},
		{"A::1234:x", root, r | w | x},
		{"A:i:EVERYONE@:rwax", bob, 0}, // refused by parse, harmless here
		{"A::EVERYONE@:wa D::EVERYONE@:rwax", bob, w},
		{"D::EVERYONE@:rwax A::OWNER@:rwax", alice, 0},
		{"A::OWNER@:rwax D::EVERYONE@:rwax", alice, r | w | x},
		{"A::OWNER@:rwax D::EVERYONE@:rwax", bob, 0},
		{"A::1001:r", bob, r},
		{"A::1001:r", carol, 0},
		{"A:g:1001:r", bob, 0},              // a group of that number
		{"A:g:101:r A:g:200:x", bob, r | x}, // primary and another group
		{"A::GROUP@:r", Cred{UID: 7, GID: 8, GIDs: []uint32{100}}, r},
		{"A::GROUP@:r", carol, 0},
		{"A::GROUP@:r", alice, r}, // unlike a mode, an ACL lets the owner be in a group too
		{"D::1001:wa A::EVERYONE@:rwa", bob, r},
		{"A::EVERYONE@:w", bob, 0}, // half of writing is none
		{"A::EVERYONE@:w A::1001:a", bob, w},
		{"A::root:r", bob, 0},
	} {
		var entries []ace
		for i, wire := range parseText(t, c.acl) {
			entries = append(entries, ace{})
			if err := entries[i].parse(&wire); err != nil && wire.Flag&nfs4.ACEInheritOnly == 0 {
				t.Fatal(err)
			}
			entries[i].flags = wire.Flag & inheritFlags
		}
		in.acl = entries
		for mask, p := range map[uint32]Perm{r: {Read: true}, w: {Write: true}, x: {Exec: true}} {
			if got := in.Check(c.cred, p) == nil; got != (c.want&mask != 0) {
				t.Errorf("%q for %d: %+v is %v", c.acl, c.cred.UID, p, got)
			}
		}
	}
}

func TestModeOf(t *testing.T) {
	for s, want := range map[string]uint32{
		"":                  0,
		"A::EVERYONE@:rwax": 0o777,
		"A::OWNER@:rwax A::GROUP@:rx A::EVERYONE@:x": 0o751,
		"A::OWNER@:r A::1001:rwax A:g:100:rwax":      0o400, // only the three count
		"D::EVERYONE@:wa A::OWNER@:rwa":              0o400,
		"A::OWNER@:w A::GROUP@:a A::EVERYONE@:r":     0o444,
		"A:fdi:EVERYONE@:rwax A::OWNER@:x":           0o100, // inherit-only does not
		"A:fd:EVERYONE@:rx":                          0o555,
		"D::GROUP@:r A::EVERYONE@:rwa":               0o626,
	} {
		if got := modeOf(acl(t, s)); got != want {
			t.Errorf("%q: %o, want %o", s, got, want)
		}
	}
}

func TestWithMode(t *testing.T) {
	for _, c := range []struct {
		acl  string
		mode uint32
		dir  bool
		want string
	}{
		// A plain ACL becomes the one of the mode.
		{text(ofMode(0o777)), 0o640, false, text(ofMode(0o640))},
		// Named users and groups: no more than the group of the mode.
		{"A::OWNER@:rwa A::1001:rwax A::GROUP@:r A::EVERYONE@:r", 0o640, false,
			"A::OWNER@:rwa A::1001:r A::GROUP@:r A::EVERYONE@:"},
		{"A::1001:rx", 0o070, false, "D::OWNER@:rwax A::OWNER@: A::1001:rx A::GROUP@:rwax A::EVERYONE@:"},
		{"A:g:200:rwaD A::1001:c", 0o700, true, "A::OWNER@:rwax A::1001:c A::GROUP@: A::EVERYONE@:"},
		// Entries that deny stay, but for those of the mode's classes.
		{"D::1001:r D::GROUP@:wa A::EVERYONE@:rwa", 0o664, false,
			"A::OWNER@:rwa D::1001:r A::GROUP@:rwa A::EVERYONE@:r"},
		{"D::EVERYONE@:r D::1001:r A::1002:rx", 0o655, false, "D::OWNER@:x A::OWNER@:rwa D::1001:r A::1002:x A::GROUP@:rx A::EVERYONE@:rx"},
		// Bits that are not the mode's stay, in their order if one denies.
		{"A::OWNER@:rC A::EVERYONE@:rc", 0o600, false, "A::OWNER@:rwaC A::GROUP@: A::EVERYONE@:c"},
		{"D::1001:c A::EVERYONE@:rc", 0o600, false, "A::OWNER@:rwa D::1001:c A::EVERYONE@:c A::GROUP@: A::EVERYONE@:"},
		// What is inherited stays as it is.
		{"A:fdi:1001:rwax A:fd:1002:rwa A:d:GROUP@:rx", 0o750, true,
			"A::OWNER@:rwax A:fdi:1001:rwax A:fdi:1002:rwa A::1002:r A:di:GROUP@:rx A::GROUP@:rx A::EVERYONE@:"},
		{"A:fd:1002:r", 0o750, true, "A::OWNER@:rwax A:fd:1002:r A::GROUP@:rx A::EVERYONE@:"},
		// Who may not write a directory may not remove from it.
		{"A::1001:rwaxD A::EVERYONE@:rwaxD", 0o755, true, "A::OWNER@:rwax A::1001:rx A::GROUP@:rx A::EVERYONE@:rx"},
		{"A::1001:rwaxD D::EVERYONE@:D", 0o775, true, "A::OWNER@:rwax A::1001:rwaxD D::EVERYONE@:D A::GROUP@:rwax A::EVERYONE@:rx"},
	} {
		a := acl(t, c.acl)
		before := slices.Clone(a)
		if got := text(withMode(a, c.mode, c.dir)); got != c.want {
			t.Errorf("%q with %o:\n got %s\nwant %s", c.acl, c.mode, got, c.want)
		}
		if !slices.Equal(a, before) {
			t.Errorf("%q: changed", c.acl)
		}
	}
}

// randomACL may hold anything that a client can set.
func randomACL(rng *rand.Rand, dir bool) []ace {
	a := make([]ace, rng.IntN(7))
	for i := range a {
		e := &a[i]
		e.who = who(rng.Uint32N(uint32(whoEveryone) + 1))
		if !e.special() {
			e.id = pick(rng, []uint32{100, 101, 200, 1000, 1001, 1002})
		}
		e.deny = rng.IntN(3) == 0
		e.mask = rng.Uint32() & maskAll & rng.Uint32()
		if dir && rng.IntN(2) == 0 {
			e.flags = pick(rng, []uint32{1, 2, 3, 7, 9, 10, 11, 15})
		}
	}
	return a
}

// TestWithModeHolds: whatever the ACL, a new mode leaves one that says this
// mode, gives nobody who is named more than before or than the group may, keeps
// what is inherited, and does not grow when modes are set again and again.
func TestWithModeHolds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		dir := rng.IntN(2) == 0
		a, mode := randomACL(rng, dir), rng.Uint32N(0o1000)
		b := withMode(a, mode, dir)
		if got := modeOf(b); got != mode {
			t.Fatalf("%s with %o: %o: %s", text(a), mode, got, text(b))
		}
		for _, forDir := range []bool{true, false} {
			h1, _ := inherited(a, forDir)
			h2, _ := inherited(b, forDir)
			if !forDir && !slices.Equal(h1, h2) || forDir && len(h1) != len(h2) {
				t.Fatalf("%s with %o: passes on %s, before %s", text(a), mode, text(h2), text(h1))
			}
		}
		g, o := maskOf(mode>>3), maskOf(mode)
		for _, c := range []Cred{{UID: 1001, GID: 9}, {UID: 1002, GID: 101, GIDs: []uint32{200}}} {
			in := &Inode{Type: nfs4.TypeReg, UID: 5, GID: 5, hasACL: true, acl: b}
			if have, _ := in.rights(&c); have&maskMode&^(g|o) != 0 {
				t.Fatalf("%s with %o: %d has %#x: %s", text(a), mode, c.UID, have, text(b))
			}
		}
		if again := withMode(b, mode, dir); modeOf(again) != mode || len(again) > len(b) {
			t.Fatalf("set again: %s, then %s", text(b), text(again))
		}
		for range 4 {
			b = withMode(b, rng.Uint32N(0o1000), dir)
		}
		if len(b) > 2*len(a)+5 {
			t.Fatalf("%s grew to %s", text(a), text(b))
		}
	}
}

// TestWithin: a class gets what ACL and mode both grant, and nobody but the owner
// more than the ACL did.
func TestWithin(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20000 {
		a, mode := randomACL(rng, true), rng.Uint32N(0o1000)
		b := within(a, mode, true)
		if got, want := modeOf(b), modeOf(a)&mode; got != want {
			t.Fatalf("%s within %o: %o, want %o: %s", text(a), mode, got, want, text(b))
		}
		before := &Inode{Type: nfs4.TypeDir, UID: 5, GID: 100, hasACL: true, acl: a}
		after := *before
		after.acl = b
		for _, c := range []Cred{{UID: 1001, GID: 101}, {UID: 1002, GID: 100}, {UID: 1001, GID: 9, GIDs: []uint32{100, 200}}} {
			had, _ := before.rights(&c)
			if have, _ := after.rights(&c); have&maskMode&^had != 0 {
				t.Fatalf("%s within %o: %d had %#x, has %#x: %s", text(a), mode, c.UID, had, have, text(b))
			}
		}
		// The owner gets his class, even if he is named too.
		mine := Cred{UID: 5, GID: 101, GIDs: []uint32{200}}
		after.acl = within(append(a, ace{id: mine.UID, mask: maskMode}), mode, true)
		if have, _ := after.rights(&mine); have&maskMode != maskOf(modeOf(after.acl)>>6) {
			t.Fatalf("%s within %o: the owner has %#x", text(a), mode, have)
		}
	}
}

func TestInherited(t *testing.T) {
	for _, c := range []struct {
		acl, file, dir string
		onFile, onDir  bool
	}{
		{"A::OWNER@:rwax A::EVERYONE@:r", "", "", false, false},
		{"A:f:1001:r", "A::1001:r", "A:fi:1001:r", true, false},
		{"A:d:1001:r", "", "A:d:1001:r", false, true},
		{"A:fd:1001:r", "A::1001:r", "A:fd:1001:r", true, true},
		{"A:fdi:1001:r", "A::1001:r", "A:fd:1001:r", true, true},
		{"A:fi:1001:r", "A::1001:r", "A:fi:1001:r", true, false},
		{"A:di:1001:r", "", "A:d:1001:r", false, true},
		{"A:fn:1001:r", "A::1001:r", "", true, false},
		{"A:dn:1001:r", "", "A::1001:r", false, true},
		{"A:fdni:GROUP@:r", "A::GROUP@:r", "A::GROUP@:r", true, true},
		{"D:fd:1001:r A::EVERYONE@:rx A:fg:200:x", "D::1001:r A:g:200:x", "D:fd:1001:r A:fig:200:x", true, true},
	} {
		for _, x := range []struct {
			dir, on bool
			want    string
		}{{false, c.onFile, c.file}, {true, c.onDir, c.dir}} {
			heirs, on := inherited(acl(t, c.acl), x.dir)
			if got := text(heirs); got != x.want || on != x.on {
				t.Errorf("%q, directory %v: %q %v, want %q %v", c.acl, x.dir, got, on, x.want, x.on)
			}
		}
	}
}
