package ns

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

func TestParseOwner(t *testing.T) {
	for s, want := range map[string]any{
		"0": uint32(0), "1000": uint32(1000), "4294967294": uint32(4294967294),
		"root": uint32(0), "root@example.org": uint32(0), "nobody": uint32(65534), "nobody@x": uint32(65534),
		"4294967295": nfs4.ErrInval, "4294967296": nfs4.ErrBadOwner, "-1": nfs4.ErrBadOwner, "+1": nfs4.ErrBadOwner,
		"": nfs4.ErrBadOwner, "007": nfs4.ErrBadOwner, "1_0": nfs4.ErrBadOwner, "alice": nfs4.ErrBadOwner,
		"alice@x": nfs4.ErrBadOwner, "1000@x": nfs4.ErrBadOwner, "@": nfs4.ErrBadOwner, "\xff": nfs4.ErrBadOwner,
	} {
		id, err := parseOwner([]byte(s))
		if w, ok := want.(uint32); ok && (err != nil || id != w) || !ok && err != want {
			t.Errorf("%q: %d, %v, want %v", s, id, err, want)
		}
	}
}

func TestSetAttrRules(t *testing.T) {
	size := &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 10}
	owner := func(s string) *nfs4.Attrs {
		return &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte(s)}
	}
	group := func(s string) *nfs4.Attrs {
		return &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwnerGroup), OwnerGroup: []byte(s)}
	}
	touch := &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet)}
	then := &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrTimeModifySet), TimeModifySet: nfs4.SetTime{How: nfs4.AttrSetToClientTime}}
	bad := &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrTimeModifySet), TimeModifySet: nfs4.SetTime{How: nfs4.AttrSetToClientTime, Time: nfs4.Time{Nsec: 1e9}}}
	huge := &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 1 << 63}
	for i, c := range []struct {
		cred   Cred
		mode   uint32 // of alice's file, group 100
		a      *nfs4.Attrs
		writer bool
		want   nfs4.Status
		after  uint32 // mode
	}{
		{alice, 0o644, mode(0o4755), false, nfs4.OK, 0o4755},
		{bob, 0o666, mode(0o644), false, nfs4.ErrPerm, 0o666},
		{root, 0o600, mode(0o6711), false, nfs4.OK, 0o6711},
		{alice, 0o644, mode(0o10644), false, nfs4.ErrInval, 0o644},
		{alice, 0o644, owner("1001"), false, nfs4.ErrPerm, 0o644},
		{alice, 0o6755, owner("1000"), false, nfs4.OK, 0o755},
		{root, 0o6755, owner("1001"), false, nfs4.OK, 0o755},
		{root, 0o6745, owner("1001"), false, nfs4.OK, 0o2745},
		{alice, 0o6755, group("200"), false, nfs4.OK, 0o755},
		{alice, 0o6666, size, false, nfs4.OK, 0o2666},
		{alice, 0o6676, size, false, nfs4.OK, 0o676},
		{bob, 0o6666, size, false, nfs4.OK, 0o666}, // of another group
		{root, 0o6666, size, false, nfs4.OK, 0o6666},
		{alice, 0o644, group("300"), false, nfs4.ErrPerm, 0o644},
		{bob, 0o666, group("200"), false, nfs4.ErrPerm, 0o666},
		{alice, 0o644, owner("what"), false, nfs4.ErrBadOwner, 0o644},
		{alice, 0o444, size, false, nfs4.ErrAccess, 0o444},
		{alice, 0o444, size, true, nfs4.OK, 0o444},
		{bob, 0o4777, size, false, nfs4.OK, 0o777},
		{alice, 0o6777, size, false, nfs4.OK, 0o777},
		{root, 0o6777, size, false, nfs4.OK, 0o6777},
		{alice, 0o644, huge, false, nfs4.ErrFBig, 0o644},
		{bob, 0o666, touch, false, nfs4.OK, 0o666},
		{bob, 0o644, touch, false, nfs4.ErrAccess, 0o644},
		{alice, 0o000, touch, false, nfs4.OK, 0o000},
		{bob, 0o666, then, false, nfs4.ErrPerm, 0o666},
		{alice, 0o000, then, false, nfs4.OK, 0o000},
		{alice, 0o644, bad, false, nfs4.ErrInval, 0o644},
		{alice, 0o644, &nfs4.Attrs{}, false, nfs4.OK, 0o644},
		{alice, 0o644, &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrType)}, false, nfs4.ErrInval, 0o644},
		{alice, 0o644, &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrArchive)}, false, nfs4.ErrAttrNotSupp, 0o644},
		{alice, 0o644, &nfs4.Attrs{Unknown: true}, false, nfs4.ErrAttrNotSupp, 0o644},
	} {
		f := newFixture(t)
		h := f.file(alice, f.mkdir(root, f.root, "d", 0o777), "f", c.mode)
		before := f.get(h)
		got, err := f.trySetAttr(c.cred, h, c.a, c.writer)
		in := f.get(h)
		if StatusOf(err) != c.want || in.Mode != c.after {
			t.Errorf("%d: %v, want %v; mode %o, want %o", i, err, c.want, in.Mode, c.after)
		}
		changed := c.want == nfs4.OK && !c.a.Mask.IsZero()
		if changed != (in.Change == before.Change+1) || changed != (in.Ctime == nfs4.TimeOf(f.clock)) || c.want == nfs4.OK && got.Set != c.a.Mask {
			t.Errorf("%d: %+v, was %+v, set %v", i, in, before, got.Set)
		}
	}
}

