package op

import (
	"context"

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
	if a.AttrRequest.Has(nfs4.AttrTimeAccessSet) || a.AttrRequest.Has(nfs4.AttrTimeModifySet) {
		return nfs4.ErrInval
	}
	limit := min(int(min(a.MaxCount, MaxIO)), c.Room())
	if limit < readdirFirst {
		return nfs4.ErrTooSmall
	}
	added := 0
	s := o.view(ctx, func(tx store.Tx) (err error) {
		r.CookieVerf, r.EOF, err = o.Volume.ReadDir(tx, cred(c), here(c), a.Cookie, a.CookieVerf,
			func(ent ns.Entry) (bool, error) {
				e := nfs4.DirEntry{Cookie: ent.Cookie, Name: ent.Name}
				if err := o.fillEntry(tx, &e.Attrs, a.AttrRequest, ent); err != nil {
					return false, err
				}
				if !r.Add(&e, limit) {
					return false, nil
				}
				added++
				return true, nil
			})
		return err
	})
	if s == nfs4.OK && added == 0 && !r.EOF {
		return nfs4.ErrTooSmall
	}
	return s
}

// fillEntry sets an entry's attributes. A file that cannot be read, or whose
// size is being learned, spoils its own entry only, if the client asked for
// RDATTR_ERROR.
func (o *Ops) fillEntry(tx store.Tx, a *nfs4.Attrs, want nfs4.Bitmap, ent ns.Entry) error {
	if want.IsZero() {
		return nil
	}
	in, err := o.Volume.Get(tx, ent.Handle)
	if err == nil {
		var fh nfs4.FH
		if want.Has(nfs4.AttrFilehandle) {
			fh = o.Keys().SealMDS(ent.Handle)
		}
		err = o.fill(tx, a, want, in, fh)
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
