package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// peer is a client's session with one server. It has one slot; what it asked is
// asked again until there is an answer, on the same connection or another.
type peer struct {
	l      *life
	server string
	dial   func() *end
	role   uint32 // bits of EXCHANGE_ID
	back   bool   // the server calls back

	cfg     rpc.Config
	conn    *rpc.Conn
	id      nfs4.ClientID
	session nfs4.SessionID
	seq     uint32
	open    bool // session is one
	busy    bool // a request is under way
	leaks   bool // there may be a session that was made and is not known here
}

var (
	// errOver: the client crashed, or the world ended.
	errOver = errors.New("over")
	// errSession: the session is gone, and whether the request ran is not known.
	errSession = errors.New("session lost")
)

func sys() rpc.Cred {
	return rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{Machine: "sim", GIDs: []uint32{}}}
}

// connect returns a connection, or nil if the server is not there.
func (p *peer) connect() *rpc.Conn {
	if p.conn != nil {
		select {
		case <-p.conn.Done():
			p.conn = nil
		default:
			return p.conn
		}
	}
	e := p.dial()
	if e == nil {
		return nil
	}
	p.conn = rpc.NewConn(context.Background(), e, p.l, &p.cfg)
	conn := p.conn
	p.l.work.Go(func() { conn.Serve() })
	if p.back && p.open {
		p.bind()
	}
	return p.conn
}

// bind makes the connection one for callbacks. That it may fail matters not.
func (p *peer) bind() {
	_, s, err := p.send(client.Op{Num: nfs4.OpBindConnToSession, Args: &nfs4.BindConnToSessionArgs{
		SessionID: p.session, Dir: nfs4.BindForeOrBoth,
	}, Res: &nfs4.BindConnToSessionRes{}})
	p.l.log("binds a connection to %s: %v %v", p.server, s, err)
}

// send makes one call and waits a moment for its answer.
func (p *peer) send(ops ...client.Op) (n int, s nfs4.Status, err error) {
	ctx, cancel := context.WithTimeout(p.l.ctx, time.Duration(300+p.l.rnd.IntN(1200))*time.Millisecond)
	defer cancel()
	return client.Send(ctx, p.conn, sys(), 1, ops...)
}

// again is between two tries.
func (p *peer) again() error {
	if p.conn != nil && p.l.rnd.IntN(3) == 0 {
		p.conn.Close()
		p.conn = nil
	}
	return p.l.pause(10, 400)
}

// call runs ops in the session. Its status is that of the operation that
// failed, n how many results there are, SEQUENCE not counted.
func (p *peer) call(ops ...client.Op) (n int, s nfs4.Status, err error) {
	if !p.open {
		return 0, 0, errSession
	}
	p.seq++
	p.busy = true
	defer func() { p.busy = false }()
	var res nfs4.SequenceRes
	all := append([]client.Op{{Num: nfs4.OpSequence, Args: &nfs4.SequenceArgs{
		SessionID: p.session, SequenceID: p.seq, CacheThis: true,
	}, Res: &res}}, ops...)
	sent := time.Now()
	for {
		if p.l.dead() {
			return 0, 0, errOver
		}
		if p.connect() == nil {
			err = errors.New("nobody there")
		} else {
			n, s, err = p.send(all...)
		}
		if err != nil {
			if err := p.stuck(); err != nil {
				return 0, 0, err
			}
			continue
		}
		if n > 1 || s == nfs4.OK {
			if p.back {
				p.l.w.judge.late(p.l, p.l.leaseEnd(), true)
				if time.Now().After(p.l.leaseEnd()) {
					p.l.doubt()
				}
				p.l.renewed(sent)
				p.l.learn(res.StatusFlags)
			}
			return n - 1, s, nil
		}
		switch s {
		case nfs4.ErrDelay:
			if err := p.l.pause(10, 200); err != nil {
				return 0, 0, err
			}
		case nfs4.ErrBadSession, nfs4.ErrDeadSession:
			p.l.log("session with %s lost: %v", p.server, s)
			p.open = false
			return 0, 0, errSession
		default:
			p.l.w.fail("SEQUENCE %d of %s to %s: %v", p.seq, p.l.name, p.server, s)
			return 0, 0, errOver
		}
	}
}

