package ds

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/zap"

	"manifold/ds/internal/dstest"
	"manifold/layout/control"
	"manifold/xdr/nfs4"
)

const (
	childData = "DS_TEST_CHILD_DATA"
	childMDS  = "DS_TEST_CHILD_MDS"
)

func TestMain(m *testing.M) {
	if data := os.Getenv(childData); data != "" {
		child(data, os.Getenv(childMDS))
	}
	os.Exit(m.Run())
}

// child is a data server in a process of its own, which says where it serves.
func child(data, mds string) {
	log, _ := zap.NewDevelopment()
	s, err := New(Config{Data: data, Listen: []string{"127.0.0.1:0"}, MDS: []string{mds}, Token: token, Log: log})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	go func() {
		<-s.Ready()
		fmt.Println("serving", s.Addrs()[0])
	}()
	fmt.Println("error", s.Run(context.Background()))
	os.Exit(1)
}

// spawn starts a child and returns its address and how to kill it.
func spawn(t *testing.T, m *metadata, data string) (addr string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childData+"="+data, childMDS+"="+m.addr)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	lines := bufio.NewScanner(out)
	lines.Scan()
	if _, err := fmt.Sscanf(lines.Text(), "serving %s", &addr); err != nil {
		t.Fatalf("child says %q", lines.Text())
	}
	return addr, kill
}

// TestKilled: what COMMIT or a stable WRITE acknowledged, and a fence that was
// acknowledged, are there after kill -9; what was not committed is told apart by
// the verifier.
func TestKilled(t *testing.T) {
	m := newMetadata(t, "")
	data := t.TempDir()
	addr, kill := spawn(t, m, data)
	m.await(t, "attached")
	c := dstest.Dial(t, addr, "client")
	fh := m.fh(testClient, 1)
	var verf nfs4.Verifier
	for i := range 8 {
		w, s := c.Write(t, fh, uint64(i)<<20, nfs4.Unstable, content(1<<20))
		if s != nfs4.OK || w.Committed != nfs4.Unstable {
			t.Fatalf("WRITE: %+v, %v", w, s)
		}
		verf = w.WriteVerf
	}
	commit, s := c.Commit(t, fh)
	if s != nfs4.OK || commit.WriteVerf != verf {
		t.Fatalf("COMMIT: %+v, %v; verifier %v", commit, s, verf)
	}
	if w, s := c.Write(t, fh, 8<<20, nfs4.FileSync, content(4096)); s != nfs4.OK || w.Committed != nfs4.DataSync {
		t.Fatalf("WRITE: %+v, %v", w, s)
	}
	m.must(t, control.Command{Kind: control.FenceClient, Client: testClient + 1})
	if _, s := c.Write(t, fh, 9<<20, nfs4.Unstable, content(4096)); s != nfs4.OK {
		t.Fatal(s)
	}
	kill()
	m.await(t, "detached")

	addr, _ = spawn(t, m, data)
	m.await(t, "attached")
	c = dstest.Dial(t, addr, "client")
	for i := range 8 {
		got, s := c.Read(t, fh, uint64(i)<<20, 1<<20)
		if s != nfs4.OK || !bytes.Equal(got.Data, content(1<<20)) {
			t.Errorf("READ of MiB %d: %d bytes, %v", i, len(got.Data), s)
		}
	}
	if got, s := c.Read(t, fh, 8<<20, 4096); s != nfs4.OK || !bytes.Equal(got.Data, content(4096)) {
		t.Errorf("READ of the stable WRITE: %d bytes, %v", len(got.Data), s)
	}
	if commit, s := c.Commit(t, fh); s != nfs4.OK || commit.WriteVerf == verf {
		t.Errorf("COMMIT after the kill: %+v, %v; the same verifier would hide what was lost", commit, s)
	}
	_, s = c.Write(t, m.fh(testClient+1, 1), 0, nfs4.Unstable, []byte("x"))
	wantStatus(t, "WRITE of the client fenced before the kill", s, nfs4.ErrPNFSNoLayout)
}
