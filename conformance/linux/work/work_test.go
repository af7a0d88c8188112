package work

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// do sends op through the wire's encoding and serves it, as a guest would.
func do(t *testing.T, op Op, cred Cred) (Result, error) {
	t.Helper()
	req, err := NewRequest(7, op, cred)
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var back Request
	if err := json.Unmarshal(line, &back); err != nil {
		t.Fatal(err)
	}
	reply := Serve(t.Context(), back)
	if reply.ID != 7 {
		t.Fatalf("reply to %d, want 7", reply.ID)
	}
	return reply.Result, reply.Err()
}

func ok(t *testing.T, op Op) Result {
	t.Helper()
	res, err := do(t, op, Cred{})
	if err != nil {
		t.Fatalf("%T: %v", op, err)
	}
	return res
}

// fails checks that op fails and says want.
func fails(t *testing.T, op Op, want string) {
	t.Helper()
	_, err := do(t, op, Cred{})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("%T: error %v, want one with %q", op, err, want)
	}
}

func root(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
}

func TestErrorNumberCrossesTheWire(t *testing.T) {
	_, err := do(t, ReadFile{Path: "/no/such/file"}, Cred{})
	if !errors.Is(err, syscall.ENOENT) {
		t.Fatalf("error %v, want one that is ENOENT", err)
	}
	if reply := Serve(t.Context(), Request{Op: "Nonsense"}); reply.Err() == nil {
		t.Fatal("an unknown op is not refused")
	}
}

func TestStreams(t *testing.T) {
	whole := make([]byte, 100)
	fill(whole, 5, 0)
	for from := range whole {
		part := make([]byte, 100-from)
		fill(part, 5, int64(from))
		if string(part) != string(whole[from:]) {
			t.Fatalf("the stream made from offset %d is another one", from)
		}
	}
	other := make([]byte, 100)
	fill(other, 6, 0)
	if d := difference(other, whole, 0); !strings.HasPrefix(d, "offset 0: ") {
		t.Fatalf("streams 5 and 6: %q", d)
	}
}

func TestPlanAndVerify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	steps := append([]Step{
		{Do: "write", Off: 1000, Len: 300001, Seed: 1, Block: 70000},
		{Do: "write", Off: 5000, Len: 100, Seed: 2},
		{Do: "append", Len: 77777, Seed: 3},
		{Do: "truncate", Off: 200001},
		{Do: "reopen"},
		{Do: "truncate", Off: 1200000},
		{Do: "mmap", Off: 4095, Len: 8193, Seed: 4},
		{Do: "direct", Off: 8192, Len: 65536, Seed: 5, Block: 16384},
		{Do: "sync"},
	}, Storm(1, 65536, 1<<20, 40)...)
	ok(t, Plan{Path: path, Steps: steps})
	for _, how := range []string{"buffered", "direct", "mmap"} {
		ok(t, Verify{Path: path, Steps: steps, How: how, Block: 65536})
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	b := []byte{0}
	if _, err := f.ReadAt(b, 123456); err != nil {
		t.Fatal(err)
	}
	b[0]++
	if _, err := f.WriteAt(b, 123456); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"buffered", "direct", "mmap"} {
		fails(t, Verify{Path: path, Steps: steps, How: how}, "offset 123456: 1 wrong bytes")
	}
	fails(t, Verify{Path: path, Steps: append(steps, Step{Do: "truncate", Off: 1}), How: "buffered"}, "want 1")
}

func TestStormsDiffer(t *testing.T) {
	a, b := Storm(1, 65536, 1<<20, 200), Storm(1, 65536, 1<<20, 200)
	kinds := map[string]bool{}
	for i := range a {
		if a[i] != b[i] {
			t.Fatal("one seed gives two storms")
		}
		kinds[a[i].Do] = true
	}
	for _, kind := range []string{"write", "append", "truncate", "direct", "sync", "reopen"} {
		if !kinds[kind] {
			t.Errorf("no %s in a storm of 200 steps", kind)
		}
	}
}

