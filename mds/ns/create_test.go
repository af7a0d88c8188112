package ns

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

func TestFormatOpen(t *testing.T) {
	f := newFixture(t)
	err := f.try(func(tx store.Tx) error {
		_, err := Format(tx, f.now(), 255, nfs4.FSID{}, [32]byte{})
		return err
	})
	f.want(err, nfs4.ErrExist)
	f.file(root, f.root, "a", 0o644)
	f.view(func(tx store.Tx) error {
		v, err := Open(tx, 255)
		if err != nil {
			return err
		}
		if v.FSID() != f.vol.FSID() || v.ID() != 255 || v.cookies != f.vol.cookies {
			t.Errorf("got %+v", v)
		}
		if _, err := v.Lookup(tx, root, f.root, []byte("a")); err != nil {
			t.Error(err)
		}
		_, err = Open(tx, 254)
		f.want(err, nfs4.ErrNoEnt)
		return nil
	})
	other := f.root
	other.Volume = 1
	f.gone(other)
	other = f.root
	other.Gen++
	f.gone(other)
}

func TestByNumber(t *testing.T) {
	f := newFixture(t)
	var want []uint64
	for _, name := range []string{"a", "b", "c"} {
		want = append(want, f.file(root, f.root, name, 0o644).Inode)
	}
	var got []uint64
	f.view(func(tx store.Tx) error {
		if in, err := f.vol.GetID(tx, want[1]); err != nil || in.ID != want[1] {
			t.Errorf("%+v, %v", in, err)
		}
		_, err := f.vol.GetID(tx, 1<<40)
		f.want(err, nfs4.ErrStale)
		if err := f.vol.ScanInodes(tx, 1<<64-1, nil); err != nil {
			t.Error(err)
		}
		return f.vol.ScanInodes(tx, f.root.Inode, func(in *Inode) (bool, error) { got = append(got, in.ID); return len(got) < 2, nil })
	})
	if !slices.Equal(got, want[:2]) {
		t.Errorf("%v, want %v", got, want[:2])
	}
}

func TestNames(t *testing.T) {
	f := newFixture(t)
	link := f.create(root, f.root, "l", &Node{Type: nfs4.TypeLnk, Target: []byte("x")})
	reg := f.file(root, f.root, "f", 0o644)
	long := strings.Repeat("n", 255)
	for name, want := range map[string]nfs4.Status{
		"": nfs4.ErrInval, ".": nfs4.ErrBadName, "..": nfs4.ErrBadName, "a/b": nfs4.ErrBadChar, "a\x00": nfs4.ErrBadChar,
		long + "n": nfs4.ErrNameTooLong, long: nfs4.OK, "\xff\xfe": nfs4.OK, "...": nfs4.OK, " ": nfs4.OK,
	} {
		_, err := f.tryCreate(root, f.root, name, &Node{Type: nfs4.TypeReg})
		f.want(err, want)
		f.want(f.tryLink(root, reg, f.root, name+""), map[bool]nfs4.Status{true: nfs4.ErrExist, false: want}[want == nfs4.OK])
		_, err = f.tryLookup(root, f.root, name)
		f.want(err, want)
		_, err = f.tryRename(root, f.root, "f", f.root, name)
		f.want(err, want)
		if want == nfs4.OK {
			_, err = f.tryRename(root, f.root, name, f.root, "f")
			f.want(err, want)
			continue
		}
		_, err = f.tryRename(root, f.root, name, f.root, "f")
		f.want(err, want)
		_, err = f.tryRemove(root, f.root, name)
		f.want(err, want)
	}
	_, err := f.tryLookup(root, link, "x")
	f.want(err, nfs4.ErrSymlink)
	_, err = f.tryLookup(root, reg, "x")
	f.want(err, nfs4.ErrNotDir)
	_, err = f.tryCreate(root, link, "x", &Node{Type: nfs4.TypeReg})
	f.want(err, nfs4.ErrNotDir)
}

func TestLookupParent(t *testing.T) {
	f := newFixture(t)
	a := f.mkdir(root, f.root, "a", 0o755)
	b := f.mkdir(alice, f.mkdir(root, a, "pub", 0o777), "b", 0o700)
	up := func(cred Cred, h layout.Handle) (in *Inode, err error) {
		f.view(func(tx store.Tx) error {
			in, err = f.vol.LookupParent(tx, cred, h)
			return nil
		})
		return in, err
	}
	if in, err := up(root, a); err != nil || in.ID != f.root.Inode {
		t.Errorf("got %+v, %v", in, err)
	}
	_, err := up(root, f.root)
	f.want(err, nfs4.ErrNoEnt)
	_, err = up(bob, b)
	f.want(err, nfs4.ErrAccess)
	_, err = up(root, f.file(root, a, "f", 0o644))
	f.want(err, nfs4.ErrNotDir)
}

