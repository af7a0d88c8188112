package wire_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"manifold/xdr"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// peer is one NFS client of a cluster's metadata server.
type peer struct {
	t     testing.TB
	c     *cluster
	owner string
	cfg   client.Config
	nfs   *client.Client
	cred  rpc.Cred

	mu      sync.Mutex
	answer  func(*nfs4.CBLayoutRecallArgs) nfs4.Status
	recalls chan nfs4.CBLayoutRecallArgs
	deleg   delegHooks
	gone    chan nfs4.DeviceID        // that CB_NOTIFY_DEVICEID named
	ds      map[string]*client.Client // by address
}

// newPeer mounts. Its recalls go into a channel, answered NOMATCHING_LAYOUT
// until recalled says otherwise.
func (c *cluster) newPeer(t testing.TB, owner string) *peer {
	t.Helper()
	p := &peer{
		t: t, c: c, owner: t.Name() + "/" + owner, cred: sys(0, 0), recalls: make(chan nfs4.CBLayoutRecallArgs, 1000), deleg: newDelegHooks(),
		gone: make(chan nfs4.DeviceID, 1000), ds: map[string]*client.Client{},
	}
	p.cfg = client.Config{Owner: []byte(p.owner), Cred: sys(0, 0), Minor: 2, Renew: time.Second, Callback: p.callback}
	p.dial()
	t.Cleanup(p.close)
	return p
}

// newSilentPeer is a peer that does not renew its lease by itself.
func (c *cluster) newSilentPeer(t testing.TB, owner string) *peer {
	t.Helper()
	p := c.newPeer(t, owner+"-first")
	p.close()
	p.cfg.Owner, p.cfg.Renew = []byte(t.Name()+"/"+owner), time.Hour
	p.dial()
	return p
}

func (p *peer) dial() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	if p.nfs, err = client.Dial(ctx, p.c.cfg.Listen, p.cfg); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if p.nfs != nil {
		p.nfs.Close(ctx)
	}
	for _, c := range p.ds {
		c.Close(ctx)
	}
	p.ds = map[string]*client.Client{}
}

// sys is an AUTH_SYS credential.
func sys(uid, gid uint32, gids ...uint32) rpc.Cred {
	return rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{Machine: "test", UID: uid, GID: gid, GIDs: gids}}
}

// as is p with another credential.
func (p *peer) as(uid, gid uint32, gids ...uint32) *peer {
	return &peer{t: p.t, c: p.c, owner: p.owner, cfg: p.cfg, nfs: p.nfs, cred: sys(uid, gid, gids...), ds: p.ds}
}

// recalled sets how recalls are answered.
func (p *peer) recalled(f func(*nfs4.CBLayoutRecallArgs) nfs4.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = f
}

func (p *peer) callback(_ context.Context, op nfs4.CBOpNum, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
	switch op {
	case nfs4.CBRecall:
		return p.cbRecall(d)
	case nfs4.CBGetattr:
		return p.cbGetattr(d, e)
	case nfs4.CBNotifyDeviceID:
		return p.cbNotifyDevice(d)
	case nfs4.CBNotifyLock, nfs4.CBRecallAny:
		return p.deleg.hint(op, d)
	case nfs4.CBLayoutRecall:
	default:
		return nfs4.ErrNotSupp
	}
	var a nfs4.CBLayoutRecallArgs
	a.DecodeXDR(d)
	a.Recall.FH = append(nfs4.FH(nil), a.Recall.FH...)
	p.mu.Lock()
	f := p.answer
	p.mu.Unlock()
	s := nfs4.ErrNoMatchingLayout
	if f != nil {
		s = f(&a)
	}
	select {
	case p.recalls <- a:
	default:
	}
	return s
}

// cbNotifyDevice notes that a device is gone, the one notification there is.
func (p *peer) cbNotifyDevice(d *xdr.Decoder) nfs4.Status {
	var a nfs4.CBNotifyDeviceIDArgs
	a.DecodeXDR(d)
	var gone nfs4.NotifyDeviceDelete
	if len(a.Changes) != 1 || a.Changes[0].Mask != nfs4.BitmapOf(nfs4.NotifyDeviceIDDelete) {
		p.t.Errorf("CB_NOTIFY_DEVICEID %+v", a)
		return nfs4.ErrInval
	}
	values := xdr.NewDecoder(a.Changes[0].Values)
	gone.DecodeXDR(&values)
	p.gone <- gone.DeviceID
	return nfs4.OK
}

// awaitRecall returns the next recall.
func (p *peer) awaitRecall() nfs4.CBLayoutRecallArgs {
	p.t.Helper()
	select {
	case a := <-p.recalls:
		return a
	case <-time.After(patience):
		p.t.Fatal("no recall")
		panic("unreachable")
	}
}

