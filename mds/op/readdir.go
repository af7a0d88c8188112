package op

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// readdirFirst is what READDIR4resok needs for one entry without attributes,
// at least: below it not even a client's own limit can be kept.
const readdirFirst = 64

// readdir: RFC 8881 section 18.23. The entries go into the reply as they are
// read, so a page costs what it holds, whatever the directory's size.
func (o *Ops) readdir(ctx context.Context, c *compound.Call, a *nfs4.ReaddirArgs, r *nfs4.ReaddirRes) nfs4.Status {
	if !a.AttrRequest.And(writeOnly(c.Minor)).IsZero() {
		return nfs4.ErrInval
	}
	limit := min(int(min(a.MaxCount, MaxIO)), c.Room())
	if limit < readdirFirst {
		return nfs4.ErrTooSmall
	}
	page := dirPage{sizes: map[uint64]length{}}
	s := o.readPage(ctx, c, a, r, limit, &page)
	if s == nfs4.OK && len(page.growing) > 0 {
		page.ask(ctx, o)
		*r = nfs4.ReaddirRes{}
		s = o.readPage(ctx, c, a, r, limit, &page)
	}
	if s == nfs4.OK && page.added == 0 && !r.EOF {
		return nfs4.ErrTooSmall
	}
	return s
}

// dirPage is one READDIR. Files that are being written need their size from
// the data servers, which are not asked within a transaction: the page is read,
// they are asked, and it is read again.
type dirPage struct {
	added   int               // entries in the reply
	growing []layout.Handle   // whose sizes are to be asked
	sizes   map[uint64]length // those that were had
	asked   bool
}

// askAtOnce is how many files' sizes are asked for at a time.
const askAtOnce = 16

// ask asks for the sizes. One that is not had spoils its own entry.
func (p *dirPage) ask(ctx context.Context, o *Ops) {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(askAtOnce)
	for _, h := range p.growing {
		g.Go(func() error {
			if l, s := o.trueSize(ctx, h); s == nfs4.OK {
				mu.Lock()
				defer mu.Unlock()
				p.sizes[h.Inode] = l
			}
			return nil
		})
	}
	_ = g.Wait() // no function returns an error
	p.asked = true
}

// apply gives an entry's inode its size.
func (p *dirPage) apply(o *Ops, in *ns.Inode) error {
	l, had := p.sizes[in.ID]
	switch {
	case had:
		return l.apply(in)
	case in.Type != nfs4.TypeReg || !o.growing(in.ID):
		return nil
	case p.asked:
		return nfs4.ErrDelay
	}
	p.growing = append(p.growing, o.Volume.Handle(in))
	return nil
}

// readPage puts entries into the reply until it is full.
func (o *Ops) readPage(ctx context.Context, c *compound.Call, a *nfs4.ReaddirArgs, r *nfs4.ReaddirRes, limit int, page *dirPage) nfs4.Status {
	page.added = 0
	return o.view(ctx, func(tx store.Tx) (err error) {
		r.CookieVerf, r.EOF, err = o.Volume.ReadDir(tx, cred(c), here(c), a.Cookie, a.CookieVerf,
			func(ent ns.Entry) (bool, error) {
				e := nfs4.DirEntry{Cookie: ent.Cookie, Name: ent.Name}
				if err := o.fillEntry(tx, c, &e.Attrs, a.AttrRequest, ent, page); err != nil {
					return false, err
				}
				if !r.Add(&e, limit) {
					return false, nil
				}
				page.added++
				return true, nil
			})
		return err
	})
}

// fillEntry sets an entry's attributes. A file that cannot be read, or whose
// size is being learned, spoils its own entry only, if the client asked for
// RDATTR_ERROR.
func (o *Ops) fillEntry(tx store.Tx, c *compound.Call, a *nfs4.Attrs, want nfs4.Bitmap, ent ns.Entry, page *dirPage) error {
	if want.IsZero() {
		return nil
	}
	in, err := o.Volume.Get(tx, ent.Handle)
	if err == nil {
		var fh nfs4.FH
		if want.Has(nfs4.AttrFilehandle) {
			fh = o.Keys().SealMDS(ent.Handle)
		}
		if want.Has(nfs4.AttrSize) || want.Has(nfs4.AttrSpaceUsed) {
			err = page.apply(o, in)
		}
		if err == nil {
			err = o.fill(tx, c, a, want, in, fh)
		}
	}
	if err == nil {
		return nil
	}
	if !want.Has(nfs4.AttrRdattrError) {
		return err
	}
	*a = nfs4.Attrs{}
	a.Mask = nfs4.BitmapOf(nfs4.AttrRdattrError)
	a.RdattrError = o.status("readdir", err)
	return nil
}
