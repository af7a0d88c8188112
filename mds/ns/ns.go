// Package ns is the name space of a volume: POSIX semantics, NFSv4 results.
//
// Its nouns: a Volume is one tree with one file system id; an Inode is a file,
// a directory or another object in it; a Node is what Create is to make; an
// Entry is a name in a directory; a Cred is who asks. An ACL says who may do what
// with an inode, where its mode does not say it all. Policy says how new files
// are to be striped, FileLayout how one file is. Cluster is the few rows that
// belong to no volume.
//
// Every function works on one store.Tx of the caller's, reads what it needs in
// it and writes there whatever an operation makes durable, so that the caller
// adds its own rows to the same transaction. Functions that change something
// need the Tx of an Update. None of them knows of opens, locks, layouts that
// are out, or the network; whether an object may still be in use is for the
// caller to know (see Removed and Volume.Forget).
//
// Errors are nfs4.Status values of what the request did wrong, or errors of the
// store, or wrap ErrCorrupt; StatusOf turns any of them into what to answer.
// After an error the Tx may hold half of an operation: give the error back
// to Update, which drops it.
package ns

import (
	"context"
	"errors"
	"time"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// Limits of the name space, as GETATTR answers them. That of names is
// nfs4.MaxNameLen.
const (
	// MaxLink is the most names that a file may have (attribute MAXLINK).
	MaxLink = 65000
	// MaxFileSize is the largest size of a file in bytes (attribute MAXFILESIZE).
	MaxFileSize = 1<<63 - 1
	// MaxXattr is the largest value of an extended attribute in bytes.
	MaxXattr = 64 << 10
)

// ErrCorrupt means that a row of the store does not hold what it must.
var ErrCorrupt = errors.New("ns: corrupt row")

// StatusOf returns what an operation answers for err: the nfs4.Status that it
// is or wraps; NFS4ERR_NOSPC for a full store; NFS4ERR_DELAY if the store is
// closing or the context ended, so that nothing is said of the outcome;
// NFS4ERR_IO for any other failure of the store and a corrupt row (RFC 8881
// section 15.1).
func StatusOf(err error) nfs4.Status {
	var s nfs4.Status
	switch {
	case err == nil:
		return nfs4.OK
	case errors.As(err, &s):
		return s
	case errors.Is(err, store.ErrNoSpace):
		return nfs4.ErrNoSpc
	case errors.Is(err, store.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nfs4.ErrDelay
	}
	return nfs4.ErrIO
}

// status returns s as an error, nil for OK.
func status(s nfs4.Status) error {
	if s == nfs4.OK {
		return nil
	}
	return s
}

// The root's inode number, and the first that others get.
const (
	rootID  = 1
	firstID = 16
)

// Volume is one tree. It does not change once it is opened, and holds nothing
// of the store: one Volume serves all transactions.
type Volume struct {
	id      uint32
	fsid    nfs4.FSID
	hashKey [32]byte
	cookies nfs4.Verifier // READDIR's verifier: cookies are good as long as hashKey is
	hash    func(key *[32]byte, name []byte) uint64
}

// Format makes volume id with an empty root directory, mode 0755, owned by
// root. hashKey is 32 random bytes, secret, that decide the order of names in
// directories. If the volume is in the store already: ErrExist.
func Format(tx store.Tx, now time.Time, id uint32, fsid nfs4.FSID, hashKey [32]byte) (*Volume, error) {
	key := key32(prefixVolume, id)
	if row, err := tx.Get(key); err != nil {
		return nil, err
	} else if row != nil {
		return nil, nfs4.ErrExist
	}
	e := newRow(formVolume, 64)
	e.Uint64(fsid.Major)
	e.Uint64(fsid.Minor)
	e.Fixed(hashKey[:])
	if err := putRow(tx, key, &e); err != nil {
		return nil, err
	}
	v := newVolume(id, fsid, hashKey)
	if err := v.putCounters(tx, counters{next: firstID, files: 1}); err != nil {
		return nil, err
	}
	root := newInode(rootID, now)
	root.Type, root.Mode, root.Nlink, root.Size, root.Parent = nfs4.TypeDir, 0o755, 2, dirSize, rootID
	return v, v.put(tx, root)
}

// Open returns volume id, or ErrNoEnt if Format never made it.
func Open(tx store.Tx, id uint32) (*Volume, error) {
	key := key32(prefixVolume, id)
	d, found, err := getRow(tx, key, formVolume)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, nfs4.ErrNoEnt
	}
	fsid := nfs4.FSID{Major: d.Uint64(), Minor: d.Uint64()}
	var hashKey [32]byte
	copy(hashKey[:], d.Fixed(len(hashKey)))
	if err := closeRow(key, &d, true); err != nil {
		return nil, err
	}
	return newVolume(id, fsid, hashKey), nil
}

func newVolume(id uint32, fsid nfs4.FSID, hashKey [32]byte) *Volume {
	return &Volume{id: id, fsid: fsid, hashKey: hashKey, cookies: cookieVerifier(&hashKey), hash: hashName}
}

// ID returns the volume's number, as in filehandles.
func (v *Volume) ID() uint32 { return v.id }

// FSID returns the file system id of everything in the volume.
func (v *Volume) FSID() nfs4.FSID { return v.fsid }

// Root returns the root directory.
func (v *Volume) Root(tx store.Tx) (*Inode, error) { return v.inode(tx, rootID) }

// Get returns the inode of a handle: ErrStale if it is of another volume or no
// longer there. An orphan (Nlink 0) is still there.
func (v *Volume) Get(tx store.Tx, h layout.Handle) (*Inode, error) {
	if h.Volume != v.id {
		return nil, nfs4.ErrStale
	}
	key := inodeKey(v.id, h.Inode)
	row, err := tx.Get(key)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, nfs4.ErrStale
	}
	in, err := v.read(tx, h.Inode, key, row)
	if err != nil {
		return nil, err
	}
	if in.Gen != h.Gen {
		return nil, nfs4.ErrStale
	}
	return in, nil
}

