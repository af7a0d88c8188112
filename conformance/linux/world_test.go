package linux_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"manifold/conformance/linux"
	"manifold/conformance/linux/guest"
	"manifold/conformance/linux/kernel"
	"manifold/conformance/linux/mountstats"
	"manifold/conformance/linux/sut"
	"manifold/conformance/linux/work"
)

// opLimit is how long one request to a guest may take: more than the client's
// own patience with a server that is away for a while, less than for ever.
const opLimit = 3 * time.Minute

// filesDriver is the kernel module of the file layout, and what mountstats
// calls it.
const (
	filesDriver = "nfs_layout_nfsv41_files"
	filesLayout = "LAYOUT_NFSV4_1_FILES"
)

// client is one guest with what the tests need to drive it.
type client struct {
	*guest.Guest
}

// do does op and fails the test if it fails.
func (c client) do(t *testing.T, op work.Op) work.Result {
	t.Helper()
	return c.doAs(t, work.Cred{}, op)
}

func (c client) doAs(t *testing.T, cred work.Cred, op work.Op) work.Result {
	t.Helper()
	return c.within(t, opLimit, cred, op)
}

// within does op as cred and fails the test if it fails or takes longer than
// limit.
func (c client) within(t *testing.T, limit time.Duration, cred work.Cred, op work.Op) work.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	res, err := c.DoAs(ctx, cred, op)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// sh runs a shell script, which must succeed, in dir.
func (c client) sh(t *testing.T, dir, script string) string {
	t.Helper()
	res := c.do(t, work.Exec{Argv: []string{"sh", "-ec", script}, Dir: dir, Seconds: int(opLimit / time.Second)})
	if res.Exit != 0 {
		t.Fatalf("%s: exit status %d of %q:\n%s", c.Name, res.Exit, script, res.Text)
	}
	return res.Text
}

// mount mounts server at a folder of that name under /mnt until the test ends,
// and returns the folder.
func (c client) mount(t *testing.T, server, name, options string) string {
	t.Helper()
	dir := "/mnt/" + name
	c.do(t, work.Mount{Source: server + ":/", Dir: dir, Type: "nfs4", Options: options})
	t.Cleanup(func() { c.do(t, work.Unmount{Dir: dir}) })
	return dir
}

// stats returns the counters of the mount at dir.
func (c client) stats(t *testing.T, dir string) mountstats.Mount {
	t.Helper()
	text := c.do(t, work.ReadFile{Path: "/proc/self/mountstats"}).Text
	mounts, err := mountstats.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		if m.Dir == dir {
			return m
		}
	}
	t.Fatalf("%s is not in mountstats:\n%s", dir, text)
	return mountstats.Mount{}
}

// direct fails the test unless every read and write of the mount so far went
// to a data server.
func (c client) direct(t *testing.T, dir string) {
	t.Helper()
	s := c.stats(t, dir)
	if s.FallbackReads() != 0 || s.FallbackWrites() != 0 {
		t.Errorf("%s: %d reads and %d writes went to the metadata server; %d and %d to data servers",
			c.Name, s.FallbackReads(), s.FallbackWrites(), s.PNFSReads(), s.PNFSWrites())
	}
}

// boot starts guest n of suite; it ends with the test.
func boot(t *testing.T, suite, name, shared string, n int) client {
	t.Helper()
	agent := tool(t, "agent")
	k, err := kernel.Install(t.Context(), suite)
	if err != nil {
		t.Fatal(err)
	}
	tap := fmt.Sprint("tap", n)
	if err := linux.AddTap(tap); err != nil {
		t.Fatal(err)
	}
	g, err := guest.Boot(t.Context(), guest.Options{
		Config: guest.Config{
			Name: name, Address: fmt.Sprintf("10.98.100.%d/16", 1+n), Harness: linux.Address,
			Modules: []string{"sunrpc", "nfs", "nfsv4", filesDriver}, Shared: []string{shared},
		},
		Kernel: k, Agent: agent, Tap: tap, Memory: "1024M", Dir: filepath.Join(t.TempDir(), name),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if err := linux.RemoveTap(tap); err != nil {
			t.Error(err)
		}
	})
	return client{g}
}

// world is all that a run of the kernel tests has: one guest of each kernel,
// and the servers, which start when they are first asked for.
type world struct {
	t       *testing.T // which owns the guests and the servers
	bin     string
	shared  string // a folder that this side and every guest can write
	clients []client
	table   *table
	mu      sync.Mutex
	servers map[string]*server
}

