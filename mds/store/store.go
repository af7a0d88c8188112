// Package store keeps the metadata: one ordered map from keys to values.
//
// Its nouns: a Store is the map; View reads what is durable in it; Update
// changes it; a Tx is one View or one Update at work. Keys are ordered by
// their bytes. What a key means is the business of the callers.
//
// Group commit: Updates run one after the other, each on top of the writes of
// those before it, whether these are durable yet or not. Many Updates share
// one transaction of the backend, and each of them returns when the transaction
// that it is part of is durable, so nothing that a crash could take back ever
// leaves Update: not a success, and not an error that was decided upon writes
// which are not durable.
package store

import (
	"context"
	"errors"
)

// Errors of every Store. Callers compare with errors.Is.
var (
	// ErrClosed means that the Store was closed, or was closing when the call came.
	ErrClosed = errors.New("store: closed")
	// ErrInUse means that another process has the Store open.
	ErrInUse = errors.New("store: in use by another process")
	// ErrNoSpace means that the backend is full. Nothing of the Update was kept.
	ErrNoSpace = errors.New("store: no space left")
	// ErrReadOnly means a Put or a Delete in a View.
	ErrReadOnly = errors.New("store: write in a view")
	// ErrTooLarge means that a key, a value or one Update is over its bound.
	ErrTooLarge = errors.New("store: over the size limit")
	// ErrFailed means that a commit failed in a way that leaves unknown what
	// the medium holds. The Store refuses every later Update: it must be
	// opened again.
	ErrFailed = errors.New("store: failed")
)

// Bounds that hold on every backend. An empty key is ErrTooLarge as well.
const (
	// MaxKey is the longest key, in bytes.
	MaxKey = 1024
	// MaxValue is the longest value, in bytes.
	MaxValue = 256 << 10
	// MaxUpdateOps is the most writes that one Update may make.
	MaxUpdateOps = 4096
	// MaxUpdateBytes bounds the keys and values that one Update may write.
	MaxUpdateBytes = 1 << 20
)

// Store is an ordered map with transactions. All methods may be called by
// many goroutines at once.
//
// A View or an Update must not be started from within the fn of another one
// on the same Store: it may wait for ever.
type Store interface {
	// View calls fn with a Tx of what is durable, one state for the whole
	// call, and returns fn's error. Many Views run at once, also during
	// Updates.
	View(ctx context.Context, fn func(Tx) error) error

	// Update calls fn with a Tx in which it sees the writes of all Updates
	// before it, and returns when its own writes, and all those that it read,
	// are durable. If fn returns an error then none of its writes is kept,
	// and Update returns that error.
	//
	// fn may run more than once, and must do nothing but read and write the
	// Tx. Updates run one at a time, so fn must be short.
	//
	// If ctx ends before fn ran then nothing was written. If it ends later,
	// then Update returns ctx's error at once, and whether the writes are kept
	// is not known: either all of them or none.
	//
	// Errors of the Store itself wrap one of the Err values of this package
	// or are the backend's. If a commit fails, all Updates in it fail and so
	// do those that ran on top of it.
	Update(ctx context.Context, fn func(Tx) error) error

	// Close lets the Updates that fn was called for become durable, refuses
	// later calls with ErrClosed, waits for the Views at work and frees the
	// backend. A second Close does nothing.
	Close() error
}

// Tx is one View or Update at work. It is for the goroutine that fn runs on,
// and it and all values from it are good until fn returns. An Update in which a
// method failed fails as well, even if fn overlooks the error.
type Tx interface {
	// Get returns the value of key, or nil if there is none. An empty value
	// is not nil. The caller must not write to it.
	Get(key []byte) ([]byte, error)

	// Put sets the value of key. It keeps neither slice. Errors: ErrReadOnly,
	// ErrTooLarge.
	Put(key, val []byte) error

	// Delete removes key; a key that is not there is no error. Errors:
	// ErrReadOnly, ErrTooLarge.
	Delete(key []byte) error

	// Scan calls fn for each key from <= key < to in ascending order, until fn
	// returns false or an error, which Scan returns. A nil to means no upper
	// bound. It costs no more than the keys that it hands out. fn may write;
	// whether the rest of the Scan shows these writes is not defined.
	Scan(from, to []byte, fn func(key, val []byte) (more bool, err error)) error
}
