package ns

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// A name's place in its directory is its hash: 60 bits, and 3 bits of slot that
// keep the names of one hash apart, are the 63 bits of its READDIR cookie. The
// names of one hash share a row, whose key has slot 0. A name keeps its slot,
// so that cookies stay good. The hash is keyed with a secret: who cannot know
// it cannot choose names that collide, and for others nine names of one hash
// do not happen.
const (
	slotBits = 3
	slots    = 1 << slotBits
	maxHash  = 1<<60 - 2
)

// hashName returns a number of 1 to maxHash: cookies below 8 are free for the
// client's "." and "..", and one of all ones may mean an end to it.
func hashName(key *[32]byte, name []byte) uint64 {
	var buf [32 + nfs4.MaxNameLen]byte
	n := copy(buf[:], key[:])
	n += copy(buf[n:], name)
	sum := sha256.Sum256(buf[:n])
	return min(max(binary.BigEndian.Uint64(sum[:])>>4, 1), maxHash)
}

// cookieVerifier returns READDIR's verifier for a hash key. '/' is in no name.
func cookieVerifier(key *[32]byte) nfs4.Verifier {
	sum := sha256.Sum256(append(key[:], "/verifier"...))
	return nfs4.Verifier(sum[:8])
}

// dirent is a name in a row.
type dirent struct {
	slot uint32
	typ  nfs4.FileType
	ino  uint64
	gen  uint32
	name []byte
}

// bucket is the row of one hash of a directory, as it is now.
type bucket struct {
	key     []byte
	hash    uint64 // with slot 0: the first cookie
	entries []dirent
}

// decodeDirents appends the names of a row to es. They alias the row.
func decodeDirents(key, row []byte, es []dirent) ([]dirent, error) {
	d, err := openRow(key, row, formDirents)
	if err != nil {
		return nil, err
	}
	n := d.Count(slots, 24)
	valid := n > 0
	used := 0
	for range n {
		e := dirent{
			slot: d.Uint32(), typ: nfs4.FileType(d.Uint32()), ino: d.Uint64(), gen: d.Uint32(),
			name: d.Opaque(nfs4.MaxNameLen),
		}
		bit := 1 << (e.slot % slots)
		valid = valid && e.slot < slots && used&bit == 0 && len(e.name) > 0 &&
			e.typ >= nfs4.TypeReg && e.typ <= nfs4.TypeFifo
		used |= bit
		es = append(es, e)
	}
	return es, closeRow(key, &d, valid)
}

// find reads the row of name's hash, and returns the index of name in it, or -1.
func (v *Volume) find(tx store.Tx, dir uint64, name []byte) (*bucket, int, error) {
	b := &bucket{hash: v.hash(&v.hashKey, name) << slotBits}
	b.key = direntKey(v.id, dir, b.hash)
	row, err := tx.Get(b.key)
	if err != nil || row == nil {
		return b, -1, err
	}
	if b.entries, err = decodeDirents(b.key, row, nil); err != nil {
		return nil, -1, err
	}
	for i, e := range b.entries {
		if bytes.Equal(e.name, name) {
			return b, i, nil
		}
	}
	return b, -1, nil
}

// insert adds a name for in to a row that find found it not to be in.
func (b *bucket) insert(tx store.Tx, name []byte, in *Inode) error {
	free := uint32(0)
	for i := 0; i < len(b.entries); i++ {
		if b.entries[i].slot == free {
			free, i = free+1, -1
		}
	}
	if free >= slots {
		return nfs4.ErrNoSpc
	}
	b.entries = append(b.entries, dirent{slot: free, typ: in.Type, ino: in.ID, gen: in.Gen, name: name})
	return b.put(tx)
}

// replace lets the name at index i name in from now on.
func (b *bucket) replace(tx store.Tx, i int, in *Inode) error {
	e := &b.entries[i]
	e.typ, e.ino, e.gen = in.Type, in.ID, in.Gen
	return b.put(tx)
}

// remove takes the name at index i away.
func (b *bucket) remove(tx store.Tx, i int) error {
	b.entries = append(b.entries[:i], b.entries[i+1:]...)
	if len(b.entries) == 0 {
		return tx.Delete(b.key)
	}
	return b.put(tx)
}

func (b *bucket) put(tx store.Tx) error {
	row := newRow(formDirents, 16+len(b.entries)*(24+nfs4.MaxNameLen/4))
	row.Uint32(uint32(len(b.entries)))
	for _, e := range b.entries {
		row.Uint32(e.slot)
		row.Uint32(uint32(e.typ))
		row.Uint64(e.ino)
		row.Uint32(e.gen)
		row.Opaque(e.name)
	}
	return putRow(tx, b.key, &row)
}

// Entry is a name in a directory. Its Name is good as long as the Tx is.
type Entry struct {
	Cookie uint64 // 8 or more, below 2^63-1
	Name   []byte
	Handle layout.Handle
	Type   nfs4.FileType
}

// ReadDir calls fn for the entries of dir after cookie, in the order of their
// cookies, until fn returns false, and says whether it got to the end: eof is
// false if fn stopped it, even at the last entry. A cookie of 0 begins; cookies
// stay good as names come and go. verf is the one that an earlier ReadDir
// returned. Neither "." nor ".." is an entry. The inode of an entry comes from
// Get. Errors: ErrNotDir, ErrAccess, ErrBadCookie, ErrNotSame (verf). RFC 8881
// section 18.23.
func (v *Volume) ReadDir(tx store.Tx, cred Cred, dir layout.Handle, cookie uint64, verf nfs4.Verifier, fn func(Entry) (more bool, err error)) (newVerf nfs4.Verifier, eof bool, err error) {
	d, err := v.dir(tx, dir)
	if err != nil {
		return newVerf, false, err
	}
	switch err := d.Check(cred, Perm{Read: true}); {
	case err != nil:
		return newVerf, false, err
	case cookie != 0 && cookie < slots || cookie > maxHash<<slotBits|(slots-1):
		return newVerf, false, nfs4.ErrBadCookie
	case cookie != 0 && verf != v.cookies:
		return newVerf, false, nfs4.ErrNotSame
	}
	eof = true
	var es []dirent
	from := direntKey(v.id, d.ID, cookie&^(slots-1))
	err = tx.Scan(from, direntKey(v.id, d.ID+1, 0), func(key, row []byte) (bool, error) {
		var err error
		if es, err = decodeDirents(key, row, es[:0]); err != nil {
			return false, err
		}
		hash := binary.BigEndian.Uint64(key[len(key)-8:])
		// Slots are in any order in a row; cookies must ascend.
		for slot := range uint32(slots) {
			for _, e := range es {
				if e.slot != slot || hash|uint64(slot) <= cookie {
					continue
				}
				h := layout.Handle{Volume: v.id, Inode: e.ino, Gen: e.gen}
				more, err := fn(Entry{Cookie: hash | uint64(slot), Name: e.name, Handle: h, Type: e.typ})
				if err != nil || !more {
					eof = false
					return false, err
				}
			}
		}
		return true, nil
	})
	return v.cookies, eof && err == nil, err
}
