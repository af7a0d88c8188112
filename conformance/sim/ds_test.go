package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"manifold/ds/fence"
	"manifold/ds/op"
	"manifold/layout"
	"manifold/layout/control"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// dataServer is a data server's machine.
type dataServer struct {
	w    *world
	id   layout.DSID
	name string
	disk *disk
	own  *rand.Rand // the agent's

	mu     sync.Mutex
	rnd    *rand.Rand // the wire's
	fences []byte     // on disk
	now    *dsProcess
	starts uint32
	link   *attachment // nil: not attached
	ended  bool
}

// dsProcess is a data server from a start to the next crash.
type dsProcess struct {
	d      *dataServer
	ops    *op.Ops
	gate   *op.Gate
	disk   mounted
	engine *compound.Server
	rpc    rpc.Config
	turn   chan struct{} // held by who carries commands out
	ready  bool          // serves clients
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// attachment is a control connection.
type attachment struct {
	mds    *mdsProcess
	ds     *dsProcess
	broken chan struct{}
	once   sync.Once
}

func (a *attachment) cut() { a.once.Do(func() { close(a.broken) }) }

func newDataServer(w *world, id layout.DSID) *dataServer {
	d := &dataServer{w: w, id: id, name: fmt.Sprintf("ds%d", id), rnd: w.dice("ds", id), own: w.dice("agent", id), disk: newDisk(w, id)}
	d.disk.lies = w.fault == forgetfulDisk
	m := w.mds.process()
	if got, err := m.fleet.Register(m.ctx, d.hello()); err != nil || got != id {
		w.fail("%s is registered as %d: %v", d.name, got, err)
	}
	d.up()
	w.spawn(d.name, d.stayAttached)
	return d
}

// up starts the server if it is down.
func (d *dataServer) up() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now != nil || d.ended {
		return
	}
	d.starts++
	table := fence.New(fence.DefaultLimits())
	if d.fences != nil {
		var err error
		if table, err = fence.Load(d.fences, fence.DefaultLimits()); err != nil {
			d.w.fail("%s: %v", d.name, err)
			return
		}
	}
	p := &dsProcess{d: d, gate: op.NewGate(table), disk: d.disk.open(), turn: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.ops = op.New(op.Config{Store: p.disk, Gate: p.gate, FileSize: p.fileSize})
	cfg := session.Config{
		ClientIDHigh: d.starts, Owner: nfs4.ServerOwner{MajorID: []byte(d.name)}, Scope: []byte(d.name),
		Role: nfs4.ExchgidFlagUsePNFSDS, Lease: lease,
	}
	binary.BigEndian.PutUint64(cfg.Seed[:], d.w.seed<<16|uint64(d.id)<<8|uint64(d.starts))
	p.engine = compound.New(compound.Config{Sessions: session.New(cfg), Log: zap.NewNop(), Now: time.Now}, p.ops.Table())
	p.work.Go(p.expire)
	d.now = p
	d.w.log(d.name, "starts, time %d", d.starts)
}

func (p *dsProcess) expire() {
	tick := time.NewTicker(lease)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			p.engine.Expire(p.ctx, now)
		case <-p.ctx.Done():
			return
		}
	}
}

// kill is a crash.
func (d *dataServer) kill() {
	d.mu.Lock()
	p := d.now
	d.now = nil
	if d.link != nil {
		d.link.cut()
	}
	d.mu.Unlock()
	if p == nil {
		return
	}
	d.w.log(d.name, "is killed")
	d.disk.crash()
	d.w.judge.crashed(d.id)
	d.w.wire.down(d.name)
	p.cancel()
	d.w.spawn(d.name, p.work.Wait)
}

// halt ends the machine for good.
func (d *dataServer) halt() {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.kill()
}

func (d *dataServer) process() (p *dsProcess, ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now, d.ended
}

// stayAttached is the agent: it attaches whenever both ends are there, and again
// when the connection broke.
func (d *dataServer) stayAttached() {
	for {
		time.Sleep(time.Duration(20+d.own.IntN(300)) * time.Millisecond)
		p, ended := d.process()
		if ended {
			return
		}
		m := d.w.mds.process()
		if p == nil || m == nil || d.w.wire.apart("mds", d.name) {
			continue
		}
		// What an earlier connection brought is done first.
		p.turn <- struct{}{}
		<-p.turn
		d.attach(&attachment{mds: m, ds: p, broken: make(chan struct{})})
	}
}

func (d *dataServer) hello() control.Hello {
	return control.Hello{
		UUID: [16]byte{byte(d.id)}, Name: d.name, Addresses: []layout.Address{layout.TCP(d.addr())},
		Usage: control.Usage{CapacityBytes: 1 << 40, FreeBytes: 1 << 39},
	}
}

// attach is one control connection from its first word to its last.
func (d *dataServer) attach(a *attachment) {
	hello := d.hello()
	id, err := a.mds.fleet.Register(a.mds.ctx, hello)
	if err != nil {
		return
	}
	if id != d.id {
		d.w.fail("%s is registered as %d", d.name, id)
		return
	}
	d.mu.Lock()
	if d.now != a.ds {
		d.mu.Unlock()
		return
	}
	d.link = a
	d.mu.Unlock()
	keys := a.mds.ops.Keys()
	a.ds.ops.SetTerms(op.Terms{Keys: keys, Lease: lease})
	d.w.log(d.name, "attaches")
	a.mds.fleet.Attached(d.id, hello)
	a.mds.outbox.Attached(d.id)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for alive := true; alive; {
		select {
		case <-a.broken:
			alive = false
		case <-a.mds.ctx.Done():
			alive = false
		case <-a.ds.ctx.Done():
			alive = false
		case <-tick.C:
			alive = !d.w.wire.apart("mds", d.name)
		}
	}
	a.cut()
	d.mu.Lock()
	d.link = nil
	d.mu.Unlock()
	d.w.log(d.name, "is detached")
	// The metadata server notices late.
	time.Sleep(time.Duration(d.own.IntN(2000)) * time.Millisecond)
	a.mds.outbox.Detached(d.id)
	a.mds.fleet.Detached(d.id, control.ErrDetached)
}

