package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// badNames are names that no operation takes, and what it answers.
func badNames() map[string]nfs4.Status {
	return map[string]nfs4.Status{
		"":                       nfs4.ErrInval,
		".":                      nfs4.ErrBadName,
		"..":                     nfs4.ErrBadName,
		"a/b":                    nfs4.ErrBadChar,
		"a\x00b":                 nfs4.ErrBadChar,
		strings.Repeat("n", 256): nfs4.ErrNameTooLong,
	}
}

func TestBadNames(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	p.create(dir, "file").close()
	for name, want := range badNames() {
		t.Run(fmt.Sprintf("%.8q", name), func(t *testing.T) {
			for what, ops := range map[string][]client.Op{
				"lookup":      {putFH(dir), lookup(name)},
				"mkdir":       {putFH(dir), makeDir(name, 0o755)},
				"symlink":     {putFH(dir), symlink(name, "x")},
				"remove":      {putFH(dir), remove(name)},
				"rename from": {putFH(dir), saveFH(), rename(name, "x")},
				"rename to":   {putFH(dir), saveFH(), rename("file", name)},
				"link":        {putFH(dir), lookup("file"), saveFH(), putFH(dir), link(name)},
				"open":        {putFH(dir), openOp(openArgs("o", name, 1), &nfs4.OpenRes{})},
				"create":      {putFH(dir), openOp(creating(openArgs("o", name, 1), nfs4.CreateHow{}), &nfs4.OpenRes{})},
				"secinfo":     {putFH(dir), {Num: nfs4.OpSecinfo, Args: &nfs4.SecinfoArgs{Name: []byte(name)}, Res: &nfs4.SecinfoRes{}}},
			} {
				if got := p.try(ops...); got != want {
					t.Errorf("%s of %.8q: %v, want %v", what, name, got, want)
				}
			}
		})
	}
	// What is refused elsewhere is fine here: bytes that are no UTF-8, 255 of them.
	odd := strings.Repeat("\xff", 255)
	p.must(putFH(dir), makeDir(odd, 0o755))
	p.must(putFH(dir), lookup(odd))
}

// TestUTF8Names: where names have to be UTF-8, new ones that are not are refused,
// and those that were made before are found.
func TestUTF8Names(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	p := c.newPeer(t, "a")
	const odd, fine = "odd\xff", "Stra\u00dfe"
	dir := p.dir()
	p.create(dir, odd).close()
	c.cfg.UTF8Names = true
	c.restartMDS()
	if cap := p.stat(dir, nfs4.AttrFSCharsetCap).FSCharsetCap; cap != nfs4.CharsetAllowsOnlyUTF8 {
		t.Errorf("fs_charset_cap %d", cap)
	}
	unchecked := func(name string) client.Op {
		return openOp(creating(openArgs("o", name, 1), nfs4.CreateHow{Mode: nfs4.CreateUnchecked}), &nfs4.OpenRes{})
	}
	p.must(putFH(dir), unchecked(odd))
	for name, want := range map[string]nfs4.Status{"new\xff": nfs4.ErrInval, fine: nfs4.OK} {
		for _, op := range []client.Op{unchecked(name), makeDir(name+"d", 0o755), symlink(name+"l", "x\xff")} {
			p.want(want, putFH(dir), op)
		}
		p.want(want, putFH(dir), saveFH(), lookup(odd), saveFH(), putFH(dir), link(name+"h"))
		p.want(want, putFH(dir), saveFH(), rename(odd, name+"r"))
	}
	p.want(nfs4.OK, putFH(dir), lookup(fine+"r"))
}

