package ns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

func withACL(t testing.TB, s string) *nfs4.Attrs {
	t.Helper()
	return &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrACL), ACL: parseText(t, s)}
}

func umasked(mode, umask uint32) *nfs4.Attrs {
	return &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrModeUmask), ModeUmask: nfs4.ModeUmask{Mode: mode, Umask: umask}}
}

// seen is the ACL that GETATTR shows.
func (f *fixture) seen(h layout.Handle) string {
	f.Helper()
	var a nfs4.Attrs
	f.vol.Fill(&a, nfs4.BitmapOf(nfs4.AttrACL), f.get(h))
	got, err := parseACL(a.ACL)
	if err != nil || a.Mask != nfs4.BitmapOf(nfs4.AttrACL) {
		f.Fatalf("%v: %v", a.ACL, err)
	}
	return text(got)
}

// rows counts the rows of a kind.
func (f *fixture) rows(prefix byte) (n int) {
	f.Helper()
	f.view(func(tx store.Tx) error {
		return tx.Scan([]byte{prefix}, []byte{prefix + 1}, func(_, _ []byte) (bool, error) { n++; return true, nil })
	})
	return n
}

func TestParseACL(t *testing.T) {
	ok := func(who string) nfs4.ACE { return nfs4.ACE{Mask: 1, Who: []byte(who)} }
	with := func(change func(*nfs4.ACE)) nfs4.ACE { a := ok("1000"); change(&a); return a }
	for i, c := range []struct {
		a    nfs4.ACE
		want nfs4.Status
	}{
		{ok("OWNER@"), nfs4.OK}, {ok("GROUP@"), nfs4.OK}, {ok("EVERYONE@"), nfs4.OK}, {ok("0"), nfs4.OK}, {ok("root@anywhere"), nfs4.OK},
		{with(func(a *nfs4.ACE) { a.Mask = 0x1f07ff }), nfs4.OK},
		{with(func(a *nfs4.ACE) { a.Mask = 0x800 }), nfs4.ErrInval},
		{with(func(a *nfs4.ACE) { a.Mask = 1 << 31 }), nfs4.ErrInval},
		{with(func(a *nfs4.ACE) { a.Type = nfs4.ACEAudit }), nfs4.ErrAttrNotSupp},
		{with(func(a *nfs4.ACE) { a.Type = nfs4.ACEAlarm }), nfs4.ErrAttrNotSupp},
		{with(func(a *nfs4.ACE) { a.Type = 4 }), nfs4.ErrInval},
		{with(func(a *nfs4.ACE) { a.Flag = nfs4.ACESuccessfulAccess }), nfs4.ErrAttrNotSupp},
		{with(func(a *nfs4.ACE) { a.Flag = nfs4.ACEFailedAccess }), nfs4.ErrAttrNotSupp},
		{with(func(a *nfs4.ACE) { a.Flag = nfs4.ACEInherited }), nfs4.ErrAttrNotSupp},
		{with(func(a *nfs4.ACE) { a.Flag = 0x100 }), nfs4.ErrInval},
		{with(func(a *nfs4.ACE) { a.Flag = nfs4.ACEInheritOnly }), nfs4.ErrInval},
		{with(func(a *nfs4.ACE) { a.Flag = nfs4.ACENoPropagate }), nfs4.ErrInval},
		{with(func(a *nfs4.ACE) { a.Flag = nfs4.ACEInheritOnly | nfs4.ACEFileInherit }), nfs4.OK},
		{ok(""), nfs4.ErrBadOwner}, {ok("alice"), nfs4.ErrBadOwner}, {ok("alice@example.org"), nfs4.ErrBadOwner},
		{ok("AUTHENTICATED@"), nfs4.ErrBadOwner}, {ok("owner@"), nfs4.ErrBadOwner}, {ok("007"), nfs4.ErrBadOwner},
		{ok("4294967295"), nfs4.ErrInval}, {ok("4294967296"), nfs4.ErrBadOwner},
	} {
		_, err := parseACL([]nfs4.ACE{ok("1"), c.a})
		if got := StatusOf(err); got != c.want {
			t.Errorf("%d: %+v: %v, want %v", i, c.a, got, c.want)
		}
	}
	if _, err := parseACL(slices.Repeat([]nfs4.ACE{ok("1")}, maxACL)); err != nil {
		t.Error(err)
	}
	if _, err := parseACL(slices.Repeat([]nfs4.ACE{ok("1")}, maxACL+1)); !errors.Is(err, nfs4.ErrNoSpc) {
		t.Error(err)
	}
	// GROUP@ may come with the flag of groups, and goes out without.
	if got := text(acl(t, "A:g:GROUP@:r A:g:7:r A:g:OWNER@:r")); got != "A::GROUP@:r A:g:7:r A::OWNER@:r" {
		t.Error(got)
	}
}

