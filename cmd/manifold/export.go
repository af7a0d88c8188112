package main

import (
	"errors"
	"fmt"
	"strings"

	"manifold/mds"
)

// exportFlag is the flag of the export's rules: one for each time that it is
// given, or several with ; in between, as an environment variable has to.
type exportFlag struct {
	texts []string
	rules []mds.ExportRule
}

// Set adds the rules that text says.
func (e *exportFlag) Set(text string) error {
	for _, t := range strings.Split(text, ";") {
		if err := e.Append(t); err != nil {
			return err
		}
	}
	return nil
}

// Append adds one rule.
func (e *exportFlag) Append(text string) error {
	r, err := mds.ParseExport(text)
	if err != nil {
		return fmt.Errorf("rule %d: %w", len(e.rules)+1, err)
	}
	e.texts, e.rules = append(e.texts, text), append(e.rules, r)
	return nil
}

// Replace makes the rules those of list. An empty one would let everybody in
// where nobody is meant.
func (e *exportFlag) Replace(list []string) error {
	if len(list) == 0 {
		return errors.New("no rule in the list; leave the line out to let every client do everything")
	}
	*e = exportFlag{}
	for _, t := range list {
		if err := e.Append(t); err != nil {
			return err
		}
	}
	return nil
}

// GetSlice returns the rules as they were given.
func (e *exportFlag) GetSlice() []string { return e.texts }

// String returns them in one line.
func (e *exportFlag) String() string { return strings.Join(e.texts, ";") }

// Type names the kind of value in messages.
func (*exportFlag) Type() string { return "rule" }
