// Package admin is how an administrator talks to a metadata server: gRPC on a
// unix socket that only the server's own user may open.
//
// Its nouns: a Backend is what can be asked and done, and the metadata server
// is one; a Server offers a Backend on a listener; a Conn, made by Dial, is the
// other end, and a Backend too. Status, DataServer, Client, Layout and Policy
// are the answers; a Recall names layouts. Their JSON form is what `manifold ctl -o json` prints, and
// scripts rely on it: fields may be added, none renamed.
package admin

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative adminpb/admin.proto
//go:generate mv adminpb/admin.pb.go adminpb/zadmin.pb.go
//go:generate mv adminpb/admin_grpc.pb.go adminpb/zadmin_grpc.pb.go

import (
	"context"
	"errors"
)

// What a Backend's errors are made of. Wrap one of them with %w and say what
// was asked for; the text reaches the administrator as it is. Any other error
// is an internal one.
var (
	// ErrNotFound: no such data server or path.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: what was asked for makes no sense, whenever it is asked.
	ErrInvalid = errors.New("invalid")
	// ErrRefused: it makes sense, but not in the state that the object is in.
	ErrRefused = errors.New("refused")
	// ErrUnavailable: the server is not there, or cannot answer just now.
	ErrUnavailable = errors.New("unavailable")
)

// Backend is what an administrator can ask of a metadata server. Its methods
// may be called by many goroutines at once. A data server is named by its
// number ("3"), its name or its uuid.
type Backend interface {
	// Status sums the server up.
	Status(ctx context.Context) (Status, error)
	// DataServers lists all data servers, also removed ones, by number.
	DataServers(ctx context.Context) ([]DataServer, error)
	// DataServer describes one. ErrNotFound.
	DataServer(ctx context.Context, idOrName string) (DataServer, error)
	// SetDrain decides whether new files are kept off a data server. It is
	// durable when it returns. ErrNotFound, ErrRefused for a removed one.
	SetDrain(ctx context.Context, id string, on bool) error
	// RemoveDS takes a data server out of the cluster for good. ErrNotFound,
	// ErrRefused while files lie on it.
	RemoveDS(ctx context.Context, id string) error
	// Clients lists the NFS clients, by id.
	Clients(ctx context.Context) ([]Client, error)
	// Layout tells how a file is striped, or how files made in a directory will
	// be. path is seen from the volume's root and begins with "/". ErrNotFound,
	// ErrInvalid for a path that is neither file nor directory.
	Layout(ctx context.Context, path string) (Layout, error)
	// SetLayout sets the policy of a directory, for what is made in it from now
	// on, or of an empty file. ErrNotFound, ErrInvalid for a policy that no file
	// could have, ErrRefused for a file with data in it.
	SetLayout(ctx context.Context, path string, p Policy) error
	// RecallLayouts takes layouts back from clients and waits until they are
	// back, or fenced because a client did not return them within a lease. It
	// returns how many there were. Clients ask for new ones when they need them.
	// ErrNotFound (path, client), ErrInvalid, ErrUnavailable if ctx ended before:
	// the recall goes on then.
	RecallLayouts(ctx context.Context, r Recall) (layouts uint64, err error)
	// MetadataServers lists the metadata servers of the cluster that are there, by
	// name; one that is alone has no name.
	MetadataServers(ctx context.Context) ([]MetadataServer, error)
	// Handover has this metadata server let another one lead, and returns when it
	// does not lead any more. ErrRefused if there is no other, ErrUnavailable if it
	// does not lead.
	Handover(ctx context.Context) error
}

// MetadataServer is one metadata server.
type MetadataServer struct {
	Name    string `json:"name"`
	Address string `json:"address"` // where it listens for clients
	Version string `json:"version"`
	// State is leading, standby, or alone for one that has no others.
	State string `json:"state"`
	// ForSeconds is how long it has led; below 0: it does not.
	ForSeconds float64 `json:"for_seconds"`
}

// The values of MetadataServer.State.
const (
	StateLeading = "leading"
	StateStandby = "standby"
	StateAlone   = "alone"
)

// Recall says which layouts to take back: those of the file at Path, or if
// that is empty all that are in Scope. Client is a client's ID, or empty for all
// clients.
type Recall struct {
	Path   string
	Scope  string
	Client string
}

