package wire_test

import (
	"testing"

	"manifold/mds"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// exports are rules as an administrator writes them.
func exports(t testing.TB, texts ...string) option {
	t.Helper()
	var rules []mds.ExportRule
	for _, text := range texts {
		r, err := mds.ParseExport(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return func(c *mds.Config) { c.Exports = rules }
}

// restartWith starts the metadata server again with other rules.
func (c *cluster) restartWith(o option) {
	c.t.Helper()
	c.stopMDS()
	o(&c.cfg)
	c.startMDS()
}

// owners returns the owner and group of a file.
func (p *peer) owners(fh nfs4.FH) [2]string {
	p.t.Helper()
	a := p.stat(fh, nfs4.AttrOwner, nfs4.AttrOwnerGroup)
	return [2]string{string(a.Owner), string(a.OwnerGroup)}
}

// TestSquashRoot: root is nobody, in groups too; others are who they are.
func TestSquashRoot(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	p := c.newPeer(t, "a")
	dir := p.dir()
	p.must(putFH(dir), makeDir("private", 0o700))
	p.must(putFH(dir), makeDir("group", 0o750))
	private, group := p.walk(dir, "private"), p.walk(dir, "group")
	p.close()
	c.restartWith(exports(t, "squash=root,anon_uid=1234,anon_gid=1235"))
	p = c.newPeer(t, "b")
	c.waitGrace()

	o := p.create(dir, "of-root")
	if got := p.owners(o.fh); got != [2]string{"1234", "1235"} {
		t.Errorf("root's file belongs to %v", got)
	}
	u := p.as(7, 8).create(dir, "of-user")
	if got := p.owners(u.fh); got != [2]string{"7", "8"} {
		t.Errorf("a user's file belongs to %v", got)
	}
	p.must(putFH(dir), makeDir("made", 0o700))
	if got := p.owners(p.walk(dir, "made")); got != [2]string{"1234", "1235"} {
		t.Errorf("root's directory belongs to %v", got)
	}
	// Root has no power over what is not anonymous's.
	p.want(nfs4.ErrAccess, putFH(private), lookup("x"))
	p.want(nfs4.ErrAccess, putFH(private), makeDir("x", 0o700))
	p.want(nfs4.ErrPerm, putFH(u.fh), setattr(nfs4.Stateid{}, mode(0o600)))
	p.want(nfs4.ErrPerm, putFH(o.fh), setattr(nfs4.Stateid{}, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte("7")}))
	var a nfs4.AccessRes
	p.must(putFH(private), access(nfs4.AccessRead|nfs4.AccessLookup|nfs4.AccessModify, &a))
	if a.Access != 0 {
		t.Errorf("ACCESS of root to a directory of mode 0700: %#x", a.Access)
	}
	// Nor does group 0 say anything, first or among others.
	for _, cred := range []rpc.Cred{sys(7, 0), sys(7, 8, 3, 0)} {
		q := p.as(7, 8)
		q.cred = cred
		q.want(nfs4.ErrAccess, putFH(group), lookup("x"))
	}
	p.as(0, 0).want(nfs4.ErrAccess, putFH(group), lookup("x"))
	// The bytes take the way to the data servers all the same.
	pl := o.layout(nfs4.IOModeRW)
	data := pattern(1, 100<<10)
	pl.write(0, data)
	pl.commit(uint64(len(data)))
	sameBytes(t, "root's file", o.read(0, len(data)), data)
}

// TestSquashAll: everybody is the same user, with no groups but one.
func TestSquashAll(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	p := c.newPeer(t, "a")
	dir := p.dir()
	p.must(putFH(dir), makeNode(nfs4.CreateType{Type: nfs4.TypeDir}, "of-5", nfs4.Attrs{
		Mask: nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup), Mode: 0o770, Owner: []byte("5"), OwnerGroup: []byte("6"),
	}))
	of5 := p.walk(dir, "of-5")
	p.as(5, 1).must(putFH(of5), makeDir("there", 0o700))
	p.close()
	c.restartWith(exports(t, "squash=all,anon_uid=500,anon_gid=501"))
	p = c.newPeer(t, "b")
	c.waitGrace()
	none := p.as(0, 0)
	none.cred = rpc.Cred{Flavor: rpc.AuthNone}
	for name, q := range map[string]*peer{"root": p, "user": p.as(5, 6, 7), "none": none} {
		o := q.create(dir, name)
		if got := q.owners(o.fh); got != [2]string{"500", "501"} {
			t.Errorf("the file of %s belongs to %v", name, got)
		}
		q.want(nfs4.ErrAccess, putFH(of5), lookup("there"))
	}
}

// writeOps are the operations that change what a directory with a file in it
// holds; o is the file, open for reading.
func writeOps(dir nfs4.FH, o *open) map[string][]client.Op {
	other := creating(openArgs("o", "new", nfs4.ShareAccessRead), nfs4.CreateHow{Mode: nfs4.CreateGuarded})
	again := creating(openArgs("o", "file", nfs4.ShareAccessRead), nfs4.CreateHow{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}})
	exclusive := creating(openArgs("o", "new", nfs4.ShareAccessRead), nfs4.CreateHow{Mode: nfs4.CreateExclusive4_1})
	return map[string][]client.Op{
		"mkdir":              {putFH(dir), makeDir("x", 0o755)},
		"symlink":            {putFH(dir), symlink("x", "y")},
		"remove":             {putFH(dir), remove("file")},
		"rename":             {putFH(dir), saveFH(), rename("file", "x")},
		"link":               {putFH(o.fh), saveFH(), putFH(dir), link("x")},
		"setattr":            {putFH(o.fh), setattr(nfs4.Stateid{}, mode(0o600))},
		"truncate":           {putFH(o.fh), resize(nfs4.Stateid{}, 0)},
		"setxattr":           {putFH(o.fh), setXattr(nfs4.XattrEither, "user.a", "b", &nfs4.SetXattrRes{})},
		"removexattr":        {putFH(o.fh), removeXattr("user.a", &nfs4.RemoveXattrRes{})},
		"write":              {putFH(o.fh), writeOp(o.id, 0, []byte("x"), nfs4.Unstable, &nfs4.WriteRes{})},
		"write without open": {putFH(o.fh), writeOp(nfs4.Stateid{}, 0, []byte("x"), nfs4.Unstable, &nfs4.WriteRes{})},
		"layoutcommit":       {putFH(o.fh), layoutCommitOp(o.id, 1, &nfs4.LayoutCommitRes{})},
		"open to write":      {putFH(dir), openOp(openArgs("o", "file", nfs4.ShareAccessWrite), &nfs4.OpenRes{})},
		"open for both":      {putFH(dir), openOp(openArgs("o", "file", nfs4.ShareAccessBoth), &nfs4.OpenRes{})},
		"open and cut":       {putFH(dir), openOp(again, &nfs4.OpenRes{})},
		"create":             {putFH(dir), openOp(other, &nfs4.OpenRes{})},
		"create exclusively": {putFH(dir), openOp(exclusive, &nfs4.OpenRes{})},
		"create unchecked":   {putFH(dir), openOp(creating(openArgs("o", "new", 1), nfs4.CreateHow{}), &nfs4.OpenRes{})},
	}
}

