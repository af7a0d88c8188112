package linux_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"manifold/conformance/linux"
	"manifold/conformance/linux/sut"
	"manifold/conformance/linux/work"
	"manifold/mds/store/etcd/etcdtest"
)

// repeats is how often each fault happens. All of them take minutes, so without it
// only the first one does.
var repeats = flag.Int("takeover.repeats", 0, "how often each fault of TestTakeover happens; 0: the first one, once")

const (
	nodes = 3
	// serviceAddress is what clients mount from.
	serviceAddress = "10.98.9.100"
	// settle is how long the cluster is left alone between two faults.
	settle = 3 * time.Second
)

// nodeServer is one metadata server of a cluster, in a network of its own.
type nodeServer struct {
	sut.Ctl
	name string // of the network namespace too
	ip   string
	*sut.Process
}

// haCluster is etcd, three metadata servers and the data servers.
type haCluster struct {
	w     *world
	etcd  *etcdtest.Cluster
	nodes []*nodeServer
	ds    *server
}

// newNode makes the network of a metadata server.
func (h *haCluster) newNode(t *testing.T, i int) *nodeServer {
	t.Helper()
	n := &nodeServer{name: fmt.Sprintf("mds%d-%x", i, time.Now().UnixNano()&0xffffffff), ip: fmt.Sprintf("10.98.9.%d", 50+i)}
	veth := fmt.Sprint("vmds", i)
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	run("netns", "add", n.name)
	t.Cleanup(func() { run("netns", "del", n.name) })
	run("link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", n.name)
	run("link", "set", veth, "master", "br0", "up")
	run("-n", n.name, "link", "set", "lo", "up")
	run("-n", n.name, "addr", "add", n.ip+"/16", "dev", "eth0")
	run("-n", n.name, "link", "set", "eth0", "up")
	return n
}

// newHACluster starts everything.
func newHACluster(t *testing.T, w *world) *haCluster {
	t.Helper()
	h := &haCluster{w: w, ds: w.newServer(t, 9, "/dev/shm")}
	var hosts []string
	for i := range 3 {
		ip := fmt.Sprintf("10.98.9.%d", 200+i)
		if err := linux.AddAddress(ip + "/16"); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, ip)
	}
	h.etcd = etcdtest.StartAt(t, hosts)
	const token = "a join token for the test"
	var control []string
	for i := 1; i <= nodes; i++ {
		n := h.newNode(t, i)
		dir := filepath.Join(h.ds.dir, n.name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "join.token"), []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		n.Ctl = sut.Ctl{Bin: w.bin, Admin: "unix:" + filepath.Join(dir, "admin.sock")}
		p, err := sut.Start(t.Context(), "ip", filepath.Join(h.ds.dir, n.name+".log"), nil,
			"netns", "exec", n.name, w.bin, "mds", "--data", dir, "--id", n.name, "--listen", "0.0.0.0:2049", "--control", "0.0.0.0:2050",
			"--etcd", strings.Join(h.etcd.Endpoints(), ","), "--service-address", serviceAddress+"/16@eth0", "--lease", "10s", "--metrics", "127.0.0.1:9464", "--admin", n.Admin)
		if err != nil {
			t.Fatal(err)
		}
		n.Process = p
		t.Cleanup(func() {
			if err := n.Stop(); err != nil {
				t.Error(err)
			}
		})
		h.nodes = append(h.nodes, n)
		control = append(control, n.ip+":2050")
	}
	file := filepath.Join(h.ds.dir, "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= dataServers; i++ {
		name := fmt.Sprint("ds", i)
		h.ds.run(t, name, nil, "ds", "--data", filepath.Join(h.ds.dir, name), "--listen", h.ds.listen[i],
			"--mds", strings.Join(control, ","), "--token-file", file, "--id", name)
	}
	h.up(t)
	return h
}

