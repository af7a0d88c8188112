package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/layout/files"
	"manifold/mds/fleet"
	"manifold/mds/ns"
	"manifold/mds/op"
	"manifold/mds/outbox"
	"manifold/mds/proxy"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/mds/store/storetest"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// mds is the metadata server's machine.
type mds struct {
	w    *world
	disk metaDisk

	mu     sync.Mutex
	now    *mdsProcess // nil: down
	starts uint64
	ever   map[string]bool // clients that were on record at some start
	// starting says that it is about to be up. A kill does not stop that.
	starting bool
	ended    bool // the world is over
}

// mdsProcess is the metadata server from a start to the next crash: the parts
// of mds.Server without sockets and files.
type mdsProcess struct {
	w      *world
	head   *head
	store  store.Store
	volume *ns.Volume
	fleet  *fleet.Fleet
	outbox *outbox.Outbox
	proxy  *proxy.Proxy
	ops    *op.Ops
	engine *compound.Server
	rpc    rpc.Config

	ctx    context.Context // ends with the process
	cancel context.CancelFunc
	work   sync.WaitGroup
}

func newMDS(w *world) *mds {
	return &mds{w: w, ever: map[string]bool{}, disk: metaDisk{w: w, mem: &storetest.Mem{}, rnd: w.dice("mds disk"), lies: w.fault == forgetfulStore}}
}

// process returns the server that runs, or nil.
func (m *mds) process() *mdsProcess {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// up starts the server if it is down.
func (m *mds) up() {
	m.mu.Lock()
	if m.now != nil || m.starting || m.ended {
		m.mu.Unlock()
		return
	}
	m.starting = true
	m.starts++
	m.mu.Unlock()
	p, err := m.start()
	if err != nil {
		m.w.fail("the metadata server does not start: %v", err)
		return
	}
	p.serve()
	m.w.log("mds", "starts, time %d", m.starts)
	m.mu.Lock()
	m.now, m.starting = p, false
	ended := m.ended
	m.mu.Unlock()
	if ended {
		m.kill()
	}
}

// halt ends the machine for good.
func (m *mds) halt() {
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	m.kill()
}

// kill is a crash: nothing of the process gets out or to the disk any more.
func (m *mds) kill() {
	m.mu.Lock()
	p := m.now
	m.now = nil
	m.mu.Unlock()
	if p == nil {
		return
	}
	m.w.log("mds", "is killed")
	p.head.die()
	m.w.wire.down("mds")
	p.cancel()
	m.w.spawn("mds", p.close)
}

// boot reads the service from the store, or makes it, as package mds does.
func (m *mds) boot(st store.Store) (rec ns.ServiceRecord, keys *layout.Keyring, v *ns.Volume, names map[string]bool, old map[string][]nfs4.ClientID, err error) {
	var c ns.Cluster
	err = st.Update(context.Background(), func(tx store.Tx) (err error) {
		if rec, err = c.Service(tx); err != nil {
			rec = ns.ServiceRecord{ClusterID: [16]byte{1}}
			if err = format(tx, c); err != nil {
				return err
			}
		}
		rec.Boots++
		if err = c.PutService(tx, rec); err != nil {
			return err
		}
		raw, err := c.Keyring(tx)
		if err != nil {
			return err
		}
		if keys, err = layout.ParseKeyring(raw); err != nil {
			return err
		}
		if v, err = ns.Open(tx, 1); err != nil {
			return err
		}
		names, old, err = op.LoadRecords(tx, c)
		return err
	})
	switch m.w.fault {
	case noRecord:
		names = nil
	case longRecord:
		for name, may := range names {
			m.ever[name] = m.ever[name] || may
		}
		names = maps.Clone(m.ever)
	}
	return rec, keys, v, names, old, err
}

func format(tx store.Tx, c ns.Cluster) error {
	keys, err := layout.NewKeyring(1, layout.Key{ID: 1})
	if err != nil {
		return err
	}
	raw, err := keys.MarshalBinary()
	if err != nil {
		return err
	}
	if err := c.PutKeyring(tx, raw); err != nil {
		return err
	}
	_, err = ns.Format(tx, time.Now(), 1, nfs4.FSID{Major: 1}, [32]byte{1})
	return err
}

func (m *mds) start() (*mdsProcess, error) {
	p := &mdsProcess{w: m.w, head: &head{metaDisk: &m.disk}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.store = store.NewGroup(p.head, store.Bounds{})
	rec, keys, volume, names, old, err := m.boot(p.store)
	if err != nil {
		return nil, err
	}
	p.volume = volume
	log := zap.NewNop()
	if p.fleet, err = fleet.Load(p.ctx, p.store, fleet.Defaults{Unit: unit}, log, time.Now); err != nil {
		return nil, err
	}
	p.outbox = outbox.New(outbox.Config{Store: p.store, Sender: orders{p}, Ready: p.fleet.Ready, Log: log})
	many := state.Counts{Clients: 100, Opens: 1000, Owners: 1000, Locks: 1000, Layouts: 1000, Delegs: 1000}
	limits := state.Config{Boot: rec.Boots, Grace: grace, Recall: lease, PerClient: many, Total: many}
	limits.Courtesy, limits.DelegPause = m.w.courtesy(), delegPause
	core, err := state.New(limits, time.Now(), names)
	if err != nil {
		return nil, err
	}
	getKeys := func() *layout.Keyring { return keys }
	var boot nfs4.Verifier
	binary.BigEndian.PutUint64(boot[:], m.starts)
	p.proxy = proxy.New(proxy.Config{Keys: getKeys, Paths: p.fleet.Paths, Up: p.fleet.Serves, Owner: []byte("mds"), Dialer: p.dial, Log: log})
	p.ops = op.New(op.Config{Lease: lease, NoProxyIO: true, Patience: time.Second}, op.Parts{
		Store: p.store, Volume: volume, Keys: getKeys, State: core, Fleet: p.fleet, Outbox: p.outbox,
		Proxy: p.proxy, Size: p.proxy.Size, Driver: files.Driver{}, Log: log, Now: time.Now,
	}, boot, old)
	cfg := session.Config{
		ClientIDHigh: rec.Boots, Lease: lease, Role: nfs4.ExchgidFlagUsePNFSMDS, HasState: p.ops.HasState,
		Owner: nfs4.ServerOwner{MajorID: rec.ClusterID[:]}, Scope: rec.ClusterID[:],
	}
	binary.BigEndian.PutUint64(cfg.Seed[:], m.w.seed<<16|m.starts)
	p.engine = compound.New(compound.Config{
		Sessions: session.New(cfg), Hooks: p.ops.Hooks(), Log: log, Now: time.Now,
	}, m.w.twice(p.ops.Table()))
	p.ops.Serve(watched{p.engine, p})
	p.fleet.Moved = p.ops.Moved
	return p, nil
}

// serve begins what mds.Server.Run does.
func (p *mdsProcess) serve() {
	if err := p.ops.LearnSizes(p.ctx); err != nil {
		p.w.fail("LearnSizes: %v", err)
	}
	p.work.Go(func() { p.ops.SweepMarks(p.ctx) })
	p.work.Go(func() { p.ops.RunGrace(p.ctx) })
	p.work.Go(func() { p.ops.Tend(p.ctx) })
	p.work.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				if n := p.engine.Expire(p.ctx, now); n > 0 {
					p.w.log("mds", "%d leases ran out", n)
				}
			case <-p.ctx.Done():
				return
			}
		}
	})
}

