package state

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// TestStories runs the text stories in testdata. A line is one command; its
// answer is the status, the stateid by the name that it was saved under with
// as=, and the effects. Clients are numbers, times are seconds since the start.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		st := &story{t: t, sids: map[string]nfs4.Stateid{}, held: map[string]Change{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			st.t = t
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
					fmt.Fprintf(&out, "%s\n", st.line(line))
				}
			}
			return out.String()
		})
	})
}

// story is one Core and the names given to what came out of it.
type story struct {
	t    *testing.T
	c    *Core
	now  time.Time
	sids map[string]nfs4.Stateid
	held map[string]Change
	a    args
}

// args are the key=value words of a line, and the bare ones.
type args map[string]string

func (a args) num(key string, or uint64) uint64 {
	s, ok := a[key]
	switch {
	case !ok:
		return or
	case s == "max":
		return math.MaxUint64
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (a args) has(key string) bool { _, ok := a[key]; return ok }

func (a args) mode(key string) uint32 {
	return map[string]uint32{"": 0, "none": 0, "r": 1, "w": 2, "rw": 3, "bad": 4}[a[key]]
}

// want is OPEN's wish for a delegation. Most stories are about other things: no.
func (a args) want() uint32 {
	return map[string]uint32{"": nfs4.WantNoDeleg, "no": nfs4.WantNoDeleg, "none": nfs4.WantNoPreference, "r": nfs4.WantReadDeleg,
		"w": nfs4.WantWriteDeleg, "any": nfs4.WantAnyDeleg, "cancel": nfs4.WantCancel, "bad": 0x700, "signal": nfs4.WantSignalAvail}[a["want"]]
}

func (a args) client() nfs4.ClientID { return nfs4.ClientID(a.num("c", 1)) }
func (a args) file() uint64          { return a.num("f", 1) }

func (a args) span() layout.Range {
	return layout.Range{Offset: a.num("off", 0), Length: a.num("len", math.MaxUint64)}
}

func (a args) lockType() nfs4.LockType {
	return nfs4.LockType(map[string]uint32{"": 1, "r": 1, "w": 2, "rwait": 3, "wwait": 4, "bad": 9}[a["type"]])
}

func (a args) iomode() nfs4.IOMode {
	return nfs4.IOMode(map[string]uint32{"": 3, "r": 1, "rw": 2, "any": 3, "bad": 0}[a["mode"]])
}

// sid resolves sid=name, sid=name/seqid, and the special ones.
func (s *story) sid() nfs4.Stateid { return s.named(s.a["sid"]) }

func (s *story) named(word string) nfs4.Stateid {
	name, seq, _ := strings.Cut(word, "/")
	switch name {
	case "anonymous":
		return nfs4.StateidAnonymous()
	case "bypass":
		return nfs4.StateidBypass()
	case "current":
		return nfs4.StateidCurrent()
	}
	sid, ok := s.sids[strings.TrimPrefix(name, "otherboot:")]
	if !ok {
		s.t.Fatalf("no stateid %q", name)
	}
	if strings.HasPrefix(name, "otherboot:") {
		sid.Other[0]++
	}
	if seq != "" {
		n, _ := strconv.ParseUint(seq, 10, 32)
		sid.Seqid = uint32(n)
	}
	return sid
}

func (s *story) name(sid nfs4.Stateid) string {
	for _, name := range slices.Sorted(maps.Keys(s.sids)) {
		if s.sids[name].Other == sid.Other {
			return fmt.Sprintf("%s/%d", name, sid.Seqid)
		}
	}
	if sid.IsInvalid() {
		return "invalid"
	}
	return fmt.Sprintf("?/%d", sid.Seqid)
}

func (s *story) line(line string) string {
	words := strings.Fields(line)
	s.a = args{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		s.a[k] = v
	}
	out := s.run(words[0])
	if s.c != nil {
		checkInvariants(s.t, s.c)
	}
	return out
}

func (s *story) run(cmd string) string {
	if r := s.request(cmd); r != nil {
		return s.decide(r)
	}
	c, a := s.c, s.a
	switch cmd {
	case "new":
		return s.fresh()
	case "at":
		s.now = time.Unix(int64(a.num("t", 0)), 0)
		return "ok"
	case "apply":
		e, ok := c.Apply(s.held[a["held"]])
		if !ok {
			return "gone" + s.effects(e)
		}
		return "ok" + s.effects(e)
	case "client":
		reclaims, st := c.AddClient(s.now, a.client(), a["name"])
		if reclaims {
			return "reclaims"
		}
		if st == nfs4.OK && !a.has("pending") {
			c.ReclaimComplete(a.client())
		}
		return st.String()
	case "complete":
		return c.ReclaimComplete(a.client()).String()
	case "expire":
		return "ok" + s.effects(c.Expire(a.client()))
	case "forget":
		return "ok" + s.effects(c.Forget(a.client()))
	case "unrecord":
		c.Unrecord(a["name"])
		return "ok"
	case "grace":
		active, until, waiting := c.Grace(s.now)
		return fmt.Sprintf("%v until %d waiting %v", active, until.Unix(), waiting)
	case "test":
		return c.TestStateid(a.client(), s.sid()).String()
	case "free":
		return c.FreeStateid(a.client(), s.sid()).String()
	}
	return s.show(cmd)
}

func (s *story) show(cmd string) string {
	c, a := s.c, s.a
	switch cmd {
	case "census":
		return s.census()
	case "counts":
		if a.has("c") {
			return fmt.Sprintf("%+v", c.CountsOf(a.client()))
		}
		return fmt.Sprintf("%+v", c.Counts())
	case "opens":
		return strconv.Itoa(c.Opens(a.file()))
	case "locks":
		var out []string
		if f := c.files.get(a.file()); f != nil {
			for _, l := range f.locks {
				d := l.denied()
				out = append(out, fmt.Sprintf("%d:%s %s %d+%s", d.Owner.ClientID, d.Owner.Owner, lockName(d.LockType), d.Offset, length(d.Length)))
			}
		}
		return strings.Join(append(out, "end"), "\n")
	case "layouts":
		switch {
		case a.has("ds"):
			return s.grants("on", c.LayoutsOn(layout.DSID(a.num("ds", 0))))
		case a.has("c"):
			return s.grants("of", c.LayoutsOf(a.client()))
		}
		return s.grants("", c.Layouts(a.file(), nfs4.ClientID(a.num("except", 0))))
	case "recallingall":
		if by, sent, ok := c.RecallingAll(a.client()); ok && !sent {
			return fmt.Sprintf("waits, by %d", by.Unix())
		} else if ok {
			return fmt.Sprintf("by %d", by.Unix())
		}
		return "no"
	case "overdue":
		if a.has("delegs") {
			return s.delegs("overdue", c.OverdueDelegs(s.now))
		}
		return s.grants("overdue", c.Overdue(s.now))
	case "delegs":
		if a.has("c") {
			return s.delegs("of", c.DelegationsOf(a.client()))
		}
		return s.delegs("", c.Delegations(a.file(), nfs4.ClientID(a.num("except", 0))))
	case "lost":
		return strconv.Itoa(c.Revoked(a.client()))
	case "courtesy":
		return fmt.Sprint(c.Courtesy(s.now, a.client()))
	case "waits":
		var out []string
		if f := c.files.get(a.file()); f != nil {
			for _, w := range f.waits {
				l := byteLock{w.span, w.write, &lockOwner{open: w.open, owner: w.owner}}.denied()
				out = append(out, fmt.Sprintf("%d:%s %s %d+%s", l.Owner.ClientID, l.Owner.Owner, lockName(l.LockType), l.Offset, length(l.Length)))
			}
		}
		return strings.Join(append(out, "end"), "\n")
	case "waiters":
		return "ok" + waiters(c.Waiters())
	case "surplus":
		return fmt.Sprintf("%v", c.Surplus())
	case "renew":
		return fmt.Sprint(c.Renew(a.client()))
	case "stale":
		return fmt.Sprint(c.Stale(s.now))
	}
	s.t.Fatalf("unknown command %q", cmd)
	return ""
}

func (s *story) request(cmd string) Request {
	a := s.a
	id, file := a.client(), a.file()
	switch cmd {
	case "open":
		r := OpenReq{Client: id, Owner: []byte(a["owner"]), File: file, Access: a.mode("access"), Deny: a.mode("deny"),
			Reclaim: a.has("reclaim"), Want: a.want(), CanCallback: !a.has("nocb"), Created: a.has("created"),
			Prev: nfs4.DelegationType(a.mode("prev")), DelegCur: a.has("cur")}
		if r.DelegCur {
			r.Deleg = s.named(a["cur"])
		}
		return r
	case "close":
		return CloseReq{id, file, s.sid()}
	case "downgrade":
		return DowngradeReq{id, file, s.sid(), a.mode("access"), a.mode("deny")}
	case "lock":
		return LockReq{id, file, a.has("owner"), s.sid(), []byte(a["owner"]), a.span(), a.lockType(), a.has("reclaim"), !a.has("nocb")}
	case "lockt":
		return LocktReq{id, file, []byte(a["owner"]), a.span(), a.lockType()}
	case "locku":
		return LockuReq{id, file, s.sid(), a.span()}
	case "read":
		return IOReq{id, file, s.sid(), false, false}
	case "write":
		return IOReq{id, file, s.sid(), true, a.has("empty")}
	case "layoutget":
		var ds []layout.DSID
		for w := range strings.SplitSeq(a["ds"], ",") {
			if n, err := strconv.Atoi(w); err == nil {
				ds = append(ds, layout.DSID(n))
			}
		}
		return LayoutGetReq{Client: id, File: file, Stateid: s.sid(), IOMode: a.iomode(), DS: ds, ReturnOnClose: !a.has("keep")}
	case "layoutreturn":
		if a.has("all") {
			return LayoutReturnReq{Client: id, All: true, IOMode: a.iomode(), Reclaim: a.has("reclaim")}
		}
		return LayoutReturnReq{id, false, file, s.sid(), a.iomode(), a.span(), a.has("reclaim")}
	case "layoutcommit":
		return LayoutCommitReq{id, file, s.sid(), a.has("reclaim")}
	case "recall":
		if a.has("all") {
			return RecallReq{Client: id, Changed: a.has("changed")}
		}
		return RecallReq{file, nfs4.ClientID(a.num("c", 0)), nfs4.ClientID(a.num("except", 0)), a.has("changed")}
	case "answer":
		answers := map[string]nfs4.Status{"ok": nfs4.OK, "nomatching": nfs4.ErrNoMatchingLayout,
			"delay": nfs4.ErrDelay, "old": nfs4.ErrOldStateID, "bad": nfs4.ErrBadStateID, "badhandle": nfs4.ErrBadHandle}
		if a.has("all") {
			return RecallDoneReq{Client: id, Answer: answers[a["says"]], Revoke: a.has("revoke")}
		}
		return RecallDoneReq{file, id, s.sid(), answers[a["says"]], a.has("revoke")}
	case "delegreturn":
		return DelegReturnReq{id, file, s.sid()}
	case "change":
		return DelegConflictReq{file, nfs4.ClientID(a.num("c", 0)), true}
	case "look":
		return DelegConflictReq{file, nfs4.ClientID(a.num("c", 0)), false}
	case "getattr":
		return GetattrReq{file, nfs4.ClientID(a.num("c", 0))}
	}
	return nil
}

func (s *story) decide(r Request) string {
	v := s.c.Decide(s.now, r)
	if v.Status != nfs4.OK {
		if v.Status == nfs4.ErrDenied {
			d := v.Denied
			return fmt.Sprintf("%v by %d:%s %s %d+%s", v.Status, d.Owner.ClientID, d.Owner.Owner, lockName(d.LockType), d.Offset, length(d.Length)) + s.begin(v)
		}
		return v.Status.String() + s.begin(v)
	}
	out := "ok"
	if v.Stateid != (nfs4.Stateid{}) {
		if as := s.a["as"]; as != "" {
			s.sids[as] = v.Stateid
		} else if name, _, _ := strings.Cut(s.name(v.Stateid), "/"); name != "?" && name != "invalid" {
			s.sids[name] = v.Stateid
		}
		out += " " + s.name(v.Stateid)
	}
	if open, ok := r.(OpenReq); ok && v.Delegation.Type == nfs4.DelegateNone && s.a.has("want") && open.Want != nfs4.WantNoDeleg {
		out += " " + whyNot(v.WhyNone)
	}
	if v.Delegation.Type != nfs4.DelegateNone {
		if as := s.a["deleg"]; as != "" {
			s.sids[as] = v.Delegation.Stateid
		}
		out += " " + s.delegs("deleg", []Delegation{v.Delegation})
	}
	if _, commit := r.(LayoutCommitReq); commit && !v.Writer {
		out += " reader"
	}
	out += s.effects(v.Effects)
	for _, g := range v.Effects.Recall {
		if g.File == 0 {
			continue
		}
		name, _, _ := strings.Cut(s.name(g.Stateid), "/")
		s.sids[name] = g.Stateid
	}
	if h := s.a["hold"]; h != "" {
		s.held[h] = v.Change
		return out + " held"
	}
	e, ok := s.c.Apply(v.Change)
	if !ok {
		out += " gone"
	}
	return out + s.effects(e)
}

// whyNot is WhyNone in short.
func whyNot(why nfs4.WhyNoDelegation) string {
	return map[nfs4.WhyNoDelegation]string{nfs4.NoDelegNotWanted: "unwanted", nfs4.NoDelegContention: "contention",
		nfs4.NoDelegResource: "resource", nfs4.NoDelegNotSuppDowngrade: "nodowngrade", nfs4.NoDelegCancelled: "cancelled"}[why]
}

// begin does what ErrDelay asks for: recalls begin.
func (s *story) begin(v Verdict) string {
	out := s.effects(v.Effects)
	if h := s.a["hold"]; h != "" {
		s.held[h] = v.Change
		return out + " held"
	}
	e, ok := s.c.Apply(v.Change)
	if !ok {
		out += " gone"
	}
	return out + s.effects(e)
}

func (s *story) delegs(what string, ds []Delegation) string {
	var out []string
	for _, d := range ds {
		line := fmt.Sprintf("c=%d f=%d %s %s", d.Client, d.File, s.name(d.Stateid), map[nfs4.DelegationType]string{1: "r", 2: "w"}[d.Type])
		if d.Recall {
			line += " back"
		}
		if !d.Deadline.IsZero() {
			line += fmt.Sprintf(" by %d", d.Deadline.Unix())
		}
		out = append(out, line)
	}
	return what + "{" + strings.Join(out, "; ") + "}"
}

func (s *story) effects(e Effects) string {
	out := ""
	if len(e.RecallDeleg) > 0 {
		out += " " + s.delegs("recall", e.RecallDeleg)
	}
	if len(e.Revoked) > 0 {
		out += " " + s.delegs("revoked", e.Revoked)
	}
	if len(e.Expire) > 0 {
		out += fmt.Sprintf(" expire%v", e.Expire)
	}
	if len(e.Evict) > 0 {
		out += fmt.Sprintf(" evict%v", e.Evict)
	}
	if len(e.Recall) > 0 {
		out += " " + s.grants("recall", e.Recall)
	}
	if len(e.Fence) > 0 {
		out += " " + s.grants("fence", e.Fence)
	}
	if len(e.Grown) > 0 {
		out += fmt.Sprintf(" grown%v", e.Grown)
	}
	if len(e.Idle) > 0 {
		out += fmt.Sprintf(" idle%v", e.Idle)
	}
	return out + waiters(e.Notify)
}

func waiters(ws []LocktReq) (out string) {
	for _, w := range ws {
		out += fmt.Sprintf(" notify %d:%s f=%d %s %d+%s", w.Client, w.Owner, w.File, lockName(w.Type), w.Range.Offset, length(w.Range.Length))
	}
	return out
}

func (s *story) grants(what string, gs []Grant) string {
	var out []string
	for _, g := range gs {
		mode := "r"
		if g.IOMode == nfs4.IOModeRW {
			mode = "rw"
		}
		line := fmt.Sprintf("c=%d f=%d %s %s ds%v", g.Client, g.File, s.name(g.Stateid), mode, g.DS)
		if g.File == 0 && what != "fence" {
			line = fmt.Sprintf("c=%d all %s ds%v", g.Client, mode, g.DS)
		}
		if len(g.Reads) > 0 && !spans(g.Reads).whole() {
			line += fmt.Sprintf(" reads%v", g.Reads)
		}
		if len(g.Writes) > 0 && !spans(g.Writes).whole() {
			line += fmt.Sprintf(" writes%v", g.Writes)
		}
		if !g.Deadline.IsZero() {
			line += fmt.Sprintf(" by %d", g.Deadline.Unix())
		}
		if g.Changed {
			line += " changed"
		}
		out = append(out, line)
	}
	return what + "{" + strings.Join(out, "; ") + "}"
}

func (s *story) fresh() string {
	a := s.a
	s.now, s.sids = time.Unix(0, 0), map[string]nfs4.Stateid{}
	per := Counts{Opens: int(a.num("opens", 100)), Owners: int(a.num("owners", 100)), Locks: int(a.num("locks", 100)), Layouts: int(a.num("layouts", 100)), Delegs: int(a.num("delegs", 100))}
	total := Counts{Clients: int(a.num("clients", 10)), Opens: int(a.num("allopens", 1000)), Owners: 1000, Locks: int(a.num("alllocks", 1000)), Layouts: int(a.num("alllayouts", 1000)), Delegs: int(a.num("alldelegs", 1000))}
	record := map[string]bool{}
	for may, list := range map[bool]string{true: a["record"], false: a["barred"]} {
		for name := range strings.SplitSeq(list, ",") {
			if name != "" {
				record[name] = may
			}
		}
	}
	cfg := Config{Boot: uint32(a.num("boot", 7)), Grace: time.Duration(a.num("grace", 90)) * time.Second,
		Recall: time.Duration(a.num("recall", 60)) * time.Second, DelegPause: time.Duration(a.num("pause", 10)) * time.Second,
		Courtesy: time.Duration(a.num("courtesy", 86400)) * time.Second, PerClient: per, Total: total, FileLocks: int(a.num("filelocks", 0))}
	var err error
	if s.c, err = New(cfg, s.now, record); err != nil {
		return err.Error()
	}
	return "ok"
}

// census is the tables that are not empty.
func (s *story) census() string {
	out := ""
	n := s.c.Census()
	for _, name := range slices.Sorted(maps.Keys(n)) {
		if n[name] != 0 {
			out += fmt.Sprintf("%s=%d ", name, n[name])
		}
	}
	return strings.TrimSpace("has " + out)
}

func lockName(t nfs4.LockType) string {
	if t == nfs4.LockWrite {
		return "w"
	}
	return "r"
}

func length(n uint64) string {
	if n == layout.ToEnd {
		return "end"
	}
	return strconv.FormatUint(n, 10)
}
