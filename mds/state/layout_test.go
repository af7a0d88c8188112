package state

import (
	"math/rand/v2"
	"testing"
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// seqWatch follows the layout stateid of one client and file: while the layout
// is out, other stays, and seqid is one higher each time that a client is told.
type seqWatch struct {
	t    *testing.T
	last nfs4.Stateid
	all  map[[12]byte]bool
}

// told says that the client was given sid.
func (w *seqWatch) told(sid nfs4.Stateid) {
	w.t.Helper()
	switch {
	case w.last == nfs4.Stateid{}:
		if sid.Seqid != 1 || w.all[sid.Other] {
			w.t.Fatalf("a new layout has %v, used before: %v", sid, w.all[sid.Other])
		}
		w.all[sid.Other] = true
	case sid.Other != w.last.Other || sid.Seqid != w.last.Seqid+1:
		w.t.Fatalf("%v follows %v", sid, w.last)
	}
	w.last = sid
}

func (w *seqWatch) gone() { w.last = nfs4.Stateid{} }

// TestLayoutSeqid runs random layout operations and recalls with random answers.
func TestLayoutSeqid(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		c := newCore(t, 1)
		open := must(t, c, OpenReq{Client: 1, File: 1, Access: 3}).Stateid
		w := &seqWatch{t: t, all: map[[12]byte]bool{}}
		now := time.Unix(0, 0)
		for range 200 {
			now = now.Add(time.Duration(rng.IntN(20)) * time.Second)
			layoutStep(c, w, rng, open, now)
			checkInvariants(t, c)
		}
	}
}

func layoutStep(c *Core, w *seqWatch, rng *rand.Rand, open nfs4.Stateid, now time.Time) {
	sid := w.last
	if sid.Seqid > 1 && rng.IntN(3) == 0 {
		sid.Seqid-- // an earlier one is as good
	}
	had := known(c)
	mode := nfs4.IOMode(rng.IntN(3) + 1)
	switch rng.IntN(5) {
	case 0, 1:
		if rng.IntN(2) == 0 || !had {
			sid = open
		}
		v := c.Decide(now, LayoutGetReq{Client: 1, File: 1, Stateid: sid, IOMode: mode, DS: []layout.DSID{layout.DSID(rng.IntN(3))}})
		if v.Status == nfs4.OK {
			w.told(v.Stateid)
		} else if !v.Change.IsZero() {
			w.t.Fatal("a change along with an error")
		}
		c.Apply(v.Change)
	case 2:
		span := layout.WholeFile()
		if rng.IntN(3) == 0 {
			span = layout.Range{Offset: rng.Uint64N(3), Length: 1 + rng.Uint64N(3)}
		}
		v := c.Decide(now, LayoutReturnReq{Client: 1, File: 1, Stateid: sid, IOMode: mode, Range: span})
		c.Apply(v.Change)
		switch {
		case (v.Status == nfs4.OK) != had:
			w.t.Fatalf("LAYOUTRETURN: %v, layout there: %v", v.Status, had)
		case v.Present != known(c):
			w.t.Fatalf("lrs_present %v", v.Present)
		case v.Present:
			w.told(v.Stateid)
		default:
			w.gone()
		}
	case 3:
		v := c.Decide(now, RecallReq{File: 1})
		for _, g := range v.Effects.Recall {
			w.told(g.Stateid)
		}
		c.Apply(v.Change)
	case 4:
		recallAnswer(c, w, rng, now)
	}
}

// known says whether the layout stateid of client 1 and file 1 is good.
func known(c *Core) bool {
	st := c.stake(1, 1)
	return st != nil && st.grant != nil
}

