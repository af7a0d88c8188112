package wire_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// The two clients of TestPairs do one act each, at the same time, to the same
// file. What comes of it has to be what comes of doing one after the other: the
// statuses, which of them lost a layout, the names that are left and the size.

// act is what one client does.
type act struct {
	name string
	open bool // it has the file open first, for reading and writing
	do   func(s *side) nfs4.Status
}

// side is one client in one round.
type side struct {
	p     *peer
	dir   nfs4.FH
	fh    nfs4.FH
	name  string // the file's
	to    string // what this client would call it
	id    nfs4.Stateid
	opens []nfs4.Stateid
	plan  *plan
}

// opening is OPEN by name, without a wish for a delegation.
func opening(access, deny uint32, cut bool) func(*side) nfs4.Status {
	return func(s *side) nfs4.Status {
		a := openArgs("pairs", s.name, access|nfs4.WantNoDeleg)
		a.ShareDeny = deny
		if cut { // does not make the file: there is nothing to set but the size
			creating(a, nfs4.CreateHow{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}})
		}
		var r nfs4.OpenRes
		st := s.settle(putFH(s.dir), openOp(a, &r))
		if st == nfs4.OK {
			s.opens = append(s.opens, r.Stateid)
		}
		return st
	}
}

func getting(m nfs4.IOMode) func(*side) nfs4.Status {
	return func(s *side) nfs4.Status {
		pl := &plan{o: &open{p: s.p, fh: s.fh, id: s.id}}
		st := s.settle(putFH(s.fh), layoutGetOp(layoutGetArgs(s.id, m), &pl.get))
		if st == nfs4.OK {
			s.plan = pl
		}
		return st
	}
}

// cutTo is how long SETATTR makes the file, pairSize how long it is before.
const cutTo, pairSize = 10, 100

var acts = []act{
	{"open", false, opening(nfs4.ShareAccessRead, nfs4.ShareDenyNone, false)},
	{"open to write", false, opening(nfs4.ShareAccessWrite, nfs4.ShareDenyNone, false)},
	{"open, deny write", false, opening(nfs4.ShareAccessRead, nfs4.ShareDenyWrite, false)},
	{"open, deny both", false, opening(nfs4.ShareAccessBoth, nfs4.ShareDenyBoth, false)},
	{"open and cut", false, opening(nfs4.ShareAccessBoth, nfs4.ShareDenyNone, true)},
	{"lock", true, func(s *side) nfs4.Status {
		var r nfs4.LockRes
		return s.settle(putFH(s.fh), lockOp(newLock(&open{id: s.id}, "l", nfs4.LockWrite, 0, 10), &r))
	}},
	{"layoutget to read", true, getting(nfs4.IOModeRead)},
	{"layoutget to write", true, getting(nfs4.IOModeRW)},
	{"setattr size", false, func(s *side) nfs4.Status {
		return s.settle(putFH(s.fh), resize(nfs4.StateidAnonymous(), cutTo))
	}},
	{"remove", false, func(s *side) nfs4.Status { return s.settle(putFH(s.dir), remove(s.name)) }},
	{"rename", false, func(s *side) nfs4.Status { return s.settle(putFH(s.dir), saveFH(), rename(s.name, s.to)) }},
}

// settle runs a compound until the server does not say to come again.
func (s *side) settle(ops ...client.Op) nfs4.Status {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		switch st := s.p.try(ops...); st {
		case nfs4.ErrDelay, nfs4.ErrGrace, nfs4.ErrLayoutTryLater, nfs4.ErrRecallConflict, nfs4.ErrReturnConflict:
			if time.Now().After(end) {
				s.p.t.Errorf("%v: %v for ever", names(ops), st)
				return st
			}
		default:
			return st
		}
	}
}

// pairs is what the rounds of one act of the first client share.
type pairs struct {
	t          *testing.T
	c          *cluster
	maker      *peer
	a, b       *peer
	dir        nfs4.FH
	rounds     int
	rng        *rand.Rand
	fore, back *atomic.Int64 // rounds that ended as if one or the other was first
}

// pairRounds is how often two acts are done at once.
const pairRounds = 6

