package wire_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/session"
)

// first is the status of SEQUENCE, or whatever comes first, in a reply.
func first(t testing.TB, reply []byte) nfs4.Status {
	t.Helper()
	if len(reply) < 20 {
		t.Fatalf("reply %x", reply)
	}
	return nfs4.Status(uint32(reply[16])<<24 | uint32(reply[17])<<16 | uint32(reply[18])<<8 | uint32(reply[19]))
}

// bytes sends a request as bytes.
func (r *raw) bytes(request []byte) []byte {
	r.t.Helper()
	b, err := exchangeOn(r.conn, request)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// step sends ops on a slot with a sequence id, to be cached, and returns what
// SEQUENCE says.
func (r *raw) step(slot, seq uint32, ops ...client.Op) nfs4.Status {
	r.t.Helper()
	return first(r.t, r.bytes(r.request(append([]client.Op{r.sequence(slot, seq, true)}, ops...))))
}

// TestDuplicateInFlight: the same request on another connection while it runs is
// told to wait, wherever it comes from; when it is done it has its answer, and
// it ran once (RFC 8881 section 2.10.6.1).
func TestDuplicateInFlight(t *testing.T) {
	t.Parallel()
	e := newEngine(t, session.Config{})
	r := newRaw(t, e.addr, t.Name(), 1)
	request := r.request([]client.Op{r.sequence(0, 1, true), wait(), bump()})
	answer := make(chan []byte, 1)
	go func() {
		b, err := exchangeOn(r.conn, request)
		if err != nil {
			t.Error(err)
		}
		answer <- b
	}()
	<-e.running
	other := r.again()
	for _, on := range []*raw{r, other, r.again()} {
		if s := first(t, on.bytes(request)); s != nfs4.ErrDelay {
			t.Errorf("while it runs: %v", s)
		}
		if s := on.step(0, 2, bump()); s != nfs4.ErrSeqMisordered {
			t.Errorf("the next one while it runs: %v", s)
		}
	}
	if s := other.step(1, 1, bump()); s != nfs4.OK {
		t.Errorf("another slot: %v", s)
	}
	close(e.hold)
	done := <-answer
	for _, on := range []*raw{r, other, r.again()} {
		if again := on.bytes(request); !bytes.Equal(again, done) {
			t.Errorf("first %x, then %x", done, again)
		}
	}
	if n := e.verify.Load(); n != 2 {
		t.Errorf("ran %d times", n)
	}
}

// TestDuplicateAfterCut: the connection breaks while the request runs.
func TestDuplicateAfterCut(t *testing.T) {
	t.Parallel()
	e := newEngine(t, session.Config{})
	r := newRaw(t, e.addr, t.Name(), 1)
	request := r.request([]client.Op{r.sequence(0, 1, true), wait(), bump()})
	cut := make(chan struct{})
	go func() { defer close(cut); _, _ = exchangeOn(r.conn, request) }()
	<-e.running
	r.conn.Close()
	<-cut
	r = r.again()
	if s := first(t, r.bytes(request)); s != nfs4.ErrDelay {
		t.Errorf("while it runs: %v", s)
	}
	close(e.hold)
	b := r.retry(request)
	if s, n := decode(t, b, []client.Op{r.sequence(0, 1, true), wait(), bump()}); s != nfs4.OK || n != 3 {
		t.Errorf("afterwards: %v, %d results", s, n)
	}
	if n := e.verify.Load(); n != 1 {
		t.Errorf("ran %d times", n)
	}
}

// TestReordered: requests come out of order, late, and with sequence ids that
// are not due. What is refused leaves the slot as it is.
func TestReordered(t *testing.T) {
	t.Parallel()
	e := newEngine(t, session.Config{})
	r := newRaw(t, e.addr, t.Name(), 1)
	on := []*raw{r, r.again(), r.again()}
	for i, x := range []struct {
		slot, seq uint32
		want      nfs4.Status
	}{
		{0, 2, nfs4.ErrSeqMisordered},    // the second overtook the first
		{0, 1, nfs4.OK}, {0, 2, nfs4.OK}, // sent again
		{0, 1, nfs4.ErrSeqMisordered},         // a duplicate of the first, late
		{0, 4, nfs4.ErrSeqMisordered},         // two ahead
		{0, 0, nfs4.ErrSeqMisordered},         // two behind
		{0, 1 << 31, nfs4.ErrSeqMisordered},   // far ahead
		{0, 1<<32 - 1, nfs4.ErrSeqMisordered}, // far behind
		{2, 1, nfs4.OK}, {1, 1, nfs4.OK},      // slots have no order among them
		{0, 2, nfs4.OK}, {0, 3, nfs4.OK}, // a replay, then the next
		{2, 3, nfs4.ErrSeqMisordered}, {2, 2, nfs4.OK},
		{8, 1, nfs4.ErrBadSlot}, {1<<32 - 1, 1, nfs4.ErrBadSlot},
	} {
		if got := on[i%3].step(x.slot, x.seq, bump()); got != x.want {
			t.Errorf("%d: slot %d, sequence %d: %v, want %v", i, x.slot, x.seq, got, x.want)
		}
	}
	if n := e.verify.Load(); n != 6 {
		t.Errorf("ran %d times, want 6", n)
	}
}

// TestHighestSlot: sa_highest_slotid above what there is, is NFS4ERR_BAD_HIGH_SLOT
// and takes no sequence id; one below the request's own slot is let pass, as
// clients send 0 there.
func TestHighestSlot(t *testing.T) {
	t.Parallel()
	e := newEngine(t, session.Config{})
	r := newRaw(t, e.addr, t.Name(), 1)
	for _, x := range []struct {
		slot, seq, high uint32
		want            nfs4.Status
	}{
		{0, 1, 8, nfs4.ErrBadHighSlot}, {0, 1, 1<<32 - 1, nfs4.ErrBadHighSlot}, {0, 1, 7, nfs4.OK}, {3, 1, 0, nfs4.OK},
	} {
		op := r.sequence(x.slot, x.seq, true)
		op.Args.(*nfs4.SequenceArgs).HighestSlotID = x.high
		if got := first(t, r.bytes(r.request([]client.Op{op, bump()}))); got != x.want {
			t.Errorf("highest slot %d: %v, want %v", x.high, got, x.want)
		}
	}
	if n := e.verify.Load(); n != 2 {
		t.Errorf("ran %d times, want 2", n)
	}
}

// TestFalseRetry: another request with the sequence id of the last one is
// NFS4ERR_SEQ_FALSE_RETRY where it can be told from a retry (RFC 8881 section
// 2.10.6.1.3.1): by its user, its length, and its first 256 bytes.
func TestFalseRetry(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "owner")
	o := p.create(p.dir(), "f")
	r := newSession(t, c.cfg.Listen, "")
	for _, cache := range []bool{true, false} {
		r.seq++
		write := func(data []byte) []byte {
			w := writeOp(nfs4.StateidAnonymous(), 0, data, nfs4.FileSync, &nfs4.WriteRes{})
			return r.request([]client.Op{r.sequence(0, r.seq, cache), putFH(o.fh), w})
		}
		data := pattern(1, 1000)
		done := r.bytes(write(data))
		if s := first(t, done); s != nfs4.OK {
			t.Fatal(s)
		}
		begins, ends := bytes.Clone(data), bytes.Clone(data)
		begins[0]++
		ends[999]++
		for what, other := range map[string][]byte{"other bytes": begins, "fewer bytes": data[:999], "more bytes": append(data[:1000:1000], 0, 0, 0, 0)} {
			if s := first(t, r.bytes(write(other))); s != nfs4.ErrSeqFalseRetry {
				t.Errorf("%s, cached %v: %v", what, cache, s)
			}
		}
		// The same length and beginning: taken for the retry that it says it is.
		want := nfs4.OK
		if !cache {
			want = nfs4.ErrRetryUncachedRep
		}
		for _, same := range [][]byte{data, ends} {
			b := r.again().bytes(write(same))
			if s := first(t, b); s != want || cache && !bytes.Equal(b, done) {
				t.Errorf("a retry, cached %v: %v", cache, s)
			}
		}
		sameBytes(t, "what was written", o.read(0, 2000), data)
	}
	r.want(nfs4.OK)
}

