package compound

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// op is one operation of a request.
type op struct {
	num  nfs4.OpNum
	args CallbackArgs // nil: none
}

// result is one of a reply; body is what decodeBody made of it.
type result struct {
	num    nfs4.OpNum
	status nfs4.Status
	body   any
}

type reply struct {
	status  nfs4.Status
	tag     string
	results []result
	size    int // bytes of the body
}

// short is a status without its prefix.
func short(s nfs4.Status) string {
	return strings.TrimPrefix(strings.TrimPrefix(s.String(), "NFS4ERR_"), "NFS4_")
}

func (r reply) String() string {
	var b strings.Builder
	b.WriteString(short(r.status))
	for _, x := range r.results {
		fmt.Fprintf(&b, " %v=%s", x.num, short(x.status))
	}
	return b.String()
}

// last is the last result's body.
func (r reply) last() any { return r.results[len(r.results)-1].body }

// decodeBody reads what follows an operation's status.
func decodeBody(d *xdr.Decoder, num nfs4.OpNum, s nfs4.Status) any {
	if num == nfs4.OpSetattr {
		var r nfs4.SetattrRes
		r.DecodeXDR(d)
		return &r
	}
	if s != nfs4.OK {
		return nil
	}
	var r interface{ DecodeXDR(*xdr.Decoder) }
	switch num {
	case nfs4.OpSequence:
		r = &nfs4.SequenceRes{}
	case nfs4.OpExchangeID:
		r = &nfs4.ExchangeIDRes{}
	case nfs4.OpCreateSession:
		r = &nfs4.CreateSessionRes{}
	case nfs4.OpBindConnToSession:
		r = &nfs4.BindConnToSessionRes{}
	case nfs4.OpGetFH:
		r = &nfs4.GetFHRes{}
	case nfs4.OpGetattr:
		r = &nfs4.GetattrRes{}
	case nfs4.OpOpen, nfs4.OpClose, nfs4.OpLockU, nfs4.OpFreeStateid:
		r = &nfs4.Stateid{}
	case nfs4.OpRead, nfs4.OpWrite:
		r = &blob{}
	default:
		return nil
	}
	r.DecodeXDR(d)
	return r
}

// decodeReply reads a COMPOUND's result and checks its form: as many results
// as it says, none but the last failed, its status is the whole one's, and
// nothing is left over.
func decodeReply(body []byte) (r reply, err error) {
	d := xdr.NewDecoder(body)
	var h nfs4.CompoundRes
	h.DecodeXDR(&d)
	r = reply{status: h.Status, tag: string(h.Tag), size: len(body)}
	last := h.Status
	for i := range h.NumRes {
		x := result{num: nfs4.OpNum(d.Uint32()), status: nfs4.Status(d.Uint32())}
		x.body = decodeBody(&d, x.num, x.status)
		if d.Err() != nil {
			break
		}
		r.results = append(r.results, x)
		if last = x.status; last != nfs4.OK && i != h.NumRes-1 {
			return r, fmt.Errorf("result %d of %d failed: %v", i, h.NumRes, r)
		}
	}
	switch {
	case d.Err() != nil:
		return r, fmt.Errorf("%v: %w", r, d.Err())
	case last != h.Status:
		return r, fmt.Errorf("status %v, last result %v", h.Status, last)
	case d.Remaining() != 0:
		return r, fmt.Errorf("%v: %d bytes left over", r, d.Remaining())
	}
	return r, nil
}

// encodeOps appends a COMPOUND's arguments.
func encodeOps(e *xdr.Encoder, minor uint32, tag string, ops []op) {
	h := nfs4.CompoundArgs{Tag: []byte(tag), MinorVersion: minor, NumOps: uint32(len(ops))}
	h.EncodeXDR(e)
	for _, o := range ops {
		e.Uint32(uint32(o.num))
		if o.args != nil {
			o.args.EncodeXDR(e)
		}
	}
}

// raw sends the bytes of a COMPOUND's arguments.
func (p *peer) raw(args []byte) (reply, error) {
	body, err := p.conn.Call(context.Background(), Program, Version, procCompound, p.cred, func(e *xdr.Encoder) { e.Raw(args) })
	if err != nil {
		return reply{}, err
	}
	return decodeReply(body)
}

