package script_test

import (
	"fmt"
	"strings"

	nfs "manifold/xdr/client"
	"manifold/xdr/nfs4"
)

func (c *client) mkdir(a args) string {
	ops, name := parent(a.word(1))
	return say(c.ask(a, append(ops, makeDir(name))...))
}

func makeDir(name []byte) nfs.Op {
	return nfs.Op{Num: nfs4.OpCreate, Args: &nfs4.CreateArgs{
		ObjType: nfs4.CreateType{Type: nfs4.TypeDir}, ObjName: name, CreateAttrs: mode(0o777),
	}, Res: &nfs4.CreateRes{}}
}

func mode(m uint32) nfs4.Attrs { return nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: m} }

func removeOp(name []byte) nfs.Op {
	return nfs.Op{Num: nfs4.OpRemove, Args: &nfs4.RemoveArgs{Target: name}, Res: &nfs4.RemoveRes{}}
}

func (c *client) remove(a args) string {
	ops, name := parent(a.word(1))
	return say(c.ask(a, append(ops, removeOp(name))...))
}

func (c *client) rename(a args) string {
	ops, from := parent(a.word(1))
	to, name := parent(a.word(2))
	ops = append(append(ops, nfs.Op{Num: nfs4.OpSaveFH}), to...)
	return say(c.ask(a, append(ops, nfs.Op{
		Num: nfs4.OpRename, Args: &nfs4.RenameArgs{OldName: from, NewName: name}, Res: &nfs4.RenameRes{},
	})...))
}

// stat shows what a client sees of a file, open or by name.
func (c *client) stat(a args) string {
	ops := walk(a.word(1))
	c.mu.Lock()
	if o := c.opens[a.word(1)]; o != nil {
		ops = []nfs.Op{putFH(o.fh)}
	}
	c.mu.Unlock()
	var r nfs4.GetattrRes
	if s := c.ask(a, append(ops, getattr(&r, nfs4.AttrSize, nfs4.AttrNumLinks, nfs4.AttrType))...); s != nfs4.OK {
		return say(s)
	}
	at := r.ObjAttributes
	if at.Type == nfs4.TypeDir {
		return fmt.Sprintf("directory, %d links", at.NumLinks)
	}
	return fmt.Sprintf("%s, %d links", bytesOf(at.Size), at.NumLinks)
}

func (c *client) list(a args) string {
	var r nfs4.ReaddirRes
	s := c.ask(a, append(walk(a.word(1)), nfs.Op{Num: nfs4.OpReaddir, Args: &nfs4.ReaddirArgs{
		DirCount: 8192, MaxCount: 8192,
	}, Res: &r})...)
	if s != nfs4.OK {
		return say(s)
	}
	seen := map[string]bool{}
	for _, e := range r.Entries {
		seen[string(e.Name)] = true
	}
	if len(seen) == 0 {
		return "empty"
	}
	return strings.Join(sortedKeys(seen), " ")
}

var shares = map[string]uint32{"none": 0, "r": 1, "w": 2, "rw": 3}

func share(word string) uint32 {
	s, ok := shares[word]
	if !ok {
		panic(broken{fmt.Errorf("share %q", word)})
	}
	return s
}

// create makes a file that must not be there; open takes one that is.
func (c *client) create(a args) string {
	return c.openBy(a, nfs4.OpenHow{OpenType: nfs4.OpenCreate, CreateHow: nfs4.CreateHow{Mode: nfs4.CreateGuarded, Attrs: mode(0o666)}})
}

func (c *client) open(a args) string {
	if !a.has("trunc") {
		return c.openBy(a, nfs4.OpenHow{})
	}
	return c.openBy(a, nfs4.OpenHow{OpenType: nfs4.OpenCreate, CreateHow: nfs4.CreateHow{
		Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)},
	}})
}

func (c *client) openBy(a args, how nfs4.OpenHow) string {
	path := a.word(1)
	ops, name := parent(path)
	o := &open{path: path, access: share(a.word(2)), deny: share(a.str("deny", "none")), locks: map[string]*lock{}}
	var r nfs4.OpenRes
	var fh nfs4.GetFHRes
	var at nfs4.GetattrRes
	s := c.ask(a, append(ops, nfs.Op{Num: nfs4.OpOpen, Args: &nfs4.OpenArgs{
		ShareAccess: o.access, ShareDeny: o.deny, How: how, Owner: nfs4.OpenOwner{Owner: []byte("owner of " + path)},
		Claim: nfs4.OpenClaim{Type: nfs4.ClaimNull, Name: name},
	}, Res: &r}, getFH(&fh), getattr(&at, nfs4.AttrFileID))...)
	if s != nfs4.OK {
		return say(s)
	}
	o.fh, o.id = fh.Object, r.Stateid
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.opens[path]; old != nil && old.id.Other == o.id.Other {
		o.plan, o.locks, o.end = old.plan, old.locks, old.end
		o.access, o.deny = o.access|old.access, o.deny|old.deny
	}
	c.opens[path] = o
	c.s.names.keep(path, at.ObjAttributes.FileID)
	return c.s.names.stateid("o", o.id)
}

// close closes, as the kernel does: LAYOUTCOMMIT and LAYOUTRETURN come first,
// unless the command says nocommit.
func (c *client) close(a args) string {
	o := c.file(a.word(1))
	ops := []nfs.Op{putFH(o.fh)}
	if o.plan != nil && !a.has("nocommit") {
		if o.end > 0 {
			if s := c.ask(a, putFH(o.fh), layoutCommitOp(o.plan.id, o.end)); s != nfs4.OK {
				return "LAYOUTCOMMIT: " + say(s)
			}
		}
		ops = append(ops, layoutReturnOp(o.plan.id, nfs4.IOModeAny, &nfs4.LayoutReturnRes{}))
	}
	s := c.ask(a, append(ops, nfs.Op{Num: nfs4.OpClose, Args: &nfs4.CloseArgs{OpenStateid: o.id}, Res: &nfs4.CloseRes{}})...)
	if s == nfs4.OK && !a.has("nocommit") {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.opens, o.path)
	}
	return say(s)
}

func (c *client) truncate(a args) string {
	ops, id := walk(a.word(1)), nfs4.StateidAnonymous()
	c.mu.Lock()
	if o := c.opens[a.word(1)]; o != nil && o.access&nfs4.ShareAccessWrite != 0 {
		ops, id = []nfs.Op{putFH(o.fh)}, o.id
	}
	c.mu.Unlock()
	return say(c.ask(a, append(ops, resize(id, size(a.word(2))))...))
}

func resize(id nfs4.Stateid, n uint64) nfs.Op {
	return nfs.Op{Num: nfs4.OpSetattr, Args: &nfs4.SetattrArgs{
		Stateid: id, ObjAttributes: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: n},
	}, Res: &nfs4.SetattrRes{}}
}
