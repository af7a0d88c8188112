package rivalry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"manifold/conformance/linux/mountstats"
	"manifold/conformance/linux/work"
)

// Event is one line of a log that an Op keeps while it runs: when, by the
// guest's clock, what, and more about it. What took a while began at Since.
type Event struct {
	Since, At time.Time
	What      string
	More      string
}

// events is a log of Events, a file outside the mount.
type events struct {
	f   *os.File
	err error // the first, of add
}

func newEvents(path string) (*events, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	return &events{f: f}, err
}

// add writes an event that began at since and ends now, before it is written.
func (e *events) add(since time.Time, what, more string) {
	_, err := fmt.Fprintln(e.f, since.UnixNano(), time.Now().UnixNano(), what, more)
	e.err = cmp.Or(e.err, err)
}

// close says whether all events were written.
func (e *events) close() error {
	if err := e.f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return cmp.Or(e.err, err)
	}
	return e.err
}

// ReadEvents reads the log at path, in order.
func ReadEvents(path string) ([]Event, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []Event
	for line := range strings.Lines(string(b)) {
		var since, at int64
		var e Event
		if n, err := fmt.Sscan(line, &since, &at, &e.What, &e.More); n < 3 {
			return nil, fmt.Errorf("%s: line %q: %w", path, line, err)
		}
		e.Since, e.At = time.Unix(0, since), time.Unix(0, at)
		out = append(out, e)
	}
	return out, nil
}

// Clock returns the guest's clock, in nanoseconds since 1970, as Result.N.
type Clock struct{}

// Run reads the clock.
func (Clock) Run(context.Context) (work.Result, error) {
	return work.Result{N: time.Now().UnixNano()}, nil
}

// Probe asks a server for small things again and again, until the request is
// cancelled, and writes an event to Log for each that it got: "statfs" of Dir,
// which needs a session only, and "lock", a new one on a file made for that,
// which must wait for the end of a grace period. When the number of LOCK or
// DELEGRETURN requests that the mount at Watch has had answered changes, that
// is an event as well, of that name and with the number. Result: N events.
type Probe struct {
	Dir   string `json:"dir"`
	Watch string `json:"watch"`
	Log   string `json:"log"`
}

// asked is one thing that a Probe got. An empty one is nothing new.
type asked struct {
	since      time.Time
	what, more string
}

// Run probes.
func (p Probe) Run(ctx context.Context) (work.Result, error) {
	log, err := newEvents(p.Log)
	if err != nil {
		return work.Result{}, err
	}
	defer func() { _ = log.close() }()
	if err := os.MkdirAll(p.Dir, 0o777); err != nil {
		return work.Result{}, err
	}
	events := make(chan asked)
	var g errgroup.Group
	for _, ask := range []func() (asked, error){p.statfs, p.lock, p.answered("LOCK"), p.answered("DELEGRETURN")} {
		g.Go(func() error {
			for ; ctx.Err() == nil; sleep(ctx, 10*time.Millisecond) {
				since := time.Now()
				got, err := ask()
				if err != nil {
					return err
				}
				got.since = since
				events <- got
			}
			return nil
		})
	}
	go func() { err = g.Wait(); close(events) }()
	var res work.Result
	for got := range events {
		if got.what != "" {
			log.add(got.since, got.what, got.more)
			res.N++
		}
	}
	return res, cmp.Or(err, log.close())
}

func (p Probe) statfs() (asked, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(p.Dir, &st); err != nil {
		return asked{}, fmt.Errorf("statfs: %w", err)
	}
	return asked{what: "statfs"}, nil
}

func (p Probe) lock() (asked, error) {
	name := filepath.Join(p.Dir, "new") // and not an old one, of which the client may have a delegation
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o666)
	if err != nil {
		return asked{}, err
	}
	return asked{what: "lock"}, cmp.Or(lockFile(f, OFD, false), f.Close(), os.Remove(name))
}

// answered returns what looks at the mount's counter of an operation.
func (p Probe) answered(op string) func() (asked, error) {
	var last uint64
	return func() (asked, error) {
		text, err := os.ReadFile("/proc/self/mountstats")
		if err != nil {
			return asked{}, err
		}
		mounts, err := mountstats.Parse(string(text))
		for _, m := range mounts {
			if n := m.Ops[op].Count; m.Dir == p.Watch && n != last {
				last = n
				return asked{what: op, more: strconv.FormatUint(n, 10)}, nil
			}
		}
		return asked{}, err
	}
}
