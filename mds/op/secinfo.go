package op

import (
	"context"

	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// secinfo: RFC 8881 section 18.29. It consumes the current filehandle.
func (o *Ops) secinfo(ctx context.Context, c *compound.Call, a *nfs4.SecinfoArgs, r *nfs4.SecinfoRes) nfs4.Status {
	list := flavors(c)
	s := o.view(ctx, func(tx store.Tx) error {
		_, err := o.Volume.Lookup(tx, cred(c), here(c), a.Name)
		return err
	})
	if s == nfs4.OK {
		c.SetFH(nil, nil)
		r.Flavors = list
	}
	return s
}

// secinfoNoName: RFC 8881 section 18.45. It consumes the current filehandle.
func (o *Ops) secinfoNoName(ctx context.Context, c *compound.Call, a *nfs4.SecinfoNoNameArgs, r *nfs4.SecinfoNoNameRes) nfs4.Status {
	switch a.Style {
	case nfs4.SecinfoStyleCurrentFH:
	case nfs4.SecinfoStyleParent:
		if s := o.lookupp(ctx, c); s != nfs4.OK {
			return s
		}
	default:
		return nfs4.ErrBadXDR
	}
	r.Flavors = flavors(c)
	c.SetFH(nil, nil)
	return nfs4.OK
}
