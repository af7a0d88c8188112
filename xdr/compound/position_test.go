package compound

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// TestPosition: where operations may stand (RFC 8881 sections 2.10.6.3,
// 15.1.3.3, 15.1.3.5, 18.34.3 to 18.37.3, 18.46.3 and 18.50.3). Every case has a client with a
// session of its own.
func TestPosition(t *testing.T) {
	for _, tc := range []struct {
		minor       uint32
		words, want string
	}{
		{1, "", "OK"},
		{1, "seq", "OK SEQUENCE=OK"},
		{1, "seq putfh:a getattr", "OK SEQUENCE=OK PUTFH=OK GETATTR=OK"},
		{1, "seq putfh:a lookup:none getattr", "NOENT SEQUENCE=OK PUTFH=OK LOOKUP=NOENT"},

		{1, "putfh:a", "OP_NOT_IN_SESSION PUTFH=OP_NOT_IN_SESSION"},
		{1, "putfh:a seq", "OP_NOT_IN_SESSION PUTFH=OP_NOT_IN_SESSION"},
		{1, "ctl", "OP_NOT_IN_SESSION BACKCHANNEL_CTL=OP_NOT_IN_SESSION"},
		{1, "reclaim", "OP_NOT_IN_SESSION RECLAIM_COMPLETE=OP_NOT_IN_SESSION"},
		{1, "setattr", "OP_NOT_IN_SESSION SETATTR=OP_NOT_IN_SESSION"},
		{1, "seq seq", "SEQUENCE_POS SEQUENCE=OK SEQUENCE=SEQUENCE_POS"},
		{1, "seq putfh:a seq getattr", "SEQUENCE_POS SEQUENCE=OK PUTFH=OK SEQUENCE=SEQUENCE_POS"},

		{1, "exchange", "OK EXCHANGE_ID=OK"},
		{1, "seq exchange putfh:a", "OK SEQUENCE=OK EXCHANGE_ID=OK PUTFH=OK"},
		{1, "exchange putfh:a", "NOT_ONLY_OP EXCHANGE_ID=NOT_ONLY_OP"},
		{1, "exchange seq", "NOT_ONLY_OP EXCHANGE_ID=NOT_ONLY_OP"},
		{1, "newsession:9", "STALE_CLIENTID CREATE_SESSION=STALE_CLIENTID"},
		{1, "newsession:9 putfh:a", "NOT_ONLY_OP CREATE_SESSION=NOT_ONLY_OP"},
		{1, "seq newsession:9", "STALE_CLIENTID SEQUENCE=OK CREATE_SESSION=STALE_CLIENTID"},

		{1, "bind:3", "OK BIND_CONN_TO_SESSION=OK"},
		{1, "bind:3 putfh:a", "NOT_ONLY_OP BIND_CONN_TO_SESSION=NOT_ONLY_OP"},
		{1, "seq bind:3", "NOT_ONLY_OP SEQUENCE=OK BIND_CONN_TO_SESSION=NOT_ONLY_OP"},
		{1, "bind:99", "INVAL BIND_CONN_TO_SESSION=INVAL"},

		{1, "destroy", "OK DESTROY_SESSION=OK"},
		{1, "destroy putfh:a", "NOT_ONLY_OP DESTROY_SESSION=NOT_ONLY_OP"},
		{1, "seq destroy", "OK SEQUENCE=OK DESTROY_SESSION=OK"},
		{1, "seq putfh:a destroy", "OK SEQUENCE=OK PUTFH=OK DESTROY_SESSION=OK"},
		{1, "seq destroy putfh:a", "NOT_ONLY_OP SEQUENCE=OK DESTROY_SESSION=NOT_ONLY_OP"},
		{1, "leave", "CLIENTID_BUSY DESTROY_CLIENTID=CLIENTID_BUSY"},
		{1, "seq leave", "CLIENTID_BUSY SEQUENCE=OK DESTROY_CLIENTID=CLIENTID_BUSY"},
		{1, "leave putfh:a", "NOT_ONLY_OP DESTROY_CLIENTID=NOT_ONLY_OP"},
		{1, "seq ctl", "OK SEQUENCE=OK BACKCHANNEL_CTL=OK"},

		// What is no operation of the minor version; what is not supported.
		{1, "op:0", "OP_ILLEGAL ILLEGAL=OP_ILLEGAL"},
		{1, "seq op:0 getfh", "OP_ILLEGAL SEQUENCE=OK ILLEGAL=OP_ILLEGAL"},
		{1, "seq op:2", "OP_ILLEGAL SEQUENCE=OK ILLEGAL=OP_ILLEGAL"},
		{1, "seq op:10044", "OP_ILLEGAL SEQUENCE=OK ILLEGAL=OP_ILLEGAL"},
		{1, "seq op:0xffffffff", "OP_ILLEGAL SEQUENCE=OK ILLEGAL=OP_ILLEGAL"},
		{1, "seq op:76", "OP_ILLEGAL SEQUENCE=OK ILLEGAL=OP_ILLEGAL"},
		{2, "seq op:76", "OP_ILLEGAL SEQUENCE=OK ILLEGAL=OP_ILLEGAL"},
		{1, "seq op:30", "NOTSUPP SEQUENCE=OK RENEW=NOTSUPP"},
		{1, "seq op:35", "NOTSUPP SEQUENCE=OK SETCLIENTID=NOTSUPP"},
		{1, "op:35", "OP_NOT_IN_SESSION SETCLIENTID=OP_NOT_IN_SESSION"},
		{1, "seq allocate", "OP_ILLEGAL SEQUENCE=OK ILLEGAL=OP_ILLEGAL"},
		{2, "seq allocate", "OK SEQUENCE=OK ALLOCATE=OK"},
		{2, "seq op:60", "NOTSUPP SEQUENCE=OK COPY=NOTSUPP"},
		{1, "seq openattr", "OK SEQUENCE=OK OPENATTR=OK"},
		{2, "seq openattr", "NOTSUPP SEQUENCE=OK OPENATTR=NOTSUPP"},

		// Filehandles.
		{1, "seq getattr", "NOFILEHANDLE SEQUENCE=OK GETATTR=NOFILEHANDLE"},
		{1, "seq getfh", "NOFILEHANDLE SEQUENCE=OK GETFH=NOFILEHANDLE"},
		{1, "seq savefh", "NOFILEHANDLE SEQUENCE=OK SAVEFH=NOFILEHANDLE"},
		{1, "seq restorefh", "RESTOREFH SEQUENCE=OK RESTOREFH=RESTOREFH"},
		{1, "seq putfh:a restorefh", "RESTOREFH SEQUENCE=OK PUTFH=OK RESTOREFH=RESTOREFH"},
		{1, "seq putfh:a link", "NOFILEHANDLE SEQUENCE=OK PUTFH=OK LINK=NOFILEHANDLE"},
		{1, "seq putfh:a savefh link", "OK SEQUENCE=OK PUTFH=OK SAVEFH=OK LINK=OK"},
		{1, "seq putfh:a secinfo getfh", "NOFILEHANDLE SEQUENCE=OK PUTFH=OK SECINFO=OK GETFH=NOFILEHANDLE"},
		{1, "seq putfh: getfh", "BADHANDLE SEQUENCE=OK PUTFH=BADHANDLE"},
		{1, "seq reclaim:fs", "NOFILEHANDLE SEQUENCE=OK RECLAIM_COMPLETE=NOFILEHANDLE"},

		// SETATTR says what it set whatever its status; decodeReply checks.
		{1, "seq setattr", "NOFILEHANDLE SEQUENCE=OK SETATTR=NOFILEHANDLE"},
		{1, "seq putfh:a setattr:0", "OK SEQUENCE=OK PUTFH=OK SETATTR=OK"},
		{1, "seq putfh:a setattr:13", "ACCESS SEQUENCE=OK PUTFH=OK SETATTR=ACCESS"},
	} {
		run(t, strings.ReplaceAll(tc.words, " ", "_"), session.Config{}, func(t *testing.T, e *env) {
			e.minor = tc.minor
			e.login(nil)
			e.want(tc.words, tc.want)
		})
	}
}

