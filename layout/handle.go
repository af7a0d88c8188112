package layout

import (
	"encoding/binary"
	"fmt"

	"manifold/xdr/nfs4"
)

// Object names what one data server holds of one file: the same triple on each
// of the file's data servers. Inode numbers are never used again; Gen guards
// against a metadata store that was put back from an old copy.
type Object struct {
	Volume uint32
	Inode  uint64
	Gen    uint32
}

// String gives "volume/inode.gen" in decimal, for logs and text stories.
func (o Object) String() string { return fmt.Sprintf("%d/%d.%d", o.Volume, o.Inode, o.Gen) }

// Rights says what a Capability allows. A bit set.
type Rights uint8

// The rights there are: READ, and WRITE with COMMIT. A layout of iomode RW
// carries both (RFC 8881 section 3.3.20).
const (
	RightRead  Rights = 1
	RightWrite Rights = 2
)

// Capability is what a data server's filehandle says: Client may do Rights to
// Object, unless the data server was told that the client is fenced, or all of
// the object's epochs below one that is above Epoch.
type Capability struct {
	Object
	Client nfs4.ClientID
	Rights Rights
	Epoch  uint32
}

// Handle is what a metadata server's filehandle says: one inode of one volume.
type Handle struct {
	Volume uint32
	Inode  uint64
	Gen    uint32
}

// MDSClient is the client id in the metadata server's own capabilities, for what
// it does at data servers itself. No client has it, so no fence of a client
// concerns them; it is the largest there is, since a data server may come to
// refuse all ids below one that it was told. To the holder of such a capability
// an object's size is that of the object, not of the file.
const MDSClient nfs4.ClientID = 1<<64 - 1

// The sizes of filehandles, in bytes. A data server's is short enough for 78
// of them in a layout body of 4,096 bytes, the most that Linux takes.
const (
	dsHandleSize  = 48
	mdsHandleSize = 32
)

// The first byte of a filehandle: its role and the version of its form.
const (
	tagMDS = 0xA1
	tagDS  = 0xD1
)

// Both forms are big-endian and begin alike:
//
//	0 tag, 1 key id, 2 rights (DS) or 0, 3 zero, 4 volume, 8 inode, 16 gen,
//	then at 20 the MAC of an MDS handle, or
//	20 epoch, 24 client, and at 32 the MAC of a DS handle.
const (
	mdsBody = 20
	dsBody  = 32
)

// SealDS returns the filehandle (48 bytes) that says c.
func (k *Keyring) SealDS(c Capability) nfs4.FH {
	fh := make(nfs4.FH, dsHandleSize)
	k.putHead(fh, tagDS, byte(c.Rights), c.Volume, c.Inode, c.Gen)
	binary.BigEndian.PutUint32(fh[20:], c.Epoch)
	binary.BigEndian.PutUint64(fh[24:], uint64(c.Client))
	k.sign(fh, dsBody)
	return fh
}

// OpenDS returns what fh says if it is a data server's filehandle that a key
// of k signed. Otherwise: NFS4ERR_BADHANDLE for anything that no version of
// this software ever made as a data server's handle (length, tag, bits that are
// always zero), NFS4ERR_STALE if the key is not known or did not sign it. Linux
// gives the layout up on either and asks the metadata server again.
func (k *Keyring) OpenDS(fh nfs4.FH) (Capability, nfs4.Status) {
	if len(fh) != dsHandleSize || fh[0] != tagDS || fh[3] != 0 || Rights(fh[2])&^(RightRead|RightWrite) != 0 {
		return Capability{}, nfs4.ErrBadHandle
	}
	if !k.verify(fh, dsBody) {
		return Capability{}, nfs4.ErrStale
	}
	return Capability{
		Object: Object{
			Volume: binary.BigEndian.Uint32(fh[4:]),
			Inode:  binary.BigEndian.Uint64(fh[8:]),
			Gen:    binary.BigEndian.Uint32(fh[16:]),
		},
		Client: nfs4.ClientID(binary.BigEndian.Uint64(fh[24:])),
		Rights: Rights(fh[2]),
		Epoch:  binary.BigEndian.Uint32(fh[20:]),
	}, nfs4.OK
}

// SealMDS returns the filehandle (mdsHandleSize bytes) that says h. The same h
// and key give the same bytes, but a new current key gives other bytes for the
// same inode: compare inodes, not filehandles.
func (k *Keyring) SealMDS(h Handle) nfs4.FH {
	fh := make(nfs4.FH, mdsHandleSize)
	k.putHead(fh, tagMDS, 0, h.Volume, h.Inode, h.Gen)
	k.sign(fh, mdsBody)
	return fh
}

// OpenMDS returns what fh says if it is a metadata server's filehandle that a
// key of k signed. Its errors are those of OpenDS.
func (k *Keyring) OpenMDS(fh nfs4.FH) (Handle, nfs4.Status) {
	if len(fh) != mdsHandleSize || fh[0] != tagMDS || fh[2] != 0 || fh[3] != 0 {
		return Handle{}, nfs4.ErrBadHandle
	}
	if !k.verify(fh, mdsBody) {
		return Handle{}, nfs4.ErrStale
	}
	return Handle{
		Volume: binary.BigEndian.Uint32(fh[4:]),
		Inode:  binary.BigEndian.Uint64(fh[8:]),
		Gen:    binary.BigEndian.Uint32(fh[16:]),
	}, nfs4.OK
}

func (k *Keyring) putHead(fh nfs4.FH, tag, rights byte, volume uint32, inode uint64, gen uint32) {
	fh[0], fh[1], fh[2] = tag, k.current, rights
	binary.BigEndian.PutUint32(fh[4:], volume)
	binary.BigEndian.PutUint64(fh[8:], inode)
	binary.BigEndian.PutUint32(fh[16:], gen)
}
