package client

import (
	"context"
	"fmt"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// MaxIO returns how many bytes one READ and one WRITE can carry in the session
// as it is now.
func (c *Client) MaxIO() (read, write int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	read, write = c.cfg.MaxIO, c.cfg.MaxIO
	if c.sess != nil {
		read = min(read, int(c.sess.fore.MaxResponseSize)-overhead)
		write = min(write, int(c.sess.fore.MaxRequestSize)-overhead)
	}
	return read, write
}

// readInto is a READ4resok whose data goes to p.
type readInto struct {
	p   []byte
	n   int
	eof bool
}

func (r *readInto) DecodeXDR(d *xdr.Decoder) {
	r.eof = d.Bool()
	r.n = copy(r.p, d.Opaque(len(r.p)))
}

// Read reads up to len(p) bytes at offset off of the file fh into p, by one
// READ of at most MaxIO bytes, so n may be less without an end. The data is
// copied once, from the reply's buffer.
func (c *Client) Read(ctx context.Context, cred rpc.Cred, fh nfs4.FH, stateid nfs4.Stateid, off uint64, p []byte) (n int, eof bool, err error) {
	limit, _ := c.MaxIO()
	res := readInto{p: p[:min(len(p), limit)]}
	err = c.do(ctx, cred, message{ops: []Op{
		putFH(fh),
		{Num: nfs4.OpRead, Args: &nfs4.ReadArgs{Stateid: stateid, Offset: off, Count: uint32(len(res.p))}, Res: &res},
	}})
	if err != nil {
		return 0, false, err
	}
	return res.n, res.eof, nil
}

// Write writes up to len(p) bytes of p at offset off of the file fh, by one
// WRITE of at most MaxIO bytes: n is how many were taken. committed is how
// stable they are; verf changes when the server lost what was unstable.
func (c *Client) Write(ctx context.Context, cred rpc.Cred, fh nfs4.FH, stateid nfs4.Stateid, off uint64, p []byte,
	stable nfs4.StableHow) (n int, committed nfs4.StableHow, verf nfs4.Verifier, err error) {
	_, limit := c.MaxIO()
	p = p[:min(len(p), limit)]
	var res nfs4.WriteRes
	err = c.do(ctx, cred, message{ops: []Op{
		putFH(fh),
		{Num: nfs4.OpWrite, Args: &nfs4.WriteArgs{Stateid: stateid, Offset: off, Stable: stable, Data: p}, Res: &res},
	}})
	if err != nil {
		return 0, 0, verf, err
	}
	if uint64(res.Count) > uint64(len(p)) {
		return 0, 0, verf, fmt.Errorf("%w: %d of %d bytes written", errReply, res.Count, len(p))
	}
	return int(res.Count), res.Committed, res.WriteVerf, nil
}

// Commit makes count bytes from offset off of the file fh stable; count 0 is
// to the end. What was written under another verf is lost and must be written
// again.
func (c *Client) Commit(ctx context.Context, cred rpc.Cred, fh nfs4.FH, off uint64, count uint32) (verf nfs4.Verifier, err error) {
	var res nfs4.CommitRes
	err = c.do(ctx, cred, message{ops: []Op{
		putFH(fh),
		{Num: nfs4.OpCommit, Args: &nfs4.CommitArgs{Offset: off, Count: count}, Res: &res},
	}})
	return res.WriteVerf, err
}

func putFH(fh nfs4.FH) Op { return Op{Num: nfs4.OpPutFH, Args: &nfs4.PutFHArgs{Object: fh}} }
