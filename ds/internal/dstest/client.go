// Package dstest is an NFS client for the tests of the data server.
//
// Its one noun is the Client: a connection with a session of one slot, which
// sends what a Linux client sends a data server, PUTFH and one operation, and
// mends nothing: what the server does is what the test sees.
package dstest

import (
	"context"
	"sync"
	"testing"
	"time"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/tcp"
)

// Patience is how long a test waits for what must happen.
const Patience = 30 * time.Second

// MaxResponse is the largest reply that Linux asks for in a session.
const MaxResponse = 1_049_480

// Client is one client of a data server.
type Client struct {
	Conn *rpc.Conn
	// ExchangeID is what the server said of itself.
	ExchangeID nfs4.ExchangeIDRes

	session nfs4.SessionID
	mu      sync.Mutex // one slot: one COMPOUND at a time
	seq     uint32
}

// Connect opens a connection and a session in it whose replies have at most
// maxResponse bytes, or returns why it cannot.
func Connect(ctx context.Context, addr, owner string, maxResponse uint32) (*Client, error) {
	conn, err := tcp.Dial(ctx, addr, nil, &rpc.Config{})
	if err != nil {
		return nil, err
	}
	c := &Client{Conn: conn}
	if err := c.open(ctx, owner, maxResponse); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// Dial is Connect for a test that must connect.
func Dial(t testing.TB, addr, owner string) *Client {
	t.Helper()
	return DialSize(t, addr, owner, MaxResponse)
}

// DialSize is Dial with small replies.
func DialSize(t testing.TB, addr, owner string, maxResponse uint32) *Client {
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
	if err := c.send(ctx, client.Op{Num: nfs4.OpExchangeID, Res: &c.ExchangeID, Args: &nfs4.ExchangeIDArgs{
		ClientOwner: nfs4.ClientOwner{Verifier: nfs4.Verifier{1}, OwnerID: []byte(owner)},
	}}); err != nil {
		return err
	}
	attrs := nfs4.ChannelAttrs{MaxRequestSize: 1_049_620, MaxResponseSize: maxResponse, MaxResponseSizeCached: 1300, MaxOperations: 8, MaxRequests: 1}
	var s nfs4.CreateSessionRes
	if err := c.send(ctx, client.Op{Num: nfs4.OpCreateSession, Res: &s, Args: &nfs4.CreateSessionArgs{
		ClientID: c.ExchangeID.ClientID, Sequence: c.ExchangeID.SequenceID, ForeChanAttrs: attrs, BackChanAttrs: attrs,
	}}); err != nil {
		return err
	}
	c.session = s.SessionID
	s1, err := c.Do(ctx, client.Op{Num: nfs4.OpReclaimComplete, Args: &nfs4.ReclaimCompleteArgs{}})
	if err == nil && s1 != nfs4.OK {
		err = s1
	}
	return err
}

// send sends exactly ops, by minor version 2. The error is a status, or the call's.
func (c *Client) send(ctx context.Context, ops ...client.Op) error {
	cred := rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{Machine: "test"}}
	_, status, err := client.Send(ctx, c.Conn, cred, 2, ops...)
	if err == nil && status != nfs4.OK {
		err = status
	}
	return err
}

// Do sends SEQUENCE and ops and returns the COMPOUND's status.
func (c *Client) Do(ctx context.Context, ops ...client.Op) (nfs4.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	seq := client.Op{Num: nfs4.OpSequence, Args: &nfs4.SequenceArgs{SessionID: c.session, SequenceID: c.seq}, Res: &nfs4.SequenceRes{}}
	err := c.send(ctx, append([]client.Op{seq}, ops...)...)
	if s, ok := err.(nfs4.Status); ok {
		return s, nil
	}
	return nfs4.OK, err
}

// On sends SEQUENCE, PUTFH of fh and op.
func (c *Client) On(ctx context.Context, fh nfs4.FH, op client.Op) (nfs4.Status, error) {
	return c.Do(ctx, client.Op{Num: nfs4.OpPutFH, Args: &nfs4.PutFHArgs{Object: fh}}, op)
}

// on is On for a test that must get an answer. Tests call it from any goroutine.
func (c *Client) on(t *testing.T, fh nfs4.FH, op client.Op) nfs4.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	s, err := c.On(ctx, fh, op)
	if err != nil {
		t.Errorf("%v: %v", op.Num, err)
		return nfs4.ErrServerFault
	}
	return s
}

// Read sends READ with a stateid of the metadata server's.
func (c *Client) Read(t *testing.T, fh nfs4.FH, off uint64, count uint32) (r nfs4.ReadRes, s nfs4.Status) {
	t.Helper()
	s = c.on(t, fh, client.Op{Num: nfs4.OpRead, Args: &nfs4.ReadArgs{Stateid: stateid(), Offset: off, Count: count}, Res: &r})
	return r, s
}

// Write sends WRITE.
func (c *Client) Write(t *testing.T, fh nfs4.FH, off uint64, stable nfs4.StableHow, data []byte) (r nfs4.WriteRes, s nfs4.Status) {
	t.Helper()
	s = c.on(t, fh, client.Op{Num: nfs4.OpWrite, Args: &nfs4.WriteArgs{Stateid: stateid(), Offset: off, Stable: stable, Data: data}, Res: &r})
	return r, s
}

// Commit sends COMMIT of everything.
func (c *Client) Commit(t *testing.T, fh nfs4.FH) (r nfs4.CommitRes, s nfs4.Status) {
	t.Helper()
	s = c.on(t, fh, client.Op{Num: nfs4.OpCommit, Args: &nfs4.CommitArgs{}, Res: &r})
	return r, s
}

// Getattr sends GETATTR.
func (c *Client) Getattr(t *testing.T, fh nfs4.FH, attrs nfs4.Bitmap) (a nfs4.Attrs, s nfs4.Status) {
	t.Helper()
	var r nfs4.GetattrRes
	s = c.on(t, fh, client.Op{Num: nfs4.OpGetattr, Args: &nfs4.GetattrArgs{AttrRequest: attrs}, Res: &r})
	return r.ObjAttributes, s
}

// stateid is one that no data server can know.
func stateid() nfs4.Stateid { return nfs4.Stateid{Other: [12]byte{0xab, 1, 2, 3}} }
