package work

import (
	"context"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Lock works on byte-range locks of Path (which it makes if need be). Do is
//
//	hold   take a lock (waiting for it if Wait), keep it until the request is
//	       cancelled. Result: N is 1 once it was held.
//	try    take a lock without waiting and give it back: EAGAIN if it is taken
//
// Locks are open-file-description locks, so that several requests to one guest
// conflict as processes do; the server cannot tell them from POSIX locks.
type Lock struct {
	Path  string `json:"path"`
	Do    string `json:"do"`
	Off   int64  `json:"off,omitempty"`
	Len   int64  `json:"len,omitempty"` // 0: to the end
	Write bool   `json:"write,omitempty"`
	Wait  bool   `json:"wait,omitempty"`
	Held  string `json:"held,omitempty"` // a file made when the lock is held, for others to see
}

// Run locks.
func (l Lock) Run(ctx context.Context) (Result, error) {
	f, err := os.OpenFile(l.Path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = f.Close() }()
	lk := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: l.Off, Len: l.Len}
	if l.Write {
		lk.Type = unix.F_WRLCK
	}
	cmd := unix.F_OFD_SETLK
	if l.Wait {
		cmd = unix.F_OFD_SETLKW
	}
	if err := unix.FcntlFlock(f.Fd(), cmd, &lk); err != nil {
		return Result{}, fmt.Errorf("lock %s: %w", l.Path, err)
	}
	if l.Held != "" {
		if err := os.WriteFile(l.Held, nil, 0o644); err != nil {
			return Result{}, err
		}
	}
	if l.Do == "hold" {
		<-ctx.Done()
	}
	lk.Type = unix.F_UNLCK
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lk); err != nil {
		return Result{N: 1}, fmt.Errorf("unlock %s: %w", l.Path, err)
	}
	return Result{N: 1}, f.Close()
}
