// Package client is a small NFSv4.1 and 4.2 client.
//
// Its nouns: a Client holds one client id, one session and one connection to
// one server, and keeps them alive; an Op is one operation of a compound with
// its arguments and the result to decode into; a slot is the session's place
// for one request at a time (RFC 8881 section 2.10.6). Send is the level below,
// for tests: one COMPOUND over an rpc.Conn, exactly as given.
//
// A Client resends after a lost connection on the same slot with the same
// sequence, so the server's reply cache answers what it had run already; and
// makes a new session, or client id, when the server has lost the old one.
// State (opens, locks, layouts) it neither keeps nor reclaims.
package client
