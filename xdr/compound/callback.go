package compound

import (
	"context"
	"errors"
	"fmt"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// cbProcCompound is CB_COMPOUND's procedure number in the callback program,
// whose version is always 1 (RFC 8881 section 20).
const (
	cbProcCompound = 1
	cbVersion      = 1
)

// CallbackArgs is one operation's arguments.
type CallbackArgs interface{ EncodeXDR(*xdr.Encoder) }

// Callback sends one operation to a client over its back channel and returns
// the operation's status. It waits for a free slot and for the reply until ctx
// ends. The error says that no status was had: no connection
// (NFS4ERR_CB_PATH_DOWN), ctx's end, or a reply that makes no sense; whether
// the client acted on the callback is then not known.
//
// The callback program's results beyond the status are not needed by the
// callbacks that the servers send.
func (s *Server) Callback(ctx context.Context, client nfs4.ClientID, op nfs4.CBOpNum, args CallbackArgs) (nfs4.Status, error) {
	for {
		cb, conn, minor, err := s.acquire(ctx, client)
		if err != nil {
			return 0, err
		}
		r := cbReply{}
		err = conn.Do(ctx, &rpc.Request{
			Prog: cb.Program, Vers: cbVersion, Proc: cbProcCompound, Cred: callbackCred(&cb.Sec),
			Args:   func(e *xdr.Encoder) { encodeCallback(e, minor, &cb, op, args) },
			Result: r.decode,
		})
		s.mu.Lock()
		retry := s.cfg.Sessions.CallbackDone(&cb, err == nil, r.sequence)
		close(s.freed)
		s.freed = make(chan struct{})
		s.mu.Unlock()
		switch {
		case retry && ctx.Err() == nil:
			continue
		case err != nil:
			return 0, fmt.Errorf("compound: %v to client %#x: %w", op, uint64(client), err)
		case !r.ran:
			return 0, fmt.Errorf("compound: %v to client %#x: CB_SEQUENCE: %w", op, uint64(client), r.sequence)
		}
		return r.status, nil
	}
}

// acquire takes a back channel slot of the client, waiting for one if all are
// in use, and finds the slot's connection and the client's minor version: a
// callback of another one does not reach a Linux client.
func (s *Server) acquire(ctx context.Context, client nfs4.ClientID) (session.Callback, *rpc.Conn, uint32, error) {
	for {
		s.mu.Lock()
		cb, status := s.cfg.Sessions.Callback(client)
		conn, minor, freed := s.conns[uint64(cb.Conn)], s.minors[client], s.freed
		if status == nfs4.OK && conn == nil {
			s.cfg.Sessions.CallbackDone(&cb, false, nfs4.OK)
			status = nfs4.ErrCBPathDown
		}
		s.mu.Unlock()
		switch status {
		case nfs4.OK:
			return cb, conn, minor, nil
		case nfs4.ErrDelay:
			select {
			case <-freed:
			case <-ctx.Done():
				return session.Callback{}, nil, 0, ctx.Err()
			}
		default:
			return session.Callback{}, nil, 0, status
		}
	}
}

// callbackCred is the credential that the client asked for in csa_sec_parms.
func callbackCred(p *nfs4.CallbackSecParms) rpc.Cred {
	if p.Flavor != rpc.AuthSys {
		return rpc.Cred{}
	}
	return rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{
		Machine: string(p.Sys.MachineName), UID: p.Sys.UID, GID: p.Sys.GID, GIDs: p.Sys.GIDs,
	}}
}

// encodeCallback appends CB_COMPOUND's arguments: CB_SEQUENCE and one
// operation, the most that Linux takes.
func encodeCallback(e *xdr.Encoder, minor uint32, cb *session.Callback, op nfs4.CBOpNum, args CallbackArgs) {
	h := nfs4.CBCompoundArgs{MinorVersion: minor, NumOps: 2}
	h.EncodeXDR(e)
	e.Uint32(uint32(nfs4.CBSequence))
	seq := nfs4.CBSequenceArgs{
		SessionID: cb.Session, SequenceID: cb.Sequence, SlotID: cb.Slot, HighestSlotID: cb.HighestSlot,
	}
	seq.EncodeXDR(e)
	e.Uint32(uint32(op))
	args.EncodeXDR(e)
}

// cbReply is what matters of a CB_COMPOUND's reply.
type cbReply struct {
	sequence nfs4.Status // CB_SEQUENCE's
	ran      bool        // CB_SEQUENCE was fine and the operation has a status
	status   nfs4.Status
}

var errCallbackReply = errors.New("CB_COMPOUND reply makes no sense")

func (r *cbReply) decode(d *xdr.Decoder) error {
	var h nfs4.CBCompoundRes
	h.DecodeXDR(d)
	if d.Err() == nil && h.NumRes == 0 {
		r.sequence = h.Status // refused before CB_SEQUENCE: a wrong minor version, say
		return d.Err()
	}
	op := nfs4.CBOpNum(d.Uint32())
	r.sequence = nfs4.Status(d.Uint32())
	if d.Err() != nil || op != nfs4.CBSequence {
		return errCallbackReply
	}
	if r.sequence != nfs4.OK {
		return nil
	}
	var seq nfs4.CBSequenceRes
	seq.DecodeXDR(d)
	d.Uint32() // the operation's number; CB_ILLEGAL if the client does not know it
	r.status = nfs4.Status(d.Uint32())
	r.ran = true
	if d.Err() != nil {
		return errCallbackReply
	}
	return nil
}
