package control

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

const testToken = "a join token of the test"

var testCluster = [16]byte{0xc1, 15: 1}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// await returns the next value of ch.
func await[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s", what)
		panic("not reached")
	}
}

func testKeys(t testing.TB) *layout.Keyring {
	t.Helper()
	k, err := layout.NewKeyring(3, layout.Key{ID: 3, Secret: [32]byte{1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func testHello(n byte) Hello {
	return Hello{
		UUID: [16]byte{n}, Name: "ds" + string('a'+rune(n)), Instance: [16]byte{n, n},
		Addresses: []layout.Address{{Netid: "tcp", AddrPort: netip.MustParseAddrPort("0.0.0.0:2049")}},
		Version:   "test",
	}
}

// mds is an MDS that reports its calls; it numbers a data server by the first
// byte of its uuid.
type mds struct {
	registerErr func(Hello) error
	attached    chan Hello
	detached    chan error
	beats       chan Usage // drops what nobody takes
	asked       chan layout.Object
}

func newMDS() *mds {
	return &mds{
		attached: make(chan Hello, 100), detached: make(chan error, 100), beats: make(chan Usage, 1),
		asked: make(chan layout.Object, 100),
	}
}

func (m *mds) Register(_ context.Context, h Hello) (layout.DSID, error) {
	if m.registerErr != nil {
		if err := m.registerErr(h); err != nil {
			return 0, err
		}
	}
	return layout.DSID(h.UUID[0]), nil
}

func (m *mds) Attached(_ layout.DSID, h Hello)   { m.attached <- h }
func (m *mds) Detached(_ layout.DSID, why error) { m.detached <- why }
func (m *mds) Heartbeat(_ layout.DSID, u Usage) {
	select {
	case m.beats <- u:
	default:
	}
}

func (m *mds) FileSize(_ context.Context, o layout.Object) (uint64, error) {
	m.asked <- o
	switch o.Inode {
	case 404:
		return 0, nfs4.ErrStale
	case 500:
		return 0, errors.New("a disk on fire")
	}
	return o.Inode * 10, nil
}

// ds is a DS that reports its calls.
type ds struct {
	welcomed   chan Welcome
	welcomeErr error
	did        chan Command
	do         func(context.Context, Command) Ack
}

func newDS() *ds {
	return &ds{welcomed: make(chan Welcome, 100), did: make(chan Command, 10000)}
}

func (d *ds) Usage() Usage {
	return Usage{CapacityBytes: 100, UsedBytes: 10, FreeBytes: 90, Files: 3, ReadBytes: 5, WrittenBytes: 6}
}

func (d *ds) Welcomed(w Welcome) error {
	d.welcomed <- w
	return d.welcomeErr
}

func (d *ds) Do(ctx context.Context, c Command) Ack {
	d.did <- c
	if d.do != nil {
		return d.do(ctx, c)
	}
	return Ack{Status: nfs4.Status(c.Object.Inode)}
}

// serve runs a Server on addr until the test ends or stop is called.
func serve(t *testing.T, m MDS, addr string, deadAfter time.Duration) (s *Server, at string, stop func()) {
	t.Helper()
	s, err := NewServer(ServerConfig{
		Token: testToken, Cluster: testCluster, Keys: testKeys(t), Lease: 90 * time.Second, DeadAfter: deadAfter, MDS: m,
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			if err := await(t, "end of Serve", ended); err != nil {
				t.Errorf("Serve: %v", err)
			}
		}
	}
	t.Cleanup(stop)
	return s, ln.Addr().String(), stop
}

// attach runs an Agent until the test ends or stop is called.
func attach(t *testing.T, cfg AgentConfig) (a *Agent, ended chan error, stop func()) {
	t.Helper()
	if cfg.Token == "" {
		cfg.Token = testToken
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 50 * time.Millisecond
	}
	a, err := NewAgent(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	done := make(chan struct{})
	go func() {
		ended <- a.Run(ctx)
		close(done)
	}()
	stop = func() {
		cancel()
		await(t, "end of Run", done)
	}
	t.Cleanup(stop)
	return a, ended, stop
}
