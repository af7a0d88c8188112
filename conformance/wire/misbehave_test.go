package wire_test

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"manifold/mds"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// TestMisbehave has clients do what none should. Each hurts itself: it is told
// so, and where it is in others' way it goes, with one line in the log. A client
// that behaves works on all the while, and everything that it asks for is done.
func TestMisbehave(t *testing.T) {
	for name, run := range map[string]func(*testing.T){
		"owners": floodOwners, "clients": floodClients, "idle clients": idleClients, "opens": floodOpens, "locks": floodLocks,
		"layouts": floodLayouts, "recalls": ignoreRecalls, "sequences": outOfStep, "sessions": floodSessions,
		"silent connections": silentConnections, "connections": floodConnections, "does not read": doesNotRead,
		"courtesy": courtesyFirst,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
}

func exchangeOp(owner string, res *nfs4.ExchangeIDRes) client.Op {
	return client.Op{Num: nfs4.OpExchangeID, Args: &nfs4.ExchangeIDArgs{ClientOwner: nfs4.ClientOwner{OwnerID: []byte(owner)}}, Res: res}
}

// counted is one table of the census.
func (c *cluster) counted(t *testing.T, name string) int {
	t.Helper()
	n, err := c.mds.Census(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n[name]
}

// floodOwners sends EXCHANGE_IDs, each with an owner of its own.
func floodOwners(t *testing.T) {
	w := newWatched(t, func(c *mds.Config) { c.MaxUnconfirmed = 160 })
	z := newCitizen(t, w.cluster)
	r := dialRaw(t, w.cfg.Listen, "bad", 1)
	for i := range 3000 {
		if _, s := r.send(exchangeOp(fmt.Sprint("bad", i), &nfs4.ExchangeIDRes{})); s != nfs4.OK {
			t.Fatal(s)
		}
		if i%1000 != 500 {
			continue
		}
		if n := w.counted(t, "session_unconfirmed"); n > 10 {
			t.Errorf("%d unconfirmed clients", n)
		}
		// Even somebody who comes now from the same address gets in.
		nfs, err := mountFrom(w.cluster, "127.0.0.1", fmt.Sprint("good", i))
		if err != nil {
			t.Fatal(err)
		}
		_ = nfs.Close(t.Context())
	}
	z.goesOn("after a flood of owners")
	w.evicted(t, 0, "", "")
}

// confirmed makes clients with a session each until there is no room, and
// returns them.
func confirmed(t *testing.T, c *cluster, most int) (rs []*raw) {
	t.Helper()
	for i := range most {
		r := dialRaw(t, c.cfg.Listen, fmt.Sprint("bad", i), 1)
		if s := r.exchange(); s != nfs4.OK {
			t.Fatal(s)
		}
		_, s := r.send(client.Op{Num: nfs4.OpCreateSession, Args: r.sessionArgs(1), Res: &r.sess})
		if s == nfs4.ErrDelay {
			break
		}
		if s != nfs4.OK {
			t.Fatal(s)
		}
		r.want(nfs4.OK, reclaimComplete())
		rs = append(rs, r)
	}
	return rs
}

// floodClients makes clients with sessions.
func floodClients(t *testing.T) {
	w := newWatched(t, func(c *mds.Config) { c.MaxClients, c.MaxClientsPerAddress, c.Lease = 30, 20, time.Hour })
	z := newCitizen(t, w.cluster)
	if n := len(confirmed(t, w.cluster, 40)); n != 20 {
		t.Errorf("%d clients of one address, 20 may be", n)
	}
	z.goesOn("with all clients of one address")
	nfs, err := mountFrom(w.cluster, "127.0.0.3", "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	_ = nfs.Close(t.Context())
	w.evicted(t, 0, "", "")
}

// idleClients makes as many as may be at all, and does nothing with them.
func idleClients(t *testing.T) {
	w := newWatched(t, func(c *mds.Config) { c.MaxClients, c.MaxClientsPerAddress, c.Lease = 30, 30, time.Hour })
	z := newCitizen(t, w.cluster)
	bad := confirmed(t, w.cluster, 29)
	nfs, err := mountFrom(w.cluster, "127.0.0.3", "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	_ = nfs.Close(t.Context())
	z.goesOn("with all clients there may be")
	w.evicted(t, 16, "bad", "it holds nothing")
	if s := bad[0].try(); s != nfs4.ErrBadSession {
		t.Errorf("the first of them: %v", s)
	}
}

// take makes a file for every i and opens it, until it is refused.
func take(t *testing.T, p *peer, dir nfs4.FH, most int) (os []*open, refused nfs4.Status) {
	t.Helper()
	for i := range most {
		o := &open{p: p}
		var fh nfs4.GetFHRes
		a := creating(openArgs("bad", fmt.Sprint(i), 3), nfs4.CreateHow{Attrs: mode(0o666)})
		if s := p.try(putFH(dir), openOp(a, &o.r), getFH(&fh)); s != nfs4.OK {
			return os, s
		}
		o.fh, o.id = fh.Object, o.r.Stateid
		os = append(os, o)
	}
	return os, nfs4.OK
}

// floodOpens opens files without end: one client comes as far as its share,
// and of several that take all there is together the one that has most goes.
func floodOpens(t *testing.T) {
	w := newWatched(t, func(c *mds.Config) { c.MaxOpens, c.ClientShare = 100, 40 })
	z := newCitizen(t, w.cluster)
	var bad []*peer
	for i := range 3 {
		p := w.newPeer(t, fmt.Sprint("bad", i))
		bad = append(bad, p)
		_, s := take(t, p, p.dir(), 1000)
		if i < 2 && s != nfs4.ErrResource {
			t.Errorf("client %d over its share: %v", i, s)
		}
		z.goesOn(fmt.Sprint("with ", i+1, " clients that open files"))
	}
	w.evicted(t, 1, t.Name()+"/bad", "others find nothing left: it holds 40 opens")
	eventually(t, "end of one client's state", func() error {
		if s := w.status(); s.Opens > 85 {
			return fmt.Errorf("%d opens", s.Opens)
		}
		return nil
	})
	// It may come back as a new client, without what it had.
	for _, p := range bad {
		p.must(putRoot(), getattr(&nfs4.GetattrRes{}, nfs4.AttrType))
	}
}

// floodLocks locks one byte after another.
func floodLocks(t *testing.T) {
	w := newWatched(t, func(c *mds.Config) { c.MaxLocks, c.ClientShare, c.MaxFileLocks = 100, 40, 30 })
	z := newCitizen(t, w.cluster)
	for i := range 3 {
		p := w.newPeer(t, fmt.Sprint("bad", i))
		dir := p.dir()
		var last nfs4.Status
		for f := range 2 {
			o := p.create(dir, fmt.Sprint(f))
			for n := range 50 {
				last = p.try(putFH(o.fh), lockOp(newLock(o, fmt.Sprint(n), nfs4.LockWrite, uint64(2*n), 1), &nfs4.LockRes{}))
				if last != nfs4.OK {
					if f == 0 && n != 30 && i == 0 {
						t.Errorf("%d locks of one file, 30 may be", n)
					}
					break
				}
			}
		}
		if i < 2 && last != nfs4.ErrResource {
			t.Errorf("client %d over its share: %v", i, last)
		}
		z.goesOn(fmt.Sprint("with ", i+1, " clients that lock"))
	}
	w.evicted(t, 1, t.Name()+"/bad", "others find nothing left")
}

// floodLayouts takes layouts; I/O through the metadata server is for who gets
// none.
func floodLayouts(t *testing.T) {
	w := newWatched(t, func(c *mds.Config) { c.MaxLayouts, c.ClientShare = 100, 40 })
	z := newCitizen(t, w.cluster)
	p := w.newPeer(t, "bad0")
	os, _ := take(t, p, p.dir(), 50)
	for i, o := range os {
		s := p.try(putFH(o.fh), layoutGetOp(layoutGetArgs(o.id, nfs4.IOModeRW), &nfs4.LayoutGetRes{}))
		if want := map[bool]nfs4.Status{true: nfs4.OK, false: nfs4.ErrLayoutUnavailable}[i < 40]; s != want {
			t.Fatalf("layout %d: %v, want %v", i, s, want)
		}
	}
	os[45].write(0, []byte("by proxy then"), nfs4.FileSync)
	z.goesOn("with a client that takes layouts")
	w.evicted(t, 0, "", "")
}

// ignoreRecalls takes delegations and returns none.
func ignoreRecalls(t *testing.T) {
	w := newWatched(t, func(c *mds.Config) { c.MaxIgnored = 3 })
	z := newCitizen(t, w.cluster)
	p, q := w.newPeer(t, "bad"), w.newPeer(t, "other")
	p.onRecall(never)
	dir := p.dir()
	var os []*open
	for i := range 4 {
		os = append(os, p.delegated(dir, fmt.Sprint(i), nfs4.DelegateWrite))
	}
	locked := os[3]
	p.must(putFH(locked.fh), lockOp(newLock(locked, "bad", nfs4.LockWrite, 0, 1), &nfs4.LockRes{}))
	for i := range 3 { // the recalls run side by side
		q.want(nfs4.ErrDelay, putFH(dir), openOp(openArgs("other", fmt.Sprint(i), 3), &nfs4.OpenRes{}))
	}
	z.goesOn("with recalls that are ignored")
	for i := range 3 {
		q.open(dir, fmt.Sprint(i), 3)
	}
	w.evicted(t, 1, t.Name()+"/bad", "it returned none")
	// What it held otherwise is gone too, and free for others.
	o := q.open(dir, "3", 3)
	q.must(putFH(o.fh), lockOp(newLock(o, "other", nfs4.LockWrite, 0, 1), &nfs4.LockRes{}))
}

// outOfStep reuses sequence ids.
func outOfStep(t *testing.T) {
	w := newWatched(t, func(c *mds.Config) { c.MaxFaults = 100 })
	z := newCitizen(t, w.cluster)
	r := newRaw(t, w.cfg.Listen, "bad", 1)
	r.want(nfs4.OK, reclaimComplete())
	faults := 0
	for range 1000 {
		_, s := r.send(r.sequence(0, r.seq+9, false))
		if s == nfs4.ErrBadSession {
			break
		}
		if s != nfs4.ErrSeqMisordered {
			t.Fatal(s)
		}
		faults++
	}
	if faults != 100 {
		t.Errorf("evicted after %d faults, 100 may be", faults)
	}
	z.goesOn("with a client out of step")
	w.evicted(t, 1, "bad", "out of step")
}

// floodSessions makes sessions of one client.
func floodSessions(t *testing.T) {
	w := newWatched(t)
	z := newCitizen(t, w.cluster)
	r := newRaw(t, w.cfg.Listen, "bad", 1)
	r.want(nfs4.OK, reclaimComplete())
	s, n := nfs4.OK, 1
	for ; s == nfs4.OK && n < 1000; n++ {
		a := r.sessionArgs(1)
		a.Sequence += uint32(n)
		_, s = r.send(client.Op{Num: nfs4.OpCreateSession, Args: a, Res: &nfs4.CreateSessionRes{}})
	}
	if s != nfs4.ErrDelay || n > 70 {
		t.Errorf("session %d: %v", n, s)
	}
	z.goesOn("with a client of many sessions")
	if nfs, err := mountFrom(w.cluster, "127.0.0.1", "next door"); err != nil {
		t.Error(err)
	} else {
		_ = nfs.Close(t.Context())
	}
}

// silentConnections connects and says nothing, or hardly anything.
func silentConnections(t *testing.T) {
	w := newWatched(t, func(c *mds.Config) { c.FirstRecord = time.Second })
	z := newCitizen(t, w.cluster)
	var conns []net.Conn
	for i := range 60 {
		conn, err := net.Dial("tcp", w.cfg.Listen)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// Nothing, half a mark, a mark of a long record, half a call.
		_, _ = conn.Write(record(make([]byte, 1<<20))[:[]int{0, 2, 4, 30}[i%4]])
		conns = append(conns, conn)
	}
	z.goesOn("with silent connections")
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection stays: %v", err)
		}
	}
	eventually(t, "end of the connections", func() error {
		if n := w.counted(t, "tcp_connections"); n > 1 {
			return fmt.Errorf("%d connections", n)
		}
		return nil
	})
}

// floodConnections takes all the connections that it can have.
func floodConnections(t *testing.T) {
	w := newWatched(t, func(c *mds.Config) { c.MaxConns, c.MaxConnsPerAddress = 400, 300 })
	z := newCitizen(t, w.cluster)
	for i := range 1000 {
		conn, err := net.Dial("tcp", w.cfg.Listen)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer conn.Close()
		_, _ = conn.Write(record(callBytes(100003, 4, 0, nil))) // NULL, to look alive
	}
	eventually(t, "300 connections", func() error {
		if n := w.counted(t, "tcp_connections"); n != 301 {
			return fmt.Errorf("%d connections", n)
		}
		return nil
	})
	z.goesOn("with a thousand connections")
	nfs, err := mountFrom(w.cluster, "127.0.0.3", "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	_ = nfs.Close(t.Context())
	if n := w.lines.FilterMessage("connection refused").Len(); n < 1 || n > 3 {
		t.Errorf("%d lines on refused connections", n)
	}
}

// doesNotRead sends calls and takes no replies.
func doesNotRead(t *testing.T) {
	w := newWatched(t, func(c *mds.Config) { c.MaxCallBytes = 4 << 20 })
	z := newCitizen(t, w.cluster)
	p := w.newPeer(t, "dir")
	big := p.create(p.dir(), "big")
	big.write(0, make([]byte, 1<<20), nfs4.FileSync)
	ended := make(chan struct{}, 20)
	for i := range 20 {
		r := newRaw(t, w.cfg.Listen, fmt.Sprint("bad", i), 1)
		r.want(nfs4.OK, reclaimComplete())
		sess, seq := r.sess.SessionID, r.seq
		// What is taken of replies is what fits into the sockets' buffers.
		wire := dialWire(t, w.cfg.Listen)
		_ = wire.conn.(*net.TCPConn).SetReadBuffer(4096)
		go func() {
			defer func() { ended <- struct{}{} }()
			for n := range uint32(2000) {
				slot := n % 8
				at := n/8 + 1
				if slot == 0 {
					at += seq
				}
				seqOp := client.Op{Num: nfs4.OpSequence, Args: &nfs4.SequenceArgs{SessionID: sess, SequenceID: at, SlotID: slot, HighestSlotID: 7}}
				body := encodeCompound(1, seqOp, putFH(big.fh), readOp(nfs4.StateidAnonymous(), 0, 1<<20, nil))
				_ = wire.conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
				if _, err := wire.conn.Write(record(callBytes(100003, 4, 1, body))); err != nil {
					return
				}
			}
		}()
	}
	most := 0
	for range 20 {
		z.goesOn("with clients that do not read")
		most = max(most, w.counted(t, "tcp_call_bytes"))
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("still sending")
		}
	}
	// Each of the connections has a call and its reply.
	if limit := 4<<20 + 30<<21; most < 4<<20 || most > limit {
		t.Errorf("calls hold %d bytes, at most %d expected, and no less than 4 MiB", most, limit)
	}
}

// courtesyFirst: who has no lease goes before one that holds more.
func courtesyFirst(t *testing.T) {
	w := newWatched(t, func(c *mds.Config) { c.MaxOpens, c.ClientShare = 60, 60 })
	z := newCitizen(t, w.cluster)
	away := w.newSilentPeer(t, "away")
	if _, s := take(t, away, away.dir(), 20); s != nfs4.OK {
		t.Fatal(s)
	}
	eventually(t, "end of a lease", func() error {
		if w.counted(t, "courtesy") != 1 {
			return fmt.Errorf("no courtesy client")
		}
		return nil
	})
	hog := w.newPeer(t, "hog")
	os, s := take(t, hog, hog.dir(), 36)
	if s != nfs4.OK {
		t.Fatal(s)
	}
	one := w.newPeer(t, "one")
	dir := one.dir()
	for i := range 10 { // more than there is
		one.create(dir, fmt.Sprint(i))
	}
	z.goesOn("with all opens taken")
	w.evicted(t, 0, "", "")
	if w.lines.FilterMessage("client without a lease is in the way, it loses its state").Len() != 1 {
		t.Errorf("log: %v", w.lines.All())
	}
	hog.want(nfs4.OK, putFH(os[0].fh), closeOp(os[0].id))
}
