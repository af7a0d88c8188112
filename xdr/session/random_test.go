package session

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"manifold/xdr/nfs4"
)

// world drives a Table with choices from a source of numbers, and checks every
// answer against what it remembers of the earlier ones.
type world struct {
	tab  *Table
	pick func(n int) int
	now  time.Time

	ids      []nfs4.ClientID
	gone     map[nfs4.ClientID]bool
	sessions []nfs4.SessionID
	known    map[nfs4.SessionID]bool
	plans    []CreatePlan
	running  []*running
	last     map[*Slot]*running // the last request that a slot ran
	calls    []Callback
	recalls  []SlotRecall
	state    map[nfs4.ClientID]bool
}

// running is a request that was allowed to run.
type running struct {
	slot  *Slot
	seq   uint32
	cache bool
	done  bool
	reply []byte // if kept
}

func newWorld(pick func(n int) int) *world {
	w := &world{
		pick: pick, now: time.Unix(1e9, 0), gone: map[nfs4.ClientID]bool{}, known: map[nfs4.SessionID]bool{},
		last: map[*Slot]*running{}, state: map[nfs4.ClientID]bool{},
	}
	w.tab = New(Config{
		ClientIDHigh: 3, MaxClients: 3, MaxUnconfirmed: 2, MaxSessions: 2, MaxConns: 2, MaxSlots: 4, MaxBackSlots: 2,
		MaxCached: 64, MaxCacheBytes: 1200, Lease: 90 * time.Second,
		HasState: func(id nfs4.ClientID) bool { return w.state[id] },
	})
	return w
}

func (w *world) id() nfs4.ClientID {
	if len(w.ids) == 0 {
		return 5
	}
	// The newest are the interesting ones.
	return w.ids[max(0, len(w.ids)-1-w.pick(6))]
}

func (w *world) session() nfs4.SessionID {
	if len(w.sessions) == 0 {
		return nfs4.SessionID{9}
	}
	return w.sessions[max(0, len(w.sessions)-1-w.pick(4))]
}

func (w *world) peer() Peer {
	return Peer{Conn: ConnID(w.pick(5)), Principal: Principal{UID: uint32(w.pick(8) / 7)}}
}

func (w *world) exchange() error {
	a := nfs4.ExchangeIDArgs{Flags: uint32(w.pick(5)/4) << 30}
	a.ClientOwner.OwnerID = []byte{byte(w.pick(5))}
	a.ClientOwner.Verifier[0] = byte(w.pick(3))
	v := w.tab.ExchangeID(w.now, &a, w.peer())
	if v.Dropped != 0 {
		w.gone[v.Dropped] = true
	}
	if v.Status != nfs4.OK {
		return nil
	}
	if w.gone[v.Res.ClientID] {
		return fmt.Errorf("client id %#x again", v.Res.ClientID)
	}
	w.ids = append(w.ids, v.Res.ClientID)
	return nil
}

func (w *world) plan() error {
	a := nfs4.CreateSessionArgs{ClientID: w.id(), Flags: uint32(w.pick(4)), SecParms: []nfs4.CallbackSecParms{{Flavor: 1}}}
	if c := w.tab.clients[a.ClientID]; c != nil {
		a.Sequence = c.createSeq + uint32(w.pick(4)+2)/3
	}
	a.ForeChanAttrs = nfs4.ChannelAttrs{
		MaxRequestSize: 1000, MaxResponseSize: 1000, MaxResponseSizeCached: uint32(w.pick(100)),
		MaxOperations: 8, MaxRequests: uint32(w.pick(6)),
	}
	a.BackChanAttrs = nfs4.ChannelAttrs{MaxRequestSize: 1000, MaxResponseSize: 1000, MaxOperations: 2, MaxRequests: uint32(w.pick(4))}
	p := w.tab.PlanSession(w.now, &a, w.peer())
	if p.Status != nfs4.OK || p.Replay {
		return nil
	}
	b := p.Res.BackChanAttrs
	if b.MaxRequestSize > 1000 || b.MaxRequests > a.BackChanAttrs.MaxRequests || p.Res.ForeChanAttrs.MaxOperations != 8 {
		return fmt.Errorf("more than asked: %+v", p.Res)
	}
	w.plans = append(w.plans, p)
	return nil
}