func (d *dataServer) addr() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 2, byte(d.id)}), 2049)
}

// hop is the way of one message on the control connection; false if that broke.
func (a *attachment) hop(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-a.broken:
		return control.ErrDetached
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *dataServer) latency() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	ms := 200 + d.rnd.IntN(2000)
	if d.rnd.IntN(20) == 0 {
		ms *= 100
	}
	return time.Duration(ms) * time.Microsecond
}

// order carries commands out for a metadata server process.
func (d *dataServer) order(ctx context.Context, from *mdsProcess, cmds []control.Command) ([]control.Ack, error) {
	d.mu.Lock()
	a := d.link
	d.mu.Unlock()
	if a == nil || a.mds != from || from.ctx.Err() != nil {
		return nil, control.ErrDetached
	}
	if err := a.hop(ctx, d.latency()); err != nil {
		return nil, err
	}
	select {
	case a.ds.turn <- struct{}{}:
	case <-a.broken:
		return nil, control.ErrDetached
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	acks := make([]control.Ack, len(cmds))
	for i, c := range cmds {
		select {
		case <-a.broken:
			<-a.ds.turn
			return nil, control.ErrDetached
		default:
		}
		acks[i] = a.ds.do(c)
		d.w.point(d.disk.name("order done"))
		d.w.log(d.name, "%v client %x object %v epoch %d size %d: %v", c.Kind, uint64(c.Client), c.Object, c.Epoch, c.Size, acks[i].Status)
	}
	<-a.ds.turn
	if err := a.hop(ctx, d.latency()); err != nil {
		return nil, err
	}
	return acks, nil
}

// do is one command, as package ds does it.
func (p *dsProcess) do(c control.Command) (ack control.Ack) {
	ctx := p.ctx
	var err error
	switch c.Kind {
	case control.FenceClient:
		err = p.change(ctx, func(t *fence.Table) (bool, error) { return t.FenceClient(c.Client), nil })
	case control.FenceObject:
		err = p.change(ctx, func(t *fence.Table) (bool, error) { return t.FenceObject(c.Object, c.Epoch) })
	case control.Truncate:
		p.ops.ForgetSize(c.Object)
		if p.d.w.fault != lazyTruncate {
			err = p.disk.Truncate(c.Object, int64(c.Size))
		}
	case control.Remove:
		p.ops.ForgetSize(c.Object)
		if p.d.w.fault == lazyRemove {
			break
		}
		if err = p.disk.Remove(c.Object); err == nil && p.gate.Table().Least(c.Object) != 0 {
			err = p.change(ctx, func(t *fence.Table) (bool, error) { return t.Forget(c.Object), nil })
		}
	case control.Ready:
		p.d.mu.Lock()
		p.ready = true
		p.d.mu.Unlock()
	}
	if err != nil {
		ack.Status = nfs4.ErrIO
	}
	return ack
}

// change changes the fences as package ds does: on disk, at the gate, and when
// what was admitted before is over.
func (p *dsProcess) change(ctx context.Context, change func(*fence.Table) (bool, error)) error {
	if p.d.w.fault == lazyFence {
		return nil
	}
	table := p.gate.Table().Clone()
	changed, err := change(table)
	if err != nil {
		return err
	}
	if changed {
		time.Sleep(p.d.latency())
		p.d.mu.Lock()
		if p.d.now != p {
			p.d.mu.Unlock()
			return errUnmounted
		}
		p.d.fences = table.Snapshot()
		p.d.mu.Unlock()
		p.gate.Replace(table)
	}
	return p.gate.Drain(ctx)
}

// fileSize asks the metadata server.
func (p *dsProcess) fileSize(ctx context.Context, obj layout.Object) (uint64, error) {
	p.d.mu.Lock()
	a := p.d.link
	p.d.mu.Unlock()
	if a == nil || a.ds != p {
		return 0, control.ErrDetached
	}
	if err := a.hop(ctx, p.d.latency()); err != nil {
		return 0, err
	}
	size, err := a.mds.ops.FileSize(ctx, obj)
	if err != nil {
		return 0, err
	}
	return size, a.hop(ctx, p.d.latency())
}

// dialDS connects a node to a data server; nil if it does not serve.
func (w *world) dialDS(from string, id layout.DSID) *end {
	d := w.server(id)
	d.mu.Lock()
	p := d.now
	serves := p != nil && p.ready
	d.mu.Unlock()
	if !serves || w.wire.apart(from, d.name) {
		return nil
	}
	near, far := w.wire.dial(from, d.name, netip.MustParseAddrPort("10.0.1.1:1000"), d.addr())
	conn := rpc.NewConn(context.Background(), far, p.engine, &p.rpc)
	p.work.Go(func() { conn.Serve() })
	return near
}

// dial is how the metadata server connects to a data server.
func (p *mdsProcess) dial(_ context.Context, addr string, h rpc.Handler, cfg *rpc.Config) (*rpc.Conn, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	e := p.w.dialDS("mds", layout.DSID(at.Addr().As4()[3]))
	if e == nil || p.ctx.Err() != nil {
		return nil, control.ErrDetached
	}
	conn := rpc.NewConn(context.Background(), e, h, cfg)
	p.work.Go(func() { conn.Serve() })
	return conn, nil
}