func TestHandles(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	pl := o.layout(nfs4.IOModeRW)
	var r nfs4.GetattrRes
	forged := append(nfs4.FH(nil), dir...)
	forged[len(forged)-1] ^= 1
	other := append(nfs4.FH(nil), dir...)
	other[10] ^= 1 // another inode
	for _, x := range []struct {
		what string
		fh   nfs4.FH
		want nfs4.Status
	}{
		{"empty", nfs4.FH{}, nfs4.ErrBadHandle},
		{"short", dir[:16], nfs4.ErrBadHandle},
		{"forged", forged, nfs4.ErrStale},
		{"of another inode", other, nfs4.ErrStale},
		{"data server's", pl.body.FHs[0], nfs4.ErrBadHandle},
		{"128 bytes", make(nfs4.FH, 128), nfs4.ErrBadHandle},
	} {
		if got := p.try(putFH(x.fh), getattr(&r, nfs4.AttrType)); got != x.want {
			t.Errorf("%s handle: %v, want %v", x.what, got, x.want)
		}
	}
	o.close()
	p.must(putFH(dir), remove("f"))
	eventually(t, "stale handle of a removed file", func() error {
		if s := p.try(putFH(o.fh), getattr(&r, nfs4.AttrType)); s != nfs4.ErrStale {
			return fmt.Errorf("%v", s)
		}
		return nil
	})
	// The metadata server's handle at a data server, and none at all.
	ds := pl.server(0)
	if _, _, err := ds.Read(t.Context(), sys(0, 0), dir, nfs4.Stateid{}, 0, make([]byte, 1)); !isStatus(err, nfs4.ErrBadHandle) {
		t.Errorf("the metadata server's handle at a data server: %v", err)
	}
	p.want(nfs4.ErrNoFileHandle, getattr(&r, nfs4.AttrType))
	p.want(nfs4.ErrNoFileHandle, getFH(&nfs4.GetFHRes{}))
	p.want(nfs4.ErrNoFileHandle, saveFH())
	p.want(nfs4.ErrRestoreFH, restoreFH())
	p.want(nfs4.ErrNoFileHandle, putFH(dir), rename("a", "b"))
	p.want(nfs4.ErrNoFileHandle, putFH(dir), link("b"))
}

