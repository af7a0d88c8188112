package op

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/session"
)

// Hooks are what the engine asks of the metadata server.
func (o *Ops) Hooks() compound.Hooks {
	return compound.Hooks{Confirm: o.confirm, Drop: o.drop, Lapsed: o.lapsed, Renewed: o.renewed, ReclaimComplete: o.reclaimComplete}
}

// who is a client over all its boots, as far as what is on record is concerned:
// its owner, and who said so. Another principal that names the same owner has no
// part in what it left.
func who(owner, principal []byte) string { return string(owner) + "\x00" + string(principal) }

// recordName is the name under which a client is on record: only the same client
// in the same boot may reclaim (RFC 8881 section 8.4.2.1).
func recordName(verifier nfs4.Verifier, who string) string { return string(verifier[:]) + who }

// principalOf writes a principal for a client's record. One that protects its
// state (SP4_MACH_CRED) is not the same as one that does not: what is on record
// is not to be had for less than it was put there for.
func principalOf(rec *session.ClientRecord) []byte {
	b := fmt.Appendf(nil, "%d:%d:%s", rec.Principal.Flavor, rec.Principal.UID, rec.Principal.Name)
	if rec.Machine {
		b = append(b, ":machine"...)
	}
	return b
}

// HasState says whether a client holds anything.
func (o *Ops) HasState(id nfs4.ClientID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.State.CountsOf(id)
	return n.Opens+n.Locks+n.Layouts+n.Delegs > 0
}

