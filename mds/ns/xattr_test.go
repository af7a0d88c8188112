package ns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

func (f *fixture) trySetXattr(cred Cred, h layout.Handle, option uint32, name, value string) (info nfs4.ChangeInfo, err error) {
	err = f.try(func(tx store.Tx) error {
		info, err = f.vol.SetXattr(tx, f.now(), cred, h, option, []byte(name), []byte(value))
		return err
	})
	return info, err
}

func (f *fixture) tryRemoveXattr(cred Cred, h layout.Handle, name string) (info nfs4.ChangeInfo, err error) {
	err = f.try(func(tx store.Tx) error {
		info, err = f.vol.RemoveXattr(tx, f.now(), cred, h, []byte(name))
		return err
	})
	return info, err
}

func (f *fixture) tryGetXattr(cred Cred, h layout.Handle, name string) (value string, err error) {
	err = f.store.View(context.Background(), func(tx store.Tx) error {
		v, err := f.vol.GetXattr(tx, cred, h, []byte(name))
		value = string(v)
		return err
	})
	return value, err
}

// listXattrs lists all names, a page of so many at a time.
func (f *fixture) listXattrs(cred Cred, h layout.Handle, cookie uint64, page int) (names []string, pages int) {
	f.Helper()
	for eof := false; !eof; pages++ {
		n := 0
		f.view(func(tx store.Tx) (err error) {
			eof, err = f.vol.ListXattrs(tx, cred, h, cookie, func(at uint64, name []byte) bool {
				if n == page {
					return false
				}
				if at <= cookie {
					f.Errorf("cookie %d after %d", at, cookie)
				}
				names, cookie = append(names, string(name)), at
				n++
				return true
			})
			return err
		})
		if n == 0 && !eof {
			f.Fatal("neither names nor an end")
		}
	}
	return names, pages
}

func TestXattrs(t *testing.T) {
	f := newFixture(t)
	h := f.file(alice, f.public(), "f", 0o644)
	for i, c := range []struct {
		cred        Cred
		option      uint32
		name, value string
		want        nfs4.Status
	}{
		{alice, nfs4.XattrReplace, "a", "1", nfs4.ErrNoXattr},
		{alice, nfs4.XattrCreate, "a", "1", nfs4.OK},
		{alice, nfs4.XattrCreate, "a", "2", nfs4.ErrExist},
		{alice, nfs4.XattrReplace, "a", "3", nfs4.OK},
		{alice, nfs4.XattrEither, "a", "", nfs4.OK},
		{alice, nfs4.XattrEither, "b/c.d", "\x00\xff", nfs4.OK},
		{bob, nfs4.XattrEither, "c", "", nfs4.ErrAccess},
		{root, nfs4.XattrEither, "c", "", nfs4.OK},
		{alice, 3, "a", "", nfs4.ErrInval},
		{alice, 0, "", "", nfs4.ErrInval},
		{alice, 0, "x\x00", "", nfs4.ErrBadChar},
		{alice, 0, strings.Repeat("n", 255), "", nfs4.OK},
		{alice, 0, strings.Repeat("n", 256), "", nfs4.ErrNameTooLong},
		{alice, 0, "big", strings.Repeat("v", MaxXattr), nfs4.OK},
		{alice, 0, "big", strings.Repeat("v", MaxXattr+1), nfs4.ErrXattr2Big},
	} {
		before := f.get(h)
		info, err := f.trySetXattr(c.cred, h, c.option, c.name, c.value)
		in := f.get(h)
		if got := StatusOf(err); got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
		changed := c.want == nfs4.OK
		if changed != (info == nfs4.ChangeInfo{Atomic: true, Before: before.Change, After: in.Change}) ||
			changed != (in.Change == before.Change+1) || changed != (in.Ctime == nfs4.TimeOf(f.clock)) || in.Mtime != before.Mtime {
			t.Errorf("%d: %+v; %+v, was %+v", i, info, in, before)
		}
		if got, err := f.tryGetXattr(bob, h, c.name); changed && (err != nil || got != c.value) {
			t.Errorf("%d: value of %d bytes, %v", i, len(got), err)
		}
	}
	for name, want := range map[string]nfs4.Status{"none": nfs4.ErrNoXattr, "": nfs4.ErrInval, "\x00": nfs4.ErrBadChar, strings.Repeat("n", 256): nfs4.ErrNameTooLong} {
		_, err := f.tryGetXattr(alice, h, name)
		f.want(err, want)
		_, err = f.tryRemoveXattr(alice, h, name)
		f.want(err, want)
	}
	_, err := f.tryRemoveXattr(bob, h, "a")
	f.want(err, nfs4.ErrAccess)
	names, _ := f.listXattrs(bob, h, 0, 100)
	slices.Sort(names)
	if want := []string{"a", "b/c.d", "big", "c", strings.Repeat("n", 255)}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	for _, name := range names {
		if _, err := f.tryRemoveXattr(alice, h, name); err != nil {
			t.Error(err)
		}
	}
	if names, _ := f.listXattrs(bob, h, 0, 100); len(names) != 0 || f.rows(prefixXattr) != 0 || f.get(h).xattrs != (xattrUsage{}) {
		t.Errorf("left %q, %d rows, %+v", names, f.rows(prefixXattr), f.get(h).xattrs)
	}
}

