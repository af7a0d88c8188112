package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"manifold/layout"
	"manifold/layout/files"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// plan is a layout that a client has.
type plan struct {
	id   nfs4.Stateid
	mode nfs4.IOMode
	body layout.Layout
	ds   []layout.DSID
	hold *hold
}

// dirtyCell is a cell that was written and not committed.
type dirtyCell struct {
	*write
	sent bool // its data server has it, under verf
	verf nfs4.Verifier
}

// needLayout gets a layout that serves for mode; nil if there is none to be had.
func (f *openFile) needLayout(mode nfs4.IOMode) (*plan, error) {
	l := f.l
	l.mu.Lock()
	have := f.layout
	if have != nil && !f.recalled && (have.mode == nfs4.IOModeRW || mode == nfs4.IOModeRead) {
		f.using = true
		l.mu.Unlock()
		return have, nil
	}
	l.asking = f
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.asking = nil
		l.mu.Unlock()
	}()
	a := &nfs4.LayoutGetArgs{
		LayoutType: nfs4.LayoutFiles, IOMode: mode, Length: nfs4.LengthToEnd, MinLength: unit, Stateid: f.stateid(), MaxCount: 4096,
	}
	if have != nil {
		a.Stateid = have.id
	}
	var r nfs4.LayoutGetRes
	_, s, err := l.mds.call(putFH(f.fh), client.Op{Num: nfs4.OpLayoutGet, Args: a, Res: &r})
	l.log("LAYOUTGET %s mode %d with %v: %v %v", f.name, mode, a.Stateid, s, errText(err))
	if err == nil {
		// What a revoked delegation stood for must not be written under an open
		// that still stands.
		held := f.lock
		if held != nil && held.under != nil {
			l.doubt() // the reply may have been begun before that
		}
		if err = l.testDelegs(); err == nil && f.lock != held {
			return nil, nil
		}
	}
	switch {
	case err != nil:
		return nil, err
	case s == nfs4.OK:
	case have != nil && stateLost(s):
		f.dropLayout() // revoked; the open will do next time
		return nil, nil
	case stateLost(s):
		_, err := f.settled("LAYOUTGET", s, nil)
		return nil, err
	case slices.Contains([]nfs4.Status{
		nfs4.ErrDelay, nfs4.ErrGrace, nfs4.ErrLayoutTryLater, nfs4.ErrRecallConflict, nfs4.ErrReturnConflict, nfs4.ErrLayoutUnavailable,
	}, s):
		return nil, nil
	default:
		return nil, l.unexpected("LAYOUTGET", s)
	}
	return f.gotLayout(&r)
}

// gotLayout finds out where the layout's data servers are.
func (f *openFile) gotLayout(r *nfs4.LayoutGetRes) (*plan, error) {
	p := &plan{id: r.Stateid, mode: r.Layouts[0].IOMode}
	var err error
	if p.body, err = files.DecodeLayout(r.Layouts[0].Body); err != nil {
		f.l.w.fail("layout: %v", err)
		return nil, errOver
	}
	p.hold = &hold{life: f.l, file: f.truth, layout: true, access: nfs4.ShareAccessRead, other: p.id.Other}
	if p.mode == nfs4.IOModeRW {
		p.hold.access = nfs4.ShareAccessBoth
	}
	f.dropLayout()
	f.l.w.judge.acquire(p.hold)
	f.l.mu.Lock()
	f.layout, f.recalled = p, false
	f.l.mu.Unlock()
	if p.ds, err = f.l.device(p.body.Device); err != nil || p.ds == nil {
		f.dropLayout()
		return nil, err
	}
	f.l.w.judge.count("LAYOUTGET")
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	if f.layout != p {
		return nil, nil // recalled meanwhile
	}
	f.using = true
	return p, nil
}

