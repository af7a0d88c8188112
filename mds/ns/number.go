package ns

import (
	"encoding/binary"
	"math"

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
	return v.read(tx, ino, key, row)
}

// ScanInodes calls fn for each inode with a number above after, in ascending
// order, until fn returns false.
func (v *Volume) ScanInodes(tx store.Tx, after uint64, fn func(*Inode) (more bool, err error)) error {
	if after == math.MaxUint64 {
		return nil
	}
	return tx.Scan(inodeKey(v.id, after+1), keyAfter(key32(prefixInode, v.id)), func(key, row []byte) (bool, error) {
		in, err := v.read(tx, binary.BigEndian.Uint64(key[len(key)-8:]), key, row)
		if err != nil {
			return false, err
		}
		return fn(in)
	})
}