// do sends a COMPOUND.
func (p *peer) do(ops ...op) reply {
	p.e.t.Helper()
	var e xdr.Encoder
	encodeOps(&e, p.minor, "tag", ops)
	r, err := p.raw(e.Bytes())
	if err != nil {
		p.e.t.Fatal(err)
	}
	return r
}

// say sends the COMPOUND that words name, see word.
func (p *peer) say(words string) reply {
	p.e.t.Helper()
	return p.do(p.parse(words)...)
}

func (p *peer) parse(words string) (ops []op) {
	for w := range strings.FieldsSeq(words) {
		ops = append(ops, p.word(w))
	}
	return ops
}

// want is say, and checks the answer's String.
func (p *peer) want(words, want string) reply {
	p.e.t.Helper()
	r := p.say(words)
	if got := r.String(); got != want {
		p.e.t.Errorf("%s:\n got %s\nwant %s", words, got, want)
	}
	return r
}

// word makes an operation of its name, with an argument after a colon. seq is
// SEQUENCE on slot 0 with the next sequence id, cseq the same to be cached,
// reseq and recseq with the same sequence id as before.
func (p *peer) word(w string) op {
	name, arg, _ := strings.Cut(w, ":")
	n, _ := strconv.ParseUint(arg, 0, 32)
	s := p.sess
	if s == nil {
		s = &sess{}
	}
	switch name {
	case "seq", "cseq":
		s.slots[0]++
		return p.sequence(0, s.slots[0], name == "cseq")
	case "reseq", "recseq":
		return p.sequence(0, s.slots[0], name == "recseq")
	case "putfh":
		return op{nfs4.OpPutFH, &nfs4.PutFHArgs{Object: []byte(arg)}}
	case "lookup":
		return op{nfs4.OpLookup, &blob{[]byte(arg)}}
	case "create":
		return op{nfs4.OpCreate, &blob{[]byte(arg)}}
	case "open":
		return op{nfs4.OpOpen, &blob{[]byte(arg)}}
	case "getattr":
		return op{nfs4.OpGetattr, &nfs4.GetattrArgs{}}
	case "close":
		return op{nfs4.OpClose, &number{}}
	case "locku":
		return op{nfs4.OpLockU, &number{}}
	case "free":
		return op{nfs4.OpFreeStateid, &number{}}
	case "read":
		return op{nfs4.OpRead, &number{uint32(n)}}
	case "write":
		return op{nfs4.OpWrite, &number{uint32(n)}}
	case "setattr":
		return op{nfs4.OpSetattr, &number{uint32(n)}}
	case "exchange":
		return op{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{ClientOwner: nfs4.ClientOwner{OwnerID: []byte("o" + arg)}}}
	case "newsession":
		return op{nfs4.OpCreateSession, p.createArgs(nfs4.ClientID(n), 1)}
	case "destroy":
		return op{nfs4.OpDestroySession, &nfs4.DestroySessionArgs{SessionID: s.id}}
	case "leave":
		return op{nfs4.OpDestroyClientID, &nfs4.DestroyClientIDArgs{ClientID: s.client}}
	case "bind":
		return op{nfs4.OpBindConnToSession, &nfs4.BindConnToSessionArgs{SessionID: s.id, Dir: uint32(n)}}
	case "ctl":
		return op{nfs4.OpBackchannelCtl, &nfs4.BackchannelCtlArgs{CBProgram: 1, SecParms: []nfs4.CallbackSecParms{{}}}}
	case "reclaim":
		return op{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{OneFS: arg == "fs"}}
	}
	void := map[string]nfs4.OpNum{
		"getfh": nfs4.OpGetFH, "savefh": nfs4.OpSaveFH, "restorefh": nfs4.OpRestoreFH, "link": nfs4.OpLink,
		"panic": nfs4.OpVerify, "wait": nfs4.OpAccess, "allocate": nfs4.OpAllocate, "secinfo": nfs4.OpSecinfo,
		"openattr": nfs4.OpOpenAttr, "op": nfs4.OpNum(n),
	}
	num, ok := void[name]
	if !ok {
		panic("no operation " + w)
	}
	return op{num, nil}
}

