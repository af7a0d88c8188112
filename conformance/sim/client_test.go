package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"manifold/layout"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// simClient is a client's machine.
type simClient struct {
	w    *world
	name string
	rnd  *rand.Rand

	mu    sync.Mutex
	boots uint64
	now   *life // nil: down
}

// life is a client from a boot to the next crash. One goroutine does its work;
// callbacks come in beside it.
type life struct {
	w    *world
	c    *simClient
	name string
	rnd  *rand.Rand // the worker's
	verf nfs4.Verifier

	ctx    context.Context // ends in the crash
	cancel context.CancelFunc
	work   sync.WaitGroup
	ended  chan struct{} // closed when the worker has ended

	mds     *peer
	ds      map[layout.DSID]*peer
	devices map[nfs4.DeviceID][]layout.DSID
	shared  nfs4.FH // the directory that all share
	owners  int
	own     *homeDir

	deaf    bool          // it answers no recall as it should
	askedAt time.Duration // when its last request was sent first
	leaving bool          // to leave when it can, guarded by mu like what follows but the lease
	opening bool          // an OPEN is under way
	suspect bool          // something was revoked
	bulk    uint32        // how all layouts were asked for, 0: they were not
	leaseMu sync.Mutex
	lease   time.Time // until when, at least
	leftAt  time.Time // when it last closed a file and forgot the layout

	mu         sync.Mutex
	delegs     map[*truth]*delegation
	delegOrder []*truth // of delegs
	files      []*openFile
	asking     *openFile // a LAYOUTGET is under way
	cbRnd      *rand.Rand
	answered   map[cbSlot]*cbAnswer
}

func newClient(w *world, name string) *simClient {
	c := &simClient{w: w, name: name, rnd: w.dice("client", name)}
	c.boot()
	return c
}

// boot starts the client if it is down.
func (c *simClient) boot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil || c.w.over() {
		return
	}
	c.boots++
	l := &life{
		w: c.w, c: c, name: c.name, rnd: c.w.dice("life", c.name, c.boots), cbRnd: c.w.dice("callbacks", c.name, c.boots),
		verf: nfs4.Verifier{byte(c.boots)}, ended: make(chan struct{}),
		ds: map[layout.DSID]*peer{}, devices: map[nfs4.DeviceID][]layout.DSID{}, answered: map[cbSlot]*cbAnswer{}, delegs: map[*truth]*delegation{},
	}
	l.deaf = l.rnd.IntN(10) == 0
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.mds = &peer{l: l, server: "mds", back: true, role: nfs4.ExchgidFlagUsePNFSMDS, dial: func() *end { return c.w.dialMDS(c.name) }}
	c.now = l
	l.log("boots, time %d", c.boots)
	c.w.spawn(c.name, func() {
		defer close(l.ended)
		l.live()
	})
}

// crash ends the client's life at once; what it sent is on its way.
func (c *simClient) crash() {
	c.mu.Lock()
	l := c.now
	c.now = nil
	c.mu.Unlock()
	if l == nil {
		return
	}
	l.log("crashes")
	l.w.judge.died(l)
	l.cancel()
	c.w.wire.down(c.name)
	<-l.ended
	l.work.Wait()
}

// halt ends the machine for good.
func (c *simClient) halt() { c.crash() }

// leave has the client give everything back, and waits until it has.
func (c *simClient) leave() {
	c.mu.Lock()
	l := c.now
	c.mu.Unlock()
	if l == nil {
		return
	}
	l.mu.Lock()
	l.leaving = true
	l.mu.Unlock()
	<-l.ended
}

func (l *life) log(format string, args ...any) { l.w.log(l.name, format, args...) }

func (l *life) dead() bool { return l.ctx.Err() != nil || l.w.over() }

func (l *life) isLeaving() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaving
}

// pause waits for a random while, in milliseconds.
func (l *life) pause(least, most int) error {
	t := time.NewTimer(time.Duration(least*1000+l.rnd.IntN((most-least)*1000)) * time.Microsecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-l.ctx.Done():
	case <-l.w.stop:
	}
	return errOver
}

// renewed: a SEQUENCE that was first sent at sent was answered.
func (l *life) renewed(sent time.Time) {
	l.leaseMu.Lock()
	defer l.leaseMu.Unlock()
	if until := sent.Add(lease); until.After(l.lease) {
		l.lease = until
	}
}

// leaseEnd is until when the client has its lease, at least.
func (l *life) leaseEnd() time.Time {
	l.leaseMu.Lock()
	defer l.leaseMu.Unlock()
	return l.lease
}

// leaves: it forgets a layout that it did not return.
func (l *life) leaves() {
	l.leaseMu.Lock()
	defer l.leaseMu.Unlock()
	l.leftAt = time.Now()
}

func (l *life) left() time.Time {
	l.leaseMu.Lock()
	defer l.leaseMu.Unlock()
	return l.leftAt
}

func (l *life) setOpening(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opening = on
}

