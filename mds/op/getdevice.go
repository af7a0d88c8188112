package op

import (
	"context"
	"maps"
	"slices"

	"go.uber.org/zap"

	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// deviceFrame is what GETDEVICEINFO's result takes around the body, bytes:
// layout type, length, and a notification bitmap of one word.
const deviceFrame = 16

// getdeviceinfo: RFC 8881 section 18.40. Linux keeps only devices for which both
// notifications are promised. A device never changes, so there is only one to
// send: that it is gone, to who asked for that.
func (o *Ops) getdeviceinfo(_ context.Context, c *compound.Call, a *nfs4.GetDeviceInfoArgs, r *nfs4.GetDeviceInfoRes) nfs4.Status {
	if a.LayoutType != o.Driver.Type() {
		return nfs4.ErrUnknownLayoutType
	}
	r.Notification = a.NotifyTypes.And(nfs4.BitmapOf(nfs4.NotifyDeviceIDChange, nfs4.NotifyDeviceIDDelete))
	// Before the look-up: one that goes meanwhile is either not found or told of.
	o.watch(c.Client, a.DeviceID, r.Notification.Has(nfs4.NotifyDeviceIDDelete))
	dev, ok := o.Fleet.DeviceByID(a.DeviceID)
	if !ok {
		o.watch(c.Client, a.DeviceID, false)
		return nfs4.ErrNoEnt
	}
	body, err := o.Driver.Device(&dev)
	if err != nil {
		o.Log.Warn("device cannot be said", zap.Error(err))
		return nfs4.ErrInval
	}
	size := deviceFrame + (len(body)+3)&^3
	switch {
	case a.MaxCount != 0 && size > int(a.MaxCount):
		r.MinCount = uint32(size)
		return nfs4.ErrTooSmall
	case size > c.Room():
		return nfs4.ErrRepTooBig
	}
	r.DeviceAddr = nfs4.DeviceAddr{LayoutType: a.LayoutType}
	if a.MaxCount != 0 { // 0: only the notifications are asked for
		r.DeviceAddr.AddrBody = body
	}
	return nfs4.OK
}

// watch notes whether a client wants to hear that a device is gone: what it
// asked for last counts. That is bounded by the devices there are and the
// clients there may be.
func (o *Ops) watch(id nfs4.ClientID, dev nfs4.DeviceID, wants bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !wants {
		if delete(o.watchers[dev], id); len(o.watchers[dev]) == 0 {
			delete(o.watchers, dev)
		}
		return
	}
	if o.watchers[dev] == nil {
		o.watchers[dev] = map[nfs4.ClientID]bool{}
	}
	o.watchers[dev][id] = true
}

// watching takes the clients off that are to hear that a device is gone, in
// order.
func (o *Ops) watching(dev nfs4.DeviceID) []nfs4.ClientID {
	o.mu.Lock()
	defer o.mu.Unlock()
	ids := slices.Sorted(maps.Keys(o.watchers[dev]))
	delete(o.watchers, dev)
	return ids
}

// unwatch forgets what a client wanted to hear of. o.mu is held.
func (o *Ops) unwatch(id nfs4.ClientID) {
	for dev, ids := range o.watchers {
		if delete(ids, id); len(ids) == 0 {
			delete(o.watchers, dev)
		}
	}
}

// getdevicelist: RFC 8881 section 18.41. The list is short (at most a device
// for each data server and width in use) and always whole.
func (o *Ops) getdevicelist(_ context.Context, _ *compound.Call, a *nfs4.GetDeviceListArgs, r *nfs4.GetDeviceListRes) nfs4.Status {
	switch {
	case a.LayoutType != o.Driver.Type():
		return nfs4.ErrUnknownLayoutType
	case a.Cookie != 0 && a.CookieVerf != o.boot:
		return nfs4.ErrNotSame
	case a.MaxDevices == 0:
		return nfs4.ErrInval // it would never come to the end
	}
	ids := o.Fleet.Devices()
	if a.Cookie > uint64(len(ids)) {
		return nfs4.ErrBadCookie
	}
	rest := ids[a.Cookie:]
	n := min(len(rest), int(min(a.MaxDevices, nfs4.MaxDevices)))
	r.DeviceIDs, r.EOF = rest[:n], n == len(rest)
	r.Cookie, r.CookieVerf = a.Cookie+uint64(n), o.boot
	return nfs4.OK
}
