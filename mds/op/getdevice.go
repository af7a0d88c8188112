package op

import (
	"context"

	"go.uber.org/zap"

	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// deviceFrame is what GETDEVICEINFO's result takes around the body, bytes:
// layout type, length, and a notification bitmap of one word.
const deviceFrame = 16

// getdeviceinfo: RFC 8881 section 18.40. The client hears of a device that
// goes: Linux keeps only devices for which both notifications are promised.
func (o *Ops) getdeviceinfo(_ context.Context, c *compound.Call, a *nfs4.GetDeviceInfoArgs, r *nfs4.GetDeviceInfoRes) nfs4.Status {
	if a.LayoutType != o.Driver.Type() {
		return nfs4.ErrUnknownLayoutType
	}
	dev, ok := o.Fleet.DeviceByID(a.DeviceID)
	if !ok {
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
	r.Notification = a.NotifyTypes.And(nfs4.BitmapOf(nfs4.NotifyDeviceIDChange, nfs4.NotifyDeviceIDDelete))
	return nfs4.OK
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
