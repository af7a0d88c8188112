package compound

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// TestRecallSlots: while memory for replies is scarce, clients are told by
// CB_RECALL_SLOT (RFC 8881 section 20.8), each on the session that it is about.
func TestRecallSlots(t *testing.T) {
	cfg := session.Config{MaxCached: 1000, MaxCacheBytes: 10000, Lease: time.Minute}
	run(t, "", cfg, func(t *testing.T, e *env) {
		type told struct {
			sess nfs4.SessionID
			high uint32
		}
		got := make(chan told, 10)
		say := nfs4.OK
		hear := func(call *rpc.Call, out *rpc.Reply) {
			var s seen
			s.head.DecodeXDR(&call.Body)
			call.Body.Uint32()
			s.seq.DecodeXDR(&call.Body)
			s.op = nfs4.CBOpNum(call.Body.Uint32())
			var a nfs4.CBRecallSlotArgs
			a.DecodeXDR(&call.Body)
			if call.Body.Err() != nil || call.Body.Remaining() != 0 || s.op != nfs4.CBRecallSlot {
				t.Errorf("%v, %v, %d bytes more", s.op, call.Body.Err(), call.Body.Remaining())
			}
			got <- told{s.seq.SessionID, a.TargetHighestSlotID}
			answer(&out.Enc, &s, nfs4.OK, say, 2)
		}
		e.cb = hear
		first := e.login(nil)
		e.s.Expire(t.Context(), time.Now())
		p := e.dial()
		p.cb = hear
		second := p.login(nil)
		if u := e.s.SlotUse(); u != (session.SlotUse{Sessions: 2, Granted: 8, CacheBytes: 8000}) {
			t.Errorf("%+v", u)
		}
		for try, answer := range []nfs4.Status{nfs4.OK, nfs4.ErrNotSupp, nfs4.OK} {
			say = answer
			e.s.Expire(t.Context(), time.Now())
			synctest.Wait()
			want := map[told]bool{{first.id, 2}: true, {second.id, 2}: true}
			for range 2 {
				delete(want, <-got)
			}
			if len(want) != 0 {
				t.Errorf("try %d: not told: %v", try, want)
			}
		}
		e.s.Expire(t.Context(), time.Now())
		synctest.Wait()
		if len(got) != 0 {
			t.Error("told a fourth time")
		}
		for _, want := range []uint32{3, 2} { // hears of the target, shows that it has heard
			if r := e.say("seq").last().(*nfs4.SequenceRes); r.HighestSlotID != want || r.TargetHighestSlotID != 2 {
				t.Errorf("slots up to %d, wanted up to %d; want up to %d", r.HighestSlotID, r.TargetHighestSlotID, want)
			}
		}
		e.s.Expire(t.Context(), time.Now())
		if u := e.s.SlotUse(); u.Granted != 7 || u.Recalls != 6 {
			t.Errorf("%+v", u)
		}
		var lines []string
		for _, l := range e.logs.FilterMessageSnippet("reply caches").All() {
			lines = append(lines, l.Message)
		}
		if len(lines) != 2 || !strings.Contains(lines[0], "scarce:") || !strings.Contains(lines[1], "not scarce") {
			t.Errorf("said: %q", lines)
		}
	})
}

// TestServerTable: what the engine runs, for those who check that they know it all.
func TestServerTable(t *testing.T) {
	s := New(Config{Sessions: session.New(session.Config{}), Now: time.Now}, newRole().table())
	table := s.Table()
	if table[nfs4.OpSequence].Name != "SEQUENCE" || table[nfs4.OpWrite].Run == nil {
		t.Error("rows are missing")
	}
	if _, ok := table[nfs4.OpCopy]; ok {
		t.Error("a row that the role does not have")
	}
}
