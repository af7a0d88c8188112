package op

import (
	"context"

	"manifold/layout"
	"manifold/mds/state"
	"manifold/xdr/nfs4"
)

// decideOpen asks the state about an OPEN, and about those who were lost.
func (o *Ops) decideOpen(ctx context.Context, h layout.Handle, r *state.OpenReq) (v state.Verdict, s nfs4.Status) {
	if v = o.decide(*r); v.Status != nfs4.OK {
		return v, v.Status
	}
	return v, o.mayOpenNew(ctx, h, r)
}

// mayOpenNew says whether an OPEN that is no reclaim may be granted yet, as far as
// clients go that were lost in the restart. They must be off the record, durably:
// after the next restart they must not reclaim what conflicts with it (RFC 8881
// section 8.4.3). And while they may still write, what they had delegated is not
// free: what they cached must not come over what others write now, nor into what
// others cache. A file that was made since concerns none of them.
func (o *Ops) mayOpenNew(ctx context.Context, h layout.Handle, r *state.OpenReq) nfs4.Status {
	switch {
	case r.Reclaim || r.DelegCur:
		return nfs4.OK
	case r.Created:
		return o.awaitSettled(ctx)
	}
	return o.undisturbed(ctx, h)
}

// awaitSettled waits until no client may reclaim any more, also after another
// restart: NFS4ERR_DELAY if that takes longer than cfg.Patience. It is for when
// grace is over: then this is a matter of one transaction.
func (o *Ops) awaitSettled(ctx context.Context) nfs4.Status {
	select {
	case <-o.settled:
		return nfs4.OK
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, o.cfg.Patience)
	defer cancel()
	select {
	case <-o.settled:
		return nfs4.OK
	case <-ctx.Done():
		return nfs4.ErrDelay
	}
}

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
	if s := o.awaitSettled(ctx); s != nfs4.OK {
		return s // the fences are not on the outbox yet
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
