package compound

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// seen is a CB_COMPOUND as the client got it.
type seen struct {
	prog, vers, proc uint32
	cred             rpc.Cred
	head             nfs4.CBCompoundArgs
	seq              nfs4.CBSequenceArgs
	op               nfs4.CBOpNum
	args             nfs4.CBRecallArgs
	rest             int // bytes after the arguments
}

func look(call *rpc.Call) (s seen, err error) {
	s = seen{prog: call.Prog, vers: call.Vers, proc: call.Proc, cred: call.Cred}
	d := &call.Body
	s.head.DecodeXDR(d)
	if n := nfs4.CBOpNum(d.Uint32()); n != nfs4.CBSequence {
		return s, errors.New("no CB_SEQUENCE")
	}
	s.seq.DecodeXDR(d)
	s.op = nfs4.CBOpNum(d.Uint32())
	s.args.DecodeXDR(d)
	s.rest = d.Remaining()
	return s, d.Err()
}

// answers makes a client that answers callbacks with the statuses of
// CB_SEQUENCE and the operation in turn ("OK BADHANDLE"; a single one refuses
// CB_SEQUENCE), the last of them for ever, and sends what it saw to the channel.
func (p *peer) answers(statuses ...string) chan seen {
	got := make(chan seen, 100)
	byName := map[string]nfs4.Status{"OK": nfs4.OK}
	for s := nfs4.Status(1); s < 10200; s++ {
		byName[short(s)] = s
	}
	p.cb = func(call *rpc.Call, out *rpc.Reply) {
		s, err := look(call)
		if err != nil {
			p.e.t.Error(err)
		}
		got <- s
		say := strings.Fields(statuses[0])
		if len(statuses) > 1 {
			statuses = statuses[1:]
		}
		answer(&out.Enc, &s, byName[say[0]], byName[say[len(say)-1]], len(say))
	}
	return got
}

// answer appends a CB_COMPOUND's result.
func answer(e *xdr.Encoder, s *seen, first, last nfs4.Status, n int) {
	h := nfs4.CBCompoundRes{Status: last, NumRes: uint32(n)}
	h.EncodeXDR(e)
	e.Uint32(uint32(nfs4.CBSequence))
	e.Uint32(uint32(first))
	if first != nfs4.OK {
		return
	}
	res := nfs4.CBSequenceRes{SessionID: s.seq.SessionID, SequenceID: s.seq.SequenceID, SlotID: s.seq.SlotID}
	res.EncodeXDR(e)
	e.Uint32(uint32(s.op))
	e.Uint32(uint32(last))
}

var recall = &nfs4.CBRecallArgs{Stateid: nfs4.Stateid{Seqid: 5}, FH: nfs4.FH("handle")}

// call sends a recall to the client of e's session.
func (e *env) call() (nfs4.Status, error) {
	return e.s.Callback(context.Background(), e.sess.client, nfs4.CBRecall, recall, nil)
}

// path says which SEQ4_STATUS bits about the back channel the client sees.
func (p *peer) path() uint32 {
	return p.say("seq").last().(*nfs4.SequenceRes).StatusFlags
}

const pathDown = nfs4.SeqStatusCBPathDown | nfs4.SeqStatusCBPathDownSession

