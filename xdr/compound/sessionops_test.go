package compound

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// TestConfirm: a client's record is kept before its first session is answered,
// and only then (RFC 8881 section 18.36.4).
func TestConfirm(t *testing.T) {
	run(t, "once", session.Config{}, func(t *testing.T, e *env) {
		e.hooks.mayReclaim = true
		s := e.login(nil)
		e.do(op{nfs4.OpCreateSession, e.createArgs(s.client, 2)})
		if h := &e.hooks; len(h.confirmed) != 1 || h.confirmed[0].ID != s.client || string(h.confirmed[0].OwnerID) != "o1" || h.confirmed[0].Principal.UID != 10 {
			t.Errorf("confirmed: %+v", e.hooks.confirmed)
		}
		if !e.s.MayReclaim(s.client) {
			t.Error("the hook said that it may reclaim")
		}
		e.want("seq reclaim", "OK SEQUENCE=OK RECLAIM_COMPLETE=OK")
		if e.s.MayReclaim(s.client) {
			t.Error("it may reclaim after RECLAIM_COMPLETE")
		}
	})
	run(t, "fails", session.Config{}, func(t *testing.T, e *env) {
		e.hooks.fail = errors.New("disk full")
		id := e.newClient()
		words := fmt.Sprintf("newsession:%d", id)
		e.want(words, "SERVERFAULT CREATE_SESSION=SERVERFAULT")
		if c := e.s.Clients()[0]; c.Confirmed || c.Sessions != 0 || c.Conns != 0 {
			t.Errorf("after a failure: %+v", c)
		}
		e.hooks.fail = nil
		e.want(words, "OK CREATE_SESSION=OK") // with the same csa_sequence
		e.want(words, "OK CREATE_SESSION=OK") // a replay
		if c := e.s.Clients()[0]; !c.Confirmed || c.Sessions != 1 || len(e.hooks.confirmed) != 1 {
			t.Errorf("after the retry: %+v, %d confirmed", c, len(e.hooks.confirmed))
		}
		if got := e.hooks.takeDropped(); got != "[]" {
			t.Errorf("dropped: %v", got)
		}
	})
	run(t, "panics", session.Config{}, func(t *testing.T, e *env) {
		e.hooks.during = func() { panic("no") }
		words := fmt.Sprintf("newsession:%d", e.newClient())
		e.want(words, "SERVERFAULT CREATE_SESSION=SERVERFAULT")
		e.hooks.during = nil
		e.want(words, "OK CREATE_SESSION=OK")
	})
}

// TestConfirmMeanwhile: what comes between a CREATE_SESSION's two phases.
func TestConfirmMeanwhile(t *testing.T) {
	run(t, "connection closes", session.Config{}, func(t *testing.T, e *env) {
		id := e.newClient()
		old := e.peer
		e.hooks.during = func() { old.conn.Close(); <-old.srv.Done() }
		old.conn.Call(t.Context(), Program, Version, procCompound, old.cred, encoderArgs(old, fmt.Sprintf("newsession:%d", id)))
		synctest.Wait()
		e.hooks.during = nil
		if c := e.s.Clients()[0]; c.Confirmed || c.Conns != 0 {
			t.Errorf("%+v", c)
		}
		p := e.dial()
		p.want(fmt.Sprintf("newsession:%d", id), "OK CREATE_SESSION=OK")
	})
	run(t, "evicted meanwhile", session.Config{}, func(t *testing.T, e *env) {
		id := e.newClient()
		e.hooks.during = func() { e.s.Evict(t.Context(), id, "") }
		e.want(fmt.Sprintf("newsession:%d", id), "STALE_CLIENTID CREATE_SESSION=STALE_CLIENTID")
		if got := e.hooks.takeDropped(); got != fmt.Sprintf("[%d %d]", id, id) {
			t.Errorf("dropped: %v; want it once more, after its record was kept", got)
		}
	})
	run(t, "another one at the same time", session.Config{}, func(t *testing.T, e *env) {
		words := fmt.Sprintf("newsession:%d", e.newClient())
		p := e.dial()
		e.hooks.during = func() { p.want(words, "DELAY CREATE_SESSION=DELAY") }
		e.want(words, "OK CREATE_SESSION=OK")
	})
	run(t, "reply does not fit", session.Config{}, func(t *testing.T, e *env) {
		e.login(sizes(179, 0))
		id := e.newClient()
		e.want(fmt.Sprintf("seq newsession:%d", id), "REP_TOO_BIG SEQUENCE=OK CREATE_SESSION=REP_TOO_BIG")
		e.want(fmt.Sprintf("newsession:%d", id), "OK CREATE_SESSION=OK") // was not used up
	})
}

