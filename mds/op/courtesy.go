package op

import (
	"context"
	"time"

	"manifold/xdr/nfs4"
)

// lapsed: a client's lease ran out. It may stay as a courtesy client, that is
// for as long as nobody wants what it holds (RFC 8881 section 8.4.2.3).
func (o *Ops) lapsed(now time.Time, id nfs4.ClientID) (stays bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.State.Courtesy(now, id) {
		return false
	}
	if !o.courtesy[id] {
		o.courtesy[id] = true
		o.Log.Info("client's lease ran out; its state stays until it is in somebody's way", clientID(id))
	}
	return true
}

// renewed: a courtesy client is heard of again, and has lost nothing.
func (o *Ops) renewed(id nfs4.ClientID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.courtesy, id)
	if o.State.Renew(id) {
		o.Log.Info("client without a lease is back", clientID(id))
	}
}

// expire ends courtesy clients, unless they came back meanwhile.
func (o *Ops) expire(ids []nfs4.ClientID) {
	for _, id := range ids {
		o.mu.Lock()
		ends := o.courtesy[id]
		if ends {
			delete(o.courtesy, id)
			o.State.Expire(id) // from now on it cannot come back
		}
		o.mu.Unlock()
		if ends {
			o.Log.Warn("client without a lease is in the way, it loses its state", clientID(id))
			o.caller.Evict(o.ctx, id, "")
		}
	}
}

// tendPause is how often Tend looks.
const tendPause = time.Second

// Tend does what only time brings about, until ctx ends: it ends courtesy
// clients whose time is up, makes room for others, sees to recalls that were
// never sent, tells those who wait for a lock that nobody took, and asks for
// delegations that are too many.
func (o *Ops) Tend(ctx context.Context) {
	var asked time.Time
	for sleep(ctx, tendPause) {
		now := o.Now()
		// Linux gives back all that it has not used since it was asked last, one
		// after the other, however much it may keep: so this is not done often.
		if now.Sub(asked) >= 2*o.cfg.Lease && o.recallAny() {
			asked = now
		}
		o.mu.Lock()
		stale := o.State.Stale(now)
		late, delegs := o.State.Overdue(now), o.State.OverdueDelegs(now)
		waiters := o.State.Waiters()
		o.mu.Unlock()
		o.notify(waiters)
		o.expire(stale)
		o.makeRoom()
		for _, g := range late {
			o.recall(ofLayout(g))
		}
		for _, d := range delegs {
			o.recall(ofDeleg(d))
		}
	}
}
