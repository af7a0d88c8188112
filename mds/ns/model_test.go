package ns

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// mnode is an inode of the model: a graph in memory, written from POSIX's
// words and not from the code that is tested.
type mnode struct {
	h          layout.Handle
	typ        nfs4.FileType
	mode       uint32
	uid, gid   uint32
	size       uint64
	nlink      int
	parent     *mnode
	kids       map[string]*mnode
	at, mt, ct time.Time
	change     uint64 // as last seen in the volume
	xattrs     map[string]string
	orphan     bool
}

func (n *mnode) dir() bool { return n.typ == nfs4.TypeDir }

// may is access(2): want is 4, 2 or 1, or a sum of them.
func (n *mnode) may(c Cred, want uint32) bool {
	if c.UID == 0 {
		return want&1 == 0 || n.dir() || n.mode&0o111 != 0
	}
	shift := 0
	if c.UID == n.uid {
		shift = 6
	} else if c.GID == n.gid || slices.Contains(c.GIDs, n.gid) {
		shift = 3
	}
	return n.mode>>shift&want == want
}

func (n *mnode) below(top *mnode) bool {
	for ; n != nil; n = n.parent {
		if n == top {
			return true
		}
	}
	return false
}

// stuck says whether c may not take name out of n for its sticky bit.
func (n *mnode) stuck(c Cred, name string) bool {
	return n.mode&0o1000 != 0 && c.UID != 0 && c.UID != n.uid && c.UID != n.kids[name].uid
}

// world runs random operations on a volume and on the model.
type world struct {
	*fixture
	rng     *rand.Rand
	top     *mnode
	nodes   []*mnode
	touched map[*mnode]bool // whose change attribute has to have grown since the last compare
	log     []string
	met     map[string]int // how often an operation had a result
}