// device returns the data servers of a device, nil if there is no such device
// any more.
func (l *life) device(id nfs4.DeviceID) ([]layout.DSID, error) {
	if ds := l.devices[id]; ds != nil {
		return ds, nil
	}
	var r nfs4.GetDeviceInfoRes
	_, s, err := l.mds.call(client.Op{Num: nfs4.OpGetDeviceInfo, Args: &nfs4.GetDeviceInfoArgs{
		DeviceID: id, LayoutType: nfs4.LayoutFiles, MaxCount: 1 << 14,
	}, Res: &r})
	if err != nil || s != nfs4.OK {
		return nil, err
	}
	dev, err := files.DecodeDevice(r.DeviceAddr.AddrBody)
	if err != nil {
		l.w.fail("device: %v", err)
		return nil, errOver
	}
	var ds []layout.DSID
	for _, paths := range dev.Paths {
		ds = append(ds, layout.DSID(paths[0].Addr().As4()[3]))
	}
	l.devices[id] = ds
	return ds, nil
}

// unused ends the worker's I/O with the layout.
func (f *openFile) unused() {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	f.using = false
}

func (f *openFile) dropLayout() {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	if f.layout != nil {
		f.l.w.judge.release(f.layout.hold)
	}
	f.layout, f.recalled, f.using = nil, false, false
}

// returnLayout gives the layout back, after what was written with it is
// committed.
func (f *openFile) returnLayout() error {
	f.l.mu.Lock()
	p := f.layout
	f.l.mu.Unlock()
	if p == nil {
		return nil
	}
	if _, err := f.flush(); err != nil {
		return err
	}
	if err := f.tellSize(); err != nil {
		return err
	}
	f.l.mu.Lock()
	p, f.layout, f.recalled = f.layout, nil, false
	f.l.mu.Unlock()
	if p == nil {
		return nil
	}
	f.l.w.judge.release(p.hold)
	s, err := f.l.ask("LAYOUTRETURN "+f.name, putFH(f.fh), client.Op{Num: nfs4.OpLayoutReturn, Args: &nfs4.LayoutReturnArgs{
		LayoutType: nfs4.LayoutFiles, IOMode: nfs4.IOModeAny,
		Return: nfs4.LayoutReturn{Kind: nfs4.LayoutReturnFile, File: nfs4.LayoutReturnRange{Length: nfs4.LengthToEnd, Stateid: p.id}},
	}, Res: &nfs4.LayoutReturnRes{}})
	if err == nil && s != nfs4.OK && s != nfs4.ErrDelay && !stateLost(s) {
		return f.l.unexpected("LAYOUTRETURN", s)
	}
	return err
}

// dataServer returns the client's session with a data server, made if need be.
func (l *life) dataServer(id layout.DSID) (*peer, error) {
	p := l.ds[id]
	if p == nil {
		p = &peer{l: l, server: fmt.Sprintf("ds%d", id), role: nfs4.ExchgidFlagUsePNFSDS, dial: func() *end { return l.w.dialDS(l.name, id) }}
		l.ds[id] = p
	}
	if p.open {
		return p, nil
	}
	_, err := p.establish()
	return p, err
}

// io runs op on a cell at its data server. done is false if the layout is not
// good for it; then the layout is dropped.
func (f *openFile) io(p *plan, ds layout.DSID, fh nfs4.FH, op client.Op) (done bool, err error) {
	h := f.lock
	for {
		srv, err := f.l.dataServer(ds)
		if err != nil {
			return false, err
		}
		g := f.l.w.judge.before(f.truth, 0, h)
		n, s, err := srv.call(putFH(fh), op)
		if errors.Is(err, errSession) && f.l.mds.open {
			continue // the data server's: ask again
		}
		f.l.log("%v at ds%d of %s: %v %v", op.Num, ds, f.name, s, errText(err))
		switch {
		case err != nil:
			return false, err
		case s == nfs4.ErrDelay:
			// Its connection broke long ago, and with it what it waited for.
			if err := f.l.pause(50, 500); err != nil {
				return false, err
			}
		case s == nfs4.OK:
			// What was read under a delegation is of no use once that is lost, but
			// only layouts to write are fenced along with it.
			if g.inPlace != nil && (op.Num != nfs4.OpRead || h.under == nil) {
				f.l.w.fail("not fenced: %v at ds%d under %v was sent after %v was granted", op.Num, ds, h, g.inPlace)
			}
			return true, nil
		case s == nfs4.ErrPNFSNoLayout, s == nfs4.ErrStale, s == nfs4.ErrServerFault && n > 1 && op.Num == nfs4.OpRead:
			f.dropLayout()
			return false, nil
		default:
			return false, f.l.unexpected(fmt.Sprint(op.Num), s)
		}
	}
}

