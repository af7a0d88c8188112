package wire_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

func getXattr(name string, r *nfs4.GetXattrRes) client.Op {
	return client.Op{Num: nfs4.OpGetXattr, Args: &nfs4.GetXattrArgs{Name: []byte(name)}, Res: r}
}

func setXattr(option uint32, name, value string, r *nfs4.SetXattrRes) client.Op {
	return client.Op{Num: nfs4.OpSetXattr, Args: &nfs4.SetXattrArgs{Option: option, Key: []byte(name), Value: []byte(value)}, Res: r}
}

func listXattrs(cookie uint64, count uint32, r *nfs4.ListXattrsRes) client.Op {
	return client.Op{Num: nfs4.OpListXattrs, Args: &nfs4.ListXattrsArgs{Cookie: cookie, MaxCount: count}, Res: r}
}

func removeXattr(name string, r *nfs4.RemoveXattrRes) client.Op {
	return client.Op{Num: nfs4.OpRemoveXattr, Args: &nfs4.RemoveXattrArgs{Name: []byte(name)}, Res: r}
}

func TestXattrs(t *testing.T) {
	t.Parallel()
	p := shared(t).newPeer(t, "a")
	f := p.create(p.dir(), "f")
	if a := p.stat(f.fh, nfs4.AttrXattrSupport); !a.XattrSupport {
		t.Error("no support")
	}
	const n = 40
	var set nfs4.SetXattrRes
	for i := range n {
		before := p.stat(f.fh, nfs4.AttrChange).Change
		p.must(putFH(f.fh), setXattr(nfs4.XattrCreate, fmt.Sprintf("name%d", i), strings.Repeat("v", i), &set))
		if after := p.stat(f.fh, nfs4.AttrChange).Change; set.Info != (nfs4.ChangeInfo{Atomic: true, Before: before, After: after}) || after <= before {
			t.Errorf("change info %+v, change %d, was %d", set.Info, after, before)
		}
	}
	var got nfs4.GetXattrRes
	for i := range n {
		if p.must(putFH(f.fh), getXattr(fmt.Sprintf("name%d", i), &got)); string(got.Value) != strings.Repeat("v", i) {
			t.Errorf("%d: %q", i, got.Value)
		}
	}
	// Every page keeps the client's limit; all of them hold each name once.
	for _, count := range []uint32{16 + 4 + 8, 100, 200, 1 << 16, 1<<32 - 1} {
		var all []string
		for at, eof := uint64(0), false; !eof; {
			var r nfs4.ListXattrsRes
			p.must(putFH(f.fh), listXattrs(at, count, &r))
			size := 16
			for _, name := range r.Names {
				all = append(all, string(name))
				size += 4 + (len(name)+3)&^3
			}
			if uint64(size) > uint64(count) || len(r.Names) == 0 {
				t.Fatalf("%d bytes and %d names in a page of %d", size, len(r.Names), count)
			}
			at, eof = r.Cookie, r.EOF
		}
		slices.Sort(all)
		if len(slices.Compact(all)) != n {
			t.Errorf("count %d: %d names", count, len(all))
		}
	}
	var list nfs4.ListXattrsRes
	for _, x := range []struct {
		what string
		op   client.Op
		want nfs4.Status
	}{
		{"no room", listXattrs(0, 15, &list), nfs4.ErrTooSmall},
		{"no room for a name", listXattrs(0, 16, &list), nfs4.ErrTooSmall},
		{"cookie", listXattrs(1, 1000, &list), nfs4.ErrBadCookie},
		{"exists", setXattr(nfs4.XattrCreate, "name1", "", &set), nfs4.ErrExist},
		{"does not", setXattr(nfs4.XattrReplace, "name", "", &set), nfs4.ErrNoXattr},
		{"option", setXattr(3, "name", "", &set), nfs4.ErrInval},
		{"no name", setXattr(0, "", "", &set), nfs4.ErrInval},
		{"long name", setXattr(0, strings.Repeat("n", 256), "", &set), nfs4.ErrNameTooLong},
		{"longer name", setXattr(0, strings.Repeat("n", 5000), "", &set), nfs4.ErrBadXDR},
		{"large", setXattr(0, "big", strings.Repeat("v", 64<<10), &set), nfs4.OK},
		{"too large", setXattr(0, "big", strings.Repeat("v", 64<<10+1), &set), nfs4.ErrXattr2Big},
		{"get none", getXattr("name", &got), nfs4.ErrNoXattr},
		{"get large", getXattr("big", &got), nfs4.OK},
		{"remove none", removeXattr("name", &nfs4.RemoveXattrRes{}), nfs4.ErrNoXattr},
		{"remove", removeXattr("big", &nfs4.RemoveXattrRes{}), nfs4.OK},
		{"remove again", removeXattr("big", &nfs4.RemoveXattrRes{}), nfs4.ErrNoXattr},
	} {
		if s := p.try(putFH(f.fh), x.op); s != x.want {
			t.Errorf("%s: %v, want %v", x.what, s, x.want)
		}
	}
	p.want(nfs4.ErrNoFileHandle, getXattr("name", &got))
}