func TestCreateTypes(t *testing.T) {
	f := newFixture(t)
	pub := f.mkdir(root, f.root, "pub", 0o777)
	for _, c := range []struct {
		name string
		cred Cred
		node Node
		want nfs4.Status
		mode uint32
	}{
		{"reg", alice, Node{Type: nfs4.TypeReg}, nfs4.OK, 0o600},
		{"dir", alice, Node{Type: nfs4.TypeDir}, nfs4.OK, 0o700},
		{"lnk", alice, Node{Type: nfs4.TypeLnk, Target: []byte("a/../b")}, nfs4.OK, 0o777},
		{"fifo", alice, Node{Type: nfs4.TypeFifo, Attrs: mode(0o640)}, nfs4.OK, 0o640},
		{"sock", alice, Node{Type: nfs4.TypeSock, Attrs: mode(0o7777)}, nfs4.OK, 0o7777},
		{"blk", root, Node{Type: nfs4.TypeBlk, Rdev: nfs4.SpecData{Major: 8, Minor: 1}}, nfs4.OK, 0o600},
		{"chr", root, Node{Type: nfs4.TypeChr, Rdev: nfs4.SpecData{Major: 1, Minor: 3}, Attrs: mode(0o666)}, nfs4.OK, 0o666},
		{"chr2", alice, Node{Type: nfs4.TypeChr}, nfs4.ErrPerm, 0},
		{"bad0", alice, Node{}, nfs4.ErrBadType, 0},
		{"bad8", alice, Node{Type: nfs4.TypeAttrDir}, nfs4.ErrBadType, 0},
		{"badlnk", alice, Node{Type: nfs4.TypeLnk}, nfs4.ErrInval, 0},
		{"nullnk", alice, Node{Type: nfs4.TypeLnk, Target: []byte("a\x00")}, nfs4.ErrInval, 0},
		{"longlnk", alice, Node{Type: nfs4.TypeLnk, Target: bytes.Repeat([]byte("x"), 4097)}, nfs4.ErrNameTooLong, 0},
		{"badmode", alice, Node{Type: nfs4.TypeReg, Attrs: mode(0o10000)}, nfs4.ErrInval, 0},
		{"sized", alice, Node{Type: nfs4.TypeDir, Attrs: &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}}, nfs4.ErrInval, 0},
		{"unknown", alice, Node{Type: nfs4.TypeReg, Attrs: &nfs4.Attrs{Unknown: true}}, nfs4.ErrAttrNotSupp, 0},
		{"acl", alice, Node{Type: nfs4.TypeReg, Attrs: &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrDACL)}}, nfs4.ErrAttrNotSupp, 0},
		{"rdonly", alice, Node{Type: nfs4.TypeReg, Attrs: &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrChange)}}, nfs4.ErrInval, 0},
	} {
		got, err := f.tryCreate(c.cred, pub, c.name, &c.node)
		if StatusOf(err) != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if err != nil {
			continue
		}
		in := f.get(f.vol.Handle(got.Inode))
		if in.Type != c.node.Type || in.Mode != c.mode || in.UID != c.cred.UID || in.GID != c.cred.GID ||
			in.Rdev != c.node.Rdev || !bytes.Equal(in.Target, c.node.Target) || !got.New || got.Dir.After != got.Dir.Before+1 {
			t.Errorf("%s: %+v, %+v", c.name, got, in)
		}
	}
	// Parents: one directory more.
	if in := f.get(pub); in.Nlink != 3 || in.Entries != 7 {
		t.Errorf("pub: %+v", in)
	}
}

