package op

import (
	"cmp"
	"context"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// layoutget: RFC 8881 section 18.43. The layout is always the whole file,
// the one form that every Linux kernel takes.
func (o *Ops) layoutget(ctx context.Context, c *compound.Call, a *nfs4.LayoutGetArgs, r *nfs4.LayoutGetRes) nfs4.Status {
	if s := o.layoutArgs(c, a); s != nfs4.OK {
		return s
	}
	unlock, err := o.files.lock(ctx, here(c).Inode)
	if err != nil {
		return nfs4.ErrDelay
	}
	defer unlock()
	in, s := o.inode(ctx, here(c))
	if s != nfs4.OK {
		return s
	}
	if s := regular(in); s != nfs4.OK {
		return nfs4.ErrLayoutUnavailable
	}
	if o.Outbox.Pending(o.Volume.Object(in)) {
		return nfs4.ErrDelay // a truncation is not done at every data server yet
	}
	req := state.LayoutGetReq{
		Client: c.Client, File: in.ID, Stateid: a.Stateid, IOMode: a.IOMode, ReturnOnClose: true,
		Session: c.Session, Call: c.Request,
	}
	if in.Layout.DS == nil || a.IOMode == nfs4.IOModeRW {
		if in, s = o.prepare(ctx, in, a.IOMode); s == nfs4.ErrNoSpc {
			return nfs4.ErrLayoutUnavailable // the client comes by WRITE at once, and is told why there
		} else if s == nfs4.ErrDelay {
			return nfs4.ErrLayoutTryLater
		} else if s != nfs4.OK {
			return s
		}
	}
	req.DS = in.Layout.DS
	v := o.decide(req)
	if v.Status != nfs4.OK {
		return v.Status
	}
	l, s := o.makeLayout(c, a, in)
	if s != nfs4.OK {
		return s
	}
	if o.apply(v.Change) != nfs4.OK {
		// The client went, or everything is being recalled from it since.
		return cmp.Or(o.decide(req).Status, nfs4.ErrDelay)
	}
	r.ReturnOnClose, r.Stateid, r.Layouts = true, v.Stateid, []nfs4.Layout{l}
	c.SetStateid(v.Stateid)
	return nfs4.OK
}

// layoutArgs checks what does not need the file. Lengths may be 0: what is given
// is the whole file, and more than is asked for at least.
func (o *Ops) layoutArgs(c *compound.Call, a *nfs4.LayoutGetArgs) nfs4.Status {
	fits := func(n uint64) bool { return n == 0 || layout.Range{Offset: a.Offset, Length: n}.Valid() }
	switch {
	case a.LayoutType != o.Driver.Type():
		return nfs4.ErrUnknownLayoutType
	case a.IOMode != nfs4.IOModeRead && a.IOMode != nfs4.IOModeRW:
		return nfs4.ErrBadIOMode
	case a.MinLength > a.Length || !fits(a.Length) || !fits(a.MinLength):
		return nfs4.ErrInval
	case a.IOMode == nfs4.IOModeRW && readOnly(c):
		return nfs4.ErrLayoutUnavailable // the client comes by WRITE, and is told why there
	}
	return c.Resolve(&a.Stateid)
}

// prepare makes durable what a layout needs first: where the file's data is,
// and for a layout to write that its size may grow unseen.
func (o *Ops) prepare(ctx context.Context, in *ns.Inode, mode nfs4.IOMode) (*ns.Inode, nfs4.Status) {
	write := mode == nfs4.IOModeRW
	if len(in.Layout.DS) > 0 && (!write || o.marks.has(in.ID)) {
		return in, nfs4.OK
	}
	l := in.Layout
	if len(l.DS) == 0 {
		var err error
		if l, err = o.Fleet.Place(in.Policy, in.ID); err != nil {
			return nil, ns.StatusOf(err)
		}
	}
	h := o.Volume.Handle(in)
	s := o.update(ctx, func(tx store.Tx) (err error) {
		if len(in.Layout.DS) == 0 {
			if in, err = o.Volume.SetLayout(tx, h, l); err != nil {
				return err
			}
		}
		if write {
			return o.Volume.MarkOpenRW(tx, h)
		}
		return nil
	})
	if s == nfs4.OK && write {
		o.marks.add(in.ID)
	}
	return in, s
}

// makeLayout builds the layout for the calling client.
func (o *Ops) makeLayout(c *compound.Call, a *nfs4.LayoutGetArgs, in *ns.Inode) (nfs4.Layout, nfs4.Status) {
	ring, first := layout.Ring(in.Layout.DS)
	dev, err := o.Fleet.Device(ring, c.Local.Addr())
	if err != nil {
		o.Log.Warn("no device for a file", zap.Uint64("inode", in.ID), zap.Error(err))
		return nfs4.Layout{}, nfs4.ErrLayoutUnavailable // trying again in a moment mends nothing
	}
	rights := layout.RightRead
	if a.IOMode == nfs4.IOModeRW {
		rights |= layout.RightWrite
	}
	fh := o.Keys().SealDS(layout.Capability{
		Object: o.Volume.Object(in), Client: c.Client, Rights: rights, Epoch: in.Layout.Epoch,
	})
	// One handle for each data server, though they are the same: kernels take
	// a layout with a single handle for one that is not striped.
	fhs := make([]nfs4.FH, len(ring))
	for i := range fhs {
		fhs[i] = fh
	}
	body, err := o.Driver.Layout(&layout.Layout{
		Range: layout.WholeFile(), IOMode: a.IOMode, Device: dev.ID, FHs: fhs,
		Stripe: layout.Stripe{Unit: uint64(in.Layout.Unit), Width: len(ring), First: first},
	})
	switch {
	case err != nil:
		o.Log.Warn("layout cannot be said", zap.Uint64("inode", in.ID), zap.Error(err))
		return nfs4.Layout{}, nfs4.ErrLayoutUnavailable
	case uint64(len(body)) > uint64(a.MaxCount), len(body)+layoutFrame > c.Room():
		// Linux asks for 4096 bytes and means the body: a frame counted in as well
		// would refuse it the widest of the layouts that fit.
		return nfs4.Layout{}, nfs4.ErrTooSmall
	}
	return nfs4.Layout{
		Length: layout.ToEnd, IOMode: a.IOMode, Type: o.Driver.Type(), Body: body,
	}, nfs4.OK
}

// layoutFrame is what LAYOUTGET's result takes around a layout's body, bytes.
const layoutFrame = 64
