package pynfs

import (
	"path/filepath"
	"slices"
	"testing"

	"manifold/conformance/linux/expect"
)

func TestResults(t *testing.T) {
	got, err := Results([]byte(`{"tests": 4, "failures": 2, "testcase": [
		{"code": "A1", "name": "testGood", "time": "0.5"},
		{"code": "A2", "name": "testBad", "failure": {"message": "got X", "err": "Traceback\nmore"}},
		{"code": "A3", "name": "testBroken", "failure": {"message": "", "err": "Traceback\nTypeError: no\n"}},
		{"code": "A4", "name": "testOther", "skipped": 1}]}`))
	want := []expect.Result{{ID: "A1"}, {ID: "A2", Outcome: expect.Failed, Note: "testBad: got X"},
		{ID: "A3", Outcome: expect.Failed, Note: "testBroken: TypeError: no"}, {ID: "A4", Outcome: expect.Skipped}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("read %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "{}", `{"testcase": []}`, `{"testcase": [{"name": "x"}]}`, `{"testcase": 3}`} {
		if got, err := Results([]byte(bad)); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

// TestLists reads every list, so that a bad line is seen without the suite.
func TestLists(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) != len(runs()) {
		t.Fatalf("lists %v, %v, want one for each of %d runs", files, err, len(runs()))
	}
	for _, name := range files {
		if _, err := expect.Read(name); err != nil {
			t.Error(err)
		}
	}
}