func recallAnswer(c *Core, w *seqWatch, rng *rand.Rand, now time.Time) {
	answers := []nfs4.Status{nfs4.OK, nfs4.ErrNoMatchingLayout, nfs4.ErrDelay, nfs4.ErrOldStateID, nfs4.ErrBadStateID}
	before := known(c)
	v := c.Decide(now, RecallDoneReq{File: 1, Client: 1, Stateid: w.last, Answer: answers[rng.IntN(len(answers))]})
	for _, g := range v.Effects.Recall {
		if g.Stateid != w.last {
			w.told(g.Stateid)
		}
	}
	c.Apply(v.Change)
	after := c.Layouts(1, 0)
	if before && !known(c) {
		w.gone()
	}
	if len(after) > 0 && !after[0].Deadline.IsZero() && !now.Before(after[0].Deadline) {
		w.t.Fatalf("a recall did not end: %+v at %v", after[0], now)
	}
}

// TestLayoutCommitStateids gives back every stateid that a client ever got.
func TestLayoutCommitStateids(t *testing.T) {
	c := newCore(t, 2)
	open := must(t, c, OpenReq{Client: 1, File: 1, Access: 3}).Stateid
	var all []nfs4.Stateid
	for range 5 {
		v := must(t, c, LayoutGetReq{Client: 1, File: 1, Stateid: open, IOMode: nfs4.IOModeRW})
		all = append(all, v.Stateid)
		v = must(t, c, LayoutGetReq{Client: 1, File: 1, Stateid: open, IOMode: nfs4.IOModeRead})
		all = append(all, v.Stateid)
		must(t, c, LayoutReturnReq{Client: 1, File: 1, Stateid: v.Stateid, IOMode: nfs4.IOModeAny, Range: layout.WholeFile()})
	}
	must(t, c, CloseReq{1, 1, open})
	for _, sid := range all {
		must(t, c, LayoutCommitReq{Client: 1, File: 1, Stateid: sid})
		if v := c.Decide(time.Unix(0, 0), LayoutCommitReq{Client: 2, File: 1, Stateid: sid}); v.Status != nfs4.ErrBadStateID {
			t.Errorf("another client's: %v", v.Status)
		}
	}
	never := all[0]
	never.Other[11] += 100
	if v := c.Decide(time.Unix(0, 0), LayoutCommitReq{Client: 1, File: 1, Stateid: never}); v.Status != nfs4.ErrBadStateID {
		t.Errorf("never given: %v", v.Status)
	}
}

// TestRevokedNotesAreBounded revokes more layouts than a client may have.
func TestRevokedNotesAreBounded(t *testing.T) {
	cfg := testConfig()
	cfg.PerClient.Layouts = 3
	c, _ := New(cfg, time.Unix(0, 0), nil)
	c.AddClient(time.Unix(0, 0), 1, "x")
	c.ReclaimComplete(1)
	var last nfs4.Stateid
	for file := uint64(1); file <= 9; file++ {
		open := must(t, c, OpenReq{Client: 1, File: file, Access: 3}).Stateid
		last = must(t, c, LayoutGetReq{Client: 1, File: file, Stateid: open, IOMode: nfs4.IOModeRW}).Stateid
		must(t, c, RecallReq{File: file})
		v := must(t, c, RecallDoneReq{File: file, Client: 1, Stateid: last, Revoke: true})
		if len(v.Effects.Fence) != 1 {
			t.Fatalf("fence %+v", v.Effects)
		}
		checkInvariants(t, c)
	}
	if s := c.TestStateid(1, last); s != nfs4.ErrAdminRevoked {
		t.Errorf("the newest: %v", s)
	}
	if n := len(c.clients[1].revoked); n != 3 {
		t.Errorf("%d notes", n)
	}
}

// TestGrantsStayAsShown gets layouts on more data servers after one was shown.
func TestGrantsStayAsShown(t *testing.T) {
	c := newCore(t, 1)
	open := must(t, c, OpenReq{Client: 1, File: 1, Access: 3}).Stateid
	get := func(ds ...layout.DSID) {
		must(t, c, LayoutGetReq{Client: 1, File: 1, Stateid: open, IOMode: nfs4.IOModeRW, DS: ds})
	}
	get(1)
	old := c.Layouts(1, 0)[0]
	get(1, 2)
	get(1, 3)
	if len(old.DS) != 1 || old.DS[0] != 1 {
		t.Errorf("shown DS became %v", old.DS)
	}
	if got := c.LayoutsOf(1)[0].DS; len(got) != 3 {
		t.Errorf("DS %v, should be the union", got)
	}
}

