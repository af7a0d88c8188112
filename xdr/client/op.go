package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// Numbers of the NFS program (RFC 8881 section 16).
const (
	program      = 100003
	version      = 4
	procCompound = 1
)

// Op is one operation of a compound. Args and Res are pointers to the nfs4
// types of Num; nil where there is nothing on the wire, and a nil Res also
// stands for a result that is void.
type Op struct {
	Num  nfs4.OpNum
	Args interface{ EncodeXDR(e *xdr.Encoder) }
	Res  interface{ DecodeXDR(d *xdr.Decoder) }
}

// OpError says which operation of a compound failed. The operations before it
// succeeded, and their results are decoded. It unwraps to the Status, so
// errors.Is(err, nfs4.ErrStale) works.
type OpError struct {
	Index  int // in the ops given; -1 for a SEQUENCE that the Client added
	Num    nfs4.OpNum
	Status nfs4.Status
}

// Error implements error.
func (e *OpError) Error() string { return fmt.Sprintf("nfs: %v: %v", e.Num, e.Status) }

// Unwrap returns the Status.
func (e *OpError) Unwrap() error { return e.Status }

// errReply means that a server's COMPOUND reply does not fit the request.
var errReply = errors.New("nfs: malformed COMPOUND reply")

// errDecoder is a result type whose failure arm carries data.
type errDecoder interface {
	DecodeErr(d *xdr.Decoder, s nfs4.Status)
}

// Send makes one COMPOUND call with exactly ops: no SEQUENCE is added, nothing
// is sent again. n is how many results came, status the compound's; if it is
// not OK the last of the n results is the failed one. What was decoded is the
// caller's. err is a failure of the call itself: a rpc.Reject, a closed
// connection, ctx's, a malformed reply.
func Send(ctx context.Context, conn *rpc.Conn, cred rpc.Cred, minor uint32, ops ...Op) (n int, status nfs4.Status, err error) {
	m := message{minor: minor, ops: ops, clone: true}
	err = m.send(ctx, conn, cred)
	return m.done, m.status, err
}

// message is one COMPOUND on its way.
type message struct {
	minor uint32
	ops   []Op
	clone bool         // results must outlive the reply's buffer
	use   func() error // runs while they alias it, if the compound is OK
	probe bool         // only the first result is looked at

	done   int // results that came
	status nfs4.Status
	first  nfs4.Status // status of the first result
}

func (m *message) send(ctx context.Context, conn *rpc.Conn, cred rpc.Cred) error {
	m.done, m.status, m.first = 0, nfs4.OK, nfs4.OK
	return conn.Do(ctx, &rpc.Request{
		Prog: program, Vers: version, Proc: procCompound, Cred: cred,
		Size: m.size(), Args: m.encode, Result: m.decode,
	})
}

// size is a hint of the arguments' length, right for large WRITEs.
func (m *message) size() int {
	n := 256
	for i := range m.ops {
		if w, ok := m.ops[i].Args.(*nfs4.WriteArgs); ok {
			n += len(w.Data) + 64
		}
	}
	return n
}

func (m *message) encode(e *xdr.Encoder) {
	head := nfs4.CompoundArgs{MinorVersion: m.minor, NumOps: uint32(len(m.ops))}
	head.EncodeXDR(e)
	for i := range m.ops {
		e.Uint32(uint32(m.ops[i].Num))
		if m.ops[i].Args != nil {
			m.ops[i].Args.EncodeXDR(e)
		}
	}
}

func (m *message) decode(d *xdr.Decoder) error {
	if m.clone {
		own := xdr.NewDecoder(bytes.Clone(d.Rest()))
		d = &own
	}
	var head nfs4.CompoundRes
	head.DecodeXDR(d)
	m.status = head.Status
	if m.probe {
		head.NumRes = min(head.NumRes, 1)
	}
	if d.Err() == nil && head.NumRes > uint32(len(m.ops)) {
		return fmt.Errorf("%w: %d results for %d operations", errReply, head.NumRes, len(m.ops))
	}
	for i := range int(head.NumRes) {
		num, status := nfs4.OpNum(d.Uint32()), nfs4.Status(d.Uint32())
		if d.Err() != nil {
			break
		}
		if i == 0 {
			m.first = status
		}
		if err := m.check(i, int(head.NumRes), num, status); err != nil && !m.probe {
			return err
		}
		m.done = i + 1
		res := m.ops[i].Res
		switch ed, ok := res.(errDecoder); {
		case status == nfs4.OK && res != nil:
			res.DecodeXDR(d)
		case status != nfs4.OK && ok:
			ed.DecodeErr(d, status)
		}
	}
	if d.Err() != nil {
		return fmt.Errorf("%w: %w", errReply, d.Err())
	}
	if m.probe {
		return nil
	}
	if m.status == nfs4.OK && m.done != len(m.ops) {
		return fmt.Errorf("%w: OK after %d of %d operations", errReply, m.done, len(m.ops))
	}
	if m.status == nfs4.OK && m.use != nil {
		return m.use()
	}
	return nil
}

// check compares result i of n with the operation that it is for.
func (m *message) check(i, n int, num nfs4.OpNum, status nfs4.Status) error {
	if num != m.ops[i].Num && !(num == nfs4.OpIllegal && status == nfs4.ErrOpIllegal) {
		return fmt.Errorf("%w: result %d is of %v, not of %v", errReply, i, num, m.ops[i].Num)
	}
	last := i == n-1
	if !last && status != nfs4.OK || last && status != m.status {
		return fmt.Errorf("%w: %v of result %d in a compound that ended %v", errReply, status, i, m.status)
	}
	return nil
}

// failure is the OpError of a compound that ended with a bad status; shift is
// how many operations were put before the caller's.
func (m *message) failure(shift int) error {
	i := max(m.done-1, 0)
	e := &OpError{Index: i - shift, Status: m.status}
	if i < len(m.ops) {
		e.Num = m.ops[i].Num
	}
	return e
}

// idempotent says whether running ops twice does what running them once does,
// so that they may be sent again when it is unknown whether they ran.
func idempotent(ops []Op) bool {
	for i := range ops {
		switch ops[i].Num {
		case nfs4.OpAccess, nfs4.OpCommit, nfs4.OpGetattr, nfs4.OpGetFH, nfs4.OpLookup, nfs4.OpLookupP,
			nfs4.OpNVerify, nfs4.OpVerify, nfs4.OpPutFH, nfs4.OpPutPubFH, nfs4.OpPutRootFH,
			nfs4.OpRead, nfs4.OpReaddir, nfs4.OpReadlink, nfs4.OpRestoreFH, nfs4.OpSaveFH,
			nfs4.OpSecinfo, nfs4.OpSecinfoNoName, nfs4.OpWrite, nfs4.OpGetDeviceInfo,
			nfs4.OpTestStateid, nfs4.OpSeek, nfs4.OpReadPlus, nfs4.OpAllocate, nfs4.OpDeallocate,
			nfs4.OpGetXattr, nfs4.OpListXattrs:
		default:
			return false
		}
	}
	return true
}
