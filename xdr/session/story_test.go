package session

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"manifold/xdr/nfs4"
)

// story is one Table under test and the names that a text story gives to what
// is in it: clients c1, c2, ... and sessions s1, s2, ... in order of their
// first appearance.
type story struct {
	t     *testing.T
	tab   *Table
	cfg   Config
	now   time.Time
	ids   []nfs4.ClientID
	sess  []nfs4.SessionID
	slots map[string]*Slot
	plans map[string]*CreatePlan
	calls map[string]*Callback
	state map[nfs4.ClientID]bool
}

func newStory(t *testing.T) *story {
	s := &story{
		t: t, now: time.Unix(1e9, 0), slots: map[string]*Slot{}, plans: map[string]*CreatePlan{},
		calls: map[string]*Callback{}, state: map[nfs4.ClientID]bool{},
	}
	s.cfg = Config{
		ClientIDHigh: 7,
		Owner:        nfs4.ServerOwner{MinorID: 1, MajorID: []byte("major")},
		Scope:        []byte("scope"),
		Role:         nfs4.ExchgidFlagUsePNFSMDS,
		Echo:         nfs4.ExchgidFlagSuppMovedRefer,
		MachAllow:    []nfs4.OpNum{nfs4.OpClose, nfs4.OpCommit, nfs4.OpLockU, nfs4.OpWrite, nfs4.OpLayoutReturn},
		HasState:     func(id nfs4.ClientID) bool { return s.state[id] },
	}
	s.tab = New(s.cfg)
	return s
}

// args are the arguments of one command.
type args struct {
	t *testing.T
	d *datadriven.TestData
}

func (a args) str(key, def string) string {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key && len(arg.Vals) > 0 {
			return arg.Vals[0]
		}
	}
	return def
}

func (a args) num(key string, def uint64) uint64 {
	s := a.str(key, "")
	if s == "" {
		return def
	}
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		a.d.Fatalf(a.t, "%s: %v", key, err)
	}
	return n
}

func (a args) u32(key string, def uint32) uint32 { return uint32(a.num(key, uint64(def))) }

func (a args) has(key string) bool {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == key {
			return true
		}
	}
	return false
}

// first is the first argument, a bare name.
func (a args) first() string {
	if len(a.d.CmdArgs) == 0 {
		a.d.Fatalf(a.t, "name wanted")
	}
	return a.d.CmdArgs[0].Key
}

func (s *story) client(a args, name string) nfs4.ClientID {
	if strings.HasPrefix(name, "0x") {
		n, _ := strconv.ParseUint(name, 0, 64)
		return nfs4.ClientID(n)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(name, "c"))
	if err != nil || n < 1 || n > len(s.ids) {
		a.d.Fatalf(a.t, "no client %q", name)
	}
	return s.ids[n-1]
}

func (s *story) session(a args, name string) nfs4.SessionID {
	if name == "none" {
		return nfs4.SessionID{1}
	}
	n, err := strconv.Atoi(strings.TrimPrefix(name, "s"))
	if err != nil || n < 1 || n > len(s.sess) {
		a.d.Fatalf(a.t, "no session %q", name)
	}
	return s.sess[n-1]
}

func (s *story) clientName(id nfs4.ClientID) string {
	if id == 0 {
		return "none"
	}
	for i, known := range s.ids {
		if known == id {
			return fmt.Sprintf("c%d", i+1)
		}
	}
	s.ids = append(s.ids, id)
	return fmt.Sprintf("c%d", len(s.ids))
}

func (s *story) sessionName(id nfs4.SessionID) string {
	for i, known := range s.sess {
		if known == id {
			return fmt.Sprintf("s%d", i+1)
		}
	}
	s.sess = append(s.sess, id)
	return fmt.Sprintf("s%d", len(s.sess))
}

func (a args) peer() Peer {
	p := Peer{
		Conn:      ConnID(a.num("conn", 1)),
		Principal: Principal{Flavor: 1, UID: a.u32("princ", 0)},
		Remote:    "192.0.2." + a.str("conn", "1"),
		Minor:     2,
	}
	if name := a.str("gss", ""); name != "" {
		p.Principal, p.Protected = Principal{Flavor: 6, Name: name}, a.has("protected")
	}
	return p
}

var flagNames = map[uint32]string{
	nfs4.SeqStatusCBPathDown:             "CB_PATH_DOWN",
	nfs4.SeqStatusCBPathDownSession:      "CB_PATH_DOWN_SESSION",
	nfs4.SeqStatusBackchannelFault:       "BACKCHANNEL_FAULT",
	nfs4.SeqStatusExpiredAllStateRevoked: "EXPIRED_ALL_STATE_REVOKED",
	nfs4.SeqStatusRecallableStateRevoked: "RECALLABLE_STATE_REVOKED",
	nfs4.SeqStatusRestartReclaimNeeded:   "RESTART_RECLAIM_NEEDED",
}