// TestTypes runs operations on objects that are not what they are for.
func TestTypes(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	p.must(putFH(dir), makeDir("dir", 0o755))
	p.must(putFH(dir), symlink("link", "there"))
	p.must(putFH(dir), makeNode(nfs4.CreateType{Type: nfs4.TypeFifo}, "fifo", mode(0o644)))
	p.must(putFH(dir), makeNode(nfs4.CreateType{Type: nfs4.TypeSock}, "sock", mode(0o644)))
	p.must(putFH(dir), makeNode(nfs4.CreateType{Type: nfs4.TypeChr, DevData: nfs4.SpecData{Major: 1, Minor: 3}}, "chr", mode(0o644)))
	p.must(putFH(dir), makeNode(nfs4.CreateType{Type: nfs4.TypeBlk, DevData: nfs4.SpecData{Major: 8, Minor: 1}}, "blk", mode(0o644)))
	p.create(dir, "file").close()
	types := map[string]nfs4.FileType{
		"dir": nfs4.TypeDir, "link": nfs4.TypeLnk, "fifo": nfs4.TypeFifo, "sock": nfs4.TypeSock,
		"chr": nfs4.TypeChr, "blk": nfs4.TypeBlk, "file": nfs4.TypeReg,
	}
	for name, typ := range types {
		a := p.stat(p.walk(dir, name), nfs4.AttrType, nfs4.AttrRawDev)
		if a.Type != typ {
			t.Errorf("%s has type %d, want %d", name, a.Type, typ)
		}
		if name == "chr" && (a.RawDev != nfs4.SpecData{Major: 1, Minor: 3}) {
			t.Errorf("device %v", a.RawDev)
		}
	}
	anon := nfs4.StateidAnonymous()
	for _, x := range []struct {
		name string
		op   client.Op
		want nfs4.Status
	}{
		{"file", lookup("x"), nfs4.ErrNotDir},
		{"link", lookup("x"), nfs4.ErrSymlink},
		{"file", lookupp(), nfs4.ErrNotDir},
		{"file", makeDir("x", 0o755), nfs4.ErrNotDir},
		{"file", remove("x"), nfs4.ErrNotDir},
		{"file", readdirOp(&nfs4.ReaddirArgs{MaxCount: 4096}, &nfs4.ReaddirRes{}), nfs4.ErrNotDir},
		{"file", client.Op{Num: nfs4.OpReadlink, Res: &nfs4.ReadlinkRes{}}, nfs4.ErrWrongType},
		{"dir", client.Op{Num: nfs4.OpReadlink, Res: &nfs4.ReadlinkRes{}}, nfs4.ErrWrongType},
		{"dir", readOp(anon, 0, 1, &nfs4.ReadRes{}), nfs4.ErrIsDir},
		{"link", readOp(anon, 0, 1, &nfs4.ReadRes{}), nfs4.ErrSymlink},
		{"fifo", readOp(anon, 0, 1, &nfs4.ReadRes{}), nfs4.ErrWrongType},
		{"dir", writeOp(anon, 0, []byte("x"), nfs4.Unstable, &nfs4.WriteRes{}), nfs4.ErrIsDir},
		{"dir", commitOp(&nfs4.CommitRes{}), nfs4.ErrIsDir},
		{"dir", resize(anon, 0), nfs4.ErrIsDir},
		{"link", resize(anon, 0), nfs4.ErrInval},
		{"dir", client.Op{Num: nfs4.OpLockT, Args: &nfs4.LockTArgs{LockType: nfs4.LockRead, Length: 1}, Res: &nfs4.LockTRes{}}, nfs4.ErrIsDir},
		{"link", client.Op{Num: nfs4.OpLockT, Args: &nfs4.LockTArgs{LockType: nfs4.LockRead, Length: 1}, Res: &nfs4.LockTRes{}}, nfs4.ErrSymlink},
		{"fifo", client.Op{Num: nfs4.OpLockT, Args: &nfs4.LockTArgs{LockType: nfs4.LockRead, Length: 1}, Res: &nfs4.LockTRes{}}, nfs4.ErrWrongType},
		{"dir", layoutGetOp(layoutGetArgs(anon, nfs4.IOModeRead), &nfs4.LayoutGetRes{}), nfs4.ErrLayoutUnavailable},
	} {
		if got := p.try(putFH(dir), lookup(x.name), x.op); got != x.want {
			t.Errorf("%v of %s: %v, want %v", x.op.Num, x.name, got, x.want)
		}
	}
	for name, want := range map[string]nfs4.Status{
		"dir": nfs4.ErrIsDir, "link": nfs4.ErrSymlink, "fifo": nfs4.ErrWrongType, "none": nfs4.ErrNoEnt,
	} {
		p.want(want, putFH(dir), openOp(openArgs("o", name, 1), &nfs4.OpenRes{}))
	}
	p.want(nfs4.ErrNotDir, putFH(dir), lookup("file"), openOp(openArgs("o", "x", 1), &nfs4.OpenRes{}))
	for _, bad := range []nfs4.FileType{nfs4.TypeReg, nfs4.TypeAttrDir, nfs4.TypeNamedAttr, 0, 77} {
		p.want(nfs4.ErrBadType, putFH(dir), makeNode(nfs4.CreateType{Type: bad}, "x", nfs4.Attrs{}))
	}
	p.want(nfs4.ErrExist, putFH(dir), makeDir("file", 0o755))
	p.want(nfs4.ErrInval, putFH(dir), symlink("empty", ""))
	p.as(1000, 1000).want(nfs4.ErrPerm, putFH(dir), makeNode(nfs4.CreateType{Type: nfs4.TypeChr}, "null", mode(0o666)))
}

