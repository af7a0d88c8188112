package wire_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// eachAttr calls f for the bits of b.
func eachAttr(b nfs4.Bitmap, f func(nfs4.Attr)) {
	for a := nfs4.Attr(0); a < 96; a++ {
		if b.Has(a) {
			f(a)
		}
	}
}

// writeOnly are the attributes that GETATTR does not take.
func writeOnly() nfs4.Bitmap {
	return nfs4.BitmapOf(nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet, nfs4.AttrModeUmask)
}

func getattrMask(r *nfs4.GetattrRes, want nfs4.Bitmap) client.Op {
	return client.Op{Num: nfs4.OpGetattr, Args: &nfs4.GetattrArgs{AttrRequest: want}, Res: r}
}

func TestGetattr(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	start := time.Now().Add(-time.Second)
	o := p.as(1000, 100).create(dir, "f")
	supported := p.stat(o.fh, nfs4.AttrSupportedAttrs).SupportedAttrs
	// What Linux asks for (or the mount fails), and every mandatory attribute.
	need := nfs4.BitmapOf(
		nfs4.AttrSupportedAttrs, nfs4.AttrType, nfs4.AttrFHExpireType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrLinkSupport,
		nfs4.AttrSymlinkSupport, nfs4.AttrNamedAttr, nfs4.AttrFSID, nfs4.AttrUniqueHandles, nfs4.AttrLeaseTime,
		nfs4.AttrRdattrError, nfs4.AttrFilehandle, nfs4.AttrSuppattrExclcreat, nfs4.AttrFileID, nfs4.AttrMode,
		nfs4.AttrNumLinks, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrRawDev, nfs4.AttrSpaceUsed, nfs4.AttrTimeAccess,
		nfs4.AttrTimeMetadata, nfs4.AttrTimeModify, nfs4.AttrMountedOnFileID, nfs4.AttrFSLayoutTypes, nfs4.AttrMaxFileSize,
		nfs4.AttrMaxRead, nfs4.AttrMaxWrite, nfs4.AttrTimeDelta, nfs4.AttrChangeAttrType, nfs4.AttrMaxLink, nfs4.AttrMaxName,
		nfs4.AttrFilesAvail, nfs4.AttrFilesFree, nfs4.AttrFilesTotal, nfs4.AttrSpaceAvail, nfs4.AttrSpaceFree, nfs4.AttrSpaceTotal,
		nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet, nfs4.AttrTimeCreate, nfs4.AttrCaseInsensitive, nfs4.AttrCasePreserving,
		nfs4.AttrACLSupport, nfs4.AttrLayoutBlksize, nfs4.AttrXattrSupport, nfs4.AttrFSCharsetCap,
	)
	if missing := need.Without(supported); !missing.IsZero() {
		eachAttr(missing, func(a nfs4.Attr) { t.Errorf("attribute %d is not supported", a) })
	}
	// Each alone, and all at once: exactly what was asked for and is supported.
	readable := supported.Without(writeOnly())
	eachAttr(readable, func(a nfs4.Attr) {
		var r nfs4.GetattrRes
		p.must(putFH(o.fh), getattr(&r, a))
		if r.ObjAttributes.Mask != nfs4.BitmapOf(a) {
			t.Errorf("asked for attribute %d, got %v", a, r.ObjAttributes.Mask)
		}
	})
	var r nfs4.GetattrRes
	everything := nfs4.Bitmap{1<<32 - 1, 1<<32 - 1, 1<<32 - 1}
	p.must(putFH(o.fh), getattrMask(&r, everything.Without(writeOnly())))
	a := r.ObjAttributes
	if a.Mask != readable || a.Unknown {
		t.Errorf("asked for all, got %v, want %v", a.Mask, readable)
	}
	eachAttr(writeOnly().And(supported), func(w nfs4.Attr) { p.want(nfs4.ErrInval, putFH(o.fh), getattr(&r, w)) })

	fine := map[string]bool{
		"type": a.Type == nfs4.TypeReg, "size": a.Size == 0, "mode": a.Mode == 0o666, "links": a.NumLinks == 1,
		"owner": string(a.Owner) == "1000", "group": string(a.OwnerGroup) == "100", "change": a.Change > 0,
		"file id": a.FileID != 0 && a.FileID == a.MountedOnFileID, "handle": string(a.Filehandle) == string(o.fh),
		"persistent handles": a.FHExpireType == 0, "lease": a.LeaseTime == uint32(lease/time.Second),
		"layout types": len(a.FSLayoutTypes) == 1 && a.FSLayoutTypes[0] == nfs4.LayoutFiles,
		"I/O size":     a.MaxRead == 1<<20 && a.MaxWrite == 1<<20, "largest file": a.MaxFileSize == math.MaxInt64,
		"name": a.MaxName == 255, "max link": a.MaxLink > 1000, "links supported": a.LinkSupport && a.SymlinkSupport,
		"charset":     a.FSCharsetCap == nfs4.CharsetContainsNonUTF8,
		"case":        a.CasePreserving && !a.CaseInsensitive,
		"change type": a.ChangeAttrType == nfs4.ChangeMonotonicIncr || a.ChangeAttrType == nfs4.ChangeVersionCounter,
		"exclusive":   a.SuppattrExclcreat.Has(nfs4.AttrMode) && a.SuppattrExclcreat.Without(a.SupportedAttrs).IsZero(),
		"space":       a.SpaceTotal > 0 && a.SpaceFree <= a.SpaceTotal && a.SpaceAvail <= a.SpaceFree && a.SpaceFree > 0,
		"files":       a.FilesTotal > a.FilesFree && a.FilesAvail <= a.FilesFree && a.FilesFree > 0,
	}
	for what, ok := range fine {
		if !ok {
			t.Errorf("%s: %+v", what, a)
		}
	}
	for what, tm := range map[string]nfs4.Time{"atime": a.TimeAccess, "mtime": a.TimeModify, "ctime": a.TimeMetadata, "btime": a.TimeCreate} {
		if !tm.Valid() || tm.Std().Before(start) || tm.Std().After(time.Now().Add(time.Second)) {
			t.Errorf("%s %v", what, tm.Std())
		}
	}
	if d := p.stat(dir, nfs4.AttrType, nfs4.AttrSize, nfs4.AttrFSID); d.Type != nfs4.TypeDir || d.FSID != a.FSID {
		t.Errorf("directory %+v", d)
	}
}

