package fleet

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// devices are those that clients were told since the start. Their number is
// bounded by the sets of data servers in use, not by files or clients.
type devices struct {
	mu sync.Mutex
	m  map[nfs4.DeviceID]told
}

// told is a device, as a client was told that reached this server at local.
type told struct {
	layout.Device
	local netip.Addr
}

// Device returns the device of these data servers for a client that reached
// this server at local, and remembers it.
func (f *Fleet) Device(ds []layout.DSID, local netip.Addr) (layout.Device, error) {
	all := make([][]layout.Address, len(ds))
	for i, id := range ds {
		var err error
		if all[i], err = f.Paths(id, local); err != nil {
			return layout.Device{}, err
		}
	}
	d := layout.NewDevice(ds, all)
	f.devices.mu.Lock()
	defer f.devices.mu.Unlock()
	if f.devices.m == nil {
		f.devices.m = map[nfs4.DeviceID]told{}
	}
	f.devices.m[d.ID] = told{d, local}
	return d, nil
}

// DeviceByID returns a device that Device returned since the start.
func (f *Fleet) DeviceByID(id nfs4.DeviceID) (layout.Device, bool) {
	f.devices.mu.Lock()
	defer f.devices.mu.Unlock()
	d, ok := f.devices.m[id]
	return d.Device, ok
}

// DevicesOn returns the ids of the devices, of those that Device returned, that a
// data server is part of.
func (f *Fleet) DevicesOn(ds layout.DSID) (ids []nfs4.DeviceID) {
	f.devices.mu.Lock()
	defer f.devices.mu.Unlock()
	for id, d := range f.devices.m {
		if slices.Contains(d.DS, ds) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Outdated returns those of DevicesOn that name addresses which the data server
// does not have now.
func (f *Fleet) Outdated(ds layout.DSID) (ids []nfs4.DeviceID) {
	f.devices.mu.Lock()
	defer f.devices.mu.Unlock()
	for id, d := range f.devices.m {
		i := slices.Index(d.DS, ds)
		if i < 0 {
			continue
		}
		if now, err := f.Paths(ds, d.local); err != nil || !slices.Equal(now, d.Paths[i]) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Forget drops devices.
func (f *Fleet) Forget(ids []nfs4.DeviceID) {
	f.devices.mu.Lock()
	defer f.devices.mu.Unlock()
	for _, id := range ids {
		delete(f.devices.m, id)
	}
}

// Devices returns the ids of the devices that Device returned, in their order.
func (f *Fleet) Devices() []nfs4.DeviceID {
	f.devices.mu.Lock()
	defer f.devices.mu.Unlock()
	ids := make([]nfs4.DeviceID, 0, len(f.devices.m))
	for id := range f.devices.m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b nfs4.DeviceID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

// paths turns host:port into addresses. A wildcard becomes the address by which
// the client reached this server: the data server has all of its host's, and
// is taken to be on the same host or behind the same address.
func paths(addrs []string, local netip.Addr) ([]layout.Address, error) {
	var out []layout.Address
	for _, s := range addrs {
		ap, err := netip.ParseAddrPort(s)
		if err != nil {
			return nil, err
		}
		if ap.Addr().IsUnspecified() {
			if !local.IsValid() || ap.Addr().Is4() && !local.Is4() {
				continue // 0.0.0.0 does not hear IPv6; :: hears both
			}
			ap = netip.AddrPortFrom(local, ap.Port())
		}
		out = append(out, layout.TCP(ap))
	}
	if len(out) == 0 {
		return nil, errors.New("data server has no address that this client can use")
	}
	return out, nil
}

// Space is bytes in total, free, and available to ordinary users.
type Space struct{ Total, Free, Avail uint64 }

// Space returns what statfs shows: the data servers' sum, those that are down
// as they were last heard of. A disk that several of them share counts once.
func (f *Fleet) Space() Space {
	var s Space
	seen := map[string]bool{}
	for _, i := range f.List() {
		if i.State == Removed || seen[i.Usage.Disk] {
			continue
		}
		if i.Usage.Disk != "" {
			seen[i.Usage.Disk] = true
		}
		s.Total += i.Usage.CapacityBytes
		s.Free += i.Usage.FreeBytes
		s.Avail += i.Usage.FreeBytes
	}
	return s
}

// Fits says whether n bytes, dealt out evenly over data servers, find room there
// as far as these have said: one that was not heard of has room.
func (f *Fleet) Fits(ds []layout.DSID, n uint64) bool {
	need, free := map[string]uint64{}, map[string]uint64{} // by disk
	for _, i := range f.List() {
		if !slices.Contains(ds, i.ID) || i.Usage.CapacityBytes == 0 {
			continue
		}
		disk := i.Usage.Disk
		if disk == "" {
			disk = fmt.Sprint(i.ID) // its own; no disk's name is a number
		}
		need[disk] += n / uint64(len(ds))
		free[disk] = i.Usage.FreeBytes
	}
	for disk := range need {
		if need[disk] > free[disk] {
			return false
		}
	}
	return true
}
