package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	dsop "manifold/ds/op"
	"manifold/mds/op"
	"manifold/xdr"
	"manifold/xdr/client"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// request is a COMPOUND's arguments.
func (r *raw) request(ops []client.Op) []byte {
	var e xdr.Encoder
	head := nfs4.CompoundArgs{MinorVersion: r.minor, NumOps: uint32(len(ops))}
	head.EncodeXDR(&e)
	for _, o := range ops {
		e.Uint32(uint32(o.Num))
		if o.Args != nil {
			o.Args.EncodeXDR(&e)
		}
	}
	return e.Bytes()
}

// exchangeOn sends a COMPOUND and returns the reply, both as bytes.
func exchangeOn(conn *rpc.Conn, request []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return conn.Call(ctx, compound.Program, compound.Version, 1, sys(0, 0), func(e *xdr.Encoder) { e.Raw(request) })
}

// again is r on a connection of its own.
func (r *raw) again() *raw {
	r.t.Helper()
	other := *r
	other.conn = dialRaw(r.t, r.conn.RemoteAddr().String(), "", 0).conn
	return &other
}

// retry sends a request until it is no longer under way.
func (r *raw) retry(request []byte) (reply []byte) {
	r.t.Helper()
	eventually(r.t, "end of the first request", func() (err error) {
		if reply, err = exchangeOn(r.again().conn, request); err != nil {
			return err
		}
		if len(reply) >= 20 && binary.BigEndian.Uint32(reply[12:]) == uint32(nfs4.OpSequence) {
			if s := nfs4.Status(binary.BigEndian.Uint32(reply[16:])); s == nfs4.ErrDelay {
				return s
			}
		}
		return nil
	})
	return reply
}

// decode reads a reply to ops into their results. It returns the COMPOUND's
// status and the number of results.
func decode(t testing.TB, reply []byte, ops []client.Op) (nfs4.Status, int) {
	t.Helper()
	d := xdr.NewDecoder(reply)
	var head nfs4.CompoundRes
	head.DecodeXDR(&d)
	for i := range int(head.NumRes) {
		num, s := nfs4.OpNum(d.Uint32()), nfs4.Status(d.Uint32())
		if d.Err() != nil || i >= len(ops) || num != ops[i].Num {
			t.Fatalf("result %d of %v is for %v, %v", i, names(ops), num, d.Err())
		}
		if s == nfs4.OK && ops[i].Res != nil {
			ops[i].Res.DecodeXDR(&d)
		}
	}
	return head.Status, int(head.NumRes)
}

// cutConn is a connection that breaks once a request is sent: at once, or when
// the reply begins to come.
type cutConn struct {
	net.Conn
	late        bool
	wrote, need int
}

func (c *cutConn) Write(b []byte) (int, error) {
	if c.need == 0 {
		c.need = 4 + int(binary.BigEndian.Uint32(b)&^(1<<31))
	}
	n, err := c.Conn.Write(b)
	if c.wrote += n; c.wrote >= c.need && !c.late {
		c.Close()
	}
	return n, err
}

func (c *cutConn) Read(b []byte) (int, error) {
	_, _ = c.Conn.Read(b[:1])
	if c.late {
		c.Close()
	}
	return 0, io.EOF
}

// sendCut sends a request on a connection that breaks before the reply is read.
func (r *raw) sendCut(request []byte, late bool) {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.conn.RemoteAddr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	conn := rpc.NewConn(context.Background(), &cutConn{Conn: nc, late: late}, nil, &rpc.Config{})
	done := make(chan struct{})
	go func() { defer close(done); conn.Serve() }()
	_, _ = exchangeOn(conn, request)
	conn.Close()
	<-done
}

// replayRig is what a case of TestReplayAll has: a client of its own and a
// directory, and another client to look with.
type replayRig struct {
	*raw
	look *peer
	dir  nfs4.FH
}

func newReplayRig(t *testing.T, c *cluster, look *peer, name string, flags uint32) *replayRig {
	t.Helper()
	g := &replayRig{raw: dialRaw(t, c.cfg.Listen, fmt.Sprintf("%s/%s/%d", t.Name(), name, time.Now().UnixNano()), 1), look: look, dir: look.dir()}
	g.minor = 2
	g.exchange()
	a := g.sessionArgs(8)
	a.Flags = flags
	if _, s := g.send(client.Op{Num: nfs4.OpCreateSession, Args: a, Res: &g.sess}); s != nfs4.OK {
		t.Fatal(s)
	}
	return g
}

// do runs ops, which have to succeed.
func (g *replayRig) do(ops ...client.Op) {
	g.t.Helper()
	if s := g.try(ops...); s != nfs4.OK {
		g.t.Fatalf("%v: %v", names(ops), s)
	}
}

