package linux_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"manifold/conformance/linux/expect"
	"manifold/conformance/linux/kernel"
	"manifold/conformance/linux/work"
)

const (
	// xfstestsGuests is how many guests share the tests: one for each core of
	// a small machine.
	xfstestsGuests = 2
	// xfstestsEach bounds one test. The longest start thousands of programs, each
	// of which takes 20 ms and more in a guest.
	xfstestsEach = 20 * time.Minute
	// xfstestsBatch is how many tests one call of the suite's check runs: its
	// start takes as long as a short test.
	xfstestsBatch = 8
)

// TestXFSTests runs what xfstests has for any file system, by default its group
// "quick", and first of all its two exercisers, fsx and fsstress, by themselves.
func TestXFSTests(t *testing.T) {
	suites := kernel.Suites()
	s := newSuite(t, xfstestsVariable, "ltp/fsstress", suites[1]) // not the newest, which moves
	defer s.world.explainAll(t)
	version := cmp.Or(os.Getenv(xfstestsVersionVariable), "4.2")
	found := s.exercise(t, "vers="+version)

	tests := strings.Fields(os.Getenv(xfstestsTestsVariable))
	if len(tests) == 0 {
		var beyond []string
		var err error
		if tests, beyond, err = quickTests(filepath.Join(s.tree, "tests/generic")); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d tests of the group quick; %d more need what no NFS mount has", len(tests), len(beyond))
	}
	s.limitTests(t)
	batches := make(chan []string, len(tests))
	for batch := range slices.Chunk(tests, xfstestsBatch) {
		batches <- batch
	}
	close(batches)
	var mu sync.Mutex
	var guests sync.WaitGroup
	for i := range xfstestsGuests {
		s := s
		if i > 0 {
			s = s.another(t, suites[1], i) // with a server that the other does not fill
		}
		config := s.prepareXFSTests(t, i, version)
		guests.Go(func() {
			for batch := range batches {
				results := s.check(t.Context(), config, batch)
				mu.Lock()
				found = append(found, results...)
				mu.Unlock()
				for _, r := range results {
					t.Log(r.ID, []string{"passed", "FAILED", "not run"}[r.Outcome], strings.TrimPrefix(r.Note, "[not run] "))
				}
			}
		})
	}
	guests.Wait()
	judge(t, "xfstests", found)
}

// exercise runs fsx, which changes one file at random and checks it, with and
// without the page cache, and fsstress, which does everything to a tree of
// names, all from known seeds.
func (s suite) exercise(t *testing.T, options string) []expect.Result {
	t.Helper()
	dir := s.mount(t, s.server.address, "exercise", options)
	programs := []struct{ id, script string }{
		{"fsx/buffered", `ltp/fsx -N 5000 -S 1 -q "$1/fsx.1"`},
		{"fsx/direct", `ltp/fsx -Z -r 4096 -w 4096 -t 4096 -N 2000 -S 2 -q "$1/fsx.2"`},
		{"fsstress", `mkdir "$1/fsstress" && ltp/fsstress -d "$1/fsstress" -n 500 -p 4 -s 1 && rm -r "$1/fsstress"`},
	}
	var results []expect.Result
	for _, p := range programs {
		r := expect.Result{ID: p.id}
		res := s.within(t, xfstestsEach, work.Cred{}, work.Exec{
			Argv: []string{"sh", "-ec", p.script, "sh", dir}, Dir: s.tree, Seconds: int(xfstestsEach / time.Second),
		})
		if res.Exit != 0 {
			r.Outcome, r.Note = expect.Failed, tail(res.Text)
		}
		results = append(results, r)
	}
	return results
}

