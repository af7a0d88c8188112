// Package state decides who may do what to which file: the opens, share
// reservations, byte-range locks, delegations and layouts of all clients of one
// metadata server (RFC 8881 chapters 8 to 10 and 12). It is pure: time is an
// argument, results are values, it knows no name, no inode and no socket.
//
// Its nouns: the Core holds the state. A Request asks; Core.Decide answers it
// with a Verdict, whose Change the caller hands to Core.Apply once what must
// be durable is. Effects are what others must be told: a Grant (a layout) or a
// Delegation to recall, a Grant to fence, a client to expire, a file that nobody
// has open any more. Counts are how much there is, and how much there may be.
//
// A client is one nfs4.ClientID, from AddClient until Forget. An open is one
// open-owner's share of one file; a lock-owner's ranges of a file hang on the
// open they were taken through; a layout is everything that one client holds of
// one file, always the whole file; a delegation is one client's of one file, to
// read or to write. Each of them has one stateid. A wait is a lock-owner's for a
// lock that another holds: a note, to tell it when that is free.
//
// A delegation to write bars every open of another client, one to read those
// that write or deny reading, and until it is back or revoked such an OPEN is
// NFS4ERR_DELAY. So what conflicts is never out at once.
//
// What survives what. A lease that runs out: Core.Courtesy keeps everything,
// until a request of another client conflicts with some of it, room is needed
// or Config.Courtesy has passed; then Effects.Expire or Core.Stale names the
// client, and the caller calls Expire, fences it, takes it off the record and
// calls Forget. Who comes back before that has lost nothing. A restart of the
// server: nothing of this package; clients on record reclaim opens, locks and
// delegations while Config.Grace runs, layouts are asked for anew. A restart of
// the client: nothing. A recall that is not answered: all but what was recalled.
//
// Who calls: one mutex of the caller's around every single call; and from
// Decide to Apply of a request that names a File also that file's own lock.
// Calls without a File (FreeStateid, Forget, LAYOUTRETURN of everything) may
// come in between. They only take away, so a Verdict stays right; Apply says if
// its client went. IOReq, GetattrReq and DelegConflictReq need no such lock
// themselves; but who asks before a change holds it until that is made.
package state
