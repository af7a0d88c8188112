// Package session is the pure session core of NFSv4.1 (RFC 8881 sections 2.4
// and 2.10, and the operations of 18.34 to 18.37, 18.46, 18.50 and 18.51).
//
// Its nouns: a client is what EXCHANGE_ID and CREATE_SESSION made of a client
// owner, and has a lease; a session belongs to a client and has slots for the
// fore channel and, if asked for, slots for the back channel; a Slot runs one
// request at a time and keeps the reply of the last one; a connection (ConnID)
// is bound to sessions in one direction or both; a Table holds all of them.
//
// A Table has no mutex, clock, randomness or goroutine: its owner serialises
// every call, gives the time as an argument and the random Seed in the Config.
// What a call returns are values that stay good after the owner's lock is
// released; a *Slot is opaque and is only given back to Done.
//
// Everything is bounded by the Config. Past a bound a client gets fewer slots,
// or NFS4ERR_DELAY where the operation may answer it; an unconfirmed client is
// forgotten in favour of a newer one.
package session
