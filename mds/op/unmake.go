package op

import (
	"bytes"
	"context"

	"manifold/mds/ns"
	"manifold/mds/store"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// unmake takes a file away again that an OPEN has made and then could not open.
// Its client is told to come again, or that there is no room, and must not find
// then that the file exists (GUARDED4, RFC 8881 section 18.16.3). What somebody
// else has found meanwhile stays.
func (o *Ops) unmake(ctx context.Context, c *compound.Call, name []byte, made *ns.Inode) {
	name = bytes.Clone(name)
	_ = o.take(ctx, c.Client, []uint64{made.ID}, func(tx store.Tx) (t taken, err error) {
		in, err := o.Volume.Lookup(tx, cred(c), here(c), name)
		if err != nil {
			return t, err
		}
		if in.ID != made.ID || in.Nlink != 1 || in.Change != made.Change || o.opened(in.ID) {
			return t, nfs4.ErrExist
		}
		gone, err := o.Volume.Remove(tx, c.Now, cred(c), here(c), name)
		return taken{files: []uint64{made.ID}, gone: &gone}, err
	})
}
