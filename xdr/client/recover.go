package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

const (
	// attempt bounds one try to establish connection and session.
	attempt = 30 * time.Second
	// delay is the first pause after NFS4ERR_DELAY; it doubles up to maxDelay.
	delay    = 20 * time.Millisecond
	maxDelay = 2 * time.Second
	// overhead is what an I/O request or reply has besides its data, at most:
	// RPC header with credential, COMPOUND, SEQUENCE, PUTFH, READ or WRITE.
	overhead = 1 << 10
	// cbProgram is the number that the server's callbacks use; any will do.
	cbProgram = 0x40000000
)

// identity is the client id that EXCHANGE_ID gave.
type identity struct {
	known     bool
	client    nfs4.ClientID
	seq       uint32 // csa_sequence of the next CREATE_SESSION
	reclaimed bool   // RECLAIM_COMPLETE is done
}

// establish makes the connection and the session live. One goroutine at a time
// runs it: Dial, or a recovery.
func (c *Client) establish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	c.mu.Lock()
	conn, sess, id := c.conn, c.sess, c.id
	c.mu.Unlock()
	if conn == nil || isDone(conn.Done()) {
		var err error
		if conn, err = c.cfg.Dialer(ctx, c.addr, &c.cb, c.cfg.RPC); err != nil {
			return err
		}
	}
	bound := false
	var err error
	if sess != nil && !sess.isDead() {
		bound, err = c.bind(ctx, conn, sess)
	}
	if err == nil && !bound {
		if err = c.discard(ctx, conn, sess); err == nil {
			sess, err = c.create(ctx, conn, &id)
		}
	}
	var status *OpError
	if err != nil && !errors.As(err, &status) {
		conn.Close() // it may hang; the next try takes a new one
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn, c.id = conn, id
	if err == nil {
		c.sess = sess
		c.last.Store(time.Now().UnixNano())
	}
	return err
}

// discard gives up a session, which the server may have forgotten or not.
func (c *Client) discard(ctx context.Context, conn *rpc.Conn, sess *session) error {
	if sess == nil {
		return nil
	}
	sess.kill()
	_, err := c.one(ctx, conn, Op{Num: nfs4.OpDestroySession, Args: &nfs4.DestroySessionArgs{SessionID: sess.id}})
	return err
}

// one makes a call of one operation outside a session.
func (c *Client) one(ctx context.Context, conn *rpc.Conn, op Op) (nfs4.Status, error) {
	_, status, err := Send(ctx, conn, c.cfg.Cred, c.cfg.Minor, op)
	return status, err
}

// bind ties conn to sess after a reconnect (RFC 8881 section 18.34). ok is
// false if the server does not know the session any more.
func (c *Client) bind(ctx context.Context, conn *rpc.Conn, sess *session) (ok bool, err error) {
	args := nfs4.BindConnToSessionArgs{SessionID: sess.id, Dir: nfs4.BindFore}
	if sess.back {
		args.Dir = nfs4.BindForeOrBoth
	}
	status, err := c.one(ctx, conn, Op{Num: nfs4.OpBindConnToSession, Args: &args, Res: &nfs4.BindConnToSessionRes{}})
	switch {
	case err != nil:
		return false, err
	case status == nfs4.OK, status == nfs4.ErrNotSupp, status == nfs4.ErrOpIllegal: // then SEQUENCE binds
		return true, nil
	case status == nfs4.ErrBadSession, status == nfs4.ErrDeadSession, status == nfs4.ErrStaleClientID:
		return false, nil
	}
	return false, &OpError{Index: -1, Num: nfs4.OpBindConnToSession, Status: status}
}

// create makes a session, and before it a client id if there is none that the
// server still knows.
func (c *Client) create(ctx context.Context, conn *rpc.Conn, id *identity) (*session, error) {
	for range 4 {
		if !id.known {
			if err := c.exchangeID(ctx, conn, id); err != nil {
				return nil, err
			}
		}
		sess, status, err := c.createSession(ctx, conn, id)
		switch {
		case err != nil:
			return nil, err
		case status == nfs4.ErrStaleClientID, status == nfs4.ErrSeqMisordered:
			id.known = false
		case status != nfs4.OK:
			return nil, &OpError{Index: -1, Num: nfs4.OpCreateSession, Status: status}
		default:
			c.cfg.Log.Info("session created", zap.String("server", c.addr), zap.Uint64("clientid", uint64(id.client)),
				zap.Int("slots", sess.limit))
			if err := c.reclaimComplete(ctx, conn, sess, id); err != nil {
				_ = c.discard(ctx, conn, sess) // the next try makes another; the first error counts
				return nil, err
			}
			return sess, nil
		}
	}
	return nil, &OpError{Index: -1, Num: nfs4.OpCreateSession, Status: nfs4.ErrStaleClientID}
}

