package op

import (
	"encoding/binary"
	"slices"

	"manifold/xdr"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// Sec is a way in which clients authenticate their users.
type Sec uint8

// The values of Sec: what the client says (AUTH_SYS, or AUTH_NONE for nobody),
// and Kerberos: for the header of requests, with their integrity protected, and
// encrypted.
const (
	SecSys Sec = iota
	SecKrb5
	SecKrb5i
	SecKrb5p
)

// secOf returns how a call was authenticated.
func secOf(c *rpc.Cred) Sec {
	if c.Flavor != rpc.AuthGSS {
		return SecSys
	}
	switch c.GSS.Service {
	case rpc.ServiceIntegrity:
		return SecKrb5i
	case rpc.ServicePrivacy:
		return SecKrb5p
	}
	return SecKrb5
}

// takes says whether a rule takes callers that authenticate so.
func (r *ExportRule) takes(s Sec) bool {
	if len(r.Sec) == 0 {
		return s == SecSys
	}
	return slices.Contains(r.Sec, s)
}

// krb5OID names Kerberos in SECINFO: its object identifier's DER contents, as
// kernel clients and servers have it.
const krb5OID = "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"

// flavors are what users may authenticate with at the current file's export.
func flavors(c *compound.Call) (list []nfs4.SecFlavor) {
	p, ok := c.File.(*place)
	if !ok || p.rule == nil || len(p.rule.Sec) == 0 {
		return []nfs4.SecFlavor{{Flavor: nfs4.SecFlavorSys}}
	}
	services := map[Sec]rpc.Service{SecKrb5: rpc.ServiceNone, SecKrb5i: rpc.ServiceIntegrity, SecKrb5p: rpc.ServicePrivacy}
	for _, s := range p.rule.Sec {
		f := nfs4.SecFlavor{Flavor: nfs4.SecFlavorSys}
		if s != SecSys {
			f = nfs4.SecFlavor{Flavor: nfs4.SecFlavorGSS, GSS: nfs4.GSSInfo{OID: []byte(krb5OID), Service: uint32(services[s])}}
		}
		list = append(list, f)
	}
	return list
}

// secured is NFS4ERR_WRONGSEC if the current file's export does not take the way
// in which the caller authenticates, NFS4ERR_DELAY while it is not known who it
// is. next is the operation that follows if the
// current file was just put: by RFC 8881 section 2.6.3.1.1 putting it fails
// unless the operation that follows does, or does not mind.
func secured(c *compound.Call, next nfs4.OpNum) nfs4.Status {
	p, ok := c.File.(*place)
	switch {
	case !ok || p.rule == nil || unminding(next) || c.Machine(next):
		return nfs4.OK
	case !p.rule.takes(secOf(&c.Cred)):
		return nfs4.ErrWrongSec
	case p.late:
		return nfs4.ErrDelay
	}
	return nfs4.OK
}

// unminding says whether an operation after a file was put sees to the security
// by itself, or does not mind: those by name, those that tell how to
// authenticate, those that put another file, none at all, and those that give
// back, which exported lets pass too.
func unminding(next nfs4.OpNum) bool {
	switch next {
	case 0, nfs4.OpLookup, nfs4.OpLookupP, nfs4.OpOpen, nfs4.OpSecinfo, nfs4.OpSecinfoNoName,
		nfs4.OpPutFH, nfs4.OpPutRootFH, nfs4.OpPutPubFH, nfs4.OpRestoreFH,
		nfs4.OpClose, nfs4.OpOpenDowngrade, nfs4.OpLockU, nfs4.OpDelegReturn, nfs4.OpLayoutReturn:
		return true
	}
	return false
}

// MachineMay are the operations that a client's machine credential may do for
// its users (SP4_MACH_CRED): to write back what they wrote, and to give back what
// they hold, when their own credentials have expired.
func MachineMay() []nfs4.OpNum {
	return []nfs4.OpNum{
		nfs4.OpClose, nfs4.OpOpenDowngrade, nfs4.OpLockU, nfs4.OpDelegReturn, nfs4.OpLayoutReturn, nfs4.OpLayoutCommit,
		nfs4.OpWrite, nfs4.OpCommit, nfs4.OpTestStateid, nfs4.OpFreeStateid, nfs4.OpSecinfo, nfs4.OpSecinfoNoName,
	}
}

// follower reads the number of the operation that d is at, 0 at the end. SAVEFH
// is passed over (section 2.6.3.1.1.1).
func follower(d *xdr.Decoder) nfs4.OpNum {
	rest := d.Rest()
	for len(rest) >= 4 {
		if num := nfs4.OpNum(binary.BigEndian.Uint32(rest)); num != nfs4.OpSaveFH {
			return num
		}
		rest = rest[4:]
	}
	return 0
}