func (p *peer) sequence(slot, seq uint32, cache bool) op {
	a := &nfs4.SequenceArgs{SlotID: slot, SequenceID: seq, HighestSlotID: slot, CacheThis: cache}
	if p.sess != nil {
		a.SessionID = p.sess.id
	}
	return op{nfs4.OpSequence, a}
}

// createArgs asks for what Linux asks for, in small, with callbacks.
func (p *peer) createArgs(id nfs4.ClientID, seq uint32) *nfs4.CreateSessionArgs {
	return &nfs4.CreateSessionArgs{
		ClientID: id, Sequence: seq, Flags: nfs4.CreateSessionFlagConnBackChan,
		ForeChanAttrs: nfs4.ChannelAttrs{MaxRequestSize: 1 << 20, MaxResponseSize: 1 << 20, MaxResponseSizeCached: 2000, MaxOperations: 8, MaxRequests: 4},
		BackChanAttrs: nfs4.ChannelAttrs{MaxRequestSize: 4096, MaxResponseSize: 4096, MaxOperations: 2, MaxRequests: 2},
		CBProgram:     0x40000000,
		SecParms: []nfs4.CallbackSecParms{{Flavor: nfs4.SecFlavorSys, Sys: nfs4.AuthSysParms{
			MachineName: []byte("m5555"), UID: 3, GID: 4, GIDs: []uint32{5},
		}}},
	}
}

// newClient makes a client with an owner of its own.
func (p *peer) newClient() nfs4.ClientID {
	p.e.t.Helper()
	p.e.clients++
	r := p.want(fmt.Sprintf("exchange:%d", p.e.clients), "OK EXCHANGE_ID=OK")
	return r.last().(*nfs4.ExchangeIDRes).ClientID
}

// login makes a client and a session, for which adjust may change the request.
func (p *peer) login(adjust func(*nfs4.CreateSessionArgs)) *sess {
	p.e.t.Helper()
	a := p.createArgs(p.newClient(), 1)
	if adjust != nil {
		adjust(a)
	}
	r := p.do(op{nfs4.OpCreateSession, a})
	if r.status != nfs4.OK {
		p.e.t.Fatalf("CREATE_SESSION: %v", r)
	}
	res := r.last().(*nfs4.CreateSessionRes)
	p.sess = &sess{id: res.SessionID, client: a.ClientID, res: *res}
	return p.sess
}

// encoderOf holds a COMPOUND's arguments.
func encoderOf(minor uint32, tag string, ops []op) *xdr.Encoder {
	e := &xdr.Encoder{}
	encodeOps(e, minor, tag, ops)
	return e
}

// encoderArgs is the arguments that words name, for rpc.Conn.Call.
func encoderArgs(p *peer, words string) func(*xdr.Encoder) {
	args := encoderOf(p.minor, "tag", p.parse(words)).Bytes()
	return func(e *xdr.Encoder) { e.Raw(args) }
}

// direct serves a COMPOUND without the RPC layer, as if it had come from p.
func (e *env) direct(p *peer, words string) reply {
	e.t.Helper()
	r, err := serve(e.s, p, encoderOf(p.minor, "tag", p.parse(words)).Bytes())
	if err != nil {
		e.t.Fatal(err)
	}
	return r
}

// serve has s serve the bytes of a COMPOUND's arguments. A Reject gives a
// reply without results.
func serve(s *Server, p *peer, args []byte) (reply, error) {
	call := rpc.Call{Prog: Program, Vers: Version, Proc: procCompound, Cred: p.cred, Body: xdr.NewDecoder(args), Size: len(args) + 60}
	var out rpc.Reply
	out.Enc.Grow(16 << 10) // Reply.Grow has no pool here
	s.ServeRPC(context.Background(), p.srv, &call, &out)
	if out.Enc.Len() == 0 {
		return reply{size: -1}, nil
	}
	return decodeReply(out.Enc.Bytes())
}
