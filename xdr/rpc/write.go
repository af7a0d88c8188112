package rpc

import (
	"net"
	"runtime"
	"sync"
	"time"
)

const (
	// smallPacket is up to what size packets are copied together, for an own
	// entry in writev's vector costs more.
	smallPacket = 4 << 10
	// writeChunk is how many bytes go out under one deadline, about.
	writeChunk = 1 << 20
)

// packet is one record to write, its mark included. w is the call it answers;
// nil for a call of our own.
type packet struct {
	buf *buffer
	w   *work
}

// combiner writes packets from many goroutines with few system calls: who
// finds nobody writing writes, for the others too.
type combiner struct {
	mu        sync.Mutex
	queue     []*packet
	spare     []*packet // the array that queue does not use
	active    bool      // somebody writes
	scheduled bool      // a goroutine that will is started
	closed    bool
	run       func() // Conn.flush

	// The writer's own:
	vec      [][]byte
	buffers  net.Buffers
	deadline time.Time
}

// enqueue queues p; flush or flushSoon sends it.
func (c *Conn) enqueue(p *packet) {
	c.out.mu.Lock()
	closed := c.out.closed
	if !closed {
		c.out.queue = append(c.out.queue, p)
	}
	c.out.mu.Unlock()
	if closed {
		c.written(p)
	}
}

// flushSoon has another goroutine flush, for a caller that must not wait for
// the peer.
func (c *Conn) flushSoon() {
	c.out.mu.Lock()
	start := !c.out.active && !c.out.scheduled
	c.out.scheduled = c.out.scheduled || start
	c.out.mu.Unlock()
	if start {
		go c.out.run()
	}
}

// flush writes what is queued, or leaves it to who is writing.
func (c *Conn) flush() {
	o := &c.out
	if c.inflight.Load() > 1 && !c.cfg.Inline {
		runtime.Gosched() // let others that are about to answer share the write
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.scheduled = false
	if o.active {
		return
	}
	o.active = true
	for len(o.queue) > 0 {
		batch := o.queue
		o.queue = o.spare[:0]
		closed := o.closed
		o.mu.Unlock()
		if !closed {
			if err := c.writeBatch(batch); err != nil {
				c.fail(err)
			}
		}
		for _, p := range batch {
			c.written(p)
		}
		clear(batch)
		o.mu.Lock()
		o.spare = batch[:0]
	}
	o.active = false
}

// discard gives up what is queued and what will be.
func (c *Conn) discard() {
	c.out.mu.Lock()
	c.out.closed = true
	c.out.mu.Unlock()
	c.flush()
}

// written ends a packet's life, whether it was written or not.
func (c *Conn) written(p *packet) {
	if p.w != nil {
		c.release(p.w)
		return
	}
	c.cfg.pool.put(p.buf)
	p.buf = nil
	c.cfg.pool.packets.Put(p)
}

// writeBatch writes packets in their order, small ones copied together.
func (c *Conn) writeBatch(batch []*packet) error {
	vec := c.out.vec[:0]
	if len(batch) == 1 {
		return c.write(append(vec, batch[0].buf.b))
	}
	scratch := c.cfg.pool.get(64 << 10)
	defer c.cfg.pool.put(scratch)
	size, start := 0, 0 // bytes in vec and scratch; where scratch is not in vec yet
	for _, p := range batch {
		b := p.buf.b
		size += len(b)
		if len(b) <= smallPacket && cap(scratch.b)-len(scratch.b) >= len(b) {
			scratch.b = append(scratch.b, b...)
			continue
		}
		if len(scratch.b) > start {
			vec = append(vec, scratch.b[start:])
			start = len(scratch.b)
		}
		vec = append(vec, b)
		if size >= writeChunk {
			if err := c.write(vec); err != nil {
				return err
			}
			vec, size, start = c.out.vec[:0], 0, 0
			scratch.b = scratch.b[:0]
		}
	}
	if len(scratch.b) > start {
		vec = append(vec, scratch.b[start:])
	}
	if len(vec) == 0 {
		return nil
	}
	return c.write(vec)
}

// write writes vec under the stall timeout.
func (c *Conn) write(vec [][]byte) error {
	o := &c.out
	// Moving a deadline costs a timer; one that is three quarters away will do.
	if now := time.Now(); o.deadline.Sub(now) < c.cfg.StallTimeout*3/4 {
		o.deadline = now.Add(c.cfg.StallTimeout)
		if err := c.nc.SetWriteDeadline(o.deadline); err != nil {
			return err
		}
	}
	o.vec = vec
	var n int64
	var err error
	if len(vec) == 1 {
		var n1 int
		n1, err = c.nc.Write(vec[0])
		n = int64(n1)
	} else {
		o.buffers = vec
		n, err = o.buffers.WriteTo(c.nc)
	}
	clear(o.vec)
	c.cfg.Observer.Sent(int(n))
	return err
}