// TestCallback: what is sent (RFC 8881 sections 20.9 and 2.10.4.1).
func TestCallback(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		e.minor = 2
		e.login(nil)
		got := e.answers("OK OK", "OK BADHANDLE", "OK OP_ILLEGAL")
		for i, want := range []nfs4.Status{nfs4.OK, nfs4.ErrBadHandle, nfs4.ErrOpIllegal} {
			if s, err := e.call(); s != want || err != nil {
				t.Errorf("%v, %v; want %v", s, err, want)
			}
			s := <-got
			if s.prog != 0x40000000 || s.vers != 1 || s.proc != 1 || s.head.MinorVersion != 2 || s.head.NumOps != 2 || s.rest != 0 {
				t.Errorf("%+v", s)
			}
			if s.cred.Flavor != rpc.AuthSys || s.cred.Sys.UID != 3 || s.cred.Sys.GID != 4 || len(s.cred.Sys.GIDs) != 1 || s.cred.Sys.Machine != "m5555" {
				t.Errorf("%+v", s.cred)
			}
			q := s.seq
			if q.SessionID != e.sess.id || q.SequenceID != uint32(i+1) || q.SlotID != 0 || q.HighestSlotID != 0 || q.CacheThis || len(q.ReferringCallLists) != 0 {
				t.Errorf("%+v", q)
			}
			if s.op != nfs4.CBRecall || string(s.args.FH) != "handle" || s.args.Stateid != recall.Stateid {
				t.Errorf("%v %+v", s.op, s.args)
			}
		}
		if f := e.path(); f != 0 {
			t.Errorf("flags %#x", f)
		}
		// With requests whose replies it may overtake.
		got = e.answers("OK OK")
		refer := []nfs4.ReferringCallList{{SessionID: e.sess.id, Calls: []nfs4.ReferringCall{{SequenceID: 7, SlotID: 2}, {SequenceID: 9}}}}
		if s, err := e.s.Callback(Referring(context.Background(), refer), e.sess.client, nfs4.CBRecall, recall, nil); s != nfs4.OK || err != nil {
			t.Errorf("%v, %v", s, err)
		}
		if s := <-got; !reflect.DeepEqual(s.seq.ReferringCallLists, refer) || s.op != nfs4.CBRecall {
			t.Errorf("%+v", s.seq)
		}
	})
	run(t, "AUTH_NONE, another connection", session.Config{}, func(t *testing.T, e *env) {
		e.login(func(a *nfs4.CreateSessionArgs) { a.SecParms = []nfs4.CallbackSecParms{{}} })
		p := e.dial()
		p.sess = e.sess
		p.want("bind:2", "OK BIND_CONN_TO_SESSION=OK")
		got := p.answers("OK OK")
		if s, err := e.call(); s != nfs4.OK || err != nil {
			t.Error(s, err)
		}
		if s := <-got; s.cred.Flavor != rpc.AuthNone {
			t.Errorf("%+v", s.cred)
		}
	})
}

// TestCallbackResult: what follows a good status is decoded, and nothing else.
func TestCallbackResult(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		size := nfs4.CBGetattrRes{ObjAttributes: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 77}}
		say, whole := nfs4.OK, true
		e.cb = func(call *rpc.Call, out *rpc.Reply) {
			s, err := look(call)
			if err != nil {
				t.Error(err)
			}
			answer(&out.Enc, &s, nfs4.OK, say, 2)
			if whole {
				size.EncodeXDR(&out.Enc)
			}
		}
		ask := func() (r nfs4.CBGetattrRes, s nfs4.Status, err error) {
			s, err = e.s.Callback(t.Context(), e.sess.client, nfs4.CBRecall, recall, &r)
			return r, s, err
		}
		if r, s, err := ask(); s != nfs4.OK || err != nil || r.ObjAttributes.Size != 77 {
			t.Errorf("%+v, %v, %v", r, s, err)
		}
		say, whole = nfs4.ErrBadHandle, false
		if r, s, err := ask(); s != nfs4.ErrBadHandle || err != nil || r.ObjAttributes.Size != 0 {
			t.Errorf("%+v, %v, %v", r, s, err)
		}
		say = nfs4.OK
		if _, _, err := ask(); err == nil {
			t.Error("a result that is cut off makes sense")
		}
	})
}

