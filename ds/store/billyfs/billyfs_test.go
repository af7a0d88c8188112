package billyfs

import (
	"os"
	"testing"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/memfs"

	"manifold/ds/store"
	"manifold/ds/store/storetest"
)

const capacity = 1 << 30

func TestMemory(t *testing.T) {
	storetest.Maker{
		Open:          func(*testing.T) store.Store { return New(memfs.New(), capacity) },
		CannotReserve: true,
		CannotSync:    true,
	}.Run(t)
}

// syncable stands for a file system whose files can be synced.
type syncable struct{ billy.Filesystem }

type syncableFile struct{ billy.File }

func (syncableFile) Sync() error { return nil }

func (s syncable) OpenFile(name string, flag int, perm os.FileMode) (billy.File, error) {
	f, err := s.Filesystem.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return syncableFile{f}, nil
}

func TestSyncable(t *testing.T) {
	storetest.Maker{
		Open:          func(*testing.T) store.Store { return New(syncable{memfs.New()}, capacity) },
		CannotReserve: true,
	}.Run(t)
}