func flagString(flags uint32) string {
	var names []string
	for bit, name := range flagNames {
		if flags&bit != 0 {
			names = append(names, name)
			flags &^= bit
		}
	}
	if flags != 0 {
		names = append(names, fmt.Sprintf("%#x", flags))
	}
	sort.Strings(names)
	return "[" + strings.Join(names, " ") + "]"
}

func (a args) flags() (flags uint32) {
	for bit, name := range flagNames {
		if a.has(name) {
			flags |= bit
		}
	}
	return flags
}

func parseStatus(t *testing.T, name string) nfs4.Status {
	for i := nfs4.Status(0); i < 10200; i++ {
		if i.String() == "NFS4ERR_"+name || name == "OK" && i == nfs4.OK {
			return i
		}
	}
	t.Fatalf("no status %q", name)
	return 0
}

func (s *story) exchange(a args) string {
	e := nfs4.ExchangeIDArgs{Flags: a.u32("flags", 0)}
	e.ClientOwner.OwnerID = []byte(a.str("owner", "a"))
	e.ClientOwner.Verifier[7] = byte(a.num("verf", 1))
	if a.has("update") {
		e.Flags |= nfs4.ExchgidFlagUpdConfirmedRecA
	}
	e.StateProtect.How = nfs4.StateProtectHow(a.num("sp", 0))
	for _, n := range strings.FieldsFunc(a.str("allow", ""), func(r rune) bool { return r == '+' }) {
		op, err := strconv.ParseUint(n, 10, 32)
		if err != nil {
			a.d.Fatalf(s.t, "%v", err)
		}
		e.StateProtect.MachOps.MustAllow.Set(nfs4.Attr(op))
	}
	if impl := a.str("impl", ""); impl != "" {
		e.ClientImplID = []nfs4.ImplID{{Domain: []byte("kernel.org"), Name: []byte(impl)}}
	}
	v := s.tab.ExchangeID(s.now, &e, a.peer())
	if v.Status != nfs4.OK {
		return v.Status.String()
	}
	out := fmt.Sprintf("%s seq=%d flags=%#x", s.clientName(v.Res.ClientID), v.Res.SequenceID, v.Res.Flags)
	if p := v.Res.StateProtect; p.How != nfs4.StateProtectNone {
		out += fmt.Sprintf(" sp=%d enforce=%v allow=%v", p.How, opNames(p.MachOps.MustEnforce), opNames(p.MachOps.MustAllow))
	}
	if v.Dropped != 0 {
		out += " dropped=" + s.clientName(v.Dropped)
	}
	return out
}

// opNames are the names of operations in a bitmap.
func opNames(b nfs4.Bitmap) (names []string) {
	for n := range nfs4.Attr(96) {
		if b.Has(n) {
			names = append(names, nfs4.OpNum(n).String())
		}
	}
	return names
}

// plan is the first half of CREATE_SESSION.
func (s *story) plan(a args) *CreatePlan {
	c := nfs4.CreateSessionArgs{
		ClientID: s.client(a, a.first()), Sequence: a.u32("seq", 1), Flags: a.u32("flags", 0), CBProgram: 0x40000000,
	}
	if a.has("back") {
		c.Flags |= nfs4.CreateSessionFlagConnBackChan
	}
	c.ForeChanAttrs = nfs4.ChannelAttrs{
		MaxRequestSize: a.u32("req", 1049620), MaxResponseSize: a.u32("resp", 1049480),
		MaxResponseSizeCached: a.u32("cached", 1300), MaxOperations: a.u32("ops", 8), MaxRequests: a.u32("slots", 4),
	}
	c.BackChanAttrs = nfs4.ChannelAttrs{
		MaxRequestSize: a.u32("breq", 4096), MaxResponseSize: a.u32("bresp", 4096),
		MaxOperations: a.u32("bops", 2), MaxRequests: a.u32("bslots", 2),
	}
	switch a.str("sec", "sys") {
	case "sys":
		c.SecParms = []nfs4.CallbackSecParms{{Flavor: nfs4.SecFlavorSys}}
	case "none":
		c.SecParms = []nfs4.CallbackSecParms{{Flavor: nfs4.SecFlavorNone}}
	case "gss":
		c.SecParms = []nfs4.CallbackSecParms{{Flavor: nfs4.SecFlavorGSS}}
	}
	p := s.tab.PlanSession(s.now, &c, a.peer())
	return &p
}

