// Package gss is RPCSEC_GSS version 1 (RFC 2203): calls that are authenticated,
// made tamper-proof or encrypted by a GSS-API mechanism.
//
// Its nouns: a Mechanism (package krb5 is one) makes security contexts of
// tokens; a Context signs and encrypts; an Acceptor is the server's side, which
// holds the contexts that clients established, up to a limit, and admits each
// sequence number of a context once; a Client is the client's side, one
// principal towards one service. A call's service says how it is protected.
//
// What does not depend on a mechanism is here: the header of a call, the window
// of sequence numbers, the bodies' forms. A context is good for any connection.
package gss

import (
	"errors"
	"time"
)

// Mechanism is the accepting side of a GSS-API mechanism that needs one token
// from either side, as Kerberos does.
type Mechanism interface {
	// Accept makes a context of the first token of a client. An error that is
	// an *Error says with which major status the client is refused. The token is
	// not kept.
	Accept(now time.Time, token []byte) (Accepted, error)
}

// Accepted is a context that a client has established.
type Accepted struct {
	Context Context
	// Token is what the client must get, at most 4 KiB.
	Token []byte
	// Principal is the client.
	Principal string
	// Expires is when the context ends.
	Expires time.Time
}

// Context is one end of an established security context. Its methods are called
// from many goroutines at once; what they return is not theirs any more.
type Context interface {
	// MIC signs msg.
	MIC(msg []byte) ([]byte, error)
	// Verify checks the other end's MIC of msg.
	Verify(msg, mic []byte) error
	// Wrap encrypts msg.
	Wrap(msg []byte) ([]byte, error)
	// Unwrap decrypts what the other end has wrapped. A token that was not
	// encrypted, or is longer than what it holds by more than 1 KiB, is refused.
	Unwrap(token []byte) ([]byte, error)
	// MICSize is the length of a MIC; WrapSize bounds what Wrap adds, in bytes.
	MICSize() int
	WrapSize() int
}

// Error is a refusal of a context, with a major status of RFC 2744 section
// 3.9.1.
type Error struct {
	Major uint32
	Err   error
}

// Error implements error.
func (e *Error) Error() string { return "gss: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Major status codes (RFC 2744 section 3.9.1).
const (
	Complete        uint32 = 0
	BadMech         uint32 = 1 << 16
	NoCred          uint32 = 7 << 16
	DefectiveToken  uint32 = 9 << 16
	Failure         uint32 = 13 << 16
	DuplicateToken  uint32 = 2
	continuesNeeded uint32 = 1
)

// errBody means that a call's or reply's body does not fit its header, or that
// its protection is broken.
var errBody = errors.New("gss: body does not verify")
