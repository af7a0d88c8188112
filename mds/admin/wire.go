package admin

import (
	"math"
	"strings"

	pb "manifold/mds/admin/adminpb"
)

// each converts a list; never to nil, so that an empty one is [] in JSON.
func each[A, B any](list []A, fn func(A) B) []B {
	out := make([]B, 0, len(list))
	for _, a := range list {
		out = append(out, fn(a))
	}
	return out
}

// valid makes text that a client chose fit for protobuf, which refuses to send
// what is not UTF-8. Bytes that are not become U+FFFD.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// count bounds a number of things to what the wire carries.
func count(n int) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

func statusToPB(s Status) *pb.Status {
	return &pb.Status{
		Version: valid(s.Version), ClusterId: valid(s.ClusterID), UptimeSeconds: s.UptimeSeconds, LeaseSeconds: s.LeaseSeconds,
		Grace: s.Grace, Clients: s.Clients, Opens: s.Opens, Locks: s.Locks, Layouts: s.Layouts, Recalls: s.Recalls,
		ProxyReadBytes: s.ProxyReadBytes, ProxyWrittenBytes: s.ProxyWrittenBytes, ProxyRefused: s.ProxyRefused,
		DataServersUp: count(s.DataServersUp), DataServersTotal: count(s.DataServersTotal),
	}
}

func statusFromPB(m *pb.Status) Status {
	return Status{
		Version: m.GetVersion(), ClusterID: m.GetClusterId(), UptimeSeconds: m.GetUptimeSeconds(), LeaseSeconds: m.GetLeaseSeconds(),
		Grace: m.GetGrace(), Clients: m.GetClients(), Opens: m.GetOpens(), Locks: m.GetLocks(), Layouts: m.GetLayouts(), Recalls: m.GetRecalls(),
		ProxyReadBytes: m.GetProxyReadBytes(), ProxyWrittenBytes: m.GetProxyWrittenBytes(), ProxyRefused: m.GetProxyRefused(),
		DataServersUp: int(m.GetDataServersUp()), DataServersTotal: int(m.GetDataServersTotal()),
	}
}

func dataServerToPB(d DataServer) *pb.DataServer {
	return &pb.DataServer{
		Id: d.ID, Name: valid(d.Name), Uuid: valid(d.UUID), State: valid(d.State), Addresses: each(d.Addresses, valid),
		CapacityBytes: d.CapacityBytes, UsedBytes: d.UsedBytes, FreeBytes: d.FreeBytes, ReadBytes: d.ReadBytes, WrittenBytes: d.WrittenBytes,
		HeartbeatAgeSeconds: d.HeartbeatAgeSeconds, Version: valid(d.Version),
	}
}

func dataServerFromPB(m *pb.DataServer) DataServer {
	return DataServer{
		ID: m.GetId(), Name: m.GetName(), UUID: m.GetUuid(), State: m.GetState(), Addresses: each(m.GetAddresses(), valid),
		CapacityBytes: m.GetCapacityBytes(), UsedBytes: m.GetUsedBytes(), FreeBytes: m.GetFreeBytes(), ReadBytes: m.GetReadBytes(), WrittenBytes: m.GetWrittenBytes(),
		HeartbeatAgeSeconds: m.GetHeartbeatAgeSeconds(), Version: m.GetVersion(),
	}
}

func clientToPB(c Client) *pb.Client {
	return &pb.Client{
		Id: valid(c.ID), Owner: valid(c.Owner), Implementation: valid(c.Implementation), Address: valid(c.Address),
		Sessions: count(c.Sessions), Slots: count(c.Slots), Opens: c.Opens, Layouts: c.Layouts,
		LastRenewalSecondsAgo: c.LastRenewalSecondsAgo, Confirmed: c.Confirmed,
	}
}

func clientFromPB(m *pb.Client) Client {
	return Client{
		ID: m.GetId(), Owner: m.GetOwner(), Implementation: m.GetImplementation(), Address: m.GetAddress(),
		Sessions: int(m.GetSessions()), Slots: int(m.GetSlots()), Opens: m.GetOpens(), Layouts: m.GetLayouts(),
		LastRenewalSecondsAgo: m.GetLastRenewalSecondsAgo(), Confirmed: m.GetConfirmed(),
	}
}

func policyToPB(p Policy) *pb.Policy {
	return &pb.Policy{StripeUnit: p.StripeUnit, Width: count(p.Width), Pool: valid(p.Pool)}
}

func policyFromPB(m *pb.Policy) Policy {
	return Policy{StripeUnit: m.GetStripeUnit(), Width: int(m.GetWidth()), Pool: m.GetPool()}
}

func layoutToPB(l Layout) *pb.Layout {
	return &pb.Layout{
		Path: valid(l.Path), Kind: valid(l.Kind), Policy: policyToPB(l.Policy), Size: l.Size, StripeUnit: l.StripeUnit, Width: count(l.Width),
		Stripes: each(l.Stripes, func(s Stripe) *pb.Stripe { return &pb.Stripe{Id: s.ID, Name: valid(s.Name)} }),
	}
}

func layoutFromPB(m *pb.Layout) Layout {
	return Layout{
		Path: m.GetPath(), Kind: m.GetKind(), Policy: policyFromPB(m.GetPolicy()), Size: m.GetSize(), StripeUnit: m.GetStripeUnit(), Width: int(m.GetWidth()),
		Stripes: each(m.GetStripes(), func(s *pb.Stripe) Stripe { return Stripe{ID: s.GetId(), Name: s.GetName()} }),
	}
}

func metadataServerToPB(m MetadataServer) *pb.MetadataServer {
	return &pb.MetadataServer{
		Name: valid(m.Name), Address: valid(m.Address), Version: valid(m.Version), State: valid(m.State), ForSeconds: m.ForSeconds,
	}
}

func metadataServerFromPB(m *pb.MetadataServer) MetadataServer {
	return MetadataServer{Name: m.GetName(), Address: m.GetAddress(), Version: m.GetVersion(), State: m.GetState(), ForSeconds: m.GetForSeconds()}
}