// TestTooBigToCache: with sa_cachethis an operation does not run if its reply
// might not fit into the cache; without it, it does. Whatever the size, what is
// refused was not done, and what was done is answered.
func TestTooBigToCache(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "looks")
	dir := p.dir()
	refused, done := 0, 0
	for size := uint32(128); size < 320; size += 16 {
		r := dialRaw(t, c.cfg.Listen, fmt.Sprint(t.Name(), size), 1)
		r.exchange()
		a := r.sessionArgs(2)
		a.ForeChanAttrs.MaxResponseSizeCached = size
		if _, s := r.send(client.Op{Num: nfs4.OpCreateSession, Args: a, Res: &r.sess}); s != nfs4.OK {
			t.Fatal(s)
		}
		r.want(nfs4.OK, reclaimComplete())
		name := fmt.Sprint("d", size)
		r.seq++
		ops := []client.Op{r.sequence(0, r.seq, true), putFH(dir), makeDir(name, 0o755)}
		request := r.request(ops)
		reply := r.bytes(request)
		s, _ := decode(t, reply, ops)
		there := p.try(putFH(dir), lookup(name)) == nfs4.OK
		switch {
		case s == nfs4.OK && there:
			done++
			if !bytes.Equal(r.again().bytes(request), reply) || len(reply)+24 > int(size) {
				t.Errorf("%d: a reply of %d bytes, not kept", size, len(reply))
			}
		case s == nfs4.ErrRepTooBigToCache && !there:
			refused++
		default:
			t.Errorf("%d: %v, and the directory is there: %v", size, s, there)
		}
		if first(t, reply) == nfs4.ErrRepTooBigToCache {
			r.seq-- // not even SEQUENCE was
		}
		r.want(nfs4.OK, putFH(dir), makeDir(name+"-uncached", 0o755))
	}
	if refused == 0 || done == 0 {
		t.Errorf("%d refused, %d done: both are wanted", refused, done)
	}
}

