package op

import (
	"context"
	"errors"
	"math"

	"manifold/ds/store"
	"manifold/layout"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// errVerifier is why a stable WRITE fails although its own sync went well.
var errVerifier = errors.New("another sync failed meanwhile, and with it perhaps these bytes")

// write is WRITE (RFC 8881 section 18.32). What is asked to be stable is
// DATA_SYNC4 when it is answered, never FILE_SYNC4: that would say that the
// metadata server knows the file's new size, and the client would not send
// LAYOUTCOMMIT (section 18.32.3; linux: no LAYOUTCOMMIT after FILE_SYNC4).
func (o *Ops) write(_ context.Context, c *compound.Call, a *nfs4.WriteArgs, r *nfs4.WriteRes) nfs4.Status {
	if a.Stable > nfs4.FileSync || a.Offset > math.MaxUint64-uint64(len(a.Data)) {
		return nfs4.ErrInval
	}
	obj, p, status := o.mayWrite(c)
	if status != nfs4.OK {
		return status
	}
	defer p.leave()
	o.ops.Add(1)
	if a.Offset > math.MaxInt64-uint64(len(a.Data)) {
		return nfs4.ErrFBig
	}
	// Before the write: if a sync fails after it, the client must see that the
	// verifier of COMMIT is another one than this.
	r.WriteVerf = o.cfg.Store.Verifier()
	n, err := o.cfg.Store.WriteAt(obj, a.Data, int64(a.Offset))
	if err != nil && (n == 0 || errors.Is(err, store.ErrStale)) {
		return o.failed("write", obj, err)
	}
	// A write that came short is answered with its count; the client sends the
	// rest again and then gets the error, if it is still there.
	r.Count, r.Committed = uint32(n), nfs4.Unstable
	if a.Stable != nfs4.Unstable {
		if err := o.sync(obj, r.WriteVerf); err != nil {
			return o.failed("sync", obj, err)
		}
		r.Committed = nfs4.DataSync
	}
	o.writtenBytes.Add(uint64(n))
	return nfs4.OK
}

// sync makes what was written under the verifier verf stable.
func (o *Ops) sync(obj layout.Object, verf nfs4.Verifier) error {
	if err := o.cfg.Store.Sync(obj); err != nil {
		return err
	}
	if o.cfg.Store.Verifier() != verf {
		return errors.Join(store.ErrIO, errVerifier)
	}
	return nil
}
