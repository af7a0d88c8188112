package ds

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"manifold/ds/internal/dstest"
	"manifold/layout"
	"manifold/layout/control"
	"manifold/xdr/nfs4"
)

const (
	token = "a join token for tests"
	lease = 90 * time.Second
)

var cluster = [16]byte{0xc1, 15: 1}

func testKeys(t *testing.T, id uint8) *layout.Keyring {
	t.Helper()
	k, err := layout.NewKeyring(id, layout.Key{ID: id, Secret: [32]byte{id, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// metadata is a metadata server as far as a data server sees one.
type metadata struct {
	addr string
	keys *layout.Keyring
	srv  *control.Server
	stop func()
	log  *zap.Logger

	mu      sync.Mutex
	number  layout.DSID
	backlog []control.Command // told to whoever attaches, before Ready
	hold    bool              // no Ready
	hello   control.Hello
	sizes   map[layout.Object]uint64
	usage   control.Usage
	asked   chan struct{} // if not nil: FileSize says so, and waits for answer
	answer  chan struct{}
	events  chan string
}

// newMetadata listens on addr, empty for any.
func newMetadata(t *testing.T, addr string) *metadata {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	m := &metadata{
		addr: ln.Addr().String(), keys: testKeys(t, 1), number: 7, log: zaptest.NewLogger(t),
		sizes: make(map[layout.Object]uint64), events: make(chan string, 100),
	}
	if m.srv, err = control.NewServer(control.ServerConfig{
		Token: token, Cluster: cluster, Keys: m.keys, Lease: lease, MDS: m, Log: m.log.Named("mds"),
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.srv.Serve(ctx, ln); err != nil {
			t.Errorf("control server: %v", err)
		}
	})
	m.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(m.stop)
	return m
}

func (m *metadata) Register(_ context.Context, h control.Hello) (layout.DSID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hello = h
	return m.number, nil
}

func (m *metadata) Attached(ds layout.DSID, _ control.Hello) {
	m.mu.Lock()
	cmds := append([]control.Command(nil), m.backlog...)
	if !m.hold {
		cmds = append(cmds, control.Command{Kind: control.Ready})
	}
	m.mu.Unlock()
	m.events <- "attached"
	go func() { // Attached may not block
		if len(cmds) > 0 {
			_, _ = m.srv.Do(context.Background(), ds, cmds...) // the test looks at what comes of it
		}
	}()
}

func (m *metadata) Heartbeat(_ layout.DSID, u control.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usage = u
}

func (m *metadata) Detached(layout.DSID, error) { m.events <- "detached" }

func (m *metadata) FileSize(ctx context.Context, o layout.Object) (uint64, error) {
	m.mu.Lock()
	asked, answer := m.asked, m.answer
	m.mu.Unlock()
	if asked != nil {
		asked <- struct{}{}
		select {
		case <-answer:
		case <-ctx.Done():
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	size, ok := m.sizes[o]
	if !ok {
		return 0, nfs4.ErrStale
	}
	return size, nil
}

// holdSizes has FileSize say on asked when it is called and wait for answer.
func (m *metadata) holdSizes() (asked, answer chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked, m.answer = make(chan struct{}, 10), make(chan struct{})
	return m.asked, m.answer
}

func (m *metadata) setSize(o layout.Object, size uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sizes[o] = size
}

// await waits for an event.
func (m *metadata) await(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-m.events:
		if got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	case <-time.After(dstest.Patience):
		t.Fatalf("not %s", want)
	}
}

// do has the data server do one command.
func (m *metadata) do(t *testing.T, c control.Command) control.Ack {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), dstest.Patience)
	defer cancel()
	acks, err := m.srv.Do(ctx, m.number, c)
	if err != nil {
		t.Fatalf("%v: %v", c.Kind, err)
	}
	return acks[0]
}

// must is do for what must succeed.
func (m *metadata) must(t *testing.T, c control.Command) control.Ack {
	t.Helper()
	ack := m.do(t, c)
	if ack.Status != nfs4.OK {
		t.Fatalf("%v: %v", c.Kind, ack.Status)
	}
	return ack
}

var testObject = layout.Object{Volume: 1, Inode: 77, Gen: 2}

const (
	rw         = layout.RightRead | layout.RightWrite
	testClient = 5<<32 | 9
)

// fh returns a filehandle for testObject as LAYOUTGET would give it.
func (m *metadata) fh(client nfs4.ClientID, epoch uint32) nfs4.FH {
	return m.keys.SealDS(layout.Capability{Object: testObject, Client: client, Rights: rw, Epoch: epoch})
}

// running is a data server whose Run runs.
type running struct {
	*Server
	addr string
	done chan error // takes Run's result
}

func testConfig(t *testing.T, m *metadata, data string) Config {
	return Config{Data: data, Listen: []string{"127.0.0.1:0"}, MDS: []string{m.addr}, Token: token, Name: "ds-test", Version: "test", Log: zaptest.NewLogger(t)}
}

// start starts a data server and, at the test's end, shuts it down.
func start(t *testing.T, cfg Config) *running {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Server: s, addr: s.Addrs()[0].String(), done: make(chan error, 1)}
	go func() { r.done <- s.Run(context.Background()) }()
	t.Cleanup(func() { r.stop(t) })
	return r
}

// startReady is start, and waits until it serves.
func startReady(t *testing.T, m *metadata, data string) *running {
	t.Helper()
	r := start(t, testConfig(t, m, data))
	m.await(t, "attached")
	r.awaitReady(t)
	return r
}

func (r *running) awaitReady(t *testing.T) {
	t.Helper()
	select {
	case <-r.Ready():
	case err := <-r.done:
		t.Fatalf("Run: %v", err)
	case <-time.After(dstest.Patience):
		t.Fatal("not ready")
	}
}

// stop shuts down and wants no error. Twice is once.
func (r *running) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), dstest.Patience)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// awaitEnd wants Run to end with an error that is want.
func (r *running) awaitEnd(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(dstest.Patience):
		t.Fatal("Run goes on")
		return nil
	}
}

func wantStatus(t *testing.T, what string, got, want nfs4.Status) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func wantRefused(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), dstest.Patience)
	defer cancel()
	if c, err := dstest.Connect(ctx, addr, "nobody", dstest.MaxResponse); err == nil {
		c.Conn.Close()
		t.Error("connected to a data server that must not serve")
	} else if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waited in place of being refused: %v", err)
	}
}

func content(n int) []byte { return bytes.Repeat([]byte("0123456789abcdef"), n/16) }
