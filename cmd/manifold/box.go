package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"manifold/cmd/internal/boot"
	"manifold/ds"
	"manifold/mds/admin"
)

// box is the data folder of up: the metadata server's folder mds, and the data
// servers' ds1, ds2 and so on, each known to the metadata server by that name.
// It is what the administrator talks to, since a data server that is removed
// from the cluster must stop.
type box struct {
	admin.Backend
	dir     string
	log     *zap.Logger
	running []member // does not change once there is an administrator
}

// member is a data server of the box that runs.
type member struct {
	name string
	srv  *ds.Server
}

// RemoveDS takes a data server out of the cluster and stops it.
func (b *box) RemoveDS(ctx context.Context, id string) error {
	if err := b.Backend.RemoveDS(ctx, id); err != nil {
		return err
	}
	for _, m := range b.running {
		if b.state(ctx, m.name) == removed {
			stopDS(ctx, m.srv, b.log)
		}
	}
	return nil
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
// of that name. The list is by number: a later one of the same name counts.
func (b *box) state(ctx context.Context, name string) (state string) {
	list, err := b.DataServers(ctx)
	if err != nil {
		return ""
	}
	for _, d := range list {
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
func (b *box) count(ctx context.Context, want int, given bool) (int, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return 0, fmt.Errorf("data folder: %w", err)
	}
	registered, err := b.DataServers(ctx)
	if err != nil {
		return 0, err
	}
	names := make([]string, 0, len(entries)+len(registered))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	for _, d := range registered {
		names = append(names, d.Name)
	}
	have := 0
	for _, name := range names {
		if b.state(ctx, name) != removed {
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
		if b.state(ctx, dsName(n)) != removed {
			left = append(left, b.path(dsName(n)))
		}
	}
	return 0, boot.Usage("the data folder has data servers up to number %d: with %d, these would be left out, and what is in them: %s. More may be added, not fewer",
		have, want, strings.Join(left, ", "))
}

// starts says whether the data server runs: one that was removed from the
// cluster does not, unless its folder was emptied so that it can join anew. It
// is an error if one with files on it has lost its folder.
func (b *box) starts(ctx context.Context, name string) (bool, error) {
	held, err := os.ReadDir(b.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("data folder: %w", err)
	}
	switch state := b.state(ctx, name); {
	case state == removed:
		return len(held) == 0, nil
	case state != "" && len(held) == 0:
		return false, fmt.Errorf("the folder %s of a data server is missing or empty: is a disk not mounted?", b.path(name))
	}
	return true, nil
}
