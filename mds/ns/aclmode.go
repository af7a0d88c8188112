package ns

import (
	"slices"

	"manifold/xdr/nfs4"
)

// What an ACL means, and how it and the mode go together. Everything here is
// a function of its arguments.

// permBits are the bits of a mode that follow from an ACL.
const permBits = 0o777

// maskOf turns the three bits of one class of a mode into those of an entry.
func maskOf(bits uint32) (mask uint32) {
	if bits&bitRead != 0 {
		mask |= maskRead
	}
	if bits&bitWrite != 0 {
		mask |= maskWrite
	}
	if bits&bitExec != 0 {
		mask |= maskExec
	}
	return mask
}

// bitsOf is the reverse (RFC 8881 section 6.3.2).
func bitsOf(mask uint32) (bits uint32) {
	if mask&maskRead != 0 {
		bits |= bitRead
	}
	if mask&maskWrite == maskWrite {
		bits |= bitWrite
	}
	if mask&maskExec != 0 {
		bits |= bitExec
	}
	return bits
}

// evaluate goes through an ACL in order: for each bit the first entry that has it
// and that fits decides (RFC 8881 section 6.2.1). Bits in neither result were
// not decided.
func evaluate(acl []ace, fits func(*ace) bool) (allow, deny uint32) {
	for i := range acl {
		e := &acl[i]
		if !e.effective() || !fits(e) {
			continue
		}
		if open := e.mask &^ (allow | deny); e.deny {
			deny |= open
		} else {
			allow |= open
		}
	}
	return allow, deny
}

// about says whether an entry of in's ACL is about cred.
func (in *Inode) about(e *ace, cred *Cred) bool {
	switch e.who {
	case whoUser:
		return cred.UID == e.id
	case whoGroup:
		return cred.in(e.id)
	case whoOwner:
		return cred.UID == in.UID
	case whoOwners:
		return cred.in(in.GID)
	}
	return true
}

// modeOf computes the permission bits of the mode: for each class what OWNER@,
// GROUP@ or EVERYONE@ gets, by entries for it and for EVERYONE@ (RFC 8881
// section 6.3.2).
func modeOf(acl []ace) (mode uint32) {
	for _, class := range [...]who{whoOwner, whoOwners, whoEveryone} {
		allow, _ := evaluate(acl, func(e *ace) bool { return e.who == class || e.who == whoEveryone })
		mode = mode<<3 | bitsOf(allow)
	}
	return mode
}

// ofMode returns the ACL that says what a mode says: three entries, and one or
// two before them where a class has less than one after it, since a class of
// a mode decides alone.
func ofMode(mode uint32) []ace {
	u, g, o := maskOf(mode>>6), maskOf(mode>>3), maskOf(mode)
	return classes(nil, u|maskOwner, g|maskPublic, o|maskPublic, 0)
}

// classes puts entries for OWNER@ before those in the middle, and entries for
// GROUP@ and EVERYONE@ behind, so that each class gets its mask and of maskMode
// nothing else. others is what the middle allows of maskMode.
func classes(middle []ace, u, g, o, others uint32) []ace {
	acl := make([]ace, 0, len(middle)+5)
	add := func(w who, deny bool, mask uint32) {
		if mask != 0 || !deny {
			acl = append(acl, ace{who: w, deny: deny, mask: mask})
		}
	}
	add(whoOwner, true, (g|o|others)&maskMode&^u)
	add(whoOwner, false, u)
	acl = append(acl, middle...)
	add(whoOwners, true, o&maskMode&^g)
	add(whoOwners, false, g)
	add(whoEveryone, false, o)
	return acl
}

// withMode returns what becomes of an ACL when the mode is set (RFC 8881 section
// 6.4.1.1): modeOf the result is the mode's, nobody who is named gets more
// than the mode's group may, and everything else stays as it is. What new
// objects inherit stays, if need be as an entry of its own.
func withMode(acl []ace, mode uint32, dir bool) []ace {
	return fit(acl, mode, maskOf(mode>>3), dir)
}

