// Package sim runs whole small clusters by seed, in virtual time: a metadata
// server, data servers and clients, on a network and on disks that misbehave,
// and checks all along what must hold. The servers are the real ones: the RPC
// layer, sessions and the compound engine, the tables of mds/op and ds/op with
// what is below them. Simulated are the wire, the disks, the control channel
// between the servers, and the clients.
//
// Its nouns: a world is one run; its seed decides everything that happens in it.
// The wire carries records between nodes and loses, delays, doubles and
// reorders them. A node is a machine: the mds, a ds, a client; it crashes and
// comes back, and what its disk had not made stable is gone. Chaos is what
// breaks things, for a while; then everything heals, and the clients leave. The
// judge knows what each client was told, and so what must be true: it is the
// only one that says that a run failed. The journal is what happened last. A
// mutant is a world in which one guard was switched off: a test that the judge
// notices.
//
// What the judge checks:
//
//   - no two clients in touch with the server hold opens or locks that conflict;
//   - what was committed to stable storage is read back, whatever crashed since;
//   - bytes that were cut off, or overwritten, do not come back, and a file gets
//     shorter by a truncation only;
//   - once a conflicting lock was granted, nothing that its former holder sent
//     reaches a disk;
//   - a request that was doubled, or sent again, is executed once;
//   - a client that keeps its lease keeps its state;
//   - the change attribute never goes back;
//   - when all clients are gone there is no state, and when the outbox is
//     empty no object without an inode.
//
// The world runs in a bubble of testing/synctest, so nothing in it takes time.
// The scheduler has a small say in what happens at one instant; a seed that
// fails now and then is run a few times (-sim.seed N -test.count 20).
package sim
