package ns

import (
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// GetID returns the inode with a number, whatever its generation: ErrStale if
// it is not there. It is for what this server itself remembers of a file; what
// comes from a client is a handle, see Get.
func (v *Volume) GetID(tx store.Tx, ino uint64) (*Inode, error) {
	key := inodeKey(v.id, ino)
	row, err := tx.Get(key)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, nfs4.ErrStale
	}
	return decodeInode(ino, key, row)
}