// TestReadOnly: nothing changes, everything can be read, from the data servers
// with handles that no WRITE is taken with.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "file")
	data := pattern(2, 200<<10)
	pl := o.layout(nfs4.IOModeRW)
	pl.write(0, data)
	pl.commit(uint64(len(data)))
	pl.giveBack()
	o.close()
	p.close()
	c.restartWith(exports(t, "access=ro"))
	p = c.newPeer(t, "b")
	c.waitGrace()

	before := p.stat(dir, nfs4.AttrChange).Change
	o = p.open(dir, "file", nfs4.ShareAccessRead)
	for what, ops := range writeOps(dir, o) {
		if s := p.try(ops...); s != nfs4.ErrROFS {
			t.Errorf("%s: %v", what, s)
		}
	}
	if after := p.stat(dir, nfs4.AttrChange).Change; after != before {
		t.Errorf("the directory changed, %d times", after-before)
	}
	// Opening what is there without changing it is no change.
	p.must(putFH(dir), openOp(creating(openArgs("o", "file", 1), nfs4.CreateHow{}), &nfs4.OpenRes{}))
	p.want(nfs4.ErrExist, putFH(dir), openOp(creating(openArgs("o", "file", 1), nfs4.CreateHow{Mode: nfs4.CreateGuarded}), &nfs4.OpenRes{}))
	p.want(nfs4.ErrNoEnt, putFH(dir), openOp(openArgs("o", "none", nfs4.ShareAccessBoth), &nfs4.OpenRes{}))
	p.must(putFH(o.fh), commitOp(&nfs4.CommitRes{}))
	p.must(putFH(o.fh), setLock(o))
	const all = nfs4.AccessRead | nfs4.AccessLookup | nfs4.AccessModify | nfs4.AccessExtend | nfs4.AccessDelete | nfs4.AccessXAWrite | nfs4.AccessXARead
	for fh, want := range map[string]uint32{string(dir): nfs4.AccessRead | nfs4.AccessLookup | nfs4.AccessXARead, string(o.fh): nfs4.AccessRead | nfs4.AccessXARead} {
		var a nfs4.AccessRes
		p.must(putFH(nfs4.FH(fh)), access(all, &a))
		if a.Access != want {
			t.Errorf("ACCESS: %#x, want %#x", a.Access, want)
		}
	}

	p.want(nfs4.ErrLayoutUnavailable, putFH(o.fh), layoutGetOp(layoutGetArgs(o.id, nfs4.IOModeRW), &nfs4.LayoutGetRes{}))
	pl = o.layout(nfs4.IOModeRead)
	sameBytes(t, "file", pl.readAll(0, len(data), uint64(len(data))), data)
	if err := pl.tryWrite(0, []byte("not allowed"), nfs4.DataSync); err == nil {
		t.Error("a data server took a WRITE with a handle to read")
	}
	sameBytes(t, "file afterwards", o.read(0, len(data)), data)
	pl.giveBack()
	o.close()
}

