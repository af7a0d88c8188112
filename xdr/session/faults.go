package session

import "manifold/xdr/nfs4"

// Fault counts a SEQUENCE that was refused with an error which no client gets
// that keeps its slots in order: NFS4ERR_SEQ_MISORDERED, NFS4ERR_SEQ_FALSE_RETRY,
// NFS4ERR_BADSLOT, NFS4ERR_BAD_HIGH_SLOT. Each SEQUENCE that is taken makes up
// for one. over says that the client has MaxFaults of them: it is out of step
// for good, and the caller evicts it.
func (t *Table) Fault(id nfs4.SessionID, status nfs4.Status) (client nfs4.ClientID, over bool) {
	switch status {
	case nfs4.ErrSeqMisordered, nfs4.ErrSeqFalseRetry, nfs4.ErrBadSlot, nfs4.ErrBadHighSlot:
	default:
		return 0, false
	}
	s := t.sessions[id]
	if s == nil {
		return 0, false
	}
	s.client.faults++
	return s.client.id, s.client.faults >= t.cfg.MaxFaults
}