func (w *world) touch(n *mnode, data bool) {
	n.ct = w.clock
	if data {
		n.mt = w.clock
	}
	w.touched[n] = true
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

func (w *world) name() string { return pick(w.rng, []string{"a", "b", "c", "d", "e", "f"}) }
func (w *world) cred() Cred   { return pick(w.rng, []Cred{root, alice, alice, bob, carol}) }

// anyDir picks a directory, rarely something else.
func (w *world) anyDir() *mnode {
	for {
		if n := pick(w.rng, w.nodes); n.dir() || w.rng.IntN(20) == 0 {
			return n
		}
	}
}

func (w *world) check(op string, err error, want nfs4.Status) bool {
	w.log = append(w.log, fmt.Sprintf("%s: %v", op, want))
	verb, _, _ := strings.Cut(op, " ")
	w.met[verb+" "+want.String()]++
	if got := StatusOf(err); got != want {
		w.Fatalf("%s: got %v (%v), want %v; before it:\n%v", op, got, err, want, w.log[max(0, len(w.log)-12):])
	}
	return err == nil
}

func (w *world) create() {
	d, name, c := w.anyDir(), w.name(), w.cred()
	typ := pick(w.rng, []nfs4.FileType{nfs4.TypeReg, nfs4.TypeReg, nfs4.TypeDir, nfs4.TypeDir, nfs4.TypeLnk, nfs4.TypeFifo, nfs4.TypeChr})
	m := pick(w.rng, []uint32{0o644, 0o755, 0o777, 0o1777, 0o2775, 0o700, 0o4755, 0o000})
	node := &Node{Type: typ, Guarded: true, Attrs: mode(m)}
	if typ == nfs4.TypeLnk {
		node.Target = []byte("else/where")
	}
	want := nfs4.OK
	switch {
	case !d.dir():
		want = nfs4.ErrNotDir
	case !d.may(c, 1):
		want = nfs4.ErrAccess
	case d.kids[name] != nil:
		want = nfs4.ErrExist
	case !d.may(c, 2):
		want = nfs4.ErrAccess
	case typ == nfs4.TypeChr && c.UID != 0:
		want = nfs4.ErrPerm
	}
	got, err := w.tryCreate(c, d.h, name, node)
	if !w.check(fmt.Sprintf("create %d/%s type %d by %d", d.h.Inode, name, typ, c.UID), err, want) {
		return
	}
	n := &mnode{h: w.vol.Handle(got.Inode), typ: typ, mode: m, uid: c.UID, gid: c.GID, nlink: 1, at: w.clock, mt: w.clock, ct: w.clock}
	if d.mode&0o2000 != 0 {
		n.gid = d.gid
	}
	switch {
	case typ == nfs4.TypeDir:
		n.kids, n.parent, n.nlink, n.size = map[string]*mnode{}, d, 2, 4096
		n.mode |= d.mode & 0o2000
		d.nlink++
	case typ == nfs4.TypeLnk:
		n.size = 10
	}
	if typ != nfs4.TypeDir && c.UID != 0 && n.gid != c.GID && !slices.Contains(c.GIDs, n.gid) {
		n.mode &^= 0o2000
	}
	d.kids[name] = n
	w.touch(d, true)
	w.nodes = append(w.nodes, n)
}

func (w *world) link() {
	n, d, name, c := pick(w.rng, w.nodes), w.anyDir(), w.name(), w.cred()
	want := nfs4.OK
	switch {
	case n.dir():
		want = nfs4.ErrIsDir
	case !d.dir():
		want = nfs4.ErrNotDir
	case !d.may(c, 1):
		want = nfs4.ErrAccess
	case d.kids[name] != nil:
		want = nfs4.ErrExist
	case n.orphan:
		want = nfs4.ErrNoEnt
	case !d.may(c, 2):
		want = nfs4.ErrAccess
	}
	if w.check(fmt.Sprintf("link %d to %d/%s by %d", n.h.Inode, d.h.Inode, name, c.UID), w.tryLink(c, n.h, d.h, name), want) {
		d.kids[name] = n
		n.nlink++
		w.touch(d, true)
		w.touch(n, false)
	}
}

// drop is what happens to an inode that lost the name that d had for it.
func (w *world) drop(d, n *mnode) (last bool) {
	w.touch(n, false)
	n.nlink--
	if n.dir() {
		d.nlink--
		n.nlink = 0
	}
	if n.nlink > 0 {
		return false
	}
	if n.typ == nfs4.TypeReg {
		n.orphan = true
	} else {
		w.nodes = slices.DeleteFunc(w.nodes, func(m *mnode) bool { return m == n })
		w.gone(n.h)
	}
	return true
}

func (w *world) remove() {
	d, name, c := w.anyDir(), w.name(), w.cred()
	want := nfs4.OK
	switch {
	case !d.dir():
		want = nfs4.ErrNotDir
	case !d.may(c, 1):
		want = nfs4.ErrAccess
	case d.kids[name] == nil:
		want = nfs4.ErrNoEnt
	case !d.may(c, 2), d.stuck(c, name):
		want = nfs4.ErrAccess
	case len(d.kids[name].kids) > 0:
		want = nfs4.ErrNotEmpty
	}
	r, err := w.tryRemove(c, d.h, name)
	if !w.check(fmt.Sprintf("remove %d/%s by %d", d.h.Inode, name, c.UID), err, want) {
		return
	}
	n := d.kids[name]
	delete(d.kids, name)
	w.touch(d, true)
	if last := w.drop(d, n); last != r.Last || r.Inode.ID != n.h.Inode {
		w.Fatalf("removed %+v, want last %v", r, last)
	}
}

func (w *world) renameWant(c Cred, s *mnode, from string, d *mnode, to string) nfs4.Status {
	if !s.dir() || !d.dir() {
		return nfs4.ErrNotDir
	}
	if !s.may(c, 1) {
		return nfs4.ErrAccess
	}
	n := s.kids[from]
	if n == nil {
		return nfs4.ErrNoEnt
	}
	if !s.may(c, 2) || s.stuck(c, from) || !d.may(c, 3) {
		return nfs4.ErrAccess
	}
	old := d.kids[to]
	switch {
	case old == n:
		return nfs4.OK
	case n.dir() && s != d && !n.may(c, 2):
		return nfs4.ErrAccess
	case n.dir() && d.below(n):
		return nfs4.ErrInval
	case old == nil:
		return nfs4.OK
	case n.dir() && !old.dir():
		return nfs4.ErrNotDir
	case !n.dir() && old.dir():
		return nfs4.ErrIsDir
	case len(old.kids) > 0:
		return nfs4.ErrNotEmpty
	case d.stuck(c, to):
		return nfs4.ErrAccess
	}
	return nfs4.OK
}

func (w *world) rename() {
	s, from, d, to, c := w.anyDir(), w.name(), w.anyDir(), w.name(), w.cred()
	if w.rng.IntN(3) == 0 {
		d = s
	}
	want := w.renameWant(c, s, from, d, to)
	r, err := w.tryRename(c, s.h, from, d.h, to)
	if !w.check(fmt.Sprintf("rename %d/%s to %d/%s by %d", s.h.Inode, from, d.h.Inode, to, c.UID), err, want) {
		return
	}
	n, old := s.kids[from], d.kids[to]
	if old == n {
		return
	}
	delete(s.kids, from)
	d.kids[to] = n
	w.touch(s, true)
	w.touch(d, true)
	w.touch(n, false)
	if n.dir() {
		s.nlink--
		d.nlink++
		n.parent = d
	}
	if (old != nil) != (r.Replaced != nil) {
		w.Fatalf("replaced %+v, want %+v", r.Replaced, old)
	}
	if old != nil {
		if last := w.drop(d, old); last != r.Replaced.Last {
			w.Fatalf("replaced %+v, want last %v", r.Replaced, last)
		}
	}
}

func (w *world) chmod() {
	n, c, m := pick(w.rng, w.nodes), w.cred(), w.rng.Uint32N(0o10000)
	want := nfs4.OK
	if c.UID != 0 && c.UID != n.uid {
		want = nfs4.ErrPerm
	}
	_, err := w.trySetAttr(c, n.h, mode(m), false)
	if w.check(fmt.Sprintf("chmod %d %o by %d", n.h.Inode, m, c.UID), err, want) {
		n.mode = m
		if c.UID != 0 && c.GID != n.gid && !slices.Contains(c.GIDs, n.gid) {
			n.mode &^= 0o2000
		}
		w.touch(n, false)
	}
}

func (w *world) chown() {
	n, c := pick(w.rng, w.nodes), w.cred()
	a := &nfs4.Attrs{}
	uid, gid := pick(w.rng, []uint32{0, 1000, 1001}), pick(w.rng, []uint32{0, 100, 101, 200})
	setUID, setGID := w.rng.IntN(3) == 0, w.rng.IntN(3) > 0
	want := nfs4.OK
	if setUID {
		a.Mask.Set(nfs4.AttrOwner)
		a.Owner = fmt.Append(nil, uid)
		if c.UID != 0 && (c.UID != n.uid || uid != n.uid) {
			want = nfs4.ErrPerm
		}
	}
	if setGID {
		a.Mask.Set(nfs4.AttrOwnerGroup)
		a.OwnerGroup = fmt.Append(nil, gid)
		if c.UID != 0 && (c.UID != n.uid || gid != n.gid && gid != c.GID && !slices.Contains(c.GIDs, gid)) {
			want = nfs4.ErrPerm
		}
	}
	_, err := w.trySetAttr(c, n.h, a, false)
	if !w.check(fmt.Sprintf("chown %d %v:%v by %d", n.h.Inode, uid, gid, c.UID), err, want) || !setUID && !setGID {
		return
	}
	if !n.dir() {
		n.mode = n.cleared(c)
	}
	if setUID {
		n.uid = uid
	}
	if setGID {
		n.gid = gid
	}
	w.touch(n, false)
}

// cleared is n's mode without the set-id bits that c's change takes.
func (n *mnode) cleared(c Cred) uint32 {
	m := n.mode &^ 0o4000
	if m&0o010 != 0 || c.UID != 0 && c.GID != n.gid && !slices.Contains(c.GIDs, n.gid) {
		m &^= 0o2000
	}
	return m
}

func (w *world) resize() {
	n, c, size := pick(w.rng, w.nodes), w.cred(), w.rng.Uint64N(10000)
	want := nfs4.OK
	switch {
	case n.dir():
		want = nfs4.ErrIsDir
	case n.typ != nfs4.TypeReg:
		want = nfs4.ErrInval
	case !n.may(c, 2):
		want = nfs4.ErrAccess
	}
	a := &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: size}
	got, err := w.trySetAttr(c, n.h, a, false)
	if !w.check(fmt.Sprintf("truncate %d by %d", n.h.Inode, c.UID), err, want) {
		return
	}
	if got.OldSize != n.size {
		w.Fatalf("old size %d, want %d", got.OldSize, n.size)
	}
	n.size = size
	if c.UID != 0 {
		n.mode = n.cleared(c)
	}
	w.touch(n, true)
}

