package mds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"manifold/mds/admin"
	"manifold/xdr/nfs4"
)

// RecallLayouts takes layouts back.
func (s *Server) RecallLayouts(ctx context.Context, r admin.Recall) (uint64, error) {
	clients, err := s.recallFrom(r.Client)
	if err != nil {
		return 0, err
	}
	var n int
	switch {
	case r.Path != "" && r.Scope != "":
		return 0, fmt.Errorf("a path and scope %q at once: %w", r.Scope, admin.ErrInvalid)
	case r.Path != "":
		n, err = s.recallPath(ctx, r.Path, r.Client, clients)
	case r.Scope == admin.ScopeFSID:
		n, err = s.ops.RecallAll(ctx, clients, nfs4.LayoutReturnFSID)
	case r.Scope == admin.ScopeAll:
		n, err = s.ops.RecallAll(ctx, clients, nfs4.LayoutReturnAll)
	default:
		return 0, fmt.Errorf("scope %q is none: %w", r.Scope, admin.ErrInvalid)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", err, admin.ErrUnavailable)
	}
	return uint64(n), err
}

// recallPath takes back the layouts of one file, from all clients if client is
// empty.
func (s *Server) recallPath(ctx context.Context, path, client string, clients []nfs4.ClientID) (int, error) {
	in, err := s.find(ctx, path)
	switch {
	case err != nil:
		return 0, err
	case in.Type != nfs4.TypeReg:
		return 0, fmt.Errorf("%s is no file: %w", path, admin.ErrInvalid)
	case client == "":
		return s.ops.RecallFile(ctx, in.ID, 0)
	}
	return s.ops.RecallFile(ctx, in.ID, clients[0])
}

// recallFrom returns the client with an ID, all if that is empty.
func (s *Server) recallFrom(id string) (clients []nfs4.ClientID, err error) {
	for _, c := range s.compound.Clients() {
		clients = append(clients, c.ID)
	}
	if id == "" {
		return clients, nil
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(id, "0x"), 16, 64)
	if err != nil {
		return nil, fmt.Errorf("client %q is no hexadecimal number: %w", id, admin.ErrInvalid)
	}
	if !slices.Contains(clients, nfs4.ClientID(n)) {
		return nil, fmt.Errorf("client %q: %w", id, admin.ErrNotFound)
	}
	return []nfs4.ClientID{nfs4.ClientID(n)}, nil
}