// TestDrop: the role hears of every client that goes, once.
func TestDrop(t *testing.T) {
	run(t, "left", session.Config{}, func(t *testing.T, e *env) {
		s := e.login(nil)
		e.want("leave", "CLIENTID_BUSY DESTROY_CLIENTID=CLIENTID_BUSY")
		e.want("destroy", "OK DESTROY_SESSION=OK")
		e.want("leave", "OK DESTROY_CLIENTID=OK")
		e.want("leave", "STALE_CLIENTID DESTROY_CLIENTID=STALE_CLIENTID")
		if got := e.hooks.takeDropped(); got != fmt.Sprintf("[%d]", s.client) {
			t.Error(got)
		}
	})
	run(t, "left unconfirmed", session.Config{}, func(t *testing.T, e *env) {
		e.sess = &sess{client: e.newClient()}
		e.want("leave", "OK DESTROY_CLIENTID=OK")
		if got := e.hooks.takeDropped(); got != "[]" {
			t.Error(got)
		}
	})
	run(t, "came again", session.Config{}, func(t *testing.T, e *env) {
		s := e.login(nil)
		again := op{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{ClientOwner: nfs4.ClientOwner{Verifier: nfs4.Verifier{1}, OwnerID: []byte("o1")}}}
		id := e.do(again).last().(*nfs4.ExchangeIDRes).ClientID
		if got := e.hooks.takeDropped(); got != "[]" {
			t.Errorf("before it is confirmed: %v", got)
		}
		e.want(fmt.Sprintf("newsession:%d", id), "OK CREATE_SESSION=OK")
		if got := e.hooks.takeDropped(); got != fmt.Sprintf("[%d]", s.client) {
			t.Error(got)
		}
		if r := e.hooks.confirmed[1].Replaces; r != s.client {
			t.Errorf("replaces %d", r)
		}
		e.want("seq", "BADSESSION SEQUENCE=BADSESSION")
	})
	run(t, "replaced by another principal", session.Config{Lease: time.Minute}, func(t *testing.T, e *env) {
		s := e.login(nil)
		time.Sleep(2 * time.Minute)
		e.cred.Sys.UID = 77
		e.want("exchange:1", "OK EXCHANGE_ID=OK")
		if got := e.hooks.takeDropped(); got != fmt.Sprintf("[%d]", s.client) {
			t.Error(got)
		}
	})
}

