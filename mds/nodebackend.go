package mds

import (
	"context"
	"fmt"
	"time"

	"manifold/mds/admin"
	"manifold/mds/store/etcd"
)

// Node is what an administrator talks to, whether it leads or not.
var _ admin.Backend = (*Node)(nil)

// standby says who leads. It wraps admin.ErrUnavailable.
func (n *Node) standby() error {
	if h := n.member.Status().Holder; h.ID != "" && h.ID != n.cfg.Etcd.ID {
		return fmt.Errorf("this metadata server stands by, ask %s (%s), which leads: %w", h.ID, h.Address, admin.ErrUnavailable)
	}
	return fmt.Errorf("this metadata server stands by, and none leads: %w", admin.ErrUnavailable)
}

// ask calls fn with the Server, while the Node leads.
func ask[T any](n *Node, fn func(*Server) (T, error)) (T, error) {
	if s := n.Leading(); s != nil {
		return fn(s)
	}
	var none T
	return none, n.standby()
}

// Status sums the server up. See admin.Backend, also for what follows.
func (n *Node) Status(ctx context.Context) (admin.Status, error) {
	return ask(n, func(s *Server) (admin.Status, error) { return s.Status(ctx) })
}

// DataServers lists all data servers.
func (n *Node) DataServers(ctx context.Context) ([]admin.DataServer, error) {
	return ask(n, func(s *Server) ([]admin.DataServer, error) { return s.DataServers(ctx) })
}

// DataServer describes one.
func (n *Node) DataServer(ctx context.Context, id string) (admin.DataServer, error) {
	return ask(n, func(s *Server) (admin.DataServer, error) { return s.DataServer(ctx, id) })
}

// SetDrain keeps new files off a data server.
func (n *Node) SetDrain(ctx context.Context, id string, on bool) error {
	_, err := ask(n, func(s *Server) (struct{}, error) { return struct{}{}, s.SetDrain(ctx, id, on) })
	return err
}

// RemoveDS takes a data server out for good.
func (n *Node) RemoveDS(ctx context.Context, id string) error {
	_, err := ask(n, func(s *Server) (struct{}, error) { return struct{}{}, s.RemoveDS(ctx, id) })
	return err
}

// Clients lists the NFS clients.
func (n *Node) Clients(ctx context.Context) ([]admin.Client, error) {
	return ask(n, func(s *Server) ([]admin.Client, error) { return s.Clients(ctx) })
}

// Layout tells how a file is striped, or files made in a directory will be.
func (n *Node) Layout(ctx context.Context, path string) (admin.Layout, error) {
	return ask(n, func(s *Server) (admin.Layout, error) { return s.Layout(ctx, path) })
}

// SetLayout sets a policy.
func (n *Node) SetLayout(ctx context.Context, path string, p admin.Policy) error {
	_, err := ask(n, func(s *Server) (struct{}, error) { return struct{}{}, s.SetLayout(ctx, path, p) })
	return err
}

// RecallLayouts takes layouts back.
func (n *Node) RecallLayouts(ctx context.Context, r admin.Recall) (uint64, error) {
	return ask(n, func(s *Server) (uint64, error) { return s.RecallLayouts(ctx, r) })
}

// MetadataServers lists those that are there, whether this one leads or not.
func (n *Node) MetadataServers(ctx context.Context) ([]admin.MetadataServer, error) {
	list, err := n.member.Members(ctx)
	var leads etcd.Holder
	if err == nil {
		leads, err = n.member.Holder(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("etcd: %w: %w", err, admin.ErrUnavailable)
	}
	out := make([]admin.MetadataServer, len(list))
	for i, h := range list {
		out[i] = admin.MetadataServer{Name: h.ID, Address: h.Address, Version: h.Version, State: admin.StateStandby, ForSeconds: -1}
		if h.ID == leads.ID {
			out[i].State, out[i].ForSeconds = admin.StateLeading, time.Since(leads.Since).Seconds()
		}
	}
	return out, nil
}

// MetadataServers lists this one, which is alone.
func (s *Server) MetadataServers(context.Context) ([]admin.MetadataServer, error) {
	return []admin.MetadataServer{{
		Address: s.Addr().String(), Version: s.opt.Version, State: admin.StateAlone, ForSeconds: time.Since(s.started).Seconds(),
	}}, nil
}

// Handover is refused: there is nobody to hand over to.
func (s *Server) Handover(context.Context) error {
	return fmt.Errorf("this metadata server is the only one: %w", admin.ErrRefused)
}
