package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"manifold/mds/store"
)

// minMap is how much of the file bbolt maps at first; past it, bbolt rounds up
// to multiples of it. As long as a commit cannot outgrow the map, readers and
// the committer do not wait for each other.
const minMap = 1 << 30

// Backend is a store.Backend in one file. Beside the map the file holds a note,
// which is written in the same transaction.
//
// bbolt publishes a new root before it has flushed it, so a read transaction
// that begins during a commit may show what is not durable. Readers
// therefore share one snapshot that was taken after the commit before, and
// which is let go when the next commit is done. Only if the commit may have
// to move the map, which it cannot while a read transaction is open, is the
// snapshot let go before, and readers wait.
type Backend struct {
	db *bbolt.DB

	mu     sync.Mutex
	snap   *snapshot     // the newest durable state; nil while readers wait, and after Close
	idle   chan struct{} // closed when snap is set again, or the backend is closed
	err    error         // why there is no snapshot for good
	closed bool
}

// snapshot is a read transaction, counted: it ends with its last reader. Only
// methods of bbolt that write nothing are used on it, so many may at once.
type snapshot struct {
	tx     *bbolt.Tx
	bucket *bbolt.Bucket
	refs   atomic.Int64 // of its readers and of the backend
}

// Get implements store.Snapshot.
func (s *snapshot) Get(key []byte) []byte {
	if len(key) == 0 {
		return nil
	}
	return s.bucket.Get(key)
}

// Scan implements store.Snapshot.
func (s *snapshot) Scan(from, to []byte, fn func(key, val []byte) (bool, error)) error {
	c := s.bucket.Cursor()
	for k, v := c.Seek(from); k != nil && (to == nil || bytes.Compare(k, to) < 0); k, v = c.Next() {
		if more, err := fn(k, v); err != nil || !more {
			return err
		}
	}
	return nil
}

// Release implements store.Snapshot.
func (s *snapshot) Release() {
	if s.refs.Add(-1) == 0 {
		// It only fails for a transaction that has ended, which the count rules out.
		_ = s.tx.Rollback()
	}
}

// Snapshot implements store.Backend.
func (b *Backend) Snapshot() (store.Snapshot, error) {
	for {
		b.mu.Lock()
		s, idle, err := b.snap, b.idle, b.err
		if s != nil {
			s.refs.Add(1)
		}
		b.mu.Unlock()
		if s != nil {
			return s, nil
		}
		if err != nil {
			return nil, err
		}
		<-idle
	}
}

// renew takes the snapshot that readers get from now on.
func (b *Backend) renew() error {
	tx, err := b.db.Begin(false)
	if err != nil {
		return err
	}
	s := &snapshot{tx: tx, bucket: tx.Bucket([]byte(bucketName))}
	s.refs.Store(1)
	b.publish(s, nil)
	return nil
}

// publish replaces the snapshot, or says why there is none any more.
func (b *Backend) publish(s *snapshot, err error) {
	b.mu.Lock()
	old := b.snap
	b.snap, b.err = s, err
	select {
	case <-b.idle:
	default:
		close(b.idle)
	}
	b.mu.Unlock()
	if old != nil {
		old.Release()
	}
}

// withdraw lets readers wait for the end of the commit.
func (b *Backend) withdraw() {
	b.mu.Lock()
	old := b.snap
	b.snap, b.idle = nil, make(chan struct{})
	b.mu.Unlock()
	if old != nil {
		old.Release()
	}
}

// Commit implements store.Backend.
func (b *Backend) Commit(batch []store.Write) error { return b.CommitNote(batch, nil) }

// CommitNote is Commit, and replaces the note unless note is nil.
func (b *Backend) CommitNote(batch []store.Write, note []byte) error {
	if b.mayRemap(batch) {
		b.withdraw()
	}
	id, err := b.commit(batch, note)
	if err == nil {
		if err = b.renew(); err == nil {
			return nil
		}
		err = fmt.Errorf("%w: committed, but cannot be read: %w", store.ErrFailed, err)
	} else {
		err = b.judge(id, translate(err))
	}
	b.recover(err)
	return err
}

// commit writes batch in one transaction of bbolt and returns its number.
func (b *Backend) commit(batch []store.Write, note []byte) (id int, err error) {
	tx, err := b.db.Begin(true)
	if err != nil {
		return 0, err
	}
	id = tx.ID()
	bucket := tx.Bucket([]byte(bucketName))
	for _, w := range batch {
		if w.Val == nil {
			err = bucket.Delete(w.Key)
		} else {
			err = bucket.Put(w.Key, w.Val)
		}
		if err != nil {
			return id, errors.Join(err, tx.Rollback())
		}
	}
	if note != nil {
		if err := tx.Bucket([]byte(noteBucket)).Put([]byte(noteBucket), note); err != nil {
			return id, errors.Join(err, tx.Rollback())
		}
	}
	return id, tx.Commit()
}

// Note returns the newest note, nil if there is none. It must not be called
// during a commit.
func (b *Backend) Note() (note []byte, err error) {
	err = b.db.View(func(tx *bbolt.Tx) error {
		note = bytes.Clone(tx.Bucket([]byte(noteBucket)).Get([]byte(noteBucket)))
		return nil
	})
	return note, err
}

// Sync flushes what a Volatile file has not.
func (b *Backend) Sync() error { return b.db.Sync() }

// judge says what a failed commit, number id, means. For want of space bbolt
// gives up before it publishes the new root, and all is as before. After
// any other failure, or if the root is published, nobody can tell what the
// disk holds: a failed flush may have dropped pages that look written.
func (b *Backend) judge(id int, err error) error {
	if !errors.Is(err, store.ErrNoSpace) {
		return fmt.Errorf("%w: %w", store.ErrFailed, err)
	}
	tx, errTx := b.db.Begin(false)
	if errTx != nil {
		return fmt.Errorf("%w: %w, then %w", store.ErrFailed, err, errTx)
	}
	published := tx.ID() >= id
	if errTx := tx.Rollback(); errTx != nil || published {
		return fmt.Errorf("%w: %w", store.ErrFailed, err)
	}
	return err
}

// recover gives readers a snapshot again after a failed commit withdrew it. If
// the commit's outcome is unknown there is none that is surely durable.
func (b *Backend) recover(err error) {
	b.mu.Lock()
	have := b.snap != nil
	b.mu.Unlock()
	if have {
		return
	}
	if !errors.Is(err, store.ErrFailed) {
		if err = b.renew(); err == nil {
			return
		}
		err = fmt.Errorf("%w: %w", store.ErrFailed, err)
	}
	b.publish(nil, err)
}

// mayRemap says whether committing batch may outgrow the map: each key may
// sit in a page of its own, which is copied, may split, and has copied pages
// above it.
func (b *Backend) mayRemap(batch []store.Write) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.snap == nil {
		return false
	}
	need := int64(minMap / 64)
	for _, w := range batch {
		need += 32<<10 + 2*int64(len(w.Key)+len(w.Val))
	}
	size := b.snap.tx.Size()
	mapped := max(minMap, (size+minMap-1)/minMap*minMap)
	return size+need > mapped
}

// Close implements store.Backend.
func (b *Backend) Close() error {
	b.mu.Lock()
	again := b.closed
	b.closed = true
	b.mu.Unlock()
	if again {
		return nil
	}
	b.publish(nil, store.ErrClosed)
	return b.db.Close()
}

// translate returns err as one of store's, where it is one.
func translate(err error) error {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, berrors.ErrMaxSizeReached} {
		if errors.Is(err, full) {
			return fmt.Errorf("%w: %w", store.ErrNoSpace, err)
		}
	}
	return err
}