func FuzzACL(f *testing.F) {
	key := inodeRowKey(prefixACL, 1, 77)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 8 {
		e := encodeACL(randomACL(rng, true))
		f.Add(e.Bytes())
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := decodeACL(key, sealed(key, body))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if e := encodeACL(a); !bytes.Equal(e.Bytes(), body) {
			t.Fatalf("%s: encoded\n%x, was\n%x", text(a), e.Bytes(), body)
		}
		if back, err := parseACL(formatACL(a)); len(a) <= maxACL && (err != nil && !errors.Is(err, nfs4.ErrInval) || err == nil && !slices.Equal(back, a)) {
			t.Fatalf("%s: comes back as %s, %v", text(a), text(back), err)
		}
	})
}

func TestACLRow(t *testing.T) {
	key := inodeRowKey(prefixACL, 1, 77)
	e := encodeACL(acl(t, "A:fd:1001:r D::EVERYONE@:w"))
	row := sealed(key, e.Bytes())
	if a, err := decodeACL(key, row); err != nil || text(a) != "A:fd:1001:r D::EVERYONE@:w" {
		t.Fatalf("%s, %v", text(a), err)
	}
	if _, err := decodeACL(inodeRowKey(prefixACL, 1, 78), row); !errors.Is(err, ErrCorrupt) {
		t.Errorf("in another's place: %v", err)
	}
	for at, bad := range map[int]uint32{
		8:  uint32(whoEveryone+1) << 16, // nobody
		12: 1 << 31,                     // the second entry's id, below: EVERYONE@ has none
	} {
		body := bytes.Clone(e.Bytes())
		if at == 12 {
			at += 12
		}
		binary.BigEndian.PutUint32(body[at:], bad)
		if _, err := decodeACL(key, sealed(key, body)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("word at %d: %v", at, err)
		}
	}
	full := make([]ace, maxStoredACL+1)
	long := encodeACL(full)
	if _, err := decodeACL(key, sealed(key, long.Bytes())); !errors.Is(err, ErrCorrupt) {
		t.Errorf("too long: %v", err)
	}
}

