package control

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"manifold/layout"
	pb "manifold/layout/control/controlpb"
	"manifold/xdr/nfs4"
)

func TestAttach(t *testing.T) {
	m, d := newMDS(), newDS()
	s, addr, _ := serve(t, m, "127.0.0.1:0", 0)
	hello := testHello(7)
	a, _, stop := attach(t, AgentConfig{Targets: []string{addr}, Hello: hello, DS: d})

	w := await(t, "welcome", d.welcomed)
	if w.DS != 7 || w.Cluster != testCluster || w.Lease != 90*time.Second {
		t.Errorf("welcome %+v", w)
	}
	c := layout.Capability{Client: 5}
	if got, st := w.Keys.OpenDS(testKeys(t).SealDS(c)); st != nfs4.OK || got != c {
		t.Errorf("the keys do not open: %v", st)
	}
	h := await(t, "hello", m.attached)
	if h.UUID != hello.UUID || h.Instance != hello.Instance || h.Name != hello.Name || h.Addresses[0] != hello.Addresses[0] || h.Usage != d.Usage() {
		t.Errorf("hello %+v", h)
	}
	if u := await(t, "heartbeat", m.beats); u != d.Usage() {
		t.Errorf("usage %+v", u)
	}
	if ids := s.Attached(); len(ids) != 1 || ids[0] != 7 {
		t.Errorf("attached: %v", ids)
	}
	obj := layout.Object{Volume: 1, Inode: 42, Gen: 2}
	if size, err := a.FileSize(t.Context(), obj); size != 420 || err != nil {
		t.Errorf("FileSize = %d, %v", size, err)
	}
	if got := await(t, "question", m.asked); got != obj {
		t.Errorf("asked for %v", got)
	}
	if _, err := a.FileSize(t.Context(), layout.Object{Inode: 404}); !errors.Is(err, nfs4.ErrStale) {
		t.Errorf("FileSize of no file: %v", err)
	}
	if _, err := a.FileSize(t.Context(), layout.Object{Inode: 500}); !errors.Is(err, nfs4.ErrIO) {
		t.Errorf("FileSize with an error inside: %v", err)
	}
	stop()
	await(t, "detach", m.detached)
	if _, err := s.Do(t.Context(), 7, Command{Kind: Ready}); !errors.Is(err, ErrDetached) {
		t.Errorf("Do after the end: %v", err)
	}
}

func TestCommands(t *testing.T) {
	m, d := newMDS(), newDS()
	s, addr, _ := serve(t, m, "127.0.0.1:0", 0)
	attach(t, AgentConfig{Targets: []string{addr}, Hello: testHello(1), DS: d})
	await(t, "attach", m.attached)
	o := layout.Object{Volume: 9, Inode: 8, Gen: 7}
	cmds := []Command{
		{Kind: FenceClient, Client: 1 << 40},
		{Kind: FenceObject, Object: o, Epoch: 3},
		{Kind: Truncate, Object: o, Size: 1 << 50},
		{Kind: Remove, Object: o},
		{Kind: SetKeys, Keys: testKeys(t)},
		{Kind: Ready},
	}
	acks, err := s.Do(t.Context(), 1, cmds...)
	if err != nil || len(acks) != len(cmds) {
		t.Fatalf("%d acks, %v", len(acks), err)
	}
	for i, want := range cmds {
		got := <-d.did
		if want.Kind == SetKeys {
			if got.Keys.Current() != 3 {
				t.Errorf("keys: %+v", got)
			}
			got.Keys = want.Keys
		}
		if got != want || acks[i].Status != nfs4.Status(want.Object.Inode) {
			t.Errorf("did %+v, want %+v, ack %+v", got, want, acks[i])
		}
	}
	if acks, err := s.Do(t.Context(), 1, Command{Kind: 99}); err != nil || acks[0].Status != nfs4.ErrNotSupp {
		t.Errorf("unknown kind: %+v, %v", acks, err)
	}
	if acks, err := s.Do(t.Context(), 1); err != nil || len(acks) != 0 {
		t.Errorf("no command: %+v, %v", acks, err)
	}
}

