package state

import (
	"cmp"
	"slices"
	"testing"
)

// checkInvariants fails t if the parts of c contradict each other.
func checkInvariants(t *testing.T, c *Core) {
	t.Helper()
	var all Counts
	all.Clients = len(c.clients)
	for id, cl := range c.clients {
		if cl.id != id {
			t.Fatalf("client %d under %d", cl.id, id)
		}
		n := checkClient(t, c, cl)
		if n != cl.n {
			t.Fatalf("client %d counts %+v, has %+v", id, cl.n, n)
		}
		all.Opens += n.Opens
		all.Owners += n.Owners
		all.Locks += n.Locks
		all.Layouts += n.Layouts
		all.Delegs += n.Delegs
	}
	if all != c.n {
		t.Fatalf("counts %+v, has %+v", c.n, all)
	}
	waits := 0
	for f := range c.waited {
		waits += len(f.waits)
	}
	if c.opens.len() != all.Opens || c.owners.len()+waits != all.Owners || c.layouts.len() != all.Layouts || c.delegs.len() != all.Delegs {
		t.Fatalf("index %d %d %d %d, has %+v", c.opens.len(), c.owners.len(), c.layouts.len(), c.delegs.len(), all)
	}
	checkDelegs(t, c)
	waited := 0
	for id, f := range c.files.m {
		if f.id != id || f.stakes.len() == 0 {
			t.Fatalf("file %d under %d with %d stakes", f.id, id, f.stakes.len())
		}
		checkFile(t, f)
		if _, listed := c.waited[f]; listed {
			waited++
		} else if len(f.waits) > 0 {
			t.Fatalf("file %d has waits and is not listed", id)
		}
	}
	if waited != len(c.waited) {
		t.Fatal("waits on a file that is gone")
	}
	if len(c.bulks) > len(c.clients) {
		t.Fatalf("%d recalls of everything", len(c.bulks))
	}
	uses := 0
	for ds, gs := range c.onDS {
		if len(gs) == 0 {
			t.Fatalf("data server %d has an empty set", ds)
		}
		for g := range gs {
			uses++
			if c.layouts.get(g.num) != g || !slices.Contains(g.ds, ds) {
				t.Fatalf("data server %d lists a layout that is gone", ds)
			}
		}
	}
	for _, g := range c.layouts.m {
		uses -= len(g.ds)
	}
	if uses != 0 {
		t.Fatalf("%d uses of data servers too many", uses)
	}
	for g := range c.recalls {
		if c.layouts.get(g.num) != g || g.recall == nil {
			t.Fatal("a recall of a layout that is gone")
		}
	}
}

// checkDelegs looks at the sets of delegations, courtesy clients and files that
// cool down.
func checkDelegs(t *testing.T, c *Core) {
	t.Helper()
	recalled := 0
	for num, d := range c.delegs.m {
		st := d.stake
		if d.num != num || st.deleg != d || c.clients[st.client.id] != st.client || c.files.get(st.file.id) != st.file || d.sid.Seqid == 0 {
			t.Fatalf("delegation %+v is wrong", d.show())
		}
		if !d.due.IsZero() {
			recalled++
			if _, ok := c.recalled[d]; !ok {
				t.Fatal("recall of a delegation is not listed")
			}
		}
	}
	if recalled != len(c.recalled) {
		t.Fatalf("%d recalls of delegations listed, has %d", len(c.recalled), recalled)
	}
	lapsed := 0
	for _, cl := range c.clients {
		if !cl.lapsed.IsZero() {
			lapsed++
			if _, ok := c.courtesy[cl]; !ok || cl.going {
				t.Fatalf("client %d lapsed, listed: %v, going: %v", cl.id, ok, cl.going)
			}
		}
		if len(cl.lost) > max(c.cfg.PerClient.Delegs, 1) {
			t.Fatalf("%d notes of revoked delegations", len(cl.lost))
		}
	}
	if lapsed != len(c.courtesy) {
		t.Fatalf("%d courtesy clients listed, has %d", len(c.courtesy), lapsed)
	}
	if n := len(c.cooling.order); n > max(c.cfg.Total.Delegs, 1) || len(c.cooling.at) > n {
		t.Fatalf("%d files cool down, %d in order", len(c.cooling.at), n)
	}
}

// checkBarred fails t if a delegation and what it bars are out at once: a
// delegation to write with anything of another client, one to read with what
// writes or denies reading (RFC 8881 section 10.4).
func checkBarred(t *testing.T, f *file) {
	t.Helper()
	for id, st := range f.stakes.all() {
		d := st.deleg
		if d == nil {
			continue
		}
		for other, so := range f.stakes.all() {
			if other == id {
				continue
			}
			if so.deleg != nil && (d.write || so.deleg.write) {
				t.Fatalf("file %d: delegations of %d and %d conflict", f.id, id, other)
			}
			for _, o := range so.opens.all() {
				if d.write || o.access&2 != 0 || o.deny&1 != 0 {
					t.Fatalf("file %d: delegation of %d (write %v) and open %+v of %d", f.id, id, d.write, o.share, other)
				}
			}
		}
	}
}