// TestCreateSessionRace: the same CREATE_SESSION from many connections makes one
// session, and all have the same answer, or are told to wait.
func TestCreateSessionRace(t *testing.T) {
	t.Parallel()
	c := shared(t)
	r := dialRaw(t, c.cfg.Listen, t.Name(), 1)
	r.exchange()
	request := r.request([]client.Op{{Num: nfs4.OpCreateSession, Args: r.sessionArgs(8), Res: &r.sess}})
	var mu sync.Mutex
	answers := map[string]int{}
	var wg sync.WaitGroup
	for range 8 {
		on := r.again()
		wg.Go(func() {
			b, err := exchangeOn(on.conn, request)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			switch s := first(t, b); s {
			case nfs4.OK:
				answers[string(b)]++
			case nfs4.ErrDelay:
			default:
				t.Errorf("%v", s)
			}
		})
	}
	wg.Wait()
	if len(answers) != 1 {
		t.Fatalf("%d different answers", len(answers))
	}
	decode(t, r.bytes(request), []client.Op{{Num: nfs4.OpCreateSession, Res: &r.sess}})
	r.want(nfs4.OK, reclaimComplete())
}

// TestDestroySessionRace: DESTROY_SESSION on a connection that the session does
// not know, while a request of it runs: the request ends, the session takes no
// more, and goes with it.
func TestDestroySessionRace(t *testing.T) {
	t.Parallel()
	e := newEngine(t, session.Config{})
	r := newRaw(t, e.addr, t.Name(), 1)
	answer := make(chan []byte, 1)
	request := r.request([]client.Op{r.sequence(0, 1, true), wait()})
	go func() {
		b, _ := exchangeOn(r.conn, request)
		answer <- b
	}()
	<-e.running
	stranger := dialRaw(t, e.addr, "", 0)
	destroy := client.Op{Num: nfs4.OpDestroySession, Args: &nfs4.DestroySessionArgs{SessionID: r.sess.SessionID}}
	if _, s := stranger.send(destroy); s != nfs4.ErrDelay {
		t.Errorf("while a request runs: %v", s)
	}
	other := r.again()
	if s := other.step(1, 1, bump()); s != nfs4.ErrDeadSession {
		t.Errorf("a request to a session that goes: %v", s)
	}
	bind := client.Op{Num: nfs4.OpBindConnToSession, Args: &nfs4.BindConnToSessionArgs{SessionID: r.sess.SessionID, Dir: nfs4.BindFore}}
	if _, s := other.send(bind); s != nfs4.ErrDeadSession {
		t.Errorf("BIND_CONN_TO_SESSION to it: %v", s)
	}
	close(e.hold)
	if s := first(t, <-answer); s != nfs4.OK {
		t.Errorf("the request that ran: %v", s)
	}
	eventually(t, "end of the session", func() error {
		if _, s := stranger.send(destroy); s != nfs4.ErrBadSession {
			return s
		}
		return nil
	})
	if s := other.step(1, 1, bump()); s != nfs4.ErrBadSession || e.verify.Load() != 0 {
		t.Errorf("a request to a session that is gone: %v", s)
	}
	// The client is there still, and makes another.
	r.id.SequenceID++
	r.createSession(4)
	r.want(nfs4.OK, bump())
}