func (p *plan) at(cell int) (ds layout.DSID, fh nfs4.FH) {
	i := p.body.Stripe.Index(uint64(cell) * unit)
	return p.ds[i], p.body.FHs[i]
}

// someCells returns cells that the lock covers.
func (f *openFile) someCells() []int {
	var in []int
	for cell := range cells {
		if off := uint64(cell) * unit; off >= f.lock.from && off < f.lock.to {
			in = append(in, cell)
		}
	}
	f.l.rnd.Shuffle(len(in), func(i, k int) { in[i], in[k] = in[k], in[i] })
	return in[:min(len(in), 1+f.l.rnd.IntN(3))]
}

// write writes some cells, and commits them, mostly.
func (f *openFile) write() error {
	if f.lock == nil || !f.lock.exclusive {
		return nil
	}
	for _, cell := range f.someCells() {
		f.dirty[cell] = &dirtyCell{write: f.l.w.judge.begin(f.lock, cell)}
		f.grew(cell)
	}
	if f.writer() != nil && f.l.rnd.IntN(2) == 0 {
		f.l.w.judge.count("write that is cached")
		return nil
	}
	if sent, err := f.sendDirty(); !sent {
		return err
	}
	if f.l.rnd.IntN(3) == 0 {
		return nil
	}
	_, err := f.flush()
	return err
}

// burst writes for a while without a word to the metadata server, for longer
// than the lease perhaps.
func (f *openFile) burst() error {
	h := f.lock
	for range 3 + f.l.rnd.IntN(8) {
		if h == nil || f.lock != h || !h.exclusive {
			return nil
		}
		for _, cell := range f.someCells() {
			f.dirty[cell] = &dirtyCell{write: f.l.w.judge.begin(h, cell)}
			f.grew(cell)
		}
		if sent, err := f.sendDirty(); !sent {
			return err
		}
		if err := f.l.pause(100, 1500); err != nil {
			return err
		}
	}
	return nil
}

// sendDirty sends what its data server does not have; false: not all of it.
func (f *openFile) sendDirty() (bool, error) {
	for _, cell := range slices.Sorted(maps.Keys(f.dirty)) {
		d := f.dirty[cell]
		if d.sent {
			continue
		}
		p, err := f.needLayout(nfs4.IOModeRW)
		if p == nil {
			return false, err
		}
		how := nfs4.Unstable
		if f.l.rnd.IntN(4) == 0 {
			how = nfs4.FileSync
		}
		ds, fh := p.at(cell)
		f.l.log("writes %d to cell %d of %s", d.tag, cell, f.name)
		var r nfs4.WriteRes
		g := f.l.w.judge.before(f.truth, cell, f.lock)
		done, err := f.io(p, ds, fh, client.Op{Num: nfs4.OpWrite, Args: &nfs4.WriteArgs{
			Stateid: f.stateid(), Offset: uint64(cell) * unit, Stable: how, Data: content(d.tag),
		}, Res: &r})
		f.unused()
		if !done {
			return false, err
		}
		switch {
		case r.Count != unit || r.Committed == nfs4.FileSync || how != nfs4.Unstable && r.Committed != nfs4.DataSync:
			f.l.w.fail("WRITE %v wrote %d bytes, %v", how, r.Count, r.Committed)
		case r.Committed == nfs4.DataSync:
			f.l.w.judge.stable(d.write)
		default:
			f.l.w.judge.written(d.write, g)
		}
		d.sent, d.verf = true, r.WriteVerf
		f.l.mu.Lock()
		f.grown = max(f.grown, uint64(cell+1)*unit)
		f.l.mu.Unlock()
		f.l.w.judge.count("WRITE")
	}
	return true, nil
}

