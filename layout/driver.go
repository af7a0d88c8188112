package layout

import "manifold/xdr/nfs4"

// Layout is one layout4 (RFC 8881 section 3.3.13) before a Driver gives it its
// body. Range and IOMode stand outside the body, in LAYOUTGET's reply. FHs has
// one filehandle for each data server of the device, in the device's order;
// Stripe.Width is their number.
type Layout struct {
	Range  Range
	IOMode nfs4.IOMode
	Device nfs4.DeviceID
	Stripe Stripe
	FHs    []nfs4.FH
}

// Driver is one layout type (RFC 8881 section 12.2.7): it turns layouts and
// devices into the opaque bytes that the client's driver of that type reads.
type Driver interface {
	// Type is the number by which clients know the layout type.
	Type() nfs4.LayoutType

	// Layout returns loc_body. Its error means that this layout cannot be said
	// in this type (too many data servers, a stripe unit that the type cannot
	// carry): LAYOUTGET answers NFS4ERR_LAYOUTUNAVAILABLE.
	Layout(l *Layout) ([]byte, error)

	// Device returns da_addr_body for GETDEVICEINFO. Its error means that the
	// device cannot be said in this type.
	Device(d *Device) ([]byte, error)

	// Returned reads lrf_body of LAYOUTRETURN. Its error means a body that the
	// type does not have (NFS4ERR_BADXDR).
	Returned(body []byte) error
}