func TestCreateAttrs(t *testing.T) {
	f := newFixture(t)
	shared := f.mkdir(root, f.root, "shared", 0o2777)
	if _, err := f.trySetAttr(root, shared, &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwnerGroup), OwnerGroup: []byte("555")}, false); err != nil {
		t.Fatal(err)
	}
	all := SettableMask()
	a := &nfs4.Attrs{
		Mask: all, Mode: 0o2750, Size: 12345, Owner: []byte("1000"), OwnerGroup: []byte("200"), ACL: formatACL(ofMode(0o750)),
		TimeAccessSet: nfs4.SetTime{How: nfs4.AttrSetToClientTime, Time: nfs4.Time{Sec: -5, Nsec: 6}},
		TimeModifySet: nfs4.SetTime{How: nfs4.AttrSetToServerTime},
		TimeCreate:    nfs4.Time{Sec: 7, Nsec: 8},
	}
	c, err := f.tryCreate(alice, shared, "f", &Node{Type: nfs4.TypeReg, Attrs: a})
	if err != nil || c.Set != all {
		t.Fatalf("%+v, %v", c, err)
	}
	in := f.get(f.vol.Handle(c.Inode))
	if in.Mode != 0o2750 || in.Size != 12345 || in.GID != 200 || (in.Atime != nfs4.Time{Sec: -5, Nsec: 6}) ||
		in.Mtime != nfs4.TimeOf(f.clock) || (in.Btime != nfs4.Time{Sec: 7, Nsec: 8}) || in.Ctime != nfs4.TimeOf(f.clock) {
		t.Errorf("%+v", in)
	}
	// The set-group-id directory's group, and for directories its bit.
	if in := f.get(f.mkdir(alice, shared, "d", 0o755)); in.GID != 555 || in.Mode != 0o2755 {
		t.Errorf("%+v", in)
	}
	if in := f.get(f.file(alice, shared, "g", 0o2755)); in.GID != 555 || in.Mode != 0o755 {
		t.Errorf("not of the group, and keeps the bit: %+v", in)
	}
	if in := f.get(f.file(root, shared, "h", 0o2755)); in.GID != 555 || in.Mode != 0o2755 {
		t.Errorf("%+v", in)
	}
	for _, c := range []struct {
		owner, group string
		want         nfs4.Status
	}{
		{"1001", "", nfs4.ErrPerm}, {"", "999", nfs4.ErrPerm}, {"x", "", nfs4.ErrBadOwner}, {"1000", "100", nfs4.OK},
	} {
		a := &nfs4.Attrs{Owner: []byte(c.owner), OwnerGroup: []byte(c.group)}
		if c.owner != "" {
			a.Mask.Set(nfs4.AttrOwner)
		}
		if c.group != "" {
			a.Mask.Set(nfs4.AttrOwnerGroup)
		}
		_, err := f.tryCreate(alice, shared, "o"+c.owner+c.group, &Node{Type: nfs4.TypeReg, Attrs: a})
		f.want(err, c.want)
	}
}

