package op

import (
	"context"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// notify tells clients, in the background, that locks which they wait for are
// free: CB_NOTIFY_LOCK (RFC 8881 section 20.11). Who does not hear of it asks by
// itself, after longer.
func (o *Ops) notify(waiters []state.LocktReq) {
	for _, w := range waiters {
		o.background(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, o.cfg.Lease/4)
			defer cancel()
			var h layout.Handle
			if s := o.view(ctx, func(tx store.Tx) error {
				in, err := o.Volume.GetID(tx, w.File)
				if err == nil {
					h = o.Volume.Handle(in)
				}
				return err
			}); s != nfs4.OK {
				return
			}
			args := &nfs4.CBNotifyLockArgs{FH: o.Keys().SealMDS(h), LockOwner: nfs4.LockOwner{ClientID: w.Client, Owner: w.Owner}}
			if _, err := o.caller.Callback(ctx, w.Client, nfs4.CBNotifyLock, args, nil); err != nil {
				o.Log.Debug("client not told of a lock that is free", clientID(w.Client), zap.Error(err))
			}
		})
	}
}
