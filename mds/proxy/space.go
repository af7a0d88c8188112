package proxy

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"manifold/layout"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// A data server's object has the file's own offsets and, in place of what the
// other data servers have, holes. So a range can be made a hole on all of them
// at once, and the next data of the file is the nearest of theirs; but room must
// be reserved, and a hole looked for, stripe unit by stripe unit.

const (
	// allocateOps is how many pieces one request to a data server reserves: with
	// SEQUENCE and PUTFH no more operations than any session takes.
	allocateOps = 16
	// holeMost bounds how many stripe units are asked for a hole: a file of
	// which that many hold data is taken to have none further on.
	holeMost = 4096
)

// farthest is an offset that no object reaches.
const farthest = 1<<63 - 2

// Allocate reserves room for n bytes of the file from off on, durably. If there
// is none on one of the data servers, what was reserved past the ends of the
// objects is given back on all.
func (p *Proxy) Allocate(ctx context.Context, t Target, off, n uint64) error {
	ring, stripe := t.stripe()
	g, stop := errgroup.WithContext(ctx)
	for i, id := range ring {
		// Once one has failed the others are asked no more, but what they were
		// asked ends before room is given back.
		g.Go(func() error { return p.allocate(ctx, stop, t, id, stripe, i, layout.Range{Offset: off, Length: n}) })
	}
	err := g.Wait()
	if err != nil && ctx.Err() == nil {
		_ = p.Deallocate(ctx, t, farthest, 1) // room that is not given back is not lost: truncation and removal do it
	}
	return err
}

// allocate reserves what data server i of the ring has of the range, unless stop
// ends.
func (p *Proxy) allocate(ctx, stop context.Context, t Target, id layout.DSID, stripe layout.Stripe, i int, r layout.Range) error {
	fh := p.handle(t, layout.RightWrite)
	putFH := client.Op{Num: nfs4.OpPutFH, Args: &nfs4.PutFHArgs{Object: fh}}
	ops := []client.Op{putFH}
	send := func() error {
		if len(ops) == 1 || stop.Err() != nil {
			return stop.Err()
		}
		err := p.with(ctx, id, func(ctx context.Context, _ *peer, c *client.Client) error { return c.Compound(ctx, p.cred(), ops...) })
		ops = []client.Op{putFH}
		return err
	}
	for piece := range stripe.Pieces(r.Offset, r.Length) {
		if piece.Index != i {
			continue
		}
		ops = append(ops, client.Op{Num: nfs4.OpAllocate, Args: &nfs4.AllocateArgs{Offset: piece.Offset, Length: piece.Length}})
		if len(ops) > allocateOps {
			if err := send(); err != nil {
				return err
			}
		}
	}
	return send()
}

// Deallocate makes n bytes of the file from off on a hole, durably.
func (p *Proxy) Deallocate(ctx context.Context, t Target, off, n uint64) error {
	fh := p.handle(t, layout.RightWrite)
	g, ctx := errgroup.WithContext(ctx)
	for _, id := range t.Layout.DS {
		g.Go(func() error {
			return p.with(ctx, id, func(ctx context.Context, _ *peer, c *client.Client) error {
				return c.Compound(ctx, p.cred(),
					client.Op{Num: nfs4.OpPutFH, Args: &nfs4.PutFHArgs{Object: fh}},
					client.Op{Num: nfs4.OpDeallocate, Args: &nfs4.DeallocateArgs{Offset: off, Length: n}})
			})
		})
	}
	return g.Wait()
}

// NextData returns where the first data of the file at off or later begins;
// found is false if there is none.
func (p *Proxy) NextData(ctx context.Context, t Target, off uint64) (at uint64, found bool, err error) {
	each := make([]nfs4.SeekRes, len(t.Layout.DS))
	g, ctx := errgroup.WithContext(ctx)
	for i, id := range t.Layout.DS {
		g.Go(func() (err error) {
			each[i], err = p.seek(ctx, t, id, nfs4.ContentData, off)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, false, err
	}
	for _, r := range each {
		if !r.EOF && (!found || r.Offset < at) {
			at, found = r.Offset, true
		}
	}
	return at, found, nil
}

// NextHole returns where the first hole of the file at off or later begins, or
// end if there is none before that, or none near.
func (p *Proxy) NextHole(ctx context.Context, t Target, off, end uint64) (uint64, error) {
	ring, stripe := t.stripe()
	var pieces []layout.Piece
	for piece := range stripe.Pieces(off, end-off) {
		if len(pieces) == holeMost {
			break
		}
		pieces = append(pieces, piece)
	}
	for some := range slices.Chunk(pieces, fanOut) {
		holes := make([]uint64, len(some))
		g, ctx := errgroup.WithContext(ctx)
		for i, piece := range some {
			g.Go(func() error {
				r, err := p.seek(ctx, t, ring[piece.Index], nfs4.ContentHole, piece.Offset)
				holes[i] = r.Offset
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return 0, err
		}
		for i, piece := range some {
			if holes[i] < piece.Offset+piece.Length {
				return holes[i], nil
			}
		}
	}
	return end, nil
}

// seek asks one data server.
func (p *Proxy) seek(ctx context.Context, t Target, id layout.DSID, what nfs4.Content, off uint64) (r nfs4.SeekRes, err error) {
	fh := p.handle(t, layout.RightRead)
	err = p.with(ctx, id, func(ctx context.Context, _ *peer, c *client.Client) error {
		return c.Compound(ctx, p.cred(),
			client.Op{Num: nfs4.OpPutFH, Args: &nfs4.PutFHArgs{Object: fh}},
			client.Op{Num: nfs4.OpSeek, Args: &nfs4.SeekArgs{Offset: off, What: what}, Res: &r})
	})
	return r, err
}
