package op

import (
	"bytes"
	"context"

	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// getxattr: RFC 8276 section 8.4.1.
func (o *Ops) getxattr(ctx context.Context, c *compound.Call, a *nfs4.GetXattrArgs, r *nfs4.GetXattrRes) nfs4.Status {
	return o.view(ctx, func(tx store.Tx) error {
		value, err := o.Volume.GetXattr(tx, cred(c), here(c), a.Name)
		r.Value = bytes.Clone(value)
		return err
	})
}

// setxattr: RFC 8276 section 8.4.2.
func (o *Ops) setxattr(ctx context.Context, c *compound.Call, a *nfs4.SetXattrArgs, r *nfs4.SetXattrRes) nfs4.Status {
	unlock, s := o.lockToChange(ctx, here(c).Inode, c.Client)
	if s != nfs4.OK {
		return s
	}
	defer unlock()
	return o.update(ctx, func(tx store.Tx) (err error) {
		r.Info, err = o.Volume.SetXattr(tx, c.Now, cred(c), here(c), a.Option, a.Key, a.Value)
		return err
	})
}

// removexattr: RFC 8276 section 8.4.4.
func (o *Ops) removexattr(ctx context.Context, c *compound.Call, a *nfs4.RemoveXattrArgs, r *nfs4.RemoveXattrRes) nfs4.Status {
	unlock, s := o.lockToChange(ctx, here(c).Inode, c.Client)
	if s != nfs4.OK {
		return s
	}
	defer unlock()
	return o.update(ctx, func(tx store.Tx) (err error) {
		r.Info, err = o.Volume.RemoveXattr(tx, c.Now, cred(c), here(c), a.Name)
		return err
	})
}

// listxattrsFixed is the size of a LISTXATTRS4resok without names: the cookie,
// their number, eof.
const listxattrsFixed = 8 + 4 + 4

// listxattrs: RFC 8276 section 8.4.3. maxcount bounds the result's bytes.
func (o *Ops) listxattrs(ctx context.Context, c *compound.Call, a *nfs4.ListXattrsArgs, r *nfs4.ListXattrsRes) nfs4.Status {
	room := min(int(min(a.MaxCount, MaxIO)), c.Room()) - listxattrsFixed
	if room < 0 {
		return nfs4.ErrTooSmall
	}
	r.Cookie = a.Cookie
	s := o.view(ctx, func(tx store.Tx) (err error) {
		r.EOF, err = o.Volume.ListXattrs(tx, cred(c), here(c), a.Cookie, func(cookie uint64, name []byte) bool {
			if room -= 4 + (len(name)+3)&^3; room < 0 {
				return false
			}
			r.Cookie, r.Names = cookie, append(r.Names, bytes.Clone(name))
			return true
		})
		return err
	})
	if s == nfs4.OK && len(r.Names) == 0 && !r.EOF {
		return nfs4.ErrTooSmall
	}
	return s
}
