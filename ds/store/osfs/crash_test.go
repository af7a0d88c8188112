package osfs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"manifold/ds/store"
	"manifold/ds/store/storetest"
)

const crashRoot = "OSFS_TEST_CRASH_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(crashRoot); root != "" {
		crashChild(root)
	}
	os.Exit(m.Run())
}

// crashContent is what object i holds at its i-th kilobyte.
func crashContent(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 512) }

// crashChild writes objects, cuts some and removes some, and prints what it was
// told is durable, until it is killed.
func crashChild(root string) {
	s, err := Open(Config{Root: root, OpenFiles: 16})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		_, err := s.WriteAt(storetest.Obj(i), crashContent(i), int64(i)<<10)
		err = errors.Join(err, s.Sync(storetest.Obj(i)))
		switch i % 4 {
		case 1:
			err = errors.Join(err, s.Truncate(storetest.Obj(i), int64(i)<<10+100))
		case 2:
			err = errors.Join(err, s.Remove(storetest.Obj(i)))
		}
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println("done", i)
	}
}

// TestKilled kills a process in the midst of its work, twice on one root, and
// looks for everything that it had said was done.
func TestKilled(t *testing.T) {
	root := t.TempDir()
	for _, enough := range []int{40, 90} {
		last := runAndKill(t, root, enough)
		s := open(t, Config{Root: root})
		for i := range last + 1 {
			want := crashContent(i)
			switch i % 4 {
			case 1:
				want = want[:100]
			case 2:
				want = nil
			}
			p := make([]byte, 2048)
			n, err := s.ReadAt(storetest.Obj(i), p, int64(i)<<10)
			if err != nil || !bytes.Equal(p[:n], want) {
				t.Errorf("object %d: %d bytes, %v; want %d", i, n, err, len(want))
			}
		}
		if err := s.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Fatal(err)
		}
	}
}

func runAndKill(t *testing.T, root string, enough int) (last int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), crashRoot+"="+root)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last = -1
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "done %d", &last); err != nil {
			t.Fatalf("child: %s", lines.Text())
		}
		if last == enough {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed
	if last < enough {
		t.Fatalf("child ended after %d", last)
	}
	return last
}