// TestSetACL follows a file's ACL and mode as one and the other are set.
func TestSetACL(t *testing.T) {
	f := newFixture(t)
	h := f.file(alice, f.mkdir(root, f.root, "d", 0o777), "f", 0o4640)
	if got := f.seen(h); got != text(ofMode(0o640)) || f.rows(prefixACL) != 0 {
		t.Errorf("without an ACL: %s", got)
	}
	step := func(cred Cred, a *nfs4.Attrs, want nfs4.Status, mode uint32, seen string, rows int) {
		t.Helper()
		before := f.get(h)
		c, err := f.trySetAttr(cred, h, a, false)
		in := f.get(h)
		if StatusOf(err) != want || in.Mode != mode || f.seen(h) != seen || f.rows(prefixACL) != rows {
			t.Errorf("%v, want %v; mode %o, want %o; %d rows, want %d; ACL\n%s, want\n%s", err, want, in.Mode, mode, f.rows(prefixACL), rows, f.seen(h), seen)
		}
		if want == nfs4.OK && (c.Set != a.Mask || in.Change != before.Change+1 || in.Ctime != nfs4.TimeOf(f.clock)) {
			t.Errorf("set %v, %+v", c.Set, in)
		}
	}
	const one = "A::OWNER@:rwx A::1001:rwa A::GROUP@:r"
	step(bob, withACL(t, one), nfs4.ErrPerm, 0o4640, text(ofMode(0o640)), 0)
	step(alice, withACL(t, "A:f:OWNER@:r"), nfs4.ErrInval, 0o4640, text(ofMode(0o640)), 0) // no directory
	step(alice, withACL(t, one), nfs4.OK, 0o4540, one, 1)
	// The mode masks, keeps bob's entry within the group's bits.
	const two = "A::OWNER@:rwa A::1001:r A::GROUP@:r A::EVERYONE@:"
	step(alice, mode(0o640), nfs4.OK, 0o640, two, 1)
	both := withACL(t, one)
	both.Mask.Set(nfs4.AttrMode)
	both.Mode = 0o2777 // the set-id bits count, the others follow from the ACL
	step(root, both, nfs4.OK, 0o2540, one, 1)
	// Nobody but root and the owner may, until WRITE_ACL says so.
	step(bob, mode(0o777), nfs4.ErrPerm, 0o2540, one, 1)
	const three = "A::1001:C A::EVERYONE@:r"
	step(alice, withACL(t, three), nfs4.OK, 0o2444, three, 1)
	step(bob, mode(0o600), nfs4.OK, 0o600, "A::OWNER@:rwa A::1001:C A::GROUP@: A::EVERYONE@:", 1)
	// An empty ACL lets nobody in but the owner, and him only to change it.
	step(alice, withACL(t, ""), nfs4.OK, 0, "", 1)
	f.want(f.get(h).Check(alice, Perm{Read: true}), nfs4.ErrAccess)
	f.want(f.get(h).Check(alice, Perm{ReadACL: true}), nfs4.OK)
	f.want(f.get(h).Check(bob, Perm{ReadACL: true}), nfs4.ErrAccess)
	// One that says what the mode says is not kept.
	step(alice, withACL(t, text(ofMode(0o644))), nfs4.OK, 0o644, text(ofMode(0o644)), 0)
	f.want(f.get(h).Check(bob, Perm{ReadACL: true}), nfs4.OK)

	lnk := f.create(alice, f.public(), "l", &Node{Type: nfs4.TypeLnk, Target: []byte("x")})
	_, err := f.trySetAttr(alice, lnk, withACL(t, one), false)
	f.want(err, nfs4.ErrAttrNotSupp)
	_, err = f.trySetAttr(alice, h, umasked(0o644, 0), false)
	f.want(err, nfs4.ErrInval) // only for what is new
}

// TestSetIDByACL: who may set a mode or an ACL without being the owner, or without
// being in the group, does not thereby act as the one or in the other.
func TestSetIDByACL(t *testing.T) {
	f := newFixture(t)
	h := f.file(alice, f.public(), "f", 0o700)
	set := func(cred Cred, a *nfs4.Attrs, want uint32) {
		t.Helper()
		if _, err := f.trySetAttr(cred, h, a, false); err != nil || f.get(h).Mode != want {
			t.Errorf("%v, mode %o, want %o", err, f.get(h).Mode, want)
		}
	}
	const acl = "A::OWNER@:rwax A::1001:rwaxC A::GROUP@:x"
	set(alice, withACL(t, acl), 0o710)
	set(bob, mode(0o6710), 0o710)
	set(alice, withACL(t, acl), 0o710)
	set(root, &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwnerGroup), OwnerGroup: []byte("777")}, 0o710)
	set(root, mode(0o6600), 0o6600) // set-group-id and nobody in the group may execute
	set(alice, withACL(t, acl), 0o4710)
}

// public is a directory that everybody may write to.
func (f *fixture) public() layout.Handle {
	f.Helper()
	return f.mkdir(root, f.root, "open", 0o777)
}