// file makes a file and opens it.
func (g *replayRig) file(name string, share uint32) (nfs4.FH, *nfs4.OpenRes) {
	g.t.Helper()
	var fh nfs4.GetFHRes
	res := &nfs4.OpenRes{}
	a := creating(openArgs("owner", name, share), nfs4.CreateHow{Mode: nfs4.CreateGuarded, Attrs: mode(0o666)})
	a.Owner.ClientID = g.id.ClientID
	g.do(putFH(g.dir), openOp(a, res), getFH(&fh))
	return fh.Object, res
}

// change is a look at how often an object was changed.
func (g *replayRig) change(fh nfs4.FH) func() uint64 {
	return func() uint64 {
		g.t.Helper()
		return g.look.stat(fh, nfs4.AttrChange).Change
	}
}

// attempt is one request that is sent more than once.
type attempt struct {
	ops []client.Op
	// look counts what the request changes; nil: its reply shows it.
	look func() uint64
	// then are operations that succeed if the request ran once: they name the
	// stateid of its reply, with its seqid.
	then func() []client.Op
	want nfs4.Status
	// alone: without a SEQUENCE, so that another try is answered with again,
	// which is OK if the operation itself is made for that.
	alone bool
	again nfs4.Status
}

// replayCase is one form of an operation that changes something.
type replayCase struct {
	op    nfs4.OpNum
	name  string
	flags uint32 // of CREATE_SESSION
	make  func(g *replayRig) attempt
}

// run sends a request once and has the reply, sends it again on a new
// connection, and again; with how "late" the first reply is not read, and with
// "cut" nobody knows whether the request arrived. It returns how much was changed.
func (x *replayCase) run(g *replayRig, how string) uint64 {
	t := g.t
	t.Helper()
	a := x.make(g)
	ops := a.ops
	if !a.alone {
		g.seq++
		ops = append([]client.Op{g.sequence(0, g.seq, true)}, ops...)
	}
	look := a.look
	if look == nil {
		look = func() uint64 { return 0 }
	}
	request, before := g.request(ops), look()
	var first []byte
	switch how {
	case "read":
		var err error
		if first, err = exchangeOn(g.conn, request); err != nil {
			t.Fatal(err)
		}
	default:
		g.sendCut(request, how == "late")
	}
	g.conn.Close()
	second := g.retry(request)
	after := look()
	third := g.retry(request)
	if got := look(); got != after {
		t.Errorf("%s: the second retry changed it: %d, then %d", how, after, got)
	}
	if a.look != nil && a.want == nfs4.OK && after == before {
		t.Errorf("%s: nothing was changed", how)
	}
	x.compare(t, &a, ops, how, first, second, third)
	g.raw = g.again()
	if !a.alone {
		g.do() // the slot goes on
	}
	if a.then != nil {
		g.do(a.then()...)
	}
	return after - before
}

func (x *replayCase) compare(t testing.TB, a *attempt, ops []client.Op, how string, first, second, third []byte) {
	t.Helper()
	if !bytes.Equal(second, third) && (!a.alone || a.again == nfs4.OK) {
		t.Errorf("%s: two retries differ:\n%x\n%x", how, second, third)
	}
	if first == nil {
		first = second
	} else if !bytes.Equal(first, second) && (!a.alone || a.again == nfs4.OK) {
		t.Errorf("%s: first reply and retry differ:\n%x\n%x", how, first, second)
	}
	if a.alone {
		if s, _ := decode(t, third, ops); s != a.again {
			t.Errorf("%s: the last answer is %v, want %v", how, s, a.again)
		}
		return
	}
	if s, n := decode(t, first, ops); s != a.want || n != len(ops) {
		t.Errorf("%s: %v after %d of %d operations, want %v", how, s, n, len(ops), a.want)
	}
}

// readOnlyOps are the operations that change nothing, so that running one twice
// does no harm.
var readOnlyOps = []nfs4.OpNum{
	nfs4.OpPutFH, nfs4.OpPutRootFH, nfs4.OpPutPubFH, nfs4.OpLookup, nfs4.OpLookupP, nfs4.OpAccess, nfs4.OpGetattr,
	nfs4.OpVerify, nfs4.OpNVerify, nfs4.OpReadlink, nfs4.OpReaddir, nfs4.OpSecinfo, nfs4.OpSecinfoNoName, nfs4.OpGetXattr,
	nfs4.OpListXattrs, nfs4.OpLockT, nfs4.OpTestStateid, nfs4.OpRead, nfs4.OpGetDeviceInfo, nfs4.OpGetDeviceList,
	nfs4.OpSequence, nfs4.OpSaveFH, nfs4.OpRestoreFH, nfs4.OpGetFH, nfs4.OpSeek,
}

