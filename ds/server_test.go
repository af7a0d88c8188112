package ds

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"manifold/ds/fence"
	"manifold/ds/internal/dstest"
	"manifold/layout"
	"manifold/layout/control"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// nothing is a command that changes nothing; once it is acknowledged, so is what
// was sent before it.
var nothing = control.Command{Kind: control.Truncate, Object: layout.Object{Inode: 1 << 40}}

// TestNotBeforeReady: a data server that has not caught up refuses clients.
func TestNotBeforeReady(t *testing.T) {
	m := newMetadata(t, "")
	m.hold = true
	m.backlog = []control.Command{{Kind: control.FenceClient, Client: testClient}}
	r := start(t, testConfig(t, m, t.TempDir()))
	m.await(t, "attached")
	wantRefused(t, r.addr)
	m.must(t, nothing) // the backlog is done before this
	wantRefused(t, r.addr)
	m.must(t, control.Command{Kind: control.Ready})
	r.awaitReady(t)
	c := dstest.Dial(t, r.addr, "client")
	_, s := c.Write(t, m.fh(testClient, 1), 0, nfs4.Unstable, []byte("x"))
	wantStatus(t, "WRITE of a client fenced while we were away", s, nfs4.ErrPNFSNoLayout)
	_, s = c.Write(t, m.fh(testClient+1, 1), 0, nfs4.Unstable, []byte("x"))
	wantStatus(t, "WRITE of another", s, nfs4.OK)
}

// TestServesWithoutMDS: once ready, a data server needs no metadata server but
// for the ends of files.
func TestServesWithoutMDS(t *testing.T) {
	m := newMetadata(t, "")
	r := startReady(t, m, t.TempDir())
	c := dstest.Dial(t, r.addr, "client")
	fh := m.fh(testClient, 1)
	if _, s := c.Write(t, fh, 0, nfs4.Unstable, content(4096)); s != nfs4.OK {
		t.Fatal(s)
	}
	m.setSize(testObject, 8192)
	got, s := c.Read(t, fh, 0, 8192)
	if s != nfs4.OK || !bytes.Equal(got.Data, append(content(4096), make([]byte, 4096)...)) || !got.EOF {
		t.Errorf("READ over the object's end: %d bytes, eof %v, %v", len(got.Data), got.EOF, s)
	}
	m.stop()
	_, s = c.Commit(t, fh)
	wantStatus(t, "COMMIT without the metadata server", s, nfs4.OK)
	got, s = c.Read(t, fh, 0, 4096)
	if s != nfs4.OK || !bytes.Equal(got.Data, content(4096)) {
		t.Errorf("READ without the metadata server: %d bytes, %v", len(got.Data), s)
	}
	_, s = c.Read(t, fh, 4096, 8192)
	wantStatus(t, "READ past the object without the metadata server", s, nfs4.ErrServerFault)
	other := dstest.Dial(t, r.addr, "another client, which comes now")
	_, s = other.Write(t, fh, 4096, nfs4.FileSync, content(4096))
	wantStatus(t, "WRITE without the metadata server", s, nfs4.OK)

	m2 := newMetadata(t, m.addr)
	m2.setSize(testObject, 8192)
	m2.await(t, "attached")
	m2.must(t, nothing) // welcomed, then
	got, s = c.Read(t, fh, 8192, 4096)
	if s != nfs4.OK || len(got.Data) != 0 || !got.EOF {
		t.Errorf("READ at the end when it is back: %+v, %v", got, s)
	}
}

// TestAlone: without a metadata server for too long, writes are refused until
// there is one.
func TestAlone(t *testing.T) {
	m := newMetadata(t, "")
	r := startReady(t, m, t.TempDir())
	c := dstest.Dial(t, r.addr, "client")
	fh := m.fh(testClient, 1)
	write := func(why string, want nfs4.Status) {
		t.Helper()
		_, s := c.Write(t, fh, 0, nfs4.Unstable, content(10))
		wantStatus(t, "WRITE "+why, s, want)
	}
	r.aloneAfter.Store(int64(time.Hour))
	write("with a metadata server", nfs4.OK)
	m.stop()
	write("soon after", nfs4.OK)
	r.aloneAfter.Store(1)
	write("long after", nfs4.ErrPNFSNoLayout)
	_, s := c.Commit(t, fh)
	wantStatus(t, "COMMIT long after", s, nfs4.OK)
	if _, s := c.Read(t, fh, 0, 10); s == nfs4.ErrPNFSNoLayout {
		t.Errorf("READ long after: %v", s)
	}
	r.aloneAfter.Store(int64(dstest.Patience))
	m2 := newMetadata(t, m.addr)
	m2.await(t, "attached")
	write("when one is back", nfs4.OK)
}