func TestAccess(t *testing.T) {
	const read = nfs4.AccessRead | nfs4.AccessXARead | nfs4.AccessXAList
	const write = nfs4.AccessModify | nfs4.AccessExtend | nfs4.AccessXAWrite
	const all = 1<<32 - 1
	const ofFile = read | write | nfs4.AccessExecute
	const ofDir = read | nfs4.AccessLookup | write | nfs4.AccessDelete
	for i, c := range []struct {
		typ             nfs4.FileType
		mode            uint32
		cred            Cred
		want, sup, have uint32
	}{
		{nfs4.TypeReg, 0o644, alice, all, ofFile, read | write},
		{nfs4.TypeReg, 0o645, carol, all, ofFile, read | nfs4.AccessExecute},
		{nfs4.TypeReg, 0o644, root, all, ofFile, read | write},
		{nfs4.TypeReg, 0o100, root, all, ofFile, ofFile},
		{nfs4.TypeReg, 0o077, alice, all, ofFile, 0},
		{nfs4.TypeReg, 0o707, Cred{UID: 5, GIDs: []uint32{100}}, all, ofFile, 0},
		{nfs4.TypeDir, 0o755, carol, all, ofDir, read | nfs4.AccessLookup},
		{nfs4.TypeDir, 0o752, carol, all, ofDir, nfs4.AccessXAWrite},
		{nfs4.TypeDir, 0o753, carol, all, ofDir, ofDir &^ read},
		{nfs4.TypeDir, 0o1777, carol, all, ofDir, ofDir &^ nfs4.AccessXAWrite},
		{nfs4.TypeDir, 0o1777, alice, all, ofDir, ofDir},
		{nfs4.TypeFifo, 0o777, alice, all, ofFile, ofFile &^ nfs4.AccessXAWrite},
		{nfs4.TypeDir, 0o000, root, all, ofDir, ofDir},
		{nfs4.TypeDir, 0o777, bob, nfs4.AccessLookup | nfs4.AccessExecute, nfs4.AccessLookup, nfs4.AccessLookup},
	} {
		in := &Inode{Type: c.typ, Mode: c.mode, UID: alice.UID, GID: alice.GID}
		if sup, have := in.Access(c.cred, c.want); sup != c.sup || have != c.have {
			t.Errorf("%d: %#x %#x, want %#x %#x", i, sup, have, c.sup, c.have)
		}
	}
}

