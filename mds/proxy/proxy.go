// Package proxy moves bytes between the metadata server and the data servers,
// for clients that do not do it themselves: those without a layout driver, and
// those that cannot reach a data server. Slower, never wrong.
//
// Its nouns: a Target is one file's data; a Proxy is an NFSv4.1 client of
// every data server that was needed so far. It seals handles of its own for
// them, which no fence of a client concerns; a fence of the file does, through
// the epoch in Target.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// Target is one file's data.
type Target struct {
	Object layout.Object
	Layout ns.FileLayout
}

// stripe says how the data is dealt out, by index into ring.
func (t Target) stripe() (ring []layout.DSID, s layout.Stripe) {
	ring, first := layout.Ring(t.Layout.DS)
	return ring, layout.Stripe{Unit: uint64(t.Layout.Unit), Width: len(ring), First: first}
}

// Config is what a Proxy is made of. All are needed but where it says so.
type Config struct {
	Keys func() *layout.Keyring
	// Paths returns the addresses of a data server, as seen from this host.
	Paths func(ds layout.DSID, local netip.Addr) ([]layout.Address, error)
	// Up says whether a data server is there: one that is known not to be is not
	// waited for. nil: all are.
	Up func(layout.DSID) bool
	// Owner is the client owner that data servers know this server by.
	Owner []byte
	// Dialer connects to a data server; nil: over TCP. See client.Config.
	Dialer func(ctx context.Context, addr string, h rpc.Handler, cfg *rpc.Config) (*rpc.Conn, error)
	Log    *zap.Logger
}

// Proxy reads and writes files' data. Its methods may be called by many
// goroutines.
type Proxy struct {
	cfg Config

	mu     sync.Mutex
	closed bool
	peers  map[layout.DSID]*peer
}

// peer is one data server.
type peer struct {
	turn chan struct{} // held, as a token in it, by who dials: others wait as long as their contexts let them
	conn *client.Client
	addr string

	seen sync.Mutex
	verf nfs4.Verifier // the write verifier that it answered last
}

// New returns a Proxy that has no connection yet.
func New(cfg Config) *Proxy { return &Proxy{cfg: cfg, peers: map[layout.DSID]*peer{}} }

const (
	// dialTime bounds a connection's setup, ioTime one READ or WRITE of a data
	// server: past it the client asks again.
	dialTime = 2 * time.Second
	ioTime   = 10 * time.Second
	// fanOut is how many pieces of one request are under way at once.
	fanOut = 16
)

// ErrDown means that a data server is known not to be there.
var ErrDown = errors.New("proxy: data server is down")

// ErrShort means that a data server wrote less than it was given, and nothing
// more when asked again.
var ErrShort = errors.New("proxy: data server does not take the data")

// ReadAt fills p with the file's bytes from off on. What no data server has is
// zeros: the caller knows where the file ends. Errors are the data server's
// nfs4.Status, or the network's.
func (p *Proxy) ReadAt(ctx context.Context, t Target, b []byte, off uint64) error {
	return p.each(ctx, t, b, off, layout.RightRead, func(ctx context.Context, pr *peer, c *client.Client, fh nfs4.FH, b []byte, off uint64) error {
		for len(b) > 0 {
			n, eof, err := c.Read(ctx, p.cred(), fh, nfs4.StateidAnonymous(), off, b)
			if err != nil {
				return err
			}
			b, off = b[n:], off+uint64(n)
			if eof || n == 0 {
				clear(b)
				return nil
			}
		}
		return nil
	})
}

// WriteAt writes all of b at off, at least as stable as how, and returns the
// write verifier of the file's data: it changes when any data server of the
// file has lost what it had not made stable.
func (p *Proxy) WriteAt(ctx context.Context, t Target, b []byte, off uint64, how nfs4.StableHow) (nfs4.Verifier, error) {
	err := p.each(ctx, t, b, off, layout.RightWrite, func(ctx context.Context, pr *peer, c *client.Client, fh nfs4.FH, b []byte, off uint64) error {
		for len(b) > 0 {
			n, committed, verf, err := c.Write(ctx, p.cred(), fh, nfs4.StateidAnonymous(), off, b, how)
			switch {
			case err != nil:
				return err
			case n == 0 || how != nfs4.Unstable && committed == nfs4.Unstable:
				return ErrShort
			}
			pr.saw(verf)
			b, off = b[n:], off+uint64(n)
		}
		return nil
	})
	return p.verifier(t), err
}

// Commit makes all of the file's data stable, and returns its write verifier.
func (p *Proxy) Commit(ctx context.Context, t Target) (nfs4.Verifier, error) {
	g, ctx := errgroup.WithContext(ctx)
	fh := p.handle(t, layout.RightWrite)
	for _, id := range t.Layout.DS {
		g.Go(func() error {
			return p.with(ctx, id, func(ctx context.Context, pr *peer, c *client.Client) error {
				verf, err := c.Commit(ctx, p.cred(), fh, 0, 0)
				if err == nil {
					pr.saw(verf)
				}
				return err
			})
		})
	}
	err := g.Wait()
	return p.verifier(t), err
}

