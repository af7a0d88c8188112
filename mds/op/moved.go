package op

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/xdr"
	"manifold/xdr/nfs4"
)

// Moved makes clients ask anew where a data server is: their layouts name
// addresses that it does not have any more, or it was removed. The layouts come
// back first, then clients are told to forget the devices, as GETDEVICEINFO
// promised them (RFC 8881 section 20.12).
func (o *Ops) Moved(ds layout.DSID) {
	o.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 2*o.cfg.Lease)
		defer cancel()
		if err := o.RecallDS(ctx, ds); err != nil && !errors.Is(err, context.Canceled) {
			o.Log.Warn("layouts with old addresses of a data server", zap.Uint32("ds", uint32(ds)), zap.Error(err))
		}
		o.forgetDevices(ctx, o.Fleet.Outdated(ds)) // not those that were given meanwhile
	})
}

// ForgetDevices tells the clients that asked for it that the devices which a
// data server was part of are gone. A client that cannot be called is told in its
// next SEQUENCE that some are (SEQ4_STATUS_DEVID_DELETED).
func (o *Ops) ForgetDevices(ctx context.Context, ds layout.DSID) {
	o.forgetDevices(ctx, o.Fleet.DevicesOn(ds))
}

func (o *Ops) forgetDevices(ctx context.Context, gone []nfs4.DeviceID) {
	o.Fleet.Forget(gone)
	deaf := map[nfs4.ClientID]bool{}
	for _, dev := range gone {
		for _, id := range o.watching(dev) {
			if deaf[id] {
				continue
			}
			ctx, cancel := context.WithTimeout(ctx, o.cfg.Patience)
			_, err := o.caller.Callback(ctx, id, nfs4.CBNotifyDeviceID, deviceGone(o.Driver.Type(), dev), nil)
			cancel()
			if err != nil {
				deaf[id] = true
				o.caller.Notify(id, nfs4.SeqStatusDevIDDeleted)
				o.Log.Debug("client not told of a device that is gone", clientID(id), zap.Error(err))
			}
		}
	}
}

// deviceGone is the notification that a device is gone: one in a callback, and
// never that it changed, for kernels misread what follows either.
func deviceGone(t nfs4.LayoutType, id nfs4.DeviceID) *nfs4.CBNotifyDeviceIDArgs {
	gone := nfs4.NotifyDeviceDelete{LayoutType: t, DeviceID: id}
	var e xdr.Encoder
	gone.EncodeXDR(&e)
	return &nfs4.CBNotifyDeviceIDArgs{Changes: []nfs4.Notify{{
		Mask: nfs4.BitmapOf(nfs4.NotifyDeviceIDDelete), Values: e.Bytes(),
	}}}
}
