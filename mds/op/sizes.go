package op

import (
	"context"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// growing says whether a file may be longer than the store knows: a client has
// a layout to write it, or may have one from before the start. Only then do the
// data servers have to be asked.
func (o *Ops) growing(ino uint64) bool {
	if o.unsure.has(ino) {
		return true
	}
	if !o.marks.has(ino) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written(ino)
}

// written says whether a client has a layout to write a file. o.mu is held.
func (o *Ops) written(ino uint64) bool {
	for _, g := range o.State.Layouts(ino, 0) {
		if g.IOMode == nfs4.IOModeRW {
			return true
		}
	}
	return false
}

// length is how long a file was found to be when its change attribute was that.
type length struct{ size, change uint64 }

// trueSize asks the data servers how long a growing file is. Linux takes what
// it is told, in the reply to an OPEN too, for the end at which it appends; so
// what a client has written and not committed yet must count. Zero for a file
// that is not growing. What is about to be cut does not count: NFS4ERR_DELAY.
func (o *Ops) trueSize(ctx context.Context, h layout.Handle) (length, nfs4.Status) {
	if !o.growing(h.Inode) {
		return length{}, nfs4.OK
	}
	in, s := o.inode(ctx, h)
	if s != nfs4.OK || len(in.Layout.DS) == 0 {
		return length{}, s
	}
	size, s := o.measure(ctx, in)
	if s != nfs4.OK {
		return length{}, s
	}
	return length{size: max(size, in.Size), change: in.Change}, nfs4.OK
}

// measure asks the data servers how long a file's data is. NFS4ERR_DELAY if one
// of them does not answer, or has still to cut what it holds.
func (o *Ops) measure(ctx context.Context, in *ns.Inode) (uint64, nfs4.Status) {
	if o.Outbox.Pending(o.Volume.Object(in)) {
		return 0, nfs4.ErrDelay
	}
	size, err := o.Size(ctx, target(o, in))
	if err != nil {
		o.Log.Debug("size of a file not had from its data servers", zap.Uint64("inode", in.ID), zap.Error(err))
		return 0, nfs4.ErrDelay
	}
	return size, nfs4.OK
}

// apply gives an inode the length that was found for it. A file that was
// changed in between may have been cut: NFS4ERR_DELAY, to be asked again.
func (l length) apply(in *ns.Inode) error {
	if l == (length{}) || in.Type != nfs4.TypeReg {
		return nil
	}
	if l.change != in.Change {
		return nfs4.ErrDelay
	}
	in.Size = max(in.Size, l.size)
	return nil
}

// sizeTries is how often a size is asked for that changes meanwhile, before
// the client is told to ask again itself.
const sizeTries = 3

// attrs reads those attributes of the current file that are in want and that
// this server supports.
func (o *Ops) attrs(ctx context.Context, c *compound.Call, a *nfs4.Attrs, want nfs4.Bitmap) (s nfs4.Status) {
	for range sizeTries {
		var l length
		if l, s = o.newest(ctx, c, want); s != nfs4.OK {
			return s
		}
		s = o.view(ctx, func(tx store.Tx) error {
			in, err := o.Volume.Get(tx, here(c))
			if err != nil {
				return err
			}
			if err := l.apply(in); err != nil {
				return err
			}
			return o.fill(tx, c, a, want, in, c.FH)
		})
		if s != nfs4.ErrDelay {
			return s
		}
	}
	return s
}

// grown returns an inode with the length that its file really has: a READ must
// not end before what GETATTR says.
func (o *Ops) grown(ctx context.Context, in *ns.Inode) (*ns.Inode, nfs4.Status) {
	h := o.Volume.Handle(in)
	for range sizeTries {
		l, s := o.trueSize(ctx, h)
		if s != nfs4.OK {
			return nil, s
		}
		if l.apply(in) == nil {
			return in, nfs4.OK
		}
		if in, s = o.inode(ctx, h); s != nfs4.OK {
			return nil, s
		}
	}
	return nil, nfs4.ErrDelay
}

// FileSize answers a data server that came up short: how long the file is, as
// far as anybody can know.
func (o *Ops) FileSize(ctx context.Context, obj layout.Object) (uint64, error) {
	l, s := o.trueSize(ctx, layout.Handle(obj))
	if s != nfs4.OK {
		return 0, s
	}
	in, s := o.inode(ctx, layout.Handle(obj))
	if s != nfs4.OK {
		return 0, s
	}
	return max(l.size, in.Size), nil
}

// LearnSizes asks the data servers how long each marked file is, which is due
// after a restart: clients that wrote may have died with the old server's
// layouts, and those that live go on writing. Until that is over (learnLate)
// whoever wants to know a size has the data servers asked anew.
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
			}
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
	size, s := o.measure(ctx, in)
	if s != nfs4.OK || size <= in.Size {
		return s
	}
	o.Log.Info("size of a file learned from its data servers", zap.Uint64("inode", in.ID),
		zap.Uint64("known", in.Size), zap.Uint64("found", size))
	return o.update(ctx, func(tx store.Tx) error {
		_, err := o.Volume.SetSize(tx, o.Now(), h, size)
		return err
	})
}
