package mds

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"manifold/layout"
	"manifold/mds/admin"
	"manifold/mds/fleet"
	"manifold/mds/ns"
	"manifold/xdr/nfs4"
)

// Server is what an administrator talks to.
var _ admin.Backend = (*Server)(nil)

// Status sums the server up. See admin.Backend, also for what follows.
func (s *Server) Status(context.Context) (admin.Status, error) {
	u := s.ops.Usage()
	st := admin.Status{
		Version: s.opt.Version, ClusterID: hex.EncodeToString(s.service.rec.ClusterID[:]),
		UptimeSeconds: time.Since(s.started).Seconds(), LeaseSeconds: s.cfg.Lease.Seconds(), Grace: u.Grace,
		Clients: uint64(u.State.Clients), Opens: uint64(u.State.Opens), Locks: uint64(u.State.Locks),
		Layouts: uint64(u.State.Layouts), Recalls: uint64(u.Recalling),
		ProxyReadBytes: u.ProxyRead, ProxyWrittenBytes: u.ProxyWritten, ProxyRefused: u.ProxyRefused,
	}
	for _, i := range s.fleet.List() {
		switch i.State {
		case fleet.Removed:
			continue
		case fleet.Up, fleet.Draining:
			st.DataServersUp++
		}
		st.DataServersTotal++
	}
	return st, nil
}

// DataServers lists all data servers.
func (s *Server) DataServers(context.Context) ([]admin.DataServer, error) {
	list := s.fleet.List()
	out := make([]admin.DataServer, len(list))
	for i, m := range list {
		out[i] = describe(m)
	}
	return out, nil
}

// DataServer describes one.
func (s *Server) DataServer(_ context.Context, id string) (admin.DataServer, error) {
	m, err := s.member(id)
	if err != nil {
		return admin.DataServer{}, err
	}
	return describe(m), nil
}

func describe(m fleet.Info) admin.DataServer {
	age := -1.0
	if !m.Heard.IsZero() {
		age = time.Since(m.Heard).Seconds()
	}
	return admin.DataServer{
		ID: uint32(m.ID), Name: m.Name, UUID: hex.EncodeToString(m.UUID[:]), State: string(m.State),
		Addresses: m.Addresses, CapacityBytes: m.Usage.CapacityBytes, UsedBytes: m.Usage.UsedBytes,
		FreeBytes: m.Usage.FreeBytes, ReadBytes: m.Usage.ReadBytes, WrittenBytes: m.Usage.WrittenBytes,
		HeartbeatAgeSeconds: age, Version: m.Version,
	}
}

// member finds a data server by number, name or uuid. A name can be that of
// removed ones too: it is the one's that is there.
func (s *Server) member(id string) (fleet.Info, error) {
	n, err := strconv.ParseUint(id, 10, 32)
	gone := fleet.Info{}
	for _, m := range s.fleet.List() {
		switch {
		case m.Name != id && hex.EncodeToString(m.UUID[:]) != id && (err != nil || m.ID != layout.DSID(n)):
		case m.State != fleet.Removed:
			return m, nil
		default:
			gone = m
		}
	}
	if gone.ID != 0 {
		return gone, nil
	}
	return fleet.Info{}, fmt.Errorf("data server %q: %w", id, admin.ErrNotFound)
}

// SetDrain keeps new files off a data server.
func (s *Server) SetDrain(ctx context.Context, id string, on bool) error {
	m, err := s.member(id)
	if err != nil {
		return err
	}
	if m.State == fleet.Removed {
		return fmt.Errorf("data server %q is removed: %w", id, admin.ErrRefused)
	}
	return s.fleet.SetDraining(ctx, m.ID, on)
}

// RemoveDS takes a data server out for good: no layout uses it any more and
// no file lies on it, and what it still had to be told is forgotten.
func (s *Server) RemoveDS(ctx context.Context, id string) error {
	m, err := s.member(id)
	if err != nil {
		return err
	}
	if m.State == fleet.Removed {
		return nil
	}
	if err := s.fleet.SetDraining(ctx, m.ID, true); err != nil {
		return err
	}
	// Before anybody's layouts are taken for nothing; and again when they are back.
	if err := s.empty(ctx, id, m.ID); err != nil {
		return err
	}
	if err := s.ops.RecallDS(ctx, m.ID); err != nil {
		return fmt.Errorf("%w: %w", err, admin.ErrUnavailable)
	}
	if err := s.empty(ctx, id, m.ID); err != nil {
		return err
	}
	if err := s.fleet.SetRemoved(ctx, m.ID); err != nil {
		return err
	}
	s.ops.ForgetDevices(ctx, m.ID)
	s.control.Drop(m.ID, errRemoved)
	return s.outbox.Drop(ctx, m.ID)
}

