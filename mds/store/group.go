package store

import (
	"context"
	"errors"
)

// Bounds say how much a batch gathers: with either reached, Updates wait for the
// batch before to be durable. An Update that is larger by itself still goes, and
// the last one of a batch may exceed them. Zero fields take the default.
type Bounds struct {
	// Ops are writes: twice MaxUpdateOps. Bytes are of keys and values: 8 times
	// MaxUpdateBytes.
	Ops, Bytes int
}

func (b Bounds) withDefaults() Bounds {
	if b.Ops == 0 {
		b.Ops = 2 * MaxUpdateOps
	}
	if b.Bytes == 0 {
		b.Bytes = 8 * MaxUpdateBytes
	}
	return b
}

// Group makes a Store of a Backend by group commit. Updates take turns on an
// overlay of pending writes; a goroutine commits what has gathered, and while
// one batch is on its way to the medium the next one fills. There is no
// timer: a lone Update is committed at once.
type Group struct {
	backend Backend
	bounds  Bounds
	wake    chan struct{} // capacity 1: there is something for the committer
	done    chan struct{} // closed when the committer has ended

	// turn holds a token of whoever may use the fields below: the Update
	// that runs fn, or the committer between two batches. It is a channel so
	// that waiting for it can be given up.
	turn     chan struct{}
	own      *layer // the writes of the Update that runs
	filling  *batch // gathers
	flushing *batch // is being committed, or nil
	closed   bool
	failed   error // wraps ErrFailed
}

// batch is a layer that is or will be one Commit.
type batch struct {
	*layer
	taken chan struct{} // closed when the committer took it
	done  chan struct{} // closed when it is durable, or err is set
	err   error
}

func newBatch() *batch {
	return &batch{layer: newLayer(), taken: make(chan struct{}), done: make(chan struct{})}
}

// full says that the filling batch takes no more.
func (g *Group) full() bool {
	return len(g.filling.vals) >= g.bounds.Ops || g.filling.bytes >= g.bounds.Bytes
}

// NewGroup returns a Store that keeps everything in b, and closes b when it is
// closed itself.
func NewGroup(b Backend, bounds Bounds) *Group {
	g := &Group{
		backend: b,
		bounds:  bounds.withDefaults(),
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		turn:    make(chan struct{}, 1),
		own:     newLayer(),
		filling: newBatch(),
	}
	go g.committer()
	return g
}

// View implements Store.
func (g *Group) View(ctx context.Context, fn func(Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	snap, err := g.backend.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Release()
	return fn(viewTx{snap})
}

// Update implements Store.
func (g *Group) Update(ctx context.Context, fn func(Tx) error) error {
	if err := g.waitTurn(ctx); err != nil {
		return err
	}
	b, err := g.run(fn)
	if b == nil {
		return err
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		select {
		case <-b.done:
		default:
			return ctx.Err()
		}
	}
	if b.err != nil {
		return b.err
	}
	return err
}

// waitTurn takes the turn when there is room in the filling batch.
func (g *Group) waitTurn(ctx context.Context) error {
	for {
		select {
		case g.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := g.refusal(ctx); err != nil {
			g.endTurn()
			return err
		}
		if !g.full() {
			return nil
		}
		taken := g.filling.taken
		g.endTurn()
		select {
		case <-taken:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (g *Group) endTurn() { <-g.turn }

// refusal says why an Update that has the turn must not run. Its context may
// have ended before it got the turn.
func (g *Group) refusal(ctx context.Context) error {
	if g.closed {
		return ErrClosed
	}
	if g.failed != nil {
		return g.failed
	}
	return ctx.Err()
}

// run calls fn and ends the turn. It returns fn's error and the batch that
// has to be durable before the outcome may be told: the one that fn's writes
// are in, or the latest one that it read from, or nil.
func (g *Group) run(fn func(Tx) error) (*batch, error) {
	defer g.endTurn()
	defer g.own.reset() // nothing is left of them, unless fn panics or fails
	tx := updateTx{g: g}
	defer tx.release()
	if err := fn(&tx); err != nil {
		return tx.saw, err
	}
	if tx.err != nil {
		// fn overlooked that a read or a write failed.
		return tx.saw, tx.err
	}
	if len(g.own.vals) == 0 {
		return tx.saw, nil
	}
	g.own.moveTo(g.filling.layer)
	g.nudge()
	return g.filling, nil
}

func (g *Group) nudge() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// committer commits batch after batch until the Group is closed and nothing is
// left.
func (g *Group) committer() {
	defer close(g.done)
	for range g.wake {
		for {
			b, last := g.take()
			if b == nil && last {
				return
			}
			if b == nil {
				break
			}
			if err := g.backend.Commit(b.writes()); err != nil {
				g.fail(b, err)
				continue
			}
			// Those that wait need not wait for the turn as well. The batch
			// stays in the overlay until take, which changes nothing that
			// anyone reads.
			close(b.done)
		}
	}
}

// take makes the filling batch the flushing one and returns it, or nil if it
// is empty; last says that the Group is closed.
func (g *Group) take() (b *batch, last bool) {
	g.turn <- struct{}{}
	defer g.endTurn()
	g.flushing = nil
	if len(g.filling.vals) == 0 {
		return nil, g.closed
	}
	b = g.filling
	b.sorted() // from now on the committer and Updates read b at the same time
	g.flushing, g.filling = b, newBatch()
	close(b.taken)
	return b, g.closed
}

// fail ends b, and the batch that was stacked on it, with err.
func (g *Group) fail(b *batch, err error) {
	g.turn <- struct{}{}
	defer g.endTurn()
	stacked := g.filling
	g.flushing, g.filling = nil, newBatch()
	if errors.Is(err, ErrFailed) {
		g.failed = err
	}
	b.err, stacked.err = err, err
	close(b.done)
	close(stacked.taken)
	close(stacked.done)
}

// Close implements Store.
func (g *Group) Close() error {
	g.turn <- struct{}{}
	again := g.closed
	g.closed = true
	g.endTurn()
	g.nudge()
	<-g.done
	if again {
		return nil
	}
	return g.backend.Close()
}