// Size returns how long the file's data is: the largest size of its objects.
// It fails if one of the data servers does not answer.
func (p *Proxy) Size(ctx context.Context, t Target) (uint64, error) {
	sizes := make([]uint64, len(t.Layout.DS))
	fh := p.handle(t, layout.RightRead)
	g, ctx := errgroup.WithContext(ctx)
	for i, id := range t.Layout.DS {
		g.Go(func() error {
			return p.with(ctx, id, func(ctx context.Context, _ *peer, c *client.Client) error {
				var res nfs4.GetattrRes
				err := c.Compound(ctx, p.cred(),
					client.Op{Num: nfs4.OpPutFH, Args: &nfs4.PutFHArgs{Object: fh}},
					client.Op{Num: nfs4.OpGetattr, Args: &nfs4.GetattrArgs{AttrRequest: nfs4.BitmapOf(nfs4.AttrSize)}, Res: &res})
				sizes[i] = res.ObjAttributes.Size
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return slices.Max(append(sizes, 0)), nil
}

// each runs do for every piece of the range, each at its data server.
func (p *Proxy) each(ctx context.Context, t Target, b []byte, off uint64, rights layout.Rights,
	do func(ctx context.Context, pr *peer, c *client.Client, fh nfs4.FH, b []byte, off uint64) error) error {
	ring, stripe := t.stripe()
	fh := p.handle(t, rights)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fanOut)
	for piece := range stripe.Pieces(off, uint64(len(b))) {
		part := b[piece.Offset-off:][:piece.Length]
		g.Go(func() error {
			return p.with(ctx, ring[piece.Index], func(ctx context.Context, pr *peer, c *client.Client) error {
				return do(ctx, pr, c, fh, part, piece.Offset)
			})
		})
	}
	return g.Wait()
}

func (p *Proxy) handle(t Target, rights layout.Rights) nfs4.FH {
	return p.cfg.Keys().SealDS(layout.Capability{Object: t.Object, Client: layout.MDSClient, Rights: rights, Epoch: t.Layout.Epoch})
}

// cred: the data servers judge handles, not users.
func (p *Proxy) cred() rpc.Cred { return rpc.Cred{Flavor: rpc.AuthSys} }

// verifier combines what the file's data servers answered last.
func (p *Proxy) verifier(t Target) (v nfs4.Verifier) {
	h := fnv.New64a()
	for _, id := range t.Layout.DS {
		pr := p.peer(id)
		pr.seen.Lock()
		h.Write(pr.verf[:])
		pr.seen.Unlock()
	}
	h.Sum(v[:0])
	return v
}

func (pr *peer) saw(v nfs4.Verifier) {
	pr.seen.Lock()
	defer pr.seen.Unlock()
	pr.verf = v
}

func (p *Proxy) peer(id layout.DSID) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	pr := p.peers[id]
	if pr == nil {
		pr = &peer{turn: make(chan struct{}, 1)}
		p.peers[id] = pr
	}
	return pr
}

// with runs fn with a connection to a data server.
func (p *Proxy) with(ctx context.Context, id layout.DSID, fn func(context.Context, *peer, *client.Client) error) error {
	if p.cfg.Up != nil && !p.cfg.Up(id) {
		return fmt.Errorf("data server %d: %w", id, ErrDown)
	}
	pr := p.peer(id)
	ctx, cancel := context.WithTimeout(ctx, ioTime)
	defer cancel()
	c, err := p.connect(ctx, pr, id)
	if err != nil {
		return fmt.Errorf("data server %d: %w", id, err)
	}
	if err := fn(ctx, pr, c); err != nil {
		return fmt.Errorf("data server %d: %w", id, err)
	}
	return nil
}

// connect returns the connection to a data server, made anew if it has another
// address than before. Once made it mends itself.
func (p *Proxy) connect(ctx context.Context, pr *peer, id layout.DSID) (*client.Client, error) {
	// A data server that listens on a wildcard is on this host.
	paths, err := p.cfg.Paths(id, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	if err != nil {
		return nil, err
	}
	select {
	case pr.turn <- struct{}{}:
		defer func() { <-pr.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	addr := paths[0].AddrPort.String()
	if pr.conn != nil && pr.addr == addr {
		return pr.conn, nil
	}
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return nil, client.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := client.Dial(ctx, addr, client.Config{
		Minor: 2, Owner: p.cfg.Owner, Cred: p.cred(), Role: nfs4.ExchgidFlagUsePNFSDS, Dialer: p.cfg.Dialer, Log: p.cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	if pr.conn != nil {
		go leave(pr.conn) // of the old address; nobody waits for it
	}
	pr.conn, pr.addr = c, addr
	return c, nil
}

// leave closes a connection, saying good-bye if its end answers.
func leave(c *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	_ = c.Close(ctx) // what becomes of the session there is not our worry
}

// Close ends all connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	peers := p.peers
	p.peers = map[layout.DSID]*peer{}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	for _, pr := range peers {
		pr.turn <- struct{}{} // whoever dials ends within dialTime
		if pr.conn != nil {
			_ = pr.conn.Close(ctx) // it says good-bye if it can
		}
		<-pr.turn
	}
}