// TestPairs does each act of one client beside each of another.
func TestPairs(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	var fore, back atomic.Int64
	t.Run("acts", func(t *testing.T) {
		for i, x := range acts {
			t.Run(x.name, func(t *testing.T) {
				t.Parallel()
				ps := &pairs{t: t, c: c, maker: c.newPeer(t, "maker"), a: c.newPeer(t, "a"), b: c.newPeer(t, "b"),
					rng: rand.New(rand.NewPCG(uint64(i), 11)), fore: &fore, back: &back}
				ps.dir = ps.maker.dir()
				for _, y := range acts {
					ps.pair(x, y)
				}
			})
		}
	})
	t.Logf("%d rounds went one way, %d the other", fore.Load(), back.Load())
	if fore.Load() == 0 || back.Load() == 0 {
		t.Error("the clients did not race")
	}
}

// pair learns what two acts lead to one after the other, and then does both at
// once.
func (ps *pairs) pair(x, y act) {
	one := ps.round(x, y, func(a, b func()) { a(); b() })
	two := ps.round(x, y, func(a, b func()) { b(); a() })
	// Who cuts takes the layout that is out, and not one that comes later.
	gets, cuts := strings.HasPrefix(x.name, "layoutget"), y.name == "setattr size" || y.name == "open and cut"
	if gets && cuts && (!strings.Contains(one, "recalled true false") || !strings.Contains(two, "recalled false false")) {
		ps.t.Errorf("%s, then %s: %s; the other way round: %s", x.name, y.name, one, two)
	}
	for range pairRounds {
		late := time.Duration(ps.rng.IntN(1500)) * time.Microsecond
		aLate := ps.rng.IntN(2) == 0
		got := ps.round(x, y, func(a, b func()) {
			var wg sync.WaitGroup
			start := make(chan struct{})
			wg.Go(func() {
				<-start
				if aLate {
					time.Sleep(late) // where they meet is different each time
				}
				a()
			})
			wg.Go(func() {
				<-start
				if !aLate {
					time.Sleep(late)
				}
				b()
			})
			close(start)
			wg.Wait()
		})
		switch {
		case exclusive(x, y) && strings.Count(got, nfs4.OK.String()) != 1:
			ps.t.Errorf("%s beside %s: %s", x.name, y.name, got)
		case got != one && got != two:
			ps.t.Errorf("%s beside %s: %s\n  first the one: %s\nfirst the other: %s", x.name, y.name, got, one, two)
		case one != two && got == one:
			ps.fore.Add(1)
		case one != two:
			ps.back.Add(1)
		}
	}
}

// exclusive says whether one of two acts has to fail, whatever comes first.
func exclusive(x, y act) bool {
	pair := []string{x.name, y.name}
	slices.Sort(pair)
	switch pair[0] + " / " + pair[1] {
	case "lock / lock", "remove / remove", "rename / rename", "remove / rename",
		"open, deny both / open, deny both", "open / open, deny both", "open to write / open, deny both",
		"open to write / open, deny write", "open and cut / open, deny both", "open and cut / open, deny write",
		"open, deny both / open, deny write", "lock / open, deny both":
		return true
	}
	return false
}

// round makes a file, has two clients do what they do in some order, and says
// what came of it.
func (ps *pairs) round(x, y act, run func(a, b func())) string {
	ps.t.Helper()
	ps.rounds++
	name := fmt.Sprintf("f%d", ps.rounds)
	made := ps.maker.openWith(ps.dir, creating(openArgs("maker", name, nfs4.ShareAccessBoth|nfs4.WantNoDeleg), nfs4.CreateHow{Attrs: mode(0o666)}))
	data := pattern(byte(ps.rounds), pairSize)
	made.write(0, data, nfs4.Unstable)
	made.close()
	a, b := ps.side(ps.a, x, made, name, "a"), ps.side(ps.b, y, made, name, "b")
	var sa, sb nfs4.Status
	run(func() { sa = x.do(a) }, func() { sb = y.do(b) })
	out := fmt.Sprintf("%v %v, recalled %v %v, %s", sa, sb, a.lost(), b.lost(), ps.left(made, name, a, b))
	ps.holds(a)
	ps.holds(b)
	a.end()
	b.end()
	ps.cut(out, made.fh, data, name, a, b)
	for _, n := range []string{name, a.to, b.to} {
		ps.maker.try(putFH(ps.dir), remove(n))
	}
	return out
}

