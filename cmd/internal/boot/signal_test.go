package boot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// asStubborn makes this test binary a server that does not stop when asked.
const asStubborn = "RUN_AS_STUBBORN"

func TestMain(m *testing.M) {
	if os.Getenv(asStubborn) == "" {
		os.Exit(m.Run())
	}
	ctx := Signals(context.Background())
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("asked")
	select {}
}

func TestSecondSignal(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = []string{asStubborn + "=1"}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	expect := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("it says %q, %v, want %q", lines.Text(), lines.Err(), want)
		}
	}
	expect("ready")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	first := time.Now()
	expect("asked")
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the state tells
		close(ended)
	}()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			continue
		case <-ended:
		}
		break
	}
	if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGINT) {
		t.Errorf("exit %d", code)
	}
	if after := time.Since(first); after < 900*time.Millisecond {
		t.Errorf("ended %v after the first signal", after)
	}
}
