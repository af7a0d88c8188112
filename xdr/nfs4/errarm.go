package nfs4

import "manifold/xdr"

// EncodeErr appends what follows the failure s: attrsset, whatever s is.
func (x *SetattrRes) EncodeErr(e *xdr.Encoder, s Status) { x.AttrsSet.EncodeXDR(e) }

// DecodeErr reads what follows the failure s.
func (x *SetattrRes) DecodeErr(d *xdr.Decoder, s Status) { x.AttrsSet.DecodeXDR(d) }

// EncodeErr appends what follows the failure s: MinCount after ErrTooSmall.
func (x *GetDeviceInfoRes) EncodeErr(e *xdr.Encoder, s Status) {
	if s == ErrTooSmall {
		e.Uint32(x.MinCount)
	}
}

// DecodeErr reads what follows the failure s.
func (x *GetDeviceInfoRes) DecodeErr(d *xdr.Decoder, s Status) {
	if s == ErrTooSmall {
		x.MinCount = d.Uint32()
	}
}

// EncodeErr appends what follows the failure s: WillSignalAvail after
// ErrLayoutTryLater.
func (x *LayoutGetRes) EncodeErr(e *xdr.Encoder, s Status) {
	if s == ErrLayoutTryLater {
		e.Bool(x.WillSignalAvail)
	}
}

// DecodeErr reads what follows the failure s.
func (x *LayoutGetRes) DecodeErr(d *xdr.Decoder, s Status) {
	if s == ErrLayoutTryLater {
		x.WillSignalAvail = d.Bool()
	}
}

// EncodeErr appends what follows the failure s: Requirements after
// ErrOffloadNoReqs.
func (x *CopyRes) EncodeErr(e *xdr.Encoder, s Status) {
	if s == ErrOffloadNoReqs {
		x.Requirements.EncodeXDR(e)
	}
}

// DecodeErr reads what follows the failure s.
func (x *CopyRes) DecodeErr(d *xdr.Decoder, s Status) {
	if s == ErrOffloadNoReqs {
		x.Requirements.DecodeXDR(d)
	}
}

// EncodeErr appends what follows the failure s: Denied after ErrDenied.
func (x *LockRes) EncodeErr(e *xdr.Encoder, s Status) {
	if s == ErrDenied {
		x.Denied.EncodeXDR(e)
	}
}

// DecodeErr reads what follows the failure s.
func (x *LockRes) DecodeErr(d *xdr.Decoder, s Status) {
	if s == ErrDenied {
		x.Denied.DecodeXDR(d)
	}
}

// EncodeErr appends what follows the failure s: Denied after ErrDenied.
func (x *LockTRes) EncodeErr(e *xdr.Encoder, s Status) {
	if s == ErrDenied {
		x.Denied.EncodeXDR(e)
	}
}

// DecodeErr reads what follows the failure s.
func (x *LockTRes) DecodeErr(d *xdr.Decoder, s Status) {
	if s == ErrDenied {
		x.Denied.DecodeXDR(d)
	}
}
