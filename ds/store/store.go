// Package store is where a data server keeps bytes.
//
// Its nouns: an object is what one data server holds of one file, named by a
// layout.Object; its offsets are the file's own, so objects are sparse. A
// Store keeps objects. An object exists from its first write on; one that does
// not exist reads as a hole, so nobody has to make it. A removed object stays
// removed: a write that comes late fails with ErrStale and does not bring it
// back. The write verifier is the Store's promise about bytes that were
// written and not yet synced: as long as it is the same, a Sync covers them.
//
// The adapters are osfs (plain files on a local file system, the fast path)
// and billyfs (any go-billy file system). The package storetest holds the
// suite that both pass.
package store

import (
	"errors"
	"fmt"

	"manifold/layout"
)

// Store keeps objects. All methods may be called concurrently. Errors wrap one
// of this package's Err values where the cause is known; compare with
// errors.Is.
type Store interface {
	// ReadAt reads into p from byte off of obj. n < len(p) with a nil error
	// means that the object ends at off+n; a missing object reads 0 bytes.
	// Holes within the object read as zeros.
	ReadAt(obj layout.Object, p []byte, off int64) (n int, err error)

	// WriteAt writes p at byte off of obj, which it creates if it must. n bytes
	// were written, also if err is not nil. They are on stable storage only
	// after a Sync that began later. A p of length 0 creates nothing.
	WriteAt(obj layout.Object, p []byte, off int64) (n int, err error)

	// Sync returns when every WriteAt of obj that returned before is on stable
	// storage, the object's name included; a missing object has nothing to
	// sync. After an error nobody knows which of those bytes are there: the
	// Verifier has changed before the error is returned.
	Sync(obj layout.Object) error

	// Truncate cuts obj to size bytes if it is longer and never extends it. It
	// is on stable storage when Truncate returns nil. What was reserved past the
	// end of obj is given back. A missing object is fine.
	Truncate(obj layout.Object, size int64) error

	// Remove takes obj away for good, and is on stable storage when it returns
	// nil. A missing object is fine.
	Remove(obj layout.Object) error

	// Allocate reserves room for n bytes of obj from off on, and creates obj if
	// it must; its size and what it reads as stay. The room is there for good
	// after a Sync that began later. ErrUnsupported where room cannot be reserved.
	Allocate(obj layout.Object, off, n int64) error

	// Deallocate makes n bytes of obj from off on a hole, as far as obj goes, and
	// gives their room back; a range that goes past the end of obj gives back all
	// that was reserved there. The size stays. It is on stable storage after a
	// Sync that began later. A missing object is fine.
	Deallocate(obj layout.Object, off, n int64) error

	// Seek returns where the first data at off or later begins, or if hole is
	// set the first hole; the end of obj is one. found is false if there is no
	// such data. What is data is the local file system's to say: it may call
	// zeros data.
	Seek(obj layout.Object, off int64, hole bool) (at int64, found bool, err error)

	// Size returns the end of obj in bytes, 0 if it is missing.
	Size(obj layout.Object) (int64, error)

	// Statfs returns what room there is.
	Statfs() (Usage, error)

	// Verifier returns the write verifier (RFC 8881 section 18.32.3). It differs
	// between two openings of a store, and changes whenever a Sync fails. Take
	// it before a WriteAt whose answer it goes with, and after a Sync.
	Verifier() [8]byte

	// Close syncs and closes what is open. Later calls fail with ErrClosed.
	Close() error
}

// Usage is the room of a Store, in bytes, and what is in it.
type Usage struct {
	// Capacity is the size of what the store lies on, Free how much of it the
	// store may still take. They move with others' use of the same disk.
	Capacity, Free uint64
	// Used is what the store's own objects take (allocated bytes, not lengths),
	// Files how many there are. A store that was just opened may still be
	// counting; both then grow to the truth.
	Used, Files uint64
	// Disk names the file system that the store lies on, so that stores which
	// share one are not counted twice; "" if it cannot be told.
	Disk string
}

// Errors of a Store.
var (
	// ErrNoSpace: the disk is full (ENOSPC).
	ErrNoSpace = errors.New("store: no space left")
	// ErrQuota: a quota of the local file system is reached (EDQUOT).
	ErrQuota = errors.New("store: quota exceeded")
	// ErrTooBig: past the largest file that the local file system can hold (EFBIG).
	ErrTooBig = errors.New("store: offset too large")
	// ErrIO: the disk failed, or the file system went read-only.
	ErrIO = errors.New("store: I/O error")
	// ErrStale: the object was removed.
	ErrStale = errors.New("store: object was removed")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store: closed")
	// ErrInvalid: a negative offset or size.
	ErrInvalid = errors.New("store: invalid offset or size")
	// ErrUnsupported: the local file system cannot do it.
	ErrUnsupported = errors.New("store: not supported")
)

// Path returns the name of obj below a store's root: two directories of hashed
// names and a file name, each of lower-case hexadecimal digits. Objects of 64
// inode numbers in a row share a directory, so that files made together need
// one new directory and not 64.
func Path(obj layout.Object) (outer, inner, name string) {
	h := hash(obj)
	return fmt.Sprintf("%02x", h>>8), fmt.Sprintf("%02x", h&0xff),
		fmt.Sprintf("%08x-%016x-%08x", obj.Volume, obj.Inode, obj.Gen)
}

// hash spreads groups of 64 inodes over 65,536 directories: the finalizer of a
// multiplicative hash, whose low bits depend on every bit of what goes in.
func hash(obj layout.Object) uint16 {
	x := obj.Inode>>6 ^ uint64(obj.Volume)<<40
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return uint16(x)
}

// ParseName is the inverse of Path's name. ok is false for any other string.
func ParseName(name string) (obj layout.Object, ok bool) {
	if len(name) != 8+1+16+1+8 {
		return layout.Object{}, false
	}
	n, err := fmt.Sscanf(name, "%08x-%016x-%08x", &obj.Volume, &obj.Inode, &obj.Gen)
	if err != nil || n != 3 {
		return layout.Object{}, false
	}
	_, _, again := Path(obj)
	return obj, again == name
}