// stuck is between two tries of a request that was not answered. While a data
// server is silent the client renews its lease, and while the metadata server is
// it goes on writing.
func (p *peer) stuck() error {
	if err := p.again(); err != nil {
		return err
	}
	m := p.l.mds
	switch {
	case p == m:
		return p.l.writeOn()
	case m.open && !m.busy && time.Until(p.l.leaseEnd()) < lease/2:
		if _, _, err := m.call(); errors.Is(err, errOver) {
			return err
		}
	}
	return nil
}

// establish makes a session, with a client id first if need be. changed says
// that it is another client id than before.
func (p *peer) establish() (changed bool, err error) {
	for !p.l.dead() {
		if p.connect() != nil {
			var ex nfs4.ExchangeIDRes
			_, s, err := p.send(client.Op{Num: nfs4.OpExchangeID, Args: &nfs4.ExchangeIDArgs{
				ClientOwner: nfs4.ClientOwner{OwnerID: []byte(p.l.name), Verifier: p.l.verf}, Flags: p.role,
			}, Res: &ex})
			if err == nil && s == nfs4.OK {
				if s, err = p.createSession(&ex); err == nil && s == nfs4.OK {
					changed = p.id != ex.ClientID
					p.id, p.open, p.seq = ex.ClientID, true, 0
					p.l.log("has a session with %s, client id %x", p.server, uint64(p.id))
					return changed, nil
				}
			}
			if err == nil && s != nfs4.ErrDelay && s != nfs4.ErrStaleClientID {
				p.l.w.fail("%s gets no session with %s: %v", p.l.name, p.server, s)
			}
		}
		if err := p.again(); err != nil {
			return false, err
		}
	}
	return false, errOver
}

// createSession is CREATE_SESSION, sent again as often as needed.
func (p *peer) createSession(ex *nfs4.ExchangeIDRes) (s nfs4.Status, err error) {
	var res nfs4.CreateSessionRes
	a := &nfs4.CreateSessionArgs{
		ClientID: ex.ClientID, Sequence: ex.SequenceID, CBProgram: cbProgram,
		ForeChanAttrs: nfs4.ChannelAttrs{
			MaxRequestSize: 1 << 16, MaxResponseSize: 1 << 16, MaxResponseSizeCached: 4096, MaxOperations: 16, MaxRequests: 1,
		},
		BackChanAttrs: nfs4.ChannelAttrs{MaxRequestSize: 4096, MaxResponseSize: 4096, MaxOperations: 2, MaxRequests: 4},
		SecParms:      []nfs4.CallbackSecParms{{}},
	}
	if p.back {
		a.Flags = nfs4.CreateSessionFlagConnBackChan
	}
	lost := false
	defer func() { p.leaks = p.leaks || lost }()
	for range 4 {
		if p.connect() == nil {
			return 0, fmt.Errorf("nobody there")
		}
		if _, s, err = p.send(client.Op{Num: nfs4.OpCreateSession, Args: a, Res: &res}); err == nil && s != nfs4.ErrDelay {
			lost = false // one that ran without an answer is this one
			break
		}
		lost = lost || err != nil
		if err := p.again(); err != nil {
			return 0, err
		}
	}
	p.session = res.SessionID
	return s, err
}

// leave destroys the session and the client id, as an unmount does.
func (p *peer) leave() error {
	for _, op := range []client.Op{
		{Num: nfs4.OpDestroySession, Args: &nfs4.DestroySessionArgs{SessionID: p.session}},
		{Num: nfs4.OpDestroyClientID, Args: &nfs4.DestroyClientIDArgs{ClientID: p.id}},
	} {
		for tries := 0; ; tries++ {
			if p.l.dead() {
				return errOver
			}
			p.open = false // no BIND_CONN_TO_SESSION any more
			if p.connect() != nil {
				if _, s, err := p.send(op); err == nil && s != nfs4.ErrDelay && s != nfs4.ErrBackChanBusy {
					if s == nfs4.ErrClientIDBusy && !p.leaks {
						p.l.w.fail("%s has given everything back to %s and is told %v: %s", p.l.name, p.server, s, p.l.w.mds.describe(p.id))
					}
					break
				}
			}
			if err := p.again(); err != nil {
				return err
			}
		}
	}
	return nil
}

// learn reads the flags of a SEQUENCE's reply.
func (l *life) learn(flags uint32) {
	if flags&nfs4.SeqStatusRecallableStateRevoked == 0 {
		return
	}
	l.doubt()
}

// doubt has the client ask whether its delegations stand.
func (l *life) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.suspect = true
}