// TestManyInOrder sends more than may be in flight from several goroutines.
func TestManyInOrder(t *testing.T) {
	m, d := newMDS(), newDS()
	s, addr, _ := serve(t, m, "127.0.0.1:0", 0)
	attach(t, AgentConfig{Targets: []string{addr}, Hello: testHello(1), DS: d})
	await(t, "attach", m.attached)
	const senders, each = 4, 1500
	ended := make(chan error, senders)
	for g := range senders {
		go func() {
			cmds := make([]Command, each)
			for i := range cmds {
				cmds[i] = Command{Kind: Remove, Object: layout.Object{Volume: uint32(g), Inode: uint64(i)}}
			}
			acks, err := s.Do(context.Background(), 1, cmds...)
			for i := range acks {
				if acks[i].Status != nfs4.Status(i) {
					err = errors.New("an ack at the wrong place")
				}
			}
			ended <- err
		}()
	}
	for range senders {
		if err := await(t, "acks", ended); err != nil {
			t.Error(err)
		}
	}
	var next [senders]uint64
	for range senders * each {
		c := <-d.did
		if c.Object.Inode != next[c.Object.Volume] {
			t.Fatalf("sender %d: %d where %d was due", c.Object.Volume, c.Object.Inode, next[c.Object.Volume])
		}
		next[c.Object.Volume]++
	}
}

func TestDoGivesUp(t *testing.T) {
	m, d := newMDS(), newDS()
	release := make(chan struct{})
	d.do = func(_ context.Context, c Command) Ack {
		if c.Kind == Remove {
			<-release
		}
		return Ack{Status: nfs4.Status(c.Object.Inode)}
	}
	s, addr, _ := serve(t, m, "127.0.0.1:0", 0)
	attach(t, AgentConfig{Targets: []string{addr}, Hello: testHello(1), DS: d})
	await(t, "attach", m.attached)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Do(ctx, 1, Command{Kind: Remove})
		ended <- err
	}()
	await(t, "remove", d.did)
	cancel()
	if err := await(t, "end of Do", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Do: %v", err)
	}
	close(release)
	// The late ack of the remove must not be taken for the truncation's.
	acks, err := s.Do(t.Context(), 1, Command{Kind: Truncate, Object: layout.Object{Inode: 5}})
	if err != nil || acks[0].Status != 5 {
		t.Errorf("truncation: %+v, %v", acks, err)
	}
}