func TestCheck(t *testing.T) {
	in := &Inode{Type: nfs4.TypeReg, Mode: 0o011, UID: alice.UID, GID: alice.GID}
	for i, c := range []struct {
		cred Cred
		p    Perm
		ok   bool
	}{
		{alice, Perm{}, true}, {alice, Perm{Read: true}, false}, {alice, Perm{Read: true, OwnerOverride: true}, true},
		{alice, Perm{Write: true, OwnerOverride: true}, true}, {alice, Perm{Exec: true, OwnerOverride: true}, false},
		{bob, Perm{Exec: true}, true}, {bob, Perm{Read: true}, false}, {bob, Perm{Read: true, ReadIfExec: true}, true},
		{bob, Perm{Read: true, Write: true, ReadIfExec: true}, false}, {bob, Perm{Read: true, OwnerOverride: true}, false},
		{root, Perm{Read: true, Write: true, Exec: true}, true},
	} {
		if err := in.Check(c.cred, c.p); (err == nil) != c.ok || err != nil && err != error(nfs4.ErrAccess) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

func TestWrote(t *testing.T) {
	f := newFixture(t)
	h := f.file(alice, f.mkdir(root, f.root, "d", 0o777), "f", 0o6755)
	wrote := func(cred Cred, end uint64, mtime *nfs4.Time) (in *Inode, err error) {
		err = f.try(func(tx store.Tx) error {
			in, err = f.vol.Wrote(tx, f.now(), cred, h, end, mtime)
			return err
		})
		return in, err
	}
	if in, err := wrote(root, 100, nil); err != nil || in.Size != 100 || in.Mode != 0o6755 || in.Change != 2 || in.Mtime != nfs4.TimeOf(f.clock) {
		t.Errorf("%+v, %v", in, err)
	}
	if in, err := wrote(bob, 50, nil); err != nil || in.Size != 100 || in.Mode != 0o755 || in.Change != 3 {
		t.Errorf("%+v, %v", in, err)
	}
	ahead := nfs4.Time{Sec: f.clock.Unix() + 100, Nsec: 5}
	if in, err := wrote(bob, 50, &ahead); err != nil || in.Mtime != ahead || in.Ctime != nfs4.TimeOf(f.clock) {
		t.Errorf("%+v, %v", in, err)
	}
	past := nfs4.Time{Sec: 1}
	if in, err := wrote(bob, 50, &past); err != nil || in.Mtime != nfs4.TimeOf(f.clock) {
		t.Errorf("%+v, %v", in, err)
	}
	_, err := wrote(bob, 1<<63, nil)
	f.want(err, nfs4.ErrFBig)
	_, err = wrote(bob, 1, &nfs4.Time{Nsec: 1e9})
	f.want(err, nfs4.ErrInval)
	set := func(h layout.Handle, size uint64) error {
		return f.try(func(tx store.Tx) error { _, err := f.vol.SetSize(tx, f.now(), h, size); return err })
	}
	f.want(set(h, 7), nfs4.OK)
	if in := f.get(h); in.Size != 7 || in.Mtime != nfs4.TimeOf(f.clock) {
		t.Errorf("%+v", in)
	}
	f.want(set(f.root, 7), nfs4.ErrIsDir)
	f.want(set(f.create(root, f.root, "l", &Node{Type: nfs4.TypeLnk, Target: []byte("x")}), 7), nfs4.ErrInval)
}

func TestPolicyAndLayout(t *testing.T) {
	f := newFixture(t)
	p := Policy{Unit: 1 << 20, Width: 8, Pool: "fast"}
	setPolicy := func(cred Cred, h layout.Handle, p Policy) error {
		return f.try(func(tx store.Tx) error { _, err := f.vol.SetPolicy(tx, f.now(), cred, h, p); return err })
	}
	dir := f.mkdir(alice, f.mkdir(root, f.root, "pub", 0o777), "d", 0o755)
	f.want(setPolicy(bob, dir, p), nfs4.ErrPerm)
	f.want(setPolicy(alice, dir, Policy{Unit: 1000}), nfs4.ErrInval)
	f.want(setPolicy(alice, dir, p), nfs4.OK)
	h := f.file(alice, f.mkdir(alice, dir, "sub", 0o755), "f", 0o644)
	if in := f.get(h); in.Policy != p {
		t.Errorf("not inherited: %+v", in)
	}
	f.want(setPolicy(alice, h, Policy{}), nfs4.OK)
	before := f.get(h)
	l := FileLayout{Unit: 1 << 20, DS: []layout.DSID{3, 4, 1}, Epoch: 2}
	setLayout := func(h layout.Handle, l FileLayout) error {
		return f.try(func(tx store.Tx) error { _, err := f.vol.SetLayout(tx, h, l); return err })
	}
	f.want(setLayout(h, l), nfs4.OK)
	in := f.get(h)
	if !slices.Equal(in.Layout.DS, l.DS) || in.Layout.Epoch != 2 || in.Layout.Unit != 1<<20 || in.Change != before.Change || in.Ctime != before.Ctime {
		t.Errorf("%+v", in)
	}
	f.want(setPolicy(alice, h, p), nfs4.ErrInval)
	f.want(setLayout(h, FileLayout{DS: make([]layout.DSID, 1025)}), nfs4.ErrInval)
	f.want(setLayout(dir, l), nfs4.ErrIsDir)
}

func TestFill(t *testing.T) {
	f := newFixture(t)
	h := f.create(root, f.root, "dev", &Node{Type: nfs4.TypeChr, Rdev: nfs4.SpecData{Major: 1, Minor: 3}, Attrs: mode(0o666)})
	in := f.get(h)
	want := FillMask()
	want.Set(nfs4.AttrLeaseTime) // not for Fill to know
	a := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMaxName)}
	f.vol.Fill(&a, want, in)
	mask := FillMask()
	mask.Set(nfs4.AttrMaxName)
	if a.Mask != mask || a.Type != nfs4.TypeChr || a.RawDev != in.Rdev || string(a.Owner) != "0" || string(a.OwnerGroup) != "0" ||
		a.FSID != f.vol.FSID() || a.FileID != h.Inode || a.MountedOnFileID != h.Inode || a.NumLinks != 1 || a.Change != in.Change || a.TimeMetadata != in.Ctime {
		t.Errorf("%+v", a)
	}
	reg := &Inode{Type: nfs4.TypeReg, Size: 513, UID: 4294967294}
	a = nfs4.Attrs{}
	f.vol.Fill(&a, nfs4.BitmapOf(nfs4.AttrSpaceUsed, nfs4.AttrOwner), reg)
	if a.SpaceUsed != 1024 || string(a.Owner) != "4294967294" || a.Mask != nfs4.BitmapOf(nfs4.AttrSpaceUsed, nfs4.AttrOwner) {
		t.Errorf("%+v", a)
	}
}

func TestStatusOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want nfs4.Status
	}{
		{nil, nfs4.OK}, {nfs4.ErrNoEnt, nfs4.ErrNoEnt}, {fmt.Errorf("in: %w", nfs4.ErrStale), nfs4.ErrStale},
		{fmt.Errorf("x: %w", store.ErrNoSpace), nfs4.ErrNoSpc}, {store.ErrClosed, nfs4.ErrDelay}, {context.Canceled, nfs4.ErrDelay},
		{ErrCorrupt, nfs4.ErrIO}, {errors.New("disk"), nfs4.ErrIO}, {store.ErrFailed, nfs4.ErrIO},
	} {
		if got := StatusOf(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
