package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// prepare makes the directory that all clients share.
func (w *world) prepare() {
	p := w.mds.process()
	err := p.store.Update(context.Background(), func(tx store.Tx) error {
		root, err := p.volume.Root(tx)
		if err != nil {
			return err
		}
		a := mode(0o777)
		_, err = p.volume.Create(tx, time.Now(), ns.Cred{}, p.volume.Handle(root), []byte("shared"), &ns.Node{Type: nfs4.TypeDir, Attrs: &a})
		return err
	})
	if err != nil {
		w.fail("no shared directory: %v", err)
	}
}

// troubles is how much goes wrong in one world, and for how long.
const (
	troubles   = 14
	everyAbout = 2 * time.Second
)

// chaos breaks things for a while.
func (w *world) chaos(rnd *rand.Rand) {
	for range troubles {
		if !w.sleep(time.Duration(rnd.Int64N(int64(2 * everyAbout)))) {
			return
		}
		down := time.Duration(rnd.Int64N(int64(3 * time.Second)))
		if rnd.IntN(4) == 0 {
			down = time.Duration(rnd.Int64N(int64(3 * lease)))
		}
		c := w.clients[rnd.IntN(len(w.clients))]
		d := w.ds[rnd.IntN(len(w.ds))]
		x := rnd.IntN(100)
		if w.fault == longRecord {
			x = 99
		}
		switch {
		case x < 10:
			w.during(down, w.mds.kill, w.mds.up)
		case x < 16:
			w.killAt(mdsPoints[rnd.IntN(len(mdsPoints))], 1+rnd.IntN(6), down, w.mds.kill, w.mds.up)
		case x < 22:
			// Again and again: during grace, or while it still cleans up.
			w.during(down/4, w.mds.kill, w.mds.up)
			for again := down / 4; rnd.IntN(3) > 0; {
				again += time.Duration(rnd.Int64N(int64(grace)))
				w.during(again, func() {}, func() { w.during(time.Second/4, w.mds.kill, w.mds.up) })
			}
		case x < 34:
			w.during(down, d.kill, d.up)
		case x < 40:
			w.killAt(d.disk.name(dsPoints[rnd.IntN(len(dsPoints))]), 1+rnd.IntN(3), down, d.kill, d.up)
		case x < 55:
			w.during(down, c.crash, c.boot)
		case x < 72:
			w.apart(down, c.name, "mds")
		case x < 82:
			w.apart(down, c.name, d.name)
		case x < 85:
			w.recallAll([...]uint32{nfs4.LayoutReturnFSID, nfs4.LayoutReturnAll}[rnd.IntN(2)])
		case x < 92:
			w.apart(down, "mds", d.name)
		case x < 95:
			w.apart(down, c.name, "mds")
			w.apart(down, c.name, d.name)
		default:
			// The worst day: a client that misses the grace period can go on
			// with a data server that is not told either.
			// If there is another restart before it is back, it must not
			// reclaim what others were granted since.
			w.apart(down+2*grace, c.name, "mds")
			w.apart(down+3*grace, "mds", d.name)
			w.during(down, w.mds.kill, w.mds.up)
			again := down + grace + time.Duration(rnd.Int64N(int64(grace)))
			w.during(again, func() {}, func() { w.during(time.Second/4, w.mds.kill, w.mds.up) })
		}
	}
	w.sleep(time.Duration(rnd.Int64N(int64(3 * lease))))
}

// recallAll takes back every layout, as an administrator may.
func (w *world) recallAll(kind uint32) {
	p := w.mds.process()
	if p == nil {
		return
	}
	w.log("----", "all layouts are recalled")
	for _, name := range []string{"f0", "f1"} {
		w.judge.wantedName(name, nil)
	}
	var all []nfs4.ClientID
	for _, c := range p.engine.Clients() {
		all = append(all, c.ID)
	}
	w.spawn("admin", func() {
		ctx, cancel := context.WithTimeout(p.ctx, lease)
		defer cancel()
		_, _ = p.ops.RecallAll(ctx, all, kind) // what is left goes on by itself
	})
}