func (c *Client) exchangeID(ctx context.Context, conn *rpc.Conn, id *identity) error {
	args := nfs4.ExchangeIDArgs{
		ClientOwner: nfs4.ClientOwner{Verifier: c.cfg.Verifier, OwnerID: c.cfg.Owner},
		Flags:       c.cfg.Role,
	}
	if c.cfg.Protect != nil {
		args.StateProtect.How = nfs4.StateProtectMachCred
		args.StateProtect.MachOps.MustAllow = *c.cfg.Protect
	}
	var res nfs4.ExchangeIDRes
	status, err := c.patient(ctx, conn, Op{Num: nfs4.OpExchangeID, Args: &args, Res: &res})
	if err != nil {
		return err
	}
	if status != nfs4.OK {
		return &OpError{Index: -1, Num: nfs4.OpExchangeID, Status: status}
	}
	*id = identity{known: true, client: res.ClientID, seq: res.SequenceID}
	return nil
}

// patient is one, repeated while the answer is NFS4ERR_DELAY.
func (c *Client) patient(ctx context.Context, conn *rpc.Conn, op Op) (nfs4.Status, error) {
	for pause := delay; ; pause = min(2*pause, maxDelay) {
		status, err := c.one(ctx, conn, op)
		if err != nil || status != nfs4.ErrDelay || !sleep(ctx, pause) {
			return status, err
		}
	}
}

func (c *Client) createSession(ctx context.Context, conn *rpc.Conn, id *identity) (*session, nfs4.Status, error) {
	args := nfs4.CreateSessionArgs{
		ClientID: id.client, Sequence: id.seq,
		ForeChanAttrs: nfs4.ChannelAttrs{
			MaxRequestSize: uint32(c.cfg.MaxIO + overhead), MaxResponseSize: uint32(c.cfg.MaxIO + overhead),
			MaxResponseSizeCached: 8 << 10, MaxOperations: 32, MaxRequests: uint32(c.cfg.Slots),
		},
		BackChanAttrs: nfs4.ChannelAttrs{
			MaxRequestSize: 4096, MaxResponseSize: 4096, MaxResponseSizeCached: 4096,
			MaxOperations: 8, MaxRequests: cbSlots,
		},
		CBProgram: cbProgram,
		SecParms:  []nfs4.CallbackSecParms{{Flavor: rpc.AuthNone}},
	}
	if c.cfg.Callback != nil {
		args.Flags = nfs4.CreateSessionFlagConnBackChan
	}
	var res nfs4.CreateSessionRes
	status, err := c.patient(ctx, conn, Op{Num: nfs4.OpCreateSession, Args: &args, Res: &res})
	if err != nil || status != nfs4.OK {
		return nil, status, err
	}
	id.seq++
	fore := res.ForeChanAttrs
	if fore.MaxRequests == 0 || fore.MaxRequests > args.ForeChanAttrs.MaxRequests ||
		fore.MaxRequestSize < 2*overhead || fore.MaxResponseSize < 2*overhead {
		return nil, 0, fmt.Errorf("%w: session of %d slots, requests of %d and replies of %d bytes",
			errReply, fore.MaxRequests, fore.MaxRequestSize, fore.MaxResponseSize)
	}
	sess := newSession(res.SessionID, fore, c.cfg.Slots)
	sess.back = c.cfg.Callback != nil
	sess.cb = &callbacks{}
	return sess, nfs4.OK, nil
}

// reclaimComplete tells the server that a new client id has nothing to reclaim
// (RFC 8881 section 18.51), or it would refuse our opens.
func (c *Client) reclaimComplete(ctx context.Context, conn *rpc.Conn, sess *session, id *identity) error {
	if id.reclaimed {
		return nil
	}
	if c.cfg.Reclaim != nil {
		err := c.cfg.Reclaim(ctx, func(ops ...Op) error { return c.early(ctx, conn, sess, ops...) })
		if err != nil {
			return err
		}
	}
	err := c.early(ctx, conn, sess, Op{Num: nfs4.OpReclaimComplete, Args: &nfs4.ReclaimCompleteArgs{}})
	var status *OpError
	if errors.As(err, &status) && status.Num == nfs4.OpReclaimComplete {
		switch status.Status {
		case nfs4.ErrCompleteAlready, nfs4.ErrNotSupp, nfs4.ErrOpIllegal: // a data server need not know it
			err = nil
		}
	}
	id.reclaimed = err == nil
	return err
}

// early runs a compound on a session that is not in use yet.
func (c *Client) early(ctx context.Context, conn *rpc.Conn, sess *session, ops ...Op) error {
	seq := sess.sequence(0, false)
	m := message{minor: c.cfg.Minor, clone: true, ops: append([]Op{
		{Num: nfs4.OpSequence, Args: &seq, Res: &nfs4.SequenceRes{}},
	}, ops...)}
	if err := m.send(ctx, conn, c.cfg.Cred); err != nil {
		return err
	}
	if m.first == nfs4.OK {
		sess.skip(0)
	}
	if m.status != nfs4.OK {
		return m.failure(1)
	}
	return nil
}

func isDone(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
