package client

import (
	"context"
	"testing"
	"testing/synctest"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// TestSlotTable: the server's slots go and come again (RFC 8881 section 2.10.6.1).
func TestSlotTable(t *testing.T) {
	s := newSession(nfs4.SessionID{}, nfs4.ChannelAttrs{MaxRequests: 4}, 8)
	take := func(want int) int {
		t.Helper()
		n, ok, err := s.acquire(bg)
		if n != want || !ok || err != nil {
			t.Fatalf("slot %d, %v, %v; want %d", n, ok, err, want)
		}
		return n
	}
	for n := range 4 {
		take(n)
	}
	s.heard(3, 3, 1)
	for n := range 4 {
		s.release(n, true)
	}
	// This one is sent when the target is known. The answer to an earlier one,
	// which says that more are wanted, comes later.
	take(0)
	take(1)
	s.setLimit(2)
	s.heard(1, 3, 3)
	if s.limit != 3 {
		t.Errorf("limit %d after a reply that is older than the last change, want 3", s.limit)
	}
	s.setLimit(1)
	s.release(0, true)
	s.release(1, true)
	take(0)
	s.heard(0, 1, 1) // slots 2 and 3 are gone
	s.release(0, true)
	for n, want := range []uint32{4, 3, 1, 1} {
		if got := s.slots[n].seq; got != want {
			t.Errorf("slot %d goes on at %d, want %d", n, got, want)
		}
	}
	take(0)
	s.heard(0, 7, 20)
	if s.limit != 8 {
		t.Errorf("%d slots, want the 8 that were asked for", s.limit)
	}
	if s.recalled(20); s.limit != 8 {
		t.Errorf("%d slots after a recall of none", s.limit)
	}
	if s.recalled(0); s.limit != 1 {
		t.Errorf("%d slots after a recall of all but one", s.limit)
	}
}

// TestRecallSlot: CB_RECALL_SLOT is obeyed, and answered by a SEQUENCE besides.
func TestRecallSlot(t *testing.T) {
	prepare := func(f *fake, cfg *Config) {
		cfg.Callback = func(context.Context, nfs4.CBOpNum, *xdr.Decoder, *xdr.Encoder) nfs4.Status { return nfs4.ErrNotSupp }
	}
	bubble(t, prepare, func(f *fake, c *Client) {
		id, _ := c.Session()
		before := f.count(&f.lone)
		f.target = 2
		recall := func(sess nfs4.SessionID, seq uint32) nfs4.Status {
			body, err := f.conns[len(f.conns)-1].Call(bg, cbProgram, 1, 1, rpc.Cred{}, func(e *xdr.Encoder) {
				(&nfs4.CBCompoundArgs{MinorVersion: 1, NumOps: 2}).EncodeXDR(e)
				e.Uint32(uint32(nfs4.CBSequence))
				(&nfs4.CBSequenceArgs{SessionID: sess, SequenceID: seq}).EncodeXDR(e)
				e.Uint32(uint32(nfs4.CBRecallSlot))
				(&nfs4.CBRecallSlotArgs{TargetHighestSlotID: 2}).EncodeXDR(e)
			})
			if err != nil {
				t.Fatal(err)
			}
			d := xdr.NewDecoder(body)
			return nfs4.Status(d.Uint32())
		}
		if s := recall(nfs4.SessionID{9}, 1); s != nfs4.ErrBadSession {
			t.Errorf("strange session: %v", s)
		}
		if s := recall(id, 1); s != nfs4.OK {
			t.Error(s)
		}
		synctest.Wait()
		c.mu.Lock()
		limit := c.sess.limit
		c.mu.Unlock()
		if n := f.count(&f.lone); limit != 3 || n != before+1 {
			t.Errorf("%d slots, %d SEQUENCEs; want 3 and one more than %d", limit, n, before)
		}
	})
}
