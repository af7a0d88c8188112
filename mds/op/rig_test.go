package op

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/layout/files"
	"manifold/mds/fleet"
	"manifold/mds/ns"
	"manifold/mds/outbox"
	"manifold/mds/proxy"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/mds/store/storetest"
	"manifold/xdr/client"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/tcp"
	"manifold/xdr/session"
)

// The tests here are of what needs a look inside, a store that fails, or data
// servers that answer when they are told to. Those of whole clusters are in
// conformance/wire.

const patience = 20 * time.Second

// rig is a metadata server's operations with everything real but the disk and
// the data servers.
type rig struct {
	t      *testing.T
	mem    *storetest.Mem
	sender *sender
	ops    *Ops
	srv    *compound.Server
	addr   string
}

// sender stands for all data servers: it notes commands and acknowledges them,
// or holds them.
type sender struct {
	mu    sync.Mutex
	held  chan struct{} // not nil: commands wait until it is closed
	got   []control.Command
	sizes map[layout.Object]uint64
}

func (s *sender) Do(ctx context.Context, _ layout.DSID, cmds ...control.Command) ([]control.Ack, error) {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	acks := make([]control.Ack, len(cmds))
	s.got = append(s.got, cmds...)
	return acks, nil
}

// size is how long the data servers say that a file is.
func (s *sender) size(_ context.Context, t proxy.Target) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sizes[t.Object], nil
}

// hold makes commands wait; the function it returns lets them go.
func (s *sender) hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	s.held = held
	return func() {
		s.mu.Lock()
		s.held = nil
		s.mu.Unlock()
		close(held)
	}
}

// count is how many commands of a kind came.
func (s *sender) count(k control.Kind) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.got {
		if c.Kind == k {
			n++
		}
	}
	return n
}

const servers = 3 // data servers of a rig

// newRig starts on what is in mem.
func newRig(t *testing.T, mem *storetest.Mem) *rig {
	t.Helper()
	r := &rig{t: t, mem: mem, sender: &sender{sizes: map[layout.Object]uint64{}}}
	st := mem.Open()
	var c ns.Cluster
	var volume *ns.Volume
	var names map[string]bool
	var old map[string][]nfs4.ClientID
	var boots uint32
	must(t, st.Update(t.Context(), func(tx store.Tx) (err error) {
		rec, err := c.Service(tx)
		if errors.Is(err, nfs4.ErrNoEnt) {
			_, err = ns.Format(tx, time.Now(), 1, nfs4.FSID{Major: 1}, [32]byte{1})
		}
		if err != nil {
			return err
		}
		rec.Boots++
		boots = rec.Boots
		if err := c.PutService(tx, rec); err != nil {
			return err
		}
		if volume, err = ns.Open(tx, 1); err != nil {
			return err
		}
		names, old, err = LoadRecords(tx, c)
		return err
	}))
	keys, err := layout.NewKeyring(1, layout.Key{ID: 1})
	must(t, err)
	fl, err := fleet.Load(t.Context(), st, fleet.Defaults{Unit: 4096}, zap.NewNop(), time.Now)
	must(t, err)
	limit := state.Counts{Clients: 10, Opens: 100, Owners: 100, Locks: 100, Layouts: 100, Delegs: 100}
	core, err := state.New(state.Config{Boot: boots, Grace: time.Minute, Recall: time.Second, Courtesy: time.Hour, PerClient: limit, Total: limit}, time.Now(), names)
	must(t, err)
	ob := outbox.New(outbox.Config{Store: st, Sender: r.sender, Ready: fl.Ready})
	px := proxy.New(proxy.Config{Keys: func() *layout.Keyring { return keys }, Paths: fl.Paths, Owner: []byte("rig"), Log: zap.NewNop()})
	r.ops = New(Config{Lease: 10 * time.Second, Patience: 100 * time.Millisecond}, Parts{
		Store: st, Volume: volume, Keys: func() *layout.Keyring { return keys }, State: core, Fleet: fl, Outbox: ob,
		Proxy: px, Size: r.sender.size, Driver: files.Driver{}, Log: zap.NewNop(), Now: time.Now,
	}, nfs4.Verifier{byte(boots)}, old)
	r.srv = compound.New(compound.Config{
		Sessions: session.New(session.Config{
			ClientIDHigh: boots, Lease: 10 * time.Second, Role: nfs4.ExchgidFlagUsePNFSMDS, HasState: r.ops.HasState,
			Owner: nfs4.ServerOwner{MajorID: []byte("rig")}, Scope: []byte("rig"), Seed: [32]byte{byte(boots)},
		}),
		Hooks: r.ops.Hooks(), Log: zap.NewNop(), Now: time.Now,
	}, r.ops.Table())
	r.ops.Serve(r.srv)
	r.listen(st, fl, ob, px)
	return r
}

