package gss

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"manifold/xdr"
	"manifold/xdr/rpc"
)

// Config is what an Acceptor is made of. Mechanism must be set.
type Config struct {
	Mechanism Mechanism
	// MaxContexts bounds the contexts that are kept, each some 1 KiB: 16384. A
	// further one takes the place of another: see the package's doc.
	MaxContexts int
	// MaxAge is how long a context lives at most, however long its ticket does:
	// 24 h.
	MaxAge time.Duration
	// Now is the clock: time.Now.
	Now func() time.Time
	// Log takes a line for refused contexts, not too often. Default: none.
	Log *zap.Logger
}

// Acceptor is the server's side of RPCSEC_GSS: an rpc.Acceptor.
type Acceptor struct {
	cfg      Config
	contexts *contexts
	logged   atomic.Int64 // when a refusal was logged last, Unix nanoseconds
	refused  atomic.Uint64
}

// refusalPause is how long the log is spared another line on refused contexts.
const refusalPause = 10 * time.Second

// NewAcceptor returns an Acceptor without contexts.
func NewAcceptor(cfg Config) *Acceptor {
	if cfg.MaxContexts <= 0 {
		cfg.MaxContexts = 16384
	}
	if cfg.MaxAge <= 0 {
		cfg.MaxAge = 24 * time.Hour
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &Acceptor{cfg: cfg, contexts: newContexts(cfg.MaxContexts)}
}

// Contexts is how many contexts clients have established.
func (a *Acceptor) Contexts() int { return a.contexts.len() }

// Accept judges one call (RFC 2203 section 5.3.3). The refusals: AuthBadCred for
// a credential that is none, AuthBadVerf for a verifier of another flavour,
// AuthGSSCredProblem for a context that does not exist or a verifier that is
// false, AuthGSSCtxProblem for a sequence number over the limit, GarbageArgs for
// a body that does not verify.
func (a *Acceptor) Accept(m *rpc.Secured) rpc.Admission {
	var cred credential
	if !cred.decode(m.Cred) {
		return rpc.Admission{Refused: rpc.AuthBadCred}
	}
	if cred.proc != procData && m.Proc != 0 {
		return rpc.Admission{Refused: rpc.AuthBadCred} // context management is by the NULL procedure
	}
	now := a.cfg.Now()
	switch cred.proc {
	case procInit:
		return a.establish(now, m)
	case procContinue:
		return rpc.Admission{Refused: rpc.AuthGSSCredProblem} // no mechanism of ours needs it
	}
	c, h := a.contexts.get(now, cred.handle)
	switch {
	case c == nil:
		return rpc.Admission{Refused: rpc.AuthGSSCredProblem}
	case m.VerfFlavor != rpc.AuthGSS:
		return rpc.Admission{Refused: rpc.AuthBadVerf}
	case c.Verify(m.Header, m.Verf) != nil:
		return rpc.Admission{Refused: rpc.AuthGSSCredProblem}
	case cred.seq >= maxSeq:
		return rpc.Admission{Refused: rpc.AuthGSSCtxProblem}
	case !c.admit(cred.seq):
		return rpc.Admission{Drop: true}
	}
	verf, err := c.MIC(binary.BigEndian.AppendUint32(nil, cred.seq))
	if err != nil {
		return rpc.Admission{Refused: rpc.SystemErr}
	}
	adm := rpc.Admission{VerfFlavor: rpc.AuthGSS, Verf: verf}
	if cred.proc == procDestroy {
		a.contexts.drop(h)
		adm.Done = true
		return adm
	}
	if adm.Body, err = open(c, cred.service, cred.seq, m.Body); err != nil {
		adm.Refused = rpc.GarbageArgs
		return adm
	}
	adm.Cred = rpc.GSSCred{Principal: c.principal, Service: cred.service}
	if cred.service != rpc.ServiceNone {
		adm.Seal = &sealer{c: c, service: cred.service, seq: cred.seq}
	}
	return adm
}

// establish makes a context (RFC 2203 section 5.2).
func (a *Acceptor) establish(now time.Time, m *rpc.Secured) rpc.Admission {
	d := xdr.NewDecoder(m.Body)
	token := d.Opaque(maxToken)
	if d.Err() != nil || d.Remaining() != 0 {
		return rpc.Admission{Refused: rpc.GarbageArgs}
	}
	adm := rpc.Admission{Done: true}
	var e xdr.Encoder
	acc, err := a.cfg.Mechanism.Accept(now, token)
	if err == nil {
		adm.VerfFlavor = rpc.AuthGSS
		adm.Verf, err = acc.Context.MIC(binary.BigEndian.AppendUint32(nil, windowSize))
	}
	if err != nil {
		a.refuse(now, err)
		res := initRes{major: Failure}
		var status *Error
		if errors.As(err, &status) {
			res.major = status.Major
		}
		res.encode(&e)
		return rpc.Admission{Done: true, Result: e.Bytes()}
	}
	c := &established{Context: acc.Context, principal: acc.Principal, expires: now.Add(a.cfg.MaxAge)}
	if acc.Expires.Before(c.expires) {
		c.expires = acc.Expires
	}
	h := a.contexts.add(now, c)
	(&initRes{handle: h[:], major: Complete, window: windowSize, token: acc.Token}).encode(&e)
	adm.Result = e.Bytes()
	return adm
}

// refuse logs a refused context, not too often.
func (a *Acceptor) refuse(now time.Time, err error) {
	n := a.refused.Add(1)
	last := a.logged.Load()
	if (last == 0 || now.UnixNano()-last >= int64(refusalPause)) && a.logged.CompareAndSwap(last, now.UnixNano()) {
		a.cfg.Log.Warn("a client's security context was refused", zap.Error(err), zap.Uint64("refused_so_far", n))
	}
}

// sealer protects one result.
type sealer struct {
	c       *established
	service rpc.Service
	seq     uint32
}

// Head implements rpc.Sealer.
func (*sealer) Head() int { return bodyHead }

// Tail implements rpc.Sealer.
func (s *sealer) Tail() int { return sealTail(s.c, s.service) }

// Seal implements rpc.Sealer.
func (s *sealer) Seal(e *xdr.Encoder, at int) error { return seal(s.c, s.service, s.seq, e, at) }