// side makes one client ready.
func (ps *pairs) side(p *peer, x act, made *open, name, who string) *side {
	for len(p.recalls) > 0 {
		<-p.recalls
	}
	s := &side{p: p, dir: ps.dir, fh: made.fh, name: name, to: name + who}
	if x.open {
		s.id = p.openWith(ps.dir, openArgs("first", name, nfs4.ShareAccessBoth|nfs4.WantNoDeleg)).id
		s.opens = append(s.opens, s.id)
	}
	return s
}

// lost says whether the client was asked for its layout, and gave it up.
func (s *side) lost() bool { return len(s.p.recalls) > 0 }

// left says which names the file has and how long it is.
func (ps *pairs) left(made *open, name string, a, b *side) string {
	found := map[string]bool{}
	for _, n := range []string{name, a.to, b.to} {
		if ps.maker.try(putFH(ps.dir), lookup(n)) == nfs4.OK {
			found[strings.TrimPrefix(n, name)] = true
		}
	}
	var r nfs4.GetattrRes
	size := ""
	eventually(ps.t, "size", func() error {
		st := ps.maker.try(putFH(made.fh), getattr(&r, nfs4.AttrSize))
		if size = fmt.Sprint(r.ObjAttributes.Size); st == nfs4.ErrDelay {
			return st
		} else if st != nfs4.OK {
			size = st.String()
		}
		return nil
	})
	return fmt.Sprintf("names %q, size %s", slices.Sorted(maps.Keys(found)), size)
}

// holds makes sure that a layout which nobody asked back is good: it is from
// after whatever was done to the file.
func (ps *pairs) holds(s *side) {
	if s.plan == nil || s.lost() {
		return
	}
	s.plan.read()
	if s.plan.get.Layouts[0].IOMode != nfs4.IOModeRW {
		if _, err := s.plan.tryRead(0, 1, 0); err != nil {
			ps.t.Errorf("read with a layout that nobody recalled: %v", err)
		}
		return
	}
	if err := s.plan.tryWrite(1<<20, []byte("end"), nfs4.Unstable); err != nil {
		ps.t.Errorf("write with a layout that nobody recalled: %v", err)
	}
}

// end gives back all that the client has.
func (s *side) end() {
	s.settle(putFH(s.dir), bulkReturnOp(nfs4.LayoutReturnFSID, nfs4.IOModeAny))
	for _, id := range s.opens {
		s.settle(putFH(s.fh), closeOp(nfs4.Stateid{Other: id.Other}))
	}
}

// cut makes sure that of a file that was cut nothing comes back when it grows
// again.
func (ps *pairs) cut(out string, fh nfs4.FH, data []byte, name string, a, b *side) {
	var or nfs4.OpenRes
	for _, n := range []string{name, a.to, b.to} {
		var found nfs4.GetFHRes
		if ps.maker.try(putFH(ps.dir), openOp(openArgs("look", n, nfs4.ShareAccessBoth|nfs4.WantNoDeleg), &or), getFH(&found)) != nfs4.OK {
			continue
		}
		if !bytes.Equal(found.Object, fh) { // another file, made by an act that came after the removal
			ps.maker.must(putFH(found.Object), closeOp(or.Stateid))
			continue
		}
		o := &open{p: ps.maker, fh: fh, id: or.Stateid}
		ps.maker.must(putFH(fh), resize(o.id, pairSize))
		got := o.read(0, pairSize)
		want := slices.Clone(data)
		for _, size := range []int{0, cutTo} {
			if strings.HasSuffix(out, fmt.Sprintf("size %d", size)) {
				clear(want[size:])
				if got[0] == 0 {
					clear(want) // it was emptied before that
				}
			}
		}
		sameBytes(ps.t, out, got, want)
		o.close()
	}
}
