package mds

import (
	"context"
	"maps"

	"manifold/mds/ns"
	"manifold/mds/store"
)

// Census counts what the server keeps of clients and connections, by the name of
// the table. When all clients are gone and what they left behind is done, all of
// it is 0: what is not is a leak.
func (s *Server) Census(ctx context.Context) (map[string]int, error) {
	n := s.ops.Census()
	for name, v := range s.compound.Census() {
		n["session_"+name] = v
	}
	n["tcp_connections"], n["tcp_call_bytes"] = s.nfs.Conns(), int(s.rpc.Held())
	n["outbox_waiting"] = s.outbox.Waiting()
	logs, err := s.outbox.Backlogs(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range logs {
		n["outbox_rows"] += int(b.Depth)
	}
	err = s.store.View(ctx, func(tx store.Tx) error {
		n["records"] = 0
		return ns.Cluster{}.ScanClients(tx, func(ns.ClientRecord) (bool, error) {
			n["records"]++
			return true, nil
		})
	})
	maps.DeleteFunc(n, func(_ string, v int) bool { return v == 0 })
	return n, err
}
