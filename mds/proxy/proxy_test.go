package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// What a Proxy does with data servers that answer is tested with whole clusters
// (conformance/wire).

func keyring(t *testing.T) *layout.Keyring {
	t.Helper()
	k, err := layout.NewKeyring(1, layout.Key{ID: 1, Secret: [32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// newProxy has data servers at these addresses, from number 1.
func newProxy(t *testing.T, addrs ...string) *Proxy {
	keys := keyring(t)
	p := New(Config{
		Keys: func() *layout.Keyring { return keys }, Owner: []byte("mds"), Log: zaptest.NewLogger(t),
		Paths: func(ds layout.DSID, _ netip.Addr) ([]layout.Address, error) {
			if int(ds) > len(addrs) {
				return nil, fmt.Errorf("no data server %d", ds)
			}
			return []layout.Address{layout.TCP(netip.MustParseAddrPort(addrs[ds-1]))}, nil
		},
	})
	t.Cleanup(p.Close)
	return p
}

func target(ds ...layout.DSID) Target {
	return Target{Object: layout.Object{Volume: 1, Inode: 17, Gen: 2}, Layout: ns.FileLayout{Unit: 4096, DS: ds, Epoch: 5}}
}

// freePort is an address at which nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func TestHandle(t *testing.T) {
	p := newProxy(t)
	got, s := keyring(t).OpenDS(p.handle(target(1), layout.RightRead))
	want := layout.Capability{Object: target(1).Object, Client: layout.MDSClient, Rights: layout.RightRead, Epoch: 5}
	if s != nfs4.OK || got != want {
		t.Errorf("handle says %+v (%v), want %+v", got, s, want)
	}
	// A data server that fences all clients below some id must not mean us.
	if layout.MDSClient <= 1<<32 {
		t.Errorf("the proxy is client %#x, which a floor of fences passes", uint64(layout.MDSClient))
	}
}

func TestUnreachable(t *testing.T) {
	p := newProxy(t, freePort(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := p.ReadAt(ctx, target(1), make([]byte, 10), 0); err == nil || !strings.Contains(err.Error(), "data server 1") {
		t.Errorf("read: %v", err)
	}
	if _, err := p.WriteAt(ctx, target(1), make([]byte, 10), 0, nfs4.FileSync); err == nil {
		t.Error("write to nobody succeeds")
	}
	if _, err := p.Commit(ctx, target(1)); err == nil {
		t.Error("commit at nobody succeeds")
	}
	if err := p.ReadAt(ctx, target(2), make([]byte, 10), 0); err == nil || !strings.Contains(err.Error(), "no data server 2") {
		t.Errorf("unknown data server: %v", err)
	}
	// Only those are asked that the range lies on.
	if err := p.ReadAt(ctx, target(1, 2), nil, 0); err != nil {
		t.Errorf("read of nothing: %v", err)
	}
}

// TestSilent: a data server that takes the connection and says nothing is given
// up after a moment.
func TestSilent(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p := newProxy(t, ln.Addr().String())
	begin := time.Now()
	if err := p.ReadAt(t.Context(), target(1), make([]byte, 10), 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silent data server: %v", err)
	}
	if d := time.Since(begin); d > 2*dialTime {
		t.Errorf("given up after %v", d)
	}
}

func TestClosed(t *testing.T) {
	p := newProxy(t, freePort(t))
	p.Close()
	if err := p.ReadAt(t.Context(), target(1), make([]byte, 1), 0); !errors.Is(err, client.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestVerifier: the verifier of a file changes with that of any of its data servers.
func TestVerifier(t *testing.T) {
	p := newProxy(t)
	first := p.verifier(target(1, 2, 3))
	if p.verifier(target(1, 2, 3)) != first {
		t.Error("it changes by itself")
	}
	p.peer(2).saw(nfs4.Verifier{1})
	second := p.verifier(target(1, 2, 3))
	p.peer(9).saw(nfs4.Verifier{7})
	if second == first || p.verifier(target(1, 2, 3)) != second {
		t.Error("it does not follow the data servers of the file, and them alone")
	}
	p.peer(2).saw(nfs4.Verifier{2})
	if p.verifier(target(1, 2, 3)) == second {
		t.Error("it does not follow a restart")
	}
}
