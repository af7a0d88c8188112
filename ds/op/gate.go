package op

import (
	"context"
	"slices"
	"sync"

	"manifold/ds/fence"
	"manifold/layout"
	"manifold/xdr/nfs4"
)

// Gate admits I/O by a table of fences, and knows which I/O it admitted under
// which table: a fence stands only when what came before it is over, for a WRITE
// that was admitted a moment earlier may reach the disk a moment later.
type Gate struct {
	mu    sync.RWMutex
	table *fence.Table
	now   *generation
	olds  []*generation // those before, as far as they were not over lately
}

// generation is the I/O that was admitted under one table.
type generation struct {
	mu   sync.Mutex
	n    int
	last bool          // no more will come
	over chan struct{} // closed when last and n is 0
}

// pass is the right to do one I/O, until leave.
type pass struct{ g *generation }

// NewGate returns a Gate that admits what t admits. It keeps t.
func NewGate(t *fence.Table) *Gate {
	return &Gate{table: t, now: newGeneration()}
}

func newGeneration() *generation { return &generation{over: make(chan struct{})} }

// enter admits an I/O by the holder of c that needs the rights need.
func (g *Gate) enter(c layout.Capability, need layout.Rights) (pass, nfs4.Status) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if s := g.table.Check(c, need); s != nfs4.OK {
		return pass{}, s
	}
	g.now.mu.Lock()
	g.now.n++
	g.now.mu.Unlock()
	return pass{g.now}, nfs4.OK
}

func (p pass) leave() {
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	p.g.n--
	if p.g.last && p.g.n == 0 {
		close(p.g.over)
	}
}

func (g *generation) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = true
	if g.n == 0 {
		close(g.over)
	}
}

// Table returns the table that admits now. It is not to be changed.
func (g *Gate) Table() *fence.Table {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.table
}

// Replace admits by t from now on. It keeps t. I/O that was admitted before may
// go on; see Drain.
func (g *Gate) Replace(t *fence.Table) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now.end()
	g.olds = append(slices.DeleteFunc(g.olds, (*generation).isOver), g.now)
	g.table, g.now = t, newGeneration()
}

func (g *generation) isOver() bool {
	select {
	case <-g.over:
		return true
	default:
		return false
	}
}

// Drain returns nil when all I/O that was admitted before the last Replace is
// over, or ctx's error.
func (g *Gate) Drain(ctx context.Context) error {
	g.mu.RLock()
	olds := slices.Clone(g.olds)
	g.mu.RUnlock()
	for _, old := range olds {
		select {
		case <-old.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
