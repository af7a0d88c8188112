// Package rivalry holds what guests of the kernel-client harness do to each
// other while a server crashes: a Guard holds locks, Rivals on another client
// want them, a Probe sees how long a client waits for what. All are Ops of
// package work, and each keeps a log of Events with the times, on which a test
// decides who had what when; Clock makes the clocks of guests comparable.
package rivalry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"manifold/conformance/linux/work"
)

// Ops lists one zero value of each Op, for work.Serve.
func Ops() []work.Op { return []work.Op{Guard{}, Rival{}, Probe{}, Clock{}} }

// The files that a Guard makes in its Dir, by the kind of lock it holds on
// each. Gone has no name any more; of Delegated it holds no lock, and
// opens it in the way that a server may answer with a delegation.
const (
	POSIX     = "posix" // a range, of the process
	OFD       = "ofd"   // a range, of the open file
	Flock     = "flock" // all of it
	Gone      = "gone"
	Delegated = "delegated"
)

// guarded is the range that a Guard locks, where the lock is of a range.
const guardedOff, guardedLen = 100, 50

// Guard holds locks and opens on files that it makes in Dir, and keeps writing
// to them under the locks, until the request is cancelled. It writes an event
// to Log when the locks are held ("held"), at each round of writes that reached
// stable storage ("wrote" and its number), and right before it unlocks
// ("release" and the last number). An error, such as of a lock that was lost,
// ends it. Result: N rounds.
type Guard struct {
	Dir string `json:"dir"`
	Log string `json:"log"`
}

// Run guards. Nothing else of the process may open POSIX: to close a file
// gives up all the process's locks on it.
func (g Guard) Run(ctx context.Context) (work.Result, error) {
	log, err := newEvents(g.Log)
	if err != nil {
		return work.Result{}, err
	}
	defer func() { _ = log.close() }()
	if err := os.MkdirAll(g.Dir, 0o777); err != nil {
		return work.Result{}, err
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			_ = f.Close() // after an error, or a second time
		}
	}()
	for _, kind := range []string{POSIX, OFD, Flock, Gone, Delegated} {
		f, err := g.take(kind)
		if err != nil {
			return work.Result{}, fmt.Errorf("%s: %w", kind, err)
		}
		files = append(files, f)
	}
	log.add(time.Now(), "held", "")
	n, err := g.write(ctx, files, log)
	if err != nil {
		return work.Result{N: n}, fmt.Errorf("after %d rounds: %w", n, err)
	}
	if err := same(files, n); err != nil {
		return work.Result{N: n}, err
	}
	log.add(time.Now(), "release", strconv.FormatInt(n, 10))
	for _, f := range files {
		if err := f.Close(); err != nil { // which unlocks
			return work.Result{N: n}, err
		}
	}
	return work.Result{N: n}, log.close()
}

// take makes and opens a file, and locks it as its kind says. It has been made
// and closed before it is opened for good: that way the server may give a
// delegation.
func (g Guard) take(kind string) (*os.File, error) {
	name := filepath.Join(g.Dir, kind)
	if err := os.WriteFile(name, round(0), 0o666); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if kind == Gone {
		err = os.Remove(name)
	}
	if err == nil && kind != Delegated {
		err = lockFile(f, kind, false)
	}
	if err != nil {
		_ = f.Close()
	}
	return f, err
}

// lockFile takes the exclusive lock that kind says, and waits for it if wait.
// EAGAIN says that it is taken.
func lockFile(f *os.File, kind string, wait bool) error {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: guardedOff, Len: guardedLen}
	cmd := unix.F_OFD_SETLK
	switch {
	case kind == Flock && wait:
		return unix.Flock(int(f.Fd()), unix.LOCK_EX)
	case kind == Flock:
		return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	case kind == POSIX && wait:
		cmd = unix.F_SETLKW
	case kind == POSIX:
		cmd = unix.F_SETLK
	case wait:
		cmd = unix.F_OFD_SETLKW
	}
	return unix.FcntlFlock(f.Fd(), cmd, &lk)
}

// round is what a Guard writes in its round n.
func round(n int64) []byte { return fmt.Appendf(nil, "%020d", n) }

// write goes round the files until ctx is done, and returns how often.
func (g Guard) write(ctx context.Context, files []*os.File, log *events) (n int64, err error) {
	for ; ctx.Err() == nil; sleep(ctx, 10*time.Millisecond) {
		since := time.Now()
		for _, f := range files {
			if _, err := f.WriteAt(round(n+1), guardedOff); err != nil {
				return n, err
			}
			if filepath.Base(f.Name()) == Delegated {
				continue // its last round stays with the client, as a delegation allows
			}
			if err := f.Sync(); err != nil {
				return n, err
			}
		}
		n++
		log.add(since, "wrote", strconv.FormatInt(n, 10))
	}
	return n, nil
}

// same compares what the files hold with round n, and makes sure that the one
// without a name has none.
func same(files []*os.File, n int64) error {
	for _, f := range files {
		got := make([]byte, len(round(n)))
		if _, err := f.ReadAt(got, guardedOff); err != nil {
			return err
		}
		if !bytes.Equal(got, round(n)) {
			return fmt.Errorf("%s holds %q after %d rounds", f.Name(), got, n)
		}
		var st unix.Stat_t
		err := unix.Fstat(int(f.Fd()), &st)
		if err == nil && filepath.Base(f.Name()) == Gone && st.Nlink != 0 {
			err = fmt.Errorf("%s was removed, and has %d names", f.Name(), st.Nlink)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Rival wants the lock of a file that a Guard on another client holds: it tries
// again and again, or with Wait set it waits for it once, until it has it, or
// with the former until the request is cancelled. It writes an event to Log at
// each refusal ("denied") and when it has the lock ("got" and what the Guard
// wrote last). Then it unlocks. Result: N is what it read, or -1 if it never
// got the lock.
type Rival struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
	Wait bool   `json:"wait,omitempty"`
	Log  string `json:"log"`
}

// String says what it wants, and how.
func (r Rival) String() string {
	how := "tries"
	if r.Wait {
		how = "waits"
	}
	return fmt.Sprintf("rival that %s for %s", how, filepath.Base(r.Path))
}

// Run tries.
func (r Rival) Run(ctx context.Context) (work.Result, error) {
	log, err := newEvents(r.Log)
	if err != nil {
		return work.Result{}, err
	}
	defer func() { _ = log.close() }()
	f, err := os.OpenFile(r.Path, os.O_RDWR, 0)
	if err != nil {
		return work.Result{}, err
	}
	defer func() { _ = f.Close() }()
	for ; ctx.Err() == nil; sleep(ctx, 20*time.Millisecond) {
		since := time.Now()
		err := lockFile(f, r.Kind, r.Wait)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			log.add(since, "denied", "")
			continue
		}
		if err != nil {
			return work.Result{}, fmt.Errorf("lock %s: %w", r.Path, err)
		}
		log.add(since, "got", "")
		b := make([]byte, len(round(0)))
		if _, err := f.ReadAt(b, guardedOff); err != nil {
			return work.Result{}, err
		}
		n, err := strconv.ParseInt(string(b), 10, 64)
		if err != nil {
			return work.Result{}, fmt.Errorf("%s holds %q", r.Path, b)
		}
		return work.Result{N: n}, cmp.Or(f.Close(), log.close())
	}
	return work.Result{N: -1}, log.close()
}

// sleep waits for d or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
