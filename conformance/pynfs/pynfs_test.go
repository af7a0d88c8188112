package pynfs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"manifold/conformance/linux/expect"
	"manifold/conformance/linux/sut"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// export is the directory that the suite works in.
const export = "pynfs"

// runLimit bounds one run. Twelve tests or so wait for a lease to end; each of
// those that restart the server waits for two, and three have 1000 clients.
const runLimit = 15 * time.Minute

// lease is that of the servers, short because the suite waits for it.
const lease = "10s"

// run is one call of testserver.py: the name of its list, the minor version,
// and what to run, which are groups and tests.
type run struct {
	name, minor string
	tests       []string
	flags       []string // of the server, besides those of all
}

// runs lists them. The group "all" leaves out those of "pnfs", of "reboot" and
// "crowd", in which the server is killed and started again, and of "named". It
// also leaves out some that are for others: COPY5 (COPY is optional, RFC 7862
// section 13), COMP3, RNM8 and RNM9 (a server that refuses U+FFFE, and old names
// that cannot exist, which RFC 8881 section 14.4 leaves to it), CSESS20 and
// CSESS21 (a server that tries a new back channel with CB_NULL, which nothing
// asks for), DSESS9002 and DSESS9003 (they look for a callback only after they
// sent what brings it about, and miss it at times), EID50 (SSV), LKPP4 (a tree of its author's), and DSESS9001: RFC 8881
// section 18.37.3 obliges the client to send DESTROY_SESSION over a connection of
// that session, and Linux, when it unmounts after its idle connection was closed,
// does not, and would wait for ten seconds if it were refused.
func runs() []run {
	return []run{
		{name: "all-4.2", minor: "2", tests: []string{"all"}},
		{name: "all-4.1", minor: "1", tests: []string{"all"}},
		{name: "pnfs-4.2", minor: "2", tests: []string{"pnfs"}},
		{name: "reboot-4.2", minor: "2", tests: []string{
			"REBT1", "REBT2a", "REBT2b", "REBT3a", "REBT3b", "REBT4a", "REBT4b", "REBT5",
		}, flags: []string{"--lease", "20s", "--grace", "60s"}},
		// 1000 clients of one Python program take their time, which must not be
		// that of their leases.
		{name: "crowd-4.2", minor: "2", tests: []string{"REBT2c", "REBT3c", "REBT4c"},
			flags: []string{"--lease", "2m", "--grace", "3m"}},
		{name: "named-4.2", minor: "2", tests: []string{
			"COUR1", "COUR7", "DSESS9004", "DSESS9005", "DSESS9006",
		}},
	}
}

// TestServer41 makes the runs, all at once.
func TestServer41(t *testing.T) {
	dir := os.Getenv(suiteVariable)
	if testing.Short() {
		t.Skip("-short leaves out pynfs")
	}
	if dir == "" {
		t.Skipf("%s is not set: it names a built checkout of pynfs; the package comment says how to get one", suiteVariable)
	}
	script := filepath.Join(dir, "nfs4.1", "testserver.py")
	if _, err := os.Stat(script); err != nil {
		t.Fatal(err)
	}
	for i, r := range runs() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			host := fmt.Sprintf("127.0.%d.1", i+1)
			s := serve(t, host+":2049", r.flags)
			results := r.testserver(t, script, host, s.helper(t))
			expect.Judge(t, "pynfs "+r.name, filepath.Join("testdata", r.name+".txt"), results)
		})
	}
}

// server is a manifold under test.
type server struct {
	*sut.Process
	address string
}

// serve starts a manifold at address with further flags, until the test ends,
// and makes the export.
func serve(t *testing.T, address string, flags []string) server {
	t.Helper()
	// In memory, because a thousand clients' records are as many syncs; and a
	// short name, because a Unix socket lies in it.
	dir, err := os.MkdirTemp("/dev/shm", "mf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bin := os.Getenv(binaryVariable)
	admin := "unix:" + filepath.Join(dir, "admin.sock")
	args := append([]string{"up", "--data", filepath.Join(dir, "data"), "--listen", address, "--admin", admin, "--lease", lease}, flags...)
	p, err := sut.Start(t.Context(), bin, filepath.Join(dir, "log"), []string{address}, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := (sut.Ctl{Bin: bin, Admin: admin}).DSUp(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := mkdir(t.Context(), address, export); err != nil {
		t.Fatalf("making the export: %v", err)
	}
	return server{Process: p, address: address}
}

// helper returns a program that testserver.py calls when the server is to be
// restarted: it kills the server, as a crash would, and ends when the next one
// accepts connections.
func (s server) helper(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program, ask, answer := filepath.Join(dir, "helper"), filepath.Join(dir, "ask"), filepath.Join(dir, "answer")
	for _, name := range []string{ask, answer} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf("#!/bin/sh\necho \"$1\" >%s\nread -r said <%s\n", ask, answer)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(ask, os.O_RDWR, 0) // both ways, so that it has no end until it is closed
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = pipe.Close(); <-done })
	go func() {
		defer close(done)
		for asked := bufio.NewScanner(pipe); asked.Scan(); {
			if err := errors.Join(s.Kill(), s.Restart(t.Context(), []string{s.address})); err != nil {
				t.Errorf("%s: %v", asked.Text(), err)
			}
			if err := os.WriteFile(answer, []byte("done\n"), 0); err != nil {
				t.Error(err)
			}
		}
	}()
	return program
}

// mkdir makes a directory in the root of the server at address, for all.
func mkdir(ctx context.Context, address, name string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	root := rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{Machine: "pynfs"}}
	c, err := client.Dial(ctx, address, client.Config{Owner: []byte("conformance/pynfs"), Cred: root})
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	args := &nfs4.CreateArgs{ObjType: nfs4.CreateType{Type: nfs4.TypeDir}, ObjName: []byte(name)}
	args.CreateAttrs.Mask.Set(nfs4.AttrMode)
	args.CreateAttrs.Mode = 0o777
	return c.Compound(ctx, root, client.Op{Num: nfs4.OpPutRootFH}, client.Op{Num: nfs4.OpCreate, Args: args, Res: &nfs4.CreateRes{}})
}

// testserver runs tests of pynfs. The suite's own exit status says only whether
// they ran.
func (r run) testserver(t *testing.T, script, host, helper string) []expect.Result {
	t.Helper()
	python := os.Getenv(pythonVariable)
	if python == "" {
		python = "/usr/bin/python3" // not the first in PATH: the packages it needs are the system's
	}
	out := filepath.Join(t.TempDir(), "results.json")
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	defer cancel()
	args := []string{script, host + ":/" + export, "--minorversion=" + r.minor, "--maketree", "--json=" + out, "--serverhelper=" + helper}
	cmd := exec.CommandContext(ctx, python, append(args, r.tests...)...)
	cmd.Dir = filepath.Dir(script)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	said, err := cmd.CombinedOutput()
	end := string(said[max(0, len(said)-3000):])
	if err != nil {
		t.Fatalf("testserver.py: %v (limit %v); it ends:\n%s", err, runLimit, end)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatalf("%v; testserver.py ends:\n%s", err, end)
	}
	results, err := Results(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, counts, ok := strings.Cut(end, "Command line asked for"); ok {
		t.Log("testserver.py counts", strings.Join(strings.Fields(counts), " ")) // warnings too, which are not in its JSON
	}
	return results
}
