package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"manifold/layout"
	pb "manifold/layout/control/controlpb"
	"manifold/xdr/nfs4"
)

const (
	defaultHeartbeat = time.Second
	firstBackoff     = 100 * time.Millisecond
	lastBackoff      = 5 * time.Second
	// turnBackoff is the longest with several metadata servers, any of which may
	// begin to lead.
	turnBackoff = 500 * time.Millisecond
)

// AgentConfig is what an Agent needs.
type AgentConfig struct {
	// Targets are the metadata servers' control addresses, HOST:PORT, of which one
	// at a time answers.
	Targets []string
	// Token is the join token.
	Token string
	// Hello introduces the data server; its Usage and, once welcomed, its
	// Cluster are the Agent's to fill in.
	Hello Hello
	// Heartbeat is the time between two heartbeats: a second if zero.
	Heartbeat time.Duration
	// DeadAfter is how long the metadata server may be silent before the
	// connection is given up: four seconds if zero.
	DeadAfter time.Duration
	DS        DS
	Log       *zap.Logger // nil: no log
}

// Agent is a data server's end.
type Agent struct {
	cfg AgentConfig

	mu       sync.Mutex
	conn     *grpc.ClientConn // while attached
	welcomed bool             // at any time
	cluster  [16]byte
	start    uint32 // the latest of the metadata service that was heard of
	heard    time.Time
}

// NewAgent returns an Agent for one Run. It does not dial yet.
func NewAgent(cfg AgentConfig) (*Agent, error) {
	if _, err := helloFromPB(helloToPB(cfg.Hello)); err != nil {
		return nil, err
	}
	if cfg.DS == nil || cfg.Token == "" || len(cfg.Targets) == 0 {
		return nil, errors.New("control: no DS, no join token or no metadata server")
	}
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = defaultHeartbeat
	}
	if cfg.DeadAfter == 0 {
		cfg.DeadAfter = defaultDeadAfter
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return &Agent{cfg: cfg, cluster: cfg.Hello.Cluster}, nil
}

// dial makes the connection of one session. None outlives its session: one
// that went silent would be tried again and again until TCP gives it up.
func (a *Agent) dial(target string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(tokenCreds(a.cfg.Token)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithIdleTimeout(0),
		grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: a.cfg.DeadAfter}),
	)
}

// tokenCreds adds the join token to every call.
type tokenCreds string

func (t tokenCreds) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{tokenKey: string(t)}, nil
}

func (tokenCreds) RequireTransportSecurity() bool { return false }

// Run keeps the data server attached until ctx ends, and returns nil then. A
// lost connection is dialled again, after 0.1 to 5 seconds with jitter; with
// several metadata servers they take turns, and the longest wait is half a second. Run
// returns ErrRefused if the metadata server turns the data server away for good
// before it was ever welcomed; after that, Run keeps trying, since clients with
// layouts are served meanwhile. It also returns the error of DS.Welcomed.
func (a *Agent) Run(ctx context.Context) error {
	wait, longest := firstBackoff, lastBackoff
	if len(a.cfg.Targets) > 1 {
		longest = turnBackoff
	}
	for turn := 0; ctx.Err() == nil; turn++ {
		target := a.cfg.Targets[turn%len(a.cfg.Targets)]
		welcomed, err := a.session(ctx, target)
		var own *welcomeError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &own):
			return own.err
		case errors.Is(err, ErrRefused) && !a.everWelcomed():
			return err
		case welcomed:
			wait = firstBackoff
		}
		if turn%len(a.cfg.Targets) > 0 && !welcomed {
			continue // the next one, at once
		}
		a.cfg.Log.Warn("metadata server not attached", zap.String("target", target), zap.Error(err), zap.Duration("retry", wait))
		select {
		case <-time.After(wait/2 + rand.N(wait/2+1)):
		case <-ctx.Done():
		}
		wait = min(2*wait, longest)
	}
	return nil
}

// welcomeError is an error of DS.Welcomed.
type welcomeError struct{ err error }

func (e *welcomeError) Error() string { return e.err.Error() }

func (a *Agent) everWelcomed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.welcomed
}

// FileSize asks the metadata server for the size in bytes of the file that o
// is part of. Its error is an nfs4.Status if the metadata server gave one, and
// ErrDetached if it is not attached or the connection was lost.
func (a *Agent) FileSize(ctx context.Context, o layout.Object) (uint64, error) {
	a.mu.Lock()
	conn := a.conn
	a.mu.Unlock()
	if conn == nil {
		return 0, ErrDetached
	}
	r, err := pb.NewControlClient(conn).FileSize(ctx, &pb.FileSizeRequest{Object: objectToPB(o)})
	if err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, fmt.Errorf("%w: %v", ErrDetached, status.Convert(err).Message())
	}
	if st := nfs4.Status(r.GetStatus()); st != nfs4.OK {
		return 0, st
	}
	return r.GetSize(), nil
}

// Silence is how long nothing was heard from a metadata server that leads; 0 if
// nothing ever was.
func (a *Agent) Silence(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.heard.IsZero() {
		return 0
	}
	return now.Sub(a.heard)
}

// hear notes that something was heard.
func (a *Agent) hear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = time.Now()
}

// refusal turns the errors that trying again does not mend into ErrRefused.
func refusal(err error) error {
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	switch st.Code() {
	case codes.Unauthenticated, codes.FailedPrecondition, codes.InvalidArgument, codes.Unimplemented:
		return fmt.Errorf("%w: %s", ErrRefused, st.Message())
	}
	return fmt.Errorf("control: %s", st.Message())
}
