package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// TestReclaim: Config.Reclaim runs once for each client id, on the new session
// and before RECLAIM_COMPLETE; the session is in step afterwards.
func TestReclaim(t *testing.T) {
	var f *fake
	var completed []int // RECLAIM_COMPLETEs that the server had when it ran
	var answers []error
	prepare := func(server *fake, cfg *Config) {
		f = server
		cfg.Reclaim = func(_ context.Context, send func(...Op) error) error {
			completed = append(completed, f.count(&f.reclaims))
			answers = append(answers, send(putFH(nfs4.FH("file"))), send(putFH(nfs4.FH("no file"))))
			return nil
		}
	}
	bubble(t, prepare, func(_ *fake, c *Client) {
		f.mu.Lock()
		f.conns[0].Close() // the session is still there: nothing to reclaim
		f.mu.Unlock()
		synctest.Wait()
		if err := remove(c, bg); err != nil || len(completed) != 1 {
			t.Errorf("after a lost connection: %v, ran %d times", err, len(completed))
		}
		f.mu.Lock()
		f.restart()
		f.conns[1].Close()
		f.mu.Unlock()
		synctest.Wait()
		for range 3 {
			if err := remove(c, bg); err != nil {
				t.Error(err)
			}
		}
		if len(completed) != 2 || completed[0] != 0 || completed[1] != 1 || f.reclaims != 2 {
			t.Errorf("ran after %v RECLAIM_COMPLETEs, %d in all", completed, f.reclaims)
		}
		for i, err := range answers {
			if stale := errors.Is(err, nfs4.ErrStale); stale != (i%2 == 1) || !stale && err != nil {
				t.Errorf("compound %d: %v", i, err)
			}
		}
	})
}

// TestReclaimFails: while Reclaim fails the client does not say that it is done,
// and tries anew.
func TestReclaimFails(t *testing.T) {
	fails := 3
	refused := errors.New("not now")
	prepare := func(_ *fake, cfg *Config) {
		first := true
		cfg.Reclaim = func(context.Context, func(...Op) error) error {
			if first {
				first = false
				return nil
			}
			if fails--; fails >= 0 {
				return refused
			}
			return nil
		}
	}
	bubble(t, prepare, func(f *fake, c *Client) {
		f.mu.Lock()
		f.restart()
		f.conns[0].Close()
		f.mu.Unlock()
		synctest.Wait()
		if err := c.Compound(bg, rpc.Cred{}); err != nil || fails != -1 || f.reclaims != 2 {
			t.Errorf("%v, %d failures left, %d RECLAIM_COMPLETEs", err, fails, f.reclaims)
		}
	})
}
