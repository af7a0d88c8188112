package work

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Ack keeps changing what is under Dir and logs, in Log (a file outside the
// mount), each change once the system has acknowledged it, until the request
// is cancelled or Records are done. What the log says must survive any crash of
// a server: with Check an Ack reads it instead, and fails for each acknowledged
// change that is not there. Three kinds of change go round:
//
//	data   a record of Size bytes written to one growing file, then fsync
//	name   a file made, closed and renamed to its final name
//	gone   an older file removed
//
// Result: N acknowledged, or found, and Stall the longest that one change took.
type Ack struct {
	Dir     string `json:"dir"`
	Log     string `json:"log"`
	Size    int64  `json:"size"`
	Records int    `json:"records,omitempty"`
	Seed    uint64 `json:"seed"`
	Check   bool   `json:"check,omitempty"`
}

// Checked is a with Check.
func (a Ack) Checked() Ack {
	a.Check = true
	return a
}

// Run makes Dir and goes on until it is told to stop, or checks.
func (a Ack) Run(ctx context.Context) (Result, error) {
	if a.Check {
		return ackCheck{a}.run()
	}
	if err := os.MkdirAll(a.Dir, 0o755); err != nil {
		return Result{}, err
	}
	log, err := os.OpenFile(a.Log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = log.Close() }()
	data, err := os.OpenFile(filepath.Join(a.Dir, "data"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = data.Close() }()
	res := Result{}
	for i := 0; ctx.Err() == nil && (a.Records == 0 || i < a.Records); i++ {
		start := time.Now()
		line, err := a.change(i, data)
		if err != nil {
			return res, fmt.Errorf("after %d acknowledged changes: %s: %w", res.N, line, err)
		}
		if _, err := fmt.Fprintln(log, line); err != nil {
			return res, err
		}
		res.N++
		res.Stall = max(res.Stall, time.Since(start).Milliseconds())
	}
	return res, data.Close()
}

// change makes change i and returns its line for the log.
func (a Ack) change(i int, data *os.File) (string, error) {
	n := i / 3
	switch i % 3 {
	case 0:
		p := make([]byte, a.Size)
		fill(p, a.Seed+uint64(n), 0)
		_, err := data.WriteAt(p, int64(n)*a.Size)
		if err == nil {
			err = data.Sync()
		}
		return fmt.Sprint("data ", n), err
	case 1:
		tmp := filepath.Join(a.Dir, "tmp")
		err := os.WriteFile(tmp, []byte(strconv.Itoa(n)), 0o644)
		return fmt.Sprint("name ", n), first(err, os.Rename(tmp, a.name(n)))
	}
	if n < 2 {
		return "none 0", nil
	}
	return fmt.Sprint("gone ", n-2), os.Remove(a.name(n - 2))
}

func (a Ack) name(n int) string { return filepath.Join(a.Dir, fmt.Sprint("name-", n)) }

// ackCheck compares the log with the files.
type ackCheck struct{ Ack }

func (c ackCheck) run() (Result, error) {
	log, err := os.Open(c.Log)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = log.Close() }()
	data, err := os.Open(filepath.Join(c.Dir, "data"))
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = data.Close() }()
	named, gone := map[int]bool{}, map[int]bool{}
	var lost []error
	res := Result{}
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		kind, num, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(num)
		if err != nil {
			return res, fmt.Errorf("line %q of the log: %w", lines.Text(), err)
		}
		switch kind {
		case "data":
			lost = append(lost, c.record(data, n))
		case "name":
			named[n] = true
		case "gone":
			gone[n] = true
		}
		res.N++
	}
	lost = append(lost, lines.Err(), c.names(named, gone))
	return res, errors.Join(lost...)
}

// record compares one record of the growing file.
func (c ackCheck) record(data *os.File, n int) error {
	got, want := make([]byte, c.Size), make([]byte, c.Size)
	fill(want, c.Seed+uint64(n), 0)
	off := int64(n) * c.Size
	if _, err := data.ReadAt(got, off); err != nil {
		return fmt.Errorf("acknowledged record %d: %w", n, err)
	}
	if d := difference(got, want, off); d != "" {
		return fmt.Errorf("acknowledged record %d: %s", n, d)
	}
	return nil
}

// names compares the files that were named, and not yet removed. The removal
// after the last acknowledged one may or may not have happened.
func (c ackCheck) names(named, gone map[int]bool) error {
	var lost []error
	for n := range named {
		got, err := os.ReadFile(c.name(n))
		missing := errors.Is(err, fs.ErrNotExist)
		switch {
		case gone[n] && !missing:
			lost = append(lost, fmt.Errorf("%s came back after its removal: %w", c.name(n), orNil(err)))
		case gone[n], missing && n == len(gone):
		case err != nil:
			lost = append(lost, fmt.Errorf("acknowledged name: %w", err))
		case string(got) != strconv.Itoa(n):
			lost = append(lost, fmt.Errorf("%s holds %q", c.name(n), got))
		}
	}
	return errors.Join(lost...)
}
