// Package bolt keeps a store.Store in one file by go.etcd.io/bbolt.
//
// Its nouns: a Backend is the file, open in this process alone; a snapshot is
// one read transaction of it, shared by all who read between two commits.
package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"manifold/mds/store"
)

// Config says how to open a file. The zero value is good.
type Config struct {
	// LockTimeout is how long to wait for another process to let go of the
	// file. Default 1 s.
	LockTimeout time.Duration
	// MaxSize is the most bytes that the file may grow to; past it commits fail
	// with store.ErrNoSpace. 0: no limit but the disk's.
	MaxSize int
	// Volatile leaves out all flushes: what was acknowledged may be lost, and
	// the file with it, if the machine stops. For copies, and for tests.
	Volatile bool
}

// The bucket of the map, and that of the note.
const (
	bucketName = "m"
	noteBucket = "n"
)

// Open opens the file at path, which is made if need be, with permissions 0600,
// and locked against other processes. The caller closes the Store. Errors:
// store.ErrInUse, store.ErrNoSpace, or what the file system or bbolt has to say
// of the file.
func Open(path string, cfg Config) (store.Store, error) {
	b, err := OpenBackend(path, cfg)
	if err != nil {
		return nil, err
	}
	return store.NewGroup(b, store.Bounds{}), nil
}

// OpenBackend is Open without the group commit.
func OpenBackend(path string, cfg Config) (*Backend, error) {
	b, err := open(path, cfg, os.OpenFile)
	if err != nil {
		return nil, fmt.Errorf("metadata store %s: %w", path, err)
	}
	return b, nil
}

// openFunc is os.OpenFile, or a test's.
type openFunc func(path string, flag int, mode fs.FileMode) (*os.File, error)

func open(path string, cfg Config, openFile openFunc) (*Backend, error) {
	if cfg.LockTimeout <= 0 {
		cfg.LockTimeout = time.Second
	}
	_, err := os.Stat(path)
	created := errors.Is(err, fs.ErrNotExist)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:         cfg.LockTimeout,
		FreelistType:    bbolt.FreelistMapType,
		NoFreelistSync:  true, // after a large removal it would be megabytes a commit
		NoStatistics:    true, // they cost every reader a lock
		InitialMmapSize: minMap,
		MaxSize:         cfg.MaxSize,
		NoSync:          cfg.Volatile,
		NoGrowSync:      cfg.Volatile,
		OpenFile:        openFile,
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, store.ErrInUse
	}
	if err != nil {
		return nil, translate(err)
	}
	b, err := prepare(db, path, created, cfg.Volatile)
	if err != nil {
		return nil, errors.Join(translate(err), db.Close())
	}
	return b, nil
}

// prepare makes the buckets if need be and takes the first snapshot.
func prepare(db *bbolt.DB, path string, created, volatile bool) (*Backend, error) {
	// The file holds every client's data and the cluster's keys. It may have
	// been put back from a copy with other permissions.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, err
	}
	err := db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{bucketName, noteBucket} {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !volatile {
		// A process that was killed in a commit may have left the newest
		// root in the page cache only; what readers see must be on the disk.
		if err := db.Sync(); err != nil {
			return nil, err
		}
	}
	if created && !volatile {
		if err := syncDir(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	b := &Backend{db: db, idle: make(chan struct{})}
	close(b.idle)
	if err := b.renew(); err != nil {
		return nil, err
	}
	return b, nil
}

// syncDir makes a new name in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
