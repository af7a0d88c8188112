package op

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"manifold/layout"
	"manifold/mds/state"
	"manifold/xdr/nfs4"
)

// bulkFrom is how many layouts on one data server make it worth while to take
// everything back from a client at once, in one callback.
const bulkFrom = 100

// revokeAtOnce is how many layouts of a client are fenced side by side, each in
// a transaction of its own. They share the store's commits.
const revokeAtOnce = 16

// RecallDS takes back every layout that uses a data server, and waits until
// they are back or ctx ends. From a client that has many it takes everything.
// Layouts that are given meanwhile are let be: they know what is new about the
// data server, and to take them too would go on for ever.
func (o *Ops) RecallDS(ctx context.Context, ds layout.DSID) error {
	var old map[[12]byte]bool
	for {
		o.mu.Lock()
		grants, changed := o.State.LayoutsOn(ds), o.changed
		o.mu.Unlock()
		if old == nil {
			old = others(grants)
		}
		grants = slices.DeleteFunc(grants, func(g state.Grant) bool { return !old[g.Stateid.Other] })
		if len(grants) == 0 {
			return nil
		}
		if s := o.recallMost(ctx, grants); s != nfs4.OK {
			return s
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d layouts still use the data server: %w", len(grants), ctx.Err())
		}
	}
}

// recallMost begins the recall of layouts that is not under way, because they
// change. From a client that has many of them it takes everything.
func (o *Ops) recallMost(ctx context.Context, grants []state.Grant) nfs4.Status {
	held := map[nfs4.ClientID]int{}
	for _, g := range grants {
		held[g.Client]++
	}
	for _, g := range grants {
		switch {
		case !g.Deadline.IsZero() || held[g.Client] < 0:
		case held[g.Client] >= bulkFrom:
			o.beginAll(g.Client, nfs4.LayoutReturnFSID, true)
			held[g.Client] = -1
		default:
			if _, s := o.onFile(ctx, g.File, state.RecallReq{File: g.File, Client: g.Client, Changed: true}); s != nfs4.OK {
				return s
			}
		}
	}
	return nfs4.OK
}

// others is the layouts by what stays of their stateids.
func others(grants []state.Grant) map[[12]byte]bool {
	set := map[[12]byte]bool{}
	for _, g := range grants {
		set[g.Stateid.Other] = true
	}
	return set
}

// RecallFile takes the layouts of a file back, of one client or with 0 of all,
// and waits until they are back or revoked, or ctx ends: the recall goes on
// then. It returns how many there were.
func (o *Ops) RecallFile(ctx context.Context, file uint64, client nfs4.ClientID) (int, error) {
	o.mu.Lock()
	before := others(slices.DeleteFunc(o.State.Layouts(file, 0), func(g state.Grant) bool { return client != 0 && g.Client != client }))
	o.mu.Unlock()
	if _, s := o.onFile(ctx, file, state.RecallReq{File: file, Client: client}); s != nfs4.OK {
		return 0, s
	}
	return len(before), o.awaitRecalls(ctx, func() (left int) {
		for _, g := range o.State.Layouts(file, 0) {
			if before[g.Stateid.Other] && !g.Deadline.IsZero() {
				left++
			}
		}
		return left
	})
}

// RecallAll takes back every layout of some clients, with kind LayoutReturnFSID
// or LayoutReturnAll, and waits like RecallFile.
func (o *Ops) RecallAll(ctx context.Context, clients []nfs4.ClientID, kind uint32) (n int, err error) {
	o.mu.Lock()
	for _, id := range clients {
		n += o.State.CountsOf(id).Layouts
	}
	o.mu.Unlock()
	for _, id := range clients {
		o.beginAll(id, kind, false)
	}
	return n, o.awaitRecalls(ctx, func() (left int) {
		for _, id := range clients {
			if _, _, ok := o.State.RecallingAll(id); ok {
				left += max(o.State.CountsOf(id).Layouts, 1)
			}
		}
		return left
	})
}

// awaitRecalls waits until left, which is called with o.mu held, returns 0.
func (o *Ops) awaitRecalls(ctx context.Context, left func() int) error {
	for {
		o.mu.Lock()
		n, changed := left(), o.changed
		o.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d layouts are not back yet, the recall goes on: %w", n, ctx.Err())
		}
	}
}

// beginAll begins to take everything back from a client.
func (o *Ops) beginAll(id nfs4.ClientID, kind uint32, changed bool) {
	v := o.decide(state.RecallReq{Client: id, Changed: changed})
	if v.Change.IsZero() || o.apply(v.Change) != nfs4.OK {
		return // it has nothing, is asked already, or goes
	}
	o.recall(recalled{recallKey: recallKey{client: id}, kind: kind, changed: changed})
}

// recallAll asks a client for everything it holds until that is given up or
// revoked. The state says when the callback may be sent.
func (o *Ops) recallAll(ctx context.Context, r recalled) {
	answered := false
	for {
		o.mu.Lock()
		deadline, sent, ok := o.State.RecallingAll(r.client)
		changed, now := o.changed, o.Now()
		if sent && !answered {
			r.given = o.State.LayoutsOf(r.client)
		}
		o.mu.Unlock()
		switch {
		case !ok || ctx.Err() != nil:
			return
		case !now.Before(deadline):
			o.revokeAll(ctx, r.client)
			return
		case !sent:
			if v := o.decide(state.RecallReq{Client: r.client}); len(v.Effects.Recall) > 0 {
				_ = o.apply(v.Change) // if the client goes, so does the recall
				continue
			}
		case !answered:
			answer := o.sendAll(ctx, &r)
			_ = o.apply(o.decide(state.RecallDoneReq{Client: r.client, Answer: answer}).Change)
			if answered = answer == nfs4.OK; !answered && answer != nfs4.ErrNoMatchingLayout {
				o.pause(ctx)
			}
			continue
		}
		timer := time.NewTimer(deadline.Sub(now))
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// sendAll sends CB_LAYOUTRECALL for everything and returns its status; a failure
// to send is NFS4ERR_DELAY.
func (o *Ops) sendAll(ctx context.Context, r *recalled) nfs4.Status {
	a := &nfs4.CBLayoutRecallArgs{
		Type: o.Driver.Type(), IOMode: nfs4.IOModeAny, Changed: r.changed,
		Recall: nfs4.LayoutRecall{Kind: nfs4.LayoutReturnFSID, FSID: o.Volume.FSID()},
	}
	if r.kind == nfs4.LayoutReturnAll {
		a.Recall = nfs4.LayoutRecall{Kind: nfs4.LayoutReturnAll}
	}
	return o.call(ctx, r, nfs4.CBLayoutRecall, a)
}

// revokeAll fences what is left of a recall of everything, and ends that.
func (o *Ops) revokeAll(ctx context.Context, id nfs4.ClientID) {
	for first := true; ctx.Err() == nil; first = false {
		v := o.decide(state.RecallDoneReq{Client: id, Revoke: true})
		if len(v.Effects.Fence) == 0 {
			_ = o.apply(v.Change) // false: it is over
			return
		}
		if first {
			o.ignored(id) // one recall, of however many layouts
		}
		var wg sync.WaitGroup
		free := make(chan struct{}, revokeAtOnce)
		for _, g := range v.Effects.Fence {
			free <- struct{}{}
			wg.Go(func() {
				r := ofLayout(g)
				_, s := o.report(ctx, &r, state.RecallDoneReq{File: g.File, Client: id, Stateid: g.Stateid, Revoke: true})
				if s == nfs4.ErrDelay {
					o.pause(ctx)
				}
				<-free
			})
		}
		wg.Wait()
	}
}
