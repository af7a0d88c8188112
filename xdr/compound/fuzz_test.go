package compound

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// still is a Server outside of a bubble, with a connection that nobody reads.
func still(t testing.TB, r *role) (*Server, *peer) {
	s := New(Config{
		Sessions: session.New(session.Config{MaxUnconfirmed: 8, MaxClients: 8}), Now: time.Now,
	}, r.table())
	a, b := net.Pipe()
	p := &peer{e: &env{t: t}, minor: 1, srv: rpc.NewConn(context.Background(), b, s, &rpc.Config{})}
	t.Cleanup(func() { p.srv.Close(); a.Close() })
	return s, p
}

// enter makes a client and a session by direct calls.
func (p *peer) enter(t testing.TB, s *Server, owner string) {
	r, err := serve(s, p, encoderOf(1, "", p.parse("exchange:"+owner)).Bytes())
	if err != nil || r.status != nfs4.OK {
		t.Fatal(r, err)
	}
	a := p.createArgs(r.last().(*nfs4.ExchangeIDRes).ClientID, 1)
	a.ForeChanAttrs.MaxResponseSize, a.ForeChanAttrs.MaxOperations = 2000, 40
	r, err = serve(s, p, encoderOf(1, "", []op{{nfs4.OpCreateSession, a}}).Bytes())
	if err != nil || r.status != nfs4.OK {
		t.Fatal(r, err)
	}
	p.sess = &sess{id: r.last().(*nfs4.CreateSessionRes).SessionID, client: a.ClientID}
}

// FuzzCompound serves arbitrary bytes as a COMPOUND, and as the operations
// after a good SEQUENCE. Whatever they are the reply is well-formed and within
// the session's limits, or the call is rejected; and the slot is free again.
func FuzzCompound(f *testing.F) {
	r := newRole()
	close(r.hold)
	r.held = nil // ACCESS would wait to tell
	s, p := still(f, r)
	s.rows[nfs4.OpAccess] = Op{}
	p.sess = &sess{}
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff})
	for _, words := range []string{
		"seq putfh:a getattr", "putfh:a", "putfh:a open:xx close write:4", "putfh:a setattr:13", "putfh:abc savefh lookup:b link restorefh getfh",
		"panic", "destroy", "leave", "bind:3", "ctl", "reclaim", "exchange:q", "newsession:1", "putfh:a read:2000 getattr", "op:0", "allocate",
		"putfh:a read:0x200000 setattr:1", "putfh:a write:500", "secinfo", "putfh:a secinfo locku",
	} {
		enc := encoderOf(1, "tag", p.parse(words))
		f.Add(enc.Bytes())
		f.Add(enc.Bytes()[16:])
		f.Add(enc.Bytes()[:enc.Len()-4])
	}
	owner := 0
	f.Fuzz(func(t *testing.T, data []byte) {
		owner++
		p.enter(t, s, fmt.Sprintf("fuzz%d", owner))
		defer s.Evict(t.Context(), p.sess.client, "")
		if _, err := serve(s, p, data); err != nil {
			t.Fatalf("%x: %v", data, err)
		}
		p.minor = 1 + uint32(len(data))&1
		enc := encoderOf(p.minor, "t", p.parse("cseq"))
		enc.SetUint32(12, min(uint32(len(data)/4)+1, 40))
		enc.Raw(data)
		var sizes [2]int
		for i := range sizes {
			reply, err := serve(s, p, enc.Bytes())
			if err != nil || reply.size < 0 || len(reply.results) == 0 {
				t.Fatalf("%x: %v, %v", data, reply, err)
			}
			if sizes[i] = 24 + reply.size; sizes[i] > 2000 {
				t.Fatalf("%x: a reply of %d bytes: %v", data, sizes[i], reply)
			}
		}
		if left := s.left(p.sess.client); !left && sizes[0] != sizes[1] {
			t.Fatalf("%x: %d bytes, then %d from the cache", data, sizes[0], sizes[1])
		}
		reply, err := serve(s, p, encoderOf(1, "", p.parse("seq")).Bytes())
		if err != nil || reply.status != nfs4.OK && reply.status != nfs4.ErrBadSession {
			t.Fatalf("%x: then %v, %v", data, reply, err)
		}
	})
}

// left says whether a client is gone, or its session.
func (s *Server) left(id nfs4.ClientID) bool {
	for _, c := range s.Clients() {
		if c.ID == id {
			return c.Sessions == 0
		}
	}
	return true
}
