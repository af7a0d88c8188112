package op

import (
	"context"
	"sync"
	"time"

	"manifold/layout"
)

// sizes is what is known of the lengths of files. A size that was heard a
// moment ago serves to say that a file goes on, for then zeros are as true as
// they were at that moment; that a file ends is said only on an answer to a
// question put after the READ came in, or a file that was just extended would
// end early.
type sizes struct {
	ask func(context.Context, layout.Object) (uint64, error)
	now func() time.Time

	mu    sync.Mutex
	known map[layout.Object]*size
}

// size is what is known of one file.
type size struct {
	heard time.Time // of bytes; zero: never
	bytes uint64
	fresh bool      // false: forgotten since the question was put
	next  *question // that whoever comes now waits for; not put yet
	busy  bool      // a question is under way
	users int
}

// question is one call of ask, for all who came before it was put.
type question struct {
	done  chan struct{}
	bytes uint64
	err   error
}

const (
	// sizeLife is how long a size serves.
	sizeLife = time.Second
	// sizeWait bounds a question; the client has a minute, and the metadata
	// server to turn to.
	sizeWait = 5 * time.Second
	// maxSizes bounds what is remembered.
	maxSizes = 4096
)

func newSizes(ask func(context.Context, layout.Object) (uint64, error)) *sizes {
	return &sizes{ask: ask, now: time.Now, known: make(map[layout.Object]*size)}
}

// get returns the length of obj's file, or at least end if it is that long.
func (s *sizes) get(ctx context.Context, obj layout.Object, end uint64) (uint64, error) {
	s.mu.Lock()
	f := s.known[obj]
	if f == nil {
		s.makeRoom()
		f = new(size)
		s.known[obj] = f
	}
	if f.bytes >= end && s.now().Sub(f.heard) < sizeLife {
		defer s.mu.Unlock()
		return f.bytes, nil
	}
	if f.next == nil {
		f.next = &question{done: make(chan struct{})}
	}
	q := f.next
	f.users++
	if !f.busy {
		f.busy = true
		go s.put(obj, f)
	}
	s.mu.Unlock()

	defer func() {
		s.mu.Lock()
		f.users--
		s.mu.Unlock()
	}()
	select {
	case <-q.done:
		return q.bytes, q.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// put puts questions about obj until nobody waits for one.
func (s *sizes) put(obj layout.Object, f *size) {
	for {
		s.mu.Lock()
		q := f.next
		f.next = nil
		if q == nil {
			f.busy = false
			s.mu.Unlock()
			return
		}
		f.fresh = true
		s.mu.Unlock()

		// Not the context of one of those who wait: he may leave, they stay.
		ctx, cancel := context.WithTimeout(context.Background(), sizeWait)
		asked := s.now()
		q.bytes, q.err = s.ask(ctx, obj)
		cancel()

		s.mu.Lock()
		if q.err == nil && f.fresh {
			f.bytes, f.heard = q.bytes, asked
		}
		s.mu.Unlock()
		close(q.done)
	}
}

// forget drops what was heard of obj, and what is being heard.
func (s *sizes) forget(obj layout.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.known[obj]; f != nil {
		f.bytes, f.heard, f.fresh = 0, time.Time{}, false
	}
}

// makeRoom forgets files that nobody asks about: those whose size serves no
// more, and if that is not enough, all.
func (s *sizes) makeRoom() {
	if len(s.known) < maxSizes {
		return
	}
	for _, all := range []bool{false, true} {
		for obj, f := range s.known {
			idle := f.users == 0 && !f.busy && f.next == nil
			if idle && (all || s.now().Sub(f.heard) >= sizeLife) {
				delete(s.known, obj)
			}
		}
		if len(s.known) < maxSizes {
			return
		}
	}
}
