// Package dstest is an NFS client for the tests of the data server.
//
// Its one noun is the Client: a connection with a session of one slot, which
// sends what a Linux client sends a data server: PUTFH and one operation.
package dstest

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/tcp"
)

// Patience is how long a test waits for what must happen.
const Patience = 30 * time.Second

const program, version, procCompound = 100003, 4, 1

// MaxResponse is what a Client asks for as its session's largest reply: as much
// as Linux asks for.
const MaxResponse = 1_049_480

// Client is one client of a data server.
type Client struct {
	Conn *rpc.Conn
	// ExchangeID is what the server said of itself.
	ExchangeID nfs4.ExchangeIDRes
	Minor      uint32

	session nfs4.SessionID
	mu      sync.Mutex // one slot: one COMPOUND at a time
	seq     uint32
}

// Op appends the arguments of one operation.
type Op struct {
	Num  nfs4.OpNum
	Args interface{ EncodeXDR(*xdr.Encoder) }
}

// Connect opens a connection and a session in it, or returns why it cannot.
func Connect(ctx context.Context, addr, owner string, maxResponse uint32) (*Client, error) {
	conn, err := tcp.Dial(ctx, addr, nil, &rpc.Config{})
	if err != nil {
		return nil, err
	}
	c := &Client{Conn: conn, Minor: 2}
	if err := c.open(ctx, owner, maxResponse); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// Dial is Connect for a test that must connect.
func Dial(t *testing.T, addr, owner string) *Client {
	t.Helper()
	return DialSize(t, addr, owner, MaxResponse)
}

// DialSize is Dial with a session whose replies have at most maxResponse bytes.
func DialSize(t *testing.T, addr, owner string, maxResponse uint32) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	c, err := Connect(ctx, addr, owner, maxResponse)
	if err != nil {
		t.Fatalf("connect to %s: %v", addr, err)
	}
	t.Cleanup(func() { c.Conn.Close() })
	return c
}

func (c *Client) open(ctx context.Context, owner string, maxResponse uint32) error {
	var cs nfs4.CreateSessionRes
	exid := &nfs4.ExchangeIDArgs{ClientOwner: nfs4.ClientOwner{Verifier: nfs4.Verifier{1}, OwnerID: []byte(owner)}}
	err := c.send(ctx, []Op{{nfs4.OpExchangeID, exid}}, func(d *xdr.Decoder) { c.ExchangeID.DecodeXDR(d) })
	if err != nil {
		return err
	}
	chan4 := nfs4.ChannelAttrs{MaxRequestSize: 1_049_620, MaxResponseSize: maxResponse, MaxResponseSizeCached: 1300, MaxOperations: 8, MaxRequests: 1}
	err = c.send(ctx, []Op{{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{
		ClientID: c.ExchangeID.ClientID, Sequence: c.ExchangeID.SequenceID, ForeChanAttrs: chan4, BackChanAttrs: chan4,
	}}}, func(d *xdr.Decoder) { cs.DecodeXDR(d) })
	if err != nil {
		return err
	}
	c.session = cs.SessionID
	_, err = c.Do(ctx, Op{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}}, nil)
	return err
}

// send sends one COMPOUND and gives the result of its last operation to result.
// The error is that operation's status, or the connection's.
func (c *Client) send(ctx context.Context, ops []Op, result func(*xdr.Decoder)) error {
	cred := rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{Machine: "test"}}
	body, err := c.Conn.Call(ctx, program, version, procCompound, cred, func(e *xdr.Encoder) {
		(&nfs4.CompoundArgs{MinorVersion: c.Minor, NumOps: uint32(len(ops))}).EncodeXDR(e)
		for _, op := range ops {
			e.Uint32(uint32(op.Num))
			if op.Args != nil {
				op.Args.EncodeXDR(e)
			}
		}
	})
	if err != nil {
		return err
	}
	d := xdr.NewDecoder(body)
	var head nfs4.CompoundRes
	head.DecodeXDR(&d)
	for i := range head.NumRes {
		num, status := nfs4.OpNum(d.Uint32()), nfs4.Status(d.Uint32())
		if status != nfs4.OK {
			return status
		}
		if num == nfs4.OpSequence {
			new(nfs4.SequenceRes).DecodeXDR(&d)
		} else if i == head.NumRes-1 && result != nil {
			result(&d)
		}
	}
	if d.Err() == nil && head.Status != nfs4.OK {
		return head.Status
	}
	return d.Err()
}

// Do sends SEQUENCE and ops, of which all but the last have void results. The
// last one's result goes to result.
func (c *Client) Do(ctx context.Context, last Op, result func(*xdr.Decoder), before ...Op) (nfs4.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	ops := append([]Op{{nfs4.OpSequence, &nfs4.SequenceArgs{SessionID: c.session, SequenceID: c.seq}}}, before...)
	err := c.send(ctx, append(ops, last), result)
	if s, ok := err.(nfs4.Status); ok {
		return s, nil
	}
	return nfs4.OK, err
}

// On sends PUTFH of fh and op.
func (c *Client) On(ctx context.Context, fh nfs4.FH, op Op, result func(*xdr.Decoder)) (nfs4.Status, error) {
	return c.Do(ctx, op, result, Op{nfs4.OpPutFH, &nfs4.PutFHArgs{Object: fh}})
}

func (c *Client) must(t *testing.T, fh nfs4.FH, op Op, result func(*xdr.Decoder)) nfs4.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	s, err := c.On(ctx, fh, op, result)
	if err != nil {
		t.Fatalf("%v: %v", op.Num, err)
	}
	return s
}

// Read sends READ with a stateid of the metadata server's.
func (c *Client) Read(t *testing.T, fh nfs4.FH, off uint64, count uint32) (r nfs4.ReadRes, s nfs4.Status) {
	t.Helper()
	s = c.must(t, fh, Op{nfs4.OpRead, &nfs4.ReadArgs{Stateid: stateid(), Offset: off, Count: count}}, func(d *xdr.Decoder) {
		r.DecodeXDR(d)
		r.Data = bytes.Clone(r.Data)
	})
	return r, s
}

// Write sends WRITE.
func (c *Client) Write(t *testing.T, fh nfs4.FH, off uint64, stable nfs4.StableHow, data []byte) (r nfs4.WriteRes, s nfs4.Status) {
	t.Helper()
	s = c.must(t, fh, Op{nfs4.OpWrite, &nfs4.WriteArgs{Stateid: stateid(), Offset: off, Stable: stable, Data: data}}, r.DecodeXDR)
	return r, s
}

// Commit sends COMMIT of everything.
func (c *Client) Commit(t *testing.T, fh nfs4.FH) (r nfs4.CommitRes, s nfs4.Status) {
	t.Helper()
	s = c.must(t, fh, Op{nfs4.OpCommit, &nfs4.CommitArgs{}}, r.DecodeXDR)
	return r, s
}

// Getattr sends GETATTR.
func (c *Client) Getattr(t *testing.T, fh nfs4.FH, attrs ...nfs4.Attr) (a nfs4.Attrs, s nfs4.Status) {
	t.Helper()
	var args nfs4.GetattrArgs
	for _, n := range attrs {
		args.AttrRequest.Set(n)
	}
	var r nfs4.GetattrRes
	s = c.must(t, fh, Op{nfs4.OpGetattr, &args}, r.DecodeXDR)
	return r.ObjAttributes, s
}

// stateid is one that no data server can know.
func stateid() nfs4.Stateid { return nfs4.Stateid{Other: [12]byte{0xab, 1, 2, 3}} }