// TestACLOfOwners: WRITE_OWNER lets take a file, WRITE_ATTRIBUTES set its times.
func TestACLOfOwners(t *testing.T) {
	f := newFixture(t)
	dir := f.public()
	chown := func(uid, gid string) *nfs4.Attrs {
		a := &nfs4.Attrs{Owner: []byte(uid), OwnerGroup: []byte(gid)}
		if uid != "" {
			a.Mask.Set(nfs4.AttrOwner)
		}
		if gid != "" {
			a.Mask.Set(nfs4.AttrOwnerGroup)
		}
		return a
	}
	times := &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrTimeModifySet), TimeModifySet: nfs4.SetTime{How: nfs4.AttrSetToClientTime, Time: nfs4.Time{Sec: 1}}}
	now := &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrTimeModifySet)}
	for i, c := range []struct {
		acl  string
		a    *nfs4.Attrs
		want nfs4.Status
	}{
		{"A::1001:rwaxtTncCy", chown("1001", ""), nfs4.ErrPerm},
		{"A::1001:o", chown("1001", ""), nfs4.OK},
		{"A::1001:o", chown("1002", ""), nfs4.ErrPerm},
		{"A::1001:o", chown("1001", "101"), nfs4.OK},
		{"A::1001:o", chown("", "200"), nfs4.OK},
		{"A::1001:o", chown("", "102"), nfs4.ErrPerm},
		{"D::1001:o A::EVERYONE@:o", chown("1001", ""), nfs4.ErrPerm},
		{"A::1001:rC", times, nfs4.ErrPerm},
		{"A::1001:T", times, nfs4.OK},
		{"A::1001:rC", now, nfs4.ErrAccess},
		{"A::1001:T", now, nfs4.OK},
		{"A::1001:wa", now, nfs4.OK},
		{"A::1001:w", now, nfs4.ErrAccess},
	} {
		h := f.file(alice, dir, string(rune('a'+i)), 0o4755)
		if _, err := f.trySetAttr(alice, h, withACL(t, c.acl), false); err != nil {
			t.Fatal(err)
		}
		_, err := f.trySetAttr(bob, h, c.a, false)
		if got := StatusOf(err); got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
		if in := f.get(h); c.want == nfs4.OK && c.a.Mask.Has(nfs4.AttrOwner) && (in.UID != 1001 || in.Mode&modeSetUID != 0) {
			t.Errorf("%d: %+v", i, in)
		}
	}
}

// TestDeleteRights: DELETE on the object, DELETE_CHILD on the directory, ADD_FILE
// if neither is mentioned, for REMOVE and both ends of RENAME.
func TestDeleteRights(t *testing.T) {
	for i, c := range []struct {
		dir, file string // ACLs; "-" for none
		mode      uint32 // of the directory if it has none
		may       bool
	}{
		{"-", "-", 0o777, true},
		{"-", "-", 0o755, false},
		{"-", "-", 0o1777, false},
		{"-", "A::1001:d", 0o755, true},
		{"-", "A::1001:d", 0o1777, true},
		{"-", "A::1001:d", 0o744, false}, // cannot even search
		{"-", "D::1001:d", 0o777, false},
		{"-", "A::EVERYONE@:r", 0o777, true},
		{"A::1001:xD", "-", 0, true},
		{"A::1001:xD", "D::1001:d", 0, true}, // either is enough
		{"D::1001:D A::1001:xwa", "-", 0, false},
		{"D::1001:D A::1001:xwa", "A::1001:d", 0, true},
		{"A::1001:xwa", "-", 0, true},
		{"A::1001:xa", "-", 0, false},
		{"A::1001:D", "-", 0, false},
		{"A::1001:xr", "-", 0, false},
	} {
		f := newFixture(t)
		d := f.mkdir(alice, f.public(), "d", 0o777)
		h := f.file(alice, d, "f", 0o644)
		for which, s := range map[layout.Handle]string{d: c.dir, h: c.file} {
			a := mode(c.mode)
			if s != "-" {
				a = withACL(t, s)
			} else if which == h {
				continue
			}
			if _, err := f.trySetAttr(alice, which, a, false); err != nil {
				t.Fatal(err)
			}
		}
		want := nfs4.ErrAccess
		if c.may {
			want = nfs4.OK
		}
		in := f.get(d)
		_, granted := in.Access(bob, nfs4.AccessDelete)
		if c.file == "-" && c.mode != 0o1777 && (granted != 0) != c.may {
			t.Errorf("%d: ACCESS says %#x", i, granted)
		}
		bobs := f.mkdir(root, f.root, "bobs", 0o777)
		if _, err := f.tryRename(bob, d, "f", bobs, "taken"); StatusOf(err) != want {
			t.Errorf("%d: rename away: %v, want %v", i, err, want)
		} else if err == nil {
			if _, err := f.tryRename(root, bobs, "taken", d, "f"); err != nil {
				t.Fatal(err)
			}
		}
		_, err := f.tryRemove(bob, d, "f")
		if StatusOf(err) != want {
			t.Errorf("%d: remove: %v, want %v", i, err, want)
		}
	}
}