func checkClient(t *testing.T, c *Core, cl *client) (n Counts) {
	t.Helper()
	for id, st := range cl.stakes.m {
		if st.client != cl || st.file.id != id || c.files.get(id) != st.file || st.file.stakes.get(cl.id) != st {
			t.Fatalf("stake of client %d in file %d is not linked", cl.id, id)
		}
		if st.opens.len() == 0 && st.grant == nil && st.deleg == nil {
			t.Fatalf("stake of client %d in file %d is empty", cl.id, id)
		}
		writers := 0
		for owner, o := range st.opens.all() {
			if o.owner != owner || o.stake != st || c.opens.get(o.num) != o || o.access == 0 || o.sid.Seqid == 0 {
				t.Fatalf("open %+v is wrong", o)
			}
			if _, union := o.within(o.seen); union != o.share {
				t.Fatalf("open has %+v, seen %b", o.share, o.seen)
			}
			n.Opens++
			for _, w := range st.file.waits {
				if w.open == o {
					n.Owners++
				}
			}
			writers += int(o.access >> 1 & 1)
			for name, lo := range o.owners.all() {
				if lo.owner != name || lo.open != o || c.owners.get(lo.num) != lo {
					t.Fatalf("lock-owner %+v is wrong", lo)
				}
				n.Owners++
				n.Locks += lo.ranges
			}
		}
		if st.deleg != nil {
			if c.delegs.get(st.deleg.num) != st.deleg {
				t.Fatalf("delegation %+v is not listed", st.deleg.show())
			}
			n.Delegs++
		}
		if writers != st.writers {
			t.Fatalf("%d writers, has %d", st.writers, writers)
		}
		if g := st.grant; g != nil {
			if g.stake != st || c.layouts.get(g.num) != g || !g.holds() && g.recall == nil || g.sid.Seqid == 0 {
				t.Fatalf("layout %+v is wrong", g)
			}
			if _, ok := c.recalls[g]; ok != (g.recall != nil) {
				t.Fatal("recall is not listed")
			}
			if g.recall != nil && (g.recall.bulk && cl.bulk == nil || g.recall.blocking && !g.holds()) || g.recall == nil && cl.bulk != nil {
				t.Fatalf("layout of client %d: %+v, recall %+v, of everything %+v", id, g, g.recall, cl.bulk)
			}
			checkSpans(t, g.reads)
			checkSpans(t, g.writes)
			n.Layouts++
		}
	}
	if _, ok := c.bulks[cl]; ok != (cl.bulk != nil) {
		t.Fatal("recall of everything is not listed")
	}
	if len(cl.revoked) > c.cfg.PerClient.Layouts {
		t.Fatalf("%d notes of revoked layouts", len(cl.revoked))
	}
	return n
}

// checkSpans fails t if s is not in order.
func checkSpans(t *testing.T, s spans) {
	t.Helper()
	for i, r := range s {
		if !r.Valid() || i > 0 && s[i-1].End() >= r.Offset || len(s) > maxSpans {
			t.Fatalf("spans %v", s)
		}
	}
}

func checkFile(t *testing.T, f *file) {
	t.Helper()
	want := &file{}
	ranges := map[*lockOwner]int{}
	for _, st := range f.stakes.all() {
		for _, o := range st.opens.all() {
			want.opens++
			want.tally(o.share, 1)
			for _, lo := range o.owners.all() {
				ranges[lo] = lo.ranges
			}
			if f.conflicts(o.share, o) {
				t.Fatalf("file %d: an open's share %+v is denied", f.id, o.share)
			}
		}
		if g := st.grant; g != nil && g.recall != nil && g.recall.blocking {
			want.blocked++
		}
		if st.grant != nil && st.grant.rw() {
			want.writable++
		}
		if d := st.deleg; d != nil {
			want.delegs++
			if !d.due.IsZero() {
				want.recalled++
			}
			if d.write {
				want.writer = d
			}
		}
	}
	if want.delegs != f.delegs || want.recalled != f.recalled || want.writer != f.writer || want.writable != f.writable {
		t.Fatalf("file %d counts %+v, has %+v", f.id, f, want)
	}
	checkBarred(t, f)
	if want.opens != f.opens || want.access != f.access || want.deny != f.deny || want.blocked != f.blocked {
		t.Fatalf("file %d counts %+v, has %+v", f.id, f, want)
	}
	if !slices.IsSortedFunc(f.locks, func(a, b byteLock) int { return cmp.Compare(a.first, b.first) }) {
		t.Fatalf("file %d: locks are not in order", f.id)
	}
	for i, l := range f.locks {
		if l.last-l.first > f.longest {
			t.Fatalf("file %d: a lock of %d bytes, the longest has %d", f.id, l.last-l.first+1, f.longest+1)
		}
		ranges[l.by]--
		if l.first > l.last {
			t.Fatalf("file %d: empty lock", f.id)
		}
		for _, m := range f.locks[i+1:] {
			same := l.by.owned(m.by.open.stake.client.id, m.by.owner)
			switch {
			case same && l.overlaps(m.span):
				t.Fatalf("file %d: a lock-owner holds %v and %v", f.id, l.span, m.span)
			case l.by == m.by && l.write == m.write && l.touches(m.span):
				t.Fatalf("file %d: %v and %v are not merged", f.id, l.span, m.span)
			case !same && l.overlaps(m.span) && (l.write || m.write):
				t.Fatalf("file %d: %v and %v conflict", f.id, l.span, m.span)
			}
		}
	}
	for lo, n := range ranges {
		if n != 0 {
			t.Fatalf("file %d: lock-owner %s is off by %d ranges", f.id, lo.owner, n)
		}
	}
}