// TestPartsOfLayouts returns random parts and compares what is held, byte by
// byte, with what should be. Byte 19 stands for it and all after it.
func TestPartsOfLayouts(t *testing.T) {
	const bytes = 20
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		c := newCore(t, 1)
		open := must(t, c, OpenReq{Client: 1, File: 1, Access: 3}).Stateid
		var held [2][bytes]bool
		var sid nfs4.Stateid
		for range 60 {
			mode := nfs4.IOMode(rng.IntN(3) + 1)
			if sid == (nfs4.Stateid{}) || rng.IntN(4) == 0 {
				mode = nfs4.IOMode(rng.IntN(2) + 1)
				sid = must(t, c, LayoutGetReq{Client: 1, File: 1, Stateid: open, IOMode: mode}).Stateid
				for i := range bytes {
					held[mode-1][i] = true
				}
			} else {
				r := layout.Range{Offset: rng.Uint64N(bytes), Length: layout.ToEnd}
				if rng.IntN(3) > 0 {
					r.Length = 1 + rng.Uint64N(bytes-r.Offset)
				}
				if r.End() == bytes {
					r.Length = layout.ToEnd
				}
				v := must(t, c, LayoutReturnReq{Client: 1, File: 1, Stateid: sid, IOMode: mode, Range: r})
				left := false
				for m := range held {
					for i := range uint64(bytes) {
						held[m][i] = held[m][i] && (mode&nfs4.IOMode(m+1) == 0 || i < r.Offset || i >= r.End())
						left = left || held[m][i]
					}
				}
				if v.Present != left {
					t.Fatalf("seed %d: lrs_present %v, held %v", seed, v.Present, held)
				}
				sid = v.Stateid
			}
			checkInvariants(t, c)
			checkHeld(t, c, seed, held[:])
		}
	}
}

// checkHeld compares what client 1 holds of file 1.
func checkHeld(t *testing.T, c *Core, seed uint64, held [][20]bool) {
	t.Helper()
	var g Grant
	if all := c.Layouts(1, 0); len(all) > 0 {
		g = all[0]
	}
	for m, have := range [][]layout.Range{g.Reads, g.Writes} {
		for i, want := range held[m] {
			in := false
			for _, r := range have {
				in = in || r.Contains(layout.Range{Offset: uint64(i), Length: 1})
			}
			if in != want {
				t.Fatalf("seed %d: iomode %d, byte %d: held %v, should be %v (%v)", seed, m+1, i, in, want, have)
			}
		}
	}
}

// TestPiecesAreBounded returns every other byte of a layout.
func TestPiecesAreBounded(t *testing.T) {
	c := newCore(t, 1)
	open := must(t, c, OpenReq{Client: 1, File: 1, Access: 3}).Stateid
	sid := must(t, c, LayoutGetReq{Client: 1, File: 1, Stateid: open, IOMode: nfs4.IOModeRW}).Stateid
	for i := range uint64(100) {
		sid = must(t, c, LayoutReturnReq{Client: 1, File: 1, Stateid: sid, IOMode: nfs4.IOModeRW, Range: layout.Range{Offset: 2 * i, Length: 1}}).Stateid
	}
	got := c.Layouts(1, 0)[0].Writes
	if len(got) != maxSpans || got[maxSpans-1] != (layout.Range{Offset: 2*maxSpans - 1, Length: layout.ToEnd}) {
		t.Errorf("%d pieces: %v", len(got), got)
	}
	// What needs no further piece is noted still.
	must(t, c, LayoutReturnReq{Client: 1, File: 1, Stateid: sid, IOMode: nfs4.IOModeRW, Range: layout.Range{Offset: 50, Length: layout.ToEnd}})
	if got := c.Layouts(1, 0)[0].Writes; got[maxSpans-1] != (layout.Range{Offset: 2*maxSpans - 1, Length: 50 - (2*maxSpans - 1)}) {
		t.Errorf("%v", got)
	}
}
