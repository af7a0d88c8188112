package control

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"manifold/layout"
	pb "manifold/layout/control/controlpb"
)

func helloMessage(h Hello) *pb.FromDS { return &pb.FromDS{Msg: &pb.FromDS_Hello{Hello: helloToPB(h)}} }

func FuzzHello(f *testing.F) {
	b, _ := proto.Marshal(helloToPB(testHello(1)))
	f.Add(b)
	f.Fuzz(func(t *testing.T, in []byte) {
		var m pb.Hello
		if proto.Unmarshal(in, &m) != nil {
			return
		}
		h, err := helloFromPB(&m)
		if err != nil {
			return
		}
		if again, err := helloFromPB(helloToPB(h)); err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("%+v -> %+v, %v", h, again, err)
		}
	})
}

func FuzzWelcome(f *testing.F) {
	b, _ := proto.Marshal(welcomeToPB(Welcome{DS: 3, Cluster: testCluster, Keys: testKeys(f), Lease: 90e9}))
	f.Add(b)
	f.Fuzz(func(t *testing.T, in []byte) {
		var m pb.Welcome
		if proto.Unmarshal(in, &m) != nil {
			return
		}
		w, err := welcomeFromPB(&m)
		if err != nil {
			return
		}
		again, err := welcomeFromPB(welcomeToPB(w))
		if err != nil || again.DS != w.DS || again.Lease != w.Lease || again.Cluster != w.Cluster {
			t.Fatalf("%+v -> %+v, %v", w, again, err)
		}
	})
}

func FuzzCommand(f *testing.F) {
	for _, c := range []Command{
		{Kind: Truncate, Object: layout.Object{Volume: 1, Inode: 2, Gen: 3}, Size: 4}, {Kind: SetKeys, Keys: testKeys(f)}, {Kind: Ready},
	} {
		b, _ := proto.Marshal(commandToPB(c, 5))
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var m pb.Command
		if proto.Unmarshal(in, &m) != nil {
			return
		}
		c, err := commandFromPB(&m)
		if err != nil {
			return
		}
		again, err := commandFromPB(commandToPB(c, m.GetSeq()))
		if c.Keys != nil && again.Keys != nil {
			again.Keys = c.Keys
		}
		if err != nil || again != c {
			t.Fatalf("%+v -> %+v, %v", c, again, err)
		}
	})
}

func TestKindNames(t *testing.T) {
	if Truncate.String() != "truncate" || Ready.String() != "ready" || Kind(99).String() != "unknown" {
		t.Errorf("%v %v %v", Truncate, Ready, Kind(99))
	}
}