func TestRefused(t *testing.T) {
	_, addr, _ := serve(t, newMDS(), "127.0.0.1:0", 0)
	stranger := testHello(2)
	stranger.Cluster = [16]byte{1}
	for _, c := range []struct {
		name, want string
		cfg        AgentConfig
	}{
		{"wrong token", "wrong join token", AgentConfig{Token: "a join token of the tesT", Hello: testHello(1)}},
		{"wrong cluster", "belongs to cluster 0100", AgentConfig{Hello: stranger}},
	} {
		c.cfg.Targets, c.cfg.DS = []string{addr}, newDS()
		_, ended, _ := attach(t, c.cfg)
		if err := await(t, "refusal", ended); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := pb.NewControlClient(conn).FileSize(t.Context(), &pb.FileSizeRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("FileSize without a token: %v", err)
	}
}

// TestRightCluster attaches a folder that was welcomed before.
func TestRightCluster(t *testing.T) {
	m := newMDS()
	_, addr, _ := serve(t, m, "127.0.0.1:0", 0)
	h := testHello(1)
	h.Cluster = testCluster
	attach(t, AgentConfig{Targets: []string{addr}, Hello: h, DS: newDS()})
	if got := await(t, "attach", m.attached); got.Cluster != testCluster {
		t.Errorf("cluster %x", got.Cluster)
	}
}

func TestWelcomedRefuses(t *testing.T) {
	_, addr, _ := serve(t, newMDS(), "127.0.0.1:0", 0)
	d := newDS()
	d.welcomeErr = errors.New("another number on disk")
	_, ended, _ := attach(t, AgentConfig{Targets: []string{addr}, Hello: testHello(1), DS: d})
	if err := await(t, "end", ended); err != d.welcomeErr {
		t.Errorf("Run: %v", err)
	}
}

// rawAttach speaks the protocol by hand.
func rawAttach(t *testing.T, addr string) grpc.BidiStreamingClient[pb.FromDS, pb.ToDS] {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(tokenCreds(testToken)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	st, err := pb.NewControlClient(conn).Attach(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestBadHello(t *testing.T) {
	_, addr, _ := serve(t, newMDS(), "127.0.0.1:0", 0)
	for name, spoil := range map[string]func(*pb.Hello){
		"version 2 of the control protocol": func(h *pb.Hello) { h.Protocol = 2 },
		"uuid of 0 bytes":                   func(h *pb.Hello) { h.Uuid = nil },
		"uuid of 16 bytes, or zero":         func(h *pb.Hello) { h.Uuid = make([]byte, 16) },
		"uuid of 17 bytes":                  func(h *pb.Hello) { h.Uuid = make([]byte, 17) },
		"instance of 3 bytes":               func(h *pb.Hello) { h.Instance = h.Instance[:3] },
		"cluster id of 1 bytes":             func(h *pb.Hello) { h.Cluster = []byte{1} },
		"name is over 64 bytes":             func(h *pb.Hello) { h.Name = strings.Repeat("x", 65) },
		"or not printable":                  func(h *pb.Hello) { h.Name = "a\nb" },
		"version is over 128 bytes":         func(h *pb.Hello) { h.Version = strings.Repeat("x", 129) },
		"0 addresses":                       func(h *pb.Hello) { h.Addresses = nil },
		`address "tcp" "localhost:2049"`:    func(h *pb.Hello) { h.Addresses[0].HostPort = "localhost:2049" },
		`address "tcp" "0.0.0.0:0"`:         func(h *pb.Hello) { h.Addresses[0].HostPort = "0.0.0.0:0" },
		`address "udp"`:                     func(h *pb.Hello) { h.Addresses[0].Netid = "udp" },
	} {
		st := rawAttach(t, addr)
		h := helloToPB(testHello(1))
		spoil(h)
		_ = st.Send(&pb.FromDS{Msg: &pb.FromDS_Hello{Hello: h}})
		if _, err := st.Recv(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	st := rawAttach(t, addr)
	_ = st.Send(&pb.FromDS{Msg: &pb.FromDS_Heartbeat{}})
	if _, err := st.Recv(); err == nil || !strings.Contains(err.Error(), "first message is no hello") {
		t.Errorf("no hello: %v", err)
	}
}

func TestBadMessages(t *testing.T) {
	m := newMDS()
	_, addr, _ := serve(t, m, "127.0.0.1:0", 0)
	for want, msg := range map[string]*pb.FromDS{
		"ack of command 5 out of order": {Msg: &pb.FromDS_Ack{Ack: &pb.Ack{Seq: 5}}},
		"neither heartbeat nor ack":     {Msg: &pb.FromDS_Hello{}},
	} {
		st := rawAttach(t, addr)
		_ = st.Send(&pb.FromDS{Msg: &pb.FromDS_Hello{Hello: helloToPB(testHello(1))}})
		if _, err := st.Recv(); err != nil {
			t.Fatal(err)
		}
		_ = st.Send(msg)
		if _, err := st.Recv(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
		if err := await(t, "detach", m.detached); !errors.Is(err, errMessage) {
			t.Errorf("detached: %v", err)
		}
	}
}

func TestServerConfig(t *testing.T) {
	good := ServerConfig{Token: testToken, Cluster: testCluster, Keys: testKeys(t), Lease: time.Second, MDS: newMDS()}
	if _, err := NewServer(good); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*ServerConfig){
		"short token": func(c *ServerConfig) { c.Token = "short" },
		"no cluster":  func(c *ServerConfig) { c.Cluster = [16]byte{} },
		"no keys":     func(c *ServerConfig) { c.Keys = nil },
		"no MDS":      func(c *ServerConfig) { c.MDS = nil },
		"no lease":    func(c *ServerConfig) { c.Lease = 0 },
	} {
		c := good
		spoil(&c)
		if _, err := NewServer(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewAgent(AgentConfig{Targets: []string{"x:1"}, Token: testToken, DS: newDS()}); err == nil {
		t.Error("an agent without a hello")
	}
	if _, err := NewAgent(AgentConfig{Targets: []string{"x:1"}, Hello: testHello(1), DS: newDS()}); err == nil {
		t.Error("an agent without a token")
	}
}
