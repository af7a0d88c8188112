package op

import (
	"context"

	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// testStateid: RFC 8881 section 18.48.
func (o *Ops) testStateid(_ context.Context, c *compound.Call, a *nfs4.TestStateidArgs, r *nfs4.TestStateidRes) nfs4.Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.StatusCodes = make([]nfs4.Status, len(a.Stateids))
	for i, id := range a.Stateids {
		r.StatusCodes[i] = o.State.TestStateid(c.Client, id)
	}
	return nfs4.OK
}

// freeStateid: RFC 8881 section 18.38.
func (o *Ops) freeStateid(ctx context.Context, c *compound.Call, a *nfs4.FreeStateidArgs) nfs4.Status {
	if s := c.Resolve(&a.Stateid); s != nfs4.OK {
		return s
	}
	o.mu.Lock()
	s := o.State.FreeStateid(c.Client, a.Stateid)
	o.mu.Unlock()
	if s == nfs4.OK {
		o.unbar(ctx, c.Client)
		o.unflagRevoked(c.Client)
	}
	return s
}
