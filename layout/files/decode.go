package files

import (
	"fmt"

	"manifold/layout"
	"manifold/xdr"
	"manifold/xdr/nfs4"
)

// DecodeLayout reads the body of a layout, as a client does. Range and IOMode
// stay zero, since they stand outside the body; filehandles alias body. A body
// in a form that this package does not make (dense, COMMIT through the metadata
// server, a pattern offset) is ErrForm.
func DecodeLayout(body []byte) (layout.Layout, error) {
	d := xdr.NewDecoder(body)
	var l layout.Layout
	copy(l.Device[:], d.Fixed(len(l.Device)))
	util := d.Uint32()
	first := d.Uint32()
	pattern := d.Uint64()
	n := d.Count(maxDevice, 4)
	for range n {
		l.FHs = append(l.FHs, nfs4.FH(d.Opaque(maxFH)))
	}
	if d.Err() != nil {
		return layout.Layout{}, d.Err()
	}
	if util&utilMask != 0 || pattern != 0 || d.Remaining() != 0 || len(body) > MaxBody {
		return layout.Layout{}, fmt.Errorf("%w: util %#x, pattern offset %d, %d bytes, %d of them left over",
			ErrForm, util, pattern, len(body), d.Remaining())
	}
	if uint64(first) >= uint64(n) {
		return layout.Layout{}, fmt.Errorf("%w: first stripe index %d of %d", ErrForm, first, n)
	}
	l.Stripe = layout.Stripe{Unit: uint64(util), Width: n, First: int(first)}
	if err := checkLayout(&l); err != nil {
		return layout.Layout{}, err
	}
	return l, nil
}

// DecodeDevice reads the body of a device, as a client does: the paths to each
// data server. Its id and the numbers of the data servers are not in the body
// and stay zero. Stripe indices other than 0, 1, 2... are ErrForm.
func DecodeDevice(body []byte) (layout.Device, error) {
	d := xdr.NewDecoder(body)
	n := d.Count(maxDevice, 4)
	plain := n > 0
	for i := range n {
		plain = d.Uint32() == uint32(i) && plain
	}
	lists := d.Count(maxDevice, 4)
	dev := layout.Device{Paths: make([][]layout.Address, lists)}
	for i := range dev.Paths {
		paths, err := decodePaths(&d)
		if err != nil {
			return layout.Device{}, err
		}
		dev.Paths[i] = paths
	}
	if d.Err() != nil {
		return layout.Device{}, d.Err()
	}
	if !plain || n != lists || d.Remaining() != 0 {
		return layout.Device{}, fmt.Errorf("%w: %d stripe indices over %d data servers, %d bytes left over",
			ErrForm, n, lists, d.Remaining())
	}
	return dev, nil
}

// decodePaths reads one multipath_list4.
func decodePaths(d *xdr.Decoder) ([]layout.Address, error) {
	n := d.Count(maxPaths, 8)
	if d.Err() == nil && n == 0 {
		return nil, fmt.Errorf("%w: a data server without a path", ErrForm)
	}
	var paths []layout.Address
	for range n {
		netid, universal := d.String(maxNetid), d.String(maxUaddr)
		if d.Err() != nil {
			break
		}
		a, err := layout.ParseAddress(netid, universal)
		if err != nil {
			return nil, err
		}
		paths = append(paths, a)
	}
	return paths, d.Err()
}
