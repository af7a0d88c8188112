package compound

import (
	"bytes"
	"context"
	"sync"

	"manifold/xdr"
	"manifold/xdr/nfs4"
)

// blob is an argument or result of bytes.
type blob struct{ b []byte }

func (x *blob) EncodeXDR(e *xdr.Encoder) { e.Opaque(x.b) }
func (x *blob) DecodeXDR(d *xdr.Decoder) { x.b = d.Opaque(1 << 20) }

// number is an argument of four bytes.
type number struct{ n uint32 }

func (x *number) EncodeXDR(e *xdr.Encoder) { e.Uint32(x.n) }
func (x *number) DecodeXDR(d *xdr.Decoder) { x.n = d.Uint32() }

// role is a table of made-up operations under real numbers, with what they
// did. ACCESS waits for hold, VERIFY panics, READ answers as many bytes as it
// is asked for, and WRITE too whatever its bound says.
type role struct {
	mu     sync.Mutex
	ran    map[string]int
	hold   chan struct{} // ACCESS waits until it is closed
	held   chan struct{} // ACCESS tells that it waits
	ctxErr error         // why ACCESS's wait ended
}

func newRole() *role {
	return &role{ran: map[string]int{}, hold: make(chan struct{}), held: make(chan struct{}, 100)}
}

func (r *role) count(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran[name]++
}

func (r *role) runs(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ran[name]
}

const writeBody = 16

func (r *role) table() Table {
	return Table{
		nfs4.OpPutFH:       {Name: "PUTFH", Flags: ClearsStateid, Minors: V41Up, Run: Args(r.putfh)},
		nfs4.OpLookup:      {Name: "LOOKUP", Flags: NeedsFH | ClearsStateid, Minors: V41Up, Run: Args(r.lookup)},
		nfs4.OpGetattr:     {Name: "GETATTR", Flags: NeedsFH, Minors: V41Up, Run: Handle(r.getattr)},
		nfs4.OpSecinfo:     {Name: "SECINFO", Flags: NeedsFH, Minors: V41Up, Run: Void(r.consume)},
		nfs4.OpOpen:        {Name: "OPEN", Flags: NeedsFH | ClearsStateid | Modifies, Minors: V41Up, ReplyMax: 16, Run: Handle(r.open)},
		nfs4.OpCreate:      {Name: "CREATE", Flags: NeedsFH | ClearsStateid | Modifies, Minors: V41Up, Run: Args(r.lookup)},
		nfs4.OpClose:       {Name: "CLOSE", Flags: NeedsFH, Minors: V41Up, Run: Handle(r.current)},
		nfs4.OpLockU:       {Name: "LOCKU", Flags: NeedsFH, Minors: V41Up, Run: Handle(r.current)},
		nfs4.OpFreeStateid: {Name: "FREE_STATEID", Minors: V41Up, Run: Handle(r.current)},
		nfs4.OpLink:        {Name: "LINK", Flags: NeedsFH | NeedsSavedFH, Minors: V41Up, Run: Void(r.link)},
		nfs4.OpRead:        {Name: "READ", Flags: NeedsFH, Minors: V41Up, Run: r.read},
		nfs4.OpWrite:       {Name: "WRITE", Flags: NeedsFH | Modifies, Minors: V41Up, ReplyMax: writeBody, Run: Handle(r.write)},
		nfs4.OpSetattr:     {Name: "SETATTR", Flags: NeedsFH | Modifies, Minors: V41Up, ReplyMax: 16, Run: Handle(r.setattr)},
		nfs4.OpVerify:      {Name: "VERIFY", Minors: V41Up, Run: r.panics},
		nfs4.OpAccess:      {Name: "ACCESS", Minors: V41Up, Run: Void(r.wait)},
		nfs4.OpAllocate:    {Name: "ALLOCATE", Minors: V42, Run: Void(r.link)},
		nfs4.OpOpenAttr:    {Name: "OPENATTR", Minors: V41Up &^ V42, Run: Void(r.link)},
		nfs4.OpSetClientID: {Name: "SETCLIENTID", Minors: V41Up}, // a row without a function
	}
}

func (r *role) putfh(_ context.Context, c *Call, a *nfs4.PutFHArgs) nfs4.Status {
	if len(a.Object) == 0 {
		return nfs4.ErrBadHandle
	}
	c.SetFH(a.Object, string(a.Object))
	return nfs4.OK
}

func (r *role) lookup(_ context.Context, c *Call, a *blob) nfs4.Status {
	if string(a.b) == "none" {
		return nfs4.ErrNoEnt
	}
	name := c.File.(string) + "/" + string(a.b)
	c.SetFH(nfs4.FH(name), name)
	return nfs4.OK
}

func (r *role) getattr(_ context.Context, c *Call, a *nfs4.GetattrArgs, res *nfs4.GetattrRes) nfs4.Status {
	res.ObjAttributes.Mask.Set(nfs4.AttrSize)
	res.ObjAttributes.Size = uint64(len(c.File.(string)))
	return nfs4.OK
}

func (r *role) consume(_ context.Context, c *Call) nfs4.Status {
	c.SetFH(nil, nil)
	return nfs4.OK
}

// open sets the stateid before the filehandle if its name begins with x.
func (r *role) open(ctx context.Context, c *Call, a *blob, res *nfs4.Stateid) nfs4.Status {
	r.count("OPEN")
	*res = nfs4.Stateid{Seqid: 7, Other: [12]byte{1, byte(len(a.b))}}
	if bytes.HasPrefix(a.b, []byte("x")) {
		c.SetStateid(*res)
		return r.lookup(ctx, c, a)
	}
	s := r.lookup(ctx, c, a)
	c.SetStateid(*res)
	return s
}

func (r *role) current(_ context.Context, c *Call, _ *number, res *nfs4.Stateid) nfs4.Status {
	*res = nfs4.StateidCurrent()
	return c.Resolve(res)
}

func (r *role) link(context.Context, *Call) nfs4.Status { return nfs4.OK }

func (r *role) read(_ context.Context, c *Call, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
	n := int(d.Uint32())
	if d.Err() != nil {
		return BadXDR(d.Err())
	}
	if n > 1<<20 { // as much as there is room for
		n = (c.Room() - 4) &^ 3
	}
	if n > 3000 {
		return nfs4.ErrRepTooBig
	}
	c.Grow(n + 4)
	e.Uint32(uint32(n))
	clear(e.Reserve(n))
	e.Pad(n)
	return nfs4.OK
}

func (r *role) write(_ context.Context, _ *Call, a *number, res *blob) nfs4.Status {
	r.count("WRITE")
	res.b = make([]byte, min(a.n, 1<<20))
	return nfs4.OK
}

func (r *role) setattr(_ context.Context, _ *Call, a *number, res *nfs4.SetattrRes) nfs4.Status {
	res.AttrsSet.Set(nfs4.AttrSize)
	return nfs4.Status(a.n)
}

func (r *role) panics(_ context.Context, _ *Call, _ *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
	e.Uint32(1) // a part of a result, which must not reach the peer
	panic("oh no")
}

func (r *role) wait(ctx context.Context, _ *Call) nfs4.Status {
	r.count("ACCESS")
	r.held <- struct{}{}
	select {
	case <-r.hold:
		return nfs4.OK
	case <-ctx.Done():
		r.ctxErr = ctx.Err()
		return nfs4.ErrIO
	}
}
