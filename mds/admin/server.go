package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "manifold/mds/admin/adminpb"
)

const (
	scheme = "unix:"
	// maxSocketPath is what a Linux socket address has room for.
	maxSocketPath = 107
	maxRequest    = 64 << 10
	// stopTimeout is how long a call in work may go on when the server ends.
	stopTimeout = 2 * time.Second
)

// Listen makes the socket of an address "unix:PATH", with mode 0600. A socket
// file that nobody listens on any more is replaced; anything else at that path
// is an error. Closing the listener removes the file.
func Listen(addr string) (net.Listener, error) {
	path, err := socketPath(addr)
	if err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The mode that a socket has before bind is the one that its file is made
	// with, so there is no moment in which others may open it.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var chmod error
		err := c.Control(func(fd uintptr) { chmod = syscall.Fchmod(int(fd), 0o600) })
		return errors.Join(err, chmod)
	}}
	ln, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("admin socket %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("admin socket: %w", err), ln.Close())
	}
	return ln, nil
}

// socketPath takes an address apart.
func socketPath(addr string) (string, error) {
	path, ok := strings.CutPrefix(addr, scheme)
	path = strings.TrimPrefix(path, "//") // as gRPC writes it: unix:///path
	switch {
	case !ok || path == "":
		return "", fmt.Errorf("%w: admin address %q: it must be unix:PATH", ErrInvalid, addr)
	case len(path) > maxSocketPath:
		return "", fmt.Errorf("%w: admin socket path %s has %d bytes, the system allows %d: choose a shorter one", ErrInvalid, path, len(path), maxSocketPath)
	}
	return path, nil
}

// removeStale removes the socket file of a server that ended without doing so.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("admin socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("admin socket: %s exists and is not a socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		return errors.Join(fmt.Errorf("admin socket: another server listens on %s", path), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("admin socket: %w", err)
	}
	return os.Remove(path)
}

// Server offers a Backend. Whoever can reach it may do everything: the mode of
// the socket file is what keeps others out.
type Server struct {
	pb.UnimplementedAdminServer
	backend Backend
}

// NewServer returns a Server of b.
func NewServer(b Backend) *Server { return &Server{backend: b} }

// Serve answers calls on ln until ctx ends; calls in work get two seconds to
// finish. It closes ln, which removes the socket file, and returns nil if ctx
// ended it.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	g := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxRequest), grpc.MaxConcurrentStreams(16), grpc.WaitForHandlers(true),
		grpc.ConnectionTimeout(5*time.Second),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			reply, err := h(ctx, req)
			return reply, toStatus(err)
		}),
	)
	pb.RegisterAdminServer(g, s)
	var stopping sync.WaitGroup
	stopping.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer stopping.Done()
		hard := time.AfterFunc(stopTimeout, g.Stop)
		defer hard.Stop()
		g.GracefulStop()
	})
	err := g.Serve(ln)
	if stop() {
		g.Stop()
		return err
	}
	stopping.Wait()
	return err
}

// kinds pairs a Backend's errors with gRPC's codes, in both directions.
var kinds = [...]struct {
	err  error
	code codes.Code
}{
	{ErrNotFound, codes.NotFound},
	{ErrInvalid, codes.InvalidArgument},
	{ErrRefused, codes.FailedPrecondition},
	{ErrUnavailable, codes.Unavailable},
	{context.Canceled, codes.Canceled},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
}

func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return status.Error(k.code, err.Error())
		}
	}
	return status.Error(codes.Internal, err.Error())
}

// GetStatus serves the API; programs ask their Backend. So do the others.
func (s *Server) GetStatus(ctx context.Context, _ *pb.GetStatusRequest) (*pb.Status, error) {
	st, err := s.backend.Status(ctx)
	return statusToPB(st), err
}

// ListDataServers serves the API.
func (s *Server) ListDataServers(ctx context.Context, _ *pb.ListDataServersRequest) (*pb.ListDataServersReply, error) {
	list, err := s.backend.DataServers(ctx)
	return &pb.ListDataServersReply{DataServers: each(list, dataServerToPB)}, err
}

// GetDataServer serves the API.
func (s *Server) GetDataServer(ctx context.Context, r *pb.GetDataServerRequest) (*pb.DataServer, error) {
	d, err := s.backend.DataServer(ctx, r.GetId())
	return dataServerToPB(d), err
}

// SetDrain serves the API.
func (s *Server) SetDrain(ctx context.Context, r *pb.SetDrainRequest) (*pb.SetDrainReply, error) {
	return &pb.SetDrainReply{}, s.backend.SetDrain(ctx, r.GetId(), r.GetOn())
}

// RemoveDataServer serves the API.
func (s *Server) RemoveDataServer(ctx context.Context, r *pb.RemoveDataServerRequest) (*pb.RemoveDataServerReply, error) {
	return &pb.RemoveDataServerReply{}, s.backend.RemoveDS(ctx, r.GetId())
}

// ListClients serves the API.
func (s *Server) ListClients(ctx context.Context, _ *pb.ListClientsRequest) (*pb.ListClientsReply, error) {
	list, err := s.backend.Clients(ctx)
	return &pb.ListClientsReply{Clients: each(list, clientToPB)}, err
}

// GetLayout serves the API.
func (s *Server) GetLayout(ctx context.Context, r *pb.GetLayoutRequest) (*pb.Layout, error) {
	l, err := s.backend.Layout(ctx, r.GetPath())
	return layoutToPB(l), err
}

// SetLayout serves the API.
func (s *Server) SetLayout(ctx context.Context, r *pb.SetLayoutRequest) (*pb.SetLayoutReply, error) {
	return &pb.SetLayoutReply{}, s.backend.SetLayout(ctx, r.GetPath(), policyFromPB(r.GetPolicy()))
}

// RecallLayouts serves the API.
func (s *Server) RecallLayouts(ctx context.Context, r *pb.RecallLayoutsRequest) (*pb.RecallLayoutsReply, error) {
	n, err := s.backend.RecallLayouts(ctx, Recall{Path: r.GetPath(), Scope: r.GetScope(), Client: r.GetClient()})
	return &pb.RecallLayoutsReply{Layouts: n}, err
}

// ListMetadataServers serves the API.
func (s *Server) ListMetadataServers(ctx context.Context, _ *pb.ListMetadataServersRequest) (*pb.ListMetadataServersReply, error) {
	list, err := s.backend.MetadataServers(ctx)
	return &pb.ListMetadataServersReply{MetadataServers: each(list, metadataServerToPB)}, err
}

// Handover serves the API.
func (s *Server) Handover(ctx context.Context, _ *pb.HandoverRequest) (*pb.HandoverReply, error) {
	return &pb.HandoverReply{}, s.backend.Handover(ctx)
}
