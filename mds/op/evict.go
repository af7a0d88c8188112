package op

import (
	"cmp"
	"fmt"
	"slices"

	"manifold/mds/state"
	"manifold/xdr/nfs4"
	"manifold/xdr/session"
)

// evict ends a client whose lease runs, for what it did: as when a lease runs
// out it loses its sessions and its state, the data servers refuse its handles,
// and only then others get what it had. It may come back as a new client.
func (o *Ops) evict(id nfs4.ClientID, why string) {
	o.mu.Lock()
	live := o.State.Live(id)
	if live {
		o.State.Expire(id)
	}
	o.mu.Unlock()
	if live {
		o.caller.Evict(o.ctx, id, why)
	}
}

// hogs ends clients that hold so much that others find nothing left.
func (o *Ops) hogs(ids []nfs4.ClientID) {
	for _, id := range ids {
		n := o.ClientUsage(id)
		o.evict(id, fmt.Sprintf("others find nothing left: it holds %d opens, %d locks and %d layouts", n.Opens, n.Locks, n.Layouts))
	}
}

// ignored notes that a client did not return in time what was recalled. One
// that never does holds everybody up for a lease each time, so it is evicted
// when that is all it ever does.
func (o *Ops) ignored(id nfs4.ClientID) {
	o.mu.Lock()
	n := 0
	if o.State.Live(id) {
		o.deaf[id]++
		n = o.deaf[id]
	}
	o.mu.Unlock()
	if n >= o.cfg.MaxIgnored {
		o.evict(id, fmt.Sprintf("of the last %d layouts and delegations that were recalled it returned none", n))
	}
}

// heeded notes that a client returned a layout or a delegation.
func (o *Ops) heeded(id nfs4.ClientID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.deaf, id)
}

// roomPart is how many clients makeRoom ends at most each time.
const roomPart = 16

// makeRoom ends clients that hold nothing, those that were not heard of for
// longest first, if there are as many clients as may be and none of them is
// without a lease. Such a client loses nothing: it comes back by itself.
func (o *Ops) makeRoom() {
	o.mu.Lock()
	full := o.State.Full() && len(o.courtesy) == 0
	o.mu.Unlock()
	if !full {
		return
	}
	idle := slices.DeleteFunc(o.caller.Clients(), func(c session.ClientInfo) bool {
		return !c.Confirmed || c.Busy > 0 || o.ClientUsage(c.ID) != state.Counts{}
	})
	slices.SortFunc(idle, func(a, b session.ClientInfo) int {
		return cmp.Or(a.LastRenewal.Compare(b.LastRenewal), cmp.Compare(a.ID, b.ID))
	})
	for _, c := range idle[:min(len(idle), roomPart)] {
		o.evict(c.ID, "there are as many clients as may be, and it holds nothing")
	}
}

// Census counts what the operations keep of clients and files, by the name of
// the table: the state's, and their own, which are all 0 when nothing is under
// way and the store knows all sizes.
func (o *Ops) Census() map[string]int {
	o.mu.Lock()
	n := o.State.Census()
	n["op_recalls"], n["op_courtesy"], n["op_barred"] = len(o.recalls), len(o.courtesy), len(o.barred)
	n["op_deaf"], n["op_given"], n["op_heirs"], n["op_old"] = len(o.deaf), len(o.given), len(o.heirs), len(o.old)
	n["op_retired"], n["op_watchers"] = len(o.retired), len(o.watchers)
	o.mu.Unlock()
	n["op_file_locks"] = o.files.len()
	n["op_orphans"], n["op_marks"], n["op_trimmed"], n["op_unsure"] = o.orphans.len(), o.marks.len(), o.trimmed.len(), o.unsure.len()
	return n
}
