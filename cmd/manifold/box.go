package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"manifold/cmd/internal/boot"
	"manifold/mds/admin"
)

// box is the data folder of up: the metadata server's folder mds, and the data
// servers' ds1, ds2 and so on, each known to the metadata server by that name.
type box struct {
	dir        string
	registered []admin.DataServer // by number: a later one of the same name counts
}

func dsName(number int) string { return "ds" + strconv.Itoa(number) }

// dsNumber returns the number that is in a name, 0 if it is no dsName.
func dsNumber(name string) int {
	digits, _ := strings.CutPrefix(name, "ds")
	if n, err := strconv.Atoi(digits); err == nil && n > 0 && dsName(n) == name {
		return n
	}
	return 0
}

func (b *box) path(name string) string { return filepath.Join(b.dir, name) }

// state is what the metadata server says of a data server, "" if it knows none
// of that name.
func (b *box) state(name string) (state string) {
	for _, d := range b.registered {
		if d.Name == name {
			state = d.State
		}
	}
	return state
}

const removed = "removed"

// count returns how many data servers there are to be, if want are asked for;
// given says that somebody did ask. What the box holds is never left out: files
// are striped over it.
func (b *box) count(want int, given bool) (int, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return 0, fmt.Errorf("data folder: %w", err)
	}
	names := make([]string, 0, len(entries)+len(b.registered))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	for _, d := range b.registered {
		names = append(names, d.Name)
	}
	have := 0
	for _, name := range names {
		if b.state(name) != removed {
			have = max(have, dsNumber(name))
		}
	}
	if !given && have > 0 {
		return have, nil
	}
	if want >= have {
		return want, nil
	}
	var left []string
	for n := want + 1; n <= have; n++ {
		if b.state(dsName(n)) != removed {
			left = append(left, b.path(dsName(n)))
		}
	}
	return 0, boot.Usage("the data folder has data servers up to number %d: with %d, these would be left out, and what is in them: %s. More may be added, not fewer",
		have, want, strings.Join(left, ", "))
}

// starts says whether the data server runs: one that was removed from the
// cluster does not, unless its folder was emptied so that it can join anew. It
// is an error if one with files on it has lost its folder.
func (b *box) starts(name string) (bool, error) {
	held, err := os.ReadDir(b.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("data folder: %w", err)
	}
	switch state := b.state(name); {
	case state == removed:
		return len(held) == 0, nil
	case state != "" && len(held) == 0:
		return false, fmt.Errorf("the folder %s of a data server is missing or empty: is a disk not mounted?", b.path(name))
	}
	return true, nil
}
