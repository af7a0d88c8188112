package outbox

import (
	"time"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// Truncate adds, for each of ds, a row that cuts obj to size bytes. Like all
// that add rows it only writes to tx, at most three keys for each data server;
// the caller says Kick when the transaction is committed. Errors are the store's.
func (o *Outbox) Truncate(tx store.Tx, ds []layout.DSID, obj layout.Object, size uint64) error {
	return add(tx, ds, control.Command{Kind: control.Truncate, Object: obj, Size: size})
}

// Remove adds a row that deletes obj for each of ds.
func (o *Outbox) Remove(tx store.Tx, ds []layout.DSID, obj layout.Object) error {
	return add(tx, ds, control.Command{Kind: control.Remove, Object: obj})
}

// FenceClient adds a row that refuses client's filehandles for each of ds.
func (o *Outbox) FenceClient(tx store.Tx, ds []layout.DSID, client nfs4.ClientID) error {
	return add(tx, ds, control.Command{Kind: control.FenceClient, Client: client})
}

// FenceObject adds a row that refuses filehandles of obj with an epoch below
// epoch for each of ds.
func (o *Outbox) FenceObject(tx store.Tx, ds []layout.DSID, obj layout.Object, epoch uint32) error {
	return add(tx, ds, control.Command{Kind: control.FenceObject, Object: obj, Epoch: epoch})
}

func add(tx store.Tx, ds []layout.DSID, cmd control.Command) error {
	now := time.Now()
	for _, id := range ds {
		c, err := getCounter(tx, id)
		if err != nil {
			return err
		}
		if c.removed {
			continue
		}
		r := row{ds: id, seq: c.next, added: now, cmd: cmd}
		if err := tx.Put(rowKey(id, r.seq), encodeRow(r)); err != nil {
			return err
		}
		if k := indexKey(r); k != nil {
			if err := tx.Put(k, []byte{byte(cmd.Kind)}); err != nil {
				return err
			}
		}
		c.next, c.depth = c.next+1, c.depth+1
		if err := putCounter(tx, id, c); err != nil {
			return err
		}
	}
	return nil
}