// TestAddRights: ADD_FILE and ADD_SUBDIRECTORY are not the same.
func TestAddRights(t *testing.T) {
	f := newFixture(t)
	open := f.public()
	d := f.mkdir(alice, open, "d", 0o755)
	for _, c := range []struct {
		acl        string
		file, dir  nfs4.Status
		extend, rm bool
	}{
		{"A::1001:xw", nfs4.OK, nfs4.ErrAccess, true, true},
		{"A::1001:xa", nfs4.ErrAccess, nfs4.OK, true, false},
		{"A::1001:wa", nfs4.ErrAccess, nfs4.ErrAccess, false, false},
		{"A::1001:xD", nfs4.ErrAccess, nfs4.ErrAccess, false, true},
	} {
		if _, err := f.trySetAttr(alice, d, withACL(t, c.acl), false); err != nil {
			t.Fatal(err)
		}
		_, granted := f.get(d).Access(bob, nfs4.AccessExtend|nfs4.AccessDelete)
		if (granted&nfs4.AccessExtend != 0) != c.extend || (granted&nfs4.AccessDelete != 0) != c.rm {
			t.Errorf("%s: ACCESS %#x", c.acl, granted)
		}
		for typ, want := range map[nfs4.FileType]nfs4.Status{nfs4.TypeFifo: c.file, nfs4.TypeDir: c.dir} {
			_, err := f.tryCreate(bob, d, "n", &Node{Type: typ})
			if StatusOf(err) != want {
				t.Errorf("%s, type %d: %v, want %v", c.acl, typ, err, want)
			}
			if err == nil {
				_, err = f.tryRemove(root, d, "n")
				f.want(err, nfs4.OK)
			}
		}
		src := f.create(bob, open, "src", &Node{Type: nfs4.TypeFifo})
		f.want(f.tryLink(bob, src, d, "l"), c.file)
		_, err := f.tryRemove(root, open, "src")
		f.want(err, nfs4.OK)
		if c.file == nfs4.OK {
			_, err := f.tryRemove(root, d, "l")
			f.want(err, nfs4.OK)
		}
	}
}

// TestInheritance: what a new file or directory gets, with and without a mode,
// an umask, an ACL of its own.
func TestInheritance(t *testing.T) {
	const parent = "A::OWNER@:rwax A:fd:OWNER@:rwax A:fd:1001:rwax A:fd:GROUP@:rx A:f:EVERYONE@:r"
	f := newFixture(t)
	d := f.mkdir(alice, f.public(), "d", 0o755)
	if _, err := f.trySetAttr(alice, d, withACL(t, parent), false); err != nil {
		t.Fatal(err)
	}
	plain := f.mkdir(root, f.root, "plain", 0o777)
	for i, c := range []struct {
		dir  layout.Handle
		typ  nfs4.FileType
		a    *nfs4.Attrs
		mode uint32
		want string
	}{
		// The whole ACL, and the mode that follows from it.
		{d, nfs4.TypeReg, nil, 0o754, "A::OWNER@:rwax A::1001:rwax A::GROUP@:rx A::EVERYONE@:r"},
		{d, nfs4.TypeDir, nil, 0o750, "A:fd:OWNER@:rwax A:fd:1001:rwax A:fd:GROUP@:rx A:fi:EVERYONE@:r"},
		// With a mode.
		{d, nfs4.TypeReg, mode(0o640), 0o640, "A::OWNER@:rwa A::1001:r A::GROUP@:r A::EVERYONE@:"},
		{d, nfs4.TypeDir, mode(0o700), 0o700, "A::OWNER@:rwax A:fdi:OWNER@:rwax A:fdi:1001:rwax A:fdi:GROUP@:rx A:fi:EVERYONE@:r A::GROUP@: A::EVERYONE@:"},
		// The umask does not count, and the mode adds nothing.
		{d, nfs4.TypeReg, umasked(0o666, 0o077), 0o644, "A::OWNER@:rwa A::1001:rwa A::GROUP@:r A::EVERYONE@:r"},
		{d, nfs4.TypeReg, umasked(0o600, 0), 0o600, "A::OWNER@:rwa A::GROUP@: A::EVERYONE@:"},
		{d, nfs4.TypeDir, umasked(0o1777, 0o077), 0o1750, "A::OWNER@:rwax A:fdi:OWNER@:rwax A:fd:1001:rwax A:fdi:GROUP@:rx A:fi:EVERYONE@:r A::GROUP@:rx A::EVERYONE@:"},
		{plain, nfs4.TypeReg, umasked(0o4666, 0o027), 0o4640, text(ofMode(0o640))},
		{plain, nfs4.TypeDir, umasked(0o777, 0o022), 0o755, text(ofMode(0o755))},
		// An ACL of its own: nothing is inherited.
		{d, nfs4.TypeReg, withACL(t, "A::1002:r"), 0, "A::1002:r"},
		{plain, nfs4.TypeReg, withACL(t, "A::1002:r A::EVERYONE@:x"), 0o111, "A::1002:r A::EVERYONE@:x"},
		// Other objects.
		{d, nfs4.TypeFifo, mode(0o600), 0o600, "A::OWNER@:rwa A::GROUP@: A::EVERYONE@:"},
		{d, nfs4.TypeLnk, umasked(0o777, 0o077), 0o777, text(ofMode(0o777))},
	} {
		node := &Node{Type: c.typ, Attrs: c.a, Guarded: true}
		if c.typ == nfs4.TypeLnk {
			node.Target = []byte("x")
		}
		made, err := f.tryCreate(alice, c.dir, string(rune('a'+i)), node)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		h := f.vol.Handle(made.Inode)
		if in := f.get(h); in.Mode != c.mode || f.seen(h) != c.want || c.a != nil && made.Set != c.a.Mask {
			t.Errorf("%d: mode %o, want %o; set %v; ACL\n%s, want\n%s", i, in.Mode, c.mode, made.Set, f.seen(h), c.want)
		}
	}
	// Only for files: a directory passes it on, and the umask counts for it.
	if _, err := f.trySetAttr(alice, d, withACL(t, "A::OWNER@:rwax A:f:1001:r"), false); err != nil {
		t.Fatal(err)
	}
	h := f.create(alice, d, "sub", &Node{Type: nfs4.TypeDir, Attrs: umasked(0o777, 0o022)})
	if in := f.get(h); in.Mode != 0o755 || f.seen(h) != "A::OWNER@:rwax A:fi:1001:r A::GROUP@:rx A::EVERYONE@:rx" {
		t.Errorf("%o %s", in.Mode, f.seen(h))
	}
	for _, bad := range []*nfs4.Attrs{umasked(0o10000, 0), umasked(0o644, 0o1000), {Mask: nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrModeUmask)}} {
		_, err := f.tryCreate(alice, plain, "bad", &Node{Type: nfs4.TypeReg, Attrs: bad})
		f.want(err, nfs4.ErrInval)
	}
	_, err := f.tryCreate(alice, plain, "bad", &Node{Type: nfs4.TypeLnk, Target: []byte("x"), Attrs: withACL(t, "A::1:r")})
	f.want(err, nfs4.ErrAttrNotSupp)
	_, err = f.tryCreate(alice, plain, "bad", &Node{Type: nfs4.TypeReg, Attrs: withACL(t, "A:f:1:r")})
	f.want(err, nfs4.ErrInval)
}