// mdsPoints and dsPoints are where a server may be killed.
var (
	mdsPoints = []string{"commit", "commit done", "order", "order answered", "callback", "callback answered"}
	dsPoints  = []string{"sync", "sync done", "order done"}
)

// trap is a server's death to come.
type trap struct {
	point string
	left  int
	kill  func()
}

// killAt kills a server when it comes to a point for the n-th time from now on.
func (w *world) killAt(point string, n int, down time.Duration, kill, up func()) {
	w.trapMu.Lock()
	w.trap = &trap{point: point, left: n, kill: func() {
		w.log("----", "at %s:", point)
		w.judge.count("killed at " + point)
		w.during(down, kill, up)
	}}
	w.trapMu.Unlock()
}

// point is a moment at which a server may die. No lock is held.
func (w *world) point(name string) {
	w.trapMu.Lock()
	t := w.trap
	if t == nil || t.point != name {
		w.trapMu.Unlock()
		return
	}
	if t.left--; t.left > 0 {
		w.trapMu.Unlock()
		return
	}
	w.trap = nil
	w.trapMu.Unlock()
	t.kill()
}

// during does something, and undoes it after a while.
func (w *world) during(d time.Duration, do, undo func()) {
	do()
	w.spawn("chaos", func() {
		if w.sleep(d) {
			undo()
		}
	})
}

func (w *world) apart(d time.Duration, a, b string) {
	w.log("----", "%s and %s are apart for %v", a, b, d)
	w.during(d, func() { w.wire.split(a, b, true) }, func() { w.wire.split(a, b, false) })
}

// finish has all clients leave and looks at what is left.
func (w *world) finish() {
	if !w.sleep(5 * time.Second) {
		return
	}
	for _, c := range w.clients {
		c.boot()
	}
	// An auditor reads everything, while the others may still be at work.
	auditor := newClient(w, "au")
	w.clients = append(w.clients, auditor)
	if !w.sleep(20 * time.Second) {
		return
	}
	for _, c := range w.clients {
		c.leave()
	}
	for end := time.Now().Add(2 * time.Minute); !w.over(); {
		why := w.leftovers()
		if why == "" {
			break
		}
		if time.Now().After(end) {
			w.fail("everybody is gone, and there is still %s", why)
		}
		w.sleep(time.Second)
	}
	w.sleep(3 * lease) // what time alone takes away
}

// leftovers says what there is that nobody needs.
func (w *world) leftovers() string {
	p := w.mds.process()
	if p == nil {
		return "no metadata server"
	}
	if s := p.state(); s != "" {
		return "state: " + s
	}
	logs, err := p.outbox.Backlogs(context.Background())
	if err != nil {
		w.fail("outbox: %v", err)
	}
	for _, b := range logs {
		if b.Depth > 0 {
			return "a backlog in the outbox"
		}
	}
	inodes := map[layout.Object]*ns.Inode{}
	err = p.store.View(context.Background(), func(tx store.Tx) error {
		return p.volume.ScanInodes(tx, 0, func(in *ns.Inode) (bool, error) {
			inodes[p.volume.Object(in)] = in
			return true, nil
		})
	})
	if err != nil {
		w.fail("inodes: %v", err)
	}
	for _, in := range inodes {
		if in.Nlink == 0 {
			return fmt.Sprintf("an inode without a name, %d", in.ID)
		}
	}
	for _, d := range w.ds {
		for _, obj := range d.disk.holds() {
			in := inodes[obj]
			switch {
			case in == nil:
				return "an object without an inode"
			case !slices.Contains(in.Layout.DS, d.id):
				return "an object on a data server that the inode does not name"
			}
		}
	}
	return ""
}