// quickTests lists the tests of the group quick in dir: those that can run on
// an NFS mount, and those that say, in their text, that they need what it never
// has. Asking each of the latter would take longer than all of the former. Tests
// that fail or pass by chance are in neither.
func quickTests(dir string) (able, beyond []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "[0-9][0-9][0-9]"))
	if err != nil || len(files) == 0 {
		return nil, nil, fmt.Errorf("no tests in %s: %w", dir, cmp.Or(err, os.ErrNotExist))
	}
	quick := regexp.MustCompile(`(?m)^_begin_fstest\b.* quick\b`)
	never := regexp.MustCompile(`(?m)^\s*_require_(` + strings.Join([]string{
		// a block device, or power over one
		`block_device`, `local_device`, `dm_target`, `scsi_debug`, `loop`, `log_writes`, `error_injection`, `fail_make_request`,
		`scratch_shutdown`, `metadata_journaling`, `norecovery`, `batched_discard`, `freeze`, `scratch_delalloc`,
		// shared blocks
		`scratch_reflink`, `test_reflink`, `cp_reflink`, `scratch_dedupe`, `test_dedupe`,
		// what the protocol, or the client, has no word for
		`quota`, `prjquota`, `xfs_quota`, `xfs_quota_foreign`, `setquota`, `getnextquota`, `scratch_swapfile`, `scratch_verity`, `scratch_encryption`, `scratch_inlinecrypt`,
		`scratch_casefold`, `atomic_write`, `scratch_write_atomic`, `dax`, `scratch_dax`, `idmapped`, `export`, `chattr`, `label`, `thp`, `scratch_xfs`,
		`xfs_io_command "?(fiemap|fzero|fcollapse|finsert|funshare|exchangerange|startupdate|chattr|lsattr|fsmap|label)`,
	}, "|") + `)`)
	unsteady := map[string]bool{
		"generic/103": true, // takes all but 512 KiB of what statfs calls free, which is a second old and where metadata grow too
		"generic/604": true, // counts on umount(8) being under way 10 ms after it was started
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		id := "generic/" + filepath.Base(file)
		switch {
		case !quick.Match(text), unsteady[id]:
		case never.Match(text):
			beyond = append(beyond, id)
		default:
			able = append(able, id)
		}
	}
	return able, beyond, nil
}

// limitTests makes check, in the copy of the suite, end a test that takes longer
// than xfstestsEach: it has no such option.
func (s suite) limitTests(t *testing.T) {
	t.Helper()
	const begin = "exec ./$seq"
	name := filepath.Join(s.tree, "check")
	text, err := os.ReadFile(name)
	if err == nil && strings.Count(string(text), begin) != 1 {
		err = fmt.Errorf("%q is not there once", begin)
	}
	if err == nil {
		limited := fmt.Sprintf("exec timeout -k 10 %d ./$seq", xfstestsEach/time.Second)
		err = os.WriteFile(name, []byte(strings.Replace(string(text), begin, limited, 1)), 0o755)
	}
	if err != nil {
		t.Fatalf("limit tests by %s: %v", name, err)
	}
}

// prepareXFSTests makes what the suite needs in the guest, number n: users, and
// two directories to mount, which become the test and the scratch device. It
// returns the path of the suite's configuration. What is remounted read-only
// must not be what is mounted a second time: nosharecache.
func (s suite) prepareXFSTests(t *testing.T, n int, version string) string {
	t.Helper()
	dir := s.mount(t, s.server.address, "all", "vers="+version)
	s.sh(t, dir, `mkdir -m 777 test scratch; mkdir -p /mnt/test /mnt/scratch
		for u in fsgqa fsgqa2 123456-fsgqa; do id "$u" >/dev/null 2>&1 || useradd --badname -m -U "$u"; done`)
	config := filepath.Join(s.world.shared, fmt.Sprint("config.", n))
	text := fmt.Sprintf("export FSTYP=nfs TEST_DIR=/mnt/test SCRATCH_MNT=/mnt/scratch RESULT_BASE=%s\n"+
		"export TEST_DEV=%s:/test SCRATCH_DEV=%[2]s:/scratch\n"+
		"export NFS_MOUNT_OPTIONS='%[3]s' MOUNT_OPTIONS='%[3]s' TEST_FS_MOUNT_OPTS='%[3]s'\n",
		filepath.Join(s.world.shared, fmt.Sprint("results.", n)), s.server.address, "-o nosharecache,vers="+version)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return config
}

