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
// # Slots
//
// A reply cache may take as much memory as its session has slots, times the size
// of a cached reply. The sum over all sessions stays below MaxCacheBytes, always:
// a slot is granted when there is memory for its reply, not before. Within that,
//   - a new session gets what it asks for as long as half of the memory is free,
//     and 8 slots after that;
//   - a session whose client uses its last slot gets as many again, until it has
//     what it asked for or three quarters of the memory are taken: it is scarce;
//   - while memory is scarce, each session is to give up what it has not used for
//     a lease and what is more than an equal part, but for its last two slots. The
//     client learns that from SEQUENCE's replies, and from CB_RECALL_SLOT if it
//     does not come for them: an idle one would hear of it a lease later. Clients
//     whose lease is over and that have no connection lose their sessions.
//
// Slots go when the client has shown that it knows and says that it uses none of
// them (RFC 8881 section 2.10.6.1); one that never does keeps what it has, and
// nobody waits for it.
//
// Everything is bounded by the Config. Past a bound a client gets fewer slots,
// or NFS4ERR_DELAY where the operation may answer it; an unconfirmed client is
// forgotten in favour of a newer one.
package session
