package wire_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"manifold/xdr"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// TestBadInput sends what no client should. It is not parallel, so that it can
// count goroutines: those of the servers must be as many afterwards as before.
func TestBadInput(t *testing.T) {
	c := newCluster(t, 1)
	good := c.newPeer(t, "good")
	dir := good.dir()
	good.create(dir, "f").write(0, []byte("content"), nfs4.FileSync)
	ds := good.open(dir, "f", 3).layout(nfs4.IOModeRW).dev.Paths[0][0].AddrPort.String()
	good.dialDS(ds)
	before := settled()
	for _, x := range []struct {
		name string
		run  func(t *testing.T, c *cluster, addr string)
	}{
		{"records", badRecords}, {"programs", badPrograms}, {"lengths", badLengths}, {"truncated", truncated},
		{"operations", badOperations}, {"sequences", badSequences}, {"sizes", badSizes}, {"mutated", mutated},
		{"sessions", badSessions},
	} {
		for role, addr := range map[string]string{"mds": c.cfg.Listen, "ds": ds} {
			t.Run(x.name+"/"+role, func(t *testing.T) { x.run(t, c, addr) })
		}
		good.must(putRoot(), getattr(&nfs4.GetattrRes{}, nfs4.AttrType))
	}
	sameBytes(t, "the file after all that", good.open(dir, "f", 1).read(0, 100), []byte("content"))
	eventually(t, "end of the goroutines", func() error {
		if n := settled(); n > before+3 {
			return fmt.Errorf("%d goroutines, there were %d", n, before)
		}
		return nil
	})
}

// settled is the number of goroutines when it does not change any more.
func settled() int {
	n := runtime.NumGoroutine()
	for range 20 {
		time.Sleep(20 * time.Millisecond)
		m := runtime.NumGoroutine()
		if m == n {
			return n
		}
		n = m
	}
	return n
}

// wire is a bare TCP connection.
type wire struct {
	t    *testing.T
	conn net.Conn
}

func dialWire(t *testing.T, addr string) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &wire{t, conn}
}

// send writes bytes as they are. The server may have closed already.
func (w *wire) send(b []byte) {
	_ = w.conn.SetWriteDeadline(time.Now().Add(patience))
	_, _ = w.conn.Write(b)
}

// closed waits until the server closes the connection, without any reply.
func (w *wire) closed() {
	w.t.Helper()
	_ = w.conn.SetReadDeadline(time.Now().Add(patience))
	n, err := w.conn.Read(make([]byte, 1))
	if n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Errorf("the connection stays: %d bytes, %v", n, err)
	}
}

// record frames b.
func record(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(b))), b...)
}

// callBytes is an RPC call with AUTH_NONE.
func callBytes(prog, vers, proc uint32, body []byte) []byte {
	var b []byte
	for _, v := range []uint32{7, 0, 2, prog, vers, proc, 0, 0, 0, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return append(b, body...)
}

func badRecords(t *testing.T, _ *cluster, addr string) {
	for _, x := range []struct {
		what  string
		bytes []byte
	}{
		{"a record of 2 GiB", []byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4}},
		{"a fragment of 2 GiB", []byte{0x7f, 0xff, 0xff, 0xff, 1, 2, 3, 4}},
		{"a record that is too short for a call", record([]byte{1, 2, 3})},
		{"an empty record", record(nil)},
		{"a message that is neither call nor reply", record([]byte{0, 0, 0, 1, 0, 0, 0, 9})},
	} {
		t.Log(x.what)
		w := dialWire(t, addr)
		w.send(x.bytes)
		w.closed()
	}
	// Fragments without an end, until the record is too long.
	w := dialWire(t, addr)
	chunk := append([]byte{0, 1, 0, 0}, make([]byte, 1<<16)...)
	for range 40 {
		w.send(chunk)
	}
	w.closed()
	// A credential of 4 GiB is refused as one, and the connection is good still.
	w = dialWire(t, addr)
	w.send(record(append(callBytes(100003, 4, 0, nil)[:28], 0xff, 0xff, 0xff, 0xff)))
	reply := make([]byte, 24)
	_ = w.conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(w.conn, reply); err != nil || binary.BigEndian.Uint32(reply[12:]) != 1 {
		t.Errorf("a credential of 4 GiB: %x, %v", reply, err)
	}
	// Half a record, and the client goes.
	w = dialWire(t, addr)
	w.send(record(callBytes(100003, 4, 1, make([]byte, 1000)))[:100])
	w.conn.Close()
}