// reading starts a READ that waits for the metadata server, and returns when it
// does. read takes its status; answer, closed, ends it.
func reading(t *testing.T, m *metadata, c *dstest.Client) (read chan nfs4.Status, answer chan struct{}) {
	t.Helper()
	m.setSize(testObject, 100)
	asked, answer := m.holdSizes()
	read = make(chan nfs4.Status, 1)
	go func() {
		_, s := c.Read(t, m.fh(testClient, 1), 0, 100)
		read <- s
	}()
	select {
	case <-asked:
	case <-time.After(dstest.Patience):
		t.Fatal("the READ does not ask")
	}
	return read, answer
}

// TestFenceWaits: a fence is acknowledged when the I/O before it is over.
func TestFenceWaits(t *testing.T) {
	m := newMetadata(t, "")
	r := startReady(t, m, t.TempDir())
	read, answer := reading(t, m, dstest.Dial(t, r.addr, "client"))
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err := r.fences.change(short, func(t *fence.Table) (bool, error) { return t.FenceClient(testClient), nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a fence beside a READ that it is to stop: %v", err)
	}
	// It stands, but is not acknowledged, also when it is asked for again.
	acked := make(chan control.Ack, 1)
	go func() { acked <- m.do(t, control.Command{Kind: control.FenceClient, Client: testClient}) }()
	_, s := dstest.Dial(t, r.addr, "other").Commit(t, m.fh(testClient, 1))
	wantStatus(t, "COMMIT of the fenced client", s, nfs4.ErrPNFSNoLayout)
	select {
	case ack := <-acked:
		t.Errorf("fence acknowledged (%v) while a READ that it is to stop goes on", ack.Status)
	default:
	}
	close(answer)
	wantStatus(t, "READ", <-read, nfs4.OK)
	wantStatus(t, "fence", (<-acked).Status, nfs4.OK)
}

// TestShutdownFinishes: a READ in work is answered, and nothing is begun after.
func TestShutdownFinishes(t *testing.T) {
	m := newMetadata(t, "")
	r := startReady(t, m, t.TempDir())
	read, answer := reading(t, m, dstest.Dial(t, r.addr, "client"))
	ended := make(chan error, 1)
	go func() { ended <- r.Shutdown(context.Background()) }()
	wantEventuallyRefused(t, r.addr)
	close(answer)
	wantStatus(t, "READ", <-read, nfs4.OK)
	if err := <-ended; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

func wantEventuallyRefused(t *testing.T, addr string) {
	t.Helper()
	for deadline := time.Now().Add(dstest.Patience); ; {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("still listening")
		}
	}
}

// TestStartServingAfterShutdown: a Ready that comes late does not listen.
func TestStartServingAfterShutdown(t *testing.T) {
	m := newMetadata(t, "")
	s, err := New(testConfig(t, m, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.startServing()
	if s.nfs != nil {
		t.Error("it serves")
	}
	wantRefused(t, s.Addrs()[0].String())
	if err := s.Run(t.Context()); err != nil {
		t.Errorf("Run after Shutdown: %v", err)
	}
}

// TestShutdownInTime: a READ that does not end is cut off when ctx ends.
func TestShutdownInTime(t *testing.T) {
	m := newMetadata(t, "")
	s, err := New(testConfig(t, m, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(context.Background()) }()
	m.await(t, "attached")
	<-s.Ready()
	c := dstest.Dial(t, s.Addrs()[0].String(), "client")
	m.setSize(testObject, 100)
	asked, answer := m.holdSizes()
	defer close(answer)
	go func() {
		_, _ = c.On(context.Background(), m.fh(testClient, 1), client.Op{Num: nfs4.OpRead, Args: &nfs4.ReadArgs{Count: 100}}) // cut off
	}()
	<-asked
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v, want that it did not wait", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// TestFencesOutliveUs: what was acknowledged stands after a restart, whatever
// the metadata server says then.
func TestFencesOutliveUs(t *testing.T) {
	m := newMetadata(t, "")
	data := t.TempDir()
	r := startReady(t, m, data)
	c := dstest.Dial(t, r.addr, "client")
	for _, fh := range []nfs4.FH{m.fh(testClient, 1), m.fh(testClient+1, 1)} {
		if _, s := c.Write(t, fh, 0, nfs4.Unstable, []byte("before")); s != nfs4.OK {
			t.Fatal(s)
		}
	}
	for range 2 {
		m.must(t, control.Command{Kind: control.FenceClient, Client: testClient})
		m.must(t, control.Command{Kind: control.FenceObject, Object: testObject, Epoch: 3})
	}
	check := func() {
		t.Helper()
		_, s := c.Write(t, m.fh(testClient, 9), 0, nfs4.Unstable, []byte("after"))
		wantStatus(t, "WRITE of the fenced client", s, nfs4.ErrPNFSNoLayout)
		_, s = c.Commit(t, m.fh(testClient+1, 2))
		wantStatus(t, "COMMIT with the fenced epoch", s, nfs4.ErrPNFSNoLayout)
		_, s = c.Read(t, m.fh(testClient+1, 3), 0, 6)
		wantStatus(t, "READ with the new epoch", s, nfs4.OK)
	}
	check()
	r.stop(t)
	m.await(t, "detached")
	r = startReady(t, m, data)
	c = dstest.Dial(t, r.addr, "client")
	check()
}

func TestCommands(t *testing.T) {
	m := newMetadata(t, "")
	r := startReady(t, m, t.TempDir())
	c := dstest.Dial(t, r.addr, "client")
	fh := m.fh(testClient, 1)
	if _, s := c.Write(t, fh, 0, nfs4.Unstable, content(4096)); s != nfs4.OK {
		t.Fatal(s)
	}
	stat := func(want uint64) {
		t.Helper()
		var r nfs4.GetattrRes
		s, err := c.On(t.Context(), m.fh(layout.MDSClient, 5), client.Op{
			Num: nfs4.OpGetattr, Args: &nfs4.GetattrArgs{AttrRequest: nfs4.BitmapOf(nfs4.AttrSize)}, Res: &r,
		})
		if err != nil || s != nfs4.OK || r.ObjAttributes.Size != want {
			t.Errorf("size %d, want %d (%v, %v)", r.ObjAttributes.Size, want, s, err)
		}
	}
	stat(4096)
	m.setSize(testObject, 4096)
	if got, s := c.Read(t, fh, 4000, 200); s != nfs4.OK || len(got.Data) != 96 {
		t.Errorf("READ over the end: %d bytes, %v", len(got.Data), s)
	}
	m.setSize(testObject, 1000)
	m.must(t, control.Command{Kind: control.Truncate, Object: testObject, Size: 1000})
	stat(1000)
	m.must(t, control.Command{Kind: control.Truncate, Object: testObject, Size: 1 << 63})
	stat(1000)
	if got, s := c.Read(t, fh, 900, 200); s != nfs4.OK || len(got.Data) != 100 || !got.EOF {
		t.Errorf("READ over the new end: %d bytes, eof %v, %v", len(got.Data), got.EOF, s)
	}

	keys := testKeys(t, 2)
	m.must(t, control.Command{Kind: control.SetKeys, Keys: keys})
	_, s := c.Read(t, fh, 0, 1)
	wantStatus(t, "READ with the old key", s, nfs4.ErrStale)
	m.keys = keys
	fh = m.fh(testClient, 5)
	_, s = c.Read(t, fh, 0, 1)
	wantStatus(t, "READ with the new key", s, nfs4.OK)

	m.must(t, control.Command{Kind: control.FenceObject, Object: testObject, Epoch: 5})
	for range 2 {
		m.must(t, control.Command{Kind: control.Remove, Object: testObject})
	}
	stat(0)
	_, s = c.Write(t, fh, 0, nfs4.Unstable, []byte("late"))
	wantStatus(t, "WRITE to the removed object", s, nfs4.ErrStale)
	stat(0)
	if _, objects := r.fences.gate.Table().Len(); objects != 0 {
		t.Errorf("%d fences of removed objects", objects)
	}
	if ack := (orders{r.Server}).Do(t.Context(), control.Command{Kind: 99}); ack.Status != nfs4.ErrNotSupp {
		t.Errorf("unknown command: %v", ack.Status)
	}
}

func TestHeartbeat(t *testing.T) {
	m := newMetadata(t, "")
	r := startReady(t, m, t.TempDir())
	c := dstest.Dial(t, r.addr, "client")
	if _, s := c.Write(t, m.fh(testClient, 1), 0, nfs4.FileSync, content(1<<20)); s != nfs4.OK {
		t.Fatal(s)
	}
	if _, s := c.Read(t, m.fh(testClient, 1), 0, 4096); s != nfs4.OK {
		t.Fatal(s)
	}
	u := (orders{r.Server}).Usage()
	if u.WrittenBytes != 1<<20 || u.ReadBytes != 4096 || u.CapacityBytes == 0 || u.FreeBytes == 0 || u.FreeBytes > u.CapacityBytes {
		t.Errorf("%+v", u)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.hello
	if h.Name != "ds-test" || len(h.Addresses) != 1 || h.Addresses[0].AddrPort.String() != r.addr || h.UUID == ([16]byte{}) || h.Instance == ([16]byte{}) {
		t.Errorf("hello %+v", h)
	}
}

// TestIdentityLasts: the same folder is the same data server with another
// write verifier and other client ids.
func TestIdentityLasts(t *testing.T) {
	m := newMetadata(t, "")
	data := t.TempDir()
	r := startReady(t, m, data)
	c := dstest.Dial(t, r.addr, "client")
	w1, _ := c.Write(t, m.fh(testClient, 1), 0, nfs4.Unstable, []byte("x"))
	hello1, id1 := r.hello, c.ExchangeID
	r.stop(t)
	m.await(t, "detached")
	r = startReady(t, m, data)
	c = dstest.Dial(t, r.addr, "client")
	w2, _ := c.Write(t, m.fh(testClient, 1), 0, nfs4.Unstable, []byte("x"))
	if r.hello.UUID != hello1.UUID || r.hello.Cluster != cluster || r.hello.Instance == hello1.Instance {
		t.Errorf("hello %+v then %+v", hello1, r.hello)
	}
	if w1.WriteVerf == w2.WriteVerf {
		t.Error("the write verifier outlived a restart")
	}
	if !bytes.Equal(id1.ServerOwner.MajorID, c.ExchangeID.ServerOwner.MajorID) || id1.ClientID == c.ExchangeID.ClientID {
		t.Errorf("EXCHANGE_ID %+v then %+v", id1, c.ExchangeID)
	}
	if f := id1.Flags & nfs4.ExchgidFlagMaskPNFS; f != nfs4.ExchgidFlagUsePNFSDS {
		t.Errorf("role %#x", f)
	}
}

func TestRefusals(t *testing.T) {
	m := newMetadata(t, "")
	data := t.TempDir()
	startReady(t, m, data).stop(t)
	m.await(t, "detached")

	t.Run("token", func(t *testing.T) {
		cfg := testConfig(t, m, t.TempDir())
		cfg.Token = "a token of another cluster"
		if err := start(t, cfg).awaitEnd(t); !errors.Is(err, control.ErrRefused) {
			t.Errorf("%v", err)
		}
	})
	t.Run("number", func(t *testing.T) {
		m.mu.Lock()
		m.number++
		m.mu.Unlock()
		if err := start(t, testConfig(t, m, data)).awaitEnd(t); err == nil || !strings.Contains(err.Error(), "data server 7") {
			t.Errorf("%v", err)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		if err := (member{cluster: [16]byte{1}, ds: 7}).keep(data); err != nil {
			t.Fatal(err)
		}
		if err := start(t, testConfig(t, m, data)).awaitEnd(t); !errors.Is(err, control.ErrRefused) {
			t.Errorf("%v", err)
		}
	})
}

func TestCannotStart(t *testing.T) {
	m := newMetadata(t, "")
	data := t.TempDir()
	r := startReady(t, m, data)
	for name, q := range map[string]struct {
		change func(*Config) error
		want   string
	}{
		"folder in use": {func(c *Config) error { c.Data = data; return nil }, "in use by another process"},
		"port in use":   {func(c *Config) error { c.Listen = []string{r.addr}; return nil }, "cannot bind to"},
		"fences damaged": {func(c *Config) error {
			return prepared(t, c, fencesName, "rubbish")
		}, "does not start without its fences"},
		"membership damaged": {func(c *Config) error { return prepared(t, c, memberName, "cluster x ds y") }, "is damaged"},
		"starts damaged":     {func(c *Config) error { return prepared(t, c, startsName, "many") }, "is damaged"},
		"configuration":      {func(c *Config) error { c.Token = ""; return nil }, "no join token"},
		"unknown name":       {func(c *Config) error { c.Advertise = []string{"no.such.host.invalid:1"}; return nil }, "address to advertise"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t, m, t.TempDir())
			if err := q.change(&cfg); err != nil {
				t.Fatal(err)
			}
			s, err := New(cfg)
			if err == nil {
				_ = s.Shutdown(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), q.want) {
				t.Errorf("New: %v; want %q", err, q.want)
			}
		})
	}
}

// prepared makes c's folder one that was used, and puts content into its file name.
func prepared(t *testing.T, c *Config, name, content string) error {
	s, err := New(*c)
	if err != nil {
		return err
	}
	return errors.Join(s.Shutdown(t.Context()), os.WriteFile(filepath.Join(c.Data, name), []byte(content), 0o600))
}

// TestShutdown: clients are cut off, what they wrote is kept, the folder is free.
func TestShutdown(t *testing.T) {
	m := newMetadata(t, "")
	data := t.TempDir()
	r := startReady(t, m, data)
	c := dstest.Dial(t, r.addr, "client")
	if _, s := c.Write(t, m.fh(testClient, 1), 0, nfs4.Unstable, content(1<<20)); s != nfs4.OK {
		t.Fatal(s)
	}
	r.stop(t)
	if err := r.awaitEnd(t); err != nil {
		t.Errorf("Run: %v", err)
	}
	m.await(t, "detached")
	wantRefused(t, r.addr)
	select {
	case <-c.Conn.Done():
	case <-time.After(dstest.Patience):
		t.Error("the client's connection is open")
	}
	r = startReady(t, m, data)
	c = dstest.Dial(t, r.addr, "client")
	if got, s := c.Read(t, m.fh(testClient, 1), 0, 1<<20); s != nfs4.OK || !bytes.Equal(got.Data, content(1<<20)) {
		t.Errorf("READ after a restart: %d bytes, %v", len(got.Data), s)
	}
}

func TestRunEndsWithContext(t *testing.T) {
	m := newMetadata(t, "")
	s, err := New(testConfig(t, m, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(dstest.Patience):
		t.Fatal("Run goes on")
	}
}

func TestValidate(t *testing.T) {
	good := Config{Data: "x", Listen: []string{":2049", "[::1]:0"}, MDS: []string{"mds.example:7000"}, Token: "t"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"no data folder":                func(c *Config) { c.Data = "" },
		"0 listen addresses":            func(c *Config) { c.Listen = nil },
		`listen address "2049"`:         func(c *Config) { c.Listen = []string{"2049"} },
		"no number from 0":              func(c *Config) { c.Listen = []string{"a:nfs"} },
		"17 listen addresses":           func(c *Config) { c.Listen = make([]string, 17) },
		`address to advertise "a:0"`:    func(c *Config) { c.Advertise = []string{"a:0"} },
		"17 addresses to advertise":     func(c *Config) { c.Advertise = make([]string, 17) },
		"control address of the meta":   func(c *Config) { c.MDS = []string{""} },
		"0 metadata servers":            func(c *Config) { c.MDS = nil },
		"want 10s at least":             func(c *Config) { c.Alone = time.Second },
		"no join token":                 func(c *Config) { c.Token = "" },
		"name of 65 bytes":              func(c *Config) { c.Name = strings.Repeat("x", 65) },
		"a limit below 0":               func(c *Config) { c.OpenFiles = -1 },
		"reply cache of 5 bytes":        func(c *Config) { c.ReplyCache = 5 },
		`listen address ":70000": port`: func(c *Config) { c.Listen = []string{":70000"} },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

func TestAddresses(t *testing.T) {
	c := Config{Advertise: []string{"192.0.2.1:2049", "[2001:db8::1]:20490", ":111"}}
	got, err := c.addresses(t.Context(), nil)
	if err != nil || len(got) != 3 || got[0].AddrPort.String() != "192.0.2.1:2049" || got[0].Netid != "tcp" ||
		got[1].Netid != "tcp6" || got[2].AddrPort.String() != "[::]:111" {
		t.Errorf("%v, %v", got, err)
	}
	var many []string
	for range maxAddresses {
		many = append(many, "192.0.2.1:1")
	}
	got, err = (&Config{Advertise: many}).addresses(t.Context(), nil)
	if err != nil || len(got) != maxAddresses {
		t.Errorf("%d addresses, %v", len(got), err)
	}
	for addr, wild := range map[string]bool{"127.0.0.1:0": false, ":0": true, "[::]:0": true, "0.0.0.0:0": true} {
		s, err := bind(t.Context(), addr)
		if err != nil {
			t.Errorf("%s: %v", addr, err)
			continue
		}
		if s.addr.Port() == 0 || s.addr.Addr().IsUnspecified() != wild {
			t.Errorf("%s: bound to %v", addr, s.addr)
		}
		s.close()
	}
	var none []layout.Address
	if none, err = (&Config{}).addresses(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}
