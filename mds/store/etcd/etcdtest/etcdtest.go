// Package etcdtest runs real etcd servers for tests.
//
// Its noun is a Cluster: some members, each a process on this machine with its
// own folder, which a test may kill, stop and start again.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// BinEnv names a variable with the path of the etcd server to use. Without it
// one is built from the module in the folder server.
const BinEnv = "ETCD_BIN"

// Cluster is a running etcd.
type Cluster struct {
	t       testing.TB
	bin     string
	args    []string
	initial string
	members []*member
}

type member struct {
	name, dir, client, peer string
	cmd                     *exec.Cmd
}

// Start runs n members on loopback with more arguments, waits until they agree, and
// ends them with the test.
func Start(t testing.TB, n int, args ...string) *Cluster {
	t.Helper()
	return StartAt(t, slices.Repeat([]string{"127.0.0.1"}, n), args...)
}

// StartAt is Start with one member at each address of this machine.
func StartAt(t testing.TB, hosts []string, args ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t, bin: binary(t), args: args}
	var initial []string
	for i, host := range hosts {
		m := &member{name: fmt.Sprintf("m%d", i), client: "http://" + freeAddr(t, host), peer: "http://" + freeAddr(t, host)}
		m.dir = filepath.Join(t.TempDir(), m.name)
		initial = append(initial, m.name+"="+m.peer)
		c.members = append(c.members, m)
	}
	c.initial = strings.Join(initial, ",")
	t.Cleanup(func() {
		for i := range c.members {
			c.Kill(i)
		}
	})
	for i := range c.members {
		c.Restart(i)
	}
	c.awaitLeader()
	return c
}

// Endpoints are the members' addresses for clients.
func (c *Cluster) Endpoints() []string {
	var e []string
	for _, m := range c.members {
		e = append(e, m.client)
	}
	return e
}

// Restart starts a member that does not run.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	m := c.members[i]
	log, err := os.OpenFile(m.dir+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	args := append([]string{
		"--name", m.name, "--data-dir", m.dir, "--listen-client-urls", m.client, "--advertise-client-urls", m.client,
		"--listen-peer-urls", m.peer, "--initial-advertise-peer-urls", m.peer, "--initial-cluster", c.initial,
		"--initial-cluster-token", c.t.Name(), "--log-level", "warn",
	}, c.args...)
	m.cmd = exec.Command(c.bin, args...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// Kill ends a member at once.
func (c *Cluster) Kill(i int) {
	m := c.members[i]
	if m.cmd == nil {
		return
	}
	if err := m.cmd.Process.Kill(); err != nil {
		c.t.Error(err)
	}
	_ = m.cmd.Wait() // says that it was killed
	m.cmd = nil
}

// Signal sends a signal to a member, such as SIGSTOP.
func (c *Cluster) Signal(i int, s syscall.Signal) {
	c.t.Helper()
	if err := c.members[i].cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// Leader returns the member that leads etcd.
func (c *Cluster) Leader() int {
	c.t.Helper()
	client := c.Client()
	for i, m := range c.members {
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
		s, err := client.Status(ctx, m.client)
		cancel()
		if err == nil && s.Leader == s.Header.MemberId {
			return i
		}
	}
	c.t.Fatal("etcd has no leader")
	return -1
}

// Client returns a client of all members, closed with the test.
func (c *Cluster) Client() *clientv3.Client {
	c.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: time.Second, Logger: zap.NewNop()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			c.t.Error(err)
		}
	})
	return client
}

func (c *Cluster) awaitLeader() {
	c.t.Helper()
	client := c.Client()
	var err error
	for range 300 {
		ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
		_, err = client.Get(ctx, "nothing")
		cancel()
		if err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	log, _ := os.ReadFile(c.members[0].dir + ".log")
	c.t.Fatalf("etcd does not start: %v\n%s", err, log)
}

func freeAddr(t testing.TB, host string) string {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func binary(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv(BinEnv); bin != "" {
		return bin
	}
	bin, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// Build makes the server in the user's cache, where go finds it up to date the next
// time, and returns its path.
func Build() (string, error) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(cache, "manifold-etcd", "etcd")
	if err := os.MkdirAll(filepath.Dir(bin), 0o755); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", bin, "go.etcd.io/etcd/server/v3")
	cmd.Dir = filepath.Join(strings.TrimSpace(string(module)), "mds/store/etcd/etcdtest/server")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build etcd: %w\n%s", err, out)
	}
	return bin, nil
}
