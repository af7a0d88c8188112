package script_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"manifold/xdr"
	nfs "manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/tcp"
)

// raw is a client whose slots and sequences the story gives. Nothing is sent by
// itself, and nothing again.
type raw struct {
	s       *story
	cred    rpc.Cred
	session nfs4.SessionID

	mu      sync.Mutex
	conn    *rpc.Conn
	last    string              // slot and sequence of the last "send"
	sent    map[string][]nfs.Op // by slot and sequence, the latest
	replies map[string][]byte   // the first to each slot and sequence
}

func newRaw(s *story, a args) *raw {
	r := &raw{s: s, cred: rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{Machine: a.word(1)}}, replies: map[string][]byte{}, sent: map[string][]nfs.Op{}}
	r.dial()
	var id nfs4.ExchangeIDRes
	r.must(nfs.Op{Num: nfs4.OpExchangeID, Args: &nfs4.ExchangeIDArgs{
		ClientOwner: nfs4.ClientOwner{Verifier: nfs4.Verifier{1}, OwnerID: []byte(a.word(1))},
	}, Res: &id})
	attrs := nfs4.ChannelAttrs{
		MaxRequestSize: 1 << 16, MaxResponseSize: 1 << 16, MaxResponseSizeCached: 4096, MaxOperations: 16,
		MaxRequests: uint32(a.num("slots", 4)),
	}
	var sess nfs4.CreateSessionRes
	r.must(nfs.Op{Num: nfs4.OpCreateSession, Args: &nfs4.CreateSessionArgs{
		ClientID: id.ClientID, Sequence: id.SequenceID, ForeChanAttrs: attrs, BackChanAttrs: attrs,
		CBProgram: 0x40000000, SecParms: []nfs4.CallbackSecParms{{Flavor: rpc.AuthNone}},
	}, Res: &sess})
	r.session = sess.SessionID
	r.must(r.sequence(0, 1, false), nfs.Op{Num: nfs4.OpReclaimComplete, Args: &nfs4.ReclaimCompleteArgs{}})
	return r
}

func (r *raw) dial() {
	conn, err := tcp.Dial(context.Background(), r.s.cluster.cfg.Listen, nil, &rpc.Config{})
	check(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn != nil {
		r.conn.Close()
	}
	r.conn = conn
}

func (r *raw) must(ops ...nfs.Op) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, s, err := nfs.Send(ctx, r.conn, r.cred, 1, ops...)
	check(err)
	if s != nfs4.OK {
		panic(broken{s})
	}
}

func (r *raw) sequence(slot, seq uint64, cache bool) nfs.Op {
	return nfs.Op{Num: nfs4.OpSequence, Args: &nfs4.SequenceArgs{
		SessionID: r.session, SlotID: uint32(slot), SequenceID: uint32(seq), HighestSlotID: uint32(slot), CacheThis: cache,
	}, Res: &nfs4.SequenceRes{}}
}

// act runs a command of a raw client's.
func (r *raw) act(a args) string {
	switch a.word(0) {
	case "reconnect":
		r.dial()
		return "ok"
	case "send":
		ops := append([]nfs.Op{r.sequence(a.num("slot", 0), a.num("seq", 0), !a.has("nocache"))}, r.body(a)...)
		r.mu.Lock()
		r.last = place(ops)
		r.sent[r.last] = ops
		r.mu.Unlock()
		return r.send(ops)
	case "again":
		return r.again(a)
	case "await":
		answer := ""
		eventually("the reply", func() bool {
			answer = r.again(a)
			return !strings.HasSuffix(answer, " from SEQUENCE")
		})
		return answer
	}
	panic(broken{fmt.Errorf("no command %q", a.word(0))})
}

// place is a request's slot and sequence.
func place(ops []nfs.Op) string {
	seq := ops[0].Args.(*nfs4.SequenceArgs)
	return fmt.Sprintf("%d/%d", seq.SlotID, seq.SequenceID)
}

// again sends the last request again, or the one that the command names.
func (r *raw) again(a args) string {
	r.mu.Lock()
	key := r.last
	if a.has("seq") {
		key = a.str("slot", "0") + "/" + a.str("seq", "")
	}
	ops := r.sent[key]
	r.mu.Unlock()
	if ops == nil {
		panic(broken{fmt.Errorf("nothing was sent on %s", key)})
	}
	return r.send(ops)
}

// body is what comes behind SEQUENCE.
func (r *raw) body(a args) []nfs.Op {
	if a.word(1) == "nothing" {
		return nil
	}
	ops, name := parent(a.word(2))
	switch a.word(1) {
	case "mkdir":
		return append(ops, makeDir(name))
	case "remove":
		return append(ops, removeOp(name))
	case "lookup":
		return walk(a.word(2))
	case "truncate":
		return append(walk(a.word(2)), resize(nfs4.StateidAnonymous(), size(a.word(3))))
	}
	panic(broken{fmt.Errorf("no operation %q", a.word(1))})
}

// send makes one call and says what became of it, and whether the reply is to
// the byte the one that the same slot and sequence had before.
func (r *raw) send(ops []nfs.Op) string {
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	body, err := conn.Call(ctx, 100003, 4, 1, r.cred, func(e *xdr.Encoder) {
		head := nfs4.CompoundArgs{MinorVersion: 1, NumOps: uint32(len(ops))}
		head.EncodeXDR(e)
		for _, op := range ops {
			e.Uint32(uint32(op.Num))
			if op.Args != nil {
				op.Args.EncodeXDR(e)
			}
		}
	})
	if err != nil {
		return "no reply: the connection is gone"
	}
	d := xdr.NewDecoder(body)
	var head nfs4.CompoundRes
	head.DecodeXDR(&d)
	check(d.Err())
	answer := say(head.Status)
	if n := int(head.NumRes); head.Status != nfs4.OK && n > 0 && n <= len(ops) {
		answer += fmt.Sprintf(" from %v", ops[n-1].Num)
		if n == 1 {
			return answer
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch before := r.replies[place(ops)]; {
	case before == nil:
		r.replies[place(ops)] = body
		return answer
	case bytes.Equal(before, body):
		return answer + ", the same reply"
	}
	return answer + ", another reply"
}