func (s *story) planned(p *CreatePlan) string {
	if p.Status != nfs4.OK {
		return p.Status.String()
	}
	out := fmt.Sprintf("%s seq=%d flags=%d slots=%d", s.sessionName(p.Res.SessionID), p.Res.Sequence,
		p.Res.Flags, p.Res.ForeChanAttrs.MaxRequests)
	if p.Replay {
		out += " replay"
	}
	if r := p.NeedsRecord; r != nil {
		out += fmt.Sprintf(" record=%q", r.OwnerID)
		if r.Replaces != 0 {
			out += " replaces=" + s.clientName(r.Replaces)
		}
	}
	return out
}

func (s *story) commit(p *CreatePlan) string {
	dropped, status := s.tab.CommitSession(s.now, p)
	if status != nfs4.OK {
		return status.String()
	}
	if dropped != 0 {
		return "dropped=" + s.clientName(dropped)
	}
	return ""
}

func (s *story) create(a args) string {
	p := s.plan(a)
	out := s.planned(p)
	if p.Status != nfs4.OK || p.Replay {
		return out
	}
	p.MayReclaim = a.has("reclaim")
	return strings.TrimSpace(out + " " + s.commit(p))
}

func (s *story) sequence(a args) string {
	q := nfs4.SequenceArgs{
		SessionID: s.session(a, a.first()), SequenceID: a.u32("seq", 1), SlotID: a.u32("slot", 0),
		CacheThis: a.has("cache"),
	}
	q.HighestSlotID = a.u32("high", q.SlotID)
	from := a.peer()
	v := s.tab.Sequence(s.now, &q, Request{
		Conn: from.Conn, Ops: int(a.num("ops", 3)), Bytes: int(a.num("bytes", 200)), Fingerprint: a.num("fp", 0),
		Principal: from.Principal, Protected: from.Protected,
	})
	switch {
	case v.Replay != nil:
		return fmt.Sprintf("replay %q", v.Replay)
	case v.Slot == nil:
		return v.Status.String()
	}
	out := fmt.Sprintf("run high=%d target=%d flags=%s", v.Res.HighestSlotID, v.Res.TargetHighestSlotID, flagString(v.Res.StatusFlags))
	if v.Cache {
		out += " cache"
	}
	if !v.Allow.IsZero() {
		out += fmt.Sprintf(" allow=%v", opNames(v.Allow))
	}
	if a.has("reply") {
		s.tab.Done(s.now, v.Slot, []byte(a.str("reply", "")))
	} else {
		s.slots[fmt.Sprintf("%s/%d", a.first(), q.SlotID)] = v.Slot
	}
	return out
}

func (s *story) slot(a args) *Slot {
	return s.slots[fmt.Sprintf("%s/%d", a.str("own", a.first()), a.num("slot", 0))]
}

func (s *story) bind(a args) string {
	res, status := s.tab.BindConn(&nfs4.BindConnToSessionArgs{
		SessionID: s.session(a, a.first()), Dir: a.u32("dir", nfs4.BindForeOrBoth),
	}, a.peer())
	if status != nfs4.OK {
		return status.String()
	}
	return fmt.Sprintf("dir=%d", res.Dir)
}

func (s *story) callback(a args) string {
	cb, status := s.tab.Callback(s.client(a, a.first()))
	if status != nfs4.OK {
		return status.String()
	}
	s.calls[a.str("as", "cb")] = &cb
	return fmt.Sprintf("%s conn=%d slot=%d seq=%d high=%d flavor=%d prog=%#x", s.sessionName(cb.Session), cb.Conn,
		cb.Slot, cb.Sequence, cb.HighestSlot, cb.Sec.Flavor, cb.Program)
}

func (s *story) answered(a args) string {
	status, replied := nfs4.OK, !a.has("lost")
	if replied {
		status = parseStatus(s.t, a.str("status", "OK"))
	}
	if s.tab.CallbackDone(s.calls[a.first()], replied, status) {
		return "retry"
	}
	return "done"
}

func (s *story) list() string {
	var out strings.Builder
	for _, c := range s.tab.Clients() {
		fmt.Fprintf(&out, "%s owner=%s impl=%q remote=%s sessions=%d slots=%d busy=%d conns=%d renewed=-%s confirmed=%t flags=%s\n",
			s.clientName(c.ID), c.Owner, c.ImplName, c.Remote, c.Sessions, c.Slots, c.Busy, c.Conns,
			s.now.Sub(c.LastRenewal), c.Confirmed, flagString(c.Flags))
	}
	return out.String()
}

