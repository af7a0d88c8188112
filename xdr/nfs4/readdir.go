package nfs4

import (
	"fmt"

	"manifold/xdr"
)

// ReaddirArgs is READDIR4args (RFC 8881 section 18.23). DirCount hints at the
// bytes of names and cookies, MaxCount bounds the bytes of READDIR4resok.
type ReaddirArgs struct {
	Cookie      uint64
	CookieVerf  Verifier
	DirCount    uint32
	MaxCount    uint32
	AttrRequest Bitmap
}

// DirEntry is an entry4 without the link to the next one.
type DirEntry struct {
	Cookie uint64
	Name   []byte `xdr:"max=MaxName"`
	Attrs  Attrs
}

// ReaddirRes is READDIR4resok. A server calls Add for each entry, which encodes
// it at once; a client finds the decoded ones in Entries.
//
//xdr:manual
type ReaddirRes struct {
	CookieVerf Verifier
	Entries    []DirEntry
	EOF        bool

	list xdr.Encoder
}

// readdirFixed is the size of a READDIR4resok without entries: the verifier,
// the end of the list, eof.
const readdirFixed = 8 + 4 + 4

// Add encodes ent behind the entries added before, unless the whole result
// would then take more than max bytes: it returns false and changes nothing.
func (x *ReaddirRes) Add(ent *DirEntry, max int) bool {
	at := x.list.Len()
	x.list.Bool(true)
	ent.EncodeXDR(&x.list)
	if x.list.Len()+readdirFixed > max {
		x.list.Truncate(at)
		return false
	}
	return true
}

// Len returns the bytes that EncodeXDR would append, Entries apart.
func (x *ReaddirRes) Len() int { return x.list.Len() + readdirFixed }

// EncodeXDR appends the result: what was added, then Entries.
func (x *ReaddirRes) EncodeXDR(e *xdr.Encoder) {
	e.Fixed(x.CookieVerf[:])
	e.Raw(x.list.Bytes())
	for i := range x.Entries {
		e.Bool(true)
		x.Entries[i].EncodeXDR(e)
	}
	e.Bool(false)
	e.Bool(x.EOF)
}

// DecodeXDR reads the result into Entries.
func (x *ReaddirRes) DecodeXDR(d *xdr.Decoder) {
	*x = ReaddirRes{}
	copy(x.CookieVerf[:], d.Fixed(len(x.CookieVerf)))
	for d.Bool() {
		if len(x.Entries) == MaxDirEntries {
			d.Fail(fmt.Errorf("%w: more than %d directory entries", xdr.ErrTooLong, MaxDirEntries))
			return
		}
		x.Entries = append(x.Entries, DirEntry{})
		x.Entries[len(x.Entries)-1].DecodeXDR(d)
	}
	x.EOF = d.Bool()
}