// TestSetattrArm: the attributes that were set are told with the failure.
func TestSetattrArm(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		if r := e.say("seq putfh:a setattr:28").last().(*nfs4.SetattrRes); !r.AttrsSet.Has(nfs4.AttrSize) {
			t.Error("the role's failure arm is lost")
		}
		if r := e.say("seq setattr:28").last().(*nfs4.SetattrRes); !r.AttrsSet.IsZero() {
			t.Error("an operation that did not run has set something")
		}
	})
}

// TestFrame: minor version, tag, number of operations.
func TestFrame(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		for _, tc := range []struct {
			minor     uint32
			tag, want string
		}{
			{1, "", "OK SEQUENCE=OK"},
			{1, "\u00e9t\u00e9", "OK SEQUENCE=OK"},
			{2, "tag", "OK SEQUENCE=OK"},
			{0, "tag", "MINOR_VERS_MISMATCH"},
			{3, "tag", "MINOR_VERS_MISMATCH"},
			{1 << 31, "tag", "MINOR_VERS_MISMATCH"},
			{1, "\xc3\x28", "INVAL"},
			{1, "\xed\xa0\x80", "INVAL"}, // a surrogate
			{0, "\xff", "MINOR_VERS_MISMATCH"},
		} {
			var enc xdr.Encoder
			encodeOps(&enc, tc.minor, tc.tag, e.parse("seq"))
			r, err := e.raw(enc.Bytes())
			if err != nil || r.String() != tc.want || r.tag != tc.tag {
				t.Errorf("minor %d, tag %q: %v, tag %q, %v", tc.minor, tc.tag, r, r.tag, err)
			}
			if r.status != nfs4.OK {
				e.sess.slots[0]-- // it did not get as far as the session
			}
		}
	})
}

