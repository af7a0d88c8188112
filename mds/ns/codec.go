package ns

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr"
	"manifold/xdr/nfs4"
)

// Every row is XDR: a word that says what it is and in which version, the
// fields, and a CRC-32C of the key and all that, so that a row that was damaged
// or is in another's place is an error.
type rowForm uint32

const (
	formACL      rowForm = 'a'<<8 | 1
	formInode    rowForm = 'i'<<8 | 1
	formDirents  rowForm = 'd'<<8 | 1
	formVolume   rowForm = 'v'<<8 | 1
	formCounters rowForm = 'n'<<8 | 1
	formService  rowForm = 'c'<<8 | 1
	formClient   rowForm = 'C'<<8 | 2
	formDS       rowForm = 'D'<<8 | 1
	formToken    rowForm = 'j'<<8 | 1
	formKeyring  rowForm = 'k'<<8 | 1
	formXattr    rowForm = 'x'<<8 | 1
)

// Bounds of variable fields, in bytes or elements.
const (
	maxTarget    = 4096
	maxPool      = 64
	maxFileDS    = 1024
	maxOwner     = 1024
	maxString    = 255
	maxAddresses = 32
	maxKeyring   = 64 << 10
)

// castagnoli is a table that nothing writes to.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(key, row []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, row)
}

// newRow begins a row of about size bytes.
func newRow(form rowForm, size int) xdr.Encoder {
	e := xdr.NewEncoder(make([]byte, 0, size))
	e.Uint32(uint32(form))
	return e
}

// putRow ends the row in e and writes it.
func putRow(tx store.Tx, key []byte, e *xdr.Encoder) error {
	e.Uint32(checksum(key, e.Bytes()))
	return tx.Put(key, e.Bytes())
}

// openRow checks a row and returns a Decoder of its fields.
func openRow(key, row []byte, form rowForm) (xdr.Decoder, error) {
	n := len(row) - 4
	if n < 4 || binary.BigEndian.Uint32(row[n:]) != checksum(key, row[:n]) {
		return xdr.Decoder{}, corrupt(key, "checksum")
	}
	if got := rowForm(binary.BigEndian.Uint32(row)); got != form {
		return xdr.Decoder{}, corrupt(key, fmt.Sprintf("form %#x, want %#x", uint32(got), uint32(form)))
	}
	return xdr.NewDecoder(row[4:n]), nil
}

// closeRow returns what went wrong in decoding a row, if anything.
func closeRow(key []byte, d *xdr.Decoder, valid bool) error {
	switch {
	case d.Err() != nil:
		return corrupt(key, d.Err().Error())
	case d.Remaining() != 0:
		return corrupt(key, "longer than its fields")
	case !valid:
		return corrupt(key, "a value out of range")
	}
	return nil
}

func corrupt(key []byte, why string) error { return fmt.Errorf("%w %q: %s", ErrCorrupt, key, why) }

// getRow reads a row and checks it. found is false if there is none.
func getRow(tx store.Tx, key []byte, form rowForm) (d xdr.Decoder, found bool, err error) {
	row, err := tx.Get(key)
	if err != nil || row == nil {
		return xdr.Decoder{}, false, err
	}
	d, err = openRow(key, row, form)
	return d, err == nil, err
}

// Flags of an inode's row: fields that few inodes have, and rows beside it.
const (
	flagExclusive = 1 << iota
	flagACL
	flagXattrs
	inodeFlags = 1<<iota - 1
)

func encodeInode(in *Inode) xdr.Encoder {
	e := newRow(formInode, 256)
	e.Uint32(in.Gen)
	e.Uint32(uint32(in.Type))
	for _, v := range [...]uint32{in.Mode, in.Nlink, in.UID, in.GID} {
		e.Uint32(v)
	}
	e.Uint64(in.Size)
	e.Uint64(in.Change)
	for _, t := range [...]nfs4.Time{in.Atime, in.Mtime, in.Ctime, in.Btime} {
		e.Int64(t.Sec)
		e.Uint32(t.Nsec)
	}
	var flags uint32
	if in.Exclusive {
		flags |= flagExclusive
	}
	if in.hasACL {
		flags |= flagACL
	}
	if in.xattrs.count > 0 {
		flags |= flagXattrs
	}
	e.Uint32(flags)
	if in.Exclusive {
		e.Fixed(in.Verifier[:])
	}
	if in.xattrs.count > 0 {
		e.Uint32(in.xattrs.count)
		e.Uint32(in.xattrs.bytes)
	}
	switch in.Type {
	case nfs4.TypeBlk, nfs4.TypeChr:
		e.Uint32(in.Rdev.Major)
		e.Uint32(in.Rdev.Minor)
	case nfs4.TypeLnk:
		e.Opaque(in.Target)
	case nfs4.TypeDir:
		e.Uint64(in.Parent)
		e.Uint64(in.Entries)
		encodePolicy(&e, &in.Policy)
	case nfs4.TypeReg:
		encodePolicy(&e, &in.Policy)
		encodeLayout(&e, &in.Layout)
	}
	return e
}