// check runs one batch of tests.
func (s suite) check(ctx context.Context, config string, tests []string) []expect.Result {
	limit := time.Duration(len(tests))*(xfstestsEach+time.Minute) + time.Minute
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute)
	defer cancel()
	res, err := s.Do(ctx, work.Exec{
		Argv: append([]string{"./check", "-nfs"}, tests...), Dir: s.tree,
		Env: []string{"HOST_OPTIONS=" + config}, Seconds: int(limit / time.Second),
	})
	if err != nil {
		res.Text += "\n" + err.Error()
	}
	return checkResults(tests, res.Text)
}

// checkResults reads what check printed of tests: a line for each, which goes on
// in further lines if the test fails, and three lists in the end.
func checkResults(tests []string, text string) []expect.Result {
	said := map[string]string{}
	lists := map[string][]string{}
	id := ""
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if list, names, ok := strings.Cut(line, ": "); ok && slices.Contains([]string{"Ran", "Not run", "Failures"}, list) {
			lists[list], id = strings.Fields(names), ""
		} else if slices.Contains(tests, word) {
			id, said[word] = word, strings.TrimSpace(rest)+"\n"
		} else if id != "" {
			said[id] += line
		}
	}
	results := make([]expect.Result, len(tests))
	for i, test := range tests {
		r := expect.Result{ID: test, Note: tail(strings.TrimSpace(said[test]))}
		switch {
		case slices.Contains(lists["Not run"], test):
			r.Outcome = expect.Skipped
		case slices.Contains(lists["Failures"], test):
			r.Outcome = expect.Failed
		case !slices.Contains(lists["Ran"], test):
			r.Outcome, r.Note = expect.Failed, "did not finish: "+tail(text)
		}
		results[i] = r
	}
	return results
}

func TestCheckResults(t *testing.T) {
	const run = "FSTYP -- nfs\n\ngeneric/001        53s\ngeneric/003        [not run] no atime\n" +
		"generic/007 4s ... - output mismatch (see x)\n    --- a\n    +++ b\n    -good\n"
	type results []expect.Result
	cases := []struct {
		text string
		want results
	}{
		{run + "Ran: generic/001 generic/003 generic/007\nNot run: generic/003\nFailures: generic/007\nFailed 1 of 3 tests\n",
			results{passed("generic/001"), skipped("generic/003"), failed("generic/007", "-good")}},
		{"Ran: generic/001 generic/003\nNot run: generic/003\n",
			results{passed("generic/001"), skipped("generic/003"), failed("generic/007", "did not finish")}},
		{run, results{failed("generic/001", "did not finish"), failed("generic/003", "did not finish"), failed("generic/007", "-good")}},
		{"", results{failed("generic/001", ""), failed("generic/003", ""), failed("generic/007", "")}},
	}
	for _, c := range cases {
		got := checkResults([]string{"generic/001", "generic/003", "generic/007"}, c.text)
		if !slices.EqualFunc(got, c.want, alike) {
			t.Errorf("%q\nis read as %v, want %v", c.text, got, c.want)
		}
	}
}

func TestQuickTests(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"001":     "_begin_fstest auto quick rw\n_require_test\n",
		"002":     "_begin_fstest auto rw\n",
		"003":     "_begin_fstest auto quick rw\n\t_require_xfs_io_command \"fiemap\"\n",
		"004":     "_begin_fstest quick\n_require_dm_target flakey\n",
		"001.out": "_begin_fstest auto quick\n",
	} {
		if err := os.WriteFile(path.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	able, beyond, err := quickTests(dir)
	if err != nil || !slices.Equal(able, []string{"generic/001"}) || !slices.Equal(beyond, []string{"generic/003", "generic/004"}) {
		t.Errorf("%v can run, %v cannot (%v)", able, beyond, err)
	}
	if _, _, err := quickTests(t.TempDir()); err == nil {
		t.Error("a directory without tests has some")
	}
}
