package client

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// fake is a server with sessions, a reply cache and one file, which does what
// fault says to the nth COMPOUND with a SEQUENCE (from 0).
type fake struct {
	t     testing.TB
	fault func(n int) fault

	mu       sync.Mutex
	n        int
	boots    uint64
	clients  map[nfs4.ClientID]uint32 // next csa_sequence
	sessions map[nfs4.SessionID]*fakeSession
	lastID   uint64
	binds    []uint32
	down     bool // no connection is made
	dials    int
	conns    []*rpc.Conn
	file     []byte
	removed  int // REMOVEs run, which must not run twice
	reclaims int
	busy     int // highest number of slots in use at once
	target   uint32
	flags    uint32
	lone     int           // SEQUENCEs alone
	hold     chan struct{} // REMOVE waits for it
	slots    uint32        // granted at most
	hang     chan struct{} // lone SEQUENCEs wait for it
}

type fakeSession struct {
	client nfs4.ClientID
	slots  []fakeSlot
}

type fakeSlot struct {
	seq   uint32
	busy  bool
	reply []byte
}

// fault is what happens to one COMPOUND.
type fault struct {
	before bool        // the connection breaks before it runs
	after  bool        // it breaks before the reply is sent
	status nfs4.Status // SEQUENCE answers this
	forget bool        // the server restarts first: sessions and clients are gone
	lose   bool        // sessions are gone, clients stay
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, slots: 64, target: 63}
	f.restart()
	return f
}

func (f *fake) restart() {
	f.boots++
	f.clients = map[nfs4.ClientID]uint32{}
	f.sessions = map[nfs4.SessionID]*fakeSession{}
}

// dial is a Config.Dialer over a pipe.
func (f *fake) dial(ctx context.Context, _ string, h rpc.Handler, cfg *rpc.Config) (*rpc.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials++
	if f.down {
		return nil, errors.New("down")
	}
	a, b := net.Pipe()
	server := rpc.NewConn(context.Background(), b, f, &rpc.Config{})
	client := rpc.NewConn(context.Background(), a, h, cfg)
	go server.Serve()
	go client.Serve()
	f.conns = append(f.conns, server)
	return client, nil
}

func (f *fake) ServeRPC(ctx context.Context, conn *rpc.Conn, call *rpc.Call, out *rpc.Reply) {
	d, e := &call.Body, &out.Enc
	var head nfs4.CompoundArgs
	head.DecodeXDR(d)
	start := e.Len()
	e.Uint32(0)
	e.Opaque(nil)
	e.Uint32(head.NumOps)
	run := &fakeRun{f: f, conn: conn, d: d, e: e}
	status := nfs4.OK
	n := uint32(0)
	for ; n < head.NumOps && status == nfs4.OK; n++ {
		op := nfs4.OpNum(d.Uint32())
		e.Uint32(uint32(op))
		at := e.Len()
		e.Uint32(0)
		status = run.op(op, head.NumOps)
		if run.fault.before {
			out.Drop()
			return
		}
		if run.replay != nil {
			e.Truncate(start)
			e.Raw(run.replay)
			return
		}
		if d.Err() != nil {
			f.t.Errorf("%v does not decode: %v", op, d.Err())
		}
		if status != nfs4.OK {
			e.Truncate(at + 4)
		}
		e.SetUint32(at, uint32(status))
	}
	e.SetUint32(start, uint32(status))
	e.SetUint32(start+8, n)
	run.done(e.Bytes()[start:])
	if run.fault.after {
		out.Drop()
	}
}

// fakeRun is one COMPOUND.
type fakeRun struct {
	f      *fake
	conn   *rpc.Conn
	d      *xdr.Decoder
	e      *xdr.Encoder
	slot   *fakeSlot
	cache  bool
	replay []byte
	fault  fault
}

func (r *fakeRun) done(reply []byte) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	if r.slot != nil {
		r.slot.busy = false
		if r.cache {
			r.slot.reply = append([]byte(nil), reply...)
		}
	}
}

func (r *fakeRun) op(op nfs4.OpNum, n uint32) nfs4.Status {
	f, d, e := r.f, r.d, r.e
	f.mu.Lock()
	defer f.mu.Unlock()
	switch op {
	case nfs4.OpSequence:
		return r.sequence(n)
	case nfs4.OpExchangeID:
		var a nfs4.ExchangeIDArgs
		a.DecodeXDR(d)
		id := nfs4.ClientID(f.boots<<32 | 1)
		if f.clients[id] == 0 {
			f.clients[id] = 1
		}
		(&nfs4.ExchangeIDRes{ClientID: id, SequenceID: f.clients[id], Flags: a.Flags}).EncodeXDR(e)
	case nfs4.OpCreateSession:
		return r.createSession()
	case nfs4.OpBindConnToSession:
		var a nfs4.BindConnToSessionArgs
		a.DecodeXDR(d)
		if f.sessions[a.SessionID] == nil {
			return nfs4.ErrBadSession
		}
		f.binds = append(f.binds, a.Dir)
		(&nfs4.BindConnToSessionRes{SessionID: a.SessionID, Dir: nfs4.BindBoth}).EncodeXDR(e)
	case nfs4.OpDestroySession:
		var a nfs4.DestroySessionArgs
		a.DecodeXDR(d)
		delete(f.sessions, a.SessionID)
	case nfs4.OpDestroyClientID:
		var a nfs4.DestroyClientIDArgs
		a.DecodeXDR(d)
		delete(f.clients, a.ClientID)
	case nfs4.OpReclaimComplete:
		d.Bool()
		f.reclaims++
	default:
		return r.fileOp(op)
	}
	return nfs4.OK
}

