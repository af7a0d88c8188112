package ns

import (
	"context"
	"testing"
	"time"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/mds/store/storetest"
	"manifold/xdr/nfs4"
)

var (
	root  = Cred{}
	alice = Cred{UID: 1000, GID: 100, GIDs: []uint32{200}}
	bob   = Cred{UID: 1001, GID: 101, GIDs: []uint32{200}}
	carol = Cred{UID: 1002, GID: 102}
)

// fixture is a fresh volume in memory, and a clock that ticks at each use.
type fixture struct {
	testing.TB
	store store.Store
	vol   *Volume
	root  layout.Handle
	clock time.Time
}

func newFixture(t testing.TB) *fixture {
	m := new(storetest.Mem)
	return newFixtureOn(t, m.Open())
}

func newFixtureOn(t testing.TB, s store.Store) *fixture {
	f := &fixture{TB: t, store: s, clock: time.Unix(1_800_000_000, 0)}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	f.do(func(tx store.Tx) error {
		var err error
		f.vol, err = Format(tx, f.now(), 255, nfs4.FSID{Major: 7, Minor: 1}, [32]byte{1, 2, 3})
		return err
	})
	f.view(func(tx store.Tx) error {
		in, err := f.vol.Root(tx)
		f.root = f.vol.Handle(in)
		return err
	})
	return f
}

// now moves the clock by a second and a nanosecond.
func (f *fixture) now() time.Time {
	f.clock = f.clock.Add(time.Second + time.Nanosecond)
	return f.clock
}

func (f *fixture) try(fn func(tx store.Tx) error) error {
	return f.store.Update(context.Background(), fn)
}

func (f *fixture) do(fn func(tx store.Tx) error) {
	f.Helper()
	if err := f.try(fn); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) view(fn func(tx store.Tx) error) {
	f.Helper()
	if err := f.store.View(context.Background(), fn); err != nil {
		f.Fatal(err)
	}
}

// want checks a status.
func (f *fixture) want(err error, s nfs4.Status) {
	f.Helper()
	if got := StatusOf(err); got != s {
		f.Errorf("got %v (%v), want %v", got, err, s)
	}
}

func mode(m uint32) *nfs4.Attrs {
	return &nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: m}
}

func (f *fixture) tryCreate(cred Cred, dir layout.Handle, name string, node *Node) (c Created, err error) {
	err = f.try(func(tx store.Tx) error {
		c, err = f.vol.Create(tx, f.now(), cred, dir, []byte(name), node)
		return err
	})
	return c, err
}

func (f *fixture) create(cred Cred, dir layout.Handle, name string, node *Node) layout.Handle {
	f.Helper()
	c, err := f.tryCreate(cred, dir, name, node)
	if err != nil {
		f.Fatalf("create %q: %v", name, err)
	}
	return f.vol.Handle(c.Inode)
}

func (f *fixture) file(cred Cred, dir layout.Handle, name string, m uint32) layout.Handle {
	f.Helper()
	return f.create(cred, dir, name, &Node{Type: nfs4.TypeReg, Guarded: true, Attrs: mode(m)})
}

func (f *fixture) mkdir(cred Cred, dir layout.Handle, name string, m uint32) layout.Handle {
	f.Helper()
	return f.create(cred, dir, name, &Node{Type: nfs4.TypeDir, Attrs: mode(m)})
}

func (f *fixture) tryLink(cred Cred, file, dir layout.Handle, name string) error {
	return f.try(func(tx store.Tx) error {
		_, _, err := f.vol.Link(tx, f.now(), cred, file, dir, []byte(name))
		return err
	})
}

func (f *fixture) tryRemove(cred Cred, dir layout.Handle, name string) (r Removed, err error) {
	err = f.try(func(tx store.Tx) error {
		r, err = f.vol.Remove(tx, f.now(), cred, dir, []byte(name))
		return err
	})
	return r, err
}

func (f *fixture) tryRename(cred Cred, src layout.Handle, from string, dst layout.Handle, to string) (r Renamed, err error) {
	err = f.try(func(tx store.Tx) error {
		r, err = f.vol.Rename(tx, f.now(), cred, src, []byte(from), dst, []byte(to))
		return err
	})
	return r, err
}

func (f *fixture) trySetAttr(cred Cred, h layout.Handle, a *nfs4.Attrs, writer bool) (c Changed, err error) {
	err = f.try(func(tx store.Tx) error {
		c, err = f.vol.SetAttr(tx, f.now(), cred, h, a, writer)
		return err
	})
	return c, err
}

func (f *fixture) tryLookup(cred Cred, dir layout.Handle, name string) (in *Inode, err error) {
	err = f.store.View(context.Background(), func(tx store.Tx) error {
		in, err = f.vol.Lookup(tx, cred, dir, []byte(name))
		return err
	})
	return in, err
}

func (f *fixture) get(h layout.Handle) *Inode {
	f.Helper()
	var in *Inode
	f.view(func(tx store.Tx) (err error) {
		in, err = f.vol.Get(tx, h)
		return err
	})
	return in
}

func (f *fixture) gone(h layout.Handle) {
	f.Helper()
	err := f.store.View(context.Background(), func(tx store.Tx) error {
		_, err := f.vol.Get(tx, h)
		return err
	})
	f.want(err, nfs4.ErrStale)
}

func (f *fixture) names(dir layout.Handle) map[string]Entry {
	f.Helper()
	out := map[string]Entry{}
	f.view(func(tx store.Tx) error {
		_, eof, err := f.vol.ReadDir(tx, root, dir, 0, nfs4.Verifier{}, func(e Entry) (bool, error) {
			name := string(e.Name)
			if _, twice := out[name]; twice {
				f.Errorf("%q twice", name)
			}
			e.Name = nil
			out[name] = e
			return true, nil
		})
		if !eof {
			f.Error("no eof")
		}
		return err
	})
	return out
}

func (f *fixture) files() (n uint64) {
	f.view(func(tx store.Tx) (err error) {
		n, err = f.vol.Files(tx)
		return err
	})
	return n
}