// confirm puts a client on record and lets it have state. Records of the same
// owner from before the start stay until it has reclaimed: see retire.
func (o *Ops) confirm(ctx context.Context, rec session.ClientRecord) (mayReclaim bool, err error) {
	principal := principalOf(&rec)
	client := who(rec.OwnerID, principal)
	name := recordName(rec.Verifier, client)
	o.mu.Lock()
	mayReclaim, s := o.State.AddClient(o.Now(), rec.ID, name)
	o.mu.Unlock()
	if s == nfs4.ErrDelay { // too many: one that has no lease makes room
		o.mu.Lock()
		stale := o.State.Stale(o.Now())
		o.mu.Unlock()
		o.expire(stale)
	}
	if s != nfs4.OK {
		return false, s
	}
	err = o.Store.Update(ctx, func(tx store.Tx) error {
		return o.Cluster.PutClient(tx, ns.ClientRecord{
			ID: rec.ID, Owner: rec.OwnerID, Verifier: rec.Verifier, Principal: principal,
		})
	})
	if err != nil {
		o.mu.Lock()
		o.State.Forget(rec.ID)
		o.mu.Unlock()
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if ids := o.old[client]; len(ids) > 0 {
		o.heirs[rec.ID] = ids
		delete(o.old, client)
	}
	// An earlier boot of the same client has nothing left to reclaim, so grace
	// need not wait for it.
	_, _, waiting := o.State.Grace(o.Now())
	for _, other := range waiting {
		if other != name && other[len(rec.Verifier):] == client {
			o.State.Unrecord(other)
			o.wake()
		}
	}
	return mayReclaim, nil
}

// reclaimComplete: the client has all it wants (RFC 8881 section 18.51), and
// has given up the layouts that it had before the start. Only now, when its new
// record is good for the next restart, the old one may go.
func (o *Ops) reclaimComplete(ctx context.Context, id nfs4.ClientID) error {
	s := o.update(ctx, func(tx store.Tx) error {
		r, err := o.Cluster.Client(tx, id)
		if err != nil || r.Complete {
			return err
		}
		r.Complete = o.mayComplete(id)
		return o.Cluster.PutClient(tx, r)
	})
	if s != nfs4.OK && s != nfs4.ErrNoEnt {
		return s
	}
	o.mu.Lock()
	old := o.heirs[id]
	o.mu.Unlock()
	if s := o.retire(ctx, old); s != nfs4.OK {
		return s
	}
	o.mu.Lock()
	delete(o.heirs, id)
	defer o.mu.Unlock()
	if s := o.State.ReclaimComplete(id); s != nfs4.OK && s != nfs4.ErrCompleteAlready {
		return s
	}
	o.wake()
	return nil
}

// retirePart is how many client ids one transaction retires: with a row for
// each of some dozen data servers, well below store.MaxUpdateOps.
const retirePart = 20

// retire takes client ids from before the start off the record, and has every
// data server refuse their handles: nobody here knows which layouts they had.
// The data servers are not waited for.
func (o *Ops) retire(ctx context.Context, old []nfs4.ClientID) nfs4.Status {
	on := o.Fleet.All()
	for part := range slices.Chunk(old, retirePart) {
		s := o.update(ctx, func(tx store.Tx) error {
			for _, id := range part {
				if err := o.Outbox.FenceClient(tx, on, id); err != nil {
					return err
				}
				if err := o.Cluster.DeleteClient(tx, id); err != nil {
					return err
				}
			}
			return nil
		})
		if s != nfs4.OK {
			return s
		}
		o.mu.Lock()
		o.retired = append(o.retired, part...)
		o.mu.Unlock()
		o.Outbox.Kick(on)
	}
	return nfs4.OK
}

// drop ends a client that left, was replaced, or let its lease run out. What it
// holds stands in others' way until every data server has acknowledged that it
// refuses the client's handles; that takes place in the background.
func (o *Ops) drop(_ context.Context, id nfs4.ClientID) {
	o.mu.Lock()
	e := o.State.Expire(id)
	delete(o.courtesy, id)
	delete(o.barred, id)
	delete(o.deaf, id)
	o.unwatch(id)
	o.mu.Unlock()
	o.background(func(ctx context.Context) {
		var on []layout.DSID
		for _, g := range e.Fence {
			on = append(on, g.DS...)
		}
		for ctx.Err() == nil && o.update(ctx, func(tx store.Tx) error {
			if err := o.Cluster.DeleteClient(tx, id); err != nil {
				return err
			}
			if len(on) == 0 {
				return nil
			}
			return o.Outbox.FenceClient(tx, on, id)
		}) != nfs4.OK {
			o.pause(ctx)
		}
		if len(on) > 0 {
			o.Outbox.Kick(on)
			o.Log.Info("client fenced at the data servers", zap.String("clientid", fmt.Sprintf("%#x", uint64(id))),
				zap.Int("data_servers", len(on)))
			if err := o.Outbox.WaitClient(ctx, id); err != nil {
				return // the server stops; the rows are durable
			}
		}
		for _, ino := range e.Grown {
			o.unsure.add(ino)
		}
		o.forgetClient(id)
		o.learnGrown(ctx, e.Grown)
	})
}

// shedPart is of how many files a client's state is dropped at once. It may have
// hundreds of thousands open, and others must not stand still meanwhile.
const shedPart = 4096

// forgetClient drops the state of a client that is fenced.
func (o *Ops) forgetClient(id nfs4.ClientID) {
	for more := true; more; {
		o.mu.Lock()
		var gone state.Effects
		if gone, more = o.State.Shed(id, shedPart); !more {
			last := o.State.Forget(id)
			gone.Idle, gone.Notify = append(gone.Idle, last.Idle...), append(gone.Notify, last.Notify...)
		}
		delete(o.barred, id) // a revocation may have been under way
		for _, file := range gone.Idle {
			delete(o.given, file)
		}
		o.wake()
		o.mu.Unlock()
		o.idle(gone.Idle)
		o.notify(gone.Notify)
	}
}

// learnGrown learns the sizes of files that a client may have written to and
// did not commit. The client is fenced: they do not grow any more.
func (o *Ops) learnGrown(ctx context.Context, files []uint64) {
	var handles []layout.Handle
	for o.view(ctx, func(tx store.Tx) error {
		handles = handles[:0]
		for _, ino := range files {
			in, err := o.Volume.GetID(tx, ino)
			switch {
			case err == nil:
				handles = append(handles, o.Volume.Handle(in))
			case ns.StatusOf(err) == nfs4.ErrStale:
				o.unsure.drop(ino)
			default:
				return err
			}
		}
		return nil
	}) != nfs4.OK {
		if !o.pause(ctx) {
			return
		}
	}
	o.learnAll(ctx, handles)
	for _, ino := range files {
		o.unsure.drop(ino)
	}
}

// learnLate learns sizes once more, when no client can write by a layout from
// before the start any more: until then some may have gone on with that, and
// died before they said so.
func (o *Ops) learnLate(ctx context.Context) {
	o.mu.Lock()
	retired, files := o.retired, o.marked
	o.retired, o.marked = nil, nil
	o.mu.Unlock()
	for _, id := range retired {
		if err := o.Outbox.WaitClient(ctx, id); err != nil {
			return
		}
	}
	close(o.fenced)
	o.learnAll(ctx, files)
	for _, h := range files {
		o.unsure.drop(h.Inode)
	}
}

// graceGate refuses what must wait until grace is over: a file that goes now
// may be one that a client is about to reclaim (RFC 8881 section 8.4.2.1).
func (o *Ops) graceGate() nfs4.Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	if active, _, _ := o.State.Grace(o.Now()); active {
		return nfs4.ErrGrace
	}
	return nfs4.OK
}

