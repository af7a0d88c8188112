package op

import (
	"context"
	"sync"
)

// fileLocks is one lock for each file that is being decided about. A lock
// exists only while somebody holds it or waits for it.
type fileLocks struct {
	mu sync.Mutex
	m  map[uint64]*fileLock
}

type fileLock struct {
	users int           // holder and waiters
	held  chan struct{} // holds one token while locked
}

// lock takes the lock of an inode, or returns ctx's error. The caller calls
// unlock once.
func (l *fileLocks) lock(ctx context.Context, ino uint64) (unlock func(), err error) {
	l.mu.Lock()
	f := l.m[ino]
	if f == nil {
		if l.m == nil {
			l.m = map[uint64]*fileLock{}
		}
		f = &fileLock{held: make(chan struct{}, 1)}
		l.m[ino] = f
	}
	f.users++
	l.mu.Unlock()
	select {
	case f.held <- struct{}{}:
		return func() { <-f.held; l.release(ino, f) }, nil
	case <-ctx.Done():
		l.release(ino, f)
		return nil, ctx.Err()
	}
}

// lockAll takes the locks of several inodes, which are in ascending order, each
// once: so two that do so do not wait for each other.
func (l *fileLocks) lockAll(ctx context.Context, inos []uint64) (unlock func(), err error) {
	var unlocks []func()
	unlock = func() {
		for _, u := range unlocks {
			u()
		}
	}
	for _, ino := range inos {
		u, err := l.lock(ctx, ino)
		if err != nil {
			unlock()
			return nil, err
		}
		unlocks = append(unlocks, u)
	}
	return unlock, nil
}

// tryLock takes the lock of an inode if nobody holds it or waits for it.
func (l *fileLocks) tryLock(ino uint64) (unlock func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m[ino] != nil {
		return nil, false
	}
	if l.m == nil {
		l.m = map[uint64]*fileLock{}
	}
	f := &fileLock{users: 1, held: make(chan struct{}, 1)}
	f.held <- struct{}{}
	l.m[ino] = f
	return func() { <-f.held; l.release(ino, f) }, true
}

func (l *fileLocks) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.m)
}

func (l *fileLocks) release(ino uint64, f *fileLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.users--; f.users == 0 {
		delete(l.m, ino)
	}
	if len(l.m) == 0 {
		l.m = nil // a map does not shrink
	}
}
