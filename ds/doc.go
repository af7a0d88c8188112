// Package ds is the data server: it wires a store of objects, the operations
// over it, the engine that serves them to NFS clients, and the agent that keeps
// it attached to its metadata server.
//
// Its nouns: a Server is one data server; its Config says where it keeps bytes,
// where it listens and to which metadata server it belongs. The data folder
// holds the objects (ds/store/osfs) and beside them the fences, which are on
// disk before the metadata server is told that they stand, the membership (the
// cluster and the number that the data server was given), and the count of its
// starts.
//
// After its start a data server does not listen before the metadata server has
// told it all that happened while it was away (control.Ready): it must not serve
// a client that was fenced meanwhile. From then on it goes on serving, also
// while the metadata server is away.
package ds