// TestCallbackRetry: what CB_SEQUENCE's status makes of a callback. want is
// what Callback returns; seqs are slot:sequence of what was sent.
func TestCallbackRetry(t *testing.T) {
	for _, tc := range []struct {
		name    string
		answers []string
		want    string
		seqs    string
		flags   uint32
	}{
		{"busy", []string{"DELAY", "OK OK"}, "DELAY", "0.1", 0},
		{"out of step by one", []string{"RETRY_UNCACHED_REP", "OK OK"}, "OK", "0.1 0.2", 0},
		{"false retry", []string{"SEQ_FALSE_RETRY", "OK EXIST"}, "EXIST", "0.1 0.2", 0},
		{"for ever", []string{"SEQ_FALSE_RETRY"}, "SEQ_FALSE_RETRY", "0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8", 0},
		{"no session", []string{"BADSESSION"}, "CB_PATH_DOWN", "0.1", pathDown},
		{"misordered", []string{"SEQ_MISORDERED"}, "CB_PATH_DOWN", "0.1", nfs4.SeqStatusCBPathDown | nfs4.SeqStatusBackchannelFault},
		{"no such slot", []string{"BADSLOT"}, "CB_PATH_DOWN", "0.1", nfs4.SeqStatusCBPathDown | nfs4.SeqStatusBackchannelFault},
		{"too big", []string{"REQ_TOO_BIG", "OK OK"}, "REQ_TOO_BIG", "0.1", 0},
	} {
		run(t, tc.name, session.Config{}, func(t *testing.T, e *env) {
			e.login(nil)
			got := e.answers(tc.answers...)
			s, err := e.call()
			var failed nfs4.Status
			if errors.As(err, &failed) {
				s = failed
			}
			if short(s) != tc.want {
				t.Errorf("%v, %v; want %s", s, err, tc.want)
			}
			close(got)
			var seqs []string
			for s := range got {
				seqs = append(seqs, string(rune('0'+s.seq.SlotID))+"."+string(rune('0'+s.seq.SequenceID)))
			}
			if all := strings.Join(seqs, " "); all != tc.seqs {
				t.Errorf("sent %s, want %s", all, tc.seqs)
			}
			if f := e.path(); f != tc.flags {
				t.Errorf("flags %#x, want %#x", f, tc.flags)
			}
		})
	}
}

// TestCallbackNonsense: replies that say nothing of use. If CB_SEQUENCE was
// answered its slot has moved on; if not the path is taken to be down.
func TestCallbackNonsense(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reply func(out *rpc.Reply, s *seen)
		down  bool
		want  error // wrapped
	}{
		{"empty", func(out *rpc.Reply, s *seen) {}, true, nil},
		{"no results and OK", func(out *rpc.Reply, s *seen) { e := &out.Enc; e.Uint32(0); e.Uint32(0); e.Uint32(0) }, true, errCallbackReply},
		{"minor version refused", func(out *rpc.Reply, s *seen) {
			e := &out.Enc
			e.Uint32(uint32(nfs4.ErrMinorVersMismatch))
			e.Uint32(0)
			e.Uint32(0)
		}, false, nfs4.ErrMinorVersMismatch},
		{"another operation", func(out *rpc.Reply, s *seen) {
			e := &out.Enc
			h := nfs4.CBCompoundRes{NumRes: 2}
			h.EncodeXDR(e)
			e.Uint32(4)
			e.Uint32(0)
		}, true, errCallbackReply},
		{"CB_SEQUENCE only", func(out *rpc.Reply, s *seen) { answer(&out.Enc, s, nfs4.OK, nfs4.OK, 1) }, false, errCallbackReply},
		{"cut", func(out *rpc.Reply, s *seen) {
			answer(&out.Enc, s, nfs4.OK, nfs4.OK, 2)
			out.Enc.Truncate(out.Enc.Len() - 4)
		}, false, errCallbackReply},
		{"rejected", func(out *rpc.Reply, s *seen) { out.Reject(rpc.Reject{Stat: rpc.AuthTooWeak}) }, true, rpc.Reject{Stat: rpc.AuthTooWeak}},
		{"dropped", func(out *rpc.Reply, s *seen) { out.Drop() }, true, rpc.ErrClosed},
	} {
		run(t, tc.name, session.Config{}, func(t *testing.T, e *env) {
			e.login(nil)
			e.cb = func(call *rpc.Call, out *rpc.Reply) {
				s, _ := look(call)
				tc.reply(out, &s)
			}
			s, err := e.call()
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("%v, %v; want %v", s, err, tc.want)
			}
			p := e.dial()
			p.sess = e.sess
			if f := p.path(); f != 0 != tc.down {
				t.Errorf("flags %#x", f)
			}
			if tc.down {
				p.want("bind:3", "OK BIND_CONN_TO_SESSION=OK")
				p.answers("RETRY_UNCACHED_REP", "OK OK")
			} else {
				e.answers("OK OK")
			}
			if s, err := e.call(); s != nfs4.OK || err != nil {
				t.Errorf("the next callback: %v, %v", s, err)
			}
		})
	}
}