// TestExpire: a client goes with its lease or when it is evicted.
func TestExpire(t *testing.T) {
	run(t, "expired", session.Config{Lease: time.Minute}, func(t *testing.T, e *env) {
		s := e.login(nil)
		time.Sleep(50 * time.Second)
		e.want("seq", "OK SEQUENCE=OK")
		time.Sleep(50 * time.Second)
		if n := e.s.Expire(t.Context(), time.Now()); n != 0 {
			t.Errorf("%d expired within their lease", n)
		}
		time.Sleep(11 * time.Second)
		if n := e.s.Expire(t.Context(), time.Now()); n != 1 || e.hooks.takeDropped() != fmt.Sprintf("[%d]", s.client) {
			t.Errorf("%d expired", n)
		}
		e.want("seq", "BADSESSION SEQUENCE=BADSESSION")
		if len(e.s.minors) != 0 || len(e.s.Clients()) != 0 {
			t.Error("something of it is left")
		}
	})
	run(t, "does not expire while a request runs", session.Config{Lease: time.Minute}, func(t *testing.T, e *env) {
		e.login(nil)
		done := make(chan reply)
		go func() { done <- e.say("seq wait") }()
		<-e.role.held
		time.Sleep(2 * time.Minute)
		if n := e.s.Expire(t.Context(), time.Now()); n != 0 {
			t.Errorf("%d expired", n)
		}
		close(e.role.hold)
		<-done
		if n := e.s.Expire(t.Context(), time.Now()); n != 0 {
			t.Errorf("%d expired right after", n)
		}
	})
	run(t, "evicted for being out of step", session.Config{MaxFaults: 3}, func(t *testing.T, e *env) {
		s := e.login(nil)
		for i := range 3 {
			r := e.do(op{nfs4.OpSequence, &nfs4.SequenceArgs{SessionID: s.id, SequenceID: 99}})
			if r.String() != "SEQ_MISORDERED SEQUENCE=SEQ_MISORDERED" {
				t.Errorf("%d: %v", i, r)
			}
		}
		if got := e.hooks.takeDropped(); got != fmt.Sprintf("[%d]", s.client) {
			t.Error(got)
		}
		if n := e.s.Census(); n["clients"] != 0 || n["minors"] != 0 {
			t.Errorf("left: %v", n)
		}
		e.want("seq", "BADSESSION SEQUENCE=BADSESSION")
	})
	run(t, "evicted while a request runs", session.Config{}, func(t *testing.T, e *env) {
		s := e.login(nil)
		done := make(chan reply)
		go func() { done <- e.say("cseq wait") }()
		<-e.role.held
		if !e.s.Evict(t.Context(), s.client, "") || e.s.Evict(t.Context(), s.client, "") {
			t.Error("not evicted once")
		}
		close(e.role.hold)
		if r := <-done; r.String() != "OK SEQUENCE=OK ACCESS=OK" {
			t.Error(r)
		}
		e.want("recseq wait", "BADSESSION SEQUENCE=BADSESSION")
		if got := e.hooks.takeDropped(); got != fmt.Sprintf("[%d]", s.client) {
			t.Error(got)
		}
	})
}

// TestLapsed: a client may stay without a lease as long as the role lets it.
func TestLapsed(t *testing.T) {
	run(t, "", session.Config{Lease: time.Minute}, func(t *testing.T, e *env) {
		stays, asked, back := true, 0, 0
		e.s.cfg.Hooks.Lapsed = func(_ time.Time, id nfs4.ClientID) bool {
			asked++
			return stays && id == e.sess.client
		}
		e.s.cfg.Hooks.Renewed = func(id nfs4.ClientID) {
			if id == e.sess.client {
				back++
			}
		}
		expire := func(want, wantAsked, wantBack int) {
			t.Helper()
			if n := e.s.Expire(t.Context(), time.Now()); n != want || asked != wantAsked || back != wantBack {
				t.Errorf("%d expired, %d asked about, %d back; want %d, %d, %d", n, asked, back, want, wantAsked, wantBack)
			}
		}
		e.login(nil)
		expire(0, 0, 0)
		time.Sleep(2 * time.Minute)
		expire(0, 1, 0)
		expire(0, 2, 0)
		e.want("seq", "OK SEQUENCE=OK")
		expire(0, 2, 1)
		e.want("seq", "OK SEQUENCE=OK")
		expire(0, 2, 1) // once
		time.Sleep(2 * time.Minute)
		expire(0, 3, 1)
		e.want("reseq", "OK SEQUENCE=OK") // a retry renews, too
		expire(0, 3, 2)
		time.Sleep(2 * time.Minute)
		expire(0, 4, 2)
		stays = false
		expire(1, 5, 2)
		e.want("seq", "BADSESSION SEQUENCE=BADSESSION")
		if len(e.s.lapsed) != 0 {
			t.Error("something of it is left")
		}
	})
}

