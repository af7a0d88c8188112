package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// history knows which truncations are over, by their size, which is unique.
type history struct {
	mu    sync.Mutex
	over  map[uint64]bool
	next  uint64
	late  []string
	count int
}

func (h *history) done(ds layout.DSID, c control.Command) nfs4.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.Kind == control.Truncate {
		h.count++
		if h.over[c.Size] {
			h.late = append(h.late, fmt.Sprintf("%d: %s", ds, say(c)))
		}
	}
	return nfs4.OK
}

func (h *history) size() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	return h.next
}

func (h *history) finish(size uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over[size] = true
}

// TestNeverLate loses connections before, during and after the commands, and
// restarts the metadata server: no truncation may reach a data server after the
// wait for it was over, for by then clients write to the file again.
func TestNeverLate(t *testing.T) {
	b := newBench(t)
	h := &history{over: map[uint64]bool{}}
	rnd := rand.New(rand.NewPCG(7, 8))
	b.fleet.status = h.done
	b.fleet.down = func(layout.DSID) (before, after error) {
		switch rnd.IntN(8) {
		case 0:
			return control.ErrDetached, nil
		case 1:
			return nil, control.ErrDetached
		}
		return nil, nil
	}
	both := []layout.DSID{1, 2}
	for range 4 {
		stop := make(chan struct{})
		var flapper, files sync.WaitGroup
		flapper.Go(func() {
			for i := 0; ; i++ {
				ds := both[i%2]
				b.Attached(ds)
				select {
				case <-stop:
					return
				case <-b.ready:
				case <-time.After(time.Millisecond):
				}
				if i%3 != 0 {
					b.Detached(ds)
				}
			}
		})
		for f := range uint64(6) {
			files.Go(func() {
				for range 25 {
					size := h.size()
					err := b.store.Update(context.Background(), func(tx store.Tx) error {
						return b.Truncate(tx, both, object(f+1), size)
					})
					if err != nil {
						t.Error(err)
						return
					}
					b.Kick(both)
					if err := b.WaitObject(context.Background(), object(f+1)); err != nil {
						t.Error(err)
						return
					}
					h.finish(size)
				}
			})
		}
		files.Wait()
		close(stop)
		flapper.Wait()
		b.close()
		b.open()
	}
	if len(h.late) > 0 {
		t.Errorf("%d late truncations, the first %s", len(h.late), h.late[0])
	}
	if h.count < 2*int(h.next) {
		t.Errorf("%d of %d truncations", h.count, 2*h.next)
	}
}

// server is control's MDS on top of an Outbox.
type server struct{ *bench }

func (s server) Register(_ context.Context, h control.Hello) (layout.DSID, error) {
	return layout.DSID(h.UUID[0]), nil
}
func (s server) Attached(ds layout.DSID, _ control.Hello)                { s.Outbox.Attached(ds) }
func (s server) Detached(ds layout.DSID, _ error)                        { s.Outbox.Detached(ds) }
func (s server) Heartbeat(layout.DSID, control.Usage)                    {}
func (s server) FileSize(context.Context, layout.Object) (uint64, error) { return 0, nfs4.ErrStale }

// dataServer is control's DS that writes down what it is told.
type dataServer struct{ did chan string }

func (d dataServer) Usage() control.Usage           { return control.Usage{} }
func (d dataServer) Welcomed(control.Welcome) error { return nil }
func (d dataServer) Do(_ context.Context, c control.Command) control.Ack {
	d.did <- say(c)
	return control.Ack{}
}

// TestOverTheWire joins the two ends of package control.
func TestOverTheWire(t *testing.T) {
	b := newBench(t)
	keys, err := layout.NewKeyring(1, layout.Key{ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	cfg := control.ServerConfig{Token: "a token of sixteen", Cluster: [16]byte{1}, Keys: keys, Lease: time.Second, MDS: server{b}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// start serves on ln until stop is called.
	start := func(ln net.Listener) (stop func()) {
		s, err := control.NewServer(cfg)
		if err != nil {
			t.Fatal(err)
		}
		b.cfg.Sender = s
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, ln) }()
		return func() {
			cancel()
			if err := await(t, "end of Serve", ended); err != nil {
				t.Error(err)
			}
		}
	}
	stop := start(ln)
	b.truncate(5, 100, 3)
	b.remove(6, 3)

	d := dataServer{make(chan string, 1000)}
	agent, err := control.NewAgent(control.AgentConfig{
		Targets: []string{ln.Addr().String()}, Token: cfg.Token, DS: d,
		Hello: control.Hello{UUID: [16]byte{3}, Addresses: []layout.Address{layout.TCP(netip.MustParseAddrPort("0.0.0.0:2049"))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	did := func(want ...string) {
		t.Helper()
		for _, w := range want {
			if got := await(t, w, d.did); got != w {
				t.Errorf("did %q, want %q", got, w)
			}
		}
	}
	did("truncate 5 to 100", "remove 6", "ready")
	b.waitObject(5)
	await(t, "ready", b.ready)

	// The metadata server dies and comes back; rows gathered meanwhile.
	stop()
	b.close()
	b.open()
	b.truncate(7, 1, 3)
	again, err := net.Listen("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	stop = start(again)
	did("truncate 7 to 1", "ready")
	b.waitObject(7)
	await(t, "ready", b.ready)
	b.fence(9, 3)
	did("fence-client 9")
	if err := b.WaitClient(t.Context(), 9); err != nil {
		t.Error(err)
	}
	cancel()
	if err := await(t, "end of Run", ended); err != nil {
		t.Error(err)
	}
	stop()
	if err := b.WaitObject(t.Context(), object(7)); err != nil && !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
