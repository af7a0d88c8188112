package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// Client is a session with one server. Its methods may be called from any
// goroutine; more requests than slots wait for their turn.
type Client struct {
	addr   string
	cfg    Config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	last   atomic.Int64 // when a SEQUENCE last succeeded, Unix nanoseconds
	cb     callbackServer

	mu         sync.Mutex
	closed     bool
	conn       *rpc.Conn
	sess       *session
	recovering chan struct{} // closed when the recovery under way ends
	lastErr    error         // of the last recovery
	id         identity
}

// Dial connects to addr ("host:port") and makes a client id and a session
// there. ctx bounds that. A failure is not retried, later ones are.
func Dial(ctx context.Context, addr string, cfg Config) (*Client, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	c := &Client{addr: addr, cfg: cfg}
	c.cb.client = c
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := c.establish(ctx); err != nil {
		c.cancel()
		if c.conn != nil {
			c.conn.Close()
		}
		return nil, fmt.Errorf("nfs: %s: %w", addr, err)
	}
	c.wg.Go(c.renew)
	return c, nil
}

// ClientID is the client id as it is now: a server's restart changes it.
func (c *Client) ClientID() nfs4.ClientID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id.client
}

// Session returns the session id and the connection as they are now, for Send.
func (c *Client) Session() (nfs4.SessionID, *rpc.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sess == nil {
		return nfs4.SessionID{}, c.conn
	}
	return c.sess.id, c.conn
}

// Raw is Send over the Client's connection with its minor version: no SEQUENCE
// is added, nothing is recovered. A SEQUENCE in ops on a slot that the Client
// uses puts that slot out of step, which costs the Client its session.
func (c *Client) Raw(ctx context.Context, cred rpc.Cred, ops ...Op) (n int, status nfs4.Status, err error) {
	conn, _, err := c.ready(ctx)
	if err != nil {
		return 0, 0, err
	}
	return Send(ctx, conn, cred, c.cfg.Minor, ops...)
}

// Compound runs ops, after a SEQUENCE of its own, on behalf of cred, and
// decodes their results, which are the caller's. The error is an *OpError for
// an operation that failed; ErrUnknownOutcome; ctx's, with the reason why there
// was no connection; or says that the call was refused or its reply malformed.
func (c *Client) Compound(ctx context.Context, cred rpc.Cred, ops ...Op) error {
	return c.do(ctx, cred, message{ops: ops, clone: true})
}

// CompoundInPlace is Compound without a copy: results alias a buffer that is
// reused when use returns. use runs only if every operation succeeded; its
// error is returned. After an error the results are void.
func (c *Client) CompoundInPlace(ctx context.Context, cred rpc.Cred, use func() error, ops ...Op) error {
	return c.do(ctx, cred, message{ops: ops, use: use})
}

// ready returns a live connection and session, recovering them if need be.
func (c *Client) ready(ctx context.Context) (*rpc.Conn, *session, error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return nil, nil, ErrClosed
		}
		if c.conn != nil && c.sess != nil && !c.sess.isDead() {
			select {
			case <-c.conn.Done():
			default:
				conn, sess := c.conn, c.sess
				c.mu.Unlock()
				return conn, sess, nil
			}
		}
		if c.recovering == nil {
			c.recovering = make(chan struct{})
			c.wg.Go(c.recover)
		}
		wait := c.recovering
		c.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			c.mu.Lock()
			err := c.lastErr
			c.mu.Unlock()
			if err == nil {
				return nil, nil, ctx.Err()
			}
			return nil, nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// recover establishes connection and session again, for as long as it takes.
func (c *Client) recover() {
	pause := 50 * time.Millisecond
	for {
		err := c.establish(c.ctx)
		c.mu.Lock()
		c.lastErr = err
		if err == nil || c.ctx.Err() != nil {
			close(c.recovering)
			c.recovering = nil
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		c.cfg.Log.Warn("recovery failed", zap.String("server", c.addr), zap.Error(err), zap.Duration("pause", pause))
		if !sleep(c.ctx, pause) {
			continue // to the end above
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// renew keeps the lease when nobody else does.
func (c *Client) renew() {
	tick := time.NewTicker(c.cfg.Renew / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		if time.Since(time.Unix(0, c.last.Load())) < c.cfg.Renew/2 {
			continue
		}
		_, conn := c.Session()
		ctx, cancel := context.WithTimeout(c.ctx, c.cfg.Renew)
		err := c.Compound(ctx, c.cfg.Cred)
		cancel()
		if err == nil || c.ctx.Err() != nil {
			continue
		}
		c.cfg.Log.Warn("lease not renewed", zap.String("server", c.addr), zap.Error(err))
		if errors.Is(err, context.DeadlineExceeded) {
			conn.Close() // a server that hangs, or a path that swallows: try another connection
		}
	}
}

// Close destroys the session and the client id, as far as the server answers
// before ctx ends, and closes the connection. Requests under way fail.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	conn, sess, id := c.conn, c.sess, c.id.client
	c.mu.Unlock()
	c.cancel()
	if sess != nil {
		sess.kill()
	}
	var err error
	if conn != nil && sess != nil {
		err = c.destroy(ctx, conn, sess.id, id)
	}
	if conn != nil {
		conn.Close()
	}
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close() // one that a recovery made meanwhile
	}
	return err
}

// destroy ends session and client id. Answers that they are gone are fine.
func (c *Client) destroy(ctx context.Context, conn *rpc.Conn, sess nfs4.SessionID, id nfs4.ClientID) error {
	_, _, err := Send(ctx, conn, c.cfg.Cred, c.cfg.Minor, Op{Num: nfs4.OpDestroySession, Args: &nfs4.DestroySessionArgs{SessionID: sess}})
	if err != nil {
		return err
	}
	_, status, err := Send(ctx, conn, c.cfg.Cred, c.cfg.Minor, Op{Num: nfs4.OpDestroyClientID, Args: &nfs4.DestroyClientIDArgs{ClientID: id}})
	if err == nil && status != nfs4.OK && !errors.Is(status, nfs4.ErrStaleClientID) {
		err = &OpError{Num: nfs4.OpDestroyClientID, Status: status}
	}
	return err
}

// spawn runs f on a goroutine that Close waits for; not after Close.
func (c *Client) spawn(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wg.Go(f)
	}
}

// sleep waits d; false: ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
