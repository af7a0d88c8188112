package op

import (
	"context"

	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// putFH opens a filehandle (RFC 8881 section 18.19): NFS4ERR_BADHANDLE for what
// is none of a data server's, NFS4ERR_STALE for what no key of ours signed.
// Whether the capability still holds is asked at each I/O.
func (o *Ops) putFH(_ context.Context, c *compound.Call, a *nfs4.PutFHArgs) nfs4.Status {
	keys := o.terms.Load().Keys
	if keys == nil {
		return nfs4.ErrStale
	}
	capability, status := keys.OpenDS(a.Object)
	if status != nfs4.OK {
		return status
	}
	c.SetFH(a.Object, &capability)
	return nfs4.OK
}
