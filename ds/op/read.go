package op

import (
	"context"
	"errors"
	"math"

	"manifold/layout"
	"manifold/xdr"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// read is READ (RFC 8881 section 18.22). The data goes from the store straight
// into the reply. An object may end before its file does, for what was never
// written to it is not there: up to the file's end that reads as zeros. eof is
// true only if the READ went past the file's end; one that ends just there says
// so if the size had to be asked for anyhow (section 18.22.3 wants it then, no
// client needs it, and to ask each time would cost a round trip).
func (o *Ops) read(ctx context.Context, c *compound.Call, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
	var a nfs4.ReadArgs
	a.DecodeXDR(d)
	if d.Err() != nil {
		return compound.BadXDR(d.Err())
	}
	obj, p, status := o.enter(c, layout.RightRead)
	if status != nfs4.OK {
		return status
	}
	defer p.leave()
	o.ops.Add(1)
	count, status := o.readCount(c, &a)
	if status != nfs4.OK {
		return status
	}
	c.Grow(readReply + count + 3) // 3: padding
	start := e.Len()
	e.Bool(false)
	e.Uint32(0)
	n, eof, status := o.fill(ctx, obj, e.Reserve(count), a.Offset)
	if status != nfs4.OK {
		e.Truncate(start)
		return status
	}
	e.Truncate(start + readReply + n)
	e.Pad(n)
	if eof {
		e.SetUint32(start, 1)
	}
	e.SetUint32(start+4, uint32(n))
	o.readBytes.Add(uint64(n))
	return nfs4.OK
}

// readCount is how many bytes a READ may return: what is asked for, cut to the
// server's limit and to what the session's reply still holds.
func (o *Ops) readCount(c *compound.Call, a *nfs4.ReadArgs) (int, nfs4.Status) {
	room := (c.Room() - readReply) &^ 3 // the data's padding is part of the reply
	if room <= 0 && a.Count > 0 {
		return 0, nfs4.ErrRepTooBig // 0 bytes without eof would be EIO at the client
	}
	return int(min(uint64(a.Count), uint64(o.cfg.MaxIO), uint64(max(room, 0)))), nfs4.OK
}

// fill reads the file at off into buf and returns how many bytes of it are
// valid, and whether the file ends there.
func (o *Ops) fill(ctx context.Context, obj layout.Object, buf []byte, off uint64) (n int, eof bool, _ nfs4.Status) {
	if off >= math.MaxInt64 {
		return 0, true, nfs4.OK // no file is that long: WRITE answers FBIG
	}
	buf = buf[:min(uint64(len(buf)), math.MaxInt64-off)]
	n, err := o.cfg.Store.ReadAt(obj, buf, int64(off))
	if err != nil {
		return 0, false, o.failed("read", obj, err)
	}
	if n == len(buf) {
		return n, off+uint64(n) == math.MaxInt64, nfs4.OK
	}
	size, err := o.sizes.get(ctx, obj, off+uint64(len(buf)))
	if err != nil {
		return o.unknownEnd(n, err)
	}
	// What the object holds now was perhaps not there when it was read, but
	// counts in size: zeros would be wrong for it.
	more, err := o.cfg.Store.ReadAt(obj, buf[n:], int64(off)+int64(n))
	if err != nil {
		return 0, false, o.failed("read", obj, err)
	}
	n += more
	end := off + uint64(len(buf))
	if size < end {
		// Bytes past the size were written and not LAYOUTCOMMITted yet.
		filled := max(n, int(max(size, off)-off))
		clear(buf[n:filled])
		return filled, true, nfs4.OK
	}
	clear(buf[n:])
	return len(buf), size == end, nfs4.OK
}

// unknownEnd answers a READ of which n bytes are there, when the metadata
// server did not say how long the file is. Without data there is no right
// answer: 0 bytes with eof may cut the file short, zeros may not be in it. So an
// error sends the client to the metadata server with this READ.
func (o *Ops) unknownEnd(n int, err error) (int, bool, nfs4.Status) {
	var s nfs4.Status
	switch {
	case n > 0:
		return n, false, nfs4.OK
	case errors.As(err, &s) && (s == nfs4.ErrStale || s == nfs4.ErrNoEnt):
		return 0, false, nfs4.ErrStale
	default:
		return 0, false, nfs4.ErrServerFault
	}
}