// TestCallbackPath: without a connection, after one is lost, and again.
func TestCallbackPath(t *testing.T) {
	run(t, "no client", session.Config{}, func(t *testing.T, e *env) {
		if _, err := e.s.Callback(t.Context(), 99, nfs4.CBRecall, recall, nil); !errors.Is(err, nfs4.ErrCBPathDown) {
			t.Error(err)
		}
	})
	run(t, "not wanted", session.Config{}, func(t *testing.T, e *env) {
		e.login(func(a *nfs4.CreateSessionArgs) { a.Flags = 0 })
		if _, err := e.call(); !errors.Is(err, nfs4.ErrCBPathDown) {
			t.Error(err)
		}
		if f := e.path(); f != 0 {
			t.Errorf("flags %#x", f)
		}
	})
	run(t, "lost before", session.Config{}, func(t *testing.T, e *env) {
		s := e.login(nil)
		e.peer.close()
		if _, err := e.call(); !errors.Is(err, nfs4.ErrCBPathDown) {
			t.Error(err)
		}
		p := e.dial()
		p.sess = s
		if f := p.path(); f != pathDown {
			t.Errorf("flags %#x", f)
		}
		p.want("bind:7", "OK BIND_CONN_TO_SESSION=OK")
		if f := p.path(); f != 0 {
			t.Errorf("flags %#x", f)
		}
		p.answers("OK OK")
		if s, err := e.call(); s != nfs4.OK || err != nil {
			t.Error(s, err)
		}
	})
	run(t, "lost during", session.Config{}, func(t *testing.T, e *env) {
		s := e.login(nil)
		e.cb = func(call *rpc.Call, out *rpc.Reply) { e.conn.Close() }
		if _, err := e.call(); !errors.Is(err, rpc.ErrClosed) {
			t.Error(err)
		}
		synctest.Wait()
		p := e.dial()
		p.sess = s
		if f := p.path(); f != pathDown {
			t.Errorf("flags %#x", f)
		}
	})
}

// TestCallbackGivenUp: callbacks that end without an answer, or before they are sent.
func TestCallbackGivenUp(t *testing.T) {
	run(t, "the context ends", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		free := make(chan struct{})
		e.cb = func(call *rpc.Call, out *rpc.Reply) { <-free }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.s.Callback(ctx, e.sess.client, nfs4.CBRecall, recall, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		close(free)
		if f := e.path(); f != pathDown {
			t.Errorf("flags %#x", f)
		}
	})
	run(t, "ended before", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.s.Callback(ctx, e.sess.client, nfs4.CBRecall, recall, nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if f := e.path(); f != 0 {
			t.Errorf("flags %#x: nothing was sent", f)
		}
	})
	run(t, "does not fit", session.Config{}, func(t *testing.T, e *env) {
		const size = cbFrame + 5*4 + 8 + 4 + 4*4 + 4 + 36 + 4
		e.login(func(a *nfs4.CreateSessionArgs) { a.BackChanAttrs.MaxRequestSize = size + 16 + 4 + 4 + 8 })
		got := e.answers("OK OK")
		if s, err := e.call(); s != nfs4.OK || err != nil {
			t.Error(s, err)
		}
		e.s.mu.Lock()
		conn := e.s.conns[e.srv.ID()].conn
		e.s.mu.Unlock()
		if conn != e.srv {
			t.Error("not over the session's connection")
		}
		longer := &nfs4.CBRecallArgs{FH: nfs4.FH("handle of mine")}
		if _, err := e.s.Callback(t.Context(), e.sess.client, nfs4.CBRecall, longer, nil); !errors.Is(err, nfs4.ErrReqTooBig) {
			t.Error(err)
		}
		if s, err := e.call(); s != nfs4.OK || err != nil || len(got) != 2 {
			t.Errorf("%v, %v; %d were sent", s, err, len(got))
		}
	})
}

