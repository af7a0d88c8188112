package wire_test

import (
	"fmt"
	"testing"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

func readdirOp(a *nfs4.ReaddirArgs, r *nfs4.ReaddirRes) client.Op {
	return client.Op{Num: nfs4.OpReaddir, Args: a, Res: r}
}

// TestReaddir reads a large directory page by page while names go and come.
func TestReaddir(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	const total = 5000
	fill(p, dir, total)
	seen := map[string]int{}
	cookies := map[uint64]bool{}
	a := &nfs4.ReaddirArgs{MaxCount: 16 << 10, DirCount: 4096,
		AttrRequest: nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrFileID, nfs4.AttrRdattrError, nfs4.AttrFilehandle)}
	removed := map[string]bool{}
	for page := 0; ; page++ {
		var r nfs4.ReaddirRes
		p.must(putFH(dir), readdirOp(a, &r))
		for _, e := range r.Entries {
			seen[string(e.Name)]++
			if e.Cookie <= 2 || cookies[e.Cookie] || len(e.Attrs.Filehandle) == 0 || e.Attrs.Type != nfs4.TypeDir || e.Attrs.FileID == 0 {
				t.Fatalf("entry %+v", e)
			}
			cookies[e.Cookie] = true
			a.Cookie = e.Cookie
		}
		a.CookieVerf = r.CookieVerf
		if r.EOF {
			break
		}
		if len(r.Entries) == 0 {
			t.Fatal("an empty page that is not the last")
		}
		// The name that the cookie stands for goes, and two others, seen or not.
		for _, name := range []string{string(r.Entries[len(r.Entries)-1].Name), entryName(page), entryName(total - 1 - page)} {
			if !removed[name] {
				p.must(putFH(dir), remove(name))
				removed[name] = true
			}
		}
		p.must(putFH(dir), makeDir(fmt.Sprintf("new%d", page), 0o755))
	}
	for i := range total {
		name := entryName(i)
		if n := seen[name]; n > 1 || n == 0 && !removed[name] {
			t.Errorf("%s came %d times", name, n)
		}
	}
}

func entryName(i int) string { return fmt.Sprintf("some-name-%06d", i) }

// fill makes n directories, in compounds of many CREATEs.
func fill(p *peer, dir nfs4.FH, n int) {
	p.t.Helper()
	for i := 0; i < n; {
		var ops []client.Op
		for ; i < n && len(ops) < 24; i++ {
			ops = append(ops, putFH(dir), makeDir(entryName(i), 0o755))
		}
		p.must(ops...)
	}
}

func TestReaddirRefused(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	fill(p, dir, 100)
	var first nfs4.ReaddirRes
	p.must(putFH(dir), readdirOp(&nfs4.ReaddirArgs{MaxCount: 1000}, &first))
	if first.EOF || len(first.Entries) == 0 {
		t.Fatalf("%d entries, eof %v", len(first.Entries), first.EOF)
	}
	at := first.Entries[0].Cookie
	bad := first.CookieVerf
	bad[0] ^= 1
	all := nfs4.Bitmap{1<<32 - 1, 1<<32 - 1, 1<<32 - 1}.Without(writeOnly())
	for _, x := range []struct {
		what string
		args nfs4.ReaddirArgs
		want nfs4.Status
	}{
		{"verifier that is not ours", nfs4.ReaddirArgs{Cookie: at, CookieVerf: bad, MaxCount: 1000}, nfs4.ErrNotSame},
		{"cookie 1", nfs4.ReaddirArgs{Cookie: 1, CookieVerf: first.CookieVerf, MaxCount: 1000}, nfs4.ErrBadCookie},
		{"cookie 2", nfs4.ReaddirArgs{Cookie: 2, CookieVerf: first.CookieVerf, MaxCount: 1000}, nfs4.ErrBadCookie},
		{"cookie of all ones", nfs4.ReaddirArgs{Cookie: 1<<64 - 1, CookieVerf: first.CookieVerf, MaxCount: 1000}, nfs4.ErrBadCookie},
		{"no room at all", nfs4.ReaddirArgs{MaxCount: 0}, nfs4.ErrTooSmall},
		{"no room for a result", nfs4.ReaddirArgs{MaxCount: 16}, nfs4.ErrTooSmall},
		{"no room for an entry", nfs4.ReaddirArgs{MaxCount: 64, AttrRequest: all}, nfs4.ErrTooSmall},
		{"an attribute that can only be written", nfs4.ReaddirArgs{MaxCount: 4096, AttrRequest: nfs4.BitmapOf(nfs4.AttrTimeModifySet)}, nfs4.ErrInval},
		{"every attribute", nfs4.ReaddirArgs{MaxCount: 1 << 20, AttrRequest: all}, nfs4.OK},
		{"a count beyond all", nfs4.ReaddirArgs{MaxCount: 1<<32 - 1, DirCount: 1<<32 - 1}, nfs4.OK},
	} {
		if got := p.try(putFH(dir), readdirOp(&x.args, &nfs4.ReaddirRes{})); got != x.want {
			t.Errorf("%s: %v, want %v", x.what, got, x.want)
		}
	}
	// A page never takes more than the client's limit.
	for _, limit := range []uint32{100, 500, 3000} {
		var r nfs4.ReaddirRes
		p.must(putFH(dir), readdirOp(&nfs4.ReaddirArgs{MaxCount: limit, AttrRequest: nfs4.BitmapOf(nfs4.AttrFileID)}, &r))
		size := 8 + 4 + 4
		for _, e := range r.Entries {
			size += 4 + 8 + 4 + (len(e.Name)+3)&^3 + 4 + 4 + 4 + 8
		}
		if size > int(limit) {
			t.Errorf("page of %d bytes, limit %d", size, limit)
		}
	}
	// An empty directory is at its end at once.
	var r nfs4.ReaddirRes
	p.must(putFH(p.dir()), readdirOp(&nfs4.ReaddirArgs{MaxCount: 100}, &r))
	if !r.EOF || len(r.Entries) != 0 {
		t.Errorf("empty directory: %d entries, eof %v", len(r.Entries), r.EOF)
	}
}