func TestCreateModes(t *testing.T) {
	f := newFixture(t)
	one, two := nfs4.Verifier{1}, nfs4.Verifier{2}
	excl := func(v nfs4.Verifier) *Node {
		return &Node{Type: nfs4.TypeReg, Exclusive: true, Verifier: v, Attrs: mode(0o444)}
	}
	first, err := f.tryCreate(root, f.root, "x", excl(one))
	if err != nil || !first.New {
		t.Fatal(first, err)
	}
	again, err := f.tryCreate(root, f.root, "x", excl(one))
	if err != nil || !again.New || again.Inode.ID != first.Inode.ID || again.Set != first.Set || again.Dir.After != again.Dir.Before {
		t.Errorf("replay: %+v, %v", again, err)
	}
	_, err = f.tryCreate(root, f.root, "x", excl(two))
	f.want(err, nfs4.ErrExist)
	_, err = f.tryCreate(root, f.root, "x", &Node{Type: nfs4.TypeReg, Guarded: true})
	f.want(err, nfs4.ErrExist)
	got, err := f.tryCreate(root, f.root, "x", &Node{Type: nfs4.TypeReg, Attrs: mode(0o777)})
	if err != nil || got.New || got.Inode.Mode != 0o444 || !got.Set.IsZero() {
		t.Errorf("unchecked: %+v, %v", got, err)
	}
	// A file that was not made exclusively does not match a zero verifier.
	f.file(root, f.root, "plain", 0o644)
	_, err = f.tryCreate(root, f.root, "plain", excl(nfs4.Verifier{}))
	f.want(err, nfs4.ErrExist)
	for name, want := range map[string]nfs4.Status{"dir": nfs4.ErrIsDir, "lnk": nfs4.ErrSymlink, "fifo": nfs4.ErrExist} {
		typ := map[string]nfs4.FileType{"dir": nfs4.TypeDir, "lnk": nfs4.TypeLnk, "fifo": nfs4.TypeFifo}[name]
		f.create(root, f.root, name, &Node{Type: typ, Target: []byte("t")})
		_, err = f.tryCreate(root, f.root, name, &Node{Type: nfs4.TypeReg})
		f.want(err, want)
		_, err = f.tryCreate(root, f.root, name, &Node{Type: nfs4.TypeDir})
		f.want(err, nfs4.ErrExist)
	}
	// An unchecked create of what is there needs to search the directory only.
	if got, err = f.tryCreate(alice, f.root, "x", &Node{Type: nfs4.TypeReg}); err != nil || got.New {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = f.tryCreate(alice, f.root, "y", &Node{Type: nfs4.TypeReg})
	f.want(err, nfs4.ErrAccess)
}

func TestLinkLimit(t *testing.T) {
	f := newFixture(t)
	h := f.file(root, f.root, "f", 0o644)
	in := f.get(h)
	in.Nlink = MaxLink - 1
	f.do(func(tx store.Tx) error { return f.vol.put(tx, in) })
	f.want(f.tryLink(root, h, f.root, "g"), nfs4.OK)
	f.want(f.tryLink(root, h, f.root, "h"), nfs4.ErrMLink)
}

// TestOrphan follows a file from its last name to Forget.
func TestOrphan(t *testing.T) {
	f := newFixture(t)
	h := f.file(root, f.root, "f", 0o644)
	f.want(f.tryLink(root, h, f.root, "g"), nfs4.OK)
	if r, err := f.tryRemove(root, f.root, "f"); err != nil || r.Last || r.Inode.Nlink != 1 || !r.Dir.Atomic || r.Dir.After != r.Dir.Before+1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := f.tryRemove(root, f.root, "g"); err != nil || !r.Last || r.Inode.Nlink != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	f.want(f.tryLink(root, h, f.root, "back"), nfs4.ErrNoEnt)
	f.do(func(tx store.Tx) error { return f.vol.MarkOpenRW(tx, h) })
	before := f.files()
	f.do(func(tx store.Tx) error {
		in, err := f.vol.Forget(tx, h)
		if in == nil || in.ID != h.Inode {
			t.Errorf("%+v", in)
		}
		return err
	})
	f.gone(h)
	if f.files() != before-1 {
		t.Error("still counted")
	}
	f.want(f.try(func(tx store.Tx) error { _, err := f.vol.Forget(tx, h); return err }), nfs4.ErrStale)
	f.view(func(tx store.Tx) error {
		return tx.Scan([]byte{prefixOpenRW}, []byte{prefixOpenRW + 1}, func(k, _ []byte) (bool, error) {
			t.Errorf("left over: %q", k)
			return true, nil
		})
	})
	// Nothing else stays: a directory, a link and a device are gone at once.
	d := f.mkdir(root, f.root, "d", 0o755)
	if r, err := f.tryRemove(root, f.root, "d"); err != nil || !r.Last {
		t.Errorf("%+v, %v", r, err)
	}
	f.gone(d)
}

func TestNotes(t *testing.T) {
	f := newFixture(t)
	var all []layout.Handle
	for _, name := range []string{"a", "b", "c", "d"} {
		h := f.file(root, f.root, name, 0o644)
		all = append(all, h)
		f.do(func(tx store.Tx) error { return f.vol.MarkOpenRW(tx, h) })
		f.do(func(tx store.Tx) error { return f.vol.MarkOpenRW(tx, h) })
	}
	list := func(after uint64, most int) (got []layout.Handle) {
		f.view(func(tx store.Tx) error {
			return f.vol.ScanOpenRW(tx, after, func(h layout.Handle) (bool, error) {
				got = append(got, h)
				return len(got) < most, nil
			})
		})
		return got
	}
	if got := list(0, 2); len(got) != 2 || got[1] != all[1] {
		t.Errorf("%v", got)
	}
	if got := list(all[1].Inode, 9); len(got) != 2 || got[0] != all[2] {
		t.Errorf("%v", got)
	}
	if got := list(1<<64-1, 9); got != nil {
		t.Errorf("%v", got)
	}
	f.do(func(tx store.Tx) error {
		return f.vol.ScanOpenRW(tx, 0, func(h layout.Handle) (bool, error) { return true, f.vol.ClearOpenRW(tx, h) })
	})
	if got := list(0, 9); got != nil {
		t.Errorf("%v", got)
	}
}