func TestDirectories(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	var made nfs4.CreateRes
	var fh nfs4.GetFHRes
	before := p.stat(dir, nfs4.AttrChange, nfs4.AttrNumLinks)
	p.must(putFH(dir), client.Op{Num: nfs4.OpCreate, Args: &nfs4.CreateArgs{
		ObjType: nfs4.CreateType{Type: nfs4.TypeDir}, ObjName: []byte("sub"), CreateAttrs: mode(0o750),
	}, Res: &made}, getFH(&fh))
	after := p.stat(dir, nfs4.AttrChange, nfs4.AttrNumLinks)
	if !made.CInfo.Atomic || made.CInfo.Before != before.Change || made.CInfo.After != after.Change || after.Change <= before.Change {
		t.Errorf("change info %+v, directory %d then %d", made.CInfo, before.Change, after.Change)
	}
	if after.NumLinks != before.NumLinks+1 {
		t.Errorf("directory of one more directory has %d links, had %d", after.NumLinks, before.NumLinks)
	}
	if !made.AttrSet.Has(nfs4.AttrMode) {
		t.Error("CREATE does not say that it set the mode")
	}
	var up nfs4.GetFHRes
	p.must(putFH(fh.Object), lookupp(), getFH(&up))
	if string(up.Object) != string(dir) {
		t.Error("LOOKUPP goes somewhere else")
	}
	p.want(nfs4.ErrNoEnt, putRoot(), lookupp())
	p.must(putFH(fh.Object), makeDir("leaf", 0o755))
	p.want(nfs4.ErrNotEmpty, putFH(dir), remove("sub"))
	p.must(putFH(fh.Object), remove("leaf"))
	p.want(nfs4.ErrNoEnt, putFH(fh.Object), remove("leaf"))
	p.must(putFH(dir), remove("sub"))
	p.want(nfs4.ErrStale, putFH(fh.Object), lookup("x"))
	// A symbolic link says what it was given.
	p.must(putFH(dir), symlink("l", "../some where\xff"))
	var l nfs4.ReadlinkRes
	p.must(putFH(dir), lookup("l"), client.Op{Num: nfs4.OpReadlink, Res: &l})
	if string(l.Link) != "../some where\xff" {
		t.Errorf("READLINK says %q", l.Link)
	}
	// PUTPUBFH is PUTROOTFH; SAVEFH and RESTOREFH bring a handle back.
	var pub, root nfs4.GetFHRes
	p.must(client.Op{Num: nfs4.OpPutPubFH}, getFH(&pub), putRoot(), getFH(&root))
	if string(pub.Object) != string(root.Object) {
		t.Error("PUTPUBFH is another handle than PUTROOTFH")
	}
	p.must(putFH(dir), saveFH(), putRoot(), restoreFH(), getFH(&fh))
	if string(fh.Object) != string(dir) {
		t.Error("RESTOREFH brought another handle")
	}
	p.must(putFH(dir), client.Op{Num: nfs4.OpSecinfo, Args: &nfs4.SecinfoArgs{Name: []byte("l")}, Res: &nfs4.SecinfoRes{}})
	p.want(nfs4.ErrNoEnt, putFH(dir), client.Op{Num: nfs4.OpSecinfo, Args: &nfs4.SecinfoArgs{Name: []byte("none")}, Res: &nfs4.SecinfoRes{}})
	p.want(nfs4.ErrNoFileHandle, putRoot(),
		client.Op{Num: nfs4.OpSecinfoNoName, Args: &nfs4.SecinfoNoNameArgs{}, Res: &nfs4.SecinfoNoNameRes{}}, getFH(&fh))
	p.want(nfs4.ErrNoEnt, putRoot(),
		client.Op{Num: nfs4.OpSecinfoNoName, Args: &nfs4.SecinfoNoNameArgs{Style: nfs4.SecinfoStyleParent}, Res: &nfs4.SecinfoNoNameRes{}})
}