// live is the worker.
func (l *life) live() {
	err := l.recover()
	for err == nil && !l.isLeaving() {
		if err = l.step(); errors.Is(err, errSession) {
			err = l.recover()
		}
		if err == nil {
			err = l.pause(5, 200)
		}
	}
	for err == nil {
		if err = l.closeAll(); errors.Is(err, errSession) {
			err = l.recover()
			continue
		}
		if err == nil {
			l.log("leaves")
			err = l.mds.leave()
			break
		}
	}
	if err != nil && !errors.Is(err, errOver) {
		l.w.fail("%s ends with %v", l.name, err)
	}
	if err == nil {
		l.w.judge.died(l)
		l.cancel()
		l.w.wire.down(l.name)
		l.work.Wait()
	}
}

// step does one thing.
func (l *life) step() error {
	if err := l.serveRecalls(); err != nil {
		return err
	}
	if err := l.testDelegs(); err != nil {
		return err
	}
	switch x := l.rnd.IntN(106); {
	case x >= 101:
		return l.peek()
	case x == 100:
		return l.returnAll([...]uint32{nfs4.LayoutReturnFSID, nfs4.LayoutReturnAll}[l.rnd.IntN(2)])
	case x < 3:
		return l.idle()
	case x < 20:
		return l.own.step(l)
	case x < 21:
		return l.removeShared()
	case x < 30 || l.someFile() == nil:
		return l.openShared()
	}
	return l.someFile().step(l.rnd.IntN(100))
}

// step does one thing with a file; without a lock that is mostly to wait.
func (f *openFile) step(x int) error {
	switch {
	case f.lock == nil && x < 35:
		return f.takeLock()
	case f.lock == nil && x < 55:
		return f.stat()
	case f.lock == nil && x < 60:
		return f.close()
	case f.lock == nil && x < 63:
		return f.chmod()
	case f.lock == nil && x < 66:
		if d := f.l.delegOf(f.truth); d != nil {
			return f.l.giveBack(d)
		}
		return nil
	case f.lock == nil:
		return nil
	case x < 25:
		return f.write()
	case x < 40:
		return f.read()
	case x < 60:
		return f.truncate()
	case x < 64:
		return f.burst()
	case x < 72:
		return f.stat()
	case x < 95:
		return f.unlock()
	case x < 97:
		return f.returnLayout()
	}
	return f.close()
}

func (l *life) someFile() *openFile {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.files) == 0 {
		return nil
	}
	return l.files[l.rnd.IntN(len(l.files))]
}

// idle sleeps, for longer than a lease perhaps.
func (l *life) idle() error {
	if l.rnd.IntN(4) == 0 {
		l.log("sleeps")
		return l.pause(1000, 15000)
	}
	return l.pause(100, 2000)
}

// ask runs ops at the metadata server, again while it says that it will do
// them later, for a while. Recalls are served meanwhile, if that may be.
func (l *life) ask(what string, ops ...client.Op) (nfs4.Status, error) {
	return l.askAll(len(ops), what, ops...)
}

// askAll is ask for ops of which the first some count: what becomes of the others
// is no failure.
func (l *life) askAll(count int, what string, ops ...client.Op) (s nfs4.Status, err error) {
	for try := 0; ; try++ {
		l.askedAt = l.w.now()
		var n int
		if n, s, err = l.mds.call(ops...); err == nil && n > count {
			s = nfs4.OK
		}
		switch s {
		case nfs4.ErrDelay, nfs4.ErrGrace, nfs4.ErrLayoutTryLater, nfs4.ErrRecallConflict, nfs4.ErrReturnConflict:
		default:
			try = 1000
		}
		if err != nil || try >= 8 {
			break
		}
		if err = l.pause(50, 500); err != nil {
			break
		}
	}
	l.log("%s: %v %v", what, s, errText(err))
	return s, err
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// unexpected is a status that the client had no reason to get.
func (l *life) unexpected(what string, s nfs4.Status) error {
	l.w.fail("%s: %s: %v", l.name, what, s)
	return errOver
}

// recover makes a session, and reclaims if the client id is another one: the
// server started anew, or the lease ran out.
func (l *life) recover() error {
	for {
		had := l.leaseEnd()
		changed, err := l.mds.establish()
		if err != nil {
			return err
		}
		if changed {
			l.w.judge.late(l, had, false)
			l.w.judge.freeze(l, had)
			err = l.reclaim()
		}
		if err == nil && l.shared == nil {
			err = l.mount()
		}
		if err == nil || !errors.Is(err, errSession) {
			return err
		}
	}
}

func (l *life) reclaim() error {
	for _, f := range l.openFiles() {
		f.dropLayout()
		l.mu.Lock()
		f.grown = 0 // a server that starts anew looks for itself
		l.mu.Unlock()
		if err := f.reclaim(); err != nil {
			return err
		}
	}
	if err := l.reclaimDelegs(); err != nil {
		return err
	}
	s, err := l.ask("RECLAIM_COMPLETE", client.Op{Num: nfs4.OpReclaimComplete, Args: &nfs4.ReclaimCompleteArgs{}})
	for err == nil && s == nfs4.ErrDelay {
		s, err = l.ask("RECLAIM_COMPLETE", client.Op{Num: nfs4.OpReclaimComplete, Args: &nfs4.ReclaimCompleteArgs{}})
	}
	if err == nil && s != nfs4.OK && s != nfs4.ErrCompleteAlready {
		return l.unexpected("RECLAIM_COMPLETE", s)
	}
	return err
}

func (l *life) openFiles() []*openFile {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*openFile(nil), l.files...)
}

