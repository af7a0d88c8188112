package wire_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"manifold/mds/admin"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// TestCutWhileWriting: one client writes by its layout all the time, another
// cuts the file. When that is answered nothing is there past the end, and nothing
// comes: from a client that stops when it is asked, and from one that does not.
func TestCutWhileWriting(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"setattr", "open"} {
		t.Run(how+", returned", func(t *testing.T) {
			t.Parallel()
			c := shared(t)
			p, q := c.newPeer(t, "writer"), c.newPeer(t, "cutter")
			dir := p.dir()
			for i := range 8 {
				cutWhileWriting(t, p, q, dir, entryName(i), how, false)
			}
		})
		t.Run(how+", never returned", func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 2)
			p, q := c.newPeer(t, "writer"), c.newPeer(t, "cutter")
			cutWhileWriting(t, p, q, p.dir(), "f", how, true)
		})
	}
}

func cutWhileWriting(t *testing.T, p, q *peer, dir nfs4.FH, name, how string, rogue bool) {
	t.Helper()
	const size = 1 << 20
	o := p.create(dir, name)
	pl := o.layout(nfs4.IOModeRW)
	mine := q.open(dir, name, nfs4.ShareAccessBoth|nfs4.WantNoDeleg)
	data := pattern(byte(len(how)), size)
	var stop, wrote atomic.Bool
	ended := make(chan error, 1)
	writing := make(chan struct{})
	recalls := make(chan nfs4.Stateid, 100)
	p.recalled(func(a *nfs4.CBLayoutRecallArgs) nfs4.Status {
		stop.Store(!rogue)
		recalls <- a.Recall.Stateid
		return nfs4.OK
	})
	go func() {
		for i := 0; !stop.Load(); i++ {
			off := uint64(i*70_001) % (size - 50_000)
			if err := pl.tryWrite(off, data[off:off+50_000], nfs4.Unstable); err != nil {
				ended <- err
				return
			}
			if !wrote.Swap(true) {
				close(writing)
			}
		}
		ended <- nil
	}()
	<-writing
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		if how == "open" {
			zero := nfs4.CreateHow{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}}
			q.openWith(dir, creating(openArgs("cutter", name, nfs4.ShareAccessBoth|nfs4.WantNoDeleg), zero))
		} else {
			q.must(putFH(o.fh), resize(mine.id, 0))
		}
	}()
	var id nfs4.Stateid
	select {
	case id = <-recalls:
	case <-cut:
		stop.Store(true)
		t.Fatal("cut, and the writer was not asked for its layout")
	}
	if rogue {
		<-cut
	} else {
		if err := <-ended; err != nil {
			t.Errorf("write while nobody has refused it: %v", err)
		}
		p.must(putFH(o.fh), layoutReturnOp(id, nfs4.IOModeAny, &nfs4.LayoutReturnRes{}))
		<-cut
	}
	q.must(putFH(o.fh), resize(nfs4.StateidAnonymous(), size))
	sameBytes(t, "cut and grown", mine.read(0, size), make([]byte, size))
	if rogue {
		if err := <-ended; !refused(err) {
			t.Errorf("a write after the cut: %v", err)
		}
	}
	p.recalled(nil)
}

// raceLog is what one client was told of the layout of one file.
type raceLog struct {
	mu     sync.Mutex
	known  []nfs4.Stateid
	events map[[12]byte]map[uint32]raceEvent
	errs   []string
	n      map[string]int
}

// raceEvent is what made a layout stateid what it is.
type raceEvent struct {
	what    string // get, return or recall
	mode    nfs4.IOMode
	present bool
}

func (l *raceLog) note(id nfs4.Stateid, e raceEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.what != "recall" { // it may be sent several times
		l.n[e.what]++
	}
	if l.events[id.Other] == nil {
		l.events[id.Other] = map[uint32]raceEvent{}
	}
	if was, ok := l.events[id.Other][id.Seqid]; ok && (was != e || e.what != "recall") {
		l.errs = append(l.errs, fmt.Sprintf("%v is of %+v and of %+v", id, was, e))
	}
	l.events[id.Other][id.Seqid] = e
	l.known = append(l.known, id)
}

// some returns a stateid that the client was told, more likely a late one.
func (l *raceLog) some(r *rand.Rand) (nfs4.Stateid, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) == 0 {
		return nfs4.Stateid{}, false
	}
	return l.known[len(l.known)-1-r.IntN(min(len(l.known), 6))], true
}

