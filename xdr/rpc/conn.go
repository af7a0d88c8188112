package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"manifold/xdr"
)

// ErrClosed is what a Request gets when the connection closed before its
// reply came, or had closed already. Whether the peer ran the call is unknown.
var ErrClosed = errors.New("rpc: connection closed")

// errDropped is why a connection closes after Reply.Drop.
var errDropped = errors.New("rpc: call dropped by its handler")

// errSilent is why a connection closes on which no first record came in time.
var errSilent = errors.New("rpc: no first record in time")

// Conn is one connection, on which either end may call the other. Its methods
// may be called from any goroutine.
type Conn struct {
	cfg    *Config
	nc     net.Conn
	h      Handler
	id     uint64
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	wg     sync.WaitGroup // handlers and, under Inline, further readers
	next   chan *work     // to a worker that has nothing to do
	spare  atomic.Int32   // workers that have nothing to do

	rd    recordReader // the reading goroutine's
	creds credCache    // the reading goroutine's

	mu       sync.Mutex
	room     sync.Cond // a call was answered, or err or draining set
	err      error     // why it closed
	held     int       // bytes of buffers of calls in work
	draining bool
	idle     chan struct{} // closed when draining and nothing is in work
	calls    map[uint32]*wait
	xid      uint32

	inflight atomic.Int64 // calls not answered; changed under mu

	out combiner
}

// NewConn returns a Conn over nc that answers calls with h; with a nil h every
// call is answered ProgUnavail. Handlers' contexts derive from ctx, but its end
// does not close the Conn. Nothing is read until Serve runs.
func NewConn(ctx context.Context, nc net.Conn, h Handler, cfg *Config) *Conn {
	cfg.fill()
	if h == nil {
		h = nobody{}
	}
	c := &Conn{
		cfg: cfg, nc: nc, h: h,
		id:    max(rand.Uint64(), 1),
		done:  make(chan struct{}),
		next:  make(chan *work),
		idle:  make(chan struct{}),
		rd:    newRecordReader(nc, cfg),
		calls: map[uint32]*wait{},
		xid:   rand.Uint32(),
	}
	c.room.L = &c.mu
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.out.run = c.flush
	cfg.Observer.ConnOpened(c)
	return c
}

// nobody is the Handler of those who only call.
type nobody struct{}

func (nobody) ServeRPC(_ context.Context, _ *Conn, _ *Call, out *Reply) {
	out.Reject(Reject{Stat: ProgUnavail})
}

// Serve reads records until the connection closes, then waits for the handlers
// that still run, and returns why it closed: io.EOF if the peer did between
// two records, ErrClosed if we did. Call it once.
func (c *Conn) Serve() error {
	c.read()
	c.wg.Wait()
	<-c.done // after a Shutdown reading ends before the connection does
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// read reads records until it cannot or another goroutine takes over.
func (c *Conn) read() {
	for {
		if c.cfg.Inline && !c.rd.ready() {
			c.flush()
		}
		if !c.admit() {
			c.flush()
			return
		}
		rec, err := c.rd.next()
		if err != nil {
			c.readFailed(err)
			return
		}
		c.cfg.Observer.Received(len(rec.b))
		moved, err := c.dispatch(rec)
		if err != nil {
			c.cfg.pool.put(rec)
			c.fail(err)
			return
		}
		if moved {
			return
		}
	}
}

// admit waits until one more call may be read; false: none is to be.
func (c *Conn) admit() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full() && c.cfg.Inline {
		// What fills it may be replies that wait for a common write.
		c.mu.Unlock()
		c.flush()
		c.mu.Lock()
	}
	for c.full() && c.err == nil && !c.draining {
		c.room.Wait()
	}
	return c.err == nil && !c.draining
}

// full is called with mu held.
func (c *Conn) full() bool {
	return int(c.inflight.Load()) >= c.cfg.MaxInFlight || c.held >= c.cfg.MaxBytes ||
		c.held > 0 && c.cfg.held.Load() >= c.cfg.MaxTotalBytes
}

// readFailed ends the connection, unless it was Shutdown that broke off the read.
func (c *Conn) readFailed(err error) {
	c.mu.Lock()
	draining := c.draining
	c.mu.Unlock()
	if draining && errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	if c.cfg.FirstRecord > 0 && !c.rd.begun && errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent
	}
	c.fail(err)
}