// accept serves one connection.
func (p *mdsProcess) accept(e *end) {
	conn := rpc.NewConn(context.Background(), e, p.engine, &p.rpc)
	p.work.Go(func() { conn.Serve() })
}

// close waits for what still runs of a process that is dead already.
func (p *mdsProcess) close() {
	p.ops.Stop()
	p.proxy.Close()
	p.outbox.Close()
	p.work.Wait()
	p.store.Close()
}

var mdsAddr = netip.MustParseAddrPort("10.0.0.1:2049")

// dialMDS connects a client to the metadata server; nil if it is not there.
func (w *world) dialMDS(from string) *end {
	p := w.mds.process()
	if p == nil || w.wire.apart(from, "mds") {
		return nil
	}
	near, far := w.wire.dial(from, "mds", netip.MustParseAddrPort("10.0.1.1:1000"), mdsAddr)
	p.accept(far)
	return near
}

// delegPause is short, so that files are delegated again and again.
const delegPause = time.Second

// watched is the engine as operations call clients back through it.
type watched struct {
	*compound.Server
	p *mdsProcess
}

// Callback implements op.Caller. The judge has to know what is recalled.
func (c watched) Callback(ctx context.Context, id nfs4.ClientID, num nfs4.CBOpNum, args compound.CallbackArgs, res compound.CallbackRes) (nfs4.Status, error) {
	switch a := args.(type) {
	case *nfs4.CBRecallArgs:
		c.p.w.judge.recalling(a.Stateid.Other)
	case *nfs4.CBLayoutRecallArgs:
		c.p.w.judge.recalling(a.Recall.Stateid.Other)
	}
	c.p.w.point("callback")
	s, err := c.Server.Callback(ctx, id, num, args, res)
	c.p.w.point("callback answered")
	return s, err
}

// orders is the way from a metadata server process to the data servers.
type orders struct{ p *mdsProcess }

// Do implements outbox.Sender: the commands go to the data server one after the
// other, and each of their answers may get lost with the connection.
func (o orders) Do(ctx context.Context, id layout.DSID, cmds ...control.Command) ([]control.Ack, error) {
	d := o.p.w.server(id)
	if d == nil {
		return nil, control.ErrDetached
	}
	o.p.w.point("order")
	acks, err := d.order(ctx, o.p, cmds)
	o.p.w.point("order answered")
	return acks, err
}

func (w *world) server(id layout.DSID) *dataServer {
	for _, d := range w.ds {
		if d.id == id {
			return d
		}
	}
	return nil
}

// state says what the process holds, "" for nothing.
func (p *mdsProcess) state() string {
	u := p.ops.Usage()
	if u.State != (state.Counts{}) || u.Recalling != 0 {
		return fmt.Sprintf("%+v, %d recalls", u.State, u.Recalling)
	}
	for _, c := range p.engine.Clients() {
		if c.Confirmed {
			return fmt.Sprintf("client %x with %d sessions", uint64(c.ID), c.Sessions)
		}
	}
	return ""
}

// started counts the starts.
func (m *mds) started() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.starts
}

// describe says what the server knows of a client.
func (m *mds) describe(id nfs4.ClientID) string {
	p := m.process()
	if p == nil {
		return "the metadata server is down"
	}
	text := fmt.Sprintf("it holds %+v", p.ops.ClientUsage(id))
	for _, c := range p.engine.Clients() {
		if c.ID == id {
			text += fmt.Sprintf(", %d sessions, %d requests run", c.Sessions, c.Busy)
		}
	}
	return text
}