// last returns the newest stateids.
func (l *raceLog) last() []nfs4.Stateid {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.known[max(len(l.known)-6, 0):])
}

// judge goes through what happened in the order of the seqids: what is said to
// be left is what is left. A seqid that the client was not told is that of a
// recall which was over before it was sent.
func (l *raceLog) judge(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.errs {
		t.Error(e)
	}
	for other, all := range l.events {
		held, recalled := nfs4.IOMode(0), false
		for seq := range slices.Max(slices.Collect(maps.Keys(all))) {
			e, told := all[seq+1]
			switch e.what {
			case "get":
				held, recalled = held|e.mode, false
			case "recall", "":
				if l.n["recall"]++; !told {
					l.n["not sent"]++
				}
				recalled = true
			case "return":
				held &^= e.mode
				if e.present && held == 0 && !recalled {
					t.Errorf("%x: nothing is left after seqid %d, lrs_present", other, seq)
				}
			}
		}
	}
	t.Logf("%d layout stateids, %v", len(l.events), l.n)
}

// TestLayoutRaces: one client gets and returns the layout of a file from many
// threads, with stateids that are some steps behind, while it opens and closes
// the file and its layout is recalled.
func TestLayoutRaces(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	p := c.newPeer(t, "a")
	var root nfs4.GetFHRes
	p.must(putRoot(), getFH(&root))
	o := p.create(root.Object, "f")
	l := &raceLog{events: map[[12]byte]map[uint32]raceEvent{}, n: map[string]int{}}
	var asked atomic.Uint32
	p.recalled(func(a *nfs4.CBLayoutRecallArgs) nfs4.Status {
		id := a.Recall.Stateid
		l.note(id, raceEvent{what: "recall"})
		switch asked.Add(1) % 3 {
		case 0:
			return nfs4.ErrNoMatchingLayout
		case 1:
			return nfs4.ErrDelay
		}
		return nfs4.OK // somebody will return it
	})
	var wg sync.WaitGroup
	var left atomic.Int32
	left.Store(6)
	for i := range 6 {
		r := rand.New(rand.NewPCG(uint64(i), 17))
		wg.Go(func() {
			defer left.Add(-1)
			for range 400 {
				l.step(p, o, root.Object, r, fmt.Sprint("owner", i))
			}
		})
	}
	wg.Go(func() {
		for left.Load() > 0 {
			if _, err := c.mds.RecallLayouts(t.Context(), admin.Recall{Path: "/f"}); err != nil {
				t.Errorf("recall: %v", err)
			}
			time.Sleep(time.Millisecond) // so that there is something to recall
		}
	})
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for returned := false; !returned; {
		select {
		case <-done:
			returned = true
		case <-time.After(20 * time.Millisecond): // what was promised to a recall
			for _, id := range l.last() {
				l.giveBack(p, o, id, nfs4.IOModeAny)
			}
		}
	}
	p.must(bulkReturnOp(nfs4.LayoutReturnAll, nfs4.IOModeAny))
	if err := layoutsOf(c, p); err != nil {
		t.Error(err)
	}
	l.judge(t)
	for _, what := range []string{"get", "return", "recall", "end"} {
		if l.n[what] == 0 {
			t.Errorf("no %s", what)
		}
	}
}

// step does one thing.
func (l *raceLog) step(p *peer, o *open, dir nfs4.FH, r *rand.Rand, owner string) {
	id, ok := l.some(r)
	mode := nfs4.IOMode(r.IntN(3) + 1)
	switch n := r.IntN(10); {
	case n < 5:
		if !ok || r.IntN(3) == 0 {
			id = nfs4.Stateid{Other: o.id.Other}
		}
		mode = nfs4.IOMode(r.IntN(2) + 1)
		var get nfs4.LayoutGetRes
		switch s := p.try(putFH(o.fh), layoutGetOp(layoutGetArgs(id, mode), &get)); s {
		case nfs4.OK:
			l.note(get.Stateid, raceEvent{what: "get", mode: mode})
		case nfs4.ErrBadStateID, nfs4.ErrRecallConflict, nfs4.ErrReturnConflict, nfs4.ErrLayoutTryLater:
		default:
			p.t.Errorf("LAYOUTGET: %v", s)
		}
	case n < 9:
		if ok {
			l.giveBack(p, o, id, mode)
		}
	default:
		var or nfs4.OpenRes
		if s := p.try(putFH(dir), openOp(openArgs(owner, "f", nfs4.ShareAccessRead|nfs4.WantNoDeleg), &or)); s != nfs4.OK {
			p.t.Errorf("OPEN: %v", s)
		} else if s := p.try(putFH(o.fh), closeOp(or.Stateid)); s != nfs4.OK {
			p.t.Errorf("CLOSE: %v", s)
		}
	}
}