func (w *world) write() {
	n, c, end := pick(w.rng, w.nodes), w.cred(), w.rng.Uint64N(10000)
	if n.typ != nfs4.TypeReg {
		return
	}
	w.do(func(tx store.Tx) error {
		_, err := w.vol.Wrote(tx, w.now(), c, n.h, end, nil)
		return err
	})
	n.size = max(n.size, end)
	if c.UID != 0 {
		n.mode = n.cleared(c)
	}
	w.touch(n, true)
}

func (w *world) utimes() {
	n, c, client := pick(w.rng, w.nodes), w.cred(), w.rng.IntN(2) == 0
	a := &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet)}
	owner := c.UID == 0 || c.UID == n.uid
	want := nfs4.OK
	then := time.Unix(w.rng.Int64N(1<<40)-1<<39, w.rng.Int64N(1e9))
	if client {
		a.TimeAccessSet = nfs4.SetTime{How: nfs4.AttrSetToClientTime, Time: nfs4.TimeOf(then)}
		a.TimeModifySet = a.TimeAccessSet
		if !owner {
			want = nfs4.ErrPerm
		}
	} else if !owner && !n.may(c, 2) {
		want = nfs4.ErrAccess
	}
	_, err := w.trySetAttr(c, n.h, a, false)
	if !w.check(fmt.Sprintf("utimes %d by %d", n.h.Inode, c.UID), err, want) {
		return
	}
	if !client {
		then = w.clock
	}
	n.at, n.mt = then, then
	w.touch(n, false)
}

