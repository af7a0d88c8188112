package boot

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// LockFolder makes dir if it is missing and takes it for this process, until it
// ends or release is called. The error says which process has it.
func LockFolder(dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("data folder %s is in use by another manifold process (pid %s)", dir, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("data folder %s: lock: %w", dir, err)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid()) // for the message above only
	}
	return f.Close, nil
}

// Explain adds to the error of a listener what to do about it. Other errors, and
// nil, it returns as they are.
func Explain(err error) error {
	what := "the address"
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Addr != nil {
		what = op.Addr.String()
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("%w: another process has %s (`ss -ltnp` shows which): stop it or choose another port", err, what)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%w: this machine does not have %s (`ip address` shows what it has)", err, what)
	case errors.Is(err, unix.EACCES) && os.Geteuid() != 0:
		return fmt.Errorf("%w: ports below 1024 are for root, or for a program with CAP_NET_BIND_SERVICE: choose a port from 1024 up and mount with -o port=PORT", err)
	}
	return err
}
