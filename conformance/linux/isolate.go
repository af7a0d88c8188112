// Package linux is the harness that runs the real Linux NFS client against
// Manifold: user-mode kernels of several Debian releases, on a network of its
// own, on one machine, as ordinary processes.
//
// Its nouns: isolation is the set of namespaces (network, processes, mounts)
// that one run of the tests has to itself, so that every server may listen on
// port 2049 and nothing outlives the run; the network is a bridge that holds
// the servers' addresses, with a tap for each guest. The packages below it hold
// the kernels (kernel), the guests (guest), what a guest can be asked to do
// (work; rivalry), the server under test (sut) and the client's counters (mountstats).
package linux

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolated is set in the environment of the process inside.
const isolated = "MANIFOLD_ISOLATED"

// Isolate runs this program again, with the same arguments, inside namespaces
// of its own, and returns in both: inside, in which case the caller goes on;
// and outside once the other has ended, with its exit status, in which case the
// caller passes that on. Whatever the inside starts dies with it, and it dies
// with the outside. It needs root.
func Isolate() (inside bool, status int, err error) {
	if os.Getenv(isolated) != "" {
		return true, 0, enter()
	}
	runtime.LockOSThread() // Pdeathsig is about this thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), isolated+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		// A process that a signal ended has status -1.
		return false, max(exit.ExitCode(), 1), nil
	}
	return false, 0, err
}

// Possible says why Isolate cannot work here, or nil.
func Possible() error {
	if os.Getuid() != 0 {
		return errors.New("it needs root")
	}
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("it needs tap devices: %w", err)
	}
	return f.Close()
}

// enter makes the new namespaces usable.
func enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return bridge()
}
