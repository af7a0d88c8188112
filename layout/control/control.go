// Package control is how the metadata server and its data servers talk.
//
// Its nouns: a data server's Agent dials the metadata server's Server and
// attaches: it says Hello, is Welcomed with its number, the cluster's keys and
// the lease time, and from then on sends its Usage as a heartbeat. The metadata
// server sends Commands, which the data server carries out one after the other
// in the order they were sent, and answers each with an Ack. MDS and DS are what the
// two ends need from the programs they are part of.
//
// A Command may reach a data server twice (its Ack was lost with the
// connection), never late: an Agent says Hello again only when it is done with
// what an earlier connection brought. Each end drops the connection when it
// hears nothing for a few seconds, so both know of a dead peer that soon.
//
// A data server is one uuid. If it attaches while it is attached, the second
// connection of the same process replaces the first, whose end is perhaps not
// noticed yet; another process is refused for as long as the first is heard
// from: two processes with one uuid mean a copied data folder, and if the second
// replaced the first they would throw each other out for ever.
//
// Everything but the addresses of data servers is authenticated by the join
// token alone, in the clear: the control address belongs on a private network.
package control

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative controlpb/control.proto
//go:generate mv controlpb/control.pb.go controlpb/zcontrol.pb.go
//go:generate mv controlpb/control_grpc.pb.go controlpb/zcontrol_grpc.pb.go

import (
	"context"
	"errors"
	"time"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// Protocol is the version of the messages. Both ends must have the same.
const Protocol = 1

var (
	// ErrDetached means that a data server is not attached, or that its
	// connection ended before it acknowledged everything. What it was sent may
	// have been carried out.
	ErrDetached = errors.New("control: data server not attached")
	// ErrRefused means that the metadata server turned a data server away for
	// a reason that trying again does not mend: wrong token, wrong cluster,
	// another protocol version. The message says which.
	ErrRefused = errors.New("control: refused by the metadata server")
)

// Hello is how a data server introduces itself.
type Hello struct {
	// UUID names the data folder; it was made with it and is never zero.
	UUID [16]byte
	// Name is for people, at most 64 bytes.
	Name string
	// Instance is random, and new at each start of the data server: a DS whose
	// Instance changed has lost what it had not synced.
	Instance [16]byte
	// Cluster is the one that the data folder belongs to, zero if it was never
	// welcomed by any. A DS of another cluster is refused.
	Cluster [16]byte
	// Addresses are the NFS listeners, 1 to 16; the host may be a wildcard.
	Addresses []layout.Address
	Usage     Usage
	// Version of the software, for people.
	Version string
}

// Usage is what a data server reports each second. Bytes and Files are those
// of its file system; ReadBytes and WrittenBytes count NFS data since its start.
type Usage struct {
	CapacityBytes, UsedBytes, FreeBytes uint64
	Files                               uint64
	ReadBytes, WrittenBytes             uint64
	// Disk names the file system that capacity and free are of, at most 64
	// bytes: data servers with the same Disk share both. "" is nobody else's.
	Disk string
}

// Welcome is what a data server learns when it attaches.
type Welcome struct {
	DS      layout.DSID
	Cluster [16]byte
	Keys    *layout.Keyring
	Lease   time.Duration // whole seconds
	Start   uint32        // of the metadata service: a later one is higher
}

// Kind says what a Command does.
type Kind uint8

// The kinds of command. All may be done twice.
const (
	// FenceClient refuses Client from now on: NFS4ERR_STALE or a closed
	// connection for its I/O. Durable when acknowledged.
	FenceClient Kind = iota + 1
	// FenceObject refuses capabilities for Object whose epoch is below Epoch.
	// Durable when acknowledged.
	FenceObject
	// Truncate cuts Object to Size bytes if it is longer. Durable when
	// acknowledged.
	Truncate
	// Remove deletes Object; one that does not exist is removed already.
	Remove
	// SetKeys replaces the keyring by Keys.
	SetKeys
	// Ready says that all that happened while the data server was away has
	// been sent: before its first Ready since its start it serves no NFS.
	Ready
)

// String gives the kind as logs and text stories write it.
func (k Kind) String() string {
	names := [...]string{"none", "fence-client", "fence-object", "truncate", "remove", "set-keys", "ready"}
	if int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// Command is one thing for a data server to do; which of the fields behind
// Kind mean something, Kind says.
type Command struct {
	Kind   Kind
	Object layout.Object
	Client nfs4.ClientID
	Epoch  uint32
	Size   uint64
	Keys   *layout.Keyring
}

// Ack is a data server's answer to one Command. Status is OK if it was done,
// else what hindered it (NFS4ERR_IO, NFS4ERR_NOTSUPP for a Kind it does not
// know).
type Ack struct {
	Status nfs4.Status
}

// MDS is what a Server needs from its metadata server. For one data server
// Register, Attached, Heartbeat and Detached come one at a time; for several, at
// the same time. None but Register and FileSize may block.
type MDS interface {
	// Register returns the number of the data server that h.UUID names. The
	// first time it gives it one, durably, and never the same to another; later
	// it notes the name and addresses of h. An error refuses the data server for
	// now, and it is told the error's text.
	Register(ctx context.Context, h Hello) (layout.DSID, error)
	// Attached says that ds can be sent commands. It is not Ready yet.
	Attached(ds layout.DSID, h Hello)
	// Heartbeat says that ds is alive and what it holds.
	Heartbeat(ds layout.DSID, u Usage)
	// Detached says that ds is gone, and why. It follows each Attached.
	Detached(ds layout.DSID, why error)
	// FileSize returns the size in bytes of the file that o is part of. Its
	// error reaches the data server as NFS4ERR_IO unless it is an nfs4.Status.
	FileSize(ctx context.Context, o layout.Object) (uint64, error)
}

// DS is what an Agent needs from its data server.
type DS interface {
	// Usage returns what the next heartbeat says.
	Usage() Usage
	// Welcomed says that the data server is attached, before any command. An
	// error (a number or a cluster that is not the one on its disk) drops the
	// connection and ends the Agent.
	Welcomed(w Welcome) error
	// Do carries one command out. ctx ends with the connection; a command that
	// was begun may be finished, and Do is not called again before it returns.
	Do(ctx context.Context, c Command) Ack
}