// explain prints what the metadata servers say.
func (h *haCluster) explain(t *testing.T) {
	for _, n := range h.nodes {
		for _, what := range [][]string{{"mds", "list"}, {"status"}, {"ds", "list"}, {"client", "list"}} {
			out, err := n.Run(context.WithoutCancel(t.Context()), what...)
			t.Logf("%s: ctl %s: %v\n%s", n.name, strings.Join(what, " "), err, out)
		}
		t.Logf("%s:\n%s", n.name, n.Log())
		out, err := exec.Command("ip", "netns", "exec", n.name, "bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/9464; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; grep -E '^manifold.*(operation|deleg|grace|recall).*' <&3 | grep -v bucket; sleep 20;  exec 3<>/dev/tcp/127.0.0.1/9464; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; grep -E '^manifold.*(operation|deleg|grace|recall).*' <&3 | grep -v bucket`).CombinedOutput()
		t.Logf("%v\n%s", err, out)
	}
	for _, c := range h.w.clients {
		res, err := c.Do(t.Context(), work.Exec{Argv: []string{"bash", "-c", "for f in /proc/[0-9]*/task/*; do echo $f $(cat $f/comm) $(cat $f/wchan); cat $f/stack 2>/dev/null | head -12; done"}})
		t.Logf("%s %v %s", c.Name, err, res.Text)
	}
}

// up waits until the data servers have joined whoever leads.
func (h *haCluster) up(t *testing.T) {
	t.Helper()
	var err error
	for range 5 { // the lead may move meanwhile, on a busy machine
		if err = h.leader(t).DSUp(t.Context(), dataServers); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// leader waits until a metadata server leads, and returns it.
func (h *haCluster) leader(t *testing.T) *nodeServer {
	t.Helper()
	for deadline := time.Now().Add(opLimit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		for _, n := range h.nodes {
			if _, err := n.Status(t.Context()); err == nil {
				return n
			}
		}
	}
	for _, n := range h.nodes {
		t.Log(n.Log())
	}
	t.Fatal("no metadata server leads")
	return nil
}

// fault is something that happens to the cluster, and how it is made good.
type fault struct {
	name string
	do   func(t *testing.T, h *haCluster, leader *nodeServer) (mend func(t *testing.T))
}

func faults() []fault {
	return []fault{
		{"kill -9 of the metadata server", func(t *testing.T, h *haCluster, l *nodeServer) func(*testing.T) {
			check(t, l.Kill())
			return func(t *testing.T) { check(t, l.Restart(t.Context(), nil)) }
		}},
		{"the metadata server stopped for 6 s", func(t *testing.T, h *haCluster, l *nodeServer) func(*testing.T) {
			check(t, l.Signal(syscall.SIGSTOP))
			return func(t *testing.T) {
				time.Sleep(6 * time.Second) // the fault's length
				check(t, l.Signal(syscall.SIGCONT))
			}
		}},
		{"planned handover", func(t *testing.T, h *haCluster, l *nodeServer) func(*testing.T) {
			_, err := l.Run(t.Context(), "mds", "handover")
			check(t, err)
			return func(*testing.T) {}
		}},
		{"the metadata server cut off from etcd", func(t *testing.T, h *haCluster, l *nodeServer) func(*testing.T) {
			for i := range 3 {
				check(t, l.ip4("route", "add", "blackhole", fmt.Sprintf("10.98.9.%d/32", 200+i)))
			}
			return func(t *testing.T) {
				time.Sleep(6 * time.Second)
				for i := range 3 {
					check(t, l.ip4("route", "del", "blackhole", fmt.Sprintf("10.98.9.%d/32", 200+i)))
				}
			}
		}},
		{"kill -9 of etcd's leader", func(t *testing.T, h *haCluster, _ *nodeServer) func(*testing.T) {
			i := h.etcd.Leader()
			h.etcd.Kill(i)
			return func(*testing.T) { h.etcd.Restart(i) }
		}},
	}
}

// ip4 runs ip in the node's network.
func (n *nodeServer) ip4(args ...string) error {
	out, err := exec.Command("ip", append([]string{"-n", n.name}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTakeover: whatever happens to the metadata servers and to etcd, a client's
// metadata operations go on after a moment, its I/O with the data servers does
// not stop, and nothing that was acknowledged is lost. It prints how long each took.
func TestTakeover(t *testing.T) {
	w := newWorld(t)
	h := newHACluster(t, w)
	c := w.clients[len(w.clients)-1]
	dir := c.mount(t, serviceAddress, "t", "vers=4.2")
	const size, block = 32 << 20, 1 << 20
	for _, name := range []string{"read", "write"} {
		c.do(t, work.Stream{Path: path.Join(dir, name), Size: size, Block: block, Write: true, Seed: 7, Blocks: size / block})
	}
	stalls := map[string][]int64{}
	note := func(what string, ms int64) { stalls[what] = append(stalls[what], ms) }
	list, times := faults(), *repeats
	if times == 0 {
		list, times = list[:1], 1
	}
	for _, f := range list {
		t.Run(f.name, func(t *testing.T) {
			for i := range times {
				h.strike(t, c, dir, f, i, func(what string, ms int64) { note(f.name+"|"+what, ms) })
			}
			if t.Failed() {
				w.explainAll(t)
			}
		})
	}
	t.Log("longest stall in milliseconds, median and most of", times, "times:\n"+stallTable(stalls))
}

// strike does one fault while the client makes files, reads and writes.
func (h *haCluster) strike(t *testing.T, c client, dir string, f fault, i int, note func(what string, ms int64)) {
	t.Helper()
	ack := work.Ack{Dir: path.Join(dir, fmt.Sprintf("%s-%d", strings.ReplaceAll(f.name, " ", "-"), i)), Log: filepath.Join(h.w.shared, "takeover"), Size: 4096, Seed: uint64(i)}
	const size, block = 32 << 20, 1 << 20
	meta := h.w.startWriter(t, c, ack)
	jobs := map[string]job{}
	for _, name := range []string{"read", "write"} {
		j, err := c.Start(work.Cred{}, work.Stream{Path: path.Join(dir, name), Size: size, Block: block, Write: name == "write", Seed: 7})
		check(t, err)
		jobs["stream "+name] = j
	}
	defer func() {
		if t.Failed() {
			h.explain(t)
		}
	}()
	h.w.progress(t, []writer{meta}, 20)
	mend := f.do(t, h, h.leader(t))
	h.w.progress(t, []writer{meta}, 30)
	mend(t)
	h.up(t)
	h.w.progress(t, []writer{meta}, 30)
	var mu sync.Mutex
	var wg sync.WaitGroup
	jobs["metadata"] = meta.job.(job)
	for what, j := range jobs {
		wg.Go(func() {
			if err := j.Cancel(); err != nil {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), opLimit)
			defer cancel()
			res, err := j.Wait(ctx)
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			mu.Lock()
			defer mu.Unlock()
			note(what, res.Stall)
			t.Logf("%s: longest stall %d ms of %d steps", what, res.Stall, res.N)
		})
	}
	wg.Wait()
	c.do(t, work.DropCaches{})
	c.do(t, ack.Checked())
	time.Sleep(settle)
}

// job is a running Op.
type job interface {
	Cancel() error
	Wait(ctx context.Context) (work.Result, error)
}

// startWriter starts ack on c.
func (w *world) startWriter(t *testing.T, c client, ack work.Ack) writer {
	t.Helper()
	j, err := c.Start(work.Cred{}, ack)
	check(t, err)
	return writer{client: c, ack: ack, job: j, wait: j.Wait}
}

// stallTable is one line a fault and kind of work, as a Markdown table.
func stallTable(stalls map[string][]int64) string {
	var b strings.Builder
	b.WriteString("| fault | work | p50 | most |\n|---|---|---:|---:|\n")
	keys := make([]string, 0, len(stalls))
	for k := range stalls {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		v := slices.Sorted(slices.Values(stalls[k]))
		name, what, _ := strings.Cut(k, "|")
		fmt.Fprintf(&b, "| %s | %s | %d | %d |\n", name, what, v[len(v)/2], v[len(v)-1])
	}
	return b.String()
}
