// Package files says layouts and devices in the layout type
// LAYOUT4_NFSV4_1_FILES (RFC 8881 chapter 13): the client does NFSv4.1 READ and
// WRITE at the data servers.
//
// Its nouns are those of layout: the body of a Layout
// (nfsv4_1_file_layout4) and the body of a Device
// (nfsv4_1_file_layout_ds_addr4). Of all that the chapter allows, one form is
// made and taken: sparse packing, pattern_offset 0, COMMIT to the data servers,
// stripe indices 0, 1, 2..., and one filehandle for each data server, which is
// the only form that every Linux kernel of the last decade carries out.
package files

import (
	"errors"
	"fmt"
	"math"

	"manifold/layout"
	"manifold/xdr"
	"manifold/xdr/nfs4"
)

const (
	// MaxBody is the most bytes that Linux takes as a layout's body.
	MaxBody = 4096
	// MaxDS is over how many data servers a file can be striped: what a body
	// of MaxBody bytes holds of filehandles of 48 bytes.
	MaxDS = (MaxBody - bodyHead) / (4 + handleSize)

	bodyHead   = 36  // device id, util, first stripe index, pattern offset, count
	handleSize = 48  // a data server's filehandle
	maxFH      = 128 // NFS4_FHSIZE
	maxPaths   = 16  // paths to one data server
	maxNetid   = 8
	maxUaddr   = 80
	maxDevice  = 256 // data servers that Linux takes in a device

	// nfl_util is the stripe unit, with flags (dense, COMMIT through the
	// metadata server) in the low six bits (RFC 8881 section 13.3).
	utilMask = 0x3f
	maxUnit  = math.MaxUint32 &^ utilMask
)

// ErrForm means a layout or a device that this layout type cannot say, or a
// body in a form that this package does not take. Bodies that are no XDR give
// the errors of package xdr.
var ErrForm = errors.New("layout/files: form not supported")

// Driver is the layout type. The zero value is ready for use and has no state.
type Driver struct{}

// Type returns LAYOUT4_NFSV4_1_FILES.
func (Driver) Type() nfs4.LayoutType { return nfs4.LayoutFiles }

// Layout returns the nfsv4_1_file_layout4 of l. The stripe unit must be a
// multiple of 64 below 4 GiB, there must be one filehandle for each of
// l.Stripe.Width data servers, and the whole must fit MaxBody; else ErrForm.
func (Driver) Layout(l *layout.Layout) ([]byte, error) {
	if err := checkLayout(l); err != nil {
		return nil, err
	}
	e := xdr.NewEncoder(make([]byte, 0, bodyHead+len(l.FHs)*(4+handleSize)))
	e.Fixed(l.Device[:])
	e.Uint32(uint32(l.Stripe.Unit))
	e.Uint32(uint32(l.Stripe.First))
	e.Uint64(0)
	e.Uint32(uint32(len(l.FHs)))
	for _, fh := range l.FHs {
		e.Opaque(fh)
	}
	if e.Len() > MaxBody {
		return nil, fmt.Errorf("%w: body of %d bytes", ErrForm, e.Len())
	}
	return e.Bytes(), nil
}

func checkLayout(l *layout.Layout) error {
	s := l.Stripe
	switch {
	case s.Unit == 0 || s.Unit&utilMask != 0 || s.Unit > maxUnit:
		return fmt.Errorf("%w: stripe unit %d", ErrForm, s.Unit)
	case s.Width < 1 || s.Width != len(l.FHs):
		return fmt.Errorf("%w: %d filehandles for %d data servers", ErrForm, len(l.FHs), s.Width)
	case s.First < 0 || s.First >= s.Width:
		return fmt.Errorf("%w: first stripe index %d of %d", ErrForm, s.First, s.Width)
	}
	for _, fh := range l.FHs {
		if len(fh) == 0 || len(fh) > maxFH {
			return fmt.Errorf("%w: filehandle of %d bytes", ErrForm, len(fh))
		}
	}
	return nil
}

// Device returns the nfsv4_1_file_layout_ds_addr4 of d: at most 256 data
// servers, each with 1 to 16 paths; else ErrForm.
func (Driver) Device(d *layout.Device) ([]byte, error) {
	if len(d.Paths) == 0 || len(d.Paths) > maxDevice {
		return nil, fmt.Errorf("%w: device of %d data servers", ErrForm, len(d.Paths))
	}
	var e xdr.Encoder
	e.Uint32(uint32(len(d.Paths)))
	for i := range d.Paths {
		e.Uint32(uint32(i))
	}
	e.Uint32(uint32(len(d.Paths)))
	for i, paths := range d.Paths {
		if len(paths) == 0 || len(paths) > maxPaths {
			return nil, fmt.Errorf("%w: %d paths to data server %d of the device", ErrForm, len(paths), i)
		}
		e.Uint32(uint32(len(paths)))
		for _, p := range paths {
			e.String(p.Netid)
			e.String(p.Universal())
		}
	}
	return e.Bytes(), nil
}

// Returned takes the body of a LAYOUTRETURN, which for this type has no bytes
// (RFC 8881 section 13.3); anything else is ErrForm.
func (Driver) Returned(body []byte) error {
	if len(body) != 0 {
		return fmt.Errorf("%w: LAYOUTRETURN with a body of %d bytes", ErrForm, len(body))
	}
	return nil
}
