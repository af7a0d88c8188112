package op

import "sync/atomic"

// cuts lets a WRITE through this server see that a truncation of the file met
// it: part of its data may have been cut off after it came to the data servers,
// though the size says that it is there. Such a WRITE is not acknowledged. No
// lock is held over a WRITE, so that many may be under way.
//
// Files share counters. A WRITE that is told to come again for the sake of
// another file loses a moment.
type cuts [256]struct {
	busy  atomic.Int64  // truncations under way
	begun atomic.Uint64 // truncations so far
}

// begin says that a truncation begins; end that the outbox has it from now on,
// where everybody looks before he begins, or that there is none.
func (t *cuts) begin(ino uint64) (end func()) {
	c := &t[ino%uint64(len(t))]
	c.begun.Add(1)
	c.busy.Add(1)
	return func() { c.busy.Add(-1) }
}

// watch begins to look out for truncations: none is under way if free is true,
// and met says whether one has begun since.
func (t *cuts) watch(ino uint64) (met func() bool, free bool) {
	c := &t[ino%uint64(len(t))]
	seen := c.begun.Load()
	return func() bool { return c.begun.Load() != seen }, c.busy.Load() == 0
}