// empty is ErrRefused if files lie on a data server.
func (s *Server) empty(ctx context.Context, id string, ds layout.DSID) error {
	files, err := s.ops.FilesOn(ctx, ds)
	if err != nil {
		return err
	}
	if files > 0 {
		return fmt.Errorf("data server %q holds data of %d files, remove or copy them first: %w", id, files, admin.ErrRefused)
	}
	return nil
}

var errRemoved = fmt.Errorf("removed by the administrator")

// Clients lists the NFS clients.
func (s *Server) Clients(context.Context) ([]admin.Client, error) {
	list := s.compound.Clients()
	out := make([]admin.Client, len(list))
	for i, c := range list {
		n := s.ops.ClientUsage(c.ID)
		out[i] = admin.Client{
			ID: fmt.Sprintf("%016x", uint64(c.ID)), Owner: string(c.Owner), Implementation: c.ImplName, Address: c.Remote,
			Sessions: c.Sessions, Slots: c.Slots, Opens: uint64(n.Opens), Layouts: uint64(n.Layouts),
			LastRenewalSecondsAgo: time.Since(c.LastRenewal).Seconds(), Confirmed: c.Confirmed,
		}
	}
	return out, nil
}

// Layout tells how a file is striped, or files made in a directory will be.
func (s *Server) Layout(ctx context.Context, path string) (admin.Layout, error) {
	in, err := s.find(ctx, path)
	if err != nil {
		return admin.Layout{}, err
	}
	l := admin.Layout{
		Path: path, Kind: admin.KindDir,
		Policy: admin.Policy{StripeUnit: uint64(in.Policy.Unit), Width: int(in.Policy.Width), Pool: in.Policy.Pool},
	}
	if in.Type == nfs4.TypeDir {
		return l, nil
	}
	l.Kind, l.Size = admin.KindFile, in.Size
	if len(in.Layout.DS) == 0 {
		return l, nil
	}
	l.StripeUnit, l.Width = uint64(in.Layout.Unit), len(in.Layout.DS)
	for _, id := range in.Layout.DS {
		st := admin.Stripe{ID: uint32(id)}
		if m, err := s.member(strconv.Itoa(int(id))); err == nil {
			st.Name = m.Name
		}
		l.Stripes = append(l.Stripes, st)
	}
	return l, nil
}

// SetLayout sets a policy.
func (s *Server) SetLayout(ctx context.Context, path string, p admin.Policy) error {
	if p.StripeUnit != 0 && !validUnit(p.StripeUnit) {
		return fmt.Errorf("stripe unit %d is not a multiple of %d up to %d: %w", p.StripeUnit, unitGranule, maxUnit, admin.ErrInvalid)
	}
	if p.Width < 0 || p.Width > maxWidth {
		return fmt.Errorf("width %d is not between 0 and %d: %w", p.Width, maxWidth, admin.ErrInvalid)
	}
	in, err := s.find(ctx, path)
	if err != nil {
		return err
	}
	st := s.ops.SetPolicy(ctx, s.service.volume.Handle(in), ns.Policy{Unit: uint32(p.StripeUnit), Width: uint16(p.Width), Pool: p.Pool})
	switch st {
	case nfs4.OK:
		return nil
	case nfs4.ErrFileOpen:
		return fmt.Errorf("%s is open: %w", path, admin.ErrRefused)
	case nfs4.ErrInval:
		return fmt.Errorf("%s has data already, its stripes stay as they are: %w", path, admin.ErrRefused)
	}
	return fmt.Errorf("%s: %w", path, st)
}

// find returns the file or directory at a path.
func (s *Server) find(ctx context.Context, path string) (*ns.Inode, error) {
	in, st := s.ops.Find(ctx, path)
	switch {
	case st == nfs4.ErrNoEnt, st == nfs4.ErrNotDir:
		return nil, fmt.Errorf("%s: %w", path, admin.ErrNotFound)
	case st != nfs4.OK:
		return nil, fmt.Errorf("%s: %w", path, st)
	case in.Type != nfs4.TypeReg && in.Type != nfs4.TypeDir:
		return nil, fmt.Errorf("%s is neither a file nor a directory: %w", path, admin.ErrInvalid)
	}
	return in, nil
}
