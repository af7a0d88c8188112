// Package fence decides which client may still do I/O on which object of a
// data server.
//
// Its nouns: a fence takes away what a filehandle (a layout.Capability)
// granted. A client's fence takes away everything that client was ever
// granted; client ids are not used twice, so it never ends. An object's fence
// takes away what was granted before an epoch. The floor is a client's fence
// for every client id below it. A Table is the set of fences of a data server.
//
// A Table is bounded. A client id has the boot epoch of the metadata server in
// its upper half, and once that server's clients all have ids of a newer boot,
// no filehandle that names an older id is of use to anyone: then one floor says
// what many fences said (RaiseFloor). A Table that is full raises the floor by
// itself, first over the older boots, then over the lowest of the ids it lists.
// That can only fence too much, and a client that is fenced too much does its
// I/O through the metadata server: slower, never wrong. An object's fence has
// no such substitute, so a full Table refuses it (ErrFull); it is forgotten when
// the object is removed (Forget).
//
// The package is pure: its caller keeps the Table's Snapshot on disk, guards
// the Table with a lock, and before it tells anyone that a fence stands, waits
// for the I/O that was admitted before it.
package fence

import (
	"errors"
	"maps"
	"slices"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// Limits bounds a Table.
type Limits struct {
	// Clients is how many fenced clients are listed one by one, 8 bytes each
	// on disk and about 20 in memory. At least 1.
	Clients int
	// Objects is how many objects may be fenced, 20 bytes each on disk and
	// about 50 in memory. At least 1.
	Objects int
}

// DefaultLimits returns bounds that a data server of many thousand clients does
// not meet: about 16 MiB of memory in all.
func DefaultLimits() Limits { return Limits{Clients: 1 << 16, Objects: 1 << 18} }

// ErrFull means that an object's fence does not stand, since Limits.Objects
// others do.
var ErrFull = errors.New("fence: too many objects are fenced")

// Table is the set of fences of one data server. It is not safe for concurrent
// change; Check may be called concurrently with itself.
type Table struct {
	limits  Limits
	floor   nfs4.ClientID
	clients map[nfs4.ClientID]struct{}
	objects map[layout.Object]uint32 // the least epoch that is not fenced
}

// New returns a Table without fences. Limits below 1 are taken as 1.
func New(limits Limits) *Table {
	limits.Clients, limits.Objects = max(limits.Clients, 1), max(limits.Objects, 1)
	return &Table{
		limits:  limits,
		clients: make(map[nfs4.ClientID]struct{}),
		objects: make(map[layout.Object]uint32),
	}
}

// Clone returns a copy that shares nothing with t, to be changed and written to
// disk before it takes t's place.
func (t *Table) Clone() *Table {
	return &Table{limits: t.limits, floor: t.floor, clients: maps.Clone(t.clients), objects: maps.Clone(t.objects)}
}

// Check says whether the holder of c may do what needs the rights need: OK, or
// NFS4ERR_PNFS_NO_LAYOUT if it is fenced or never had the rights (RFC 8881
// section 13.6: the data server's way to say that the layout is gone, on which
// a client throws its layout away and asks the metadata server).
func (t *Table) Check(c layout.Capability, need layout.Rights) nfs4.Status {
	if c.Rights&need != need || c.Client < t.floor {
		return nfs4.ErrPNFSNoLayout
	}
	if _, fenced := t.clients[c.Client]; fenced {
		return nfs4.ErrPNFSNoLayout
	}
	if c.Epoch < t.Least(c.Object) {
		return nfs4.ErrPNFSNoLayout
	}
	return nfs4.OK
}

// FenceClient takes away everything that the client id was granted, for good.
// changed is false if that was so before.
func (t *Table) FenceClient(id nfs4.ClientID) (changed bool) {
	if _, fenced := t.clients[id]; fenced || id < t.floor {
		return false
	}
	t.clients[id] = struct{}{}
	if len(t.clients) > t.limits.Clients {
		t.compact()
	}
	return true
}

// FenceObject takes away what was granted on obj with an epoch below least, to
// any client. changed is false if that was so before. It fails only with
// ErrFull, and then changes nothing.
func (t *Table) FenceObject(obj layout.Object, least uint32) (changed bool, err error) {
	old, listed := t.objects[obj]
	if least <= old {
		return false, nil
	}
	if !listed && len(t.objects) >= t.limits.Objects {
		return false, ErrFull
	}
	t.objects[obj] = least
	return true, nil
}

// Forget drops the fence of obj, which was removed and can be written no more.
// changed is false if there was none.
func (t *Table) Forget(obj layout.Object) (changed bool) {
	_, changed = t.objects[obj]
	delete(t.objects, obj)
	return changed
}

// RaiseFloor fences every client whose id is below id, and forgets their single
// fences. The metadata server's word that no client it knows has such an id.
// The floor never sinks. changed is false if it was there or higher.
func (t *Table) RaiseFloor(id nfs4.ClientID) (changed bool) {
	if id <= t.floor {
		return false
	}
	t.floor = id
	for c := range t.clients {
		if c < id {
			delete(t.clients, c)
		}
	}
	return true
}

// Floor returns the least client id that is not fenced as one of many.
func (t *Table) Floor() nfs4.ClientID { return t.floor }

// Least returns the least epoch of obj that is not fenced; 0: none is.
func (t *Table) Least(obj layout.Object) uint32 { return t.objects[obj] }

// Len returns how many clients and objects are fenced one by one.
func (t *Table) Len() (clients, objects int) { return len(t.clients), len(t.objects) }

// compact makes room among the clients: the boots before the newest one go
// under the floor, and if that frees less than a quarter, the lowest ids until
// it does, so that compaction is rare.
func (t *Table) compact() {
	ids := t.sortedClients()
	newest := ids[len(ids)-1]
	t.RaiseFloor(newest >> 32 << 32)
	keep := t.limits.Clients - t.limits.Clients/4
	if len(t.clients) > keep {
		t.RaiseFloor(ids[len(ids)-keep])
	}
}

func (t *Table) sortedClients() []nfs4.ClientID { return slices.Sorted(maps.Keys(t.clients)) }
