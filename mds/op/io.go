package op

import (
	"context"
	"errors"
	"math"
	"sync/atomic"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/proxy"
	"manifold/mds/state"
	"manifold/xdr"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// counters are what the administrator is shown.
type counters struct {
	proxyRead, proxyWritten, proxyRefused atomic.Uint64
	recalls, revoked                      atomic.Uint64
}

// proxied checks READ, WRITE and COMMIT at this server: they are for clients
// that have no layout, or cannot reach a data server.
func (o *Ops) proxied(ctx context.Context, h layout.Handle) (*ns.Inode, nfs4.Status) {
	if o.cfg.NoProxyIO {
		o.counter.proxyRefused.Add(1)
		return nil, nfs4.ErrIO
	}
	return o.dataFile(ctx, h)
}

// mayDo checks the stateid of a READ or WRITE and, for the special stateids,
// the file's mode: who opened the file has been checked then.
func (o *Ops) mayDo(c *compound.Call, in *ns.Inode, id *nfs4.Stateid, write bool) nfs4.Status {
	if s := c.Resolve(id); s != nfs4.OK {
		return s
	}
	v := o.decide(state.IOReq{Client: c.Client, File: in.ID, Stateid: *id, Write: write})
	if v.Status != nfs4.OK || !id.IsSpecial() {
		return v.Status
	}
	return ns.StatusOf(in.Check(cred(c), ns.Perm{Read: !write, Write: write, OwnerOverride: true, ReadIfExec: true}))
}

// read: RFC 8881 section 18.22. The bytes are read from the data servers
// straight into the reply.
func (o *Ops) read(ctx context.Context, c *compound.Call, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
	var a nfs4.ReadArgs
	a.DecodeXDR(d)
	if d.Err() != nil {
		return compound.BadXDR(d.Err())
	}
	cut, free := o.cuts.watch(here(c).Inode)
	in, s := o.proxied(ctx, here(c))
	if s != nfs4.OK {
		return s
	}
	if s := o.mayDo(c, in, &a.Stateid, false); s != nfs4.OK {
		return s
	}
	if a.Offset > in.Size || uint64(a.Count) > in.Size-a.Offset {
		if in, s = o.grown(ctx, in); s != nfs4.OK {
			return s
		}
	}
	n := uint64(0)
	if a.Offset < in.Size {
		n = min(uint64(a.Count), in.Size-a.Offset, MaxIO, uint64(max(c.Room()-readFrame, 0)&^3)) // the padding takes room too
		if n == 0 && a.Count > 0 {
			return nfs4.ErrRepTooBig
		}
	}
	c.Grow(readFrame + int(n))
	at := e.Len()
	e.Bool(a.Offset+n >= in.Size)
	e.Uint32(uint32(n))
	p := e.Reserve(int(n))
	if len(in.Layout.DS) == 0 {
		clear(p)
	} else if err := o.Proxy.ReadAt(ctx, target(o, in), p, a.Offset); err != nil {
		e.Truncate(at)
		return o.proxyStatus("read", in, err)
	} else if !free || cut() {
		e.Truncate(at)
		return nfs4.ErrDelay // it may have read zeros where there was data, and before that no end
	}
	e.Pad(int(n))
	o.counter.proxyRead.Add(n)
	return nfs4.OK
}

// readFrame is what READ's result takes around the data, bytes.
const readFrame = 12

// write: RFC 8881 section 18.32.
func (o *Ops) write(ctx context.Context, c *compound.Call, a *nfs4.WriteArgs, r *nfs4.WriteRes) nfs4.Status {
	switch {
	case a.Stable > nfs4.FileSync:
		return nfs4.ErrInval
	case a.Offset > math.MaxInt64-uint64(len(a.Data)):
		return nfs4.ErrFBig
	}
	// Before proxied looks for what the outbox has to cut yet.
	cut, free := o.cuts.watch(here(c).Inode)
	in, s := o.proxied(ctx, here(c))
	if s != nfs4.OK {
		return s
	}
	if s := o.mayDo(c, in, &a.Stateid, true); s != nfs4.OK {
		return s
	}
	if in, s = o.preparedForWrite(ctx, in); s != nfs4.OK {
		return s
	}
	if len(a.Data) > 0 {
		if !free {
			return nfs4.ErrDelay
		}
		verf, err := o.Proxy.WriteAt(ctx, target(o, in), a.Data, a.Offset, a.Stable)
		if err != nil {
			return o.proxyStatus("write", in, err)
		}
		r.WriteVerf = verf
		if s := o.wrote(ctx, c, a.Offset+uint64(len(a.Data))); s != nfs4.OK {
			return s
		}
		if cut() {
			return nfs4.ErrDelay // perhaps not all of it is there any more
		}
	}
	r.Count, r.Committed = uint32(len(a.Data)), a.Stable
	o.counter.proxyWritten.Add(uint64(len(a.Data)))
	return nfs4.OK
}

// preparedForWrite places the file's data and marks the file: if this server
// stops between the data and the size, the size is learned from the data servers.
func (o *Ops) preparedForWrite(ctx context.Context, in *ns.Inode) (*ns.Inode, nfs4.Status) {
	if len(in.Layout.DS) > 0 && o.marks.has(in.ID) {
		return in, nfs4.OK
	}
	unlock, err := o.files.lock(ctx, in.ID)
	if err != nil {
		return nil, nfs4.ErrDelay
	}
	defer unlock()
	in, s := o.inode(ctx, o.Volume.Handle(in)) // another may have placed it meanwhile
	if s != nfs4.OK {
		return nil, s
	}
	return o.prepare(ctx, in, nfs4.IOModeRW)
}

// commit: RFC 8881 section 18.3.
func (o *Ops) commit(ctx context.Context, c *compound.Call, _ *nfs4.CommitArgs, r *nfs4.CommitRes) nfs4.Status {
	in, s := o.proxied(ctx, here(c))
	if s != nfs4.OK {
		return s
	}
	if len(in.Layout.DS) == 0 {
		r.WriteVerf = o.boot
		return nfs4.OK
	}
	verf, err := o.Proxy.Commit(ctx, target(o, in))
	if err != nil {
		return o.proxyStatus("commit", in, err)
	}
	r.WriteVerf = verf
	return nfs4.OK
}

// proxyStatus is what a client is told when a data server did not do its part:
// what the data server said if the client can act on it, else to ask again.
func (o *Ops) proxyStatus(what string, in *ns.Inode, err error) nfs4.Status {
	var s nfs4.Status
	if errors.As(err, &s) {
		switch s {
		case nfs4.ErrNoSpc, nfs4.ErrDQuot, nfs4.ErrFBig, nfs4.ErrIO, nfs4.ErrROFS, nfs4.ErrNotSupp:
			return s
		}
	}
	o.Log.Warn("proxy I/O waits for a data server", zap.String("what", what), zap.Uint64("inode", in.ID), zap.Error(err))
	return nfs4.ErrDelay
}

func target(o *Ops, in *ns.Inode) proxy.Target {
	return proxy.Target{Object: o.Volume.Object(in), Layout: in.Layout}
}