// flush makes everything that was written stable, and tells the metadata
// server; false: not all of it, or the file is lost.
func (f *openFile) flush() (bool, error) {
	for tries := 0; len(f.dirty) > 0 && tries < 6; tries++ {
		if tries > 0 {
			if err := f.l.pause(50, 500); err != nil {
				return false, err
			}
		}
		if sent, err := f.sendDirty(); err != nil {
			return false, err
		} else if !sent {
			continue
		}
		if done, err := f.commit(); err != nil {
			return false, err
		} else if !done {
			continue
		}
		if done, err := f.layoutCommit(); done || err != nil {
			return done, err
		}
	}
	return len(f.dirty) == 0 && f.isOpen(), nil
}

// writeOn writes one cell of some file that the client may write to, as far as
// it knows, while it waits for the metadata server.
func (l *life) writeOn() error {
	f := l.someFile()
	if f == nil || f.lock == nil || !f.lock.exclusive || f.cutting || l.rnd.IntN(3) == 0 {
		return nil
	}
	l.mu.Lock()
	p := f.layout
	l.mu.Unlock()
	cell := f.someCells()[0]
	if p == nil || p.ds == nil || p.mode != nfs4.IOModeRW || f.dirty[cell] != nil {
		return nil
	}
	ds, fh := p.at(cell)
	srv := l.ds[ds]
	if srv == nil || !srv.open || srv.busy {
		return nil
	}
	h, wr, g := f.lock, l.w.judge.begin(f.lock, cell), l.w.judge.before(f.truth, cell, f.lock)
	f.grew(cell)
	l.log("writes %d to cell %d of %s meanwhile", wr.tag, cell, f.name)
	_, s, err := srv.call(putFH(fh), client.Op{Num: nfs4.OpWrite, Args: &nfs4.WriteArgs{
		Stateid: f.stateid(), Offset: uint64(cell) * unit, Data: content(wr.tag),
	}, Res: &nfs4.WriteRes{}})
	l.log("WRITE at ds%d of %s: %v %v", ds, f.name, s, errText(err))
	switch {
	case errors.Is(err, errOver):
		return err
	case err != nil || s != nfs4.OK:
		return nil
	case g.inPlace != nil:
		l.w.fail("not fenced: WRITE at ds%d under %v was sent after %v was granted", ds, h, g.inPlace)
	}
	l.w.judge.count("WRITE meanwhile")
	l.w.judge.written(wr, g)
	l.mu.Lock()
	f.grown = max(f.grown, uint64(cell+1)*unit)
	l.mu.Unlock()
	return nil
}

// content is the bytes of a cell that holds a tag.
func content(tag uint64) []byte {
	data := make([]byte, unit)
	for i := 0; i < unit; i += 8 {
		binary.BigEndian.PutUint64(data[i:], tag)
	}
	return data
}

// commit has each data server sync. What one has forgotten is to be sent again.
func (f *openFile) commit() (bool, error) {
	all := true
	p, err := f.needLayout(nfs4.IOModeRW)
	if p == nil {
		return false, err
	}
	defer f.unused()
	for i, ds := range p.ds {
		var mine []*dirtyCell
		for _, cell := range slices.Sorted(maps.Keys(f.dirty)) {
			if at, _ := p.at(cell); at == ds {
				mine = append(mine, f.dirty[cell])
			}
		}
		if len(mine) == 0 {
			continue
		}
		var r nfs4.CommitRes
		done, err := f.io(p, ds, p.body.FHs[i], client.Op{Num: nfs4.OpCommit, Args: &nfs4.CommitArgs{}, Res: &r})
		if !done {
			return false, err
		}
		for _, d := range mine {
			if d.verf != r.WriteVerf {
				d.sent, all = false, false
				f.l.log("has to write %d again", d.tag)
				continue
			}
			f.l.w.judge.stable(d.write)
			f.l.w.judge.count("COMMIT")
		}
	}
	return all, nil
}

// tellSize sees that the metadata server knows how far was written, before the
// layout goes: what was not made stable counts, too.
func (f *openFile) tellSize() error {
	for range 20 {
		f.l.mu.Lock()
		grown := f.grown
		f.l.mu.Unlock()
		if grown == 0 || !f.isOpen() {
			return nil
		}
		p, err := f.needLayout(nfs4.IOModeRW)
		if err != nil {
			return err
		}
		if p != nil {
			f.unused()
			f.dirty = map[int]*dirtyCell{} // given up
			if _, err := f.layoutCommit(); err != nil {
				return err
			}
		} else if err := f.l.pause(50, 500); err != nil {
			return err
		}
	}
	return nil
}

