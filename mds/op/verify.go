package op

import (
	"bytes"
	"context"

	"manifold/xdr"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// verify: RFC 8881 section 18.31.
func (o *Ops) verify(ctx context.Context, c *compound.Call, a *nfs4.VerifyArgs) nfs4.Status {
	same, s := o.same(ctx, c, &a.ObjAttributes)
	if s == nfs4.OK && !same {
		return nfs4.ErrNotSame
	}
	return s
}

// nverify: RFC 8881 section 18.15.
func (o *Ops) nverify(ctx context.Context, c *compound.Call, a *nfs4.NVerifyArgs) nfs4.Status {
	same, s := o.same(ctx, c, &a.ObjAttributes)
	if s == nfs4.OK && same {
		return nfs4.ErrSame
	}
	return s
}

// same says whether the current file's attributes are those of a, by comparing
// their encodings: two values are equal if and only if these are.
func (o *Ops) same(ctx context.Context, c *compound.Call, a *nfs4.Attrs) (bool, nfs4.Status) {
	want := a.Mask
	switch {
	case a.Unknown || want.And(supported(c.Minor)) != want:
		return false, nfs4.ErrAttrNotSupp
	case want.Has(nfs4.AttrRdattrError) || !want.And(writeOnly(c.Minor)).IsZero():
		return false, nfs4.ErrInval
	}
	var is nfs4.Attrs
	if s := o.attrs(ctx, c, &is, want); s != nfs4.OK {
		return false, s
	}
	var e1, e2 xdr.Encoder
	a.EncodeXDR(&e1)
	is.EncodeXDR(&e2)
	return bytes.Equal(e1.Bytes(), e2.Bytes()), nfs4.OK
}
