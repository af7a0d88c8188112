package ns

import (
	"slices"

	"manifold/mds/store"
	"manifold/xdr"
	"manifold/xdr/nfs4"
)

// who says whom an entry of an ACL is about.
type who uint32

const (
	whoUser     who = iota // the user ace.id
	whoGroup               // the members of group ace.id
	whoOwner               // OWNER@
	whoOwners              // GROUP@: the members of the file's group
	whoEveryone            // EVERYONE@
)

// ace is one entry of an ACL (RFC 8881 section 6.2.1), understood.
type ace struct {
	who   who
	id    uint32
	deny  bool
	flags uint32 // of inheritFlags
	mask  uint32 // of maskAll
}

// heritable says whether new objects in a directory may get the entry.
func (e *ace) heritable() bool {
	return e.flags&(nfs4.ACEFileInherit|nfs4.ACEDirectoryInherit) != 0
}

// effective says whether the entry counts for the object that has it.
func (e *ace) effective() bool { return e.flags&nfs4.ACEInheritOnly == 0 }

// special says whether the entry is about a class of the mode.
func (e *ace) special() bool { return e.who >= whoOwner }

const (
	inheritFlags = nfs4.ACEFileInherit | nfs4.ACEDirectoryInherit | nfs4.ACENoPropagate | nfs4.ACEInheritOnly
	auditFlags   = nfs4.ACESuccessfulAccess | nfs4.ACEFailedAccess

	// The bits of a mode, as bits of an entry (RFC 8881 section 6.3.2). Who has
	// only one of WRITE_DATA and APPEND_DATA may not write: data servers
	// could not tell the two apart (section 6.2.1.3.1).
	maskRead  = nfs4.ACEReadData
	maskWrite = nfs4.ACEWriteData | nfs4.ACEAppendData
	maskExec  = nfs4.ACEExecute
	maskMode  = maskRead | maskWrite | maskExec

	// maskPublic is what everybody has of a file without an ACL, maskOwner what
	// the owner always has.
	maskPublic = nfs4.ACEReadAttributes | nfs4.ACEReadACL | nfs4.ACESynchronize
	maskOwner  = maskPublic | nfs4.ACEWriteAttributes | nfs4.ACEWriteACL

	maskAll = 0x7ff | 0x1f<<16
)

// Bounds on an ACL, in entries: what a client may set, and what a change of
// the mode may make of that (it splits entries in two and adds five).
const (
	maxACL       = 256
	maxStoredACL = 2*maxACL + 8
)

// parseACL understands the value of the attribute acl. Errors: ErrAttrNotSupp
// (AUDIT and ALARM entries, flags of auditing and of automatic inheritance),
// ErrInval (what no entry may hold), ErrBadOwner (a name that is no number),
// ErrNoSpc (more than 256 entries).
func parseACL(wire []nfs4.ACE) ([]ace, error) {
	if len(wire) > maxACL {
		return nil, nfs4.ErrNoSpc
	}
	acl := make([]ace, len(wire))
	for i := range wire {
		if err := acl[i].parse(&wire[i]); err != nil {
			return nil, err
		}
	}
	return acl, nil
}

func (e *ace) parse(w *nfs4.ACE) (err error) {
	switch {
	case w.Type == nfs4.ACEAudit || w.Type == nfs4.ACEAlarm,
		w.Flag&(auditFlags|nfs4.ACEInherited) != 0:
		return nfs4.ErrAttrNotSupp
	case w.Type > nfs4.ACEAlarm, w.Flag > 0xff, w.Mask&^maskAll != 0:
		return nfs4.ErrInval
	}
	e.deny, e.flags, e.mask = w.Type == nfs4.ACEDenied, w.Flag&inheritFlags, w.Mask
	if e.flags != 0 && !e.heritable() {
		return nfs4.ErrInval // only says how an entry is inherited that is not
	}
	switch string(w.Who) {
	case "OWNER@":
		e.who = whoOwner
	case "GROUP@":
		e.who = whoOwners
	case "EVERYONE@":
		e.who = whoEveryone
	default:
		if e.who = whoUser; w.Flag&nfs4.ACEIdentifierGroup != 0 {
			e.who = whoGroup
		}
		e.id, err = parseOwner(w.Who)
	}
	return err
}