// inode reads an inode that another row names, so that it must be there.
func (v *Volume) inode(tx store.Tx, ino uint64) (*Inode, error) {
	key := inodeKey(v.id, ino)
	row, err := tx.Get(key)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, corrupt(key, "not there")
	}
	return v.read(tx, ino, key, row)
}

// read decodes an inode's row, and reads its ACL if it has one.
func (v *Volume) read(tx store.Tx, ino uint64, key, row []byte) (*Inode, error) {
	in, err := decodeInode(ino, key, row)
	if err != nil {
		return nil, err
	}
	return in, v.loadACL(tx, in)
}

func (v *Volume) put(tx store.Tx, in *Inode) error {
	if err := v.saveACL(tx, in); err != nil {
		return err
	}
	e := encodeInode(in)
	return putRow(tx, inodeKey(v.id, in.ID), &e)
}

// Handle returns what the filehandle of in says.
func (v *Volume) Handle(in *Inode) layout.Handle {
	return layout.Handle{Volume: v.id, Inode: in.ID, Gen: in.Gen}
}

// Object returns what the data servers call in's data.
func (v *Volume) Object(in *Inode) layout.Object {
	return layout.Object{Volume: v.id, Inode: in.ID, Gen: in.Gen}
}

// counters is the row that every new and every forgotten inode changes.
// Updates run one at a time, so it is no point of contention.
type counters struct{ next, files uint64 }

func (v *Volume) counters(tx store.Tx) (counters, error) {
	key := key32(prefixCounters, v.id)
	d, found, err := getRow(tx, key, formCounters)
	if err != nil {
		return counters{}, err
	}
	if !found {
		return counters{}, corrupt(key, "not there")
	}
	c := counters{next: d.Uint64(), files: d.Uint64()}
	return c, closeRow(key, &d, true)
}

func (v *Volume) putCounters(tx store.Tx, c counters) error {
	e := newRow(formCounters, 32)
	e.Uint64(c.next)
	e.Uint64(c.files)
	return putRow(tx, key32(prefixCounters, v.id), &e)
}

// Files returns how many inodes there are, the root and orphans included.
func (v *Volume) Files(tx store.Tx) (uint64, error) {
	c, err := v.counters(tx)
	return c.files, err
}

// allocate returns a new inode and counts it.
func (v *Volume) allocate(tx store.Tx, now time.Time) (*Inode, error) {
	c, err := v.counters(tx)
	if err != nil {
		return nil, err
	}
	in := newInode(c.next, now)
	c.next++
	c.files++
	return in, v.putCounters(tx, c)
}

// erase deletes the rows of an inode and counts it no longer.
func (v *Volume) erase(tx store.Tx, in *Inode) error {
	c, err := v.counters(tx)
	if err != nil {
		return err
	}
	c.files--
	if err := v.putCounters(tx, c); err != nil {
		return err
	}
	if in.hasACL {
		if err := tx.Delete(inodeRowKey(prefixACL, v.id, in.ID)); err != nil {
			return err
		}
	}
	if err := v.eraseXattrs(tx, in); err != nil {
		return err
	}
	return tx.Delete(inodeKey(v.id, in.ID))
}