// The values of Recall.Scope: all layouts of the file system, and all there are.
// Clients see different calls; the layouts are the same as long as there is one
// file system.
const (
	ScopeFSID = "fsid"
	ScopeAll  = "all"
)

// Status is a metadata server at a glance. Counters of bytes and refusals run
// since its start.
type Status struct {
	Version       string  `json:"version"`
	ClusterID     string  `json:"cluster_id"`
	UptimeSeconds float64 `json:"uptime_seconds"`
	LeaseSeconds  float64 `json:"lease_seconds"`
	// Grace says that clients may reclaim what they held before a restart, and
	// that nobody gets anything new.
	Grace   bool   `json:"grace"`
	Clients uint64 `json:"clients"`
	Opens   uint64 `json:"opens"`
	Locks   uint64 `json:"locks"`
	Layouts uint64 `json:"layouts"`
	// Recalls are layouts being recalled now.
	Recalls uint64 `json:"recalls"`
	// ProxyReadBytes and ProxyWrittenBytes went through the metadata server
	// because a client did not, or could not, go to the data servers itself.
	ProxyReadBytes    uint64 `json:"proxy_read_bytes"`
	ProxyWrittenBytes uint64 `json:"proxy_written_bytes"`
	// ProxyRefused counts such READs and WRITEs that were refused because proxy
	// I/O is switched off.
	ProxyRefused     uint64 `json:"proxy_refused"`
	DataServersUp    int    `json:"data_servers_up"`
	DataServersTotal int    `json:"data_servers_total"` // without removed ones
}

// DataServer is one data server.
type DataServer struct {
	ID   uint32 `json:"id"`
	Name string `json:"name"`
	UUID string `json:"uuid"`
	// State is up, down, draining or removed.
	State string `json:"state"`
	// Addresses are host:port; the host may be a wildcard, for which clients
	// are told the address by which they reached the metadata server.
	Addresses     []string `json:"addresses"`
	CapacityBytes uint64   `json:"capacity_bytes"`
	UsedBytes     uint64   `json:"used_bytes"`
	FreeBytes     uint64   `json:"free_bytes"`
	// ReadBytes and WrittenBytes are NFS data since the data server's start.
	ReadBytes    uint64 `json:"read_bytes"`
	WrittenBytes uint64 `json:"written_bytes"`
	// HeartbeatAgeSeconds is below 0 if the metadata server has not heard from
	// it since its own start.
	HeartbeatAgeSeconds float64 `json:"heartbeat_age_seconds"`
	Version             string  `json:"version"`
}

// Client is one NFS client (RFC 8881 section 2.4).
type Client struct {
	ID             string `json:"id"` // the client id in hexadecimal
	Owner          string `json:"owner"`
	Implementation string `json:"implementation"`
	Address        string `json:"address"`
	Sessions       int    `json:"sessions"`
	Slots          int    `json:"slots"` // of all its sessions
	Opens          uint64 `json:"opens"`
	Layouts        uint64 `json:"layouts"`
	// LastRenewalSecondsAgo is when it was last heard from. Its state goes when
	// that passes the lease time.
	LastRenewalSecondsAgo float64 `json:"last_renewal_seconds_ago"`
	Confirmed             bool    `json:"confirmed"`
}

// Policy says how files are striped: StripeUnit bytes on each of Width data
// servers in turn, taken from Pool. What is zero or empty is the server's
// default.
type Policy struct {
	StripeUnit uint64 `json:"stripe_unit"`
	Width      int    `json:"width"`
	Pool       string `json:"pool"`
}

// The values of Layout.Kind.
const (
	KindFile = "file"
	KindDir  = "dir"
)

// Layout is how a file is striped, or files made in a directory will be.
type Layout struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"`
	Policy Policy `json:"policy"`
	// The rest is a file's. Size is what the metadata server knows of it.
	// StripeUnit and Width are 0 and Stripes is empty as long as no data server
	// was chosen, which happens at the first write.
	Size       uint64   `json:"size"`
	StripeUnit uint64   `json:"stripe_unit"`
	Width      int      `json:"width"`
	Stripes    []Stripe `json:"stripes"`
}

// Stripe is the data server that holds one of a file's stripes; a Layout lists
// them in stripe order.
type Stripe struct {
	ID   uint32 `json:"id"`
	Name string `json:"name"`
}
