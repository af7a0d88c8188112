package op

import (
	"context"
	"math"
	"time"

	"manifold/layout"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// supported returns the attributes that a data server has. Those that it would
// have to make up (change, owner, times) it has not: they are the metadata
// server's (RFC 8881 section 13.11).
func supported() (b nfs4.Bitmap) {
	for _, a := range []nfs4.Attr{
		nfs4.AttrSupportedAttrs, nfs4.AttrType, nfs4.AttrFHExpireType, nfs4.AttrSize, nfs4.AttrLinkSupport,
		nfs4.AttrSymlinkSupport, nfs4.AttrNamedAttr, nfs4.AttrFSID, nfs4.AttrUniqueHandles, nfs4.AttrLeaseTime,
		nfs4.AttrRdattrError, nfs4.AttrFilehandle, nfs4.AttrFileID, nfs4.AttrMaxFileSize, nfs4.AttrMaxRead,
		nfs4.AttrMaxWrite, nfs4.AttrSuppattrExclcreat,
	} {
		b.Set(a)
	}
	return b
}

// getattr is GETATTR (RFC 8881 section 18.7) of the file behind the current
// filehandle. Its size is the file's, as the metadata server knows it; the
// metadata server itself asks for the object's.
func (o *Ops) getattr(ctx context.Context, c *compound.Call, a *nfs4.GetattrArgs, r *nfs4.GetattrRes) nfs4.Status {
	obj, p, status := o.enter(c, 0)
	if status != nfs4.OK {
		return status
	}
	defer p.leave()
	r.ObjAttributes = nfs4.Attrs{
		Mask:           a.AttrRequest.And(supported()),
		SupportedAttrs: supported(),
		Type:           nfs4.TypeReg,
		FSID:           nfs4.FSID{Major: uint64(obj.Volume)},
		LeaseTime:      uint32(o.terms.Load().Lease / time.Second),
		Filehandle:     c.FH,
		FileID:         obj.Inode,
		MaxFileSize:    math.MaxInt64,
		MaxRead:        uint64(o.cfg.MaxIO),
		MaxWrite:       uint64(o.cfg.MaxIO),
	}
	switch {
	case !a.AttrRequest.Has(nfs4.AttrSize):
	case c.File.(*layout.Capability).Client == layout.MDSClient:
		size, err := o.cfg.Store.Size(obj)
		if err != nil {
			return o.failed("size", obj, err)
		}
		r.ObjAttributes.Size = uint64(size)
	default:
		size, err := o.sizes.get(ctx, obj, math.MaxUint64)
		if err != nil {
			_, _, status := o.unknownEnd(0, err)
			return status
		}
		r.ObjAttributes.Size = size
	}
	return nfs4.OK
}
