package op

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"manifold/layout"
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
			o.sweepMarks(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// sweepMarks takes back the marks of files that nobody can grow any more. Each
// file's lock is held until the mark is gone, so no layout is given meanwhile.
func (o *Ops) sweepMarks(ctx context.Context) {
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
		return
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
		return
	}
	for _, ino := range quiet {
		o.marks.drop(ino)
	}
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
	if o.State.Opens(ino) > 0 {
		return true
	}
	for _, g := range o.State.Layouts(ino, 0) {
		if g.IOMode == nfs4.IOModeRW {
			return true
		}
	}
	return false
}

// FileSize answers a data server that came up short: how long the file is, as
// far as anybody can know. Where a client may be writing with a layout, the data
// servers are asked, since it tells us only when it commits.
func (o *Ops) FileSize(ctx context.Context, obj layout.Object) (uint64, error) {
	in, s := o.inode(ctx, layout.Handle(obj))
	if s != nfs4.OK {
		return 0, s
	}
	if !o.marks.has(in.ID) {
		return in.Size, nil
	}
	size, err := o.Fleet.Size(ctx, obj, in.Layout.DS)
	return max(size, in.Size), err
}

// LearnSizes asks the data servers how long each marked file is, which is due
// after a restart, before anybody may see the sizes: clients that wrote may
// have died with the old server's layouts. It goes on until every file's data
// servers have answered, or ctx ends. learned is called for each file.
func (o *Ops) LearnSizes(ctx context.Context) error {
	var files []layout.Handle
	err := o.Store.View(ctx, func(tx store.Tx) error {
		return o.Volume.ScanOpenRW(tx, 0, func(h layout.Handle) (bool, error) {
			files = append(files, h)
			return true, nil
		})
	})
	if err != nil {
		return err
	}
	for _, h := range files {
		o.marks.add(h.Inode)
		o.unsure.add(h.Inode)
	}
	o.mu.Lock()
	o.marked = files
	o.mu.Unlock()
	o.background(func(ctx context.Context) { o.learnAll(ctx, files) })
	return nil
}

// learnAll learns the sizes of files, several passes if data servers are away.
func (o *Ops) learnAll(ctx context.Context, files []layout.Handle) {
	for len(files) > 0 {
		var left []layout.Handle
		for _, h := range files {
			if s := o.learnSize(ctx, h); s != nfs4.OK && s != nfs4.ErrStale {
				left = append(left, h)
				continue
			}
			o.unsure.drop(h.Inode)
		}
		if files = left; len(files) > 0 && !o.pause(ctx) {
			return
		}
	}
}

// learnSize asks the data servers how long a file is and grows it to that.
func (o *Ops) learnSize(ctx context.Context, h layout.Handle) nfs4.Status {
	unlock, err := o.files.lock(ctx, h.Inode)
	if err != nil {
		return nfs4.ErrDelay
	}
	defer unlock()
	in, s := o.inode(ctx, h)
	if s != nfs4.OK {
		return s
	}
	if o.Outbox.Pending(o.Volume.Object(in)) {
		return nfs4.ErrDelay // what is there may be about to be cut
	}
	size, err := o.Fleet.Size(ctx, o.Volume.Object(in), in.Layout.DS)
	if err != nil {
		return nfs4.ErrDelay
	}
	if size <= in.Size {
		return nfs4.OK
	}
	o.Log.Info("size of a file learned from its data servers", zap.Uint64("inode", in.ID),
		zap.Uint64("known", in.Size), zap.Uint64("found", size))
	return o.update(ctx, func(tx store.Tx) error {
		_, err := o.Volume.SetSize(tx, o.Now(), h, size)
		return err
	})
}

// sure is NFS4ERR_DELAY while the size of a file is still being learned.
func (o *Ops) sure(ino uint64) nfs4.Status {
	if o.unsure.has(ino) {
		return nfs4.ErrDelay
	}
	return nfs4.OK
}
