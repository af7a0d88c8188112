package pynfs

import (
	"encoding/json"
	"fmt"
	"strings"

	"manifold/conformance/linux/expect"
)

// report is the part of testserver.py's JSON that counts.
type report struct {
	Tests []struct {
		Code    string          `json:"code"`
		Name    string          `json:"name"`
		Skipped json.RawMessage `json:"skipped"` // there if it did not run
		Failure *struct {
			Message string `json:"message"`
			Err     string `json:"err"` // traceback
		} `json:"failure"`
	} `json:"testcase"`
}

// Results reads what testserver.py wrote for --json. Tests that it was not
// asked for it calls skipped, as those whose dependency failed.
func Results(text []byte) ([]expect.Result, error) {
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("pynfs results: %w", err)
	}
	if len(r.Tests) == 0 {
		return nil, fmt.Errorf("pynfs results: no tests in %d bytes", len(text))
	}
	results := make([]expect.Result, 0, len(r.Tests))
	for _, test := range r.Tests {
		res := expect.Result{ID: test.Code}
		switch {
		case test.Code == "":
			return nil, fmt.Errorf("pynfs results: test %q has no code", test.Name)
		case test.Failure != nil:
			res.Outcome = expect.Failed
			res.Note = test.Name + ": " + test.Failure.Message
			if test.Failure.Message == "" {
				lines := strings.Split(strings.TrimSpace(test.Failure.Err), "\n")
				res.Note += lines[len(lines)-1]
			}
		case test.Skipped != nil:
			res.Outcome = expect.Skipped
		}
		results = append(results, res)
	}
	return results, nil
}
