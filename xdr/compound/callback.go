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

const (
	// cbProcCompound is CB_COMPOUND's procedure number in the callback
	// program, whose version is always 1 (RFC 8881 section 20).
	cbProcCompound = 1
	cbVersion      = 1
	// cbTries is how often one callback is sent at most, when the client says
	// that a slot is out of step.
	cbTries = 8
	// cbFrame is what an RPC call's header takes besides the content of the
	// credential.
	cbFrame = 40
)

// CallbackArgs is one operation's arguments.
type CallbackArgs interface{ EncodeXDR(*xdr.Encoder) }

// CallbackRes is what follows the status of an operation's result. It must not
// keep what it decodes: the bytes are reused.
type CallbackRes interface{ DecodeXDR(*xdr.Decoder) }

// Callback sends one operation to a client over its back channel and returns
// the operation's status. It waits for a free slot and for the reply until ctx
// ends.
//
// The error says that no status was had: it wraps NFS4ERR_CB_PATH_DOWN (no
// connection), NFS4ERR_REQ_TOO_BIG, the status of CB_SEQUENCE (after
// NFS4ERR_DELAY it may be asked again later) or ctx's end, or says that the
// call failed or its reply makes no sense. Unless it wraps a status, whether
// the client acted on the callback is not known.
//
// What follows a good status is decoded into res, which is nil for operations
// that have nothing there.
func (s *Server) Callback(ctx context.Context, client nfs4.ClientID, op nfs4.CBOpNum, args CallbackArgs, res CallbackRes) (nfs4.Status, error) {
	way := func(t *session.Table) (session.Callback, nfs4.Status) { return t.Callback(client) }
	return s.callback(ctx, way, client, op, args, res)
}

// wayBack takes a back channel slot, as Table.Callback does.
type wayBack func(*session.Table) (session.Callback, nfs4.Status)

// callback is Callback over a given way.
func (s *Server) callback(ctx context.Context, way wayBack, client nfs4.ClientID, op nfs4.CBOpNum, args CallbackArgs, res CallbackRes) (nfs4.Status, error) {
	for try := 1; ; try++ {
		cb, l, minor, err := s.acquire(ctx, way, client)
		if err != nil {
			return 0, fmt.Errorf("compound: %v to client %#x: %w", op, uint64(client), err)
		}
		r, err := send(ctx, l.conn, minor, &cb, op, args, res)
		s.mu.Lock()
		retry := s.cfg.Sessions.CallbackDone(&cb, r.answered, r.sequence)
		s.wake()
		s.mu.Unlock()
		switch {
		case err == nil && r.ran:
			return r.status, nil
		case retry && try < cbTries && ctx.Err() == nil:
			continue
		case err == nil:
			err = fmt.Errorf("%v: %w", nfs4.CBSequence, r.sequence)
		}
		return 0, fmt.Errorf("compound: %v to client %#x: %w", op, uint64(client), err)
	}
}

// referring is the key of a context's value.
type referring struct{}

// Referring makes the Callbacks that are given the context name earlier requests
// of the client, whose replies they may overtake: a client that waits for one of
// them then does not take the callback for one about something that it does not
// have (csa_referring_call_lists, RFC 8881 section 2.10.6.3).
func Referring(ctx context.Context, to []nfs4.ReferringCallList) context.Context {
	if len(to) == 0 {
		return ctx
	}
	return context.WithValue(ctx, referring{}, to)
}

// CanCallback says whether a callback to the client could be sent now.
func (s *Server) CanCallback(client nfs4.ClientID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Sessions.CanCallback(client)
}

// acquire takes a back channel slot of the client, waiting for one if all are
// in use, and finds the slot's connection and the client's minor version: a
// callback of another one does not reach a Linux client.
func (s *Server) acquire(ctx context.Context, way wayBack, client nfs4.ClientID) (cb session.Callback, l *link, minor uint32, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return cb, nil, 0, err
		}
		s.mu.Lock()
		cb, status := way(s.cfg.Sessions)
		l, minor = s.conns[uint64(cb.Conn)], s.minors[client]
		switch {
		case status == nfs4.OK && l != nil:
			s.mu.Unlock()
			return cb, l, minor, nil
		case status == nfs4.OK:
			// The connection is gone: not a way to this client any more.
			s.cfg.Sessions.CallbackDone(&cb, false, nfs4.OK)
			s.wake()
			s.mu.Unlock()
			continue
		case status != nfs4.ErrDelay:
			s.mu.Unlock()
			return cb, nil, 0, status
		}
		if s.freed == nil {
			s.freed = make(chan struct{})
		}
		freed := s.freed
		s.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
		}
	}
}