// TestCallbackSlots: more callbacks than slots wait for one, and are let go
// when one is free, when the connection breaks, and when their time is over.
func TestCallbackSlots(t *testing.T) {
	start := func(e *env, n int) (free chan struct{}, most *int, done chan error) {
		e.login(nil)
		free, done, most = make(chan struct{}), make(chan error, n), new(int)
		running := 0
		e.cb = func(call *rpc.Call, out *rpc.Reply) {
			e.role.mu.Lock()
			running++
			*most = max(*most, running)
			e.role.mu.Unlock()
			<-free
			e.role.mu.Lock()
			running--
			e.role.mu.Unlock()
			s, _ := look(call)
			answer(&out.Enc, &s, nfs4.OK, nfs4.OK, 2)
		}
		for range n {
			go func() { _, err := e.call(); done <- err }()
		}
		synctest.Wait()
		return free, most, done
	}
	run(t, "free", session.Config{}, func(t *testing.T, e *env) {
		free, most, done := start(e, 20)
		close(free)
		for range 20 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if *most != 2 {
			t.Errorf("%d at once over 2 slots", *most)
		}
	})
	run(t, "broken", session.Config{}, func(t *testing.T, e *env) {
		free, _, done := start(e, 20)
		e.conn.Close()
		for range 20 {
			if err := <-done; !errors.Is(err, nfs4.ErrCBPathDown) && !errors.Is(err, rpc.ErrClosed) {
				t.Error(err)
			}
		}
		close(free)
	})
	run(t, "over", session.Config{}, func(t *testing.T, e *env) {
		free, _, done := start(e, 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.s.Callback(ctx, e.sess.client, nfs4.CBRecall, recall, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		close(free)
		if err := errors.Join(<-done, <-done); err != nil {
			t.Error(err)
		}
		if f := e.path(); f != 0 {
			t.Errorf("flags %#x: who waited for a slot has lost nothing", f)
		}
	})
}

// TestDeadConnection: a connection that the sessions have and the server has
// not is no way to the client: another one is taken, and who waits is woken.
func TestDeadConnection(t *testing.T) {
	forget := func(e *env, p *peer) (freed chan struct{}) {
		e.s.mu.Lock()
		defer e.s.mu.Unlock()
		delete(e.s.conns, p.srv.ID())
		freed = make(chan struct{})
		e.s.freed = freed
		return freed
	}
	run(t, "one of two", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		p := e.dial()
		p.sess = e.sess
		p.want("bind:3", "OK BIND_CONN_TO_SESSION=OK") // taken first
		e.answers("OK OK")
		forget(e, p)
		if s, err := e.call(); s != nfs4.OK || err != nil {
			t.Error(s, err)
		}
		if f := e.path(); f != 0 {
			t.Errorf("flags %#x", f)
		}
	})
	run(t, "the only one", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		freed := forget(e, e.peer)
		if _, err := e.call(); !errors.Is(err, nfs4.ErrCBPathDown) {
			t.Error(err)
		}
		<-freed
		if f := e.path(); f != pathDown {
			t.Errorf("flags %#x", f)
		}
	})
}
