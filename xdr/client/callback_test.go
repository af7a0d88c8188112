package client

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// callBack sends CB_SEQUENCE and op, with the arguments of a CB_RECALL.
func callBack(t *testing.T, conn *rpc.Conn, seq nfs4.CBSequenceArgs, op nfs4.CBOpNum) (status nfs4.Status, n uint32, body []byte) {
	body, err := conn.Call(bg, cbProgram, 1, 1, rpc.Cred{}, func(e *xdr.Encoder) {
		(&nfs4.CBCompoundArgs{MinorVersion: 1, NumOps: 2}).EncodeXDR(e)
		e.Uint32(uint32(nfs4.CBSequence))
		seq.EncodeXDR(e)
		e.Uint32(uint32(op))
		(&nfs4.CBRecallArgs{FH: nfs4.FH("f")}).EncodeXDR(e)
	})
	if err != nil {
		t.Fatal(err)
	}
	d := xdr.NewDecoder(body)
	var head nfs4.CBCompoundRes
	head.DecodeXDR(&d)
	return head.Status, head.NumRes, body
}

func TestCallback(t *testing.T) {
	var recalled []nfs4.FH
	prepare := func(f *fake, cfg *Config) {
		cfg.Callback = func(ctx context.Context, op nfs4.CBOpNum, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
			if op != nfs4.CBRecall {
				return nfs4.ErrNotSupp
			}
			var a nfs4.CBRecallArgs
			a.DecodeXDR(d)
			recalled = append(recalled, nfs4.FH(bytes.Clone(a.FH)))
			return nfs4.OK
		}
	}
	bubble(t, prepare, func(f *fake, c *Client) {
		session, _ := c.Session()
		call := func(seq nfs4.CBSequenceArgs, op nfs4.CBOpNum) (nfs4.Status, uint32, []byte) {
			return callBack(t, f.conns[len(f.conns)-1], seq, op)
		}
		var cached []byte
		for i, tc := range []struct {
			seq     nfs4.CBSequenceArgs
			op      nfs4.CBOpNum
			want    nfs4.Status
			n       uint32
			recalls int
		}{
			{nfs4.CBSequenceArgs{SequenceID: 1}, nfs4.CBRecall, nfs4.OK, 2, 1},
			{nfs4.CBSequenceArgs{SequenceID: 1}, nfs4.CBRecall, nfs4.ErrRetryUncachedRep, 1, 1},
			{nfs4.CBSequenceArgs{SequenceID: 2, CacheThis: true}, nfs4.CBRecall, nfs4.OK, 2, 2},
			{nfs4.CBSequenceArgs{SequenceID: 2, CacheThis: true}, nfs4.CBRecall, nfs4.OK, 2, 2},
			{nfs4.CBSequenceArgs{SequenceID: 9}, nfs4.CBRecall, nfs4.ErrSeqMisordered, 1, 2},
			{nfs4.CBSequenceArgs{SequenceID: 3}, nfs4.CBNotify, nfs4.ErrNotSupp, 2, 2},
			{nfs4.CBSequenceArgs{SequenceID: 1, SlotID: 15}, nfs4.CBRecall, nfs4.OK, 2, 3},
			{nfs4.CBSequenceArgs{SequenceID: 1, SlotID: 16}, nfs4.CBRecall, nfs4.ErrBadSlot, 1, 3},
		} {
			tc.seq.SessionID = session
			status, n, body := call(tc.seq, tc.op)
			if status != tc.want || n != tc.n || len(recalled) != tc.recalls {
				t.Errorf("%d: %v, %d results, %d recalls", i, status, n, len(recalled))
			}
			if tc.seq.SequenceID == 2 {
				if cached != nil && !bytes.Equal(cached, body) {
					t.Error("the replay differs")
				}
				cached = body
			}
		}
		if status, _, _ := call(nfs4.CBSequenceArgs{SequenceID: 4}, nfs4.CBRecall); status != nfs4.ErrBadSession {
			t.Errorf("strange session: %v", status)
		}
		// The server says that the path is down: it is bound again, both ways.
		f.mu.Lock()
		f.flags = nfs4.SeqStatusCBPathDown
		f.mu.Unlock()
		if err := c.Compound(bg, rpc.Cred{}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(f.binds) != 1 || f.binds[0] != nfs4.BindForeOrBoth {
			t.Errorf("binds %v", f.binds)
		}
		f.flags = 0
	})
}
