package control

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"manifold/layout"
	pb "manifold/layout/control/controlpb"
	"manifold/xdr/nfs4"
)

// stream is the metadata server's end of one Attach.
type stream = grpc.BidiStreamingServer[pb.FromDS, pb.ToDS]

// attachment is one attached data server. The goroutine that runs Attach owns
// it; others come in through its channels.
type attachment struct {
	ds    layout.DSID // once it is registered; others read it under Server.mu
	hello Hello
	from  string
	heard atomic.Int64 // when something came in last, UnixNano

	batches chan *batch   // Do -> run
	kick    chan error    // end -> run; holds one
	ending  chan struct{} // closed when no batch is taken any more
	done    chan struct{} // closed after MDS.Detached

	seq     uint64     // of the last command sent
	pending []inFlight // sent, not acknowledged, in order
}

// batch is the commands of one do, answered when left is 0.
type batch struct {
	cmds []Command
	acks []Ack
	done chan error
}

// inFlight says where the ack of one command goes.
type inFlight struct {
	seq uint64
	b   *batch
}

var (
	errReplaced = errors.New("replaced by a newer connection of the same data server")
	errSilent   = errors.New("nothing heard from the data server")
)

// Attach serves one data server's stream; programs use Do and their MDS.
func (s *Server) Attach(st stream) error {
	in := receive(st.Context(), st.Recv)
	first, err := awaitFirst(st.Context(), in, s.cfg.DeadAfter)
	if err != nil {
		return err
	}
	hello, err := s.admit(first.GetHello())
	if err != nil {
		s.cfg.Log.Warn("data server refused", zap.String("from", peerOf(st.Context())), zap.Error(err))
		return err
	}
	a := &attachment{
		hello: hello, from: peerOf(st.Context()), batches: make(chan *batch), kick: make(chan error, 1),
		ending: make(chan struct{}), done: make(chan struct{}),
	}
	a.heard.Store(time.Now().UnixNano())
	if err := s.enter(st.Context(), a); err != nil {
		s.cfg.Log.Warn("data server refused", zap.String("name", hello.Name), zap.String("from", a.from), zap.Error(err))
		return err
	}
	defer s.leave(a)
	// Not before it has entered: a copied folder must not change the record.
	ds, err := s.cfg.MDS.Register(st.Context(), hello)
	if err != nil {
		return status.Errorf(codes.Unavailable, "not registered: %v", err)
	}
	keys := s.name(a, ds)
	welcome := welcomeToPB(Welcome{DS: a.ds, Cluster: s.cfg.Cluster, Keys: keys, Lease: s.cfg.Lease, Start: s.cfg.Start})
	err = st.Send(&pb.ToDS{Msg: &pb.ToDS_Welcome{Welcome: welcome}})
	if err == nil {
		s.cfg.MDS.Attached(a.ds, hello)
		err = a.run(st, in, s.cfg.MDS, s.cfg.DeadAfter)
		a.fail()
		s.cfg.MDS.Detached(a.ds, err)
	}
	s.cfg.Log.Info("data server detached", zap.Uint32("ds", uint32(a.ds)), zap.Error(err))
	return status.Error(codes.Aborted, err.Error())
}

// admit checks what does not depend on the record of the data server.
func (s *Server) admit(m *pb.Hello) (Hello, error) {
	if m == nil {
		return Hello{}, status.Error(codes.InvalidArgument, "the first message is no hello")
	}
	if m.GetProtocol() != Protocol {
		return Hello{}, status.Errorf(codes.FailedPrecondition,
			"the data server speaks version %d of the control protocol, the metadata server version %d", m.GetProtocol(), Protocol)
	}
	h, err := helloFromPB(m)
	if err != nil {
		return h, status.Error(codes.InvalidArgument, err.Error())
	}
	if h.Cluster != [16]byte{} && h.Cluster != s.cfg.Cluster {
		return h, status.Errorf(codes.FailedPrecondition,
			"the data server's folder belongs to cluster %x, this is cluster %x", h.Cluster, s.cfg.Cluster)
	}
	return h, nil
}