// wake lets those look again who wait for a back channel slot. mu is held.
func (s *Server) wake() {
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}

// send makes one CB_COMPOUND call: CB_SEQUENCE and one operation, the most
// that Linux takes.
func send(ctx context.Context, conn *rpc.Conn, minor uint32, cb *session.Callback, op nfs4.CBOpNum, args CallbackArgs, res CallbackRes) (r cbReply, err error) {
	r.res = res
	var e xdr.Encoder
	h := nfs4.CBCompoundArgs{MinorVersion: minor, NumOps: 2}
	h.EncodeXDR(&e)
	e.Uint32(uint32(nfs4.CBSequence))
	seq := nfs4.CBSequenceArgs{
		SessionID: cb.Session, SequenceID: cb.Sequence, SlotID: cb.Slot, HighestSlotID: cb.HighestSlot,
	}
	seq.ReferringCallLists, _ = ctx.Value(referring{}).([]nfs4.ReferringCallList)
	seq.EncodeXDR(&e)
	e.Uint32(uint32(op))
	args.EncodeXDR(&e)
	cred, size := callbackCred(&cb.Sec)
	if cbFrame+size+e.Len() > int(cb.MaxRequest) {
		return cbReply{answered: true, sequence: nfs4.ErrReqTooBig}, nil // as the client would
	}
	err = conn.Do(ctx, &rpc.Request{
		Prog: cb.Program, Vers: cbVersion, Proc: cbProcCompound, Cred: cred, Size: e.Len(),
		Args:   func(out *xdr.Encoder) { out.Raw(e.Bytes()) },
		Result: r.decode,
	})
	return r, err
}

// callbackCred is the credential that the client asked for in csa_sec_parms,
// and the length of its content in bytes.
func callbackCred(p *nfs4.CallbackSecParms) (rpc.Cred, int) {
	if p.Flavor != rpc.AuthSys {
		return rpc.Cred{}, 0
	}
	return rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{
		Machine: string(p.Sys.MachineName), UID: p.Sys.UID, GID: p.Sys.GID, GIDs: p.Sys.GIDs,
	}}, 5*4 + (len(p.Sys.MachineName)+3)&^3 + 4*len(p.Sys.GIDs)
}

// cbReply is what matters of a CB_COMPOUND's reply.
type cbReply struct {
	answered bool        // the client said what became of CB_SEQUENCE
	sequence nfs4.Status // CB_SEQUENCE's
	ran      bool        // CB_SEQUENCE was fine and the operation has a status
	status   nfs4.Status
	res      CallbackRes // may be nil
}

var errCallbackReply = errors.New("CB_COMPOUND reply makes no sense")

func (r *cbReply) decode(d *xdr.Decoder) error {
	var h nfs4.CBCompoundRes
	h.DecodeXDR(d)
	if d.Err() == nil && h.NumRes == 0 && h.Status != nfs4.OK {
		r.answered, r.sequence = true, h.Status // refused before CB_SEQUENCE: a wrong minor version, say
		return nil
	}
	op := nfs4.CBOpNum(d.Uint32())
	sequence := nfs4.Status(d.Uint32())
	if d.Err() != nil || h.NumRes == 0 || op != nfs4.CBSequence {
		return errCallbackReply
	}
	r.answered, r.sequence = true, sequence
	if sequence != nfs4.OK {
		return nil
	}
	var seq nfs4.CBSequenceRes
	seq.DecodeXDR(d)
	d.Uint32() // the operation's number; CB_ILLEGAL if the client does not know it
	r.status = nfs4.Status(d.Uint32())
	if r.status == nfs4.OK && r.res != nil {
		r.res.DecodeXDR(d)
	}
	if d.Err() != nil || h.NumRes != 2 {
		return errCallbackReply
	}
	r.ran = true
	return nil
}
