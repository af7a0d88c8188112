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
// mutant is a world in which one guard was switched off, and a guard is a line of
// the servers' source that is switched off in a copy: tests that the judge notices.
// The census is what is left in the tables of a server that all clients have left.
//
// What the judge checks:
//
//   - no two clients in touch with the server hold opens, locks or delegations that
//     conflict, and no truncation is acknowledged while another client has a layout
//     to write, no change of attributes while it has a delegation;
//   - whose open or lock was given to another is not served under it any more;
//   - what the holder of a delegation to write has changed by itself is seen by
//     who asks for size and change attribute, and is not lost when it is recalled;
//   - what was committed to stable storage is read back, whatever crashed since;
//   - bytes that were cut off, or overwritten, do not come back, and a file gets
//     shorter by a truncation only;
//   - once a conflicting lock was granted, nothing that its former holder sent
//     reaches a disk;
//   - a request that was doubled, or sent again, is executed once;
//   - a client that keeps its lease keeps its state, and one that lost it and comes
//     back does as well, if the server is to be courteous and nobody wanted any of
//     it meanwhile;
//   - the change attribute never goes back;
//   - when all clients are gone there is no state, nothing in any table, and when
//     the outbox is empty no object without an inode.
//
// Servers die at any moment, and at chosen ones: around a commit, an order to a
// data server, a callback, a sync; again during grace, and several times in a row.
// Some clients are deaf: they never do what a recall asks for.
//
// TestSim shares its seeds among processes (-sim.jobs), and says how many a second
// it ran; -sim.seeds 10000 takes minutes, -sim.budget 60s runs what it can.
// TestGuards builds the simulation anew for each guard, so it takes minutes, too.
//
// The world runs in a bubble of testing/synctest, so nothing in it takes time.
// The scheduler has a small say in what happens at one instant; a seed that
// fails now and then is run a few times (-sim.seed N -test.count 20).
package sim