// newWorld boots the guests, all at once.
func newWorld(t *testing.T) *world {
	w := &world{t: t, bin: tool(t, "manifold"), shared: t.TempDir(), servers: map[string]*server{}, table: newTable()}
	if err := os.Chmod(w.shared, 0o777); err != nil {
		t.Fatal(err)
	}
	suites := kernel.Suites()
	w.clients = make([]client, len(suites))
	var wg sync.WaitGroup
	for i, suite := range suites {
		wg.Go(func() { w.clients[i] = boot(t, suite, "client-"+suite, w.shared, i) })
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return w
}

// server is a Manifold: an MDS with four data servers.
type server struct {
	sut.Ctl
	address   string // of the MDS, without port
	processes []*sut.Process
	listen    []string // the MDS's address with port, then the data servers'
	dir       string
}

// dataServers is how many each server under test has.
const dataServers = 4

// newServer makes addresses, and a folder within root, for server number n.
func (w *world) newServer(t *testing.T, n int, root string) *server {
	t.Helper()
	dir, err := os.MkdirTemp(root, "mf") // short: a Unix socket lies in it
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Ctl: sut.Ctl{Bin: w.bin, Admin: "unix:" + filepath.Join(dir, "admin.sock")}, dir: dir, address: fmt.Sprintf("10.98.%d.1", n)}
	w.t.Cleanup(func() { // not with t: other tests use the server too
		for _, p := range s.processes {
			if err := p.Stop(); err != nil {
				w.t.Error(err)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			w.t.Error(err)
		}
	})
	for i := range dataServers + 1 {
		ip := s.address
		if i > 0 {
			ip = fmt.Sprintf("10.98.%d.%d", n, 10+i)
		}
		if err := linux.AddAddress(ip + "/16"); err != nil {
			t.Fatal(err)
		}
		s.listen = append(s.listen, ip+":2049")
	}
	return s
}

// run starts one process of the server; listen is where it must answer.
func (s *server) run(t *testing.T, name string, listen []string, args ...string) {
	t.Helper()
	p, err := sut.Start(t.Context(), s.Bin, filepath.Join(s.dir, name+".log"), listen, args...)
	if err != nil {
		t.Fatal(err)
	}
	s.processes = append(s.processes, p)
}

// up starts `manifold up` as server number n, with further flags. Its data lie
// in memory: the disk of a shared machine may need 5 ms to sync, which ten
// thousand files would wait for.
func (w *world) up(t *testing.T, n int, flags ...string) *server {
	t.Helper()
	return w.upIn(t, n, "/dev/shm", flags...)
}

// upIn is up with the data within the folder root.
func (w *world) upIn(t *testing.T, n int, root string, flags ...string) *server {
	t.Helper()
	s := w.newServer(t, n, root)
	s.run(t, "up", s.listen, append([]string{"up", "--data", filepath.Join(s.dir, "data"), "--listen", s.listen[0],
		"--data-servers", fmt.Sprint(dataServers), "--ds-listen", strings.Join(s.listen[1:], ","), "--admin", s.Admin}, flags...)...)
	if err := s.DSUp(t.Context(), dataServers); err != nil {
		t.Fatal(err)
	}
	return s
}

// direct is the server whose MDS refuses to carry data: a client that does not
// reach the data servers fails there, instead of passing unseen.
func (w *world) direct(t *testing.T) *server {
	t.Helper()
	return w.keep(t, "without proxy", func() *server { return w.up(t, 1, "--no-proxy-io") })
}

// apart starts an MDS and its data servers as separate processes, as server
// number n, with further flags for the MDS, on the disk. The first process is
// the MDS.
func (w *world) apart(t *testing.T, n int, flags ...string) *server {
	t.Helper()
	s := w.newServer(t, n, "")
	data, control := filepath.Join(s.dir, "mds"), s.address+":2050"
	s.run(t, "mds", []string{s.listen[0], control}, append([]string{"mds", "--data", data, "--listen", s.listen[0],
		"--control", control, "--admin", s.Admin}, flags...)...)
	token, err := filepath.Glob(filepath.Join(data, "*token*"))
	if err != nil || len(token) != 1 {
		t.Fatalf("token files in %s: %v, %v, want one", data, token, err)
	}
	for i := 1; i <= dataServers; i++ {
		name := fmt.Sprint("ds", i)
		s.run(t, name, nil, "ds", "--data", filepath.Join(s.dir, name), "--listen", s.listen[i],
			"--mds", control, "--token-file", token[0], "--id", name)
	}
	if err := s.DSUp(t.Context(), dataServers); err != nil {
		t.Fatal(err)
	}
	return s
}

// written returns how many bytes each data server has taken so far.
func (s *server) written(t *testing.T) map[string]int64 {
	t.Helper()
	list, err := s.DSList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]int64{}
	for _, ds := range list {
		by[string(ds.ID)] = int64(ds.Written)
	}
	return by
}

// settled is written once it has stopped changing: data servers report once a
// second, so the last bytes of an earlier test may still be on their way.
func (s *server) settled(t *testing.T) map[string]int64 {
	t.Helper()
	last, since := s.written(t), time.Now()
	for time.Since(since) < 1500*time.Millisecond {
		time.Sleep(100 * time.Millisecond)
		if now := s.written(t); !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
	}
	return last
}

// shares waits until the data servers have reported size bytes written since
// before, and fails the test unless each has its part of them, give or take 2 %
// of the size.
func (s *server) shares(t *testing.T, before map[string]int64, size int64) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		var total int64
		now := s.written(t)
		for id := range now {
			total += now[id] - before[id]
		}
		if total < size && time.Now().Before(deadline) {
			time.Sleep(100 * time.Millisecond) // they report once a second
			continue
		}
		if total < size || total > size+size/50 {
			t.Errorf("data servers took %d bytes of a file of %d", total, size)
		}
		for id := range now {
			got, part := now[id]-before[id], size/int64(len(now))
			if got < part-size/50 || got > part+size/50 {
				t.Errorf("data server %s took %d of %d bytes (%.1f %%), want %.0f %% ± 2", id, got, size, 100*float64(got)/float64(size), 100/float64(len(now)))
			}
		}
		return
	}
}

// noProxy fails the test if the MDS carried a byte.
func (s *server) noProxy(t *testing.T) {
	t.Helper()
	st, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.ProxyRead != 0 || st.ProxyWritten != 0 {
		t.Errorf("the metadata server read %d and wrote %d bytes for clients, want none", st.ProxyRead, st.ProxyWritten)
	}
}