// within returns what is left of an ACL that a new object inherits if it is to give
// nobody more than a mode does: the classes get what both grant, those who
// are named no more than the mode's group. (RFC 8275 wants what a file system
// does where no network is between: there the mode does not add to an
// inherited ACL.) The new mode is modeOf the result.
func within(acl []ace, mode uint32, dir bool) []ace {
	return fit(acl, mode&modeOf(acl), maskOf(mode>>3), dir)
}

// fit is both: named is what those who are named may have of maskMode.
func fit(acl []ace, mode, named uint32, dir bool) []ace {
	class := map[who]uint32{
		whoOwner: maskOf(mode >> 6), whoOwners: maskOf(mode >> 3), whoEveryone: maskOf(mode),
		whoUser: named, whoGroup: named,
	}
	denied := slices.ContainsFunc(acl, func(e ace) bool { return e.deny && e.effective() && e.mask&^maskMode != 0 })
	extra := map[who]uint32{}
	var middle []ace
	others, void := uint32(0), uint32(0) // void is what EVERYONE@ was denied so far
	for _, e := range acl {
		if !e.effective() {
			middle = append(middle, e)
			continue
		}
		kept := e
		kept.mask = cutMask(&e, class, dir)
		switch {
		case !e.special() && !e.deny:
			kept.mask &^= void // never was allowed
		case e.who == whoEveryone && e.deny:
			void |= e.mask & maskMode
		}
		if kept.mask != e.mask && e.heritable() {
			e.flags |= nfs4.ACEInheritOnly
			middle = append(middle, e)
			kept.flags = 0
		}
		if !e.deny && !e.special() {
			others |= kept.mask & maskMode
		}
		switch {
		case e.special() && !e.deny && !denied && kept.flags == 0:
			// Without an entry that denies it does not matter where it stands.
			extra[e.who] |= kept.mask
		case kept.mask != 0 || kept.flags != 0:
			middle = append(middle, kept)
		}
	}
	u, g, o := class[whoOwner]|extra[whoOwner], class[whoOwners]|extra[whoOwners], class[whoEveryone]|extra[whoEveryone]
	return classes(middle, u, g, o, others)
}

// cutMask returns what a new mode leaves of an effective entry's mask. Who may
// no longer write a directory may not remove from it either.
func cutMask(e *ace, class map[who]uint32, dir bool) uint32 {
	own, cut := class[e.who], uint32(0)
	switch {
	case e.deny && e.who == whoOwners:
		cut = maskMode &^ (class[whoUser] &^ own)
	case e.special():
		cut = maskMode
	case !e.deny:
		cut = maskMode &^ own
	}
	if dir && !e.deny && own&maskWrite == 0 {
		cut |= nfs4.ACEDeleteChild
	}
	return e.mask &^ cut
}

// inherited returns the ACL that a new object gets from that of its directory
// (RFC 8881 section 6.4.3.1), none if nothing is to be inherited. applies says
// that some of it counts for the object itself.
func inherited(acl []ace, dir bool) (heirs []ace, applies bool) {
	const forFiles, forDirs, stop = nfs4.ACEFileInherit, nfs4.ACEDirectoryInherit, nfs4.ACENoPropagate
	for _, e := range acl {
		switch {
		case !dir && e.flags&forFiles != 0,
			dir && e.flags&stop != 0 && e.flags&forDirs != 0:
			e.flags = 0
		case !dir || e.flags&stop != 0:
			continue
		case e.flags&forDirs != 0:
			e.flags &^= nfs4.ACEInheritOnly
		case e.flags&forFiles != 0:
			e.flags |= nfs4.ACEInheritOnly
		default:
			continue
		}
		heirs = append(heirs, e)
		applies = applies || e.effective()
	}
	return heirs, applies
}
