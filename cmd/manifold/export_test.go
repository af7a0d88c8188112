package main

import (
	"slices"
	"testing"
)

// The rules come one by one, or several from the environment.
func TestExportFlag(t *testing.T) {
	var e exportFlag
	for _, text := range []string{"clients=10.0.0.1", "clients=10.0.0.2,access=ro;squash=all"} {
		if err := e.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"clients=10.0.0.1", "clients=10.0.0.2,access=ro", "squash=all"}
	if len(e.rules) != 3 || !e.rules[1].ReadOnly || !slices.Equal(e.GetSlice(), want) {
		t.Errorf("rules %+v of %q", e.rules, e.GetSlice())
	}
	var again exportFlag
	if err := again.Set(e.String()); err != nil || !slices.Equal(again.texts, want) {
		t.Errorf("what it says of itself, read again: %q, %v", again.texts, err)
	}
	if err := e.Replace([]string{"access=ro"}); err != nil || len(e.rules) != 1 {
		t.Errorf("replaced: %+v, %v", e.rules, err)
	}
	if err := e.Replace(nil); err == nil {
		t.Error("no rule at all is taken for everybody")
	}
}