// TestProcedures: what is no COMPOUND.
func TestProcedures(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		for _, tc := range []struct {
			prog, vers, proc uint32
			args             []byte
			want             error
		}{
			{Program, Version, procNull, nil, nil},
			{Program, Version, procNull, make([]byte, 40), nil},
			{Program, 3, 1, nil, rpc.Reject{Stat: rpc.ProgMismatch, Low: 4, High: 4}},
			{Program + 1, Version, 1, nil, rpc.Reject{Stat: rpc.ProgUnavail}},
			{Program, Version, 2, nil, rpc.Reject{Stat: rpc.ProcUnavail}},
			{Program, Version, 1, nil, rpc.Reject{Stat: rpc.GarbageArgs}},
			{Program, Version, 1, make([]byte, 8), rpc.Reject{Stat: rpc.GarbageArgs}},
			{Program, Version, 1, []byte{0xff, 0xff, 0xff, 0xff}, rpc.Reject{Stat: rpc.GarbageArgs}},
		} {
			body, err := e.conn.Call(t.Context(), tc.prog, tc.vers, tc.proc, e.cred, func(e *xdr.Encoder) { e.Raw(tc.args) })
			if !errors.Is(err, tc.want) || len(body) != 0 {
				t.Errorf("%d.%d.%d %x: %x, %v", tc.prog, tc.vers, tc.proc, tc.args, body, err)
			}
		}
	})
}