// RunGrace waits until grace is over, takes those who did not come back off
// the record, and frees the files that lost their last name while they were
// open before the start.
func (o *Ops) RunGrace(ctx context.Context) {
	var waiting []string
	for {
		o.mu.Lock()
		active, until, names := o.State.Grace(o.Now())
		changed, now := o.changed, o.Now()
		o.mu.Unlock()
		if !active {
			break
		}
		waiting = names
		timer := time.NewTimer(until.Sub(now))
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
	o.endGrace(ctx, len(waiting))
}

// endGrace cleans up after grace.
func (o *Ops) endGrace(ctx context.Context, lost int) {
	o.mu.Lock()
	old := slices.Concat(slices.Collect(maps.Values(o.old))...)
	old = slices.Concat(old, slices.Concat(slices.Collect(maps.Values(o.heirs))...))
	slices.Sort(old)
	o.old = nil
	clear(o.heirs)
	_, _, waiting := o.State.Grace(o.Now())
	o.mu.Unlock()
	o.Log.Info("grace is over", zap.Int("clients_lost", len(waiting)), zap.Int("waited_for", lost))
	for o.retire(ctx, old) != nfs4.OK {
		if !o.pause(ctx) {
			return
		}
	}
	close(o.settled)
	o.background(o.learnLate)
	var orphans []uint64
	err := o.Store.View(ctx, func(tx store.Tx) error {
		return o.Volume.ScanOrphans(tx, 0, func(h layout.Handle) (bool, error) {
			orphans = append(orphans, h.Inode)
			return true, nil
		})
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		o.Log.Error("orphans not scanned", zap.Error(err))
	}
	for _, ino := range orphans {
		o.orphans.add(ino)
		o.free(ctx, ino)
	}
}

// LoadRecords reads the clients that had state before the start: their names for
// state.New, and their client ids by client, for New. One that has not said
// RECLAIM_COMPLETE has nothing, and one that is barred may not reclaim what it
// has; but only it knows which it is.
func LoadRecords(tx store.Tx, c ns.Cluster) (record map[string]bool, old map[string][]nfs4.ClientID, err error) {
	record, old = map[string]bool{}, map[string][]nfs4.ClientID{}
	err = c.ScanClients(tx, func(r ns.ClientRecord) (bool, error) {
		client := who(r.Owner, r.Principal)
		name := recordName(r.Verifier, client)
		record[name] = record[name] || r.Complete
		old[client] = append(old[client], r.ID)
		return true, nil
	})
	return record, old, err
}
