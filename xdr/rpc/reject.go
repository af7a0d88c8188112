package rpc

import "fmt"

// Stat is the reason of a Reject. Values 1-5 are accept_stat of RFC 5531
// section 9; RPCMismatch and the Auth values stand for the arms of
// rejected_reply and have numbers of our own.
type Stat uint32

// Reasons to reject a call.
const (
	ProgUnavail  Stat = 1 // the program is not served here
	ProgMismatch Stat = 2 // the program's version is not; Low and High say which are
	ProcUnavail  Stat = 3 // the procedure does not exist
	GarbageArgs  Stat = 4 // the arguments do not decode
	SystemErr    Stat = 5 // no memory or another fault of the server

	RPCMismatch Stat = 0x100 // RPC version is not 2; Low and High are 2

	AuthBadCred      Stat = authStat + 1 // the credential does not decode
	AuthRejectedCred Stat = authStat + 2 // its flavour is unknown, or begin a new session
	AuthBadVerf      Stat = authStat + 3 // the verifier does not decode
	AuthTooWeak      Stat = authStat + 5 // its flavour is not strong enough here

	AuthGSSCredProblem Stat = authStat + 13 // RPCSEC_GSS: no such context, or the verifier is false: make a new one
	AuthGSSCtxProblem  Stat = authStat + 14 // RPCSEC_GSS: the context cannot be used any more
)

// authStat is where the auth_stat values of RFC 5531 section 9 start in Stat.
const authStat = 0x200

// Reject is an RPC-level refusal of one call: what a Handler answers in place
// of a result, and the error that a Request gets. Low and High count only for
// ProgMismatch and RPCMismatch.
type Reject struct {
	Stat      Stat
	Low, High uint32
}

// Error implements error.
func (r Reject) Error() string {
	switch r.Stat {
	case ProgUnavail:
		return "rpc: program unavailable"
	case ProgMismatch:
		return fmt.Sprintf("rpc: program version mismatch, peer has %d to %d", r.Low, r.High)
	case ProcUnavail:
		return "rpc: procedure unavailable"
	case GarbageArgs:
		return "rpc: garbage arguments"
	case SystemErr:
		return "rpc: system error at the peer"
	case RPCMismatch:
		return fmt.Sprintf("rpc: RPC version mismatch, peer has %d to %d", r.Low, r.High)
	case AuthBadCred:
		return "rpc: bad credential"
	case AuthRejectedCred:
		return "rpc: credential rejected"
	case AuthBadVerf:
		return "rpc: bad verifier"
	case AuthTooWeak:
		return "rpc: authentication too weak"
	case AuthGSSCredProblem:
		return "rpc: no such security context"
	case AuthGSSCtxProblem:
		return "rpc: security context used up"
	}
	if r.Stat >= authStat {
		return fmt.Sprintf("rpc: authentication error %d", r.Stat-authStat)
	}
	return fmt.Sprintf("rpc: reply status %d", r.Stat)
}
