package script_test

import (
	"fmt"
	"strings"

	"manifold/layout"
	"manifold/layout/files"
	nfs "manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// plan is a layout that a client has, with the way to the data servers.
type plan struct {
	id    nfs4.Stateid
	rw    bool
	body  layout.Layout
	addrs []string // of the device's data servers
}

// layoutGet shows all that a layout says.
func (c *client) layoutGet(a args) string {
	o := c.file(a.word(1))
	p, s := c.getLayout(a, o, a.word(2) == "rw")
	if s != nfs4.OK {
		return say(s)
	}
	return c.describe(p)
}

func (c *client) describe(p *plan) string {
	mode := "r"
	if p.rw {
		mode = "rw"
	}
	var on []string
	for i := range p.addrs {
		on = append(on, c.s.cluster.at(p.addrs[(i+p.body.Stripe.First)%len(p.addrs)]))
	}
	return fmt.Sprintf("%s %s, %s, unit %s: %s", c.s.names.stateid("l", p.id), mode, c.s.names.device(p.body.Device),
		bytesOf(p.body.Stripe.Unit), strings.Join(on, " "))
}

// getLayout asks for a layout of the whole file, by the layout stateid if there
// is one, and for its device.
func (c *client) getLayout(a args, o *open, rw bool) (*plan, nfs4.Status) {
	c.mu.Lock()
	args := nfs4.LayoutGetArgs{
		LayoutType: nfs4.LayoutFiles, IOMode: nfs4.IOModeRead, Length: nfs4.LengthToEnd, MinLength: 4096,
		Stateid: nfs4.Stateid{Other: o.id.Other}, MaxCount: 4096,
	}
	if rw {
		args.IOMode = nfs4.IOModeRW
	}
	if o.plan != nil {
		args.Stateid = o.plan.id
	}
	c.mu.Unlock()
	var r nfs4.LayoutGetRes
	if s := c.ask(a, putFH(o.fh), nfs.Op{Num: nfs4.OpLayoutGet, Args: &args, Res: &r}); s != nfs4.OK {
		return nil, s
	}
	c.s.names.stateid("l", r.Stateid) // in the story's order, not that of recalls
	if len(r.Layouts) != 1 {
		panic(broken{fmt.Errorf("%d layouts", len(r.Layouts))})
	}
	body, err := files.DecodeLayout(r.Layouts[0].Body)
	check(err)
	p := &plan{id: r.Stateid, rw: r.Layouts[0].IOMode == nfs4.IOModeRW, body: body}
	var info nfs4.GetDeviceInfoRes
	s := c.ask(a, nfs.Op{Num: nfs4.OpGetDeviceInfo, Args: &nfs4.GetDeviceInfoArgs{
		DeviceID: body.Device, LayoutType: nfs4.LayoutFiles, MaxCount: 1 << 16,
	}, Res: &info})
	if s != nfs4.OK {
		return nil, s
	}
	dev, err := files.DecodeDevice(info.DeviceAddr.AddrBody)
	check(err)
	for _, paths := range dev.Paths {
		p.addrs = append(p.addrs, paths[0].AddrPort.String())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o.plan = p
	return p, nfs4.OK
}

func layoutCommitOp(id nfs4.Stateid, end uint64) nfs.Op {
	a := &nfs4.LayoutCommitArgs{Length: end, Stateid: id, LayoutUpdate: nfs4.LayoutUpdate{Type: nfs4.LayoutFiles}}
	if end > 0 {
		a.LastWriteOffset = nfs4.NewOffset{Present: true, Offset: end - 1}
	}
	return nfs.Op{Num: nfs4.OpLayoutCommit, Args: a, Res: &nfs4.LayoutCommitRes{}}
}

// layoutCommit tells the metadata server how far was written, or what the
// command says.
func (c *client) layoutCommit(a args) string {
	o := c.file(a.word(1))
	if o.plan == nil {
		return "no layout"
	}
	s := c.ask(a, putFH(o.fh), layoutCommitOp(o.plan.id, a.num("size", o.end)))
	if s == nfs4.OK {
		c.mu.Lock()
		defer c.mu.Unlock()
		o.end = 0
	}
	return say(s)
}

func layoutReturnOp(id nfs4.Stateid, m nfs4.IOMode, r *nfs4.LayoutReturnRes) nfs.Op {
	return nfs.Op{Num: nfs4.OpLayoutReturn, Args: &nfs4.LayoutReturnArgs{
		LayoutType: nfs4.LayoutFiles, IOMode: m,
		Return: nfs4.LayoutReturn{Kind: nfs4.LayoutReturnFile, File: nfs4.LayoutReturnRange{Length: nfs4.LengthToEnd, Stateid: id}},
	}, Res: r}
}

func (c *client) layoutReturn(a args) string {
	o := c.file(a.word(1))
	if o.plan == nil {
		return "no layout"
	}
	s := c.ask(a, putFH(o.fh), layoutReturnOp(o.plan.id, nfs4.IOModeAny, &nfs4.LayoutReturnRes{}))
	c.mu.Lock()
	defer c.mu.Unlock()
	o.plan = nil
	return say(s)
}