// TestStatfs: the data servers here share one disk, which counts once.
func TestStatfs(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	eventually(t, "the size of the disk", func() error {
		a := p.stat(p.walk(p.root()), nfs4.AttrSpaceTotal, nfs4.AttrSpaceFree)
		list, err := c.mds.DataServers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var total uint64
		for _, d := range list {
			total = max(total, d.CapacityBytes)
		}
		if total == 0 || a.SpaceTotal != total {
			return fmt.Errorf("statfs says %d, the data servers %d", a.SpaceTotal, total)
		}
		return nil
	})
	before := p.stat(p.root(), nfs4.AttrFilesTotal, nfs4.AttrFilesFree)
	if before.FilesFree >= before.FilesTotal {
		t.Errorf("%d files free of %d", before.FilesFree, before.FilesTotal)
	}
}

func (p *peer) root() nfs4.FH {
	p.t.Helper()
	var fh nfs4.GetFHRes
	p.must(putRoot(), getFH(&fh))
	return fh.Object
}

func TestSetattr(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	anon := nfs4.StateidAnonymous()
	when := nfs4.Time{Sec: 1234567890, Nsec: 987654321}
	client, server := nfs4.SetTime{How: nfs4.AttrSetToClientTime, Time: when}, nfs4.SetTime{How: nfs4.AttrSetToServerTime}
	for _, x := range []struct {
		attr nfs4.Attr
		set  nfs4.Attrs
		ok   func(nfs4.Attrs) bool
	}{
		{nfs4.AttrMode, nfs4.Attrs{Mode: 0o6751}, func(a nfs4.Attrs) bool { return a.Mode == 0o6751 }},
		{nfs4.AttrOwner, nfs4.Attrs{Owner: []byte("4294967294")}, func(a nfs4.Attrs) bool { return string(a.Owner) == "4294967294" && a.Mode == 0o751 }},
		{nfs4.AttrOwnerGroup, nfs4.Attrs{OwnerGroup: []byte("77")}, func(a nfs4.Attrs) bool { return string(a.OwnerGroup) == "77" }},
		{nfs4.AttrTimeAccessSet, nfs4.Attrs{TimeAccessSet: client}, func(a nfs4.Attrs) bool { return a.TimeAccess == when }},
		{nfs4.AttrTimeModifySet, nfs4.Attrs{TimeModifySet: client}, func(a nfs4.Attrs) bool { return a.TimeModify == when }},
		{nfs4.AttrTimeAccessSet, nfs4.Attrs{TimeAccessSet: server}, func(a nfs4.Attrs) bool { return a.TimeAccess.Sec > when.Sec+1e6 }},
		{nfs4.AttrTimeModifySet, nfs4.Attrs{TimeModifySet: server}, func(a nfs4.Attrs) bool { return a.TimeModify.Sec > when.Sec+1e6 }},
		{nfs4.AttrTimeCreate, nfs4.Attrs{TimeCreate: when}, func(a nfs4.Attrs) bool { return a.TimeCreate == when }},
		{nfs4.AttrSize, nfs4.Attrs{Size: 1 << 40}, func(a nfs4.Attrs) bool { return a.Size == 1<<40 }},
		{nfs4.AttrSize, nfs4.Attrs{Size: math.MaxInt64}, func(a nfs4.Attrs) bool { return a.Size == math.MaxInt64 }},
		{nfs4.AttrSize, nfs4.Attrs{Size: 0}, func(a nfs4.Attrs) bool { return a.Size == 0 }},
	} {
		look := nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrTimeAccess, nfs4.AttrTimeModify,
			nfs4.AttrTimeCreate, nfs4.AttrSize, nfs4.AttrChange, nfs4.AttrTimeMetadata)
		x.set.Mask = nfs4.BitmapOf(x.attr)
		var before, after nfs4.GetattrRes
		res := nfs4.SetattrRes{}
		op := setattr(anon, x.set)
		op.Res = &res
		p.must(putFH(o.fh), getattrMask(&before, look), op, getattrMask(&after, look))
		if !x.ok(after.ObjAttributes) || res.AttrsSet != x.set.Mask {
			t.Errorf("SETATTR of %d: %+v, says it set %v", x.attr, after.ObjAttributes, res.AttrsSet)
		}
		if after.ObjAttributes.Change <= before.ObjAttributes.Change {
			t.Errorf("SETATTR of %d leaves the change attribute", x.attr)
		}
	}
	for _, x := range []struct {
		what string
		set  nfs4.Attrs
		want nfs4.Status
	}{
		{"mode over 07777", nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: 0o10000}, nfs4.ErrInval},
		{"size over 2^63", nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 1 << 63}, nfs4.ErrFBig},
		{"owner by name", nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte("alice@example.org")}, nfs4.ErrBadOwner},
		{"nanoseconds", nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrTimeModifySet), TimeModifySet: nfs4.SetTime{How: nfs4.AttrSetToClientTime, Time: nfs4.Time{Nsec: 1e9}}}, nfs4.ErrInval},
		{"read-only", nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrChange), Change: 1}, nfs4.ErrInval},
		{"unsupported", nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrHidden)}, nfs4.ErrAttrNotSupp},
	} {
		res := nfs4.SetattrRes{AttrsSet: nfs4.BitmapOf(nfs4.AttrMode)}
		op := setattr(anon, x.set)
		op.Res = &res
		if got := p.try(putFH(o.fh), op); got != x.want || !res.AttrsSet.IsZero() {
			t.Errorf("%s: %v with %v, want %v", x.what, got, res.AttrsSet, x.want)
		}
	}
	p.want(nfs4.ErrBadStateID, putFH(o.fh), resize(nfs4.StateidInvalid(), 0))
	ro := p.open(dir, "f", nfs4.ShareAccessRead)
	p.must(putFH(o.fh), closeOp(ro.id)) // the same owner: both shares go
	ro = p.open(dir, "f", nfs4.ShareAccessRead)
	p.want(nfs4.ErrOpenMode, putFH(o.fh), resize(ro.id, 0))
}