// TestXattrsByType: what has extended attributes and who may change them, as
// for those of users on Linux.
func TestXattrsByType(t *testing.T) {
	f := newFixture(t)
	d := f.public()
	lnk := f.create(alice, d, "l", &Node{Type: nfs4.TypeLnk, Target: []byte("x")})
	fifo := f.create(alice, d, "p", &Node{Type: nfs4.TypeFifo, Attrs: mode(0o666)})
	for _, h := range []layout.Handle{lnk, fifo} {
		_, err := f.trySetXattr(alice, h, 0, "a", "")
		f.want(err, nfs4.ErrPerm)
		_, err = f.tryRemoveXattr(alice, h, "a")
		f.want(err, nfs4.ErrPerm)
		_, err = f.tryGetXattr(alice, h, "a")
		f.want(err, nfs4.ErrNoXattr)
		if names, _ := f.listXattrs(alice, h, 0, 9); len(names) != 0 {
			t.Error(names)
		}
	}
	sticky := f.mkdir(alice, d, "s", 0o1777)
	for _, c := range []struct {
		cred Cred
		want nfs4.Status
	}{{bob, nfs4.ErrPerm}, {alice, nfs4.OK}, {root, nfs4.OK}} {
		_, err := f.trySetXattr(c.cred, sticky, 0, "a", "")
		f.want(err, c.want)
	}
	secret := f.file(alice, d, "f", 0o200)
	_, err := f.trySetXattr(alice, secret, 0, "a", "")
	f.want(err, nfs4.OK)
	_, err = f.tryGetXattr(alice, secret, "a")
	f.want(err, nfs4.ErrAccess)
	err = f.store.View(context.Background(), func(tx store.Tx) error {
		_, err := f.vol.ListXattrs(tx, alice, secret, 0, nil)
		return err
	})
	f.want(err, nfs4.ErrAccess)
	_, err = f.trySetXattr(alice, layout.Handle{Volume: 255, Inode: 9999, Gen: 1}, 0, "a", "")
	f.want(err, nfs4.ErrStale)
}

// TestXattrPages: cookies stay good while attributes come and go.
func TestXattrPages(t *testing.T) {
	f := newFixture(t)
	h := f.file(alice, f.public(), "f", 0o644)
	const n = 50
	for i := range n {
		if _, err := f.trySetXattr(alice, h, nfs4.XattrCreate, fmt.Sprint("attr", i), "v"); err != nil {
			t.Fatal(err)
		}
	}
	for _, page := range []int{1, 7, 25, n, n + 1} {
		names, pages := f.listXattrs(alice, h, 0, page)
		slices.Sort(names)
		if len(slices.Compact(names)) != n || pages != (n+page-1)/page {
			t.Errorf("pages of %d: %d names in %d", page, len(names), pages)
		}
	}
	// Half of them are listed and go, others come: the rest is still there.
	var cookie uint64
	seen := map[string]bool{}
	f.view(func(tx store.Tx) error {
		_, err := f.vol.ListXattrs(tx, alice, h, 0, func(at uint64, name []byte) bool {
			seen[string(name)], cookie = true, at
			return len(seen) < n/2
		})
		return err
	})
	for name := range seen {
		if _, err := f.tryRemoveXattr(alice, h, name); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		if _, err := f.trySetXattr(alice, h, 0, fmt.Sprint("more", i), ""); err != nil {
			t.Fatal(err)
		}
	}
	rest, _ := f.listXattrs(alice, h, cookie, 3)
	rest = slices.DeleteFunc(rest, func(s string) bool { return strings.HasPrefix(s, "more") })
	slices.Sort(rest)
	if len(slices.Compact(rest)) != n-n/2 {
		t.Errorf("%d left, want %d", len(rest), n-n/2)
	}
	for _, bad := range []uint64{1, 7, 1 << 63, 1<<64 - 1} {
		err := f.store.View(context.Background(), func(tx store.Tx) error {
			_, err := f.vol.ListXattrs(tx, alice, h, bad, nil)
			return err
		})
		f.want(err, nfs4.ErrBadCookie)
	}
}

