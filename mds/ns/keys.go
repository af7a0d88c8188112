package ns

import "encoding/binary"

// The rows of the store. This table is the only place that knows how keys look;
// other packages that keep rows of their own take a prefix of the second part.
// Numbers in keys are big-endian, so that they scan in ascending order. "vol"
// is the volume's number (4 bytes), "ino" an inode number (8), "gen" its
// generation (4).
//
//	key                  value
//	c                    ServiceRecord
//	C clientid(8)        ClientRecord
//	d vol parent hash(8) the names of one hash in a directory: normally one
//	D number(4)          DSRecord
//	i vol ino            Inode
//	k                    the keyring, as layout writes it
//	n vol                counters: the next inode number, how many inodes there are
//	o vol ino gen        empty: an orphan, that is, a file without a name
//	v vol                the volume: file system id, secret of the hash
//	w vol ino gen        empty: a RW layout of the file may be out
//
//	a q x                kept free for ACLs, quotas, extended attributes
//	t                    mds/outbox
const (
	prefixService  = 'c'
	prefixClient   = 'C'
	prefixDirent   = 'd'
	prefixDS       = 'D'
	prefixInode    = 'i'
	prefixKeyring  = 'k'
	prefixCounters = 'n'
	prefixOrphan   = 'o'
	prefixVolume   = 'v'
	prefixOpenRW   = 'w'
)

// key32 returns the key of a row that is named by 4 bytes, and is the
// beginning of longer ones.
func key32(prefix byte, n uint32) []byte {
	return binary.BigEndian.AppendUint32(append(make([]byte, 0, 24), prefix), n)
}

func clientKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixClient}, id)
}

func inodeKey(vol uint32, ino uint64) []byte {
	return binary.BigEndian.AppendUint64(key32(prefixInode, vol), ino)
}

func direntKey(vol uint32, parent, hash uint64) []byte {
	k := binary.BigEndian.AppendUint64(key32(prefixDirent, vol), parent)
	return binary.BigEndian.AppendUint64(k, hash)
}

// noteKey is the key of a row of prefixOrphan or prefixOpenRW.
func noteKey(prefix byte, vol uint32, ino uint64, gen uint32) []byte {
	k := binary.BigEndian.AppendUint64(key32(prefix, vol), ino)
	return binary.BigEndian.AppendUint32(k, gen)
}

// splitNoteKey takes a noteKey apart.
func splitNoteKey(key []byte) (ino uint64, gen uint32, ok bool) {
	if len(key) != 17 {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(key[5:]), binary.BigEndian.Uint32(key[13:]), true
}

// keyAfter returns the smallest key above all that begin with prefix, or nil if
// there is none.
func keyAfter(prefix []byte) []byte {
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] != 0xff {
			end := append([]byte(nil), prefix[:n]...)
			end[n-1]++
			return end
		}
	}
	return nil
}
