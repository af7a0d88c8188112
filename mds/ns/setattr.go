package ns

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"time"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// SettableMask returns the attributes that SetAttr and Create can set. SIZE is
// only of regular files.
func SettableMask() nfs4.Bitmap {
	return nfs4.BitmapOf(
		nfs4.AttrSize, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrACL,
		nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet, nfs4.AttrTimeCreate,
	)
}

// unsupportedMask returns the attributes that a client might set on another
// server. Everything else that SettableMask lacks can only be read.
func unsupportedMask() nfs4.Bitmap {
	return nfs4.BitmapOf(
		nfs4.AttrArchive, nfs4.AttrHidden, nfs4.AttrMimeType, nfs4.AttrSystem,
		nfs4.AttrTimeBackup, nfs4.AttrDACL, nfs4.AttrSACL, nfs4.AttrLayoutHint,
		nfs4.AttrRetentionSet, nfs4.AttrRetentEvtSet, nfs4.AttrRetentionHold,
		nfs4.AttrModeSetMasked, nfs4.AttrSecLabel,
		nfs4.AttrTimeDelegAccess, nfs4.AttrTimeDelegModify,
	)
}

// settings is what a client wants to set, understood.
type settings struct {
	mask                nfs4.Bitmap
	mode, uid, gid      uint32
	umask               uint32
	acl                 []ace
	size                uint64
	atime, mtime, btime nfs4.Time
	clientTimes         bool // at least one time is of the client's choice
}

// hasMode says whether there is a mode among them, with or without an umask.
func (s *settings) hasMode() bool {
	return s.mask.Has(nfs4.AttrMode) || s.mask.Has(nfs4.AttrModeUmask)
}

// parse understands a, and judges the values but not who may set them. Of what
// this server knows only settable can be set.
func parse(a *nfs4.Attrs, now time.Time, settable nfs4.Bitmap) (s settings, err error) {
	if a == nil {
		return s, nil
	}
	s.mask = a.Mask
	if a.Unknown || !a.Mask.And(unsupportedMask()).IsZero() {
		return s, nfs4.ErrAttrNotSupp
	}
	if !a.Mask.Without(settable).IsZero() {
		return s, nfs4.ErrInval
	}
	if err := s.parseMode(a); err != nil {
		return s, err
	}
	if a.Mask.Has(nfs4.AttrSize) {
		if s.size = a.Size; s.size > MaxFileSize {
			return s, nfs4.ErrFBig
		}
	}
	if a.Mask.Has(nfs4.AttrOwner) {
		if s.uid, err = parseOwner(a.Owner); err != nil {
			return s, err
		}
	}
	if a.Mask.Has(nfs4.AttrOwnerGroup) {
		if s.gid, err = parseOwner(a.OwnerGroup); err != nil {
			return s, err
		}
	}
	return s, s.parseTimes(a, now)
}

// parseMode understands what decides about permissions.
func (s *settings) parseMode(a *nfs4.Attrs) (err error) {
	if a.Mask.Has(nfs4.AttrMode) {
		s.mode = a.Mode
	}
	if a.Mask.Has(nfs4.AttrModeUmask) {
		if s.umask = a.ModeUmask.Umask; a.Mask.Has(nfs4.AttrMode) || s.umask > permBits {
			return nfs4.ErrInval
		}
		s.mode = a.ModeUmask.Mode
	}
	if s.mode > modeBits {
		return nfs4.ErrInval
	}
	if a.Mask.Has(nfs4.AttrACL) {
		s.acl, err = parseACL(a.ACL)
	}
	return err
}

// judgeACL says what is wrong with an ACL for an object of some type: a
// symbolic link has none, and only a directory passes entries on.
func (s *settings) judgeACL(typ nfs4.FileType) error {
	switch {
	case !s.mask.Has(nfs4.AttrACL):
	case typ == nfs4.TypeLnk:
		return nfs4.ErrAttrNotSupp
	case typ != nfs4.TypeDir && slices.ContainsFunc(s.acl, func(e ace) bool { return e.flags != 0 }):
		return nfs4.ErrInval
	}
	return nil
}

func (s *settings) parseTimes(a *nfs4.Attrs, now time.Time) error {
	s.atime, s.mtime, s.btime = nfs4.TimeOf(now), nfs4.TimeOf(now), nfs4.TimeOf(now)
	take := func(attr nfs4.Attr, dst *nfs4.Time, given nfs4.Time, client bool) bool {
		if !a.Mask.Has(attr) || !client {
			return true
		}
		*dst, s.clientTimes = given, true
		return given.Valid()
	}
	ok := take(nfs4.AttrTimeAccessSet, &s.atime, a.TimeAccessSet.Time, a.TimeAccessSet.How == nfs4.AttrSetToClientTime) &&
		take(nfs4.AttrTimeModifySet, &s.mtime, a.TimeModifySet.Time, a.TimeModifySet.How == nfs4.AttrSetToClientTime) &&
		take(nfs4.AttrTimeCreate, &s.btime, a.TimeCreate, true)
	if !ok {
		return nfs4.ErrInval
	}
	return nil
}

// nobody is who an unknown user of another domain is.
const nobody = 65534

// parseOwner reads an owner or group (RFC 8881 section 5.9): a decimal number
// without zeros in front, as Linux sends with AUTH_SYS; "root" and
// "nobody", with or without a domain. Other names are ErrBadOwner. A number
// that stands for "no change" in POSIX is ErrInval: ErrBadOwner to a number
// would turn the name mapping of a Linux mount on for good.
func parseOwner(s []byte) (uint32, error) {
	name, _, domain := bytes.Cut(s, []byte("@"))
	switch string(name) {
	case "root":
		return 0, nil
	case "nobody":
		return nobody, nil
	}
	if domain || len(name) > 1 && name[0] == '0' || len(name) > 0 && name[0] == '+' {
		return 0, nfs4.ErrBadOwner
	}
	id, err := strconv.ParseUint(string(name), 10, 32)
	if err != nil {
		return 0, nfs4.ErrBadOwner
	}
	if id == math.MaxUint32 {
		return 0, nfs4.ErrInval
	}
	return uint32(id), nil
}