// enter makes a the one attachment of its uuid, in place of an earlier one if
// that may be replaced.
func (s *Server) enter(ctx context.Context, a *attachment) error {
	for {
		s.mu.Lock()
		old := s.entered[a.hello.UUID]
		if old == nil {
			s.entered[a.hello.UUID] = a
			s.mu.Unlock()
			return nil
		}
		ds := old.ds
		s.mu.Unlock()
		silent := time.Since(time.Unix(0, old.heard.Load()))
		if old.hello.Instance != a.hello.Instance && silent < s.cfg.DeadAfter {
			return status.Errorf(codes.AlreadyExists,
				"data server %d (%s) is attached from %s: was its data folder copied?", ds, old.hello.Name, old.from)
		}
		old.end(errReplaced)
		select {
		case <-old.done:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// name makes a known by its number, and returns the keys to welcome it with.
func (s *Server) name(a *attachment, ds layout.DSID) *layout.Keyring {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.ds = ds
	s.attached[ds] = a
	return s.keys
}

func (s *Server) leave(a *attachment) {
	s.mu.Lock()
	delete(s.entered, a.hello.UUID)
	if s.attached[a.ds] == a {
		delete(s.attached, a.ds)
	}
	s.mu.Unlock()
	a.fail()
	close(a.done)
}

// end asks run to end. It does not wait.
func (a *attachment) end(why error) {
	select {
	case a.kick <- why:
	default:
	}
}

// run carries messages until the connection is over, and says why it is.
func (a *attachment) run(st stream, in <-chan incoming[*pb.FromDS], mds MDS, deadAfter time.Duration) error {
	silence := time.NewTimer(deadAfter)
	defer silence.Stop()
	for {
		batches := a.batches
		if len(a.pending) > maxInFlight-maxBatch {
			batches = nil
		}
		var err error
		select {
		case m := <-in:
			if err = m.err; err == nil {
				silence.Reset(deadAfter)
				a.heard.Store(time.Now().UnixNano())
				err = a.take(st, m.msg, mds)
			}
		case b := <-batches:
			err = a.send(st, b)
		case <-silence.C:
			err = errSilent
		case err = <-a.kick:
		case <-st.Context().Done():
			err = st.Context().Err()
		}
		if err != nil {
			return err
		}
	}
}

// take handles one message from the data server.
func (a *attachment) take(st stream, m *pb.FromDS, mds MDS) error {
	switch msg := m.GetMsg().(type) {
	case *pb.FromDS_Heartbeat:
		mds.Heartbeat(a.ds, usageFromPB(msg.Heartbeat.GetUsage()))
		return st.Send(&pb.ToDS{Msg: &pb.ToDS_Pong{Pong: &pb.Pong{}}})
	case *pb.FromDS_Ack:
		if len(a.pending) == 0 || a.pending[0].seq != msg.Ack.GetSeq() {
			return fmt.Errorf("%w: ack of command %d out of order", errMessage, msg.Ack.GetSeq())
		}
		b := a.pending[0].b
		a.pending = a.pending[1:]
		b.acks = append(b.acks, Ack{nfs4.Status(msg.Ack.GetStatus())})
		if len(b.acks) == len(b.cmds) {
			b.done <- nil
		}
		return nil
	}
	return fmt.Errorf("%w: neither heartbeat nor ack", errMessage)
}

// send puts b's commands on the stream. It does not block for long: what may
// be in flight is less than the stream's window.
func (a *attachment) send(st stream, b *batch) error {
	for _, c := range b.cmds {
		a.seq++
		a.pending = append(a.pending, inFlight{a.seq, b})
		if err := st.Send(&pb.ToDS{Msg: &pb.ToDS_Command{Command: commandToPB(c, a.seq)}}); err != nil {
			return err
		}
	}
	return nil
}

// fail answers all who wait with ErrDetached and takes nobody else. Only the
// goroutine of Attach calls it; twice is once.
func (a *attachment) fail() {
	select {
	case <-a.ending:
		return
	default:
	}
	close(a.ending)
	var last *batch
	for _, p := range a.pending {
		if p.b != last {
			p.b.done <- ErrDetached
			last = p.b
		}
	}
	a.pending = nil
}

// do sends at most maxBatch commands and waits for their acks.
func (a *attachment) do(ctx context.Context, cmds []Command) ([]Ack, error) {
	b := &batch{cmds: cmds, done: make(chan error, 1)}
	select {
	case a.batches <- b:
	case <-a.ending:
		return nil, ErrDetached
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case err := <-b.done:
		return b.acks, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// awaitFirst returns a stream's first message, which must not take long.
func awaitFirst[M any](ctx context.Context, in <-chan incoming[M], patience time.Duration) (M, error) {
	var none M
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case m := <-in:
		return m.msg, m.err
	case <-t.C:
		return none, status.Error(codes.DeadlineExceeded, "no first message")
	case <-ctx.Done():
		return none, status.FromContextError(ctx.Err()).Err()
	}
}

// incoming is one message of a stream, or the error that ended it.
type incoming[M any] struct {
	msg M
	err error
}

// receive returns the messages that recv yields, until its first error or the
// end of ctx, which must be what makes recv return.
func receive[M any](ctx context.Context, recv func() (M, error)) <-chan incoming[M] {
	in := make(chan incoming[M])
	go func() {
		for {
			m, err := recv()
			select {
			case in <- incoming[M]{m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return in
}

func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return "unknown"
}