func (w *world) endPlan() error {
	if len(w.plans) == 0 {
		return nil
	}
	i := w.pick(len(w.plans))
	p := w.plans[i]
	w.plans = append(w.plans[:i], w.plans[i+1:]...)
	if w.pick(5) == 0 {
		w.tab.AbandonSession(&p)
		return nil
	}
	dropped, status := w.tab.CommitSession(w.now, &p)
	if status != nfs4.OK {
		return nil
	}
	if dropped != 0 {
		w.gone[dropped] = true
		if p.NeedsRecord == nil || p.NeedsRecord.Replaces != dropped {
			return fmt.Errorf("dropped %#x without notice", dropped)
		}
	}
	if w.known[p.Res.SessionID] {
		return fmt.Errorf("session id %x again", p.Res.SessionID)
	}
	w.known[p.Res.SessionID] = true
	w.sessions = append(w.sessions, p.Res.SessionID)
	return nil
}

func (w *world) sequence() error {
	a := nfs4.SequenceArgs{SessionID: w.session(), SlotID: uint32(w.pick(5)), CacheThis: w.pick(2) == 0}
	a.HighestSlotID = max(a.SlotID, uint32(w.pick(4)))
	var slot *Slot
	if s := w.tab.sessions[a.SessionID]; s != nil && int(a.SlotID) < len(s.slots) {
		slot = s.slots[a.SlotID]
		a.SequenceID = slot.seq + uint32(w.pick(6)+3)/4
	}
	last := w.last[slot]
	v := w.tab.Sequence(w.now, &a, Request{Conn: ConnID(w.pick(5)), Ops: 1 + w.pick(9), Bytes: 100})
	switch {
	case v.Slot != nil:
		if v.Slot != slot || v.Replay != nil || v.Status != nfs4.OK {
			return fmt.Errorf("verdict %+v", v)
		}
		if last != nil && (!last.done || last.seq+1 != a.SequenceID) || last == nil && a.SequenceID != 1 {
			return fmt.Errorf("ran %d after %+v", a.SequenceID, last)
		}
		r := &running{slot: slot, seq: a.SequenceID, cache: v.Cache}
		w.last[slot] = r
		w.running = append(w.running, r)
	case v.Replay != nil:
		if last == nil || !last.done || last.seq != a.SequenceID || !bytes.Equal(last.reply, v.Replay) || v.Status != nfs4.OK {
			return fmt.Errorf("replayed %q as %d after %+v", v.Replay, a.SequenceID, last)
		}
	case v.Status == nfs4.OK:
		return fmt.Errorf("no verdict")
	case v.Status == nfs4.ErrRetryUncachedRep && (last == nil || last.reply != nil):
		return fmt.Errorf("the reply %+v was kept", last)
	}
	return nil
}

func (w *world) done() error {
	if len(w.running) == 0 {
		return nil
	}
	i := w.pick(len(w.running))
	r := w.running[i]
	w.running = append(w.running[:i], w.running[i+1:]...)
	reply := []byte(fmt.Sprintf("%p %d", r.slot, r.seq))
	reply = append(reply, make([]byte, w.pick(60))...)
	r.done = true
	if r.cache && len(reply) <= int(r.slot.sess.cached) {
		r.reply = bytes.Clone(reply)
	}
	w.tab.Done(w.now, r.slot, reply)
	clear(reply) // the Table has no share in it
	w.tab.Done(w.now, r.slot, []byte("twice"))
	return nil
}

func (w *world) callback() error {
	cb, status := w.tab.Callback(w.id())
	if status != nfs4.OK {
		return nil
	}
	for _, other := range w.calls {
		if other.Session == cb.Session && other.Slot == cb.Slot {
			return fmt.Errorf("slot %d of %x is in use", cb.Slot, cb.Session)
		}
	}
	w.calls = append(w.calls, cb)
	return nil
}

func (w *world) called() error {
	if len(w.calls) == 0 {
		return nil
	}
	i := w.pick(len(w.calls))
	cb := w.calls[i]
	w.calls = append(w.calls[:i], w.calls[i+1:]...)
	answers := []nfs4.Status{
		nfs4.OK, nfs4.OK, nfs4.OK, nfs4.ErrDelay, nfs4.ErrRetryUncachedRep, nfs4.ErrBadSession,
		nfs4.ErrBadSlot, nfs4.ErrBadHighSlot, nfs4.ErrSeqMisordered,
	}
	w.tab.CallbackDone(&cb, w.pick(4) != 0, answers[w.pick(len(answers))])
	return nil
}

func (w *world) drop(id nfs4.ClientID) {
	if w.tab.Drop(id) {
		w.gone[id] = true
	}
}

