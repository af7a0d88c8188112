package compound

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"manifold/xdr/nfs4"
	"manifold/xdr/session"
)

// TestConcurrent has clients work on all slots while their connections break,
// callbacks go out, leases end and clients are evicted. In the end nothing is left.
func TestConcurrent(t *testing.T) {
	run(t, "", session.Config{Lease: 30 * time.Second}, func(t *testing.T, e *env) {
		e.login(nil)
		peers := []*peer{e.peer}
		for range 5 {
			p := e.dial()
			p.login(nil)
			peers = append(peers, p)
		}
		var wg, calling sync.WaitGroup
		for i, p := range peers {
			p.answers("OK OK")
			for slot := range uint32(4) {
				wg.Go(func() {
					for seq := uint32(1); seq <= 50; seq++ {
						ops := append([]op{p.sequence(slot, seq, seq%2 == 0)}, p.parse("putfh:a write:4 getattr")...)
						args := encoderOf(1, fmt.Sprint(i, slot, seq), ops).Bytes()
						if r, err := p.raw(args); err != nil || r.status != nfs4.OK {
							if i > 2 { // closed or evicted below
								return
							}
							t.Errorf("client %d, slot %d, sequence %d: %v, %v", i, slot, seq, r, err)
							return
						}
					}
				})
			}
			calling.Go(func() {
				for range 50 {
					if _, err := e.s.Callback(t.Context(), p.sess.client, nfs4.CBRecall, recall, nil); err != nil && i <= 2 {
						t.Error(err)
					}
				}
			})
		}
		wg.Go(func() { peers[3].conn.Close() })
		wg.Go(func() { e.s.Evict(t.Context(), peers[4].sess.client, "") })
		wg.Go(func() { peers[5].srv.Close() })
		wg.Go(func() {
			for range 100 {
				e.s.Expire(t.Context(), time.Now())
				e.s.Clients()
			}
		})
		wg.Wait()
		calling.Wait()
		if n := e.role.runs("WRITE"); n < 3*4*50 {
			t.Errorf("WRITE ran %d times", n)
		}
		for _, c := range e.s.Clients() {
			if c.Busy != 0 {
				t.Errorf("%d requests still run", c.Busy)
			}
		}
		for _, p := range peers {
			p.conn.Close()
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		e.s.Expire(t.Context(), time.Now())
		if len(e.s.Clients())+len(e.s.conns)+len(e.s.minors) != 0 {
			t.Errorf("left: %v, %d connections, %d minors", e.s.Clients(), len(e.s.conns), len(e.s.minors))
		}
	})
}
