package ds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"manifold/ds/fence"
	"manifold/ds/op"
	"manifold/ds/store/osfs"
)

const fencesName = "fences"

// fences keeps the table of fences on disk and at the gate.
type fences struct {
	dir  string
	gate *op.Gate
	mu   sync.Mutex // one change at a time
}

// loadFences reads the table from dir. A file that cannot be read is an error:
// without it clients would be served that must not be.
func loadFences(dir string, limits fence.Limits) (*fences, error) {
	table := fence.New(limits)
	b, err := os.ReadFile(filepath.Join(dir, fencesName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("ds: %w", err)
	default:
		if table, err = fence.Load(b, limits); err != nil {
			return nil, fmt.Errorf("ds: %s: %w (a data server does not start without its fences)", filepath.Join(dir, fencesName), err)
		}
	}
	return &fences{dir: dir, gate: op.NewGate(table)}, nil
}

// change changes the table, and returns nil when the change is on disk, stands,
// and all I/O that was admitted before is over; so does a change that was made
// before and is asked for again. After an error nothing is promised.
func (f *fences) change(ctx context.Context, change func(*fence.Table) (changed bool, err error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	table := f.gate.Table().Clone()
	changed, err := change(table)
	if err != nil {
		return err
	}
	if changed {
		if err := osfs.WriteFile(f.dir, fencesName, table.Snapshot()); err != nil {
			return fmt.Errorf("ds: fences not kept: %w", err)
		}
		f.gate.Replace(table)
	}
	return f.gate.Drain(ctx)
}