func (w *world) lookup() {
	d, name, c := w.anyDir(), w.name(), w.cred()
	want := nfs4.OK
	switch {
	case d.typ == nfs4.TypeLnk:
		want = nfs4.ErrSymlink
	case !d.dir():
		want = nfs4.ErrNotDir
	case !d.may(c, 1):
		want = nfs4.ErrAccess
	case d.kids[name] == nil:
		want = nfs4.ErrNoEnt
	}
	in, err := w.tryLookup(c, d.h, name)
	if w.check(fmt.Sprintf("lookup %d/%s by %d", d.h.Inode, name, c.UID), err, want) && in.ID != d.kids[name].h.Inode {
		w.Fatalf("found %d, want %d", in.ID, d.kids[name].h.Inode)
	}
}

func (w *world) setXattr() {
	n, c, name, value := pick(w.rng, w.nodes), w.cred(), w.name(), strings.Repeat("v", w.rng.IntN(40))
	option := w.rng.Uint32N(3)
	_, is := n.xattrs[name]
	want := nfs4.OK
	switch {
	case n.noXattrs(c):
		want = nfs4.ErrPerm
	case !n.may(c, 2):
		want = nfs4.ErrAccess
	case option == nfs4.XattrCreate && is:
		want = nfs4.ErrExist
	case option == nfs4.XattrReplace && !is:
		want = nfs4.ErrNoXattr
	}
	info, err := w.trySetXattr(c, n.h, option, name, value)
	if w.check(fmt.Sprintf("setxattr %d %s by %d", n.h.Inode, name, c.UID), err, want) {
		if n.xattrs == nil {
			n.xattrs = map[string]string{}
		}
		n.xattrs[name] = value
		w.touch(n, false)
		w.sawChange(n, info)
	}
}

