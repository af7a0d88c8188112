package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "manifold/mds/admin/adminpb"
)

// maxReply has room for the list of some hundred thousand clients.
const maxReply = 64 << 20

// Conn is a connection to a Server. It is a Backend: a call's error is one of
// this package's, with the text that the server gave it. ErrUnavailable says
// that no server answered.
type Conn struct {
	addr   string
	cc     *grpc.ClientConn
	client pb.AdminClient
	failed atomic.Pointer[error] // of the last attempt to connect
}

var _ Backend = (*Conn)(nil)

// Dial returns a Conn to the server at addr ("unix:PATH"), which is connected
// to when the first call is made. ErrInvalid for another form of address.
func Dial(addr string) (*Conn, error) {
	path, err := socketPath(addr)
	if err != nil {
		return nil, err
	}
	c := &Conn{addr: scheme + path}
	c.cc, err = grpc.NewClient("passthrough:///manifold", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
			c.failed.Store(&err)
			return conn, err
		}))
	if err != nil {
		return nil, fmt.Errorf("%w: admin address %q: %w", ErrInvalid, addr, err)
	}
	c.client = pb.NewAdminClient(c.cc)
	return c, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.cc.Close() }

// apiError is an error that came over the wire: the text is the server's, the
// kind is one of this package's errors.
type apiError struct {
	text string
	kind error
}

func (e *apiError) Error() string { return e.text }
func (e *apiError) Unwrap() error { return e.kind }

// fromStatus turns a call's error into one of this package's. gRPC's own words
// for a server that is not there are replaced by the system's.
func (c *Conn) fromStatus(err error) error {
	if err == nil {
		return nil
	}
	st, _ := status.FromError(err)
	if failed := c.failed.Load(); st.Code() == codes.Unavailable && failed != nil && *failed != nil {
		why := *failed
		if op := (*net.OpError)(nil); errors.As(why, &op) {
			why = op.Err
		}
		return &apiError{text: fmt.Sprintf("no server answers at %s: %v", c.addr, why), kind: ErrUnavailable}
	}
	for _, k := range kinds {
		if st.Code() == k.code {
			return &apiError{text: st.Message(), kind: k.err}
		}
	}
	return &apiError{text: st.Message()}
}

// Status asks the server.
func (c *Conn) Status(ctx context.Context) (Status, error) {
	r, err := c.client.GetStatus(ctx, &pb.GetStatusRequest{})
	return statusFromPB(r), c.fromStatus(err)
}

// DataServers asks the server.
func (c *Conn) DataServers(ctx context.Context) ([]DataServer, error) {
	r, err := c.client.ListDataServers(ctx, &pb.ListDataServersRequest{})
	return each(r.GetDataServers(), dataServerFromPB), c.fromStatus(err)
}

// DataServer asks the server.
func (c *Conn) DataServer(ctx context.Context, idOrName string) (DataServer, error) {
	r, err := c.client.GetDataServer(ctx, &pb.GetDataServerRequest{Id: idOrName})
	return dataServerFromPB(r), c.fromStatus(err)
}

// SetDrain has the server do it.
func (c *Conn) SetDrain(ctx context.Context, id string, on bool) error {
	_, err := c.client.SetDrain(ctx, &pb.SetDrainRequest{Id: id, On: on})
	return c.fromStatus(err)
}

// RemoveDS has the server do it.
func (c *Conn) RemoveDS(ctx context.Context, id string) error {
	_, err := c.client.RemoveDataServer(ctx, &pb.RemoveDataServerRequest{Id: id})
	return c.fromStatus(err)
}

// Clients asks the server.
func (c *Conn) Clients(ctx context.Context) ([]Client, error) {
	r, err := c.client.ListClients(ctx, &pb.ListClientsRequest{})
	return each(r.GetClients(), clientFromPB), c.fromStatus(err)
}

// Layout asks the server.
func (c *Conn) Layout(ctx context.Context, path string) (Layout, error) {
	r, err := c.client.GetLayout(ctx, &pb.GetLayoutRequest{Path: path})
	return layoutFromPB(r), c.fromStatus(err)
}

// SetLayout has the server do it.
func (c *Conn) SetLayout(ctx context.Context, path string, p Policy) error {
	_, err := c.client.SetLayout(ctx, &pb.SetLayoutRequest{Path: path, Policy: policyToPB(p)})
	return c.fromStatus(err)
}

// MetadataServers asks the server.
func (c *Conn) MetadataServers(ctx context.Context) ([]MetadataServer, error) {
	r, err := c.client.ListMetadataServers(ctx, &pb.ListMetadataServersRequest{})
	return each(r.GetMetadataServers(), metadataServerFromPB), c.fromStatus(err)
}

// Handover has the server do it.
func (c *Conn) Handover(ctx context.Context) error {
	_, err := c.client.Handover(ctx, &pb.HandoverRequest{})
	return c.fromStatus(err)
}

// RecallLayouts has the server do it.
func (c *Conn) RecallLayouts(ctx context.Context, r Recall) (uint64, error) {
	reply, err := c.client.RecallLayouts(ctx, &pb.RecallLayoutsRequest{Path: r.Path, Scope: r.Scope, Client: r.Client})
	return reply.GetLayouts(), c.fromStatus(err)
}
