// Package op is the metadata server's operations, one file each.
//
// Its nouns: Ops holds what operations are made of (its Parts); an operation
// is a method of it and a row in Table. Every operation that changes something
// takes the same four steps: decide (mds/state, pure), keep (one
// store.Update), apply (the state's Change), tell (the reply, and what the
// outbox and recalls do afterwards). What is not durable is not visible to a
// reply. Before any of that an ExportRule says whether the caller's address may,
// and as whom; the current file is a place, which holds the answer.
//
// Delegations and courtesy: what is in a request's way is recalled, or ended if
// its client has no lease, and the request waits a little and then answers
// NFS4ERR_DELAY (decide does both). A client that misbehaves is evicted (evict). What is revoked is fenced at the data servers
// before others get it. A client that has a revoked delegation not yet freed may
// not reclaim after a restart, so no note of single delegations is kept.
//
// One file is decided about by one operation at a time, from decide to apply
// (fileLocks). No such lock is held while a client is waited for: a recall is
// answered by operations that need it.
package op

import (
	"context"
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/mds/fleet"
	"manifold/mds/ns"
	"manifold/mds/outbox"
	"manifold/mds/proxy"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/session"
)

// Caller calls clients back; compound.Server is one.
type Caller interface {
	Callback(ctx context.Context, client nfs4.ClientID, op nfs4.CBOpNum, args compound.CallbackArgs, res compound.CallbackRes) (nfs4.Status, error)
	CanCallback(client nfs4.ClientID) bool
	Evict(ctx context.Context, client nfs4.ClientID, why string) bool
	Flag(client nfs4.ClientID, flags uint32)
	Unflag(client nfs4.ClientID, flags uint32)
	Notify(client nfs4.ClientID, flags uint32)
	Clients() []session.ClientInfo
}

// Parts is what Ops is made of. All are needed but where it says so.
type Parts struct {
	Store   store.Store
	Cluster ns.Cluster
	Volume  *ns.Volume
	Keys    func() *layout.Keyring
	State   *state.Core
	Fleet   *fleet.Fleet
	Outbox  *outbox.Outbox
	Proxy   *proxy.Proxy
	// Size asks the data servers how long a file's data is: Proxy.Size, but in
	// tests without data servers.
	Size   func(context.Context, proxy.Target) (uint64, error)
	Driver layout.Driver
	// Groups looks up the supplementary groups of a user, which then count in
	// place of those that AUTH_SYS lists, 16 at most. False, after not too long:
	// they are not known, and the list counts. The slice is not the caller's to
	// change. Nil: the list counts.
	Groups func(uid uint32) ([]uint32, bool)
	// Users says who a Kerberos principal is; one that is no user is Nobody.
	// False, after not too long: it cannot be known now, and the request waits.
	// Nil: nobody is.
	Users func(principal string) (ns.Cred, bool)
	Log   *zap.Logger
	Now   func() time.Time
}

// Config says how operations behave.
type Config struct {
	// Lease is the lease time that clients are told.
	Lease time.Duration
	// NoProxyIO refuses READ and WRITE at this server with NFS4ERR_IO: a switch
	// for tests, so that a layout that does not work is seen.
	NoProxyIO bool
	// Patience is how long an operation waits for a recall or a data server
	// before it answers NFS4ERR_DELAY.
	Patience time.Duration
	// MaxIgnored is how many recalled layouts and delegations in a row a client
	// may have to be deprived of before it is evicted: 16.
	MaxIgnored int
	// Exports are the rules of the one export, first match first. None: every
	// client may do everything that its users may.
	Exports []ExportRule
	// UTF8Names refuses new names that are not UTF-8: NFS4ERR_INVAL (RFC 8881
	// section 14.5).
	UTF8Names bool
}

// Ops are the operations of one metadata server.
type Ops struct {
	Parts
	cfg      Config
	caller   Caller // set by Serve, before the first operation
	files    fileLocks
	orphans  marks // files without a name that may be open still
	marks    marks // files that may grow unseen
	trimmed  marks // of these, those that were cut: a commit may come late
	unsure   marks // of these, those whose size has to be learned first
	cuts     cuts  // truncations that WRITEs must see
	counter  counters
	refusals sparse // what is logged of clients that may not use the export
	boot     nfs4.Verifier

	mu       sync.Mutex // guards State and:
	changed  chan struct{}
	recalls  map[recallKey]bool
	courtesy map[nfs4.ClientID]bool                   // clients whose lease ran out, and that stay
	barred   map[nfs4.ClientID]bool                   // clients that may not reclaim (see bar), and whether they are done reclaiming
	deaf     map[nfs4.ClientID]int                    // recalls that a client ignored since it last heeded one
	given    map[uint64]given                         // delegations to write, by file
	watchers map[nfs4.DeviceID]map[nfs4.ClientID]bool // who is told that a device is gone
	old      map[string][]nfs4.ClientID               // client ids from before the start, by who
	heirs    map[nfs4.ClientID][]nfs4.ClientID        // those of who came back and reclaims
	retired  []nfs4.ClientID                          // those that are fenced, until grace is over
	settled  chan struct{}                            // closed when no client may reclaim and all retired ones are being fenced
	fenced   chan struct{}                            // closed when they are
	marked   []layout.Handle                          // the files that were marked at the start
	work     sync.WaitGroup                           // recalls and clean-ups in the background
	starting sync.Mutex                               // between Stop and background
	stop     context.CancelFunc
	ctx      context.Context // ends when the server stops
}