// TestReplayTable walks the servers' own tables: each operation either changes
// nothing, or TestReplayAll has a case of it; a data server's are TestReplayDS's.
func TestReplayTable(t *testing.T) {
	whole := func(role compound.Table) compound.Table {
		return compound.New(compound.Config{Sessions: session.New(session.Config{}), Now: time.Now}, role).Table()
	}
	table := whole(op.New(op.Config{}, op.Parts{}, nfs4.Verifier{}, nil).Table())
	have := map[nfs4.OpNum]bool{}
	for _, x := range replayCases() {
		have[x.op] = true
	}
	for _, n := range readOnlyOps {
		if row, ok := table[n]; !ok || have[n] || row.Flags&compound.Modifies != 0 {
			t.Errorf("%v: no such row, or it has a case, or it says that it modifies", n)
		}
		have[n] = true
	}
	for n := range table {
		if !have[n] {
			t.Errorf("%v has no case in TestReplayAll and is not known to change nothing", n)
		}
	}
	role := dsop.New(dsop.Config{}).Table()
	for n := range whole(role) {
		_, own := role[n]
		tried := slices.Contains([]nfs4.OpNum{nfs4.OpWrite, nfs4.OpCommit, nfs4.OpAllocate, nfs4.OpDeallocate}, n)
		if !have[n] || own && !slices.Contains(readOnlyOps, n) && !tried {
			t.Errorf("%v of the data server has no case in TestReplayDS and is not known to change nothing", n)
		}
	}
}

// TestReplayDS is TestReplayAll for a data server.
func TestReplayDS(t *testing.T) {
	t.Parallel()
	c := shared(t)
	for _, how := range []string{"read", "late", "cut"} {
		p := c.newPeer(t, how)
		pl := p.create(p.dir(), "f").layout(nfs4.IOModeRW)
		at := 0 // the data server of the file's first bytes
		for piece := range pl.body.Stripe.Pieces(0, 5) {
			at = piece.Index
		}
		g := &replayRig{raw: dialRaw(t, pl.dev.Paths[at][0].AddrPort.String(), p.owner, 1)}
		g.minor = 2
		g.exchange()
		g.createSession(4)
		for _, x := range []struct {
			op   client.Op
			want nfs4.Status
		}{
			{allocateOp(pl.o.id, 0, 5), nfs4.ErrNotSupp}, // the metadata server's alone
			{deallocateOp(pl.o.id, 0, 5), nfs4.ErrNotSupp},
			{writeOp(pl.o.id, 0, []byte("bytes"), nfs4.Unstable, &nfs4.WriteRes{}), nfs4.OK},
			{commitOp(&nfs4.CommitRes{}), nfs4.OK},
		} {
			(&replayCase{make: func(*replayRig) attempt {
				return attempt{ops: []client.Op{putFH(pl.body.FHs[at]), x.op}, want: x.want}
			}}).run(g, how)
		}
		sameBytes(t, "what was written", pl.readAll(0, 5, 5), []byte("bytes"))
	}
}

// TestReplayAll sends every operation that changes something again, on another
// connection, as a client does that lost one (RFC 8881 section 2.10.6): the
// answer is the same, byte by byte, and the effect comes once.
func TestReplayAll(t *testing.T) {
	t.Parallel()
	c := shared(t)
	for _, x := range replayCases() {
		t.Run(fmt.Sprintf("%v/%s", x.op, x.name), func(t *testing.T) {
			t.Parallel()
			look := c.newPeer(t, "look")
			changes := map[string]uint64{}
			for _, how := range []string{"read", "late", "cut"} {
				changes[how] = x.run(newReplayRig(t, c, look, how, x.flags), how)
			}
			if changes["late"] != changes["read"] || changes["cut"] != changes["read"] {
				t.Errorf("not the same change each time: %v", changes)
			}
		})
	}
}

// TestReplayReclaim is TestReplayAll for what there is only in grace.
func TestReplayReclaim(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	look := c.newPeer(t, "look")
	for _, how := range []string{"read", "late", "cut"} {
		c.waitGrace()
		g := newReplayRig(t, c, look, how, 0)
		g.do(reclaimComplete())
		fh, _ := g.file("f", nfs4.ShareAccessBoth)
		c.restartMDS()
		g.raw = g.again()
		g.exchange()
		g.createSession(8)
		a := openArgs("owner", "", nfs4.ShareAccessBoth)
		a.Claim = nfs4.OpenClaim{Type: nfs4.ClaimPrevious}
		var res nfs4.OpenRes
		(&replayCase{make: func(*replayRig) attempt {
			return attempt{ops: []client.Op{putFH(fh), openOp(a, &res)}}
		}}).run(g, how)
		lock := &nfs4.LockArgs{LockType: nfs4.LockWrite, Reclaim: true, Length: 10, Locker: nfs4.Locker{
			NewLockOwner: true, OpenStateid: res.Stateid, Owner: nfs4.LockOwner{Owner: []byte("l")},
		}}
		var locked nfs4.LockRes
		(&replayCase{make: func(*replayRig) attempt {
			return attempt{ops: []client.Op{putFH(fh), lockOp(lock, &locked)}}
		}}).run(g, how)
		g.do(reclaimComplete())
		g.do(putFH(fh), unlock10(locked.LockStateid))
		g.do(putFH(fh), closeOp(res.Stateid))
	}
}
