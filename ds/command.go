package ds

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.uber.org/zap"

	"manifold/ds/fence"
	"manifold/ds/op"
	"manifold/layout"
	"manifold/layout/control"
	"manifold/xdr/nfs4"
)

// orders is the control.DS of a Server: what the metadata server has it do.
type orders struct{ s *Server }

// Usage implements control.DS.
func (o orders) Usage() control.Usage {
	room, err := o.s.store.Statfs()
	if err != nil {
		o.s.sampled.Warn("cannot tell what room there is; the metadata server will take the disk for full", zap.Error(err))
	}
	n := o.s.ops.Counters()
	return control.Usage{
		CapacityBytes: room.Capacity, UsedBytes: room.Used, FreeBytes: room.Free, Files: room.Files, Disk: room.Disk,
		ReadBytes: n.ReadBytes, WrittenBytes: n.WrittenBytes,
	}
}

// Welcomed implements control.DS. It refuses to be another data server than
// the one that the data folder is.
func (o orders) Welcomed(w control.Welcome) error {
	s := o.s
	got := member{cluster: w.Cluster, ds: w.DS}
	switch {
	case s.member == member{}:
		if err := got.keep(s.cfg.Data); err != nil {
			return fmt.Errorf("ds: membership not kept: %w", err)
		}
		s.member = got
	case s.member != got:
		return fmt.Errorf("ds: the data folder is data server %d of cluster %x, and the metadata server took it for %d of %x",
			s.member.ds, s.member.cluster, got.ds, got.cluster)
	}
	s.ops.SetTerms(op.Terms{Keys: w.Keys, Lease: w.Lease})
	s.lease = w.Lease
	s.log.Info("attached to the metadata server", zap.Uint32("ds", uint32(w.DS)), zap.Uint32("start", w.Start))
	return nil
}

// Do implements control.DS.
func (o orders) Do(ctx context.Context, c control.Command) control.Ack {
	err := o.do(ctx, c)
	if err == nil {
		return control.Ack{}
	}
	ack := control.Ack{Status: ackStatus(err)}
	o.s.sampled.Error("could not do what the metadata server asked for; it will ask again",
		zap.Stringer("command", c.Kind), zap.Stringer("object", c.Object), zap.Stringer("status", ack.Status), zap.Error(err))
	return ack
}

// errUnknown is a command of a later version.
var errUnknown = errors.New("ds: unknown command")

func ackStatus(err error) nfs4.Status {
	switch {
	case errors.Is(err, errUnknown):
		return nfs4.ErrNotSupp
	case errors.Is(err, fence.ErrFull):
		return nfs4.ErrNoSpc
	}
	return op.StatusOf(err)
}

func (o orders) do(ctx context.Context, c control.Command) error {
	s := o.s
	switch c.Kind {
	case control.FenceClient:
		s.log.Info("client fenced", zap.String("clientid", fmt.Sprintf("%#x", uint64(c.Client))))
		return s.fences.change(ctx, func(t *fence.Table) (bool, error) { return t.FenceClient(c.Client), nil })
	case control.FenceObject:
		return s.fences.change(ctx, func(t *fence.Table) (bool, error) { return t.FenceObject(c.Object, c.Epoch) })
	case control.Truncate:
		s.ops.ForgetSize(c.Object)
		return s.store.Truncate(c.Object, int64(min(c.Size, math.MaxInt64)))
	case control.Remove:
		return o.remove(ctx, c.Object)
	case control.SetKeys:
		if c.Keys == nil {
			return errors.New("ds: no keys")
		}
		s.ops.SetTerms(op.Terms{Keys: c.Keys})
		return nil
	case control.Ready:
		s.startServing()
		return nil
	}
	return errUnknown
}

// remove removes an object, and its fence: the store remembers the removal, and
// what comes so late that it does not would make a file that no inode names.
func (o orders) remove(ctx context.Context, obj layout.Object) error {
	o.s.ops.ForgetSize(obj)
	if err := o.s.store.Remove(obj); err != nil {
		return err
	}
	if o.s.fences.gate.Table().Least(obj) == 0 {
		return nil
	}
	return o.s.fences.change(ctx, func(t *fence.Table) (bool, error) { return t.Forget(obj), nil })
}
