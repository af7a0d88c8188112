// Package fleet is the data servers as the metadata server knows them.
//
// Its nouns: a Fleet holds one member for each data server that ever
// registered; a member is up once it is attached and has caught up with what
// it missed, down otherwise; draining and removed are decided by the
// administrator and kept in the store. From the members come the view that
// placement chooses from, the devices that clients are told, and the space that
// statfs shows.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/mds/ns"
	"manifold/mds/store"
)

// State says what a data server is good for.
type State string

// The states of a data server.
const (
	Up       State = "up"       // serves, and gets new files
	Down     State = "down"     // not attached, or not caught up yet
	Draining State = "draining" // serves, but gets no new files
	Removed  State = "removed"  // gone for good
)

// Info is a data server as the administrator is shown it.
type Info struct {
	ID        layout.DSID
	UUID      [16]byte
	Name      string
	State     State
	Addresses []string // host:port; the host may be a wildcard
	Usage     control.Usage
	Heard     time.Time // of the last heartbeat, zero before the first
	Version   string
}

// member is one data server.
type member struct {
	rec      ns.DSRecord
	attached bool
	ready    bool
	usage    control.Usage
	heard    time.Time
	version  string
}

func (m *member) state() State {
	switch {
	case m.rec.Removed:
		return Removed
	case !m.ready:
		return Down
	case m.rec.Draining:
		return Draining
	}
	return Up
}

// Fleet is all data servers. Its methods may be called by many goroutines.
type Fleet struct {
	store   store.Store
	cluster ns.Cluster
	log     *zap.Logger
	now     func() time.Time
	policy  Defaults

	mu      sync.Mutex
	members map[layout.DSID]*member
	devices devices
	// Moved is told when a data server came back with other addresses, so that
	// clients are made to ask for them. It must not block.
	Moved func(layout.DSID)
}

// Load reads the data servers on record. None of them is up.
func Load(ctx context.Context, st store.Store, policy Defaults, log *zap.Logger, now func() time.Time) (*Fleet, error) {
	f := &Fleet{store: st, log: log, now: now, policy: policy, members: map[layout.DSID]*member{}}
	err := st.View(ctx, func(tx store.Tx) error {
		return f.cluster.ScanDS(tx, func(r ns.DSRecord) (bool, error) {
			f.members[r.Number] = &member{rec: r}
			return true, nil
		})
	})
	return f, err
}

// errRemoved is what a data server that was removed is told.
var errRemoved = errors.New("this data server was removed from the cluster: give it an empty folder to join anew")

// Register returns the number of the data server that says h, and notes its
// name and addresses. See control.MDS.
func (f *Fleet) Register(ctx context.Context, h control.Hello) (layout.DSID, error) {
	rec := ns.DSRecord{UUID: h.UUID, Name: h.Name}
	for _, a := range h.Addresses {
		rec.Addresses = append(rec.Addresses, a.AddrPort.String())
	}
	f.mu.Lock()
	next, known, same := layout.DSID(1), (*member)(nil), false
	for id, m := range f.members {
		next = max(next, id+1)
		if m.rec.UUID == h.UUID {
			known = m
		} else if m.rec.Name == h.Name && !m.rec.Removed {
			f.mu.Unlock()
			return 0, fmt.Errorf("the name %q is another data server's: give this one its own with --id", h.Name)
		}
	}
	if known == nil {
		// The number is taken now, so that nobody else gets it meanwhile.
		rec.Number = next
		f.members[next] = &member{rec: rec}
	} else {
		rec.Number, rec.Draining, rec.Removed = known.rec.Number, known.rec.Draining, known.rec.Removed
		same = known.rec.Name == rec.Name && slices.Equal(known.rec.Addresses, rec.Addresses)
	}
	f.mu.Unlock()
	if rec.Removed {
		return 0, errRemoved
	}
	if same {
		return rec.Number, nil
	}
	err := f.keep(ctx, rec)
	if err != nil && known == nil {
		f.mu.Lock()
		delete(f.members, rec.Number) // nobody has heard of it
		f.mu.Unlock()
	}
	if err == nil && known != nil {
		f.log.Info("data server has other addresses", zap.String("name", rec.Name), zap.Strings("addresses", rec.Addresses))
		if f.Moved != nil {
			f.Moved(rec.Number)
		}
	}
	return rec.Number, err
}