// try runs a compound and returns the status of the operation that failed, or OK.
func (p *peer) try(ops ...client.Op) nfs4.Status {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := p.nfs.Compound(ctx, p.cred, ops...)
	var oe *client.OpError
	switch {
	case err == nil:
		return nfs4.OK
	case errors.As(err, &oe):
		return oe.Status
	}
	p.t.Helper()
	p.t.Fatalf("compound: %v", err)
	return 0
}

// want runs a compound that has to end with a status.
func (p *peer) want(s nfs4.Status, ops ...client.Op) {
	p.t.Helper()
	if got := p.try(ops...); got != s {
		p.t.Errorf("%v: %v, want %v", names(ops), got, s)
	}
}

// must runs a compound that has to succeed, again and again while the server
// says that it will.
func (p *peer) must(ops ...client.Op) {
	p.t.Helper()
	eventually(p.t, fmt.Sprint(names(ops)), func() error {
		switch s := p.try(ops...); s {
		case nfs4.OK:
			return nil
		case nfs4.ErrDelay, nfs4.ErrGrace, nfs4.ErrLayoutTryLater, nfs4.ErrRecallConflict, nfs4.ErrReturnConflict:
			return s
		default:
			p.t.Fatalf("%v: %v", names(ops), s)
			return nil
		}
	})
}

func names(ops []client.Op) (list []nfs4.OpNum) {
	for _, o := range ops {
		list = append(list, o.Num)
	}
	return list
}

// The operations, with the results that a test looks at.

func putFH(fh nfs4.FH) client.Op {
	return client.Op{Num: nfs4.OpPutFH, Args: &nfs4.PutFHArgs{Object: fh}}
}

func putRoot() client.Op { return client.Op{Num: nfs4.OpPutRootFH} }

func saveFH() client.Op { return client.Op{Num: nfs4.OpSaveFH} }

func restoreFH() client.Op { return client.Op{Num: nfs4.OpRestoreFH} }

func getFH(r *nfs4.GetFHRes) client.Op { return client.Op{Num: nfs4.OpGetFH, Res: r} }

func lookup(name string) client.Op {
	return client.Op{Num: nfs4.OpLookup, Args: &nfs4.LookupArgs{ObjName: []byte(name)}}
}

func lookupp() client.Op { return client.Op{Num: nfs4.OpLookupP} }

func remove(name string) client.Op {
	return client.Op{Num: nfs4.OpRemove, Args: &nfs4.RemoveArgs{Target: []byte(name)}, Res: &nfs4.RemoveRes{}}
}

func rename(from, to string) client.Op {
	return client.Op{Num: nfs4.OpRename, Args: &nfs4.RenameArgs{OldName: []byte(from), NewName: []byte(to)}, Res: &nfs4.RenameRes{}}
}

func link(name string) client.Op {
	return client.Op{Num: nfs4.OpLink, Args: &nfs4.LinkArgs{NewName: []byte(name)}, Res: &nfs4.LinkRes{}}
}

func getattr(r *nfs4.GetattrRes, attrs ...nfs4.Attr) client.Op {
	return client.Op{Num: nfs4.OpGetattr, Args: &nfs4.GetattrArgs{AttrRequest: nfs4.BitmapOf(attrs...)}, Res: r}
}

func setattr(id nfs4.Stateid, a nfs4.Attrs) client.Op {
	return client.Op{Num: nfs4.OpSetattr, Args: &nfs4.SetattrArgs{Stateid: id, ObjAttributes: a}, Res: &nfs4.SetattrRes{}}
}

func resize(id nfs4.Stateid, size uint64) client.Op {
	return setattr(id, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: size})
}

func access(want uint32, r *nfs4.AccessRes) client.Op {
	return client.Op{Num: nfs4.OpAccess, Args: &nfs4.AccessArgs{Access: want}, Res: r}
}

func makeNode(t nfs4.CreateType, name string, a nfs4.Attrs) client.Op {
	return client.Op{Num: nfs4.OpCreate, Args: &nfs4.CreateArgs{ObjType: t, ObjName: []byte(name), CreateAttrs: a}, Res: &nfs4.CreateRes{}}
}

func mode(m uint32) nfs4.Attrs {
	return nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: m}
}

func makeDir(name string, m uint32) client.Op {
	return makeNode(nfs4.CreateType{Type: nfs4.TypeDir}, name, mode(m))
}

func symlink(name, target string) client.Op {
	return makeNode(nfs4.CreateType{Type: nfs4.TypeLnk, LinkData: []byte(target)}, name, nfs4.Attrs{})
}

func closeOp(id nfs4.Stateid) client.Op {
	return client.Op{Num: nfs4.OpClose, Args: &nfs4.CloseArgs{OpenStateid: id}, Res: &nfs4.CloseRes{}}
}

func readOp(id nfs4.Stateid, off uint64, n uint32, r *nfs4.ReadRes) client.Op {
	return client.Op{Num: nfs4.OpRead, Args: &nfs4.ReadArgs{Stateid: id, Offset: off, Count: n}, Res: r}
}

