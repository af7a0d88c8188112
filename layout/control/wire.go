package control

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unicode/utf8"

	"manifold/layout"
	pb "manifold/layout/control/controlpb"
	"manifold/xdr/nfs4"
)

// Bounds of what either end takes.
const (
	maxMessage   = 64 << 10 // bytes of one gRPC message
	maxName      = 64
	maxVersion   = 128
	maxAddresses = 16
)

// errMessage means a message that a peer of this protocol version never sends.
var errMessage = errors.New("control: bad message")

func helloToPB(h Hello) *pb.Hello {
	m := &pb.Hello{
		Protocol: Protocol, Uuid: h.UUID[:], Name: h.Name, Instance: h.Instance[:],
		Usage: usageToPB(h.Usage), Version: h.Version,
	}
	if h.Cluster != [16]byte{} {
		m.Cluster = h.Cluster[:]
	}
	for _, a := range h.Addresses {
		m.Addresses = append(m.Addresses, &pb.Address{Netid: a.Netid, HostPort: a.AddrPort.String()})
	}
	return m
}

func helloFromPB(m *pb.Hello) (Hello, error) {
	h := Hello{Name: m.GetName(), Usage: usageFromPB(m.GetUsage()), Version: m.GetVersion()}
	switch {
	case !put16(&h.UUID, m.GetUuid()) || h.UUID == [16]byte{}:
		return h, fmt.Errorf("%w: uuid of %d bytes, or zero", errMessage, len(m.GetUuid()))
	case !put16(&h.Instance, m.GetInstance()):
		return h, fmt.Errorf("%w: instance of %d bytes", errMessage, len(m.GetInstance()))
	case len(m.GetCluster()) != 0 && !put16(&h.Cluster, m.GetCluster()):
		return h, fmt.Errorf("%w: cluster id of %d bytes", errMessage, len(m.GetCluster()))
	case len(h.Name) > maxName || !printable(h.Name):
		return h, fmt.Errorf("%w: name is over %d bytes or not printable", errMessage, maxName)
	case len(h.Version) > maxVersion || !printable(h.Version):
		return h, fmt.Errorf("%w: version is over %d bytes or not printable", errMessage, maxVersion)
	case len(m.GetAddresses()) == 0 || len(m.GetAddresses()) > maxAddresses:
		return h, fmt.Errorf("%w: %d addresses, 1 to %d allowed", errMessage, len(m.GetAddresses()), maxAddresses)
	}
	for _, a := range m.GetAddresses() {
		ap, err := netip.ParseAddrPort(a.GetHostPort())
		known := a.GetNetid() == "tcp" || a.GetNetid() == "tcp6" || a.GetNetid() == "rdma" || a.GetNetid() == "rdma6"
		if err != nil || !known || ap.Port() == 0 {
			return h, fmt.Errorf("%w: address %.8q %.64q", errMessage, a.GetNetid(), a.GetHostPort())
		}
		h.Addresses = append(h.Addresses, layout.Address{Netid: a.GetNetid(), AddrPort: ap})
	}
	return h, nil
}

func printable(s string) bool {
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return false
		}
	}
	return true
}

func put16(to *[16]byte, from []byte) bool {
	return copy(to[:], from) == len(to) && len(from) == len(to)
}

func usageToPB(u Usage) *pb.Usage {
	return &pb.Usage{
		CapacityBytes: u.CapacityBytes, UsedBytes: u.UsedBytes, FreeBytes: u.FreeBytes,
		Files: u.Files, ReadBytes: u.ReadBytes, WrittenBytes: u.WrittenBytes, Disk: u.Disk,
	}
}

func usageFromPB(m *pb.Usage) Usage {
	return Usage{
		CapacityBytes: m.GetCapacityBytes(), UsedBytes: m.GetUsedBytes(), FreeBytes: m.GetFreeBytes(),
		Files: m.GetFiles(), ReadBytes: m.GetReadBytes(), WrittenBytes: m.GetWrittenBytes(),
		Disk: m.GetDisk()[:min(len(m.GetDisk()), maxName)],
	}
}

func welcomeToPB(w Welcome) *pb.Welcome {
	keys, _ := w.Keys.MarshalBinary()
	return &pb.Welcome{
		Ds: uint32(w.DS), Cluster: w.Cluster[:], Keys: keys, LeaseSeconds: uint32(w.Lease / time.Second), Start: w.Start,
	}
}

func welcomeFromPB(m *pb.Welcome) (Welcome, error) {
	w := Welcome{DS: layout.DSID(m.GetDs()), Lease: time.Duration(m.GetLeaseSeconds()) * time.Second, Start: m.GetStart()}
	keys, err := layout.ParseKeyring(m.GetKeys())
	if err != nil {
		return w, err
	}
	w.Keys = keys
	if w.DS == 0 || w.Lease == 0 || !put16(&w.Cluster, m.GetCluster()) || w.Cluster == [16]byte{} {
		return w, fmt.Errorf("%w: welcome as number %d with lease %v", errMessage, w.DS, w.Lease)
	}
	return w, nil
}

func objectToPB(o layout.Object) *pb.Object {
	return &pb.Object{Volume: o.Volume, Inode: o.Inode, Gen: o.Gen}
}

func objectFromPB(m *pb.Object) layout.Object {
	return layout.Object{Volume: m.GetVolume(), Inode: m.GetInode(), Gen: m.GetGen()}
}

func commandToPB(c Command, seq uint64) *pb.Command {
	m := &pb.Command{Seq: seq}
	switch c.Kind {
	case FenceClient:
		m.Op = &pb.Command_FenceClient{FenceClient: &pb.FenceClient{Client: uint64(c.Client)}}
	case FenceObject:
		m.Op = &pb.Command_FenceObject{FenceObject: &pb.FenceObject{Object: objectToPB(c.Object), Epoch: c.Epoch}}
	case Truncate:
		m.Op = &pb.Command_Truncate{Truncate: &pb.Truncate{Object: objectToPB(c.Object), Size: c.Size}}
	case Remove:
		m.Op = &pb.Command_Remove{Remove: &pb.Remove{Object: objectToPB(c.Object)}}
	case SetKeys:
		keys, _ := c.Keys.MarshalBinary()
		m.Op = &pb.Command_SetKeys{SetKeys: &pb.SetKeys{Keys: keys}}
	case Ready:
		m.Op = &pb.Command_Ready{Ready: &pb.Ready{}}
	}
	return m
}

// commandFromPB returns a Command of Kind 0 for an operation that this version
// does not know: the Agent acknowledges it as not supported.
func commandFromPB(m *pb.Command) (Command, error) {
	switch op := m.GetOp().(type) {
	case *pb.Command_FenceClient:
		return Command{Kind: FenceClient, Client: nfs4.ClientID(op.FenceClient.GetClient())}, nil
	case *pb.Command_FenceObject:
		return Command{Kind: FenceObject, Object: objectFromPB(op.FenceObject.GetObject()), Epoch: op.FenceObject.GetEpoch()}, nil
	case *pb.Command_Truncate:
		return Command{Kind: Truncate, Object: objectFromPB(op.Truncate.GetObject()), Size: op.Truncate.GetSize()}, nil
	case *pb.Command_Remove:
		return Command{Kind: Remove, Object: objectFromPB(op.Remove.GetObject())}, nil
	case *pb.Command_SetKeys:
		keys, err := layout.ParseKeyring(op.SetKeys.GetKeys())
		return Command{Kind: SetKeys, Keys: keys}, err
	case *pb.Command_Ready:
		return Command{Kind: Ready}, nil
	}
	return Command{}, nil
}