// New returns the operations. boot differs at every start; old are the client
// ids that LoadRecords found.
func New(cfg Config, p Parts, boot nfs4.Verifier, old map[string][]nfs4.ClientID) *Ops {
	if cfg.MaxIgnored == 0 {
		cfg.MaxIgnored = 16
	}
	if len(cfg.Exports) == 0 {
		cfg.Exports = []ExportRule{{}}
	}
	o := &Ops{Parts: p, cfg: cfg, boot: boot, old: old, recalls: map[recallKey]bool{}, courtesy: map[nfs4.ClientID]bool{}, barred: map[nfs4.ClientID]bool{}, deaf: map[nfs4.ClientID]int{}, given: map[uint64]given{}, watchers: map[nfs4.DeviceID]map[nfs4.ClientID]bool{}, heirs: map[nfs4.ClientID][]nfs4.ClientID{}, changed: make(chan struct{}), settled: make(chan struct{}), fenced: make(chan struct{})}
	o.ctx, o.stop = context.WithCancel(context.Background())
	return o
}

// Serve gives Ops the way back to clients. It comes before the first operation.
func (o *Ops) Serve(c Caller) { o.caller = c }

// Stop ends what runs in the background, and waits for it.
func (o *Ops) Stop() {
	o.starting.Lock()
	o.stop()
	o.starting.Unlock()
	o.work.Wait()
}

// decide asks the state. Clients that are in the way without a lease, or that
// hold more than their share, are ended, and if delegations are in the way, their recall begins: nothing is kept along
// with that.
func (o *Ops) decide(r state.Request) state.Verdict {
	o.mu.Lock()
	v := o.State.Decide(o.Now(), r)
	begin := state.Effects{Expire: v.Effects.Expire, Evict: v.Effects.Evict}
	if v.Status == nfs4.ErrDelay && !v.Change.IsZero() {
		o.State.Apply(v.Change)
		v.Change, begin = state.Change{}, v.Effects
	}
	o.mu.Unlock()
	o.tell(&begin)
	return v
}

// apply makes a verdict's change, and starts what follows from it.
func (o *Ops) apply(ch state.Change) nfs4.Status {
	o.mu.Lock()
	e, ok := o.State.Apply(ch)
	for _, file := range e.Idle {
		delete(o.given, file)
	}
	o.wake()
	o.mu.Unlock()
	o.idle(e.Idle)
	o.notify(e.Notify)
	if !ok {
		return nfs4.ErrExpired
	}
	return nfs4.OK
}

// wake tells those that wait for the state to change. o.mu is held.
func (o *Ops) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// decideApply is for changes that need nothing kept in between.
func (o *Ops) decideApply(r state.Request) (state.Verdict, nfs4.Status) {
	v := o.decide(r)
	if v.Status != nfs4.OK || v.Change.IsZero() {
		return v, v.Status
	}
	s := o.apply(v.Change)
	if s == nfs4.OK {
		o.tell(&v.Effects)
	}
	return v, s
}

// view and update run fn in a transaction, and say what an operation answers.
func (o *Ops) view(ctx context.Context, fn func(store.Tx) error) nfs4.Status {
	return o.status("view", o.Store.View(ctx, fn))
}

func (o *Ops) update(ctx context.Context, fn func(store.Tx) error) nfs4.Status {
	return o.status("update", o.Store.Update(ctx, fn))
}

// status logs what is not the client's doing.
func (o *Ops) status(what string, err error) nfs4.Status {
	s := ns.StatusOf(err)
	if s == nfs4.ErrIO && !errors.Is(err, context.Canceled) {
		o.Log.Error("metadata store "+what+" failed", zap.Error(err))
	}
	return s
}

// inode reads the inode of a handle.
func (o *Ops) inode(ctx context.Context, h layout.Handle) (in *ns.Inode, s nfs4.Status) {
	s = o.view(ctx, func(tx store.Tx) (err error) {
		in, err = o.Volume.Get(tx, h)
		return err
	})
	return in, s
}

// enter makes an inode the current file.
func (o *Ops) enter(c *compound.Call, in *ns.Inode) {
	h := o.Volume.Handle(in)
	o.arrive(c, o.Keys().SealMDS(h), h)
}

// nameable is NFS4ERR_INVAL for a new name that is not UTF-8 where names have to
// be. What else is wrong with a name the name space finds.
func (o *Ops) nameable(name []byte) nfs4.Status {
	if o.cfg.UTF8Names && !utf8.Valid(name) {
		return nfs4.ErrInval
	}
	return nfs4.OK
}

// regular is the status of an operation on data if in is no regular file.
func regular(in *ns.Inode) nfs4.Status {
	switch in.Type {
	case nfs4.TypeReg:
		return nfs4.OK
	case nfs4.TypeDir:
		return nfs4.ErrIsDir
	case nfs4.TypeLnk:
		return nfs4.ErrSymlink
	}
	return nfs4.ErrWrongType
}