// mount finds the directory that all share, and the client's own.
func (l *life) mount() error {
	var fh nfs4.GetFHRes
	for l.shared == nil {
		s, err := l.ask("LOOKUP shared", putRoot(), lookup("shared"), getFH(&fh))
		if err != nil {
			return err
		}
		if s == nfs4.OK {
			l.shared = fh.Object
		} else if err := l.pause(100, 500); err != nil {
			return err
		}
	}
	l.own = newHomeDir(fmt.Sprintf("%s-%d", l.name, l.c.boots))
	return nil
}

// returnAll returns every layout at once, in one of the two ways (RFC 8881
// section 18.44).
func (l *life) returnAll(kind uint32) error {
	for _, f := range l.openFiles() {
		if _, err := f.flush(); err != nil {
			return err
		}
		if err := f.tellSize(); err != nil {
			return err
		}
		f.dropLayout()
	}
	s, err := l.ask("LAYOUTRETURN of all", putFH(l.shared), client.Op{Num: nfs4.OpLayoutReturn, Args: &nfs4.LayoutReturnArgs{
		LayoutType: nfs4.LayoutFiles, IOMode: nfs4.IOModeAny, Return: nfs4.LayoutReturn{Kind: kind},
	}, Res: &nfs4.LayoutReturnRes{}})
	if err == nil && s != nfs4.OK && s != nfs4.ErrDelay && s != nfs4.ErrGrace {
		return l.unexpected("LAYOUTRETURN of all", s)
	}
	l.w.judge.count("LAYOUTRETURN of all")
	return err
}

// closeAll gives back what the client holds.
func (l *life) closeAll() error {
	for _, f := range l.openFiles() {
		for f.isOpen() {
			if err := f.close(); err != nil {
				return err
			}
		}
	}
	for _, d := range l.allDelegs() {
		for l.delegOf(d.truth) == d {
			if err := l.giveBack(d); err != nil {
				return err
			}
		}
	}
	// Layouts that it has forgotten, and was not asked for yet.
	s, err := l.ask("LAYOUTRETURN of all", client.Op{Num: nfs4.OpLayoutReturn, Args: &nfs4.LayoutReturnArgs{
		LayoutType: nfs4.LayoutFiles, IOMode: nfs4.IOModeAny, Return: nfs4.LayoutReturn{Kind: nfs4.LayoutReturnAll},
	}, Res: &nfs4.LayoutReturnRes{}})
	if err != nil {
		return err
	}
	if s != nfs4.OK {
		return l.unexpected("LAYOUTRETURN of all", s)
	}
	for _, id := range slices.Sorted(maps.Keys(l.ds)) {
		p := l.ds[id]
		if p.open {
			if err := p.leave(); err != nil {
				return err
			}
		}
	}
	return nil
}

// The operations.

func putFH(fh nfs4.FH) client.Op {
	return client.Op{Num: nfs4.OpPutFH, Args: &nfs4.PutFHArgs{Object: fh}}
}

func putRoot() client.Op { return client.Op{Num: nfs4.OpPutRootFH} }

func getFH(r *nfs4.GetFHRes) client.Op { return client.Op{Num: nfs4.OpGetFH, Res: r} }

func lookup(name string) client.Op {
	return client.Op{Num: nfs4.OpLookup, Args: &nfs4.LookupArgs{ObjName: []byte(name)}}
}

func getattr(r *nfs4.GetattrRes, attrs ...nfs4.Attr) client.Op {
	return client.Op{Num: nfs4.OpGetattr, Args: &nfs4.GetattrArgs{AttrRequest: nfs4.BitmapOf(attrs...)}, Res: r}
}

func makeDir(name string, r *nfs4.CreateRes) client.Op {
	a := &nfs4.CreateArgs{ObjType: nfs4.CreateType{Type: nfs4.TypeDir}, ObjName: []byte(name), CreateAttrs: mode(0o777)}
	return client.Op{Num: nfs4.OpCreate, Args: a, Res: r}
}

func remove(name string, r *nfs4.RemoveRes) client.Op {
	return client.Op{Num: nfs4.OpRemove, Args: &nfs4.RemoveArgs{Target: []byte(name)}, Res: r}
}

func mode(m uint32) nfs4.Attrs { return nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: m} }