// listen serves, and brings the data servers up.
func (r *rig) listen(st store.Store, fl *fleet.Fleet, ob *outbox.Outbox, px *proxy.Proxy) {
	r.t.Helper()
	for i := range servers {
		h := control.Hello{
			UUID: [16]byte{byte(i + 1)}, Name: string('a' + rune(i)),
			Addresses: []layout.Address{layout.TCP(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 1))},
			Usage:     control.Usage{CapacityBytes: 1 << 40, FreeBytes: 1 << 40},
		}
		id, err := fl.Register(r.t.Context(), h)
		must(r.t, err)
		fl.Attached(id, h)
		ob.Attached(id)
	}
	r.eventually("data servers up", func() bool {
		return !slices.ContainsFunc(fl.List(), func(i fleet.Info) bool { return i.State != fleet.Up })
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(r.t, err)
	nfs := tcp.NewServer(r.srv, tcp.Config{})
	done := make(chan error, 1)
	go func() { done <- nfs.Serve(ln) }()
	graced := make(chan struct{})
	running, stop := context.WithCancel(context.Background())
	go func() {
		defer close(graced)
		r.ops.RunGrace(running)
	}()
	r.addr = ln.Addr().String()
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = nfs.Shutdown(ctx)
		stop()
		<-graced
		r.ops.Stop()
		ob.Close()
		px.Close()
		st.Close()
		<-done
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("no %s", what)
		}
	}
}

// peer is a client of a rig.
type peer struct {
	t *testing.T
	*client.Client
}

var root = rpc.Cred{Flavor: rpc.AuthSys}

func (r *rig) mount(owner string) *peer {
	r.t.Helper()
	c, err := client.Dial(r.t.Context(), r.addr, client.Config{Owner: []byte(owner), Cred: root, Verifier: nfs4.Verifier{1}, Minor: 2})
	must(r.t, err)
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		c.Close(ctx)
	})
	return &peer{r.t, c}
}

// try runs a compound and returns its status.
func (p *peer) try(ops ...client.Op) nfs4.Status {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := p.Compound(ctx, root, ops...)
	var oe *client.OpError
	switch {
	case err == nil:
		return nfs4.OK
	case errors.As(err, &oe):
		return oe.Status
	}
	p.t.Fatal(err)
	return 0
}

func (p *peer) want(s nfs4.Status, ops ...client.Op) {
	p.t.Helper()
	if got := p.try(ops...); got != s {
		p.t.Errorf("%v: %v, want %v", ops[len(ops)-1].Num, got, s)
	}
}

// Operations.

func putRoot() client.Op { return client.Op{Num: nfs4.OpPutRootFH} }

func putFH(fh nfs4.FH) client.Op {
	return client.Op{Num: nfs4.OpPutFH, Args: &nfs4.PutFHArgs{Object: fh}}
}

func lookup(name string) client.Op {
	return client.Op{Num: nfs4.OpLookup, Args: &nfs4.LookupArgs{ObjName: []byte(name)}}
}

func mkdir(name string) client.Op {
	return client.Op{Num: nfs4.OpCreate, Args: &nfs4.CreateArgs{ObjType: nfs4.CreateType{Type: nfs4.TypeDir}, ObjName: []byte(name)}, Res: &nfs4.CreateRes{}}
}

func remove(name string) client.Op {
	return client.Op{Num: nfs4.OpRemove, Args: &nfs4.RemoveArgs{Target: []byte(name)}, Res: &nfs4.RemoveRes{}}
}

func truncate(size uint64) client.Op {
	return client.Op{Num: nfs4.OpSetattr, Args: &nfs4.SetattrArgs{
		ObjAttributes: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: size},
	}, Res: &nfs4.SetattrRes{}}
}

func layoutGet(id nfs4.Stateid) client.Op {
	return client.Op{Num: nfs4.OpLayoutGet, Args: &nfs4.LayoutGetArgs{
		LayoutType: nfs4.LayoutFiles, IOMode: nfs4.IOModeRW, Length: nfs4.LengthToEnd, Stateid: id, MaxCount: 4096,
	}, Res: &nfs4.LayoutGetRes{}}
}

func closeOp(id nfs4.Stateid) client.Op {
	return client.Op{Num: nfs4.OpClose, Args: &nfs4.CloseArgs{OpenStateid: id}, Res: &nfs4.CloseRes{}}
}

// create makes a file in the root and opens it for reading and writing.
func (p *peer) create(name string) (fh nfs4.FH, id nfs4.Stateid) {
	p.t.Helper()
	var r nfs4.OpenRes
	var f nfs4.GetFHRes
	p.want(nfs4.OK, putRoot(), client.Op{Num: nfs4.OpOpen, Args: &nfs4.OpenArgs{
		ShareAccess: nfs4.ShareAccessBoth, Owner: nfs4.OpenOwner{Owner: []byte("o")},
		How:   nfs4.OpenHow{OpenType: nfs4.OpenCreate, CreateHow: nfs4.CreateHow{Mode: nfs4.CreateGuarded}},
		Claim: nfs4.OpenClaim{Name: []byte(name)},
	}, Res: &r}, client.Op{Num: nfs4.OpGetFH, Res: &f})
	return f.Object, r.Stateid
}