// TestTruncated cuts a COMPOUND everywhere: what came whole has run and has
// its result, what is cut is BADXDR.
func TestTruncated(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		var enc xdr.Encoder
		ops := e.parse("seq putfh:abcd open:xx write:4")
		ends := []int{} // where operations end
		for i := range ops {
			enc.Truncate(0)
			encodeOps(&enc, 1, "tag", ops[:i+1])
			ends = append(ends, enc.Len())
		}
		size := enc.Len()
		e.sess.slots[0] = 0
		const head = 16
		for cut := head; cut < size; cut += 4 {
			e.sess.slots[0]++
			ops[0].args.(*nfs4.SequenceArgs).SequenceID = e.sess.slots[0]
			enc.Truncate(0)
			encodeOps(&enc, 1, "tag", ops)
			done := 0
			for done < len(ends) && cut >= ends[done] {
				done++
			}
			opens := e.role.runs("OPEN")
			r, err := e.raw(enc.Bytes()[:cut])
			if err != nil || r.status != nfs4.ErrBadXDR || len(r.results) != done+1 {
				t.Errorf("cut at %d: %v, %v; want %d results and BADXDR", cut, r, err, done)
				continue
			}
			if ran := e.role.runs("OPEN") > opens; ran != (done >= 3) {
				t.Errorf("cut at %d: OPEN ran: %v", cut, ran)
			}
			if num := r.results[done].num; num != ops[done].num && num != nfs4.OpIllegal {
				t.Errorf("cut at %d: BADXDR is for %v", cut, num)
			}
			if done == 0 {
				e.sess.slots[0]-- // SEQUENCE failed: the slot has not moved
			}
		}
	})
}

// TestTooManyOps: a count that no session allows, and one that no memory does.
func TestTooManyOps(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		e.want("seq putfh:a getattr getattr getattr getattr getattr getattr getattr", "TOO_MANY_OPS SEQUENCE=TOO_MANY_OPS")
		e.sess.slots[0] = 0
		for _, n := range []uint32{9, 1 << 31, 1<<32 - 1} {
			var enc xdr.Encoder
			encodeOps(&enc, 1, "", e.parse("seq putfh:a"))
			enc.SetUint32(8, n)
			r, err := e.raw(enc.Bytes())
			if err != nil || r.String() != "TOO_MANY_OPS SEQUENCE=TOO_MANY_OPS" {
				t.Errorf("%d operations: %v, %v", n, r, err)
			}
			e.sess.slots[0] = 0
			enc.Truncate(0)
			encodeOps(&enc, 1, "", e.parse("exchange:z"))
			enc.SetUint32(8, n)
			if r, err := e.raw(enc.Bytes()); err != nil || r.status != nfs4.ErrNotOnlyOp {
				t.Errorf("%d operations without a session: %v, %v", n, r, err)
			}
		}
		e.want("seq putfh:a getattr getattr getattr getattr getattr getattr", "OK SEQUENCE=OK PUTFH=OK"+strings.Repeat(" GETATTR=OK", 6))
	})
}

// TestObserver: every result is told once; unknown numbers under one name.
func TestObserver(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		e.obs.take()
		e.say("cseq putfh:a op:4711")
		e.say("recseq putfh:a op:4711")
		synctest.Wait()
		want := "SEQUENCE=OK PUTFH=OK ILLEGAL=OP_ILLEGAL SEQUENCE=OK replay"
		if got := e.obs.take(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	})
}

// TestPanic: a panic is SERVERFAULT, logged, and costs nobody else anything.
func TestPanic(t *testing.T) {
	run(t, "", session.Config{}, func(t *testing.T, e *env) {
		e.login(nil)
		e.want("cseq putfh:a panic getattr", "SERVERFAULT SEQUENCE=OK PUTFH=OK VERIFY=SERVERFAULT")
		e.want("recseq putfh:a panic getattr", "SERVERFAULT SEQUENCE=OK PUTFH=OK VERIFY=SERVERFAULT")
		if n := e.logs.FilterMessage("operation panicked").Len(); n != 1 {
			t.Errorf("%d lines logged", n)
		}
		e.want("seq putfh:a getattr", "OK SEQUENCE=OK PUTFH=OK GETATTR=OK")
		if busy := e.s.Clients()[0].Busy; busy != 0 {
			t.Errorf("%d requests still run", busy)
		}
	})
}