// setLock locks a byte of a file that is open for reading.
func setLock(o *open) client.Op {
	return lockOp(newLock(o, "l", nfs4.LockRead, 0, 1), &nfs4.LockRes{})
}

// TestNoExport: a client whose address no rule is for has no file, and learns
// nothing; it may give back what it has from before.
func TestNoExport(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "file")
	pl := o.layout(nfs4.IOModeRead)
	p.close()
	c.restartWith(exports(t, "clients=10.0.0.0/8,192.168.7.7"))
	p = c.newPeer(t, "b") // there is nothing to say against a session
	c.waitGrace()

	var r nfs4.GetattrRes
	for what, ops := range writeOps(dir, o) {
		p.t.Helper()
		if s := p.try(ops...); s != nfs4.ErrAccess {
			t.Errorf("%s: %v", what, s)
		}
	}
	for _, ops := range [][]client.Op{
		{putRoot(), getFH(&nfs4.GetFHRes{}), getattr(&r, nfs4.AttrType)}, // as Linux mounts
		{putRoot(), {Num: nfs4.OpSecinfoNoName, Args: &nfs4.SecinfoNoNameArgs{}, Res: &nfs4.SecinfoNoNameRes{}}},
		{putRoot(), lookup("d")},
		{putRoot(), {Num: nfs4.OpReaddir, Args: &nfs4.ReaddirArgs{DirCount: 1 << 12, MaxCount: 1 << 12}, Res: &nfs4.ReaddirRes{}}},
		{putRoot(), access(nfs4.AccessRead, &nfs4.AccessRes{})},
		{putFH(dir), lookupp()},
		{putFH(dir), openOp(openArgs("o", "file", nfs4.ShareAccessRead), &nfs4.OpenRes{})},
		{putFH(o.fh), saveFH(), putRoot(), restoreFH(), getattr(&r, nfs4.AttrSize)},
		{putFH(o.fh), readOp(nfs4.Stateid{}, 0, 1, &nfs4.ReadRes{})},
		{putFH(o.fh), layoutGetOp(layoutGetArgs(o.id, nfs4.IOModeRead), &nfs4.LayoutGetRes{})},
	} {
		if s := p.try(ops...); s != nfs4.ErrAccess {
			t.Errorf("%v: %v", names(ops), s)
		}
	}
	p.want(nfs4.ErrNoEnt, deviceInfoOp(pl.body.Device, 1<<16, &nfs4.GetDeviceInfoRes{}))
	for _, ops := range [][]client.Op{{putFH(o.fh), closeOp(o.id)}, {putFH(o.fh), delegReturn(o.id)}} {
		if s := p.try(ops...); s == nfs4.ErrAccess || s == nfs4.ErrROFS {
			t.Errorf("%v: %v: giving back is refused", names(ops), s)
		}
	}

	// The same client under the right address is what it was.
	c.restartWith(exports(t, "clients=10.0.0.0/8", "clients=127.0.0.0/8,::1,access=ro", "squash=all"))
	p = c.newPeer(t, "c")
	c.waitGrace()
	p.must(putFH(o.fh), getattr(&r, nfs4.AttrType))
	p.want(nfs4.ErrROFS, putFH(dir), makeDir("x", 0o755)) // the first that is for it counts
}

// TestManagedGroups: with a look-up at the server, what the client says of
// groups counts for nothing if the user is known here.
func TestManagedGroups(t *testing.T) {
	t.Parallel()
	const daemon = 1 // a user and a group on any Linux system
	c := newCluster(t, 1, func(c *mds.Config) { c.ManageGIDs = true })
	p := c.newPeer(t, "a")
	dir := p.dir()
	p.must(putFH(dir), makeNode(nfs4.CreateType{Type: nfs4.TypeDir}, "of-77", nfs4.Attrs{
		Mask: nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrOwnerGroup), Mode: 0o770, OwnerGroup: []byte("77"),
	}))
	of77 := p.walk(dir, "of-77")
	p.as(daemon, daemon, 77).want(nfs4.ErrAccess, putFH(of77), makeDir("x", 0o700))
	p.as(4242424, 4242424, 77).must(putFH(of77), makeDir("x", 0o700)) // nobody knows this one
}
