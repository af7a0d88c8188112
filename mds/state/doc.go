// Package state decides who may do what to which file: the opens, share
// reservations, byte-range locks and layouts of all clients of one metadata
// server (RFC 8881 chapters 8 to 10 and 12). It is pure: time is an argument,
// results are values, it knows no name, no inode and no socket.
//
// Its nouns: the Core holds the state. A Request asks; Core.Decide answers it
// with a Verdict, whose Change the caller hands to Core.Apply once what must
// be durable is. Effects are what others must be told: a Grant (a layout) to
// recall or to fence, a file that nobody has open any more. Counts are how much
// there is, and how much there may be.
//
// A client is one nfs4.ClientID, from AddClient until Forget. An open is one
// open-owner's share of one file; a lock-owner's ranges of a file hang on the
// open they were taken through; a layout is everything that one client holds of
// one file, always the whole file. Each of them has one stateid.
//
// Who calls: one mutex of the caller's around every single call; and from
// Decide to Apply of a request that names a File also that file's own lock.
// Calls without a File (FreeStateid, Forget, LAYOUTRETURN of everything) may
// come in between. They only take away, so a Verdict stays right; Apply says if
// its client went.
//
// Delegations are to be a further kind of Grant: a stateid of kind deleg, a
// recall like that of a layout, and OPEN naming Effects.Recall with ErrDelay.
package state
