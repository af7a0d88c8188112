package script_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	nfs "manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// byteAt is what pattern p, from 1 to 15, has at an offset: never 0, and never
// what another pattern has there.
func byteAt(p, off uint64) byte {
	return byte(p<<4) | byte((off*2654435761)>>13)&15
}

func pattern(p, off, n uint64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byteAt(p, off+uint64(i))
	}
	return b
}

// contents says of which patterns the bytes from off on are.
func contents(b []byte, off uint64) string {
	var out []string
	for len(b) > 0 {
		p := uint64(b[0] >> 4)
		n := uint64(0)
		for n < uint64(len(b)) && (p == 0 && b[n] == 0 || p != 0 && b[n] == byteAt(p, off+n)) {
			n++
		}
		switch {
		case n == 0:
			return strings.Join(append(out, fmt.Sprintf("garbage at %d", off)), ", ")
		case p == 0:
			out = append(out, bytesOf(n)+" of zeros")
		default:
			out = append(out, fmt.Sprintf("%s of %d", bytesOf(n), p))
		}
		b, off = b[n:], off+n
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

// write writes a pattern, to the data servers by the layout, which it gets if
// there is none, or by way of the metadata server.
func (c *client) write(a args) string {
	o := c.file(a.word(1))
	off, n := a.num("off", 0), a.num("len", 0)
	data := pattern(a.num("pattern", 1), off, n)
	if a.str("via", "layout") == "mds" {
		return c.writeMDS(a, o, off, data)
	}
	p, s := c.layoutFor(a, o, true)
	if s != nfs4.OK {
		return "LAYOUTGET: " + say(s)
	}
	wrote, verf := map[int]uint64{}, map[int]nfs4.Verifier{}
	for piece := range p.body.Stripe.Pieces(off, n) {
		part := data[piece.Offset-off:][:piece.Length]
		for at := piece.Offset; len(part) > 0; {
			var took int
			answer := c.atDS(o, p, piece.Index, func(ctx context.Context, d *nfs.Client) (err error) {
				var v nfs4.Verifier
				took, _, v, err = d.Write(ctx, c.cred, p.body.FHs[piece.Index], o.id, at, part, nfs4.Unstable)
				verf[piece.Index] = v
				return err
			})
			if answer != "" {
				return answer
			}
			wrote[piece.Index] += uint64(took)
			part, at = part[took:], at+uint64(took)
		}
	}
	if answer := c.commitDS(a, o, p, verf); answer != "" {
		return answer
	}
	c.mu.Lock()
	o.end = max(o.end, off+n)
	c.mu.Unlock()
	return c.shares(p, wrote)
}

// shares says how many bytes went to or came from each data server.
func (c *client) shares(p *plan, at map[int]uint64) string {
	var out []string
	for i, addr := range p.addrs {
		if at[i] > 0 {
			out = append(out, c.s.cluster.at(addr)+" "+bytesOf(at[i]))
		}
	}
	return strings.Join(out, ", ")
}

// commitDS makes what was written stable.
func (c *client) commitDS(a args, o *open, p *plan, verf map[int]nfs4.Verifier) string {
	if a.has("nocommit") {
		return ""
	}
	for _, i := range sortedKeys(verf) {
		answer := c.atDS(o, p, i, func(ctx context.Context, d *nfs.Client) error {
			v, err := d.Commit(ctx, c.cred, p.body.FHs[i], 0, 0)
			if err == nil && v != verf[i] {
				return errors.New("the verifier of COMMIT is another one than that of WRITE")
			}
			return err
		})
		if answer != "" {
			return "COMMIT: " + answer
		}
	}
	return ""
}

// layoutFor returns the layout for I/O.
func (c *client) layoutFor(a args, o *open, rw bool) (*plan, nfs4.Status) {
	c.mu.Lock()
	p := o.plan
	if a.has("old") {
		p = o.old
	}
	c.mu.Unlock()
	if p != nil && (p.rw || !rw) {
		return p, nfs4.OK
	}
	return c.getLayout(a, o, rw)
}

// atDS does I/O at one data server and says what went wrong. A refusal costs
// the layout, as it does a kernel.
func (c *client) atDS(o *open, p *plan, i int, do func(context.Context, *nfs.Client) error) string {
	name := c.s.cluster.at(p.addrs[i])
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := c.dialDS(ctx, p.addrs[i])
	if err != nil {
		return name + " cannot be reached"
	}
	err = do(ctx, d)
	var oe *nfs.OpError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &oe):
		c.mu.Lock()
		defer c.mu.Unlock()
		if o.plan == p {
			o.plan, o.old = nil, p
		}
		return fmt.Sprintf("%v from %s", oe.Status, name)
	}
	return fmt.Sprintf("%s: %v", name, err)
}

