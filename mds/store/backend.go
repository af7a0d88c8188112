package store

// Backend is what Group makes a Store of: something that can write a batch of
// changes at once and show the state between two batches.
type Backend interface {
	// Snapshot returns the state after the newest Commit that succeeded, and
	// never anything of one that has not returned yet. Any number of
	// Snapshots may be held, also while a Commit is at work, which may have
	// to wait for their release. After Close: ErrClosed.
	Snapshot() (Snapshot, error)

	// Commit makes all of batch durable, or nothing: its keys ascend and none
	// is there twice. Group never calls it twice at a time. An error that
	// wraps ErrFailed says that it is not known what the medium holds;
	// after any other error the next Commit may succeed.
	Commit(batch []Write) error

	// Close waits for all Snapshots to be released and frees everything.
	Close() error
}

// Snapshot is one state of a Backend. It may be used by many goroutines; what
// it returns is good until Release, which is called once.
type Snapshot interface {
	Get(key []byte) []byte
	Scan(from, to []byte, fn func(key, val []byte) (more bool, err error)) error
	Release()
}

// Write is one change of a batch: a nil Val deletes Key.
type Write struct {
	Key, Val []byte
}