func (w *world) expire() error {
	w.now = w.now.Add(time.Duration(w.pick(60)) * time.Second)
	for _, id := range w.tab.Expired(w.now) {
		c := w.tab.clients[id]
		if c == nil || !c.confirmed || c.busy > 0 || w.now.Sub(c.renewed) <= 90*time.Second {
			return fmt.Errorf("%#x has not expired: %+v", id, c)
		}
		if w.pick(2) == 0 {
			w.drop(id)
		}
	}
	return nil
}

// step makes one choice.
func (w *world) step() (err error) {
	switch w.pick(20) {
	case 0, 1:
		err = w.exchange()
	case 2, 3:
		err = w.plan()
	case 4, 5:
		err = w.endPlan()
	case 6, 7, 8, 9:
		err = w.sequence()
	case 10, 11, 12:
		err = w.done()
	case 13:
		err = w.callback()
	case 14:
		err = w.called()
	case 15:
		err = w.expire()
	case 16:
		w.tab.BindConn(&nfs4.BindConnToSessionArgs{SessionID: w.session(), Dir: uint32(w.pick(8))}, Peer{Conn: ConnID(w.pick(5))})
	case 17:
		w.tab.ConnClosed(ConnID(w.pick(5)))
	case 18:
		err = w.tune()
	case 19:
		err = w.rare()
	}
	if err != nil {
		return err
	}
	return w.tab.audit()
}

func (w *world) tune() error {
	if w.pick(2) == 0 {
		w.tab.wish(w.id(), uint32(2+w.pick(4)))
	}
	for _, r := range w.recalls {
		w.tab.SlotsRecalled(&r)
	}
	w.recalls, _ = w.tab.Tune(w.now)
	for _, r := range w.recalls {
		if s := w.tab.sessions[r.Session]; s.client.id != r.Client || int(r.Target)+1 >= len(s.slots) {
			return fmt.Errorf("asked for slots above %d of %d", r.Target, len(s.slots))
		}
	}
	return nil
}

func (w *world) rare() error {
	id := w.id()
	switch w.pick(8) {
	case 0:
		w.drop(id)
	case 1, 2:
		w.tab.DestroySession(w.session(), nil, Peer{})
	case 3:
		if _, status := w.tab.DestroyClientID(id, Peer{}); status == nfs4.OK {
			w.gone[id] = true
			if w.state[id] {
				return fmt.Errorf("%#x had state", id)
			}
		}
	case 4:
		w.state[id] = !w.state[id]
	case 5:
		w.tab.SetFlags(id, uint32(w.pick(1<<12)))
	case 6:
		w.tab.ReclaimComplete(id, &nfs4.ReclaimCompleteArgs{})
	case 7:
		if n := len(w.tab.Clients()); n != len(w.tab.clients) {
			return fmt.Errorf("%d clients listed", n)
		}
	}
	return nil
}

// finish gives everything back; nothing may be left reserved then.
func (w *world) finish() error {
	for i := range w.plans {
		w.tab.AbandonSession(&w.plans[i])
	}
	for _, r := range w.running {
		w.tab.Done(w.now, r.slot, nil)
	}
	for _, info := range w.tab.Clients() {
		w.tab.Drop(info.ID)
	}
	t := w.tab
	if len(t.clients)+len(t.sessions)+len(t.conns) != 0 || t.cacheBytes != 0 || t.confirming != 0 {
		return fmt.Errorf("left: %d clients, %d sessions, %d connections, %d bytes, %d confirming",
			len(t.clients), len(t.sessions), len(t.conns), t.cacheBytes, t.confirming)
	}
	return nil
}

func TestRandom(t *testing.T) {
	seeds, steps := uint64(300), 4000
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(rng.IntN)
		for i := range steps {
			if err := w.step(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, i, err)
			}
		}
		if err := w.finish(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if seed == 0 && (len(w.sessions) < 10 || len(w.last) < 20 || len(w.gone) < 10) {
			t.Fatalf("too dull: %d sessions, %d slots used, %d clients gone", len(w.sessions), len(w.last), len(w.gone))
		}
	}
}

func FuzzTable(f *testing.F) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 2))
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newWorld(func(n int) int {
			if len(data) == 0 {
				return 0
			}
			b := int(data[0])
			data = data[1:]
			return b % n
		})
		for len(data) > 0 {
			if err := w.step(); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.finish(); err != nil {
			t.Fatal(err)
		}
	})
}
