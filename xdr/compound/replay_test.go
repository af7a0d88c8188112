package compound

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"manifold/xdr/nfs4"
	"manifold/xdr/session"
)

// TestReplay: exactly once (RFC 8881 section 2.10.6.1).
func TestReplay(t *testing.T) {
	run(t, "same connection", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		first := e.want("cseq putfh:a write:4", "OK SEQUENCE=OK PUTFH=OK WRITE=OK")
		again := e.want("recseq putfh:a write:4", "OK SEQUENCE=OK PUTFH=OK WRITE=OK")
		if n := e.role.runs("WRITE"); n != 1 {
			t.Errorf("WRITE ran %d times", n)
		}
		if a, b := fmt.Sprintf("%+v", first.last()), fmt.Sprintf("%+v", again.last()); a != b || first.size != again.size {
			t.Errorf("first %s, then %s", a, b)
		}
		e.want("seq putfh:a", "OK SEQUENCE=OK PUTFH=OK")
	})
	run(t, "new connection", session.Config{}, func(t *testing.T, e *env) {
		s := e.login(nil)
		e.want("cseq putfh:a write:4 lookup:none", "NOENT SEQUENCE=OK PUTFH=OK WRITE=OK LOOKUP=NOENT")
		e.peer.close()
		p := e.dial()
		p.sess = s
		p.want("recseq putfh:a write:4 lookup:none", "NOENT SEQUENCE=OK PUTFH=OK WRITE=OK LOOKUP=NOENT")
		if n := e.role.runs("WRITE"); n != 1 {
			t.Errorf("WRITE ran %d times", n)
		}
		p.want("seq putfh:a write:4", "OK SEQUENCE=OK PUTFH=OK WRITE=OK")
	})
	run(t, "a part of a compound fails", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		enc := encoderOf(1, "tag", e.parse("cseq putfh:a write:4 lookup:xxxx"))
		cut := enc.Bytes()[:enc.Len()-4]
		for range 2 {
			if r, err := e.raw(cut); err != nil || r.String() != "BADXDR SEQUENCE=OK PUTFH=OK WRITE=OK LOOKUP=BADXDR" {
				t.Errorf("%v, %v", r, err)
			}
		}
		if n := e.role.runs("WRITE"); n != 1 {
			t.Errorf("WRITE ran %d times", n)
		}
	})
}

// TestRetry: what is refused on a slot, and leaves it as it was.
func TestRetry(t *testing.T) {
	for _, tc := range []struct{ name, first, then, want string }{
		{"sole SEQUENCE is kept", "seq", "reseq", "OK SEQUENCE=OK"},
		{"others are not", "seq putfh:a", "reseq putfh:a", "RETRY_UNCACHED_REP SEQUENCE=RETRY_UNCACHED_REP"},
		{"nor for asking later", "seq putfh:a", "recseq putfh:a", "RETRY_UNCACHED_REP SEQUENCE=RETRY_UNCACHED_REP"},
		{"another operation", "cseq putfh:a getfh", "recseq putfh:a savefh", "SEQ_FALSE_RETRY SEQUENCE=SEQ_FALSE_RETRY"},
		{"other arguments", "cseq putfh:a", "recseq putfh:b", "SEQ_FALSE_RETRY SEQUENCE=SEQ_FALSE_RETRY"},
		{"fewer operations", "cseq putfh:a", "recseq", "SEQ_FALSE_RETRY SEQUENCE=SEQ_FALSE_RETRY"},
		{"another, not cached", "seq putfh:a", "reseq putfh:b", "SEQ_FALSE_RETRY SEQUENCE=SEQ_FALSE_RETRY"},
	} {
		run(t, tc.name, session.Config{}, func(t *testing.T, e *env) {
			e.login(nil)
			e.say(tc.first)
			e.want(tc.then, tc.want)
			e.want(tc.then, tc.want)
			e.want("seq putfh:a", "OK SEQUENCE=OK PUTFH=OK")
		})
	}
	run(t, "another user", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		e.say("cseq putfh:a")
		e.cred.Sys.UID++
		e.want("recseq putfh:a", "SEQ_FALSE_RETRY SEQUENCE=SEQ_FALSE_RETRY")
	})
	run(t, "sequence and slot", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		for _, tc := range []struct {
			slot, seq uint32
			want      nfs4.Status
		}{
			{0, 2, nfs4.ErrSeqMisordered}, {0, 0, nfs4.ErrSeqMisordered}, {0, 1, nfs4.OK}, {0, 3, nfs4.ErrSeqMisordered},
			{0, 2, nfs4.OK}, {0, 1, nfs4.ErrSeqMisordered}, {3, 1, nfs4.OK}, {4, 1, nfs4.ErrBadSlot}, {1 << 31, 1, nfs4.ErrBadSlot},
		} {
			if r := e.do(e.sequence(tc.slot, tc.seq, false), e.word("putfh:a")); r.results[0].status != tc.want {
				t.Errorf("slot %d, sequence %d: %v, want %v", tc.slot, tc.seq, r, tc.want)
			}
		}
		e.sess.id[3] ^= 1
		e.want("seq", "BADSESSION SEQUENCE=BADSESSION")
	})
}