func TestACL(t *testing.T) {
	t.Parallel()
	p := shared(t).newPeer(t, "a")
	root, owner, guest, stranger := p, p.as(1000, 1000), p.as(1001, 1001), p.as(1002, 1002)
	dir := root.dir()
	root.must(putFH(dir), setattr(nfs4.StateidAnonymous(), mode(0o777)))
	f := owner.create(dir, "f")
	anon := nfs4.StateidAnonymous()
	set := func(aces ...nfs4.ACE) nfs4.Attrs { return nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrACL), ACL: aces} }
	owner.must(putFH(f.fh), setattr(anon, mode(0o600)))
	if a := guest.stat(f.fh, nfs4.AttrACL, nfs4.AttrACLSupport); len(a.ACL) != 3 || a.ACLSupport != nfs4.ACLSupportAllow|nfs4.ACLSupportDeny {
		t.Errorf("%+v", a)
	}
	may := func(q *peer) uint32 {
		var r nfs4.AccessRes
		q.must(putFH(f.fh), access(nfs4.AccessRead|nfs4.AccessModify|nfs4.AccessXARead, &r))
		return r.Access
	}
	const read = nfs4.AccessRead | nfs4.AccessXARead
	if may(guest) != 0 {
		t.Error("a guest may already")
	}
	guest.want(nfs4.ErrPerm, putFH(f.fh), setattr(anon, set()))
	owner.must(putFH(f.fh), setattr(anon, set(
		nfs4.ACE{Mask: nfs4.ACEReadData, Who: []byte("1001")},
		nfs4.ACE{Mask: nfs4.ACEReadData | nfs4.ACEWriteData | nfs4.ACEAppendData, Who: []byte("OWNER@")},
	)))
	if a := owner.stat(f.fh, nfs4.AttrMode, nfs4.AttrACL); a.Mode != 0o600 || len(a.ACL) != 2 || string(a.ACL[0].Who) != "1001" {
		t.Errorf("%+v", a)
	}
	if may(guest) != read || may(stranger) != 0 || may(owner) != read|nfs4.AccessModify {
		t.Errorf("guest %#x, stranger %#x, owner %#x", may(guest), may(stranger), may(owner))
	}
	guest.open(dir, "f", nfs4.ShareAccessRead).close()
	guest.want(nfs4.ErrAccess, putFH(dir), openOp(openArgs("o", "f", nfs4.ShareAccessWrite), &nfs4.OpenRes{}))
	var r nfs4.GetattrRes
	guest.want(nfs4.ErrAccess, putFH(f.fh), getattr(&r, nfs4.AttrACL)) // no READ_ACL
	owner.must(putFH(f.fh), setattr(anon, mode(0o600)))                // the group's bits bound what is given by name
	if may(guest) != 0 {
		t.Error("a guest may still")
	}
	for _, x := range map[string]struct {
		ace  nfs4.ACE
		want nfs4.Status
	}{
		"name":    {nfs4.ACE{Who: []byte("alice@example.org")}, nfs4.ErrBadOwner},
		"alarm":   {nfs4.ACE{Type: nfs4.ACEAlarm, Who: []byte("1")}, nfs4.ErrAttrNotSupp},
		"inherit": {nfs4.ACE{Flag: nfs4.ACEFileInherit, Who: []byte("1")}, nfs4.ErrInval},
	} {
		owner.want(x.want, putFH(f.fh), setattr(anon, set(x.ace)))
	}
	many := make([]nfs4.ACE, 257)
	for i := range many {
		many[i].Who = []byte("1")
	}
	owner.want(nfs4.ErrNoSpc, putFH(f.fh), setattr(anon, set(many...)))
}