// TestSlotsComeAndGo: the memory for replies gets scarce. Clients give back, by
// CB_RECALL_SLOT, the slots that they do not use, others have room, and a client
// that needs them again has them, with nothing lost meanwhile.
func TestSlotsComeAndGo(t *testing.T) {
	t.Parallel()
	// Room for the 64 slots of four sessions.
	e := newEngine(t, session.Config{MaxCached: 1024, MaxCacheBytes: 4 * 64 << 10, Lease: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var peers []*client.Client
	dial := func() *client.Client {
		t.Helper()
		c, err := client.Dial(ctx, e.addr, client.Config{
			Owner: fmt.Append(nil, t.Name(), len(peers)), Cred: sys(0, 0), Minor: 2, Renew: time.Hour, Callback: (&peer{}).callback,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		peers = append(peers, c)
		return c
	}
	for range 14 {
		dial()
	}
	if u := e.SlotUse(); u.Granted != 2*64+12*8 || u.CacheBytes <= 3*64<<10 {
		t.Fatalf("%+v", u)
	}
	// The first two use few of their slots for two leases. All have an equal part
	// at most, as soon as memory is scarce.
	eventually(t, "slots given back", func() error {
		e.pass(ctx, time.Second)
		if u := e.SlotUse(); u.CacheBytes > 3*64<<10 {
			return fmt.Errorf("%+v", u)
		}
		return nil
	})
	u := e.SlotUse()
	if u.Recalls == 0 || u.Sessions != 14 {
		t.Errorf("%+v", u)
	}
	// Many of them want many slots. All get what they ask for, at once or later.
	var wg sync.WaitGroup
	storm := func(c *client.Client, n int) {
		for range n {
			wg.Go(func() {
				for range 20 {
					if err := c.Compound(ctx, sys(0, 0), bump()); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	for _, c := range peers {
		storm(c, 40)
	}
	wg.Wait()
	if n := e.verify.Load(); n != 14*40*20 {
		t.Errorf("ran %d times, want %d", n, 14*40*20)
	}
	if u := e.SlotUse(); u.CacheBytes > 4*64<<10 || u.Sessions != 14 || u.InUse != 0 {
		t.Errorf("%+v", u)
	}
	// One is alone, and its slots come back as it uses those it has.
	one := peers[0]
	for _, c := range peers[1:] {
		c.Close(ctx)
	}
	eventually(t, "all slots", func() error {
		storm(one, 64)
		wg.Wait()
		if u := e.SlotUse(); u.Granted != 64 {
			return fmt.Errorf("%+v", u)
		}
		return nil
	})
	for range 64 {
		wg.Go(func() {
			if err := one.Compound(ctx, sys(0, 0), wait()); err != nil {
				t.Error(err)
			}
		})
	}
	for range 64 { // all of them run at once
		select {
		case <-e.running:
		case <-time.After(patience):
			t.Error("fewer than 64 requests under way")
		}
	}
	close(e.hold)
	wg.Wait()
}
