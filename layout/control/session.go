package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"

	pb "manifold/layout/control/controlpb"
	"manifold/xdr/nfs4"
)

var errSilentMDS = errors.New("control: nothing heard from the metadata server")

// session attaches once and returns when the connection is over and no command
// that it brought is being carried out any more. welcomed says whether it got
// as far as a Welcome.
func (a *Agent) session(ctx context.Context, target string) (welcomed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hello := a.cfg.Hello
	hello.Usage = a.cfg.DS.Usage()
	a.mu.Lock()
	hello.Cluster = a.cluster
	a.mu.Unlock()

	conn, err := a.dial(target)
	if err != nil {
		return false, fmt.Errorf("control: %s: %w", target, err)
	}
	defer conn.Close()
	// Opening a stream waits for the connection, which a dead host can delay.
	opened := time.AfterFunc(a.cfg.DeadAfter, cancel)
	st, err := pb.NewControlClient(conn).Attach(ctx)
	if opened.Stop(); err != nil {
		return false, refusal(err)
	}
	// An error of Send is EOF; what was wrong comes with Recv.
	_ = st.Send(&pb.FromDS{Msg: &pb.FromDS_Hello{Hello: helloToPB(hello)}})
	in := receive(ctx, st.Recv)
	first, err := awaitFirst(ctx, in, a.cfg.DeadAfter)
	if err != nil {
		return false, refusal(err)
	}
	w, err := welcomeFromPB(first.GetWelcome())
	if err != nil {
		return false, err
	}
	a.mu.Lock()
	late := w.Start < a.start
	if !late {
		a.conn, a.welcomed, a.cluster, a.start = conn, true, w.Cluster, w.Start
	}
	a.mu.Unlock()
	if late {
		return false, fmt.Errorf("control: %s does not know that another metadata server leads", target)
	}
	defer func() {
		a.mu.Lock()
		a.conn = nil
		a.mu.Unlock()
	}()
	if err := a.cfg.DS.Welcomed(w); err != nil {
		return false, &welcomeError{err}
	}
	a.hear()
	a.cfg.Log.Info("attached to the metadata server", zap.String("target", target), zap.Uint32("ds", uint32(w.DS)))

	var worker sync.WaitGroup
	s := session{agent: a, send: st.Send, cmds: make(chan *pb.Command, maxInFlight), acks: make(chan *pb.Ack)}
	worker.Go(func() { s.work(ctx) })
	err = s.run(ctx, in)
	cancel()
	worker.Wait()
	return true, err
}

// session is one connection after its Welcome.
type session struct {
	agent *Agent
	send  func(*pb.FromDS) error
	cmds  chan *pb.Command // holds all that the Server has in flight
	acks  chan *pb.Ack
}

// run is the only sender. It ends with the connection.
func (s *session) run(ctx context.Context, in <-chan incoming[*pb.ToDS]) error {
	cfg := &s.agent.cfg
	beat := time.NewTicker(cfg.Heartbeat)
	defer beat.Stop()
	silence := time.NewTimer(cfg.DeadAfter)
	defer silence.Stop()
	for {
		var err error
		select {
		case m := <-in:
			if err = m.err; err == nil {
				s.agent.hear()
				silence.Reset(cfg.DeadAfter)
				err = s.take(m.msg)
			}
		case ack := <-s.acks:
			err = s.send(&pb.FromDS{Msg: &pb.FromDS_Ack{Ack: ack}})
		case <-beat.C:
			err = s.send(&pb.FromDS{Msg: &pb.FromDS_Heartbeat{Heartbeat: &pb.Heartbeat{Usage: usageToPB(cfg.DS.Usage())}}})
		case <-silence.C:
			err = errSilentMDS
		case <-ctx.Done():
			err = ctx.Err()
		}
		// EOF from send says only that the stream is over: Recv says why.
		if err != nil && err != io.EOF {
			return refusal(err)
		}
	}
}

// take hands one message of the metadata server on.
func (s *session) take(m *pb.ToDS) error {
	switch msg := m.GetMsg().(type) {
	case *pb.ToDS_Pong:
		return nil
	case *pb.ToDS_Command:
		select {
		case s.cmds <- msg.Command:
			return nil
		default:
			return fmt.Errorf("%w: more than %d commands in flight", errMessage, maxInFlight)
		}
	}
	return fmt.Errorf("%w: neither pong nor command", errMessage)
}

// work carries commands out, one after the other, until ctx ends.
func (s *session) work(ctx context.Context) {
	for {
		var m *pb.Command
		select {
		case m = <-s.cmds:
		case <-ctx.Done():
			return
		}
		// Both may have been ready: no command is begun once ctx has ended.
		if ctx.Err() != nil {
			return
		}
		ack := s.do(ctx, m)
		select {
		case s.acks <- &pb.Ack{Seq: m.GetSeq(), Status: uint32(ack.Status)}:
		case <-ctx.Done():
			return
		}
	}
}

func (s *session) do(ctx context.Context, m *pb.Command) Ack {
	c, err := commandFromPB(m)
	switch {
	case err != nil:
		return Ack{Status: nfs4.ErrInval}
	case c.Kind == 0:
		return Ack{Status: nfs4.ErrNotSupp}
	}
	return s.agent.cfg.DS.Do(ctx, c)
}
