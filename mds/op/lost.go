package op

import (
	"context"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// undisturbed is NFS4ERR_DELAY as long as a client that was lost in the restart,
// or an earlier boot of one that came back, may still do I/O on a file: nobody
// here knows what layouts such clients have, so that grace is over does not mean
// that what they locked is free. It asks about the file's own data servers only:
// one that is away holds up the files that lie on it.
func (o *Ops) undisturbed(ctx context.Context, h layout.Handle) nfs4.Status {
	select {
	case <-o.fenced:
		return nfs4.OK
	default:
	}
	select {
	case <-o.settled:
	default:
		return nfs4.ErrDelay // the fences are not on the outbox yet
	}
	in, s := o.inode(ctx, h)
	if s != nfs4.OK {
		return s
	}
	pending, err := o.Outbox.Fencing(ctx, in.Layout.DS)
	switch {
	case err != nil:
		return o.status("view", err)
	case pending:
		return nfs4.ErrDelay
	}
	return nfs4.OK
}