// TestReclaimComplete: kept before it is answered, once (RFC 8881 section 18.51).
func TestReclaimComplete(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		s := e.login(nil)
		e.want("seq putfh:a reclaim:fs", "OK SEQUENCE=OK PUTFH=OK RECLAIM_COMPLETE=OK")
		e.hooks.fail = errors.New("no")
		e.want("seq reclaim", "SERVERFAULT SEQUENCE=OK RECLAIM_COMPLETE=SERVERFAULT")
		e.hooks.fail = nil
		e.want("seq reclaim", "OK SEQUENCE=OK RECLAIM_COMPLETE=OK")
		e.want("seq reclaim", "COMPLETE_ALREADY SEQUENCE=OK RECLAIM_COMPLETE=COMPLETE_ALREADY")
		if got := fmt.Sprint(e.hooks.reclaimed); got != fmt.Sprintf("[%d %d]", s.client, s.client) {
			t.Errorf("told: %v; want the failure and the success", got)
		}
	})
}

// TestNoHooks: a role without hooks, log and observer.
func TestNoHooks(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		e.s = New(Config{Sessions: session.New(session.Config{}), Now: time.Now}, newRole().table())
		e.peer = e.dial()
		e.login(nil)
		e.want("cseq reclaim", "OK SEQUENCE=OK RECLAIM_COMPLETE=OK")
		e.want("recseq reclaim", "OK SEQUENCE=OK RECLAIM_COMPLETE=OK")
		e.want("seq panic", "SERVERFAULT SEQUENCE=OK VERIFY=SERVERFAULT")
		e.want("seq destroy", "OK SEQUENCE=OK DESTROY_SESSION=OK")
		e.want("leave", "OK DESTROY_CLIENTID=OK")
	})
}

// TestPanicUnderLock: a panic of what the session table asks does not stop others.
func TestPanicUnderLock(t *testing.T) {
	state := func(nfs4.ClientID) bool { panic("no") }
	run(t, "", session.Config{HasState: state}, func(t *testing.T, e *env) {
		e.login(nil)
		e.want("destroy", "OK DESTROY_SESSION=OK")
		e.want("leave", "SERVERFAULT DESTROY_CLIENTID=SERVERFAULT")
		e.cred.Sys.UID = 77
		e.want("exchange:1", "SERVERFAULT EXCHANGE_ID=SERVERFAULT")
		e.want("exchange:2", "OK EXCHANGE_ID=OK")
	})
}

// TestFlags: what the role flags is in every SEQUENCE reply until it unflags it.
func TestFlags(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		s := e.login(nil)
		flags := func() uint32 { return e.say("seq").last().(*nfs4.SequenceRes).StatusFlags }
		e.s.Flag(s.client, nfs4.SeqStatusLeaseMoved)
		if f := flags(); f != nfs4.SeqStatusLeaseMoved {
			t.Errorf("%#x", f)
		}
		e.s.Unflag(s.client, nfs4.SeqStatusLeaseMoved)
		if f := flags(); f != 0 {
			t.Errorf("%#x", f)
		}
		e.s.Notify(s.client, nfs4.SeqStatusRecallableStateRevoked)
		if f := flags(); f != nfs4.SeqStatusRecallableStateRevoked {
			t.Errorf("news: %#x", f)
		}
		if f := flags(); f != 0 {
			t.Errorf("old news: %#x", f)
		}
	})
}

// TestCredential: what an operation may know of its caller.
func TestCredential(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		e.cred = rpc.Cred{}
		e.login(nil)
		if p := e.hooks.confirmed[0].Principal; p != (session.Principal{}) {
			t.Errorf("%+v", p)
		}
		e.want("seq putfh:a", "OK SEQUENCE=OK PUTFH=OK")
	})
}