func TestVerify(t *testing.T) {
	t.Parallel()
	c := shared(t)
	p := c.newPeer(t, "a")
	dir := p.dir()
	o := p.create(dir, "f")
	verify := func(n nfs4.OpNum, a nfs4.Attrs) client.Op {
		if n == nfs4.OpVerify {
			return client.Op{Num: n, Args: &nfs4.VerifyArgs{ObjAttributes: a}}
		}
		return client.Op{Num: n, Args: &nfs4.NVerifyArgs{ObjAttributes: a}}
	}
	var r nfs4.GetattrRes
	supported := p.stat(o.fh, nfs4.AttrSupportedAttrs).SupportedAttrs
	eachAttr(supported.Without(writeOnly()), func(a nfs4.Attr) {
		if a == nfs4.AttrRdattrError || a == nfs4.AttrSpaceAvail || a == nfs4.AttrSpaceFree || a == nfs4.AttrFilesFree || a == nfs4.AttrFilesAvail {
			return // one is never to be compared, the others move by themselves
		}
		p.must(putFH(o.fh), getattr(&r, a))
		p.want(nfs4.OK, putFH(o.fh), verify(nfs4.OpVerify, r.ObjAttributes))
		p.want(nfs4.ErrSame, putFH(o.fh), verify(nfs4.OpNVerify, r.ObjAttributes))
	})
	other := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrSize), Mode: 0o666, Size: 1}
	p.want(nfs4.ErrNotSame, putFH(o.fh), verify(nfs4.OpVerify, other))
	p.want(nfs4.OK, putFH(o.fh), verify(nfs4.OpNVerify, other))
	for _, n := range []nfs4.OpNum{nfs4.OpVerify, nfs4.OpNVerify} {
		p.want(nfs4.ErrInval, putFH(o.fh), verify(n, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrRdattrError)}))
		p.want(nfs4.ErrInval, putFH(o.fh), verify(n, nfs4.Attrs{Mask: writeOnly()}))
		p.want(nfs4.ErrAttrNotSupp, putFH(o.fh), verify(n, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrHidden)}))
	}
}