func (w *world) removeXattr() {
	n, c, name := pick(w.rng, w.nodes), w.cred(), w.name()
	_, is := n.xattrs[name]
	want := nfs4.OK
	switch {
	case n.noXattrs(c):
		want = nfs4.ErrPerm
	case !n.may(c, 2):
		want = nfs4.ErrAccess
	case !is:
		want = nfs4.ErrNoXattr
	}
	info, err := w.tryRemoveXattr(c, n.h, name)
	if w.check(fmt.Sprintf("removexattr %d %s by %d", n.h.Inode, name, c.UID), err, want) {
		delete(n.xattrs, name)
		w.touch(n, false)
		w.sawChange(n, info)
	}
}

func (w *world) getXattr() {
	n, c, name := pick(w.rng, w.nodes), w.cred(), w.name()
	is, there := n.xattrs[name]
	want := nfs4.OK
	switch {
	case !n.may(c, 4):
		want = nfs4.ErrAccess
	case !there:
		want = nfs4.ErrNoXattr
	}
	got, err := w.tryGetXattr(c, n.h, name)
	if w.check(fmt.Sprintf("getxattr %d %s by %d", n.h.Inode, name, c.UID), err, want) && got != is {
		w.Fatalf("value %q, want %q", got, is)
	}
}

// noXattrs says whether c may not even with every right.
func (n *mnode) noXattrs(c Cred) bool {
	return !n.dir() && n.typ != nfs4.TypeReg || n.dir() && n.mode&0o1000 != 0 && c.UID != 0 && c.UID != n.uid
}

// sawChange checks a change_info against the inode as it is now.
func (w *world) sawChange(n *mnode, info nfs4.ChangeInfo) {
	w.Helper()
	if now := w.get(n.h).Change; !info.Atomic || info.After != now || info.Before+1 != now {
		w.Fatalf("change info %+v, change %d", info, now)
	}
}

// compareXattrs looks at all extended attributes of an inode.
func (w *world) compareXattrs(n *mnode, in *Inode) (rows int) {
	w.Helper()
	bytes := 0
	for name, value := range n.xattrs {
		bytes += len(name) + len(value)
		if got, err := w.tryGetXattr(root, n.h, name); err != nil || got != value {
			w.Fatalf("inode %d: %s is %q, %v, want %q", in.ID, name, got, err, value)
		}
	}
	if in.xattrs != (xattrUsage{uint32(len(n.xattrs)), uint32(bytes)}) {
		w.Fatalf("inode %d: %+v, want %d, %d", in.ID, in.xattrs, len(n.xattrs), bytes)
	}
	names, _ := w.listXattrs(root, n.h, 0, 1<<20)
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(n.xattrs)); !slices.Equal(names, want) {
		w.Fatalf("inode %d: listed %v, want %v", in.ID, names, want)
	}
	return len(n.xattrs)
}

func (w *world) forget() {
	n := pick(w.rng, w.nodes)
	want := nfs4.ErrInval
	if n.orphan {
		want = nfs4.OK
	}
	err := w.try(func(tx store.Tx) error { _, err := w.vol.Forget(tx, n.h); return err })
	if w.check(fmt.Sprintf("forget %d", n.h.Inode), err, want) {
		w.nodes = slices.DeleteFunc(w.nodes, func(m *mnode) bool { return m == n })
		w.gone(n.h)
	}
}

// compare looks at every inode, and at every directory's content.
func (w *world) compare() {
	w.Helper()
	if n := w.files(); n != uint64(len(w.nodes)) {
		w.Fatalf("%d inodes counted, want %d", n, len(w.nodes))
	}
	var orphans []uint64
	xattrs := 0
	for _, n := range w.nodes {
		in := w.get(n.h)
		w.compareNode(n, in)
		xattrs += w.compareXattrs(n, in)
		if n.orphan {
			orphans = append(orphans, in.ID)
		}
		if !n.dir() {
			continue
		}
		got := w.names(n.h)
		for name, kid := range n.kids {
			if e := got[name]; e.Handle != kid.h || e.Type != kid.typ {
				w.Fatalf("%d/%s: entry %+v, want %v", in.ID, name, e, kid.h)
			}
		}
		if len(got) != len(n.kids) || in.Entries != uint64(len(got)) {
			w.Fatalf("%d: %d names, counted %d, want %d", in.ID, len(got), in.Entries, len(n.kids))
		}
	}
	if n := w.rows(prefixXattr); n != xattrs {
		w.Fatalf("%d rows of extended attributes, want %d", n, xattrs)
	}
	slices.Sort(orphans)
	var listed []uint64
	w.view(func(tx store.Tx) error {
		return w.vol.ScanOrphans(tx, 0, func(h layout.Handle) (bool, error) { listed = append(listed, h.Inode); return true, nil })
	})
	if !slices.Equal(orphans, listed) {
		w.Fatalf("orphans %v, want %v", listed, orphans)
	}
}

