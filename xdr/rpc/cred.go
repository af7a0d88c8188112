package rpc

import (
	"bytes"

	"manifold/xdr"
)

// Authentication flavours (RFC 5531 section 8.1).
const (
	AuthNone uint32 = 0
	AuthSys  uint32 = 1
	AuthGSS  uint32 = 6 // RPCSEC_GSS, RFC 2203
)

// Bounds of opaque_auth and authsys_parms (RFC 5531 section 8.2 and appendix A).
const (
	maxAuth    = 400
	maxMachine = 255
	maxGIDs    = 16
)

// Cred is a credential. Sys counts only when Flavor is AuthSys; when it is
// AuthGSS, GSS is who calls us, and Initiator secures what we call.
type Cred struct {
	Flavor    uint32
	Sys       SysCred
	GSS       GSSCred
	Initiator Initiator
}

// SysCred is the content of an AUTH_SYS credential (RFC 5531 appendix A):
// Machine of at most 255 bytes, GIDs at most 16. In a received Call it is
// shared and must not be changed, but may be kept.
type SysCred struct {
	Machine string
	UID     uint32
	GID     uint32
	GIDs    []uint32
}

// decode reads the body of an AUTH_SYS credential after its stamp.
func (s *SysCred) decode(d *xdr.Decoder) {
	s.Machine = d.String(maxMachine)
	s.UID = d.Uint32()
	s.GID = d.Uint32()
	n := d.Count(maxGIDs, 4)
	s.GIDs = make([]uint32, n)
	for i := range s.GIDs {
		s.GIDs[i] = d.Uint32()
	}
}

// encode appends a credential as opaque_auth. What is over a bound is cut, for
// a peer would refuse the call.
func (c *Cred) encode(e *xdr.Encoder) {
	e.Uint32(c.Flavor)
	at := e.Len()
	e.Uint32(0)
	if c.Flavor != AuthSys {
		return
	}
	e.Uint32(0) // stamp: any value, it only tells calls apart
	e.String(c.Sys.Machine[:min(len(c.Sys.Machine), maxMachine)])
	e.Uint32(c.Sys.UID)
	e.Uint32(c.Sys.GID)
	gids := c.Sys.GIDs[:min(len(c.Sys.GIDs), maxGIDs)]
	e.Uint32(uint32(len(gids)))
	for _, g := range gids {
		e.Uint32(g)
	}
	e.SetUint32(at, uint32(e.Len()-at-4))
}

// credCache remembers the last few credentials of a connection, so that the
// usual call costs no allocation. Its owner is the reading goroutine.
type credCache struct {
	ents [4]credEntry
	next int
}

type credEntry struct {
	raw []byte
	sys SysCred
}

// sys decodes the body of an AUTH_SYS credential; ok is false if it is bad.
func (cc *credCache) sys(body []byte) (sys SysCred, ok bool) {
	if len(body) < 4 {
		return SysCred{}, false
	}
	raw := body[4:] // without the stamp, which some clients change
	for i := range cc.ents {
		if e := &cc.ents[i]; e.raw != nil && bytes.Equal(e.raw, raw) {
			return e.sys, true
		}
	}
	d := xdr.NewDecoder(raw)
	sys.decode(&d)
	if d.Err() != nil || d.Remaining() != 0 {
		return SysCred{}, false
	}
	cc.ents[cc.next] = credEntry{raw: bytes.Clone(raw), sys: sys}
	cc.next = (cc.next + 1) % len(cc.ents)
	return sys, true
}
