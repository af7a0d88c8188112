package linux_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"manifold/conformance/linux/expect"
	"manifold/conformance/linux/kernel"
	"manifold/conformance/linux/work"
)

const (
	// pjdfstestJobs is how many files of tests run at once: most sleep often,
	// to see a time change.
	pjdfstestJobs = 8
	// pjdfstestLimit bounds one file of tests: the longest have 2000 and more, each
	// a process of its own.
	pjdfstestLimit = time.Hour
)

// TestPJDFSTest runs pjdfstest, all of it or what the environment says.
func TestPJDFSTest(t *testing.T) {
	s := newSuite(t, pjdfstestVariable, "pjdfstest", kernel.Suites()[0])
	defer s.world.explainAll(t)
	files, err := testFiles(filepath.Join(s.tree, "tests"), strings.Fields(os.Getenv(pjdfstestTestsVariable)))
	if err != nil {
		t.Fatal(err)
	}
	dir := s.mount(t, s.server.address, "t", "vers=4.2")
	found := make([][]expect.Result, len(files))
	var jobs errgroup.Group
	jobs.SetLimit(pjdfstestJobs)
	for i, file := range files {
		jobs.Go(func() error {
			found[i] = s.pjdfstest(t.Context(), file, path.Join(dir, strings.ReplaceAll(file, "/", "-")))
			return nil
		})
	}
	_ = jobs.Wait() // none gives an error
	judge(t, "pjdfstest", slices.Concat(found...))
}

// testFiles lists the files of tests below tree, of the directories and files
// in only, or all.
func testFiles(tree string, only []string) ([]string, error) {
	if len(only) == 0 {
		only = []string{"."}
	}
	var files []string
	for _, name := range only {
		err := fs.WalkDir(os.DirFS(tree), path.Clean(name), func(name string, _ fs.DirEntry, err error) error {
			if err == nil && path.Ext(name) == ".t" {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// pjdfstest runs one file of tests in a directory dir made for it.
func (s suite) pjdfstest(ctx context.Context, file, dir string) []expect.Result {
	ctx, cancel := context.WithTimeout(ctx, pjdfstestLimit)
	defer cancel()
	res, err := s.Do(ctx, work.Exec{
		Argv:    []string{"sh", "-c", `mkdir "$1" && cd "$1" && exec sh "$2"`, "sh", dir, path.Join(s.tree, "tests", file)},
		Seconds: int(pjdfstestLimit / time.Second),
	})
	if err != nil {
		return []expect.Result{{ID: file, Outcome: expect.Failed, Note: err.Error()}}
	}
	return tapResults(file, res.Text)
}

// tapResults reads the output of one file of tests in TAP, the Test Anything
// Protocol: a plan and a line an assertion. An assertion's ID is FILE:NUMBER. A
// plan that was not kept is a failure of the file.
func tapResults(file, text string) []expect.Result {
	var results []expect.Result
	plan := -1
	assertion := regexp.MustCompile(`^(not )?ok\b\s*(\d*)(.*)`)
	excused := regexp.MustCompile(`(?i)#\s*skip`)
	todo := regexp.MustCompile(`(?i)#\s*todo`)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if after, ok := strings.CutPrefix(line, "1.."); ok {
			number, _, _ := strings.Cut(after, " ")
			if n, err := strconv.Atoi(number); err == nil {
				plan = n
			}
			continue
		}
		m := assertion.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		r := expect.Result{ID: file + ":" + m[2]}
		if m[2] == "" {
			r.ID = fmt.Sprint(file, ":", len(results)+1)
		}
		switch {
		case excused.MatchString(m[3]), m[1] != "" && todo.MatchString(m[3]):
			r.Outcome = expect.Skipped
		case m[1] != "":
			r.Outcome, r.Note = expect.Failed, line
		}
		results = append(results, r)
	}
	if len(results) != plan {
		note := fmt.Sprintf("%d assertions of %d; it ends: %s", len(results), plan, tail(text))
		results = append(results, expect.Result{ID: file, Outcome: expect.Failed, Note: note})
	}
	return results
}

func TestTapResults(t *testing.T) {
	type results []expect.Result
	cases := []struct {
		text string
		want results
	}{
		{"1..2\nok 1\nnot ok 2 - tried X, expected 0, got EIO\n", results{passed("f:1"), failed("f:2", "got EIO")}},
		{"1..2\nok 1 # skip no\nnot ok 2 # TODO later\n", results{skipped("f:1"), skipped("f:2")}},
		{"1..1\nok\n", results{passed("f:1")}},
		{"1..0 # SKIP not here\n", nil},
		{"1..3\nok 1\nokay\n", results{passed("f:1"), failed("f", "1 assertions of 3")}},
		{"sh: no such file\n", results{failed("f", "no such file")}},
		{"", results{failed("f", "")}},
	}
	for _, c := range cases {
		got := tapResults("f", c.text)
		if !slices.EqualFunc(got, c.want, alike) {
			t.Errorf("%q\nis read as %v, want %v", c.text, got, c.want)
		}
	}
}