// TestInFlight: a duplicate does not wait, and does not run.
func TestInFlight(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		s := e.login(nil)
		done := make(chan reply)
		go func() { done <- e.say("cseq wait") }()
		<-e.role.held
		e.want("recseq wait", "DELAY SEQUENCE=DELAY")
		p := e.dial()
		p.sess = s
		p.want("recseq wait", "DELAY SEQUENCE=DELAY")
		if r := p.do(p.sequence(0, s.slots[0]+1, false)); r.String() != "SEQ_MISORDERED SEQUENCE=SEQ_MISORDERED" {
			t.Errorf("the next one on the slot: %v", r)
		}
		if r := p.do(p.sequence(1, 1, false)); r.status != nfs4.OK {
			t.Errorf("another slot: %v", r)
		}
		close(e.role.hold)
		if r := <-done; r.String() != "OK SEQUENCE=OK ACCESS=OK" {
			t.Error(r)
		}
		p.want("recseq wait", "OK SEQUENCE=OK ACCESS=OK")
		if n := e.role.runs("ACCESS"); n != 1 {
			t.Errorf("ACCESS ran %d times", n)
		}
	})
}

// TestLostConnection: a request outlives its connection, so that the retry
// gets its answer; but not for ever, and then it is DELAY, not the error that
// came of the time's end.
func TestLostConnection(t *testing.T) {
	lose := func(e *env) *peer {
		s := e.login(nil)
		old := e.peer
		go old.conn.Call(context.Background(), Program, Version, procCompound, old.cred, encoderArgs(old, "cseq wait"))
		<-e.role.held
		old.conn.Close()
		synctest.Wait()
		p := e.dial()
		p.sess = s
		p.want("recseq wait", "DELAY SEQUENCE=DELAY")
		return p
	}
	run(t, "soon", session.Config{}, func(t *testing.T, e *env) {
		p := lose(e)
		close(e.role.hold)
		synctest.Wait()
		p.want("recseq wait", "OK SEQUENCE=OK ACCESS=OK")
	})
	run(t, "late", session.Config{}, func(t *testing.T, e *env) {
		p := lose(e)
		time.Sleep(linger - time.Millisecond)
		p.want("recseq wait", "DELAY SEQUENCE=DELAY")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		p.want("recseq wait", "DELAY SEQUENCE=OK ACCESS=DELAY")
		p.want("seq", "OK SEQUENCE=OK")
		if n := e.role.runs("ACCESS"); n != 1 {
			t.Errorf("ACCESS ran %d times", n)
		}
	})
}

// TestClosedConnection: a request that is read when its connection is gone
// does not run, and binds nothing.
func TestClosedConnection(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		s := e.login(nil)
		old := e.peer
		old.close()
		for _, words := range []string{"cseq putfh:a write:4", "bind:3", fmt.Sprintf("newsession:%d", s.client)} {
			reply := e.direct(old, words)
			if reply.status != nfs4.ErrDelay {
				t.Errorf("%s: %v", words, reply)
			}
		}
		if c := e.s.Clients()[0]; c.Conns != 0 || c.Sessions != 1 {
			t.Errorf("%d connections, %d sessions", c.Conns, c.Sessions)
		}
		if len(e.s.conns) != 0 {
			t.Error("a closed connection is remembered")
		}
		p := e.dial()
		p.sess = s
		p.want("recseq putfh:a write:4", "OK SEQUENCE=OK PUTFH=OK WRITE=OK")
	})
}
