// Package op is what a data server does: one file an operation, and the table
// of them.
//
// Its nouns: an Ops is the data server's operations over one store of objects.
// A current filehandle is a capability (layout.Capability), opened by PUTFH. The
// Gate says whether a capability holds, and knows which I/O is under way. The
// sizer asks the metadata server how long a file is, which a READ needs only
// where an object ends before it.
//
// A data server has no names, opens or locks: it accepts any stateid (RFC 8881
// section 13.9.1 lets it rely on fencing), and what LOOKUP or OPEN would ask is
// NFS4ERR_NOTSUPP. It never answers DELAY or GRACE.
package op

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"manifold/ds/store"
	"manifold/layout"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// Config is what Ops are made of.
type Config struct {
	Store store.Store
	Gate  *Gate
	// FileSize asks the metadata server for the length in bytes of the file
	// that an object is part of. Its error is an nfs4.Status if the metadata
	// server gave one.
	FileSize func(context.Context, layout.Object) (uint64, error)
	// Alone, if not nil, says that the metadata server has not been heard of for so
	// long that clients' rights to write may have been given to others.
	Alone func() bool
	// MaxIO is the most bytes that one READ returns; 0 is 1 MiB.
	MaxIO int
	// Failed is told of each I/O that the store failed, and why, for a log. It
	// must not block. nil: nobody is told.
	Failed func(what string, obj layout.Object, err error)
}

// Terms are what the metadata server laid down.
type Terms struct {
	// Keys opens filehandles.
	Keys *layout.Keyring
	// Lease is what GETATTR says; clients go by the metadata server's own.
	Lease time.Duration
}

// Counters are what a data server did since its start.
type Counters struct {
	// ReadBytes and WrittenBytes count file data, zeros of holes included.
	ReadBytes, WrittenBytes uint64
	// Ops counts READs, WRITEs, COMMITs, and what the metadata server has done to
	// the room of objects; Errors those that the store failed.
	Ops, Errors uint64
}

// Ops are the operations of a data server.
type Ops struct {
	cfg   Config
	terms atomic.Pointer[Terms]
	sizes *sizes

	readBytes, writtenBytes, ops, errors atomic.Uint64
}

// New returns the operations over cfg.Store. Until SetTerms no filehandle opens.
func New(cfg Config) *Ops {
	if cfg.MaxIO <= 0 {
		cfg.MaxIO = 1 << 20
	}
	if cfg.Failed == nil {
		cfg.Failed = func(string, layout.Object, error) {}
	}
	o := &Ops{cfg: cfg, sizes: newSizes(cfg.FileSize)}
	o.terms.Store(&Terms{})
	return o
}

// SetTerms replaces the terms. A field that is zero stays as it is.
func (o *Ops) SetTerms(t Terms) {
	old := o.terms.Load()
	if t.Keys == nil {
		t.Keys = old.Keys
	}
	if t.Lease == 0 {
		t.Lease = old.Lease
	}
	o.terms.Store(&t)
}

// ForgetSize drops what is known of the length of obj's file, which changed.
func (o *Ops) ForgetSize(obj layout.Object) { o.sizes.forget(obj) }

// Counters returns the counts so far.
func (o *Ops) Counters() Counters {
	return Counters{
		ReadBytes: o.readBytes.Load(), WrittenBytes: o.writtenBytes.Load(),
		Ops: o.ops.Load(), Errors: o.errors.Load(),
	}
}

// enter admits an I/O on the current filehandle that needs the rights need. If
// the status is OK, the caller calls leave when the I/O is over.
func (o *Ops) enter(c *compound.Call, need layout.Rights) (layout.Object, pass, nfs4.Status) {
	capability, ok := c.File.(*layout.Capability)
	if !ok {
		return layout.Object{}, pass{}, nfs4.ErrNoFileHandle
	}
	p, status := o.cfg.Gate.enter(*capability, need)
	return capability.Object, p, status
}

// mayWrite is enter for what changes an object. It admits nobody while the data
// server is alone: the client gives its layout up and asks the metadata server.
func (o *Ops) mayWrite(c *compound.Call) (layout.Object, pass, nfs4.Status) {
	if o.cfg.Alone != nil && o.cfg.Alone() {
		return layout.Object{}, pass{}, nfs4.ErrPNFSNoLayout
	}
	return o.enter(c, layout.RightWrite)
}

// failed is the status of an I/O that the store failed with err.
func (o *Ops) failed(what string, obj layout.Object, err error) nfs4.Status {
	if errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrUnsupported) {
		return StatusOf(err) // the object was removed, or it is not for us: nothing is wrong
	}
	o.errors.Add(1)
	o.cfg.Failed(what, obj, err)
	return StatusOf(err)
}

// StatusOf returns the status that says err, an error of a store. NFS4ERR_IO makes a client leave the
// data server alone for two minutes, so it is for broken disks only; after
// NFS4ERR_SERVERFAULT it sends this one request to the metadata server.
func StatusOf(err error) nfs4.Status {
	for _, c := range []struct {
		err    error
		status nfs4.Status
	}{
		{store.ErrNoSpace, nfs4.ErrNoSpc},
		{store.ErrQuota, nfs4.ErrDQuot},
		{store.ErrTooBig, nfs4.ErrFBig},
		{store.ErrIO, nfs4.ErrIO},
		{store.ErrStale, nfs4.ErrStale},
		{store.ErrInvalid, nfs4.ErrInval},
		{store.ErrUnsupported, nfs4.ErrNotSupp},
	} {
		if errors.Is(err, c.err) {
			return c.status
		}
	}
	return nfs4.ErrServerFault
}