func writeOp(id nfs4.Stateid, off uint64, data []byte, how nfs4.StableHow, r *nfs4.WriteRes) client.Op {
	return client.Op{Num: nfs4.OpWrite, Args: &nfs4.WriteArgs{Stateid: id, Offset: off, Stable: how, Data: data}, Res: r}
}

func commitOp(r *nfs4.CommitRes) client.Op {
	return client.Op{Num: nfs4.OpCommit, Args: &nfs4.CommitArgs{}, Res: r}
}

// dir makes a directory for a test below the root, which all may write to.
func (p *peer) dir() nfs4.FH {
	p.t.Helper()
	var fh nfs4.GetFHRes
	name := fmt.Sprintf("d%x", time.Now().UnixNano())
	p.must(putRoot(), makeDir(name, 0o777), getFH(&fh))
	return fh.Object
}

// walk returns the handle at a path from dir.
func (p *peer) walk(dir nfs4.FH, path ...string) nfs4.FH {
	p.t.Helper()
	var fh nfs4.GetFHRes
	ops := []client.Op{putFH(dir)}
	for _, name := range path {
		ops = append(ops, lookup(name))
	}
	p.must(append(ops, getFH(&fh))...)
	return fh.Object
}

// stat returns attributes of a file.
func (p *peer) stat(fh nfs4.FH, attrs ...nfs4.Attr) nfs4.Attrs {
	p.t.Helper()
	var r nfs4.GetattrRes
	p.must(putFH(fh), getattr(&r, attrs...))
	return r.ObjAttributes
}

func (p *peer) size(fh nfs4.FH) uint64 {
	p.t.Helper()
	return p.stat(fh, nfs4.AttrSize).Size
}

// open is a file that a peer has open.
type open struct {
	p  *peer
	fh nfs4.FH
	id nfs4.Stateid
	r  nfs4.OpenRes
}

// openArgs is OPEN by name without creating.
func openArgs(owner, name string, share uint32) *nfs4.OpenArgs {
	return &nfs4.OpenArgs{
		ShareAccess: share, Owner: nfs4.OpenOwner{Owner: []byte(owner)},
		Claim: nfs4.OpenClaim{Type: nfs4.ClaimNull, Name: []byte(name)},
	}
}

// creating is a with a create mode.
func creating(a *nfs4.OpenArgs, how nfs4.CreateHow) *nfs4.OpenArgs {
	a.How = nfs4.OpenHow{OpenType: nfs4.OpenCreate, CreateHow: how}
	return a
}

func openOp(a *nfs4.OpenArgs, r *nfs4.OpenRes) client.Op {
	return client.Op{Num: nfs4.OpOpen, Args: a, Res: r}
}

// openWith opens in dir with a.
func (p *peer) openWith(dir nfs4.FH, a *nfs4.OpenArgs) *open {
	p.t.Helper()
	o := &open{p: p}
	var fh nfs4.GetFHRes
	p.must(putFH(dir), openOp(a, &o.r), getFH(&fh))
	o.fh, o.id = fh.Object, o.r.Stateid
	return o
}

// create makes a file and opens it for reading and writing.
func (p *peer) create(dir nfs4.FH, name string) *open {
	p.t.Helper()
	return p.openWith(dir, creating(openArgs("owner", name, nfs4.ShareAccessBoth), nfs4.CreateHow{Mode: nfs4.CreateGuarded, Attrs: mode(0o666)}))
}

// open opens a file that is there.
func (p *peer) open(dir nfs4.FH, name string, share uint32) *open {
	p.t.Helper()
	return p.openWith(dir, openArgs("owner", name, share))
}

func (o *open) close() {
	o.p.t.Helper()
	o.p.must(putFH(o.fh), closeOp(o.id))
}

// write writes all of data through the metadata server.
func (o *open) write(off uint64, data []byte, how nfs4.StableHow) nfs4.Verifier {
	o.p.t.Helper()
	var r nfs4.WriteRes
	for len(data) > 0 {
		o.p.must(putFH(o.fh), writeOp(o.id, off, data, how, &r))
		if r.Count == 0 || int(r.Count) > len(data) {
			o.p.t.Fatalf("WRITE of %d bytes wrote %d", len(data), r.Count)
		}
		data, off = data[r.Count:], off+uint64(r.Count)
	}
	return r.WriteVerf
}

// read reads n bytes through the metadata server, fewer at the end.
func (o *open) read(off uint64, n int) []byte {
	o.p.t.Helper()
	var all []byte
	for n > 0 {
		var r nfs4.ReadRes
		o.p.must(putFH(o.fh), readOp(o.id, off, uint32(min(n, 1<<20)), &r))
		all, off, n = append(all, r.Data...), off+uint64(len(r.Data)), n-len(r.Data)
		if r.EOF {
			break
		}
		if len(r.Data) == 0 {
			o.p.t.Fatal("READ of 0 bytes that is not at the end")
		}
	}
	return all
}
