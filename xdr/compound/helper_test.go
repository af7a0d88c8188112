package compound

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// blob is an argument or result of bytes.
type blob struct{ b []byte }

func (x *blob) EncodeXDR(e *xdr.Encoder) { e.Opaque(x.b) }
func (x *blob) DecodeXDR(d *xdr.Decoder) { x.b = d.Opaque(1 << 20) }

// number is an argument of four bytes.
type number struct{ n uint32 }

func (x *number) EncodeXDR(e *xdr.Encoder) { e.Uint32(x.n) }
func (x *number) DecodeXDR(d *xdr.Decoder) { x.n = d.Uint32() }

// role is a table of made-up operations under real numbers, with what they
// did. ACCESS waits for hold, VERIFY panics, READ answers as many bytes as it
// is asked for, and WRITE too whatever its bound says.
type role struct {
	mu     sync.Mutex
	ran    map[string]int
	hold   chan struct{} // ACCESS waits until it is closed
	held   chan struct{} // ACCESS tells that it waits
	ctxErr error         // why ACCESS's wait ended
}

func newRole() *role {
	return &role{ran: map[string]int{}, hold: make(chan struct{}), held: make(chan struct{}, 100)}
}

func (r *role) count(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran[name]++
}

func (r *role) runs(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ran[name]
}

const writeBody = 16

func (r *role) table() Table {
	return Table{
		nfs4.OpPutFH:       {Name: "PUTFH", Flags: ClearsStateid, Minors: V41Up, Run: Args(r.putfh)},
		nfs4.OpLookup:      {Name: "LOOKUP", Flags: NeedsFH | ClearsStateid, Minors: V41Up, Run: Args(r.lookup)},
		nfs4.OpGetattr:     {Name: "GETATTR", Flags: NeedsFH, Minors: V41Up, Run: Handle(r.getattr)},
		nfs4.OpSecinfo:     {Name: "SECINFO", Flags: NeedsFH, Minors: V41Up, Run: Void(r.consume)},
		nfs4.OpOpen:        {Name: "OPEN", Flags: NeedsFH | ClearsStateid | Modifies, Minors: V41Up, ReplyMax: 16, Run: Handle(r.open)},
		nfs4.OpCreate:      {Name: "CREATE", Flags: NeedsFH | ClearsStateid | Modifies, Minors: V41Up, Run: Args(r.lookup)},
		nfs4.OpClose:       {Name: "CLOSE", Flags: NeedsFH, Minors: V41Up, Run: Handle(r.current)},
		nfs4.OpLockU:       {Name: "LOCKU", Flags: NeedsFH, Minors: V41Up, Run: Handle(r.current)},
		nfs4.OpLink:        {Name: "LINK", Flags: NeedsFH | NeedsSavedFH, Minors: V41Up, Run: Void(r.link)},
		nfs4.OpRead:        {Name: "READ", Flags: NeedsFH, Minors: V41Up, Run: r.read},
		nfs4.OpWrite:       {Name: "WRITE", Flags: NeedsFH | Modifies, Minors: V41Up, ReplyMax: writeBody, Run: Handle(r.write)},
		nfs4.OpSetattr:     {Name: "SETATTR", Flags: NeedsFH | Modifies, Minors: V41Up, ReplyMax: 16, Run: Handle(r.setattr)},
		nfs4.OpVerify:      {Name: "VERIFY", Minors: V41Up, Run: r.panics},
		nfs4.OpAccess:      {Name: "ACCESS", Minors: V41Up, Run: Void(r.wait)},
		nfs4.OpAllocate:    {Name: "ALLOCATE", Minors: V42, Run: Void(r.link)},
		nfs4.OpOpenAttr:    {Name: "OPENATTR", Minors: V41Up &^ V42, Run: Void(r.link)},
		nfs4.OpSetClientID: {Name: "SETCLIENTID", Minors: V41Up}, // a row without a function
	}
}

