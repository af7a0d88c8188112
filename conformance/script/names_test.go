package script_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// names gives names to what differs from run to run, in the order in which the
// story sees it.
type names struct {
	mu       sync.Mutex
	stateids map[[12]byte]string
	devices  map[nfs4.DeviceID]string
	objects  map[string]layout.Object // by path
	last     map[string]int           // by kind
}

func newNames() *names {
	return &names{
		stateids: map[[12]byte]string{}, devices: map[nfs4.DeviceID]string{},
		objects: map[string]layout.Object{}, last: map[string]int{},
	}
}

// stateid names one of an open (o), a lock (k) or a layout (l).
func (n *names) stateid(kind string, id nfs4.Stateid) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Sprintf("%s:%d", name(n, n.stateids, id.Other, kind), id.Seqid)
}

func (n *names) device(id nfs4.DeviceID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return name(n, n.devices, id, "d")
}

func name[K comparable](n *names, m map[K]string, id K, kind string) string {
	if m[id] == "" {
		n.last[kind]++
		m[id] = fmt.Sprintf("%s%d", kind, n.last[kind])
	}
	return m[id]
}

// keep notes what the object of a file is called, for when the path is gone.
func (n *names) keep(path string, inode uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.objects[path] = layout.Object{Inode: inode}
}

func (n *names) object(path string) layout.Object {
	n.mu.Lock()
	defer n.mu.Unlock()
	obj, ok := n.objects[path]
	if !ok {
		panic(broken{fmt.Errorf("nobody opened %s", path)})
	}
	return obj
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