// TestXattrBounds: so many, so many bytes, and so many of one hash.
func TestXattrBounds(t *testing.T) {
	f := newFixture(t)
	d := f.public()
	h := f.file(alice, d, "f", 0o644)
	set := func(h layout.Handle, name, value string) error {
		_, err := f.trySetXattr(alice, h, 0, name, value)
		return err
	}
	for i := range maxXattrs {
		if err := set(h, fmt.Sprint(i), ""); err != nil {
			t.Fatal(err)
		}
	}
	f.want(set(h, "one more", ""), nfs4.ErrNoSpc)
	f.want(set(h, "1", "changed"), nfs4.OK)

	h2 := f.file(alice, d, "g", 0o644)
	value := strings.Repeat("v", MaxXattr)
	for i := range maxXattrBytes/MaxXattr - 1 {
		if err := set(h2, fmt.Sprint(i), value); err != nil {
			t.Fatal(err)
		}
	}
	f.want(set(h2, "last", value[:MaxXattr-100]), nfs4.OK)
	f.want(set(h2, "last", value), nfs4.ErrNoSpc)
	f.want(set(h2, "0", ""), nfs4.OK)
	f.want(set(h2, "last", value), nfs4.OK)

	// Everything goes with the file.
	for _, name := range []string{"f", "g"} {
		r, err := f.tryRemove(alice, d, name)
		if err != nil {
			t.Fatal(err)
		}
		f.do(func(tx store.Tx) error { _, err := f.vol.Forget(tx, f.vol.Handle(r.Inode)); return err })
	}
	if n := f.rows(prefixXattr); n != 0 {
		t.Errorf("%d rows left", n)
	}
	f.vol.hash = func(*[32]byte, []byte) uint64 { return 5 }
	h3 := f.mkdir(alice, d, "d", 0o755)
	for i := range slots {
		f.want(set(h3, fmt.Sprint(i), fmt.Sprint("value", i)), nfs4.OK)
	}
	f.want(set(h3, "x", ""), nfs4.ErrNoSpc)
	_, err := f.tryRemoveXattr(alice, h3, "3")
	f.want(err, nfs4.OK)
	f.want(set(h3, "x", "in its place"), nfs4.OK)
	if got, err := f.tryGetXattr(alice, h3, "x"); err != nil || got != "in its place" {
		t.Errorf("%q, %v", got, err)
	}
	if names, _ := f.listXattrs(alice, h3, 0, 3); len(names) != slots {
		t.Error(names)
	}
}

func FuzzXattr(f *testing.F) {
	key := xattrKey(1, 77, 8)
	row := newRow(formXattr, 0)
	row.Opaque([]byte("name"))
	row.Opaque([]byte("value"))
	f.Add(row.Bytes())
	f.Fuzz(func(t *testing.T, body []byte) {
		name, value, err := decodeXattr(key, sealed(key, body))
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if len(name) == 0 || len(name) > nfs4.MaxNameLen || len(value) > MaxXattr {
			t.Fatalf("%d and %d bytes", len(name), len(value))
		}
		e := newRow(formXattr, 0)
		e.Opaque(name)
		e.Opaque(value)
		if !bytes.Equal(e.Bytes(), body) {
			t.Fatalf("encoded\n%x, was\n%x", e.Bytes(), body)
		}
	})
}
