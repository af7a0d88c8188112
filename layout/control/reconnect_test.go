package control

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"manifold/layout"
)

// TestServerRestart kills the metadata server while a command is being carried
// out: the Agent comes back, and not before it is done with that command.
func TestServerRestart(t *testing.T) {
	m, d := newMDS(), newDS()
	begun, release := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	busy := false
	d.do = func(ctx context.Context, c Command) Ack {
		if c.Kind == Truncate {
			mu.Lock()
			busy = true
			mu.Unlock()
			close(begun)
			<-ctx.Done()
			<-release
			mu.Lock()
			busy = false
			mu.Unlock()
		}
		return Ack{}
	}
	s, addr, stop := serve(t, m, "127.0.0.1:0", 0)
	attach(t, AgentConfig{Targets: []string{addr}, Hello: testHello(1), DS: d})
	await(t, "attach", m.attached)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Do(context.Background(), 1, Command{Kind: Truncate}, Command{Kind: Remove})
		ended <- err
	}()
	await(t, "truncate", begun)
	stop()
	if err := await(t, "end of Do", ended); !errors.Is(err, ErrDetached) {
		t.Errorf("Do: %v", err)
	}
	await(t, "detach", m.detached)

	m.registerErr = func(Hello) error {
		mu.Lock()
		defer mu.Unlock()
		if busy {
			t.Error("hello again while a command of the earlier connection runs")
		}
		return nil
	}
	s, _, _ = serve(t, m, addr, 0)
	close(release)
	h := await(t, "second attach", m.attached)
	if h.Cluster != testCluster {
		t.Errorf("second hello is for cluster %x", h.Cluster)
	}
	if _, err := s.Do(t.Context(), 1, Command{Kind: Ready}); err != nil {
		t.Errorf("Do: %v", err)
	}
	// The remove was in the dead connection's queue: it must never be done.
	for _, want := range []Kind{Truncate, Ready} {
		if c := await(t, "command", d.did); c.Kind != want {
			t.Errorf("did %v, want %v", c.Kind, want)
		}
	}
}

// TestRegisterFails refuses for now: the Agent must try again.
func TestRegisterFails(t *testing.T) {
	m := newMDS()
	tries := 0
	m.registerErr = func(Hello) error {
		if tries++; tries < 3 {
			return errors.New("the store is busy")
		}
		return nil
	}
	_, addr, _ := serve(t, m, "127.0.0.1:0", 0)
	attach(t, AgentConfig{Targets: []string{addr}, Hello: testHello(1), DS: newDS()})
	await(t, "attach", m.attached)
	if tries != 3 {
		t.Errorf("%d tries", tries)
	}
}

// TestSameUUID attaches a second process and then a second connection.
func TestSameUUID(t *testing.T) {
	m, first, second := newMDS(), newDS(), newDS()
	registered := make(chan Hello, 100)
	m.registerErr = func(h Hello) error {
		registered <- h
		return nil
	}
	_, addr, _ := serve(t, m, "127.0.0.1:0", 0)
	_, _, stop := attach(t, AgentConfig{Targets: []string{addr}, Hello: testHello(1), DS: first})
	await(t, "attach", m.attached)

	other := testHello(1)
	other.Instance = [16]byte{0xee}
	st := rawAttach(t, addr)
	_ = st.Send(helloMessage(other))
	if _, err := st.Recv(); err == nil || !strings.Contains(err.Error(), "data server 1 (dsb) is attached from 127.0.0.1:") {
		t.Errorf("a copied folder: %v", err)
	}

	if len(registered) != 1 {
		t.Error("the copied folder was registered")
	}

	// The same process again: the first connection ends, and its Agent comes
	// back and replaces this one in turn.
	st = rawAttach(t, addr)
	_ = st.Send(helloMessage(testHello(1)))
	if _, err := st.Recv(); err != nil {
		t.Errorf("a second connection: %v", err)
	}
	if err := await(t, "detach", m.detached); !errors.Is(err, errReplaced) {
		t.Errorf("first connection: %v", err)
	}
	await(t, "attach", m.attached)
	await(t, "attach", m.attached)
	if err := await(t, "detach", m.detached); !errors.Is(err, errReplaced) {
		t.Errorf("second connection: %v", err)
	}

	// The first process ends: now the other may attach.
	stop()
	await(t, "detach", m.detached)
	attach(t, AgentConfig{Targets: []string{addr}, Hello: other, DS: second})
	if h := await(t, "attach", m.attached); h.Instance != other.Instance {
		t.Errorf("attached %+v", h)
	}
}

func TestDrop(t *testing.T) {
	m := newMDS()
	s, addr, _ := serve(t, m, "127.0.0.1:0", 0)
	attach(t, AgentConfig{Targets: []string{addr}, Hello: testHello(1), DS: newDS()})
	await(t, "attach", m.attached)
	why := errors.New("removed by the operator")
	s.Drop(1, why)
	if err := await(t, "detach", m.detached); err != why {
		t.Errorf("detached: %v", err)
	}
	s.Drop(99, why)
	await(t, "attach", m.attached)
}

// wire is a TCP path between two ends that can go dead without closing.
type wire struct {
	ln   net.Listener
	to   string
	mu   sync.Mutex
	dead bool
	live []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{ln: ln, to: to}
	go w.run()
	t.Cleanup(func() {
		ln.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.live {
			c.Close()
		}
	})
	return w
}

func (w *wire) run() {
	for {
		in, err := w.ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", w.to)
		if err != nil {
			in.Close()
			continue
		}
		w.mu.Lock()
		w.live = append(w.live, in, out)
		w.mu.Unlock()
		go w.copy(in, out)
		go w.copy(out, in)
	}
}

// copy drops what comes while the wire is dead, and the connection that lost
// something with it: it stays open and silent.
func (w *wire) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	lost := false
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		lost = lost || w.dead
		w.mu.Unlock()
		if err != nil {
			if !lost {
				to.Close()
			}
			return
		}
		if lost {
			_, _ = io.Discard.Write(buf[:n])
		} else if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (w *wire) set(dead bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = dead
}

// TestDeadPeer cuts the wire without a word: each end must notice by itself,
// and the data server come back when the wire does.
func TestDeadPeer(t *testing.T) {
	m, d := newMDS(), newDS()
	const deadAfter = 500 * time.Millisecond
	s, addr, _ := serve(t, m, "127.0.0.1:0", deadAfter)
	w := newWire(t, addr)
	attach(t, AgentConfig{Targets: []string{w.ln.Addr().String()}, Hello: testHello(1), DS: d, DeadAfter: deadAfter})
	await(t, "attach", m.attached)
	await(t, "welcome", d.welcomed)
	await(t, "heartbeat", m.beats)

	w.set(true)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Do(context.Background(), 1, Command{Kind: Remove, Object: layout.Object{Inode: 1}})
		ended <- err
	}()
	if err := await(t, "detach", m.detached); !errors.Is(err, errSilent) {
		t.Errorf("detached: %v", err)
	}
	if err := await(t, "end of Do", ended); !errors.Is(err, ErrDetached) {
		t.Errorf("Do: %v", err)
	}
	w.set(false)
	await(t, "attach", m.attached)
	await(t, "welcome", d.welcomed)
	if _, err := s.Do(t.Context(), 1, Command{Kind: Ready}); err != nil {
		t.Errorf("Do: %v", err)
	}
}