// keep makes a record durable, then visible.
func (f *Fleet) keep(ctx context.Context, rec ns.DSRecord) error {
	err := f.store.Update(ctx, func(tx store.Tx) error { return f.cluster.PutDS(tx, rec) })
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members[rec.Number].rec = rec
	return nil
}

// Attached: see control.MDS. The data server is up once Ready says so.
func (f *Fleet) Attached(ds layout.DSID, h control.Hello) {
	f.with(ds, func(m *member) {
		m.attached, m.ready, m.usage, m.heard, m.version = true, false, h.Usage, f.now(), h.Version
	})
}

// Ready says that a data server has caught up.
func (f *Fleet) Ready(ds layout.DSID) {
	f.with(ds, func(m *member) {
		m.ready = m.attached
		f.log.Info("data server is up", zap.Uint32("ds", uint32(ds)), zap.String("name", m.rec.Name), zap.Strings("addresses", m.rec.Addresses))
	})
}

// Heartbeat: see control.MDS.
func (f *Fleet) Heartbeat(ds layout.DSID, u control.Usage) {
	f.with(ds, func(m *member) { m.usage, m.heard = u, f.now() })
}

// Detached: see control.MDS.
func (f *Fleet) Detached(ds layout.DSID, why error) {
	f.with(ds, func(m *member) {
		m.attached, m.ready = false, false
		f.log.Warn("data server is down", zap.Uint32("ds", uint32(ds)), zap.String("name", m.rec.Name), zap.Error(why))
	})
}

func (f *Fleet) with(ds layout.DSID, fn func(*member)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members[ds]; m != nil {
		fn(m)
	}
}

// SetDraining decides whether a data server gets new files; SetRemoved takes
// it out for good. An unknown number is an error.
func (f *Fleet) SetDraining(ctx context.Context, ds layout.DSID, on bool) error {
	return f.change(ctx, ds, func(r *ns.DSRecord) { r.Draining = on })
}

// SetRemoved takes a data server out of the cluster for good.
func (f *Fleet) SetRemoved(ctx context.Context, ds layout.DSID) error {
	return f.change(ctx, ds, func(r *ns.DSRecord) { r.Removed = true })
}

func (f *Fleet) change(ctx context.Context, ds layout.DSID, fn func(*ns.DSRecord)) error {
	f.mu.Lock()
	m := f.members[ds]
	if m == nil {
		f.mu.Unlock()
		return fmt.Errorf("no data server %d", ds)
	}
	rec := m.rec
	f.mu.Unlock()
	fn(&rec)
	return f.keep(ctx, rec)
}

// List describes all data servers, by number.
func (f *Fleet) List() []Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]Info, 0, len(f.members))
	for id, m := range f.members {
		list = append(list, Info{
			ID: id, UUID: m.rec.UUID, Name: m.rec.Name, State: m.state(), Addresses: m.rec.Addresses,
			Usage: m.usage, Heard: m.heard, Version: m.version,
		})
	}
	slices.SortFunc(list, func(a, b Info) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Serves says whether a data server is up, to get new files or not.
func (f *Fleet) Serves(ds layout.DSID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[ds]
	return m != nil && (m.state() == Up || m.state() == Draining)
}

// All returns the data servers that were not removed.
func (f *Fleet) All() []layout.DSID {
	var ids []layout.DSID
	for _, i := range f.List() {
		if i.State != Removed {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// Paths returns where to reach a data server from here; local stands in for
// a wildcard.
func (f *Fleet) Paths(ds layout.DSID, local netip.Addr) ([]layout.Address, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[ds]
	if m == nil || m.rec.Removed {
		return nil, fmt.Errorf("no data server %d", ds)
	}
	return paths(m.rec.Addresses, local)
}
