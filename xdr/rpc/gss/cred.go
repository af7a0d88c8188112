package gss

import (
	"manifold/xdr"
	"manifold/xdr/rpc"
)

const (
	version = 1
	// maxSeq is the first sequence number that a context may not use (RFC 2203
	// section 5.3.3.1).
	maxSeq = 0x80000000
	// maxHandle bounds the handles that we take; ours have 16 bytes.
	maxHandle = 128
	// maxToken bounds tokens. A Kerberos ticket with a large PAC has some 40 KiB.
	maxToken = 64 << 10
)

// proc is an rpc_gss_proc_t.
type proc uint32

const (
	procData proc = iota
	procInit
	procContinue
	procDestroy
)

// credential is an rpc_gss_cred_vers_1_t (RFC 2203 section 5).
type credential struct {
	proc    proc
	seq     uint32
	service rpc.Service
	handle  []byte // aliases what it was read from
}

// decode reads the body of a credential; false: it is none that we know.
func (c *credential) decode(body []byte) bool {
	d := xdr.NewDecoder(body)
	v := d.Uint32()
	c.proc, c.seq, c.service = proc(d.Uint32()), d.Uint32(), rpc.Service(d.Uint32())
	c.handle = d.Opaque(maxHandle)
	return d.Err() == nil && d.Remaining() == 0 && v == version && c.proc <= procDestroy &&
		c.service >= rpc.ServiceNone && c.service <= rpc.ServicePrivacy
}

func (c *credential) encode(e *xdr.Encoder) {
	e.Uint32(version)
	e.Uint32(uint32(c.proc))
	e.Uint32(c.seq)
	e.Uint32(uint32(c.service))
	e.Opaque(c.handle)
}

// initRes is an rpc_gss_init_res (RFC 2203 section 5.2.3).
type initRes struct {
	handle       []byte
	major, minor uint32
	window       uint32
	token        []byte
}

func (r *initRes) encode(e *xdr.Encoder) {
	e.Opaque(r.handle)
	e.Uint32(r.major)
	e.Uint32(r.minor)
	e.Uint32(r.window)
	e.Opaque(r.token)
}

func (r *initRes) decode(d *xdr.Decoder) {
	r.handle = d.Opaque(maxHandle)
	r.major, r.minor, r.window = d.Uint32(), d.Uint32(), d.Uint32()
	r.token = d.Opaque(maxToken)
}