// TestRename is the matrix of what can be renamed over what.
func TestRename(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	makers := map[string]func(dir nfs4.FH, name string){
		"nothing": func(nfs4.FH, string) {},
		"file":    func(dir nfs4.FH, name string) { p.create(dir, name).close() },
		"link":    func(dir nfs4.FH, name string) { p.must(putFH(dir), symlink(name, "x")) },
		"fifo": func(dir nfs4.FH, name string) {
			p.must(putFH(dir), makeNode(nfs4.CreateType{Type: nfs4.TypeFifo}, name, mode(0o644)))
		},
		"empty": func(dir nfs4.FH, name string) { p.must(putFH(dir), makeDir(name, 0o755)) },
		"full":  func(dir nfs4.FH, name string) { p.must(putFH(dir), makeDir(name, 0o755), makeDir("in", 0o755)) },
	}
	want := func(from, to string) nfs4.Status {
		isDir := from == "empty" || from == "full"
		switch {
		case from == "nothing":
			return nfs4.ErrNoEnt
		case to == "nothing":
			return nfs4.OK
		case isDir && to != "empty" && to != "full":
			return nfs4.ErrNotDir
		case !isDir && (to == "empty" || to == "full"):
			return nfs4.ErrIsDir
		case to == "full":
			return nfs4.ErrNotEmpty
		}
		return nfs4.OK
	}
	for from := range makers {
		for to := range makers {
			for _, across := range []bool{false, true} {
				src, dst := p.dir(), nfs4.FH(nil)
				if dst = src; across {
					dst = p.dir()
				}
				makers[from](src, "from")
				makers[to](dst, "to")
				got := p.try(putFH(src), saveFH(), putFH(dst), rename("from", "to"))
				if got != want(from, to) {
					t.Errorf("%s over %s (across %v): %v, want %v", from, to, across, got, want(from, to))
				}
				if got == nfs4.OK {
					p.want(nfs4.ErrNoEnt, putFH(src), lookup("from"))
					p.want(nfs4.OK, putFH(dst), lookup("to"))
				}
			}
		}
	}
	// A directory into itself and below, and onto itself.
	dir := p.dir()
	p.must(putFH(dir), makeDir("a", 0o755), makeDir("b", 0o755))
	p.want(nfs4.ErrInval, putFH(dir), saveFH(), putFH(dir), lookup("a"), rename("a", "x"))
	p.want(nfs4.ErrInval, putFH(dir), saveFH(), putFH(dir), lookup("a"), lookup("b"), rename("a", "x"))
	p.want(nfs4.OK, putFH(dir), saveFH(), rename("a", "a"))
	// Moving a directory turns its "..".
	other := p.dir()
	p.must(putFH(dir), saveFH(), putFH(other), rename("a", "moved"))
	var up nfs4.GetFHRes
	p.must(putFH(other), lookup("moved"), lookupp(), getFH(&up))
	if string(up.Object) != string(other) {
		t.Error("the moved directory's parent is the old one")
	}
}

func TestLink(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	p.must(putFH(o.fh), saveFH(), putFH(dir), link("g"))
	if n := p.stat(o.fh, nfs4.AttrNumLinks).NumLinks; n != 2 {
		t.Errorf("%d links, want 2", n)
	}
	if string(p.walk(dir, "g")) != string(o.fh) {
		t.Error("the link is another file")
	}
	p.want(nfs4.ErrExist, putFH(o.fh), saveFH(), putFH(dir), link("g"))
	p.want(nfs4.ErrIsDir, putFH(dir), saveFH(), link("h"))
	p.want(nfs4.ErrNotDir, putFH(o.fh), saveFH(), link("h"))
	// Renaming one name onto the other of the same file does nothing.
	p.must(putFH(dir), saveFH(), rename("f", "g"))
	p.must(putFH(dir), lookup("f"))
	p.must(putFH(dir), remove("f"))
	o.write(0, []byte("still here"), nfs4.FileSync)
	sameBytes(t, "linked file", o.read(0, 100), []byte("still here"))
	if n := p.stat(o.fh, nfs4.AttrNumLinks).NumLinks; n != 1 {
		t.Errorf("%d links, want 1", n)
	}
}

