package op

import (
	"context"
	"math"

	"manifold/layout"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// commit is COMMIT (RFC 8881 section 18.3): the whole object, whatever the
// range. The verifier is taken after the sync, so that a sync that failed
// before shows.
func (o *Ops) commit(_ context.Context, c *compound.Call, a *nfs4.CommitArgs, r *nfs4.CommitRes) nfs4.Status {
	if a.Offset > math.MaxUint64-uint64(a.Count) {
		return nfs4.ErrInval
	}
	obj, p, status := o.enter(c, layout.RightWrite)
	if status != nfs4.OK {
		return status
	}
	defer p.leave()
	o.ops.Add(1)
	if err := o.cfg.Store.Sync(obj); err != nil {
		return o.failed("sync", obj, err)
	}
	r.WriteVerf = o.cfg.Store.Verifier()
	return nfs4.OK
}