// formatACL is the reverse of parseACL.
func formatACL(acl []ace) []nfs4.ACE {
	wire := make([]nfs4.ACE, len(acl))
	for i := range acl {
		e, w := &acl[i], &wire[i]
		w.Flag, w.Mask = e.flags, e.mask
		if e.deny {
			w.Type = nfs4.ACEDenied
		}
		switch e.who {
		case whoOwner:
			w.Who = []byte("OWNER@")
		case whoOwners:
			w.Who = []byte("GROUP@")
		case whoEveryone:
			w.Who = []byte("EVERYONE@")
		case whoGroup:
			w.Flag |= nfs4.ACEIdentifierGroup
			w.Who = formatOwner(e.id)
		default:
			w.Who = formatOwner(e.id)
		}
	}
	return wire
}

// encodeACL returns the row of an ACL.
func encodeACL(acl []ace) xdr.Encoder {
	e := newRow(formACL, 16+12*len(acl))
	e.Uint32(uint32(len(acl)))
	for i := range acl {
		head := uint32(acl[i].who)<<16 | acl[i].flags
		if acl[i].deny {
			head |= 1 << 31
		}
		e.Uint32(head)
		e.Uint32(acl[i].id)
		e.Uint32(acl[i].mask)
	}
	return e
}

// decodeACL reads the row of an ACL.
func decodeACL(key, row []byte) ([]ace, error) {
	d, err := openRow(key, row, formACL)
	if err != nil {
		return nil, err
	}
	acl := make([]ace, d.Count(maxStoredACL, 12))
	valid := true
	for i := range acl {
		e := &acl[i]
		head := d.Uint32()
		e.deny, e.who, e.flags = head>>31 != 0, who(head<<1>>17), head&0xffff
		e.id, e.mask = d.Uint32(), d.Uint32()
		valid = valid && e.who <= whoEveryone && (e.id == 0 || !e.special()) &&
			e.flags&^inheritFlags == 0 && (e.flags == 0 || e.heritable()) && e.mask&^maskAll == 0
	}
	return acl, closeRow(key, &d, valid)
}

// loadACL reads the ACL of an inode that has one.
func (v *Volume) loadACL(tx store.Tx, in *Inode) error {
	if !in.hasACL {
		return nil
	}
	key := inodeRowKey(prefixACL, v.id, in.ID)
	row, err := tx.Get(key)
	if err != nil {
		return err
	}
	if row == nil {
		return corrupt(key, "not there")
	}
	in.acl, err = decodeACL(key, row)
	return err
}

// saveACL writes the ACL of an inode if it was changed, or deletes its row.
func (v *Volume) saveACL(tx store.Tx, in *Inode) error {
	if !in.newACL {
		return nil
	}
	in.newACL = false
	key := inodeRowKey(prefixACL, v.id, in.ID)
	if !in.hasACL {
		return tx.Delete(key)
	}
	e := encodeACL(in.acl)
	return putRow(tx, key, &e)
}

// setACL gives the inode an ACL, and the mode that follows from it: set-id and
// sticky bits stay (RFC 8881 section 6.4.1.2).
func (in *Inode) setACL(acl []ace) {
	in.Mode = in.Mode&^permBits | modeOf(acl)
	in.keepACL(acl)
}

// keepACL gives the inode an ACL that says what its mode says, or more. One that
// says just that is not kept: the mode will do.
func (in *Inode) keepACL(acl []ace) {
	had := in.hasACL
	in.acl, in.hasACL = acl, true
	if slices.Equal(acl, ofMode(in.Mode)) {
		in.acl, in.hasACL = nil, false
	}
	in.newACL = in.newACL || had || in.hasACL
}

// chmod gives the inode a mode, and fits its ACL to it.
func (in *Inode) chmod(mode uint32) {
	in.Mode = mode
	if in.hasACL {
		in.keepACL(withMode(in.acl, mode, in.Type == nfs4.TypeDir))
	}
}

// visibleACL is the ACL as clients see it.
func (in *Inode) visibleACL() []nfs4.ACE {
	if in.hasACL {
		return formatACL(in.acl)
	}
	return formatACL(ofMode(in.Mode))
}
