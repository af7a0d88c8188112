// Package sut runs the server under test: the manifold program.
//
// Its nouns: a Process is one running manifold with its log; a Ctl asks it, as
// an administrator does, through `manifold ctl ... -o json`; Status and DS are
// the answers. The package knows the program's command line and nothing else
// of the server.
package sut

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopLimit is how long a process may take to end after SIGTERM.
const stopLimit = 20 * time.Second

// Process is one running manifold.
type Process struct {
	args []string
	log  string
	bin  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; read after done
}

// Start runs `bin args...` with its output appended to the file log, and waits
// until it accepts connections at each of listen (host:port).
func Start(ctx context.Context, bin, log string, listen []string, args ...string) (*Process, error) {
	p := &Process{bin: bin, log: log, args: args}
	if err := p.Restart(ctx, listen); err != nil {
		return nil, err
	}
	return p, nil
}

// Restart starts the process again as it was started first. It must have ended.
func (p *Process) Restart(ctx context.Context, listen []string) error {
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	p.cmd = exec.Command(p.bin, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	// The test's own thread may end; that of the harness's process 1 dies with
	// the namespace, so no death signal is needed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return errors.Join(err, out.Close())
	}
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		p.err = cmd.Wait()
		_ = out.Close() // only a copy; nothing was written through it
		close(done)
	}(p.cmd, p.done)
	for _, address := range listen {
		if err := p.answers(ctx, address); err != nil {
			return errors.Join(fmt.Errorf("manifold %s: %w; its log ends:\n%s", strings.Join(p.args, " "), err, p.Log()), p.Kill())
		}
	}
	return nil
}

// answers waits until the process accepts connections at address.
func (p *Process) answers(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.done:
			return fmt.Errorf("it ended before it listened at %s: %w", address, p.err)
		case <-ctx.Done():
			return fmt.Errorf("it does not listen at %s: %w", address, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Signal sends the process a signal, such as SIGSTOP.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the process with SIGKILL, as a crash would.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// Stop ends the process with SIGTERM. It is an error if it does not end in
// time, or not with status 0, or if its log tells of a panic or a data race.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("manifold %s had ended: %w: %w; its log ends:\n%s", p.args[0], err, p.err, p.Log())
	}
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("manifold %s did not stop within %v of SIGTERM; its log ends:\n%s", p.args[0], stopLimit, p.Log()), p.Kill())
	}
	log := p.Log()
	if p.err != nil || strings.Contains(log, "panic:") || strings.Contains(log, "DATA RACE") {
		return fmt.Errorf("manifold %s ended badly: %w; its log ends:\n%s", p.args[0], p.err, log)
	}
	return nil
}

// Log returns the end of what the process printed.
func (p *Process) Log() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 6 << 10
	return string(b[max(0, len(b)-most):])
}

// Said returns when the process, in all its runs, logged a line with text in
// it, in order.
func (p *Process) Said(text string) ([]time.Time, error) {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return nil, err
	}
	var at []time.Time
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, text) {
			continue
		}
		stamp, _, _ := strings.Cut(line, " ")
		when, err := time.Parse("2006-01-02T15:04:05.000Z0700", stamp)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", p.log, line, err)
		}
		at = append(at, when)
	}
	return at, nil
}

// Ctl is `manifold ctl` towards one server.
type Ctl struct {
	Bin   string // the program
	Admin string // such as unix:/path/admin.sock
}

// Status is the answer of `ctl status -o json`, as far as the tests read it.
type Status struct {
	ProxyRead    uint64  `json:"proxy_read_bytes"`
	ProxyWritten uint64  `json:"proxy_written_bytes"`
	Uptime       float64 `json:"uptime_seconds"`
	Lease        float64 `json:"lease_seconds"`
}

// DS is one data server in the answer of `ctl ds list -o json`.
type DS struct {
	ID        json.RawMessage `json:"id"` // a number or a name
	State     string          `json:"state"`
	Addresses []string        `json:"addresses"`
	Capacity  uint64          `json:"capacity_bytes"`
	Used      uint64          `json:"used_bytes"`
	Read      uint64          `json:"read_bytes"`
	Written   uint64          `json:"written_bytes"`
}

// Layout is the answer of `ctl layout get PATH -o json`, as far as the tests
// read it.
type Layout struct {
	Unit  int64 `json:"stripe_unit"` // bytes
	Width int   `json:"width"`       // data servers
}

// Run runs `manifold ctl args...` and returns what it printed to standard
// output; what went to standard error is in the error.
func (c Ctl) Run(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Bin, append([]string{"ctl", "--admin", c.Admin}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("manifold ctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out, nil
}

// Status asks for the server's state.
func (c Ctl) Status(ctx context.Context) (Status, error) {
	var s Status
	err := c.ask(ctx, &s, "status")
	return s, err
}

// DSList asks for the data servers.
func (c Ctl) DSList(ctx context.Context) ([]DS, error) {
	var list []DS
	err := c.ask(ctx, &list, "ds", "list")
	return list, err
}

// LayoutSet sets the striping of what is made in the directory path from now
// on: unit bytes, on width data servers.
func (c Ctl) LayoutSet(ctx context.Context, path string, unit int64, width int) error {
	_, err := c.Run(ctx, "layout", "set", path, "--stripe-unit", strconv.FormatInt(unit, 10), "--width", strconv.Itoa(width))
	return err
}

// Layout asks how a file is striped.
func (c Ctl) Layout(ctx context.Context, path string) (Layout, error) {
	var l Layout
	err := c.ask(ctx, &l, "layout", "get", path)
	return l, err
}

func (c Ctl) ask(ctx context.Context, into any, args ...string) error {
	out, err := c.Run(ctx, append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("manifold ctl %s: %w in %q", strings.Join(args, " "), err, out)
	}
	return nil
}

// DSUp waits until n data servers are listed as up.
func (c Ctl) DSUp(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		list, err := c.DSList(ctx)
		up := 0
		for _, ds := range list {
			if ds.State == "up" || ds.State == "ready" || ds.State == "online" {
				up++
			}
		}
		if err == nil && up >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d data servers are up: %+v: %w", up, n, list, errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