// dispatch hands one record to whom it is for, and owns it unless it returns
// an error. moved says that another goroutine reads from here on.
func (c *Conn) dispatch(rec *buffer) (moved bool, err error) {
	d := xdr.NewDecoder(rec.b)
	xid, kind := d.Uint32(), d.Uint32()
	if d.Err() != nil {
		return false, fmt.Errorf("%w: %w", errMessage, d.Err())
	}
	switch kind {
	case msgReply:
		c.deliver(xid, rec)
		return false, nil
	case msgCall:
		return c.accept(xid, &d, rec)
	}
	return false, fmt.Errorf("%w: msg_type %d", errMessage, kind)
}

// accept starts the work on a call.
func (c *Conn) accept(xid uint32, d *xdr.Decoder, rec *buffer) (moved bool, err error) {
	w := c.cfg.pool.newWork(c, xid, rec)
	var secured *Secured
	if c.cfg.Acceptor != nil {
		secured = &w.secured
	}
	rej, reject, err := w.call.decodeCall(d, &c.creds, c.cfg.Flavors, secured)
	if err != nil {
		w.rec = nil // the caller's again
		c.cfg.pool.putWork(w)
		return false, err
	}
	c.mu.Lock()
	c.inflight.Add(1)
	c.hold(w.held)
	c.mu.Unlock()
	switch {
	case reject:
		w.out.Reject(rej)
		w.answer()
		if !c.cfg.Inline {
			c.flushSoon()
		}
		return false, nil
	case c.cfg.Inline:
		return w.serve(), nil
	}
	select {
	case c.next <- w: // a spare worker takes it
	default:
		c.wg.Add(1)
		go w.run()
	}
	return false, nil
}

// handOver lets another goroutine go on reading while the caller, which was
// reading, runs a handler that may wait.
func (c *Conn) handOver() {
	c.flush()
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		c.read()
	}()
}

// fail closes the connection for the reason err; only the first counts.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	c.room.Broadcast()
	c.mu.Unlock()
	// The socket goes first: what handlers answer because their context ended
	// must not reach the peer.
	c.nc.Close()
	c.discard()
	c.cancel()
	close(c.done)
	c.report(err)
}

// report tells log and Observer of the end: a line for a peer at fault.
func (c *Conn) report(err error) {
	switch {
	case errors.Is(err, errSilent): // there may be many
		c.cfg.Log.Debug("connection closed", zap.Stringer("peer", c.RemoteAddr()), zap.Error(err))
	case errors.Is(err, errRecord), errors.Is(err, errMessage), errors.Is(err, errDropped),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded):
		c.cfg.Log.Warn("connection closed", zap.Stringer("peer", c.RemoteAddr()), zap.Error(err))
	default:
		c.cfg.Log.Debug("connection closed", zap.Stringer("peer", c.RemoteAddr()), zap.Error(err))
	}
	c.cfg.Observer.ConnClosed(c, err)
}

// Shutdown stops reading, waits until the calls in work are answered or ctx
// ends, and closes the connection. It returns ctx's error if that ended first.
// Our own calls that wait for a reply fail.
func (c *Conn) Shutdown(ctx context.Context) error {
	c.mu.Lock()
	if !c.draining {
		c.draining = true
		if c.inflight.Load() == 0 {
			c.setIdle()
		}
		c.room.Broadcast()
	}
	c.mu.Unlock()
	// The reader looks at draining after it clears a deadline, so this breaks
	// off its wait for a next record.
	c.nc.SetReadDeadline(time.Unix(1, 0))
	defer c.Close()
	select {
	case <-c.idle:
		return nil
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// setIdle is called with mu held. A call that was being read when Shutdown
// began can come in after it, so it may be called twice.
func (c *Conn) setIdle() {
	select {
	case <-c.idle:
	default:
		close(c.idle)
	}
}

// Close closes the connection: waiting calls fail with ErrClosed, and the
// handlers' context is cancelled. It does not wait for them.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	return nil
}

// Done is closed when the connection is.
func (c *Conn) Done() <-chan struct{} { return c.done }

// ID tells this connection from every other in the process: a random number,
// never 0.
func (c *Conn) ID() uint64 { return c.id }

// LocalAddr is our address.
func (c *Conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }
