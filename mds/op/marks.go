package op

import (
	"context"
	"sync"
	"time"

	"manifold/mds/ns"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// marks are the files that the store has noted as open for writing by clients
// with layouts: their sizes may grow without a word to this server, so after a
// restart, or when such a client dies, the data servers are asked. A mark is
// made before the layout is given, in the transaction that creates the file
// where there is one; it is taken back lazily, many in one transaction.
//
// The type serves any set of inode numbers.
type marks struct {
	mu sync.Mutex
	m  map[uint64]bool
}

func (m *marks) has(ino uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.m[ino]
}

func (m *marks) add(ino uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m = map[uint64]bool{}
	}
	m.m[ino] = true
}

func (m *marks) drop(ino uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.m, ino)
	if len(m.m) == 0 {
		m.m = nil // a map does not shrink
	}
}

func (m *marks) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.m)
}

// some returns up to n marked files.
func (m *marks) some(n int) []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var inos []uint64
	for ino := range m.m {
		if len(inos) == n {
			break
		}
		inos = append(inos, ino)
	}
	return inos
}

const (
	sweepPause = time.Second
	sweepMost  = 1000 // files looked at in one sweep
)

// SweepMarks takes marks back until ctx ends.
func (o *Ops) SweepMarks(ctx context.Context) {
	tick := time.NewTicker(sweepPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for o.sweepMarks(ctx) == sweepMost { // there may be many more
			}
		case <-ctx.Done():
			return
		}
	}
}

// sweepMarks takes back the marks of files that nobody can grow any more. Each
// file's lock is held until the mark is gone, so no layout is given meanwhile. It
// returns how many it took back.
func (o *Ops) sweepMarks(ctx context.Context) (swept int) {
	var quiet []uint64
	var unlocks []func()
	defer func() {
		for _, unlock := range unlocks {
			unlock()
		}
	}()
	for _, ino := range o.marks.some(sweepMost) {
		unlock, ok := o.files.tryLock(ino)
		if !ok {
			continue
		}
		if o.mayGrow(ino) {
			unlock()
			continue
		}
		quiet, unlocks = append(quiet, ino), append(unlocks, unlock)
	}
	if len(quiet) == 0 {
		return 0
	}
	s := o.update(ctx, func(tx store.Tx) error {
		for _, ino := range quiet {
			in, err := o.Volume.GetID(tx, ino)
			if ns.StatusOf(err) == nfs4.ErrStale {
				continue
			}
			if err != nil {
				return err
			}
			if err := o.Volume.ClearOpenRW(tx, o.Volume.Handle(in)); err != nil {
				return err
			}
		}
		return nil
	})
	if s != nfs4.OK {
		return 0
	}
	for _, ino := range quiet {
		o.marks.drop(ino)
		o.trimmed.drop(ino)
	}
	return len(quiet)
}

// mayGrow says whether a client may still write to the file by itself.
// During grace clients from before the restart may, by layouts that nobody here
// knows of; and a size that is still to be learned needs the mark, in case the
// server stops before that.
func (o *Ops) mayGrow(ino uint64) bool {
	if o.unsure.has(ino) {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if active, _, _ := o.State.Grace(o.Now()); active {
		return true
	}
	return o.State.Opens(ino) > 0 || o.written(ino)
}