func TestSum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if res := ok(t, Sum{Path: path}); res.Sum != abc || res.N != 3 {
		t.Fatalf("sum %s of %d bytes", res.Sum, res.N)
	}
}

func TestTree(t *testing.T) {
	tree := Tree{Dir: filepath.Join(t.TempDir(), "tree"), Files: 250, Size: 100}
	if res := ok(t, tree); res.N != 250 {
		t.Fatalf("%d files, want 250", res.N)
	}
	if err := os.Mkdir(tree.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := tree.each("f", tree.create); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(tree.path("f", 100)); err != nil {
		t.Fatal(err)
	}
	if err := tree.list("f"); err == nil {
		t.Fatal("a missing name is not noticed")
	}
}

func TestNames(t *testing.T) {
	root(t)
	ok(t, Names{Dir: filepath.Join(t.TempDir(), "names")})
}

func TestRefused(t *testing.T) {
	root(t)
	dir, err := os.MkdirTemp("", "refused")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := Refused{Dir: filepath.Join(dir, "r"), Group: 4321, Prepare: true}
	ok(t, r)
	r.Prepare = false
	if _, err := do(t, r, Cred{UID: 1234, GID: 1234, Groups: []int{4321}}); err != nil {
		t.Fatal(err)
	}
	fails(t, r, "read of a private file: got no error") // root is refused nothing
	if os.Geteuid() != 0 {
		t.Fatal("the user of a request stayed")
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	path, held := filepath.Join(dir, "f"), filepath.Join(dir, "held")
	ctx, release := context.WithCancel(t.Context())
	done := make(chan error, 1)
	if err := syscall.Mkfifo(held, 0o600); err != nil { // opening it waits for the holder
		t.Fatal(err)
	}
	go func() {
		_, err := Lock{Path: path, Do: "hold", Off: 100, Len: 50, Write: true, Held: held}.Run(ctx)
		done <- err
	}()
	if _, err := os.ReadFile(held); err != nil {
		t.Fatal(err)
	}
	_, err := do(t, Lock{Path: path, Do: "try", Off: 149, Len: 1}, Cred{})
	if !errors.Is(err, syscall.EAGAIN) {
		t.Fatalf("lock of a held range: %v, want EAGAIN", err)
	}
	ok(t, Lock{Path: path, Do: "try", Off: 150, Len: 10, Write: true})
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	ok(t, Lock{Path: path, Do: "try", Off: 149, Len: 1, Write: true})
}

func TestAckAndCheck(t *testing.T) {
	dir := t.TempDir()
	a := Ack{Dir: filepath.Join(dir, "d"), Log: filepath.Join(dir, "log"), Size: 5000, Records: 100, Seed: 9}
	if res := ok(t, a); res.N != 100 {
		t.Fatalf("%d acknowledged, want 100", res.N)
	}
	if res := ok(t, a.Checked()); res.N != 100 {
		t.Fatalf("%d checked, want 100", res.N)
	}
	if err := os.Remove(a.name(32)); err != nil {
		t.Fatal(err)
	}
	fails(t, a.Checked(), "acknowledged name")
	if err := os.WriteFile(a.name(32), []byte("32"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.name(3), []byte("3"), 0o644); err != nil {
		t.Fatal(err)
	}
	fails(t, a.Checked(), "came back after its removal")
	if err := os.Remove(a.name(3)); err != nil {
		t.Fatal(err)
	}
	ok(t, a.Checked())
	if err := os.Truncate(filepath.Join(a.Dir, "data"), 30*5000); err != nil {
		t.Fatal(err)
	}
	fails(t, a.Checked(), "acknowledged record 30")
}

func TestExec(t *testing.T) {
	res := ok(t, Exec{Argv: []string{"sh", "-c", "echo $GREETING; exit 3"}, Env: []string{"GREETING=hello"}})
	if res.Exit != 3 || res.Text != "hello\n" {
		t.Fatalf("exit %d output %q", res.Exit, res.Text)
	}
	fails(t, Exec{Argv: []string{"sh", "-c", "sleep 60 & sleep 60"}, Seconds: 1}, "deadline")
}
