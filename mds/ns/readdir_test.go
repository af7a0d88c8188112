package ns

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// fill makes n files in dir, many in one Update.
func (f *fixture) fill(dir layout.Handle, n int) {
	f.Helper()
	for at := 0; at < n; at += 500 {
		f.do(func(tx store.Tx) error {
			for i := at; i < min(n, at+500); i++ {
				if _, err := f.vol.Create(tx, f.now(), root, dir, fmt.Appendf(nil, "file-%05d", i), &Node{Type: nfs4.TypeReg}); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// page reads up to n entries.
func (f *fixture) page(dir layout.Handle, cookie uint64, verf nfs4.Verifier, n int) (es []Entry, newVerf nfs4.Verifier, eof bool, err error) {
	f.view(func(tx store.Tx) error {
		newVerf, eof, err = f.vol.ReadDir(tx, root, dir, cookie, verf, func(e Entry) (bool, error) {
			if len(es) == n {
				return false, nil
			}
			e.Name = slices.Clone(e.Name)
			es = append(es, e)
			return true, nil
		})
		return nil
	})
	return es, newVerf, eof, err
}

// TestReadDirPages reads a directory in pages, with collisions and without, while
// names go and come between pages: what was there all the time is seen once.
func TestReadDirPages(t *testing.T) {
	hashes := map[string]func(*[32]byte, []byte) uint64{
		"real": hashName,
		"poor": func(key *[32]byte, name []byte) uint64 { return maxHash - hashName(key, name)%200 },
	}
	for label, hash := range hashes {
		t.Run(label, func(t *testing.T) {
			f := newFixture(t)
			f.vol.hash = hash
			dir := f.mkdir(root, f.root, "d", 0o755)
			f.fill(dir, 400)
			seen := map[string]int{}
			var cookie, last uint64
			var verf nfs4.Verifier
			for round := 0; ; round++ {
				es, v, eof, err := f.page(dir, cookie, verf, 7)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range es {
					if e.Cookie <= last || e.Cookie < 8 || e.Cookie >= 1<<63-1 {
						t.Fatalf("cookie %d after %d", e.Cookie, last)
					}
					last = e.Cookie
					seen[string(e.Name)]++
				}
				if eof {
					break
				}
				cookie, verf = last, v
				// Remove what was just listed, the cookie's own name among
				// it, and something ahead; add something new.
				if round%5 == 0 {
					for _, e := range es[4:] {
						if _, err := f.tryRemove(root, dir, string(e.Name)); err != nil {
							t.Fatal(err)
						}
					}
					f.file(root, dir, fmt.Sprintf("new-%08d", round), 0o644)
				}
			}
			for i := range 400 {
				if n := seen[fmt.Sprintf("file-%05d", i)]; n != 1 {
					t.Errorf("file-%05d seen %d times", i, n)
				}
			}
		})
	}
}

func TestReadDirErrors(t *testing.T) {
	f := newFixture(t)
	f.fill(f.root, 3)
	_, verf, eof, err := f.page(f.root, 0, nfs4.Verifier{9}, 10)
	if err != nil || !eof || verf == (nfs4.Verifier{}) {
		t.Fatal(verf, eof, err)
	}
	for _, c := range []struct {
		cookie uint64
		verf   nfs4.Verifier
		want   nfs4.Status
	}{
		{1, verf, nfs4.ErrBadCookie}, {2, verf, nfs4.ErrBadCookie}, {7, verf, nfs4.ErrBadCookie},
		{1 << 63, verf, nfs4.ErrBadCookie}, {1<<64 - 1, verf, nfs4.ErrBadCookie}, {1<<63 - 1, verf, nfs4.ErrBadCookie},
		{8, nfs4.Verifier{}, nfs4.ErrNotSame}, {8, verf, nfs4.OK}, {1<<63 - 9, verf, nfs4.OK},
	} {
		_, _, _, err := f.page(f.root, c.cookie, c.verf, 10)
		f.want(err, c.want)
	}
	reg := f.file(root, f.root, "reg", 0o644)
	_, _, _, err = f.page(reg, 0, verf, 1)
	f.want(err, nfs4.ErrNotDir)
	closed := f.mkdir(root, f.root, "closed", 0o711)
	f.view(func(tx store.Tx) error {
		_, _, err := f.vol.ReadDir(tx, alice, closed, 0, verf, nil)
		f.want(err, nfs4.ErrAccess)
		return nil
	})
	if es, _, eof, err := f.page(closed, 0, verf, 1); es != nil || !eof || err != nil {
		t.Errorf("empty: %v %v %v", es, eof, err)
	}
}

// TestSlots: eight names of one hash fit, the ninth is refused, and a slot that
// came free is used again.
func TestSlots(t *testing.T) {
	f := newFixture(t)
	f.vol.hash = func(*[32]byte, []byte) uint64 { return 5 }
	for i := range slots {
		f.file(root, f.root, fmt.Sprint(i), 0o644)
	}
	_, err := f.tryCreate(root, f.root, "more", &Node{Type: nfs4.TypeReg})
	f.want(err, nfs4.ErrNoSpc)
	was := f.names(f.root)
	if _, err := f.tryRemove(root, f.root, "3"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.tryRename(root, f.root, "7", f.root, "more"); err != nil {
		t.Fatal(err)
	}
	is := f.names(f.root)
	if is["more"].Cookie != was["3"].Cookie || is["6"].Cookie != was["6"].Cookie || len(is) != slots-1 {
		t.Errorf("%v, then %v", was, is)
	}
}

func TestHash(t *testing.T) {
	key, other := [32]byte{1}, [32]byte{2}
	for i := range 2000 {
		name := fmt.Appendf(nil, "%d", i)
		h := hashName(&key, name)
		if h < 1 || h > maxHash || h != hashName(&key, name) || h == hashName(&other, name) {
			t.Fatalf("%s: %d", name, h)
		}
	}
}

// TestLargeDirectory: 10,000 names; one more create, a look-up and a page do not
// cost more for it. The bound is loose: a scan of all of it would be far over.
func TestLargeDirectory(t *testing.T) {
	f := newFixture(t)
	dir := f.mkdir(root, f.root, "big", 0o755)
	f.fill(dir, 10_000)
	const rounds = 200
	begin := time.Now()
	for i := range rounds {
		es, _, _, err := f.page(dir, uint64(i+1)<<54, f.vol.cookies, 10)
		if err != nil || len(es) != 10 {
			t.Fatal(len(es), err)
		}
		f.file(root, dir, fmt.Sprintf("extra-%d", i), 0o644)
	}
	if each := time.Since(begin) / rounds; each > 3*time.Millisecond {
		t.Errorf("%v for a page and a create", each)
	}
	if got := f.names(dir); len(got) != 10_000+rounds {
		t.Errorf("%d names", len(got))
	}
}
