package expect

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRead(t *testing.T) {
	list, err := Read(write(t, "# known\n\nA1 | RFC 8881 section 2.4 | none\n  B/2:3|not there yet|  later \n"))
	want := List{"A1": {"RFC 8881 section 2.4", "none"}, "B/2:3": {"not there yet", "later"}}
	if err != nil || !maps.Equal(list, want) {
		t.Errorf("read %v, %v, want %v", list, err, want)
	}
	for _, bad := range []string{"A1", "A1 | why", "A1 | | next", "| why | next", "A1 | why |", "A | b | c | d", "A | b | c\nA | d | e"} {
		if list, err := Read(write(t, bad)); err == nil {
			t.Errorf("%q was read as %v", bad, list)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a list that is not there was read")
	}
}

func TestCompare(t *testing.T) {
	list := List{"known": {"why", "next"}, "better": {"was so", "next"}, "away": {"why", "next"}, "skipped": {"why", "next"}}
	cases := []struct {
		name    string
		results []Result
		line    string
		wrong   []string // how the lines begin
		idle    int
	}{
		{"good", []Result{{"a", Passed, ""}, {"known", Failed, "no"}, {"skipped", Skipped, ""}}, "1 passed, 1 expected, 0 failed", nil, 3},
		{"not listed", []Result{{"a", Failed, "no"}, {"b", Passed, ""}}, "1 passed, 0 expected, 1 failed", []string{"a failed: no"}, 4},
		{"listed but passes", []Result{{"better", Passed, ""}}, "1 passed, 0 expected, 0 failed", []string{"better passed, but is expected to fail (was so)"}, 3},
		{"nothing", []Result{{"a", Skipped, ""}}, "0 passed, 0 expected, 0 failed", []string{"no test ran"}, 4},
	}
	for _, c := range cases {
		r := list.Compare(c.results)
		same := slices.EqualFunc(r.Wrong, c.wrong, strings.HasPrefix)
		if r.String() != c.line || !same || len(r.Idle) != c.idle {
			t.Errorf("%s: %v, wrong %q, idle %q; want %s, %q, %d", c.name, r, r.Wrong, r.Idle, c.line, c.wrong, c.idle)
		}
	}
}