func (l *raceLog) giveBack(p *peer, o *open, id nfs4.Stateid, mode nfs4.IOMode) {
	var ret nfs4.LayoutReturnRes
	switch s := p.try(putFH(o.fh), layoutReturnOp(id, mode, &ret)); {
	case s == nfs4.OK && ret.Present:
		l.note(ret.Stateid, raceEvent{what: "return", mode: mode, present: true})
	case s == nfs4.OK:
		l.mu.Lock()
		l.n["end"]++
		l.mu.Unlock()
	case s != nfs4.ErrBadStateID:
		p.t.Errorf("LAYOUTRETURN: %v", s)
	}
}

// TestLayoutReplays: a LAYOUTGET, LAYOUTRETURN, LAYOUTCOMMIT or CLOSE whose reply
// was lost is answered again the same way and done once; seqids that come out of
// order are what they are.
func TestLayoutReplays(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	owner := fmt.Sprint(t.Name(), time.Now().UnixNano())
	r := newRaw(t, c.cfg.Listen, owner, 1)
	r.want(nfs4.OK, reclaimComplete())
	var or nfs4.OpenRes
	var fh nfs4.GetFHRes
	a := creating(openArgs("o", "f", nfs4.ShareAccessBoth|nfs4.WantNoDeleg), nfs4.CreateHow{Attrs: mode(0o666)})
	r.want(nfs4.OK, putFH(dir), openOp(a, &or), getFH(&fh))
	twice := func(want nfs4.Status, op func() client.Op) {
		t.Helper()
		r.seq++
		for try := range 3 {
			on := r
			if try == 2 { // and over another connection
				on = dialRaw(t, c.cfg.Listen, owner, 1)
				on.sess = r.sess
			}
			if _, s := on.send(r.sequence(0, r.seq, true), putFH(fh.Object), op()); s != want {
				t.Errorf("try %d of %v: %v, want %v", try, op().Num, s, want)
			}
		}
	}
	var got []nfs4.Stateid
	get := func(id nfs4.Stateid) func() client.Op {
		return func() client.Op { return layoutGetOp(layoutGetArgs(id, nfs4.IOModeRW), &nfs4.LayoutGetRes{}) }
	}
	// The stateid says how often it was done.
	probe := func(want uint32) {
		t.Helper()
		var res nfs4.LayoutGetRes
		id := or.Stateid
		r.want(nfs4.OK, putFH(fh.Object), layoutGetOp(layoutGetArgs(id, nfs4.IOModeRead), &res))
		if res.Stateid.Seqid != want {
			t.Errorf("seqid %d, want %d", res.Stateid.Seqid, want)
		}
		got = append(got, res.Stateid)
	}
	twice(nfs4.OK, get(or.Stateid))
	probe(2)
	twice(nfs4.OK, get(got[0]))
	twice(nfs4.OK, get(nfs4.Stateid{Seqid: 1, Other: got[0].Other})) // two behind
	twice(nfs4.ErrBadStateID, get(nfs4.Stateid{Seqid: 5, Other: got[0].Other}))
	twice(nfs4.ErrBadStateID, get(nfs4.Stateid{Other: got[0].Other}))
	probe(5)
	twice(nfs4.OK, func() client.Op {
		return rangeReturnOp(got[0], nfs4.IOModeAny, 0, 4096, &nfs4.LayoutReturnRes{})
	})
	twice(nfs4.OK, func() client.Op { return layoutCommitOp(got[0], 100, &nfs4.LayoutCommitRes{}) })
	probe(7)
	twice(nfs4.OK, func() client.Op { return layoutReturnOp(got[0], nfs4.IOModeAny, &nfs4.LayoutReturnRes{}) })
	twice(nfs4.ErrBadStateID, get(got[2]))
	probe(1)
	twice(nfs4.OK, func() client.Op { return bulkReturnOp(nfs4.LayoutReturnAll, nfs4.IOModeAny) })
	twice(nfs4.ErrBadStateID, get(got[3]))
	twice(nfs4.OK, func() client.Op { return closeOp(or.Stateid) })
	twice(nfs4.ErrBadStateID, get(or.Stateid))
}
