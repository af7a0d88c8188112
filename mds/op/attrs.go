package op

import (
	"time"

	"manifold/mds/ns"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// MaxIO is the largest READ and WRITE, in bytes: what Linux uses at most.
const MaxIO = 1 << 20

// supported returns the attributes that this server knows (RFC 8881 section
// 5.8.1.1). MDSTHRESHOLD is not among them: it would send small files' bytes
// through this server.
func supported(minor uint32) nfs4.Bitmap {
	return readable(minor).Or(writeOnly(minor))
}

// readable are those of them that can be read.
func readable(minor uint32) nfs4.Bitmap {
	b := ofInode().Or(ofServer()).Or(ofSpace()).Or(nfs4.BitmapOf(nfs4.AttrRdattrError, nfs4.AttrFilehandle))
	if minor >= 2 {
		b.Set(nfs4.AttrOpenArguments)
	}
	return b
}

// writeOnly are those that can be set but not read: NFS4ERR_INVAL. A umask beside
// the mode is of minor version 2 (RFC 8275).
func writeOnly(minor uint32) nfs4.Bitmap {
	b := nfs4.BitmapOf(nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet)
	if minor >= 2 {
		b.Set(nfs4.AttrModeUmask)
	}
	return b
}

// settable is NFS4ERR_ATTRNOTSUPP if a client that speaks a minor version sets
// what only a later one knows.
func settable(c *compound.Call, a *nfs4.Attrs) nfs4.Status {
	if a.Mask.Has(nfs4.AttrModeUmask) && !supported(c.Minor).Has(nfs4.AttrModeUmask) {
		return nfs4.ErrAttrNotSupp
	}
	return nfs4.OK
}

// ofInode are the attributes that ns.Volume.Fill knows.
func ofInode() nfs4.Bitmap {
	return nfs4.BitmapOf(
		nfs4.AttrType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrFSID, nfs4.AttrFileID, nfs4.AttrMode,
		nfs4.AttrNumLinks, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrRawDev, nfs4.AttrSpaceUsed,
		nfs4.AttrTimeAccess, nfs4.AttrTimeCreate, nfs4.AttrTimeMetadata, nfs4.AttrTimeModify,
		nfs4.AttrMountedOnFileID, nfs4.AttrACL,
	)
}

// ofServer are the attributes that are the same for every file.
func ofServer() nfs4.Bitmap {
	return nfs4.BitmapOf(
		nfs4.AttrSupportedAttrs, nfs4.AttrFHExpireType, nfs4.AttrLinkSupport, nfs4.AttrSymlinkSupport,
		nfs4.AttrNamedAttr, nfs4.AttrUniqueHandles, nfs4.AttrLeaseTime, nfs4.AttrACLSupport, nfs4.AttrCanSetTime,
		nfs4.AttrCaseInsensitive, nfs4.AttrCasePreserving, nfs4.AttrChownRestricted, nfs4.AttrHomogeneous,
		nfs4.AttrMaxFileSize, nfs4.AttrMaxLink, nfs4.AttrMaxName, nfs4.AttrMaxRead, nfs4.AttrMaxWrite,
		nfs4.AttrNoTrunc, nfs4.AttrTimeDelta, nfs4.AttrFSLayoutTypes, nfs4.AttrLayoutBlksize,
		nfs4.AttrLayoutAlignment, nfs4.AttrSuppattrExclcreat, nfs4.AttrChangeAttrType, nfs4.AttrXattrSupport, nfs4.AttrFSCharsetCap,
	)
}

// ofSpace are the attributes that the data servers decide (statfs).
func ofSpace() nfs4.Bitmap {
	return nfs4.BitmapOf(
		nfs4.AttrSpaceAvail, nfs4.AttrSpaceFree, nfs4.AttrSpaceTotal,
		nfs4.AttrFilesAvail, nfs4.AttrFilesFree, nfs4.AttrFilesTotal,
	)
}

// ofExclusive are the attributes that an EXCLUSIVE4_1 create sets.
func ofExclusive(minor uint32) nfs4.Bitmap {
	return supported(minor).And(nfs4.BitmapOf(
		nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrSize,
		nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet, nfs4.AttrModeUmask,
	))
}

// fill sets those attributes of want that this server supports.
func (o *Ops) fill(tx store.Tx, c *compound.Call, a *nfs4.Attrs, want nfs4.Bitmap, in *ns.Inode, fh nfs4.FH) error {
	if want.Has(nfs4.AttrACL) {
		if err := in.Check(cred(c), ns.Perm{ReadACL: true}); err != nil {
			return err
		}
	}
	o.Volume.Fill(a, want.And(ofInode()), in)
	a.Mask = want.And(readable(c.Minor))
	a.Filehandle = fh
	if !want.And(ofServer()).IsZero() || want.Has(nfs4.AttrOpenArguments) {
		o.fillServer(c.Minor, a)
	}
	if !want.And(ofSpace()).IsZero() {
		return o.fillSpace(tx, a)
	}
	return nil
}

// fillServer sets the fields that are the same for every file; the mask says
// which of them count.
func (o *Ops) fillServer(minor uint32, a *nfs4.Attrs) {
	a.SupportedAttrs = supported(minor)
	a.SuppattrExclcreat = ofExclusive(minor)
	a.ACLSupport = nfs4.ACLSupportAllow | nfs4.ACLSupportDeny
	a.XattrSupport = minor >= 2
	a.OpenArguments = openArguments()
	a.FHExpireType = 0 // FH4_PERSISTENT
	a.LinkSupport, a.SymlinkSupport, a.UniqueHandles = true, true, true
	a.CanSetTime, a.CasePreserving, a.ChownRestricted, a.Homogeneous, a.NoTrunc = true, true, true, true, true
	a.LeaseTime = uint32(o.cfg.Lease / time.Second)
	a.MaxFileSize, a.MaxLink, a.MaxName = ns.MaxFileSize, ns.MaxLink, nfs4.MaxNameLen
	a.MaxRead, a.MaxWrite = MaxIO, MaxIO
	a.TimeDelta = nfs4.Time{Nsec: 1}
	a.FSLayoutTypes = []nfs4.LayoutType{o.Driver.Type()}
	a.LayoutBlksize, a.LayoutAlignment = layoutBlock, layoutBlock
	a.ChangeAttrType = nfs4.ChangeMonotonicIncr
	a.FSCharsetCap = nfs4.CharsetContainsNonUTF8
	if o.cfg.UTF8Names {
		a.FSCharsetCap = nfs4.CharsetAllowsOnlyUTF8
	}
}

// openArguments is what OPEN knows (RFC 9754), by number as bits. Delegations of
// times, and delegations in place of an open, are not among it.
func openArguments() nfs4.OpenArguments {
	return nfs4.OpenArguments{
		ShareAccess:     nfs4.BitmapOf(nfs4.ShareAccessRead, nfs4.ShareAccessWrite, nfs4.ShareAccessBoth),
		ShareDeny:       nfs4.BitmapOf(nfs4.ShareDenyNone, nfs4.ShareDenyRead, nfs4.ShareDenyWrite, nfs4.ShareDenyBoth),
		ShareAccessWant: nfs4.BitmapOf(nfs4.WantAnyDeleg>>8, nfs4.WantNoDeleg>>8, nfs4.WantCancel>>8),
		OpenClaim: nfs4.BitmapOf(nfs4.Attr(nfs4.ClaimNull), nfs4.Attr(nfs4.ClaimPrevious), nfs4.Attr(nfs4.ClaimDelegateCur),
			nfs4.Attr(nfs4.ClaimFH), nfs4.Attr(nfs4.ClaimDelegCurFH)),
		CreateMode: nfs4.BitmapOf(nfs4.Attr(nfs4.CreateUnchecked), nfs4.Attr(nfs4.CreateGuarded),
			nfs4.Attr(nfs4.CreateExclusive), nfs4.Attr(nfs4.CreateExclusive4_1)),
	}
}

// layoutBlock is the I/O size and alignment that suit the data servers, bytes.
const layoutBlock = 4096

// fillSpace sets what statfs shows. Files are limited by the metadata store
// only, so their number is bounded by its space; a fixed large number says so.
func (o *Ops) fillSpace(tx store.Tx, a *nfs4.Attrs) error {
	s := o.Fleet.Space()
	a.SpaceTotal, a.SpaceFree, a.SpaceAvail = s.Total, s.Free, s.Avail
	used, err := o.Volume.Files(tx)
	a.FilesTotal = maxFiles
	a.FilesFree = maxFiles - min(used, maxFiles)
	a.FilesAvail = a.FilesFree
	return err
}

// maxFiles is how many files are said to fit.
const maxFiles = 1 << 40
