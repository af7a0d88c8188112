package op

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"manifold/ds/internal/dstest"
	"manifold/ds/store"
	"manifold/layout"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// own returns the metadata server's filehandle for testObject.
func (r *rig) own(rights layout.Rights) nfs4.FH {
	return r.keys.SealDS(layout.Capability{Object: testObject, Client: layout.MDSClient, Rights: rights, Epoch: 1})
}

func on(t *testing.T, c *dstest.Client, fh nfs4.FH, op client.Op) nfs4.Status {
	t.Helper()
	s, err := c.On(t.Context(), fh, op)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func allocateOp(off, n uint64) client.Op {
	return client.Op{Num: nfs4.OpAllocate, Args: &nfs4.AllocateArgs{Offset: off, Length: n}}
}

func deallocateOp(off, n uint64) client.Op {
	return client.Op{Num: nfs4.OpDeallocate, Args: &nfs4.DeallocateArgs{Offset: off, Length: n}}
}

func seekOp(off uint64, what nfs4.Content, r *nfs4.SeekRes) client.Op {
	return client.Op{Num: nfs4.OpSeek, Args: &nfs4.SeekArgs{Offset: off, What: what}, Res: r}
}

func TestSpace(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "mds")
	data := bytes.Repeat([]byte("x"), 100_000)
	if _, s := c.Write(t, r.own(rw), 0, nfs4.Unstable, data); s != nfs4.OK {
		t.Fatal(s)
	}
	var at nfs4.SeekRes
	wantStatus(t, "ALLOCATE", on(t, c, r.own(rw), allocateOp(50_000, 1<<20)), nfs4.OK)
	wantStatus(t, "DEALLOCATE", on(t, c, r.own(rw), deallocateOp(10, 80_000)), nfs4.OK)
	if size, err := r.disk.Size(testObject); size != 100_000 || err != nil {
		t.Errorf("size %d, %v, want 100000", size, err)
	}
	clear(data[10:80_010])
	got, s := c.Read(t, r.own(rw), 0, 100_000)
	if s != nfs4.OK || !bytes.Equal(got.Data, data) {
		t.Errorf("READ: %v, not what there should be", s)
	}
	wantStatus(t, "SEEK", on(t, c, r.own(rw), seekOp(100_000, nfs4.ContentData, &at)), nfs4.OK)
	if !at.EOF {
		t.Errorf("data behind the object, at %d", at.Offset)
	}
	wantStatus(t, "SEEK", on(t, c, r.own(rw), seekOp(85_000, nfs4.ContentHole, &at)), nfs4.OK)
	if at != (nfs4.SeekRes{Offset: 100_000}) {
		t.Errorf("hole %+v, want one at 100000", at)
	}
}

func TestSpaceRefused(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "mds")
	var at nfs4.SeekRes
	for what, x := range map[string]struct {
		fh   nfs4.FH
		op   client.Op
		want nfs4.Status
	}{
		"a client's ALLOCATE":      {r.fh(rw), allocateOp(0, 1), nfs4.ErrNotSupp},
		"a client's DEALLOCATE":    {r.fh(rw), deallocateOp(0, 1), nfs4.ErrNotSupp},
		"a client's SEEK":          {r.fh(rw), seekOp(0, nfs4.ContentData, &at), nfs4.ErrNotSupp},
		"ALLOCATE to read":         {r.own(layout.RightRead), allocateOp(0, 1), nfs4.ErrPNFSNoLayout},
		"ALLOCATE past 2^63":       {r.own(rw), allocateOp(math.MaxInt64, 1), nfs4.ErrFBig},
		"DEALLOCATE past 2^64":     {r.own(rw), deallocateOp(5, math.MaxUint64), nfs4.ErrFBig},
		"SEEK past 2^63":           {r.own(rw), seekOp(1<<63, nfs4.ContentData, &at), nfs4.ErrInval},
		"SEEK of something":        {r.own(rw), seekOp(0, 2, &at), nfs4.ErrUnionNotSupp},
		"SEEK in a missing object": {r.own(rw), seekOp(5, nfs4.ContentHole, &at), nfs4.OK},
	} {
		wantStatus(t, what, on(t, c, x.fh, x.op), x.want)
	}
	if n := r.Counters().Errors; n != 0 {
		t.Errorf("%d errors counted of what was asked wrongly", n)
	}
}

// TestSpaceIsSynced: what cannot be made stable has not been done.
func TestSpaceIsSynced(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "mds")
	if _, s := c.Write(t, r.own(rw), 0, nfs4.FileSync, []byte("data")); s != nfs4.OK {
		t.Fatal(s)
	}
	r.set(func(d *disk) { d.sync = errors.Join(store.ErrIO, errors.New("boom")) })
	wantStatus(t, "ALLOCATE", on(t, c, r.own(rw), allocateOp(0, 10)), nfs4.ErrIO)
	wantStatus(t, "DEALLOCATE", on(t, c, r.own(rw), deallocateOp(0, 2)), nfs4.ErrIO)
	r.set(func(d *disk) { d.sync, d.change = nil, true })
	wantStatus(t, "DEALLOCATE beside a sync that failed", on(t, c, r.own(rw), deallocateOp(0, 2)), nfs4.ErrIO)
}