// layoutCommit tells the metadata server how far was written.
func (f *openFile) layoutCommit() (bool, error) {
	f.l.mu.Lock()
	p, end := f.layout, f.grown
	f.l.mu.Unlock()
	if p == nil {
		return false, nil
	}
	h, stable := f.lock, uint64(0)
	for cell := range f.dirty {
		stable = max(stable, uint64(cell+1)*unit)
	}
	end = max(end, stable)
	s, err := f.l.ask(fmt.Sprintf("LAYOUTCOMMIT %s to %d", f.name, end), putFH(f.fh), client.Op{Num: nfs4.OpLayoutCommit, Args: &nfs4.LayoutCommitArgs{
		Length: end, Stateid: p.id, LastWriteOffset: nfs4.NewOffset{Present: true, Offset: end - 1}, LayoutUpdate: nfs4.LayoutUpdate{Type: nfs4.LayoutFiles},
	}, Res: &nfs4.LayoutCommitRes{}})
	switch {
	case err != nil:
		return false, err
	case s == nfs4.OK:
		f.l.w.judge.count("LAYOUTCOMMIT")
		if h != nil {
			f.l.w.judge.grew(h, stable) // what was lost need not count
		}
		f.dirty = map[int]*dirtyCell{}
		f.l.mu.Lock()
		f.grown = 0
		f.l.mu.Unlock()
		f.told()
		f.l.w.judge.told(f.truth, f.l.askedAt)
		return true, nil
	case stateLost(s): // revoked, and the server has looked for itself
		f.dropLayout()
		f.l.mu.Lock()
		f.grown = 0
		f.l.mu.Unlock()
		return false, nil
	case s == nfs4.ErrDelay, s == nfs4.ErrGrace:
		return false, nil
	}
	return false, f.l.unexpected("LAYOUTCOMMIT", s)
}

// read reads some cells that the lock covers.
func (f *openFile) read() error {
	if f.lock == nil {
		return nil
	}
	if ok, err := f.flush(); !ok && f.lock != nil && f.lock.exclusive {
		return err // its own bytes may be nowhere yet
	}
	if f.lock == nil || !f.isOpen() {
		return nil
	}
	for _, cell := range f.someCells() {
		p, err := f.needLayout(nfs4.IOModeRead)
		if p == nil {
			return err
		}
		if err := f.readCell(p, cell); err != nil {
			return err
		}
		if f.lock == nil {
			return nil
		}
	}
	return nil
}

func (f *openFile) readCell(p *plan, cell int) error {
	defer f.unused()
	h, g := f.lock, f.l.w.judge.before(f.truth, cell, f.lock)
	ds, fh := p.at(cell)
	var r nfs4.ReadRes
	done, err := f.io(p, ds, fh, client.Op{Num: nfs4.OpRead, Args: &nfs4.ReadArgs{
		Stateid: f.stateid(), Offset: uint64(cell) * unit, Count: unit,
	}, Res: &r})
	if !done {
		return err
	}
	f.l.w.judge.count("READ")
	switch {
	case len(r.Data) == 0 && r.EOF:
		f.l.w.judge.read(h, cell, 0, true, g)
	case len(r.Data) != unit:
		f.l.w.fail("READ of cell %d of %v: %d bytes, eof %t", cell, f.truth.obj, len(r.Data), r.EOF)
	default:
		tag := binary.BigEndian.Uint64(r.Data)
		for i := 0; i < unit; i += 8 {
			if binary.BigEndian.Uint64(r.Data[i:]) != tag {
				f.l.w.fail("READ of cell %d of %v: torn, % x", cell, f.truth.obj, r.Data)
			}
		}
		f.l.log("reads %d in cell %d of %s", tag, cell, f.name)
		f.l.w.judge.read(h, cell, tag, false, g)
	}
	return nil
}