// errorOf makes one call and returns how it was rejected.
func errorOf(t *testing.T, addr string, prog, vers, proc uint32, cred rpc.Cred, body []byte) error {
	t.Helper()
	r := dialRaw(t, addr, "x", 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.conn.Do(ctx, &rpc.Request{Prog: prog, Vers: vers, Proc: proc, Cred: cred, Args: func(e *xdr.Encoder) { e.Raw(body) }})
}

func badPrograms(t *testing.T, _ *cluster, addr string) {
	for _, x := range []struct {
		what             string
		prog, vers, proc uint32
		want             rpc.Stat
	}{
		{"another program", 100005, 3, 0, rpc.ProgUnavail},
		{"version 3", 100003, 3, 0, rpc.ProgMismatch},
		{"version 5", 100003, 5, 0, rpc.ProgMismatch},
		{"procedure 2", 100003, 4, 2, rpc.ProcUnavail},
		{"an empty COMPOUND", 100003, 4, 1, rpc.GarbageArgs},
	} {
		var rej rpc.Reject
		err := errorOf(t, addr, x.prog, x.vers, x.proc, sys(0, 0), nil)
		if !errors.As(err, &rej) || rej.Stat != x.want {
			t.Errorf("%s: %v, want %v", x.what, err, x.want)
		}
		if rej.Stat == rpc.ProgMismatch && (rej.Low != 4 || rej.High != 4) {
			t.Errorf("versions %d to %d", rej.Low, rej.High)
		}
	}
	if err := errorOf(t, addr, 100003, 4, 0, rpc.Cred{}, nil); err != nil {
		t.Errorf("NULL: %v", err)
	}
}

// rawArgs are bytes in the place of an operation's arguments.
type rawArgs []byte

func (a rawArgs) EncodeXDR(e *xdr.Encoder) { e.Raw(a) }

// words is big-endian words.
func words(w ...uint32) rawArgs {
	var b []byte
	for _, v := range w {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// newSession is a raw client that may use its session.
func newSession(t *testing.T, addr string, name string) *raw {
	t.Helper()
	r := newRaw(t, addr, t.Name()+name, 1)
	r.want(nfs4.OK, reclaimComplete())
	t.Cleanup(func() {
		r.send(client.Op{Num: nfs4.OpDestroySession, Args: &nfs4.DestroySessionArgs{SessionID: r.sess.SessionID}})
		r.send(client.Op{Num: nfs4.OpDestroyClientID, Args: &nfs4.DestroyClientIDArgs{ClientID: r.id.ClientID}})
		r.conn.Close()
	})
	return r
}

func isMDS(c *cluster, addr string) bool { return addr == c.cfg.Listen }

func badLengths(t *testing.T, c *cluster, addr string) {
	r := newSession(t, addr, "")
	r.want(nfs4.ErrBadXDR, client.Op{Num: nfs4.OpPutFH, Args: words(129)})
	r.want(nfs4.ErrBadXDR, client.Op{Num: nfs4.OpPutFH, Args: words(1<<32 - 1)})
	r.want(nfs4.ErrBadXDR, client.Op{Num: nfs4.OpPutFH, Args: words(1<<31, 0)})
	if !isMDS(c, addr) {
		return
	}
	root := client.Op{Num: nfs4.OpPutRootFH}
	for _, x := range []struct {
		what string
		num  nfs4.OpNum
		args rawArgs
		want nfs4.Status
	}{
		{"bitmap of 1000 words", nfs4.OpGetattr, words(1000), nfs4.ErrBadXDR},
		{"bitmap of 2^32-1 words", nfs4.OpGetattr, words(1<<32 - 1), nfs4.ErrBadXDR},
		{"name of 2^32-1 bytes", nfs4.OpLookup, words(1<<32 - 1), nfs4.ErrBadXDR},
		{"name that is not there", nfs4.OpLookup, words(200), nfs4.ErrBadXDR},
		{"a million stateids", nfs4.OpTestStateid, words(1 << 20), nfs4.ErrBadXDR},
		{"fattr4 of 2^31 bytes", nfs4.OpSetattr, append(words(0, 0, 0, 0, 1, 1<<4), words(1<<31)...), nfs4.ErrBadXDR},
		{"fattr4 shorter than its attributes", nfs4.OpSetattr, words(0, 0, 0, 0, 1, 1<<4, 4, 0), nfs4.ErrBadXDR},
		{"fattr4 longer than its attributes", nfs4.OpSetattr, words(0, 0, 0, 0, 1, 1<<4, 16, 0, 0, 0, 0), nfs4.ErrBadXDR},
		{"WRITE of 2^32-1 bytes", nfs4.OpWrite, words(0, 0, 0, 0, 0, 0, 2, 1<<32-1), nfs4.ErrBadXDR},
		{"bool of 2", nfs4.OpReclaimComplete, words(2), nfs4.ErrBadXDR},
		{"create mode 9", nfs4.OpOpen, words(0, 1, 0, 0, 0, 0, 1, 9), nfs4.ErrBadXDR},
		{"claim type 99", nfs4.OpOpen, words(0, 1, 0, 0, 0, 0, 0, 99), nfs4.ErrBadXDR},
	} {
		if got := r.try(root, client.Op{Num: x.num, Args: x.args}); got != x.want {
			t.Errorf("%s: %v, want %v", x.what, got, x.want)
		}
	}
	// An attribute that nobody knows, in a well-formed fattr4.
	r.want(nfs4.ErrAttrNotSupp, root, client.Op{Num: nfs4.OpSetattr, Args: words(0, 0, 0, 0, 3, 0, 0, 1<<31, 0), Res: &nfs4.SetattrRes{}})
}

// typical is the operations of a compound as Linux sends it.
func typical(dir nfs4.FH, name string) []client.Op {
	return []client.Op{
		putFH(dir), openOp(creating(openArgs("owner", name, 3), nfs4.CreateHow{Mode: nfs4.CreateUnchecked, Attrs: mode(0o644)}), &nfs4.OpenRes{}),
		getFH(&nfs4.GetFHRes{}), access(0x3f, &nfs4.AccessRes{}), getattr(&nfs4.GetattrRes{}, nfs4.AttrType, nfs4.AttrSize),
		layoutGetOp(layoutGetArgs(nfs4.StateidCurrent(), nfs4.IOModeRW), &nfs4.LayoutGetRes{}),
	}
}

// encodeCompound is the body of a COMPOUND call.
func encodeCompound(minor uint32, ops ...client.Op) []byte {
	var e xdr.Encoder
	h := nfs4.CompoundArgs{MinorVersion: minor, NumOps: uint32(len(ops))}
	h.EncodeXDR(&e)
	for _, o := range ops {
		e.Uint32(uint32(o.Num))
		if o.Args != nil {
			o.Args.EncodeXDR(&e)
		}
	}
	return e.Bytes()
}

// outcome is what became of a COMPOUND that was sent as bytes.
type outcome struct {
	err    error // of the call
	status nfs4.Status
	n      uint32      // results
	first  nfs4.Status // of the first
}

// sendBytes sends a COMPOUND's body.
func (r *raw) sendBytes(body []byte) (o outcome) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o.err = r.conn.Do(ctx, &rpc.Request{
		Prog: 100003, Vers: 4, Proc: 1, Cred: sys(0, 0), Size: len(body),
		Args: func(e *xdr.Encoder) { e.Raw(body) },
		Result: func(d *xdr.Decoder) error {
			var h nfs4.CompoundRes
			h.DecodeXDR(d)
			o.status, o.n = h.Status, h.NumRes
			if o.n > 0 {
				d.Uint32()
				o.first = nfs4.Status(d.Uint32())
			}
			return d.Err()
		},
	})
	if errors.Is(o.err, context.DeadlineExceeded) {
		r.t.Fatal("no answer")
	}
	if o.err == nil && o.n > 0 && o.first == nfs4.OK {
		r.seq++ // SEQUENCE was taken
	}
	return o
}

// truncated sends a compound cut off after every byte.
func truncated(t *testing.T, c *cluster, addr string) {
	r := newSession(t, addr, "")
	ops := []client.Op{putFH(make(nfs4.FH, 48)), readOp(nfs4.StateidAnonymous(), 0, 10, &nfs4.ReadRes{}), commitOp(&nfs4.CommitRes{})}
	if isMDS(c, addr) {
		var fh nfs4.GetFHRes
		r.want(nfs4.OK, putRoot(), getFH(&fh))
		ops = typical(fh.Object, "truncated")
	}
	whole := encodeCompound(1, append([]client.Op{r.sequence(0, r.seq+1, false)}, ops...)...)
	for n := range whole {
		body := encodeCompound(1, append([]client.Op{r.sequence(0, r.seq+1, false)}, ops...)...)[:n]
		o := r.sendBytes(body)
		var rej rpc.Reject
		switch {
		case errors.As(o.err, &rej) && rej.Stat == rpc.GarbageArgs && n < 12:
		case o.err != nil || n < 12:
			t.Fatalf("cut after %d bytes: %+v", n, o)
		case isMDS(c, addr) && o.status != nfs4.ErrBadXDR:
			t.Errorf("cut after %d of %d bytes: %+v", n, len(whole), o)
		case o.status != nfs4.ErrBadXDR && o.status != nfs4.ErrBadHandle:
			t.Errorf("cut after %d of %d bytes: %+v", n, len(whole), o)
		}
	}
	if isMDS(c, addr) {
		r.want(nfs4.OK, ops...)
	}
}

func badOperations(t *testing.T, c *cluster, addr string) {
	r := newSession(t, addr, "")
	// Operations that nobody knows are answered as OP_ILLEGAL.
	for _, num := range []nfs4.OpNum{0, 1, 2, 76, 1000, nfs4.OpIllegal, 1<<32 - 1} {
		if got := r.try(client.Op{Num: num}); got != nfs4.ErrOpIllegal {
			t.Errorf("operation %d: %v", num, got)
		}
	}
	// Those of 4.2 are illegal in 4.1, and at most unsupported in 4.2; those of
	// 4.0 are not supported.
	r.want(nfs4.ErrOpIllegal, client.Op{Num: nfs4.OpSeek, Args: rawArgs(make([]byte, 28))})
	for _, num := range []nfs4.OpNum{nfs4.OpRenew, nfs4.OpSetClientID, nfs4.OpReleaseLockOwner, nfs4.OpOpenConfirm} {
		if got := r.try(client.Op{Num: num, Args: rawArgs(make([]byte, 64))}); got != nfs4.ErrNotSupp {
			t.Errorf("%v: %v", num, got)
		}
	}
	r.want(nfs4.ErrNotSupp, client.Op{Num: nfs4.OpWantDelegation, Args: rawArgs(make([]byte, 64))})
	// What comes before an unsupported operation is done and answered.
	r.seq++
	n, s := r.send(r.sequence(0, r.seq, false), client.Op{Num: nfs4.OpSetSSV, Args: &nfs4.SetSSVArgs{}})
	if n != 2 || s != nfs4.ErrNotSupp {
		t.Errorf("SET_SSV: %d results, %v", n, s)
	}
	if !isMDS(c, addr) {
		for _, op := range []client.Op{putRoot(), lookup("f"), openOp(openArgs("o", "f", 1), nil), remove("f")} {
			if got := r.try(op); got != nfs4.ErrNotSupp {
				t.Errorf("%v at a data server: %v", op.Num, got)
			}
		}
	}
	for _, minor := range []uint32{0, 3, 1<<32 - 1} {
		o := r.sendBytes(encodeCompound(minor, r.sequence(0, r.seq+1, false)))
		if o.err != nil || o.status != nfs4.ErrMinorVersMismatch || o.n != 0 {
			t.Errorf("minor version %d: %+v", minor, o)
		}
	}
	if o := r.sendBytes(encodeCompound(1)); o.err != nil || o.status != nfs4.OK || o.n != 0 {
		t.Errorf("no operations: %+v", o)
	}
	// The place of SEQUENCE and of those that need none.
	send := func(want nfs4.Status, ops ...client.Op) {
		t.Helper()
		if _, got := r.send(ops...); got != want {
			t.Errorf("%v: %v, want %v", names(ops), got, want)
		}
	}
	send(nfs4.ErrOpNotInSession, putFH(nil))
	send(nfs4.ErrOpNotInSession, client.Op{Num: nfs4.OpGetattr, Args: &nfs4.GetattrArgs{}})
	exchange := client.Op{Num: nfs4.OpExchangeID, Args: &nfs4.ExchangeIDArgs{ClientOwner: nfs4.ClientOwner{OwnerID: []byte("o")}}, Res: &nfs4.ExchangeIDRes{}}
	send(nfs4.ErrNotOnlyOp, exchange, exchange)
	r.want(nfs4.ErrSequencePos, r.sequence(0, r.seq+1, false))
	r.want(nfs4.ErrNotOnlyOp, client.Op{Num: nfs4.OpBindConnToSession, Args: &nfs4.BindConnToSessionArgs{SessionID: r.sess.SessionID, Dir: nfs4.BindFore}})
}

func badSequences(t *testing.T, c *cluster, addr string) {
	r := newSession(t, addr, "")
	lone := func(slot, seq uint32) nfs4.Status {
		t.Helper()
		_, s := r.send(r.sequence(slot, seq, false))
		return s
	}
	slots := r.sess.ForeChanAttrs.MaxRequests
	for _, x := range []struct {
		slot, seq uint32
		want      nfs4.Status
	}{
		{0, r.seq + 2, nfs4.ErrSeqMisordered}, {0, r.seq - 1, nfs4.ErrSeqMisordered}, {0, 0, nfs4.ErrSeqMisordered},
		{1, 0, nfs4.ErrSeqMisordered}, {1, 7, nfs4.ErrSeqMisordered},
		{slots, 1, nfs4.ErrBadSlot}, {1<<32 - 1, 1, nfs4.ErrBadSlot},
	} {
		if got := lone(x.slot, x.seq); got != x.want {
			t.Errorf("slot %d, sequence %d: %v, want %v", x.slot, x.seq, got, x.want)
		}
	}
	high := r.sequence(0, r.seq+1, false)
	high.Args.(*nfs4.SequenceArgs).HighestSlotID = slots + 5
	if _, s := r.send(high); s != nfs4.ErrBadHighSlot {
		t.Errorf("highest slot %d: %v", slots+5, s)
	}
	stranger := r.sequence(0, 1, false)
	stranger.Args.(*nfs4.SequenceArgs).SessionID = nfs4.SessionID{1, 2, 3}
	if _, s := r.send(stranger); s != nfs4.ErrBadSession {
		t.Errorf("unknown session: %v", s)
	}
	if !isMDS(c, addr) {
		return
	}
	// A retry gets the cached reply, and the operation runs once.
	var made, replayed nfs4.CreateRes
	create := func(res *nfs4.CreateRes) client.Op {
		op := makeDir(fmt.Sprint("replayed-", t.Name())[:20], 0o755)
		op.Res = res
		return op
	}
	r.seq++
	again := r.seq
	n, s := r.send(r.sequence(0, again, true), putRoot(), create(&made))
	m, s2 := r.send(r.sequence(0, again, true), putRoot(), create(&replayed))
	if s != nfs4.OK || s2 != nfs4.OK || n != m || made != replayed {
		t.Errorf("first %v, retry %v: %+v, %+v", s, s2, made, replayed)
	}
	if _, s := r.send(r.sequence(0, again, true), putRoot(), makeDir("other", 0o755)); s != nfs4.ErrSeqFalseRetry {
		t.Errorf("another request with the sequence of the last: %v", s)
	}
	// One that was not to be cached cannot be repeated.
	r.seq++
	r.send(r.sequence(0, r.seq, false), putRoot(), remove(fmt.Sprint("replayed-", t.Name())[:20]))
	if _, s := r.send(r.sequence(0, r.seq, false), putRoot(), remove(fmt.Sprint("replayed-", t.Name())[:20])); s != nfs4.ErrRetryUncachedRep {
		t.Errorf("retry of what was not cached: %v", s)
	}
}

func badSizes(t *testing.T, c *cluster, addr string) {
	r := newSession(t, addr, "")
	r.exchange()
	small := r.sessionArgs(2)
	small.ForeChanAttrs = nfs4.ChannelAttrs{MaxRequestSize: 2048, MaxResponseSize: 2048, MaxResponseSizeCached: 400, MaxOperations: 8, MaxRequests: 2}
	old := r.sess
	if _, s := r.send(client.Op{Num: nfs4.OpCreateSession, Args: small, Res: &r.sess}); s != nfs4.OK {
		t.Fatalf("small session: %v", s)
	}
	r.seq = 0
	t.Cleanup(func() {
		r.send(client.Op{Num: nfs4.OpDestroySession, Args: &nfs4.DestroySessionArgs{SessionID: old.SessionID}})
	})
	fore := r.sess.ForeChanAttrs
	if fore.MaxRequestSize > 2048 || fore.MaxResponseSize > 2048 || fore.MaxOperations != 8 {
		t.Errorf("granted %+v", fore)
	}
	ops := []client.Op{r.sequence(0, 1, false)}
	for range fore.MaxOperations {
		ops = append(ops, putFH(nil))
	}
	if _, s := r.send(ops...); s != nfs4.ErrTooManyOps {
		t.Errorf("%d operations: %v", len(ops), s)
	}
	r.seq = 0
	big := client.Op{Num: nfs4.OpWrite, Args: &nfs4.WriteArgs{Data: make([]byte, 4096)}}
	if _, s := r.send(r.sequence(0, 1, false), putFH(nil), big); s != nfs4.ErrReqTooBig {
		t.Errorf("request over the session's limit: %v", s)
	}
	if !isMDS(c, addr) {
		return
	}
	p := c.newPeer(t, "fills")
	dir := p.dir()
	o := p.create(dir, "f")
	o.write(0, make([]byte, 100_000), nfs4.FileSync)
	fill(p, dir, 100)
	// READ and READDIR keep to the limit by themselves.
	var rd nfs4.ReadRes
	r.want(nfs4.OK, putFH(o.fh), readOp(nfs4.StateidAnonymous(), 0, 1<<20, &rd))
	if len(rd.Data) == 0 || len(rd.Data) > 2048 {
		t.Errorf("READ of %d bytes in a reply of 2048", len(rd.Data))
	}
	r.want(nfs4.OK, putFH(dir), readdirOp(&nfs4.ReaddirArgs{MaxCount: 1 << 20}, &nfs4.ReaddirRes{}))
	everything := nfs4.Bitmap{1<<32 - 1, 1<<32 - 1, 1<<32 - 1}
	all := client.Op{Num: nfs4.OpGetattr, Args: &nfs4.GetattrArgs{AttrRequest: everything.Without(writeOnly())}, Res: &nfs4.GetattrRes{}}
	r.want(nfs4.ErrRepTooBig, putFH(o.fh), all, all, all, all, all, all)
	r.seq++
	if _, s := r.send(r.sequence(0, r.seq, true), putFH(o.fh), all); s != nfs4.ErrRepTooBigToCache {
		t.Errorf("reply over the limit of the cache: %v", s)
	}
	// What modifies is refused before it is done.
	r.seq++
	most := getattr(&nfs4.GetattrRes{}, nfs4.AttrSupportedAttrs, nfs4.AttrFSID, nfs4.AttrFileID, nfs4.AttrTimeAccess, nfs4.AttrTimeModify,
		nfs4.AttrTimeMetadata, nfs4.AttrTimeCreate, nfs4.AttrSpaceTotal, nfs4.AttrSpaceFree, nfs4.AttrFilehandle)
	if _, s := r.send(r.sequence(0, r.seq, true), putFH(dir), most, getFH(&nfs4.GetFHRes{}), getFH(&nfs4.GetFHRes{}),
		getFH(&nfs4.GetFHRes{}), remove("f")); s != nfs4.ErrRepTooBigToCache {
		t.Errorf("REMOVE whose reply cannot be cached: %v", s)
	}
	p.must(putFH(dir), lookup("f"))
}

// mutated sends compounds with bytes changed at random. Whatever is answered,
// there is an answer or the connection ends, and the server goes on.
func mutated(t *testing.T, c *cluster, addr string) {
	rnd := rand.New(rand.NewPCG(3, 4))
	r := newSession(t, addr, "0")
	ops := []client.Op{putFH(make(nfs4.FH, 48)), readOp(nfs4.StateidAnonymous(), 0, 10, &nfs4.ReadRes{}), commitOp(&nfs4.CommitRes{})}
	if isMDS(c, addr) {
		var fh nfs4.GetFHRes
		r.want(nfs4.OK, putRoot(), makeDir("mutated", 0o777), getFH(&fh))
		ops = append(typical(fh.Object, "f"), readdirOp(&nfs4.ReaddirArgs{MaxCount: 1000, AttrRequest: nfs4.BitmapOf(nfs4.AttrType)}, nil),
			makeDir("x", 0o755), lookupp(), remove("x"), saveFH(), rename("f", "g"), rename("g", "f"))
	}
	for i := range 1500 {
		body := encodeCompound(1, append([]client.Op{r.sequence(0, r.seq+1, false)}, ops...)...)
		for range 1 + rnd.IntN(4) {
			// SEQUENCE stays as it is, or hardly anything behind it would be reached.
			at := 48 + rnd.IntN(len(body)-48)
			body[at] = byte(rnd.Uint32())
			if rnd.IntN(4) == 0 {
				body[at] = 0xff
			}
		}
		o := r.sendBytes(body)
		var rej rpc.Reject
		if o.err != nil && !errors.As(o.err, &rej) {
			t.Fatalf("message %d: %v", i, o.err)
		}
		if o.status == nfs4.ErrServerFault {
			t.Errorf("message %d: SERVERFAULT for %x", i, body)
		}
		if o.err == nil && o.n > 0 && o.first == nfs4.ErrSeqMisordered {
			t.Fatalf("message %d: out of step", i)
		}
	}
}

// badSessions is CREATE_SESSION, DESTROY_* and BIND out of order.
func badSessions(t *testing.T, _ *cluster, addr string) {
	r := newSession(t, addr, "")
	send := func(want nfs4.Status, op client.Op) {
		t.Helper()
		if _, got := r.send(op); got != want {
			t.Errorf("%v: %v, want %v", op.Num, got, want)
		}
	}
	var res nfs4.CreateSessionRes
	args := r.sessionArgs(4)
	args.Sequence += 5
	send(nfs4.ErrSeqMisordered, client.Op{Num: nfs4.OpCreateSession, Args: args, Res: &res})
	args = r.sessionArgs(4)
	args.ClientID ^= 1 << 40
	send(nfs4.ErrStaleClientID, client.Op{Num: nfs4.OpCreateSession, Args: args, Res: &res})
	args = r.sessionArgs(4)
	args.Flags = 1 << 31
	args.Sequence++
	send(nfs4.ErrInval, client.Op{Num: nfs4.OpCreateSession, Args: args, Res: &res})
	args = r.sessionArgs(4)
	args.Sequence++
	args.ForeChanAttrs.MaxResponseSize = 10
	send(nfs4.ErrTooSmall, client.Op{Num: nfs4.OpCreateSession, Args: args, Res: &res})
	// A replay of the first is the first's reply.
	send(nfs4.OK, client.Op{Num: nfs4.OpCreateSession, Args: r.sessionArgs(8), Res: &res})
	if res.SessionID != r.sess.SessionID {
		t.Error("CREATE_SESSION sent again made another session")
	}
	send(nfs4.ErrClientIDBusy, client.Op{Num: nfs4.OpDestroyClientID, Args: &nfs4.DestroyClientIDArgs{ClientID: r.id.ClientID}})
	send(nfs4.ErrStaleClientID, client.Op{Num: nfs4.OpDestroyClientID, Args: &nfs4.DestroyClientIDArgs{ClientID: 12345}})
	send(nfs4.ErrBadSession, client.Op{Num: nfs4.OpDestroySession, Args: &nfs4.DestroySessionArgs{SessionID: nfs4.SessionID{9}}})
	send(nfs4.ErrBadSession, client.Op{Num: nfs4.OpBindConnToSession, Args: &nfs4.BindConnToSessionArgs{SessionID: nfs4.SessionID{9}, Dir: nfs4.BindFore}, Res: &nfs4.BindConnToSessionRes{}})
	send(nfs4.ErrInval, client.Op{Num: nfs4.OpExchangeID, Args: &nfs4.ExchangeIDArgs{
		ClientOwner: nfs4.ClientOwner{OwnerID: []byte("flags")}, Flags: 1 << 31,
	}, Res: &nfs4.ExchangeIDRes{}})
	r.want(nfs4.OK)
}
