package rpc

import "manifold/xdr"

// work is one call from its record to its written reply.
type work struct {
	c    *Conn
	call Call
	out  Reply
	rec  *buffer
	pkt  packet
	// secured is the call, if it came by RPCSEC_GSS.
	secured Secured
	held    int    // bytes counted in Conn.held
	run     func() // serveDone, bound once so that starting a goroutine allocates nothing
}

// spareWorkers is how many goroutines of one connection wait for a next call
// when theirs is done. Their stacks have grown to what a handler needs, which a
// new goroutine's would have to do again at each call.
const spareWorkers = 8

// newWork takes a work from the pool for a call in rec, its reply's header
// written.
func (p *pools) newWork(c *Conn, xid uint32, rec *buffer) *work {
	w, _ := p.work.Get().(*work)
	if w == nil {
		w = &work{}
		w.run = w.serveDone
	}
	w.c, w.rec, w.held = c, rec, cap(rec.b)
	w.call = Call{XID: xid, Size: len(rec.b)}
	buf := p.get(sizes[0])
	w.out = Reply{Enc: xdr.NewEncoder(buf.b), c: c, buf: buf, xid: xid, inline: c.cfg.Inline}
	w.out.begin()
	w.pkt = packet{w: w}
	return w
}

// putWork gives back w and its buffers.
func (p *pools) putWork(w *work) {
	if w.rec != nil {
		p.put(w.rec)
	}
	if w.out.buf != nil {
		p.put(w.out.buf)
	}
	w.c, w.rec = nil, nil
	if w.call.Cred.Flavor == AuthGSS {
		w.secured = Secured{}
	}
	w.call, w.out, w.pkt = Call{}, Reply{}, packet{}
	p.work.Put(w)
}

// serveDone serves w, and further calls as long as the connection has few
// spare workers.
func (w *work) serveDone() {
	c := w.c
	defer c.wg.Done()
	for {
		w.serve()
		if c.spare.Add(1) > spareWorkers {
			c.spare.Add(-1)
			return
		}
		select {
		case w = <-c.next:
			c.spare.Add(-1)
		case <-c.done:
			return
		}
	}
}

// serve runs the handler and sends its reply, or, while the goroutine that
// reads is ours, leaves it to be sent before the next wait. moved says that
// reading went on elsewhere.
func (w *work) serve() (moved bool) {
	c := w.c
	if w.call.Cred.Flavor == AuthGSS {
		w.serveSecured()
	} else {
		c.h.ServeRPC(c.ctx, c, &w.call, &w.out)
	}
	moved = w.out.moved
	w.answer()
	if moved || !c.cfg.Inline {
		c.flush()
	}
	return moved
}

// answer queues the reply. w is not the caller's any more.
func (w *work) answer() {
	c := w.c
	if w.out.state == replyDropped {
		c.fail(errDropped)
		c.release(w)
		return
	}
	w.out.finish()
	if w.out.state == replyRejected {
		c.cfg.Observer.Rejected(w.out.reject)
	}
	w.pkt.buf = w.out.buf
	grown := cap(w.out.buf.b)
	w.held += grown
	c.mu.Lock()
	c.hold(grown)
	c.mu.Unlock()
	c.enqueue(&w.pkt)
}

// hold counts bytes of buffers of calls in work. mu is held.
func (c *Conn) hold(bytes int) {
	c.held += bytes
	c.cfg.held.Add(int64(bytes))
}

// release ends the work on a call.
func (c *Conn) release(w *work) {
	c.mu.Lock()
	c.hold(-w.held)
	if c.inflight.Add(-1) == 0 && c.draining {
		c.setIdle()
	}
	c.room.Signal()
	c.mu.Unlock()
	c.cfg.pool.putWork(w)
}
