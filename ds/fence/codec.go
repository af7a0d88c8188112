package fence

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"manifold/layout"
	"manifold/xdr"
	"manifold/xdr/nfs4"
)

// ErrFormat means bytes that are no Snapshot, or a damaged one. A data server
// must not start without its fences: it would serve clients that it has been
// told not to.
var ErrFormat = errors.New("fence: not a snapshot")

// The form of a Snapshot, big-endian as all XDR: magic, version, floor, the
// count of clients and their ids ascending, the count of objects and of each
// volume, inode, gen and least epoch in ascending order, and the CRC-32C of all that.
const (
	magic      = 0x4d46454e // "MFEN"
	version    = 1
	clientSize = 8
	objectSize = 20
	headSize   = 24
	crcSize    = 4
)

// Snapshot returns t as bytes for Load. Equal Tables give equal bytes.
func (t *Table) Snapshot() []byte {
	size := headSize + len(t.clients)*clientSize + len(t.objects)*objectSize + crcSize
	e := xdr.NewEncoder(make([]byte, 0, size))
	e.Uint32(magic)
	e.Uint32(version)
	e.Uint64(uint64(t.floor))
	e.Uint32(uint32(len(t.clients)))
	for _, id := range t.sortedClients() {
		e.Uint64(uint64(id))
	}
	e.Uint32(uint32(len(t.objects)))
	for _, obj := range slices.SortedFunc(maps.Keys(t.objects), compareObjects) {
		e.Uint32(obj.Volume)
		e.Uint64(obj.Inode)
		e.Uint32(obj.Gen)
		e.Uint32(t.objects[obj])
	}
	e.Uint32(sum(e.Bytes()))
	return e.Bytes()
}

// Load returns the Table whose Snapshot b is, or an error that wraps ErrFormat.
// Limits smaller than what the snapshot holds are widened to hold it: no fence
// is lost because somebody changed a configuration.
func Load(b []byte, limits Limits) (*Table, error) {
	if len(b) < crcSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrFormat, len(b))
	}
	d := xdr.NewDecoder(b[:len(b)-crcSize])
	tail := xdr.NewDecoder(b[len(b)-crcSize:])
	if tail.Uint32() != sum(b[:len(b)-crcSize]) {
		return nil, fmt.Errorf("%w: checksum does not match", ErrFormat)
	}
	if m, v := d.Uint32(), d.Uint32(); m != magic || v != version {
		return nil, fmt.Errorf("%w: magic %#x version %d", ErrFormat, m, v)
	}
	t := New(limits)
	t.floor = nfs4.ClientID(d.Uint64())
	t.loadClients(&d)
	t.loadObjects(&d)
	if d.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, d.Err())
	}
	if d.Remaining() != 0 {
		return nil, fmt.Errorf("%w: %d bytes too many", ErrFormat, d.Remaining())
	}
	t.limits.Clients = max(t.limits.Clients, len(t.clients))
	t.limits.Objects = max(t.limits.Objects, len(t.objects))
	return t, nil
}

// loadClients reads the fenced clients: ascending, at or above the floor.
func (t *Table) loadClients(d *xdr.Decoder) {
	n := d.Count(len(d.Rest()), clientSize)
	last := t.floor
	for i := range n {
		id := nfs4.ClientID(d.Uint64())
		if id < last || i > 0 && id == last {
			d.Fail(fmt.Errorf("%w: client %#x out of order", xdr.ErrValue, uint64(id)))
			return
		}
		t.clients[id], last = struct{}{}, id
	}
}

// loadObjects reads the fenced objects: ascending, each with an epoch.
func (t *Table) loadObjects(d *xdr.Decoder) {
	n := d.Count(len(d.Rest()), objectSize)
	var last layout.Object
	for i := range n {
		obj := layout.Object{Volume: d.Uint32(), Inode: d.Uint64(), Gen: d.Uint32()}
		least := d.Uint32()
		if least == 0 || i > 0 && compareObjects(last, obj) >= 0 {
			d.Fail(fmt.Errorf("%w: object %v out of order or without an epoch", xdr.ErrValue, obj))
			return
		}
		t.objects[obj], last = least, obj
	}
}

func compareObjects(a, b layout.Object) int {
	return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Inode, b.Inode), cmp.Compare(a.Gen, b.Gen))
}

func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
