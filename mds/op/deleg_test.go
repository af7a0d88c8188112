package op

import (
	"testing"
	"time"

	"manifold/layout/control"
	"manifold/mds/ns"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/mds/store/storetest"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// TestCourtesyBack: a client that came back before it was to be ended stays.
func TestCourtesyBack(t *testing.T) {
	r := newRig(t, &storetest.Mem{})
	p := r.mount("a")
	fh, id := p.create("f")
	me := p.ClientID()
	for range 2 {
		if !r.ops.lapsed(time.Now(), me) {
			t.Fatal("it has an open file and may not stay")
		}
	}
	r.ops.renewed(me)
	r.ops.expire([]nfs4.ClientID{me})
	p.want(nfs4.OK, putFH(fh), closeOp(id))
	if r.ops.lapsed(time.Now(), me) {
		t.Error("it has nothing and stays")
	}
	fh, id = p.create("g")
	if !r.ops.lapsed(time.Now(), me) {
		t.Fatal("it may not stay")
	}
	r.ops.expire([]nfs4.ClientID{me})
	r.ops.expire([]nfs4.ClientID{me})
	r.ops.renewed(me) // too late
	r.eventually("its end", func() bool { return r.ops.ClientUsage(me) == state.Counts{} })
	p.want(nfs4.ErrBadStateID, putFH(fh), closeOp(id)) // as a new client
	if len(r.ops.courtesy) != 0 {
		t.Error("something of it is left")
	}
}

// TestFreedAtOnce: a file that loses its last name goes in the same transaction,
// unless it is open.
func TestFreedAtOnce(t *testing.T) {
	r := newRig(t, &storetest.Mem{})
	p := r.mount("a")
	for _, open := range []bool{false, true} {
		fh, id := p.create("f")
		if !open {
			p.want(nfs4.OK, putFH(fh), closeOp(id))
		}
		removed := r.sender.count(control.Remove)
		p.want(nfs4.OK, putRoot(), remove("f"))
		if s := p.try(putFH(fh), client.Op{Num: nfs4.OpAccess, Args: &nfs4.AccessArgs{Access: 1}, Res: &nfs4.AccessRes{}}); (s == nfs4.OK) != open {
			t.Errorf("open %v: %v after REMOVE", open, s)
		}
		if open {
			if n := r.sender.count(control.Remove); n != removed {
				t.Errorf("%d objects removed of an open file", n-removed)
			}
			p.want(nfs4.OK, putFH(fh), closeOp(id))
		}
		r.eventually("removal of objects", func() bool { return r.sender.count(control.Remove) == removed+servers })
	}
}

// TestNamesTurn: what a name stands for when its file is locked is what counts.
func TestNamesTurn(t *testing.T) {
	r := newRig(t, &storetest.Mem{})
	p, q := r.mount("a"), r.mount("b")
	fh, id := p.create("f")
	p.want(nfs4.OK, putFH(fh), closeOp(id))
	ino := r.file(fh).Inode
	unlock, err := r.ops.files.lock(t.Context(), ino)
	must(t, err)
	done := make(chan nfs4.Status, 1)
	go func() { done <- q.try(putRoot(), remove("f")) }()
	r.eventually("wait for the file", func() bool {
		r.ops.files.mu.Lock()
		defer r.ops.files.mu.Unlock()
		f := r.ops.files.m[ino]
		return f != nil && f.users == 2
	})
	// Meanwhile another file takes its name.
	other, oid := p.create("g")
	p.want(nfs4.OK, putFH(other), closeOp(oid))
	must(t, r.ops.Store.Update(t.Context(), func(tx store.Tx) error {
		in, err := r.ops.Volume.Root(tx)
		if err != nil {
			return err
		}
		top := r.ops.Volume.Handle(in)
		for _, n := range [][2]string{{"f", "kept"}, {"g", "f"}} {
			if _, err := r.ops.Volume.Rename(tx, time.Now(), ns.Cred{}, top, []byte(n[0]), top, []byte(n[1])); err != nil {
				return err
			}
		}
		return nil
	}))
	unlock()
	if s := <-done; s != nfs4.OK {
		t.Errorf("REMOVE: %v", s)
	}
	p.want(nfs4.ErrNoEnt, putRoot(), lookup("f"))
	p.want(nfs4.OK, putRoot(), lookup("kept"))
	p.want(nfs4.OK, putFH(fh), client.Op{Num: nfs4.OpAccess, Args: &nfs4.AccessArgs{Access: 1}, Res: &nfs4.AccessRes{}})
}

// TestHolderChanges: what the holder of a delegation has changed is seen also if
// the change attribute that says so is the file's by now, because the holder has
// committed something before.
func TestHolderChanges(t *testing.T) {
	r := newRig(t, &storetest.Mem{})
	fh, _ := r.mount("a").create("f")
	in, _ := r.ops.inode(t.Context(), r.file(fh))
	d := state.Delegation{Client: 1, File: in.ID, Type: nfs4.DelegateWrite, Stateid: nfs4.Stateid{Other: [12]byte{1}}}
	r.ops.note(&d, in)
	clean, dirty := &nfs4.Attrs{Change: in.Change}, &nfs4.Attrs{Change: in.Change + 1, Size: 10}
	must(t, r.ops.Store.Update(t.Context(), func(tx store.Tx) (err error) {
		in, err = r.ops.Volume.Wrote(tx, time.Now(), ns.Cred{}, r.file(fh), 0, nil)
		return err
	}))
	last := in.Change
	for i, said := range []*nfs4.Attrs{clean, dirty, dirty, clean, dirty} {
		l, s := r.ops.merge(t.Context(), &d, in, said)
		if s != nfs4.OK || said == dirty && l.change <= last || said == clean && l.change != last {
			t.Errorf("answer %d: %v, change %d after %d", i, s, l.change, last)
		}
		last = l.change
		in, _ = r.ops.inode(t.Context(), r.file(fh))
	}
}
