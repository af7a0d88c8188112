package wire_test

import (
	"context"
	"testing"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/tcp"
)

// raw is a client that does nothing by itself: one connection, one session, and
// what a test has it send.
type raw struct {
	t     testing.TB
	conn  *rpc.Conn
	minor uint32
	owner []byte
	verf  nfs4.Verifier
	id    nfs4.ExchangeIDRes
	sess  nfs4.CreateSessionRes
	seq   uint32 // of the last request on slot 0
	res   nfs4.SequenceRes
}

// dialRaw connects and makes nothing.
func dialRaw(t testing.TB, addr, owner string, verf byte) *raw {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var conn *rpc.Conn
	eventually(t, "connection", func() (err error) {
		conn, err = tcp.Dial(ctx, addr, nil, &rpc.Config{})
		return err
	})
	t.Cleanup(func() { conn.Close() })
	return &raw{t: t, conn: conn, minor: 1, owner: []byte(owner), verf: nfs4.Verifier{verf}}
}

// newRaw connects and makes a client id and a session, and says nothing about
// reclaiming.
func newRaw(t testing.TB, addr, owner string, verf byte) *raw {
	t.Helper()
	r := dialRaw(t, addr, owner, verf)
	r.exchange()
	r.createSession(8)
	return r
}

// send makes one compound of exactly ops.
func (r *raw) send(ops ...client.Op) (n int, s nfs4.Status) {
	r.t.Helper()
	return r.sendAs(0, ops...)
}

// sendAs is send by a user.
func (r *raw) sendAs(uid uint32, ops ...client.Op) (n int, s nfs4.Status) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, s, err := client.Send(ctx, r.conn, sys(uid, 0), r.minor, ops...)
	if err != nil {
		r.t.Fatalf("%v: %v", names(ops), err)
	}
	return n, s
}

func (r *raw) exchange() nfs4.Status {
	r.t.Helper()
	_, s := r.send(client.Op{Num: nfs4.OpExchangeID, Args: &nfs4.ExchangeIDArgs{
		ClientOwner: nfs4.ClientOwner{OwnerID: r.owner, Verifier: r.verf},
	}, Res: &r.id})
	return s
}

func (r *raw) createSession(slots uint32) {
	r.t.Helper()
	if _, s := r.send(client.Op{Num: nfs4.OpCreateSession, Args: r.sessionArgs(slots), Res: &r.sess}); s != nfs4.OK {
		r.t.Fatalf("CREATE_SESSION: %v", s)
	}
	r.seq = 0
}

func (r *raw) sessionArgs(slots uint32) *nfs4.CreateSessionArgs {
	return &nfs4.CreateSessionArgs{
		ClientID: r.id.ClientID, Sequence: r.id.SequenceID, CBProgram: 0x40000000,
		ForeChanAttrs: nfs4.ChannelAttrs{
			MaxRequestSize: 1 << 20, MaxResponseSize: 1 << 20, MaxResponseSizeCached: 4096, MaxOperations: 16, MaxRequests: slots,
		},
		BackChanAttrs: nfs4.ChannelAttrs{MaxRequestSize: 4096, MaxResponseSize: 4096, MaxOperations: 2, MaxRequests: 1},
		SecParms:      []nfs4.CallbackSecParms{{}},
	}
}

// sequence is SEQUENCE on a slot.
func (r *raw) sequence(slot, seq uint32, cache bool) client.Op {
	return client.Op{Num: nfs4.OpSequence, Args: &nfs4.SequenceArgs{
		SessionID: r.sess.SessionID, SequenceID: seq, SlotID: slot, HighestSlotID: slot, CacheThis: cache,
	}, Res: &r.res}
}

// try runs ops in the session on slot 0.
func (r *raw) try(ops ...client.Op) nfs4.Status {
	r.t.Helper()
	r.seq++
	_, s := r.send(append([]client.Op{r.sequence(0, r.seq, false)}, ops...)...)
	return s
}

func (r *raw) want(want nfs4.Status, ops ...client.Op) {
	r.t.Helper()
	if got := r.try(ops...); got != want {
		r.t.Errorf("%v: %v, want %v", names(ops), got, want)
	}
}

func reclaimComplete() client.Op {
	return client.Op{Num: nfs4.OpReclaimComplete, Args: &nfs4.ReclaimCompleteArgs{}}
}