func formatOwner(id uint32) []byte { return strconv.AppendUint(nil, uint64(id), 10) }

// Changed is the result of SetAttr.
type Changed struct {
	Inode   *Inode
	Set     nfs4.Bitmap
	OldSize uint64 // the size before; if it is above Inode.Size, the objects have to be cut
}

// SetAttr sets all attributes of a or none (RFC 8881 section 18.30), an empty a
// changes nothing. writer says that the caller has the file open for writing,
// so a new size needs no permission. Errors: ErrPerm, ErrAccess,
// ErrAttrNotSupp, ErrInval (an attribute that can only be read, a bad value, the
// size of what is no file), ErrIsDir, ErrFBig, ErrBadOwner, ErrNoSpc (an ACL of
// more than 256 entries). Mode and ACL follow from each other (section 6.4.1).
func (v *Volume) SetAttr(tx store.Tx, now time.Time, cred Cred, file layout.Handle, a *nfs4.Attrs, writer bool) (Changed, error) {
	in, err := v.Get(tx, file)
	if err != nil {
		return Changed{}, err
	}
	s, err := parse(a, now, SettableMask())
	if err != nil {
		return Changed{}, err
	}
	if err := s.judgeACL(in.Type); err != nil {
		return Changed{}, err
	}
	if err := in.maySet(&cred, &s, writer); err != nil {
		return Changed{}, err
	}
	c := Changed{Inode: in, Set: s.mask, OldSize: in.Size}
	if s.mask.IsZero() {
		return c, nil
	}
	in.set(now, &cred, &s)
	return c, v.put(tx, in)
}

// maySet judges who may set what: POSIX chmod, chown, utimensat and truncate. An
// ACL may let others do what is the owner's otherwise; WRITE_OWNER lets them take
// the file, not give it away.
func (in *Inode) maySet(cred *Cred, s *settings, writer bool) error {
	owner := cred.root() || cred.UID == in.UID
	have, _ := in.rights(cred)
	take := have&nfs4.ACEWriteOwner != 0
	has := s.mask.Has
	switch {
	case has(nfs4.AttrSize) && in.Type == nfs4.TypeDir:
		return nfs4.ErrIsDir
	case has(nfs4.AttrSize) && in.Type != nfs4.TypeReg:
		return nfs4.ErrInval
	case (has(nfs4.AttrMode) || has(nfs4.AttrACL)) && have&nfs4.ACEWriteACL == 0,
		s.clientTimes && have&nfs4.ACEWriteAttributes == 0,
		has(nfs4.AttrOwner) && !cred.root() && (!owner || s.uid != in.UID) && (!take || s.uid != cred.UID),
		has(nfs4.AttrOwnerGroup) && !cred.root() && (!owner && !take || s.gid != in.GID && !cred.in(s.gid)):
		return nfs4.ErrPerm
	}
	write := have&maskWrite == maskWrite
	times := has(nfs4.AttrTimeAccessSet) || has(nfs4.AttrTimeModifySet)
	if times && have&nfs4.ACEWriteAttributes == 0 && !write || has(nfs4.AttrSize) && !writer && !write {
		return nfs4.ErrAccess
	}
	return nil
}

// set sets what maySet has allowed.
func (in *Inode) set(now time.Time, cred *Cred, s *settings) {
	in.changed(now)
	has, gid := s.mask.Has, in.GID
	if has(nfs4.AttrSize) {
		in.Mtime = in.Ctime
		in.Size = s.size
		if !cred.root() {
			in.Mode = dropSetID(in.Mode, cred, in.GID)
		}
	}
	switch {
	case has(nfs4.AttrACL):
		if has(nfs4.AttrMode) { // first the mode, then the ACL: RFC 8881 section 6.4.1.3
			in.Mode = s.mode
		}
		in.setACL(s.acl)
	case has(nfs4.AttrMode):
		in.chmod(s.mode)
	}
	if has(nfs4.AttrOwner) {
		in.UID = s.uid
	}
	if has(nfs4.AttrOwnerGroup) {
		in.GID = s.gid
	}
	if (has(nfs4.AttrOwner) || has(nfs4.AttrOwnerGroup)) && in.Type != nfs4.TypeDir {
		in.Mode = dropSetID(in.Mode, cred, gid)
	}
	if has(nfs4.AttrMode) || has(nfs4.AttrACL) {
		in.Mode &^= foreignSetID(in, cred)
	}
	in.setTimes(s)
}

// foreignSetID returns the set-id bits that cred must not leave on a file whose
// mode or ACL it sets: WRITE_ACL does not make somebody the owner, and who is not
// in the group must not make a set-group-id file executable.
func foreignSetID(in *Inode, cred *Cred) (bits uint32) {
	if cred.root() {
		return 0
	}
	if cred.UID != in.UID {
		bits |= modeSetUID
	}
	if !cred.in(in.GID) {
		bits |= modeSetGID
	}
	return bits
}

func (in *Inode) setTimes(s *settings) {
	if s.mask.Has(nfs4.AttrTimeAccessSet) {
		in.Atime = s.atime
	}
	if s.mask.Has(nfs4.AttrTimeModifySet) {
		in.Mtime = s.mtime
	}
	if s.mask.Has(nfs4.AttrTimeCreate) {
		in.Btime = s.btime
	}
}
