package session

import "manifold/xdr/nfs4"

// State protection by the machine credential, SP4_MACH_CRED (RFC 8881 section
// 2.10.8.3): who made the client id with a protected EXCHANGE_ID is the only one
// that may do with it what the enforced list holds, and may do what the allowed
// list holds on behalf of each of the client's users.

// enforced are the operations that need the machine credential: those that a
// stranger could steal or end a client's sessions with. Linux takes no longer
// list.
func enforced() nfs4.Bitmap {
	return opBits(nfs4.OpBindConnToSession, nfs4.OpExchangeID, nfs4.OpCreateSession, nfs4.OpDestroySession, nfs4.OpDestroyClientID)
}

// opBits is a bitmap of operation numbers, as state_protect_ops4 has them.
func opBits(ops ...nfs4.OpNum) (b nfs4.Bitmap) {
	for _, op := range ops {
		b.Set(nfs4.Attr(op))
	}
	return b
}

// protection is the answer to spa_how of EXCHANGE_ID (section 18.35.3), and the
// operations that are allowed if it is SP4_MACH_CRED. NFS4ERR_INVAL: the request
// itself is not protected; NFS4ERR_ENCR_ALG_UNSUPP: SP4_SSV.
func (t *Table) protection(a *nfs4.StateProtectArgs, from *Peer) (how nfs4.StateProtectHow, allow nfs4.Bitmap, status nfs4.Status) {
	switch a.How {
	case nfs4.StateProtectNone:
		return a.How, allow, nfs4.OK
	case nfs4.StateProtectMachCred:
		if from.Protected {
			return a.How, a.MachOps.MustAllow.And(opBits(t.cfg.MachAllow...)), nfs4.OK
		}
	case nfs4.StateProtectSSV:
		return a.How, allow, nfs4.ErrEncrAlgUnsupp
	}
	return a.How, allow, nfs4.ErrInval
}

// guard is NFS4ERR_WRONG_CRED if the client's state is protected and from does
// not show its machine credential.
func (c *client) guard(from *Peer) nfs4.Status {
	if c.machine && !c.isMachine(from.Principal, from.Protected) {
		return nfs4.ErrWrongCred
	}
	return nfs4.OK
}

// isMachine says whether a request is made with c's machine credential.
func (c *client) isMachine(p Principal, protected bool) bool {
	return c.machine && protected && p == c.principal
}

// protectRes is the answer's state_protect4_r.
func (c *client) protectRes() (r nfs4.StateProtectRes) {
	if c.machine {
		r.How = nfs4.StateProtectMachCred
		r.MachOps = nfs4.StateProtectOps{MustEnforce: enforced(), MustAllow: c.allow}
	}
	return r
}
