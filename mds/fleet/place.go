package fleet

import (
	"manifold/layout/files"
	"manifold/mds/ns"
	"manifold/mds/placement"
)

// Defaults are what a policy's zero fields mean.
type Defaults struct {
	Unit  uint32 // stripe unit, bytes
	Width int    // data servers for one file; 0: all
}

// Place chooses where a new file's data goes. Errors are nfs4.Status values:
// NFS4ERR_NOSPC if all data servers are full, NFS4ERR_DELAY if none is up.
func (f *Fleet) Place(p ns.Policy, inode uint64) (ns.FileLayout, error) {
	want := placement.Policy{Width: int(p.Width), Pool: p.Pool}
	if want.Width == 0 {
		want.Width = f.policy.Width
	}
	ds, err := placement.Place(placement.Config{MaxWidth: files.MaxDS}, f.view(), want, inode)
	if err != nil {
		return ns.FileLayout{}, err
	}
	l := ns.FileLayout{Unit: p.Unit, DS: ds}
	if l.Unit == 0 {
		l.Unit = f.policy.Unit
	}
	return l, nil
}

// view is the data servers as placement sees them.
func (f *Fleet) view() []placement.DS {
	list := f.List()
	view := make([]placement.DS, 0, len(list))
	for _, i := range list {
		d := placement.DS{ID: i.ID, Capacity: i.Usage.CapacityBytes, Free: i.Usage.FreeBytes}
		switch i.State {
		case Up:
			d.State = placement.Up
		case Draining:
			d.State = placement.Draining
		case Removed:
			continue
		}
		view = append(view, d)
	}
	return view
}
