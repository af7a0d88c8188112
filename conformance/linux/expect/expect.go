// Package expect compares what an outside test suite found with what is known
// of the server.
//
// Its nouns: a Result is the outcome of one test of the suite; a List holds the
// tests that are expected to fail, each with its reason and what follows from
// it. A failure that is not listed, and a listed test that passes, are both
// wrong: the second makes the list shrink when the server gets better.
package expect

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Outcome is how a test ended.
type Outcome int

// The outcomes. A test that ends with a warning has passed.
const (
	Passed Outcome = iota
	Failed
	Skipped
)

// Result is one test of a suite.
type Result struct {
	ID      string // as the suite names it, without a space
	Outcome Outcome
	Note    string // what the suite said of a failure
}

// Entry says why a test fails.
type Entry struct {
	Reason string // with the RFC section, where there is one
	Next   string // what will be done about it, or "none"
}

// List holds the tests that are expected to fail, by ID.
type List map[string]Entry

// Read reads a list from the file of that name: a line a test, of the form
//
//	ID | reason | what is done about it
//
// with all three parts. Empty lines and those that begin with # say nothing.
func Read(name string) (List, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	list := List{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		parts := strings.Split(line, "|")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		if len(parts) != 3 || slices.Contains(parts, "") {
			return nil, fmt.Errorf("%s:%d: want ID | reason | what is done about it", name, n)
		}
		if _, twice := list[parts[0]]; twice {
			return nil, fmt.Errorf("%s:%d: %s is listed twice", name, n, parts[0])
		}
		list[parts[0]] = Entry{Reason: parts[1], Next: parts[2]}
	}
	return list, lines.Err()
}

// Report is the outcome of a suite.
type Report struct {
	Passed, Expected, Failed int
	Wrong                    []string // a line for each thing that fails the run
	Idle                     []string // the listed tests that did not run
}

// String is the closing line.
func (r Report) String() string {
	return fmt.Sprintf("%d passed, %d expected, %d failed", r.Passed, r.Expected, r.Failed)
}

// Compare judges results. A suite none of whose tests ran is wrong.
func (l List) Compare(results []Result) Report {
	var r Report
	idle := maps.Clone(l)
	for _, res := range results {
		entry, listed := l[res.ID]
		if res.Outcome != Skipped {
			delete(idle, res.ID)
		}
		switch {
		case res.Outcome == Skipped:
		case res.Outcome == Failed && listed:
			r.Expected++
		case res.Outcome == Failed:
			r.Failed++
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s failed: %s", res.ID, res.Note))
		case listed:
			r.Passed++
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s passed, but is expected to fail (%s): take it off the list", res.ID, entry.Reason))
		default:
			r.Passed++
		}
	}
	if r.Passed+r.Expected+r.Failed == 0 {
		r.Wrong = append(r.Wrong, "no test ran")
	}
	r.Idle = slices.Sorted(maps.Keys(idle))
	return r
}

// Judge compares results with the list in the file of that name, fails t for
// each thing that is wrong, and prints the closing line, which begins with suite.
func Judge(t testing.TB, suite, name string, results []Result) {
	t.Helper()
	list, err := Read(name)
	if err != nil {
		t.Fatal(err)
	}
	r := list.Compare(results)
	for _, wrong := range r.Wrong {
		t.Error(wrong)
	}
	if len(r.Idle) > 0 {
		t.Log("expected to fail, but did not run:", r.Idle)
	}
	t.Logf("%s: %v", suite, r)
}