// dialDS returns the session with a data server, a new one if the old one's
// connection is gone: a kernel does not wait for a data server either.
func (c *client) dialDS(ctx context.Context, addr string) (*nfs.Client, error) {
	c.mu.Lock()
	old := c.ds[addr]
	c.mu.Unlock()
	if old != nil {
		if _, conn := old.Session(); !isDone(conn.Done()) {
			return old, nil
		}
		dead, cancel := context.WithCancel(ctx)
		cancel()
		old.Close(dead)
	}
	cfg := c.cfg
	cfg.Role, cfg.Callback, cfg.Reclaim = nfs4.ExchgidFlagUsePNFSDS, nil, nil
	d, err := nfs.Dial(ctx, addr, cfg)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ds, addr)
	if err == nil {
		c.ds[addr] = d
	}
	return d, err
}

func isDone(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// awaitCut waits until the connection to a data server that was killed is gone.
func (c *client) awaitCut(addr string) {
	c.mu.Lock()
	d := c.ds[addr]
	c.mu.Unlock()
	if d == nil {
		return
	}
	_, conn := d.Session()
	eventually("the end of a connection", func() bool { return isDone(conn.Done()) })
}

func (c *client) writeMDS(a args, o *open, off uint64, data []byte) string {
	n := len(data)
	for len(data) > 0 {
		part := data[:min(len(data), 1<<20)]
		var r nfs4.WriteRes
		s := c.ask(a, putFH(o.fh), nfs.Op{Num: nfs4.OpWrite, Args: &nfs4.WriteArgs{
			Stateid: o.id, Offset: off, Stable: nfs4.FileSync, Data: part,
		}, Res: &r})
		if s != nfs4.OK {
			return say(s)
		}
		if r.Count == 0 || r.Committed != nfs4.FileSync {
			panic(broken{fmt.Errorf("WRITE took %d bytes, committed %d", r.Count, r.Committed)})
		}
		data, off = data[r.Count:], off+uint64(r.Count)
	}
	return bytesOf(uint64(n)) + " through the mds"
}

// read reads what a client sees of a range and says what is in it. The size
// comes first, as on a close-to-open mount.
func (c *client) read(a args) string {
	o := c.file(a.word(1))
	off, n := a.num("off", 0), a.num("len", 0)
	if a.str("via", "layout") == "mds" {
		return c.readMDS(a, o, off, n)
	}
	var at nfs4.GetattrRes
	if s := c.ask(a, putFH(o.fh), getattr(&at, nfs4.AttrSize)); s != nfs4.OK {
		return "GETATTR: " + say(s)
	}
	p, s := c.layoutFor(a, o, false)
	if s != nfs4.OK {
		return "LAYOUTGET: " + say(s)
	}
	b, end, answer := c.readDS(o, p, off, n)
	if answer != "" {
		return answer
	}
	if size := at.ObjAttributes.Size; end && off+uint64(len(b)) < size {
		return fmt.Sprintf("BROKEN: a data server says that the file ends at %d, it has %d", off+uint64(len(b)), size)
	}
	if end {
		return contents(b, off) + ", end"
	}
	return contents(b, off)
}

func (c *client) readDS(o *open, p *plan, off, n uint64) (b []byte, end bool, answer string) {
	b = make([]byte, n)
	for piece := range p.body.Stripe.Pieces(off, n) {
		part := b[piece.Offset-off:][:piece.Length]
		for at := piece.Offset; len(part) > 0; {
			var got int
			answer := c.atDS(o, p, piece.Index, func(ctx context.Context, d *nfs.Client) (err error) {
				got, end, err = d.Read(ctx, c.cred, p.body.FHs[piece.Index], o.id, at, part)
				return err
			})
			part, at = part[got:], at+uint64(got)
			switch {
			case answer != "":
				return nil, false, answer
			case end:
				return b[:at-off], true, ""
			case got == 0:
				return nil, false, "BROKEN: no bytes and no end"
			}
		}
	}
	return b, false, ""
}

func (c *client) readMDS(a args, o *open, off, n uint64) string {
	var all []byte
	for at := off; uint64(len(all)) < n; {
		var r nfs4.ReadRes
		s := c.ask(a, putFH(o.fh), nfs.Op{Num: nfs4.OpRead, Args: &nfs4.ReadArgs{
			Stateid: o.id, Offset: at, Count: uint32(min(n-uint64(len(all)), 1<<20)),
		}, Res: &r})
		switch {
		case s != nfs4.OK:
			return say(s)
		case r.EOF:
			return contents(append(all, r.Data...), off) + ", end"
		case len(r.Data) == 0:
			return "BROKEN: no bytes and no end"
		}
		all, at = append(all, r.Data...), at+uint64(len(r.Data))
	}
	return contents(all, off)
}
