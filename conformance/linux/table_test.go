package linux_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"manifold/conformance/linux/kernel"
)

// readme is where the compatibility table goes, between its two marks, when a
// whole run is done.
var readme = flag.String("readme", "", "write the compatibility table into this file")

// The marks around the table in the file.
const (
	tableBegin = "<!-- compatibility: written by the kernel tests -->"
	tableEnd   = "<!-- end of compatibility -->"
)

// table gathers what worked with which kernel.
type table struct {
	mu      sync.Mutex
	columns []string
	cells   map[string]map[string]bool // kernel's version, column
}

func newTable() *table { return &table{cells: map[string]map[string]bool{}} }

// run runs a subtest and notes its outcome under column, for kernel k. Several
// subtests may share a column: all must pass.
func (b *table) run(t *testing.T, k kernel.Kernel, column, name string, test func(t *testing.T)) {
	passed := t.Run(name, test)
	b.mu.Lock()
	defer b.mu.Unlock()
	row := b.cells[k.Version]
	if row == nil {
		row = map[string]bool{}
		b.cells[k.Version] = row
	}
	before, known := row[column]
	row[column] = passed && (before || !known)
	for _, c := range b.columns {
		if c == column {
			return
		}
	}
	b.columns = append(b.columns, column)
}

// markdown returns the table, a row a kernel.
func (b *table) markdown(kernels []kernel.Kernel) string {
	var s strings.Builder
	fmt.Fprintf(&s, "| Linux | %s |\n|---%s|\n", strings.Join(b.columns, " | "), strings.Repeat("|:---:", len(b.columns)))
	for _, k := range kernels {
		fmt.Fprintf(&s, "| %s (Debian %s)", k.Version, k.Suite)
		for _, c := range b.columns {
			cell := "not run"
			if passed, ran := b.cells[k.Version][c]; ran && passed {
				cell = "yes"
			} else if ran {
				cell = "**no**"
			}
			fmt.Fprintf(&s, " | %s", cell)
		}
		s.WriteString(" |\n")
	}
	return s.String()
}

// writeBetweenMarks replaces what lies between the marks in the file.
func writeBetweenMarks(path, text string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(b), tableBegin)
	_, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s has not the marks %q and %q", path, tableBegin, tableEnd)
	}
	return os.WriteFile(path, []byte(head+tableBegin+"\n"+text+tableEnd+tail), 0o644)
}

func TestTable(t *testing.T) {
	b := newTable()
	one, two := kernel.Kernel{Suite: "old", Version: "6.1.1"}, kernel.Kernel{Suite: "new", Version: "7.2.3"}
	b.run(t, one, "mount", "a", func(t *testing.T) {})
	b.run(t, one, "mount", "b", func(t *testing.T) {})
	b.run(t, two, "crash", "c", func(t *testing.T) {})
	const want = "| Linux | mount | crash |\n|---|:---:|:---:|\n" +
		"| 6.1.1 (Debian old) | yes | not run |\n| 7.2.3 (Debian new) | not run | yes |\n"
	if got := b.markdown([]kernel.Kernel{one, two}); got != want {
		t.Errorf("table:\n%swant:\n%s", got, want)
	}
	path := t.TempDir() + "/README.md"
	if err := os.WriteFile(path, []byte("head\n"+tableBegin+"old"+tableEnd+"\ntail\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeBetweenMarks(path, "new\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "head\n"+tableBegin+"\nnew\n"+tableEnd+"\ntail\n" {
		t.Errorf("file holds %q, %v", got, err)
	}
}
