// Package rpc carries ONC RPC version 2 (RFC 5531) in both directions over one
// byte stream.
//
// Its nouns: a record is one message, cut into fragments on the wire (RFC 5531
// section 11); a Conn is one connection, on which either end may call the
// other; a Call is a request that came in, a Cred says on whose behalf; a
// Handler answers a Call by filling a Reply or by a Reject; a Request is a call
// that we make. A Config holds the limits and the buffer pools that
// connections share. Calls by RPCSEC_GSS are judged by an Acceptor, which has
// the result sealed, and ours are secured by an Initiator: package gss has both.
//
// The package knows no program: numbers of programs, versions and procedures
// pass through it. Buffers are pooled, so what a Call holds is good only until
// its reply has been written.
package rpc