func (w *world) compareNode(n *mnode, in *Inode) {
	w.Helper()
	got := fmt.Sprint(in.Type, in.Mode, in.Nlink, in.UID, in.GID, in.Size, in.Atime, in.Mtime, in.Ctime)
	want := fmt.Sprint(n.typ, n.mode, n.nlink, n.uid, n.gid, n.size, nfs4.TimeOf(n.at), nfs4.TimeOf(n.mt), nfs4.TimeOf(n.ct))
	if got != want {
		w.Fatalf("inode %d\n got %s\nwant %s\nafter %v", in.ID, got, want, w.log[max(0, len(w.log)-12):])
	}
	switch {
	case w.touched[n] && in.Change <= n.change:
		w.Fatalf("inode %d changed, its change attribute did not: %d", in.ID, in.Change)
	case !w.touched[n] && in.Change != n.change && n.change != 0:
		w.Fatalf("inode %d did not change, its change attribute did: %d to %d", in.ID, n.change, in.Change)
	}
	n.change = in.Change
	if n.dir() {
		up := n.parent
		if up == nil {
			up = n
		}
		if in.Parent != up.h.Inode {
			w.Fatalf("inode %d: parent %d, want %d", in.ID, in.Parent, up.h.Inode)
		}
	}
}

func TestModel(t *testing.T) {
	met := map[string]int{}
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := newFixture(t)
			if seed%2 == 1 { // names collide all the time
				f.vol.hash = func(_ *[32]byte, name []byte) uint64 { return uint64(name[0])%2 + 1 }
			}
			in := f.get(f.root)
			top := &mnode{h: f.root, typ: nfs4.TypeDir, mode: 0o755, nlink: 2, size: 4096, kids: map[string]*mnode{}, at: f.clock, mt: f.clock, ct: f.clock, change: in.Change}
			w := &world{fixture: f, rng: rand.New(rand.NewPCG(seed, 99)), top: top, nodes: []*mnode{top}, touched: map[*mnode]bool{}, met: met}
			ops := []func(){w.create, w.create, w.create, w.create, w.link, w.remove, w.rename, w.rename, w.rename, w.chmod, w.chown, w.resize, w.write, w.utimes, w.lookup, w.forget,
				w.setXattr, w.setXattr, w.setXattr, w.removeXattr, w.getXattr}
			for i := range 3000 {
				if len(w.nodes) > 60 {
					w.remove()
				}
				pick(w.rng, ops)()
				if i%7 == 0 {
					w.compare()
					clear(w.touched)
				}
			}
			w.compare()
		})
	}
	t.Log(met)
	for _, rare := range []string{
		"create NFS4ERR_EXIST", "create NFS4ERR_PERM", "create NFS4ERR_ACCESS", "link NFS4_OK", "link NFS4ERR_NOENT",
		"remove NFS4ERR_NOTEMPTY", "remove NFS4_OK", "forget NFS4_OK", "chown NFS4_OK", "chmod NFS4ERR_PERM",
		"setxattr NFS4_OK", "setxattr NFS4ERR_EXIST", "setxattr NFS4ERR_NOXATTR", "setxattr NFS4ERR_ACCESS", "setxattr NFS4ERR_PERM",
		"removexattr NFS4_OK", "removexattr NFS4ERR_NOXATTR", "getxattr NFS4_OK", "getxattr NFS4ERR_ACCESS",
		"rename NFS4_OK", "rename NFS4ERR_INVAL", "rename NFS4ERR_NOTDIR", "rename NFS4ERR_ISDIR", "rename NFS4ERR_NOTEMPTY", "rename NFS4ERR_ACCESS",
	} {
		if met[rare] < 10 {
			t.Errorf("%s: met only %d times", rare, met[rare])
		}
	}
}