// TestPermissions is an ordinary user's view.
func TestPermissions(t *testing.T) {
	t.Parallel()
	c := shared(t)
	root := c.newPeer(t, "a")
	dir := root.dir()
	user, mate, stranger := root.as(1000, 100), root.as(1001, 100), root.as(1002, 200, 300, 100)
	root.must(putFH(dir), makeDir("private", 0o700), makeDir("in", 0o755))
	root.must(putFH(dir), makeDir("sticky", 0o1777))
	f := user.create(dir, "f") // 0666 of 1000:100
	user.want(nfs4.OK, putFH(f.fh), setattr(nfs4.StateidAnonymous(), mode(0o640)))
	for _, x := range []struct {
		who   *peer
		share uint32
		want  nfs4.Status
	}{
		{user, 3, nfs4.OK}, {mate, 1, nfs4.OK}, {mate, 2, nfs4.ErrAccess}, {stranger, 1, nfs4.OK},
		{root.as(1003, 200), 1, nfs4.ErrAccess}, {root, 3, nfs4.OK},
	} {
		if got := x.who.try(putFH(dir), openOp(openArgs("perm", "f", x.share), &nfs4.OpenRes{})); got != x.want {
			t.Errorf("uid %d opens for %d: %v, want %v", x.who.cred.Sys.UID, x.share, got, x.want)
		}
	}
	var r nfs4.AccessRes
	mate.must(putFH(f.fh), access(nfs4.AccessRead|nfs4.AccessModify|nfs4.AccessExecute|nfs4.AccessLookup, &r))
	if r.Supported != nfs4.AccessRead|nfs4.AccessModify|nfs4.AccessExecute || r.Access != nfs4.AccessRead {
		t.Errorf("ACCESS says %+v", r)
	}
	anon := nfs4.StateidAnonymous()
	user.want(nfs4.ErrAccess, putFH(dir), lookup("private"), lookup("in"))
	user.want(nfs4.ErrAccess, putFH(root.walk(dir, "private")), makeDir("x", 0o755))
	user.want(nfs4.ErrAccess, putFH(root.walk(dir, "private")), readdirOp(&nfs4.ReaddirArgs{MaxCount: 4096}, &nfs4.ReaddirRes{}))
	user.want(nfs4.ErrAccess, putRoot(), makeDir("x", 0o755))
	mate.want(nfs4.ErrPerm, putFH(f.fh), setattr(anon, mode(0o777)))
	user.want(nfs4.ErrPerm, putFH(f.fh), setattr(anon, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte("1001")}))
	user.want(nfs4.ErrPerm, putFH(f.fh), setattr(anon, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwnerGroup), OwnerGroup: []byte("300")}))
	stranger.want(nfs4.ErrPerm, putFH(f.fh), setattr(anon, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwnerGroup), OwnerGroup: []byte("300")}))
	mate.want(nfs4.ErrAccess, putFH(f.fh), resize(anon, 0))
	mate.want(nfs4.ErrAccess, putFH(f.fh), writeOp(anon, 0, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{}))
	root.as(1003, 200).want(nfs4.ErrAccess, putFH(f.fh), readOp(anon, 0, 1, &nfs4.ReadRes{}))
	// In a sticky directory only the owner takes a name away.
	user.create(root.walk(dir, "sticky"), "mine").close()
	mate.want(nfs4.ErrAccess, putFH(dir), lookup("sticky"), remove("mine"))
	mate.want(nfs4.ErrAccess, putFH(dir), lookup("sticky"), saveFH(), rename("mine", "yours"))
	user.want(nfs4.OK, putFH(dir), lookup("sticky"), remove("mine"))
	// Who opened a file may go on when its mode changes; its creator may write
	// to a file that he made read-only.
	user.must(putFH(f.fh), setattr(anon, mode(0)))
	f.write(0, []byte("mine"), nfs4.FileSync)
	ro := user.openWith(dir, creating(openArgs("o", "ro", 3), nfs4.CreateHow{Mode: nfs4.CreateGuarded, Attrs: mode(0o444)}))
	ro.write(0, []byte("once"), nfs4.FileSync)
	user.want(nfs4.ErrAccess, putFH(dir), openOp(openArgs("other", "ro", 2), &nfs4.OpenRes{}))
}
