package linux_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"manifold/conformance/linux/expect"
	"manifold/conformance/linux/kernel"
	"manifold/conformance/linux/work"
)

// cthonLimit bounds one group of Connectathon's tests. Each takes less than a
// minute on an idle machine.
const cthonLimit = 8 * time.Minute

// TestConnectathon runs the four groups of cthon04 on a mount of each minor
// version.
func TestConnectathon(t *testing.T) {
	s := newSuite(t, cthonVariable, "basic/test1", kernel.Suites()[0])
	defer s.world.explainAll(t)
	for _, version := range []string{"4.1", "4.2"} {
		t.Run(version, func(t *testing.T) {
			dir := s.mount(t, s.server.address, "t", "vers="+version)
			var all []expect.Result
			for _, group := range []string{"basic", "general", "special", "lock"} {
				res := s.within(t, cthonLimit, work.Cred{}, work.Exec{
					Argv: []string{"sh", "runtests", "-" + group[:1], "-t"}, Dir: s.tree,
					Env: []string{"NFSTESTDIR=" + path.Join(dir, "cthon")}, Seconds: int(cthonLimit / time.Second),
				})
				results := cthonResults(group, res.Text, res.Exit)
				t.Logf("%s: %d tests, %d s", group, len(results), res.Millis/1000)
				all = append(all, results...)
				s.sh(t, dir, "rm -rf cthon")
			}
			judge(t, "cthon04", all)
		})
	}
}

// cthonResults reads what runtests printed for a group and ended with. A group
// but lock is a row of steps, each with a headline, which ends at the first that
// fails; lock prints a line with its outcome for each of its calls, twice over.
func cthonResults(group, text string, exit int) []expect.Result {
	var results []expect.Result
	if group == "lock" {
		results = lockCalls(text)
	} else {
		results = cthonSteps(group, text)
	}
	failed := slices.ContainsFunc(results, func(r expect.Result) bool { return r.Outcome == expect.Failed })
	switch {
	case len(results) == 0 || (exit != 0 && !failed && group == "lock"):
		results = append(results, expect.Result{ID: group + "/run", Outcome: expect.Failed, Note: tail(text)})
	case exit != 0 && !failed:
		last := &results[len(results)-1]
		last.Outcome, last.Note = expect.Failed, tail(text)
	}
	return results
}

// cthonSteps finds the headlines: the first line after an empty one, but for
// those that say where or that all is over, and test6 of basic.
func cthonSteps(group, text string) []expect.Result {
	var results []expect.Result
	numbered := regexp.MustCompile(`^\./(test\d+[a-z]?):`)
	frame := regexp.MustCompile(`^(Starting |[A-Z]+ TESTS: |Congratulations|All tests completed|(General|Special) tests complete)`)
	signs := regexp.MustCompile(`[^A-Za-z0-9]+`)
	before := "none"
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := numbered.FindStringSubmatch(line); m != nil {
			results = append(results, expect.Result{ID: group + "/" + m[1]})
		} else if before == "" && line != "" && !frame.MatchString(line) {
			results = append(results, expect.Result{ID: group + "/" + strings.Trim(signs.ReplaceAllString(line, "-"), "-")})
		}
		before = line
	}
	return results
}

// lockCalls reads the lines of the group lock. A warning is no failure.
func lockCalls(text string) []expect.Result {
	var results []expect.Result
	pass := ""
	call := regexp.MustCompile(`^\s+(Parent|Child):\s+(\d+\.\d+)\s.*(PASSED|WARNING|FAILED)`)
	for line := range strings.Lines(text) {
		switch m := call.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "Testing native"):
			pass = "native"
		case strings.HasPrefix(line, "Testing non-native"):
			pass = "64bit"
		case m != nil:
			r := expect.Result{ID: "lock/" + pass + "/" + m[2]}
			if m[3] == "FAILED" {
				r.Outcome, r.Note = expect.Failed, strings.TrimSpace(line)
			}
			results = append(results, r)
		}
	}
	return results
}

func TestCthonResults(t *testing.T) {
	const basic = "\nStarting BASIC tests: test directory /x (arg: -t)\n\n./test1: creation\n\tcreated\n\t./test1 ok.\nTESTARG=-t\n./test6: readdir\n"
	const special = "\nSPECIAL TESTS: directory /x\ncp a b\n\ncheck for proper open/unlink operation\ntest completed successfully.\n\nwrite/read 30 MB file\n"
	const lock = "Testing native post-LFS locking\n\n\tParent: 1.1  - F_TEST [ 0, 1] PASSED.\nTesting non-native 64 bit\n\tChild:  1.2 - F_TEST [0, 1] "
	type results []expect.Result
	cases := []struct {
		group, text string
		exit        int
		want        results
	}{
		{"basic", basic + "\t./test6 ok.\n\nCongratulations, you\n\nAll tests completed\n", 0, results{passed("basic/test1"), passed("basic/test6")}},
		{"basic", basic + "\t./test6: no\n", 1, results{passed("basic/test1"), failed("basic/test6", "./test6: no")}},
		{"special", special + "\nSpecial tests complete\n", 0, results{passed("special/check-for-proper-open-unlink-operation"), passed("special/write-read-30-MB-file")}},
		{"lock", lock + "WARNING!\n", 0, results{passed("lock/native/1.1"), passed("lock/64bit/1.2")}},
		{"lock", lock + "FAILED!\n", 1, results{passed("lock/native/1.1"), failed("lock/64bit/1.2", "FAILED!")}},
		{"lock", lock + "\n", 1, results{passed("lock/native/1.1"), failed("lock/run", "1.2")}},
		{"general", "make: no rule\n", 2, results{failed("general/run", "no rule")}},
		{"general", "", 0, results{failed("general/run", "")}},
	}
	for _, c := range cases {
		got := cthonResults(c.group, c.text, c.exit)
		if !slices.EqualFunc(got, c.want, alike) {
			t.Errorf("%s, exit status %d, %q\nis read as %v, want %v", c.group, c.exit, c.text, got, c.want)
		}
	}
}