func (r *fakeRun) createSession() nfs4.Status {
	var a nfs4.CreateSessionArgs
	a.DecodeXDR(r.d)
	f := r.f
	switch seq := f.clients[a.ClientID]; {
	case seq == 0:
		return nfs4.ErrStaleClientID
	case seq != a.Sequence:
		return nfs4.ErrSeqMisordered
	}
	f.clients[a.ClientID]++
	f.lastID++
	var id nfs4.SessionID
	binary.BigEndian.PutUint64(id[:], f.lastID)
	a.ForeChanAttrs.MaxRequests = min(a.ForeChanAttrs.MaxRequests, f.slots)
	f.sessions[id] = &fakeSession{client: a.ClientID, slots: make([]fakeSlot, a.ForeChanAttrs.MaxRequests)}
	(&nfs4.CreateSessionRes{SessionID: id, Sequence: a.Sequence, Flags: a.Flags,
		ForeChanAttrs: a.ForeChanAttrs, BackChanAttrs: a.BackChanAttrs}).EncodeXDR(r.e)
	return nfs4.OK
}

func (r *fakeRun) sequence(n uint32) nfs4.Status {
	f := r.f
	var a nfs4.SequenceArgs
	a.DecodeXDR(r.d)
	if f.fault != nil {
		r.fault = f.fault(f.n)
	}
	f.n++
	if n == 1 {
		f.lone++
		if hang := f.hang; hang != nil {
			f.mu.Unlock()
			<-hang
			f.mu.Lock()
		}
	}
	switch {
	case r.fault.forget:
		f.restart()
	case r.fault.lose:
		clear(f.sessions)
	case r.fault.before:
		return nfs4.OK
	case r.fault.status != 0:
		return r.fault.status
	}
	s := f.sessions[a.SessionID]
	if s == nil {
		return nfs4.ErrBadSession
	}
	if int(a.SlotID) >= len(s.slots) {
		return nfs4.ErrBadSlot
	}
	slot := &s.slots[a.SlotID]
	switch {
	case slot.busy:
		return nfs4.ErrDelay
	case a.SequenceID == slot.seq && slot.reply != nil:
		r.replay = slot.reply
		return nfs4.OK
	case a.SequenceID == slot.seq:
		return nfs4.ErrRetryUncachedRep
	case a.SequenceID != slot.seq+1:
		// One that was read from a connection lost since may come late.
		if n := len(f.conns); n == 0 || f.conns[n-1] == r.conn {
			f.t.Errorf("slot %d: sequence %d after %d", a.SlotID, a.SequenceID, slot.seq)
		}
		return nfs4.ErrSeqMisordered
	}
	*slot = fakeSlot{seq: a.SequenceID, busy: true}
	r.slot, r.cache = slot, a.CacheThis
	used := 0
	for i := range s.slots {
		if s.slots[i].busy {
			used++
		}
	}
	f.busy = max(f.busy, used)
	(&nfs4.SequenceRes{SessionID: a.SessionID, SequenceID: a.SequenceID, SlotID: a.SlotID,
		HighestSlotID: uint32(len(s.slots) - 1), TargetHighestSlotID: f.target, StatusFlags: f.flags}).EncodeXDR(r.e)
	return nfs4.OK
}

// fileOp is an operation on the one file. f.mu is held.
func (r *fakeRun) fileOp(op nfs4.OpNum) nfs4.Status {
	f, d, e := r.f, r.d, r.e
	switch op {
	case nfs4.OpPutFH:
		var a nfs4.PutFHArgs
		a.DecodeXDR(d)
		if string(a.Object) != "file" {
			return nfs4.ErrStale
		}
	case nfs4.OpRead:
		var a nfs4.ReadArgs
		a.DecodeXDR(d)
		p := f.file[min(a.Offset, uint64(len(f.file))):]
		eof := len(p) <= int(a.Count)
		(&nfs4.ReadRes{EOF: eof, Data: p[:min(len(p), int(a.Count))]}).EncodeXDR(e)
	case nfs4.OpWrite:
		var a nfs4.WriteArgs
		a.DecodeXDR(d)
		if end := int(a.Offset) + len(a.Data); end > len(f.file) {
			f.file = append(f.file, make([]byte, end-len(f.file))...)
		}
		copy(f.file[a.Offset:], a.Data)
		(&nfs4.WriteRes{Count: uint32(len(a.Data)), Committed: a.Stable, WriteVerf: nfs4.Verifier{7}}).EncodeXDR(e)
	case nfs4.OpCommit:
		var a nfs4.CommitArgs
		a.DecodeXDR(d)
		(&nfs4.CommitRes{WriteVerf: nfs4.Verifier{7}}).EncodeXDR(e)
	case nfs4.OpRemove:
		var a nfs4.RemoveArgs
		a.DecodeXDR(d)
		f.removed++
		if hold := f.hold; hold != nil {
			f.mu.Unlock()
			<-hold
			f.mu.Lock()
		}
		(&nfs4.RemoveRes{}).EncodeXDR(e)
	default:
		return nfs4.ErrNotSupp
	}
	return nfs4.OK
}

func (f *fake) count(field *int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *field
}

func (f *fake) config() Config {
	return Config{Owner: []byte("test"), Dialer: f.dial, Role: nfs4.ExchgidFlagUsePNFSDS, Renew: time.Hour}
}

func dialFake(t testing.TB, f *fake, cfg Config) *Client {
	t.Helper()
	c, err := Dial(context.Background(), "fake", cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func remove(c *Client, ctx context.Context) error {
	return c.Compound(ctx, rpc.Cred{}, putFH(nfs4.FH("file")),
		Op{Num: nfs4.OpRemove, Args: &nfs4.RemoveArgs{Target: []byte("x")}, Res: &nfs4.RemoveRes{}})
}
