package op

import (
	"context"
	"slices"
	"strings"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/state"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// Find returns the inode that a path names, from the volume's root and with
// its owner's rights. Symbolic links are not followed.
func (o *Ops) Find(ctx context.Context, path string) (in *ns.Inode, s nfs4.Status) {
	s = o.view(ctx, func(tx store.Tx) (err error) {
		if in, err = o.Volume.Root(tx); err != nil {
			return err
		}
		for name := range strings.SplitSeq(path, "/") {
			if name == "" {
				continue
			}
			if in, err = o.Volume.Lookup(tx, ns.Cred{}, o.Volume.Handle(in), []byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	return in, s
}

// SetPolicy decides how files are striped: those that are made in a directory
// from now on, or one file without data that nobody has open. Errors are those
// of ns.Volume.SetPolicy, and NFS4ERR_FILE_OPEN.
func (o *Ops) SetPolicy(ctx context.Context, h layout.Handle, p ns.Policy) nfs4.Status {
	unlock, err := o.files.lock(ctx, h.Inode)
	if err != nil {
		return nfs4.ErrDelay
	}
	defer unlock()
	o.mu.Lock()
	used := o.State.Opens(h.Inode) + len(o.State.Layouts(h.Inode, 0))
	o.mu.Unlock()
	return o.update(ctx, func(tx store.Tx) error {
		in, err := o.Volume.Get(tx, h)
		if err != nil {
			return err
		}
		if in.Type == nfs4.TypeReg && in.Size == 0 && len(in.Layout.DS) > 0 {
			if used > 0 {
				return nfs4.ErrFileOpen
			}
			// The place that was chosen at its creation is chosen anew.
			if _, err := o.Volume.SetLayout(tx, h, ns.FileLayout{Epoch: in.Layout.Epoch}); err != nil {
				return err
			}
		}
		_, err = o.Volume.SetPolicy(tx, o.Now(), ns.Cred{}, h, p)
		return err
	})
}

// FilesOn returns how many files have data on a data server, or may have. It
// looks at every inode, a thousand in one transaction.
func (o *Ops) FilesOn(ctx context.Context, ds layout.DSID) (files uint64, err error) {
	const part = 1000
	after := uint64(0)
	for more := true; more; {
		seen := 0
		err = o.Store.View(ctx, func(tx store.Tx) error {
			return o.Volume.ScanInodes(tx, after, func(in *ns.Inode) (bool, error) {
				if slices.Contains(in.Layout.DS, ds) {
					files++
				}
				after, seen = in.ID, seen+1
				return seen < part, nil
			})
		})
		if err != nil {
			return 0, err
		}
		more = seen == part
	}
	return files, nil
}

// Usage is what operations did since the start, and what state there is.
type Usage struct {
	State                                 state.Counts
	Grace                                 bool
	ProxyRead, ProxyWritten, ProxyRefused uint64 // bytes, bytes, calls
	Recalling                             int    // layouts being recalled
	Recalls, Revoked                      uint64
}

// Usage returns the counters as they are.
func (o *Ops) Usage() Usage {
	o.mu.Lock()
	defer o.mu.Unlock()
	u := Usage{
		State: o.State.Counts(), Recalling: len(o.recalls),
		ProxyRead: o.counter.proxyRead.Load(), ProxyWritten: o.counter.proxyWritten.Load(),
		ProxyRefused: o.counter.proxyRefused.Load(),
		Recalls:      o.counter.recalls.Load(), Revoked: o.counter.revoked.Load(),
	}
	u.Grace, _, _ = o.State.Grace(o.Now())
	return u
}

// ClientUsage returns what state a client has.
func (o *Ops) ClientUsage(id nfs4.ClientID) state.Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.State.CountsOf(id)
}
