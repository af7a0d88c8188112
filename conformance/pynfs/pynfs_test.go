package pynfs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// runLimit bounds one run. Twelve tests or so wait for a lease to end.
const runLimit = 9 * time.Minute

// lease is that of the servers, short because the suite waits for it.
const lease = "10s"

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
	for i, run := range []struct{ minor, group string }{{"2", "all"}, {"1", "all"}, {"2", "pnfs"}} {
		name := run.group + "-4." + run.minor
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := fmt.Sprintf("127.0.%d.1", i+1)
			serve(t, host+":2049")
			results := testserver(t, script, host, run.minor, run.group)
			expect.Judge(t, "pynfs "+name, filepath.Join("testdata", name+".txt"), results)
		})
	}
}

// serve starts a manifold at address, until the test ends, and makes the export.
func serve(t *testing.T, address string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "mf") // short: a Unix socket lies in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bin := os.Getenv(binaryVariable)
	admin := "unix:" + filepath.Join(dir, "admin.sock")
	p, err := sut.Start(t.Context(), bin, filepath.Join(dir, "log"), []string{address}, "up",
		"--data", filepath.Join(dir, "data"), "--listen", address, "--admin", admin, "--lease", lease)
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

// testserver runs a group of pynfs' tests. The suite's own exit status says
// only whether they ran.
func testserver(t *testing.T, script, host, minor, group string) []expect.Result {
	t.Helper()
	python := os.Getenv(pythonVariable)
	if python == "" {
		python = "/usr/bin/python3" // not the first in PATH: the packages it needs are the system's
	}
	out := filepath.Join(t.TempDir(), "results.json")
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, script, host+":/"+export, "--minorversion="+minor, "--maketree", "--json="+out, group)
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
