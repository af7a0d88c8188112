package ns

import "encoding/binary"

// The rows of the store. This table is the only place that knows how keys look;
// other packages that keep rows of their own take a prefix of the second part.
// Numbers in keys are big-endian, so that they scan in ascending order. "vol"
// is the volume's number (4 bytes), "ino" an inode number (8), "gen" its
// generation (4).
//
//	key                  value
//	a vol ino            the ACL of an inode that has one
//	c                    ServiceRecord
//	C clientid(8)        ClientRecord
//	d vol parent hash(8) the names of one hash in a directory: normally one
//	D number(4)          DSRecord
//	i vol ino            Inode
//	j                    the join token, where metadata servers share the store
//	k                    the keyring, as layout writes it
//	n vol                counters: the next inode number, how many inodes there are
//	o vol ino gen        empty: an orphan, that is, a file without a name
//	v vol                the volume: file system id, secret of the hash
//	w vol ino gen        empty: a RW layout of the file may be out
//	x vol ino hash(8)    one extended attribute: name and value
//
//	q                    kept free for quotas
//	t                    mds/outbox
const (
	prefixACL      = 'a'
	prefixService  = 'c'
	prefixClient   = 'C'
	prefixDirent   = 'd'
	prefixDS       = 'D'
	prefixInode    = 'i'
	prefixToken    = 'j'
	prefixKeyring  = 'k'
	prefixCounters = 'n'
	prefixOrphan   = 'o'
	prefixVolume   = 'v'
	prefixOpenRW   = 'w'
	prefixXattr    = 'x'
)

// key32 returns the key of a row that is named by 4 bytes, and is the
// beginning of longer ones.
func key32(prefix byte, n uint32) []byte {
	return binary.BigEndian.AppendUint32(append(make([]byte, 0, 24), prefix), n)
}

func clientKey(id uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixClient}, id)
}

func inodeKey(vol uint32, ino uint64) []byte { return inodeRowKey(prefixInode, vol, ino) }

// inodeRowKey is the key of a row of an inode, and the beginning of its
// extended attributes' keys.
func inodeRowKey(prefix byte, vol uint32, ino uint64) []byte {
	return binary.BigEndian.AppendUint64(key32(prefix, vol), ino)
}

func xattrKey(vol uint32, ino, cookie uint64) []byte {
	return binary.BigEndian.AppendUint64(inodeRowKey(prefixXattr, vol, ino), cookie)
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