func encodePolicy(e *xdr.Encoder, p *Policy) {
	e.Uint32(p.Unit)
	e.Uint32(uint32(p.Width))
	e.String(p.Pool)
}

func encodeLayout(e *xdr.Encoder, l *FileLayout) {
	e.Uint32(l.Unit)
	e.Uint32(l.Epoch)
	e.Uint32(uint32(len(l.DS)))
	for _, ds := range l.DS {
		e.Uint32(uint32(ds))
	}
}

// decodeInode reads the row of inode number ino, but not its ACL (see
// Volume.read). It copies.
func decodeInode(ino uint64, key, row []byte) (*Inode, error) {
	d, err := openRow(key, row, formInode)
	if err != nil {
		return nil, err
	}
	in := &Inode{ID: ino, Gen: d.Uint32(), Type: nfs4.FileType(d.Uint32())}
	for _, v := range [...]*uint32{&in.Mode, &in.Nlink, &in.UID, &in.GID} {
		*v = d.Uint32()
	}
	in.Size = d.Uint64()
	in.Change = d.Uint64()
	valid := in.Gen != 0 && in.Mode <= modeBits && in.Size <= MaxFileSize
	for _, t := range [...]*nfs4.Time{&in.Atime, &in.Mtime, &in.Ctime, &in.Btime} {
		t.Sec, t.Nsec = d.Int64(), d.Uint32()
		valid = valid && t.Valid()
	}
	flags := d.Uint32()
	in.Exclusive = flags&flagExclusive != 0
	in.hasACL = flags&flagACL != 0
	valid = valid && flags&^inodeFlags == 0
	if in.Exclusive {
		copy(in.Verifier[:], d.Fixed(len(in.Verifier)))
	}
	if flags&flagXattrs != 0 {
		in.xattrs.count, in.xattrs.bytes = d.Uint32(), d.Uint32()
		valid = valid && in.xattrs.count > 0
	}
	valid = decodeByType(&d, in) && valid
	if err := closeRow(key, &d, valid); err != nil {
		return nil, err
	}
	return in, nil
}

// decodeByType reads the fields that only some types have.
func decodeByType(d *xdr.Decoder, in *Inode) (valid bool) {
	switch in.Type {
	case nfs4.TypeBlk, nfs4.TypeChr:
		in.Rdev.Major, in.Rdev.Minor = d.Uint32(), d.Uint32()
	case nfs4.TypeLnk:
		in.Target = bytes.Clone(d.Opaque(maxTarget))
	case nfs4.TypeDir:
		in.Parent, in.Entries = d.Uint64(), d.Uint64()
		return decodePolicy(d, &in.Policy)
	case nfs4.TypeReg:
		return decodePolicy(d, &in.Policy) && decodeLayout(d, &in.Layout)
	case nfs4.TypeSock, nfs4.TypeFifo:
	default:
		return false
	}
	return true
}

func decodePolicy(d *xdr.Decoder, p *Policy) (valid bool) {
	p.Unit = d.Uint32()
	width := d.Uint32()
	p.Width = uint16(width)
	p.Pool = d.String(maxPool)
	return width == uint32(p.Width)
}

func decodeLayout(d *xdr.Decoder, l *FileLayout) (valid bool) {
	l.Unit, l.Epoch = d.Uint32(), d.Uint32()
	if n := d.Count(maxFileDS, 4); n > 0 {
		l.DS = make([]layout.DSID, n)
		for i := range l.DS {
			l.DS[i] = layout.DSID(d.Uint32())
		}
	}
	return true
}