func (r *role) putfh(_ context.Context, c *Call, a *nfs4.PutFHArgs) nfs4.Status {
	if len(a.Object) == 0 {
		return nfs4.ErrBadHandle
	}
	c.SetFH(a.Object, string(a.Object))
	return nfs4.OK
}

func (r *role) lookup(_ context.Context, c *Call, a *blob) nfs4.Status {
	if string(a.b) == "none" {
		return nfs4.ErrNoEnt
	}
	name := c.File.(string) + "/" + string(a.b)
	c.SetFH(nfs4.FH(name), name)
	return nfs4.OK
}

func (r *role) getattr(_ context.Context, c *Call, a *nfs4.GetattrArgs, res *nfs4.GetattrRes) nfs4.Status {
	res.ObjAttributes.Mask.Set(nfs4.AttrSize)
	res.ObjAttributes.Size = uint64(len(c.File.(string)))
	return nfs4.OK
}

func (r *role) consume(_ context.Context, c *Call) nfs4.Status {
	c.SetFH(nil, nil)
	return nfs4.OK
}

// open sets the stateid before the filehandle if its name begins with x.
func (r *role) open(ctx context.Context, c *Call, a *blob, res *nfs4.Stateid) nfs4.Status {
	r.count("OPEN")
	*res = nfs4.Stateid{Seqid: 7, Other: [12]byte{1, byte(len(a.b))}}
	if bytes.HasPrefix(a.b, []byte("x")) {
		c.SetStateid(*res)
		return r.lookup(ctx, c, a)
	}
	s := r.lookup(ctx, c, a)
	c.SetStateid(*res)
	return s
}

func (r *role) current(_ context.Context, c *Call, _ *number, res *nfs4.Stateid) nfs4.Status {
	*res = nfs4.StateidCurrent()
	return c.Resolve(res)
}

func (r *role) link(context.Context, *Call) nfs4.Status { return nfs4.OK }

func (r *role) read(_ context.Context, c *Call, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
	n := int(d.Uint32())
	if d.Err() != nil {
		return BadXDR(d.Err())
	}
	if n > 1<<20 { // as much as there is room for
		n = (c.Room() - 4) &^ 3
	}
	c.Grow(n + 4)
	e.Uint32(uint32(n))
	clear(e.Reserve(n))
	e.Pad(n)
	return nfs4.OK
}

func (r *role) write(_ context.Context, _ *Call, a *number, res *blob) nfs4.Status {
	r.count("WRITE")
	res.b = make([]byte, min(a.n, 1<<20))
	return nfs4.OK
}

func (r *role) setattr(_ context.Context, _ *Call, a *number, res *nfs4.SetattrRes) nfs4.Status {
	res.AttrsSet.Set(nfs4.AttrSize)
	return nfs4.Status(a.n)
}

func (r *role) panics(_ context.Context, _ *Call, _ *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
	e.Uint32(1) // a part of a result, which must not reach the peer
	panic("oh no")
}

func (r *role) wait(ctx context.Context, _ *Call) nfs4.Status {
	r.count("ACCESS")
	r.held <- struct{}{}
	select {
	case <-r.hold:
		return nfs4.OK
	case <-ctx.Done():
		r.ctxErr = ctx.Err()
		return nfs4.ErrIO
	}
}

// env is a Server with connections to it, in a synctest bubble: time stands
// still while something runs, and a goroutine left over fails the test.
type env struct {
	t       testing.TB
	s       *Server
	role    *role
	logs    *observer.ObservedLogs
	obs     *counts
	hooks   hooks
	peers   []*peer
	config  session.Config
	clients int
	*peer   // the first connection
}

// hooks are the role's hooks, as recorded.
type hooks struct {
	mu         sync.Mutex
	confirmed  []session.ClientRecord
	dropped    []nfs4.ClientID
	reclaimed  []nfs4.ClientID
	mayReclaim bool
	fail       error
	during     func() // runs in Confirm
}

