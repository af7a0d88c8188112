package control

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"manifold/layout"
	pb "manifold/layout/control/controlpb"
	"manifold/xdr/nfs4"
)

const (
	// maxBatch is how many commands go out at once, maxInFlight how many of one
	// data server may wait for their acks. An Agent holds maxInFlight.
	maxBatch    = 256
	maxInFlight = 2 * maxBatch

	defaultDeadAfter = 4 * time.Second
)

// ServerConfig is what a Server needs.
type ServerConfig struct {
	// Token is what data servers must show, at least 16 bytes.
	Token string
	// Cluster is the cluster's id, not zero.
	Cluster [16]byte
	// Keys opens what the metadata server seals. See SetKeys.
	Keys *layout.Keyring
	// Lease is told to data servers, in whole seconds.
	Lease time.Duration
	// Start numbers the starts of the metadata service.
	Start uint32
	// DeadAfter is how long a data server may be silent: four seconds if zero.
	// It must be well above the second between heartbeats.
	DeadAfter time.Duration
	MDS       MDS
	Log       *zap.Logger // nil: no log
}

// Server is the metadata server's end.
type Server struct {
	pb.UnimplementedControlServer
	cfg   ServerConfig
	token [sha256.Size]byte

	mu       sync.Mutex
	keys     *layout.Keyring
	entered  map[[16]byte]*attachment // by uuid, from its hello on
	attached map[layout.DSID]*attachment
}

// NewServer returns a Server for one Serve. It refuses a config without which
// it could not keep its promises.
func NewServer(cfg ServerConfig) (*Server, error) {
	switch {
	case len(cfg.Token) < 16:
		return nil, errors.New("control: join token shorter than 16 bytes")
	case cfg.Cluster == [16]byte{} || cfg.Keys == nil || cfg.MDS == nil:
		return nil, errors.New("control: no cluster id, keys or MDS")
	case cfg.Lease < time.Second:
		return nil, fmt.Errorf("control: lease of %v", cfg.Lease)
	}
	if cfg.DeadAfter == 0 {
		cfg.DeadAfter = defaultDeadAfter
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &Server{
		cfg: cfg, token: sha256.Sum256([]byte(cfg.Token)), keys: cfg.Keys,
		entered: map[[16]byte]*attachment{}, attached: map[layout.DSID]*attachment{},
	}, nil
}

// Serve takes connections from ln until ctx ends, then drops them all, closes
// ln and returns nil. Data servers serve on without it.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	g := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.ConnectionTimeout(s.cfg.DeadAfter),
		grpc.MaxConcurrentStreams(256),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: s.cfg.DeadAfter, Timeout: s.cfg.DeadAfter}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			if err := s.authenticate(ctx); err != nil {
				return nil, err
			}
			return h(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, st grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			if err := s.authenticate(st.Context()); err != nil {
				return err
			}
			return h(srv, st)
		}),
	)
	pb.RegisterControlServer(g, s)
	stop := context.AfterFunc(ctx, g.Stop)
	defer stop()
	// nil if Stop ended it, and then every handler has returned.
	err := g.Serve(ln)
	g.Stop()
	return err
}

// tokenKey is the metadata entry that carries the join token.
const tokenKey = "manifold-token"

// authenticate compares hashes, so that neither the token's bytes nor its
// length show in the time it takes.
func (s *Server) authenticate(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	var shown string
	if v := md.Get(tokenKey); len(v) == 1 {
		shown = v[0]
	}
	sum := sha256.Sum256([]byte(shown))
	if subtle.ConstantTimeCompare(sum[:], s.token[:]) != 1 {
		return status.Error(codes.Unauthenticated, "wrong join token")
	}
	return nil
}

// FileSize serves the data servers' question; programs ask their MDS.
func (s *Server) FileSize(ctx context.Context, r *pb.FileSizeRequest) (*pb.FileSizeReply, error) {
	size, err := s.cfg.MDS.FileSize(ctx, objectFromPB(r.GetObject()))
	if err != nil {
		st := nfs4.ErrIO
		errors.As(err, &st)
		return &pb.FileSizeReply{Status: uint32(st)}, nil
	}
	return &pb.FileSizeReply{Size: size}, nil
}

// Do sends cmds to ds in order and returns the acks, in the same order. It
// waits until all are acknowledged, ctx ends (its error; the commands already
// sent are still carried out) or the connection ends (ErrDetached). Commands
// of concurrent calls do not come in between, up to 256.
func (s *Server) Do(ctx context.Context, ds layout.DSID, cmds ...Command) ([]Ack, error) {
	s.mu.Lock()
	a := s.attached[ds]
	s.mu.Unlock()
	if a == nil {
		return nil, ErrDetached
	}
	acks := make([]Ack, 0, len(cmds))
	for part := range slices.Chunk(cmds, maxBatch) {
		got, err := a.do(ctx, part)
		if err != nil {
			return nil, err
		}
		acks = append(acks, got...)
	}
	return acks, nil
}

// SetKeys makes keys what later data servers are welcomed with. Those that are
// attached must be told by a SetKeys command.
func (s *Server) SetKeys(keys *layout.Keyring) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = keys
}

// Attached returns the numbers of the data servers that are attached now,
// ascending.
func (s *Server) Attached() []layout.DSID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]layout.DSID, 0, len(s.attached))
	for id := range s.attached {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Drop ends ds's connection, if there is one, and returns when it has ended. A
// data server that is not to come back must be refused by Register.
func (s *Server) Drop(ds layout.DSID, why error) {
	s.mu.Lock()
	a := s.attached[ds]
	s.mu.Unlock()
	if a != nil {
		a.end(why)
		<-a.done
	}
}