// TestACLGoes: an ACL leaves the store with its inode, and links share it.
func TestACLGoes(t *testing.T) {
	f := newFixture(t)
	d := f.public()
	for _, typ := range []nfs4.FileType{nfs4.TypeReg, nfs4.TypeDir, nfs4.TypeFifo} {
		h := f.create(alice, d, "x", &Node{Type: typ, Attrs: withACL(t, "A::1001:r")})
		if f.rows(prefixACL) != 1 {
			t.Fatal("no row")
		}
		// Other changes of the inode leave it.
		if _, err := f.trySetAttr(alice, h, &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrTimeModifySet)}, false); err != nil {
			t.Fatal(err)
		}
		if f.seen(h) != "A::1001:r" {
			t.Errorf("type %d: %s", typ, f.seen(h))
		}
		r, err := f.tryRemove(alice, d, "x")
		if err != nil || !r.Last {
			t.Fatalf("%+v, %v", r, err)
		}
		if typ == nfs4.TypeReg {
			if f.seen(h) != "A::1001:r" {
				t.Error("an open orphan lost its ACL")
			}
			f.do(func(tx store.Tx) error { _, err := f.vol.Forget(tx, h); return err })
		}
		if n := f.rows(prefixACL); n != 0 {
			t.Errorf("type %d: %d rows left", typ, n)
		}
	}
	h := f.create(alice, d, "x", &Node{Type: nfs4.TypeReg, Attrs: withACL(t, "A::1001:r")})
	f.do(func(tx store.Tx) error { return tx.Delete(inodeRowKey(prefixACL, f.vol.id, h.Inode)) })
	_, err := f.trySetAttr(alice, h, mode(0o600), false)
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("an ACL that is not there: %v", err)
	}
}