type counts struct {
	mu  sync.Mutex
	ops []string
}

func (c *counts) Operation(op nfs4.OpNum, s nfs4.Status, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = append(c.ops, op.String()+"="+short(s))
}

func (c *counts) Replay() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = append(c.ops, "replay")
}

func (c *counts) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := strings.Join(c.ops, " ")
	c.ops = nil
	return all
}

// run runs fn with a Server whose session table is configured by cfg.
func run(t *testing.T, name string, cfg session.Config, fn func(t *testing.T, e *env)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t, cfg)
			defer e.close()
			fn(t, e)
		})
	})
}

func newEnv(t testing.TB, cfg session.Config) *env {
	core, logs := observer.New(zapcore.InfoLevel)
	e := &env{t: t, role: newRole(), logs: logs, obs: &counts{}, config: cfg}
	e.s = New(Config{
		Sessions: session.New(cfg), Observer: e.obs, Log: zap.New(core), Now: time.Now,
		Hooks: Hooks{Confirm: e.hooks.confirm, Drop: e.hooks.drop, ReclaimComplete: e.hooks.reclaim},
	}, e.role.table())
	e.peer = e.dial()
	return e
}

func (e *env) close() {
	for _, p := range e.peers {
		p.close()
	}
}

func (h *hooks) confirm(ctx context.Context, r session.ClientRecord) (bool, error) {
	if h.during != nil {
		h.during()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fail != nil {
		return false, h.fail
	}
	h.confirmed = append(h.confirmed, r)
	return h.mayReclaim, ctx.Err()
}

func (h *hooks) drop(_ context.Context, id nfs4.ClientID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropped = append(h.dropped, id)
}

func (h *hooks) reclaim(_ context.Context, id nfs4.ClientID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reclaimed = append(h.reclaimed, id)
	return h.fail
}

func (h *hooks) takeDropped() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := fmt.Sprint(h.dropped)
	h.dropped = nil
	return d
}

// peer is a client's end of one connection. It answers callbacks with cb.
type peer struct {
	e     *env
	conn  *rpc.Conn
	srv   *rpc.Conn
	cb    func(call *rpc.Call, out *rpc.Reply)
	sess  *sess
	ended sync.WaitGroup
	cred  rpc.Cred
	minor uint32
}

// sess is a client's session. slots hold the sequence id used last.
type sess struct {
	id     nfs4.SessionID
	client nfs4.ClientID
	slots  [4]uint32
	res    nfs4.CreateSessionRes
}

func (p *peer) ServeRPC(_ context.Context, _ *rpc.Conn, call *rpc.Call, out *rpc.Reply) {
	if p.cb == nil {
		out.Reject(rpc.Reject{Stat: rpc.ProgUnavail})
		return
	}
	p.cb(call, out)
}

// dial makes another connection.
func (e *env) dial() *peer {
	a, b := net.Pipe()
	p := &peer{e: e, minor: 1, cred: rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{UID: 10, GIDs: []uint32{}}}}
	p.conn = rpc.NewConn(context.Background(), a, p, &rpc.Config{})
	p.srv = rpc.NewConn(context.Background(), b, e.s, &rpc.Config{})
	p.ended.Go(func() { p.conn.Serve() })
	p.ended.Go(func() { p.srv.Serve() })
	e.peers = append(e.peers, p)
	return p
}

func (p *peer) close() {
	p.conn.Close()
	p.ended.Wait()
	synctest.Wait() // the server has noticed, too
}

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
	case nfs4.OpOpen, nfs4.OpClose, nfs4.OpLockU:
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
	out.Enc.Grow(4 << 10) // Reply.Grow has no pool here
	s.ServeRPC(context.Background(), p.srv, &call, &out)
	if out.Enc.Len() == 0 {
		return reply{size: -1}, nil
	}
	return decodeReply(out.Enc.Bytes())
}