// run carries out one command of a story.
func (s *story) run(a args) string {
	switch a.d.Cmd {
	case "boot":
		s.cfg.ClientIDHigh += uint32(a.num("high", 1))
		s.cfg.Seed[0]++
		s.limits(a)
		s.tab = New(s.cfg)
	case "exchange":
		return s.exchange(a)
	case "create":
		return s.create(a)
	case "plan":
		p := s.plan(a)
		s.plans[a.str("as", "p")] = p
		return s.planned(p)
	case "commit":
		s.plans[a.first()].MayReclaim = a.has("reclaim")
		return s.commit(s.plans[a.first()])
	case "abandon":
		s.tab.AbandonSession(s.plans[a.first()])
	case "seq":
		return s.sequence(a)
	case "done":
		s.tab.Done(s.now, s.slot(a), []byte(a.str("reply", "")))
	case "bind":
		return s.bind(a)
	case "close":
		s.tab.ConnClosed(ConnID(a.num("conn", 1)))
	case "conns":
		return fmt.Sprint(s.tab.Conns(s.client(a, a.first())))
	case "callback":
		return s.callback(a)
	case "answered":
		return s.answered(a)
	case "clients":
		return s.list()
	default:
		return s.runMore(a)
	}
	return ""
}

func (s *story) runMore(a args) string {
	switch a.d.Cmd {
	case "destroy":
		var own *Slot
		if a.has("own") {
			own = s.slot(a)
		}
		return s.tab.DestroySession(s.session(a, a.first()), own, a.peer()).String()
	case "destroy-client":
		confirmed, status := s.tab.DestroyClientID(s.client(a, a.first()), a.peer())
		return fmt.Sprintf("%v confirmed=%t", status, confirmed)
	case "advance":
		d, err := time.ParseDuration(a.first())
		if err != nil {
			a.d.Fatalf(s.t, "%v", err)
		}
		s.now = s.now.Add(d)
	case "expired":
		var names []string
		for _, id := range s.tab.Expired(s.now) {
			names = append(names, s.clientName(id))
		}
		return fmt.Sprint(names)
	case "drop":
		return fmt.Sprint(s.tab.Drop(s.client(a, a.first())))
	case "state":
		s.state[s.client(a, a.first())] = !a.has("off")
	case "set":
		s.tab.SetFlags(s.client(a, a.first()), a.flags())
	case "clear":
		s.tab.ClearFlags(s.client(a, a.first()), a.flags())
	case "slots":
		id := nfs4.ClientID(0)
		if a.first() != "all" {
			id = s.client(a, a.first())
		}
		s.tab.wish(id, a.u32("n", 1))
	case "tune":
		return s.tune()
	case "recalled":
		s.tab.SlotsRecalled(&SlotRecall{Session: s.session(a, a.first())})
	case "use":
		u := s.tab.SlotUse()
		return fmt.Sprintf("sessions=%d slots=%d busy=%d bytes=%d recalls=%d", u.Sessions, u.Granted, u.InUse, u.CacheBytes, u.Recalls)
	case "notify":
		s.tab.Notify(s.client(a, a.first()), a.flags())
	case "ctl":
		sec := []nfs4.CallbackSecParms{{Flavor: a.u32("flavor", 1)}}
		return s.tab.BackchannelCtl(s.slot(a), &nfs4.BackchannelCtlArgs{CBProgram: a.u32("prog", 1), SecParms: sec}).String()
	case "reclaim-complete":
		return s.tab.ReclaimComplete(s.client(a, a.first()), &nfs4.ReclaimCompleteArgs{OneFS: a.has("onefs")}).String()
	case "reclaim":
		id := s.client(a, a.first())
		return fmt.Sprintf("may=%t done=%t", s.tab.MayReclaim(id), s.tab.ReclaimDone(id))
	default:
		a.d.Fatalf(s.t, "no such command")
	}
	return ""
}

func (s *story) tune() string {
	recalls, scarce := s.tab.Tune(s.now)
	out := fmt.Sprintf("scarce=%t", scarce)
	for _, r := range recalls {
		out += fmt.Sprintf(" %s/%s=%d", s.clientName(r.Client), s.sessionName(r.Session), r.Target)
	}
	return out
}

func (s *story) limits(a args) {
	s.cfg.MaxClients = int(a.num("clients", 0))
	s.cfg.MaxUnconfirmed = int(a.num("unconfirmed", 0))
	s.cfg.MaxSessions = int(a.num("sessions", 0))
	s.cfg.MaxConns = int(a.num("conns", 0))
	s.cfg.MaxSlots = a.u32("slots", 0)
	s.cfg.MaxCached = a.u32("cached", 0)
	s.cfg.MaxCacheBytes = int64(a.num("memory", 0))
}

// TestStories runs testdata/*. After every command the Table's own books are
// checked.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := newStory(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := s.run(args{t, d})
			if err := s.tab.audit(); err != nil {
				d.Fatalf(t, "%v", err)
			}
			if out == "" {
				return "ok"
			}
			return out
		})
	})
}
