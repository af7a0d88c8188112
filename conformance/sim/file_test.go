package sim

import (
	"fmt"
	"math"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// openFile is a file that a client has open, with what it holds there: a lock,
// a layout, and data that it has not committed.
type openFile struct {
	l     *life
	fh    nfs4.FH
	truth *truth
	name  string
	base  string // by which it was opened
	owner []byte
	// local: opened under a delegation, and the server does not know.
	local  bool
	id     nfs4.Stateid
	access uint32
	share  *hold
	// closing: CLOSE was sent, and there may be no answer.
	closing bool
	// cutting: a truncation is under way.
	cutting bool

	lock   *hold // nil: none
	lockID nfs4.Stateid
	hasID  bool // lockID is one, with or without a lock

	dirty map[int]*dirtyCell

	// Guarded by l.mu, for callbacks come in:
	layout   *plan  // nil: none
	using    bool   // the worker does I/O with it
	recalled bool   // it was promised back
	grown    uint64 // how far was written that LAYOUTCOMMIT did not say yet
}

// openShared opens one of the files that all share.
func (l *life) openShared() error {
	if len(l.openFiles()) >= 3 {
		return nil
	}
	if l.rnd.IntN(2) == 0 && l.openByItself() {
		return nil
	}
	name := fmt.Sprintf("f%d", l.rnd.IntN(2))
	l.owners++
	f := &openFile{l: l, name: name, base: name, owner: fmt.Appendf(nil, "%s-%d", l.name, l.owners), dirty: map[int]*dirtyCell{}}
	f.access = nfs4.ShareAccessBoth
	if l.rnd.IntN(4) == 0 {
		f.access = nfs4.ShareAccessRead
	}
	deny := uint32(nfs4.ShareDenyNone)
	if l.rnd.IntN(8) == 0 {
		deny = 1 + uint32(l.rnd.IntN(3))
	}
	var fh nfs4.GetFHRes
	var r nfs4.OpenRes
	var attrs nfs4.GetattrRes
	l.setOpening(true)
	defer l.setOpening(false)
	l.w.judge.wantedName(name, l)
	s, err := l.askAll(3, fmt.Sprintf("OPEN %s access %d deny %d", name, f.access, deny), putFH(l.shared), client.Op{Num: nfs4.OpOpen, Args: &nfs4.OpenArgs{
		ShareAccess: f.access | l.wants(), ShareDeny: deny, Owner: nfs4.OpenOwner{Owner: f.owner},
		How:   nfs4.OpenHow{OpenType: nfs4.OpenCreate, CreateHow: nfs4.CreateHow{Mode: nfs4.CreateUnchecked, Attrs: mode(0o666)}},
		Claim: nfs4.OpenClaim{Type: nfs4.ClaimNull, Name: []byte(name)},
	}, Res: &r}, getFH(&fh), getattr(&attrs, nfs4.AttrChange, nfs4.AttrSize))
	l.w.judge.wantedName(name, l)
	if err != nil {
		return err
	}
	switch s {
	case nfs4.OK:
	case nfs4.ErrShareDenied, nfs4.ErrDelay, nfs4.ErrGrace:
		return nil
	case nfs4.ErrNoEnt, nfs4.ErrExpired: // it was removed meanwhile
		return nil
	default:
		return l.unexpected("OPEN", s)
	}
	f.fh, f.id, f.truth = fh.Object, r.Stateid, l.w.judge.file(fh.Object)
	f.name = fmt.Sprintf("%s:%d", name, f.truth.obj.Inode)
	l.w.judge.named(f.truth, name)
	twice := false
	for _, o := range l.openFiles() {
		twice = twice || o.truth == f.truth
	}
	l.w.judge.count("open")
	f.share = l.w.judge.acquire(&hold{life: l, file: f.truth, access: f.access, deny: deny})
	l.mu.Lock()
	l.files = append(l.files, f)
	l.mu.Unlock()
	l.given(f, name, &r.Delegation, &attrs.ObjAttributes)
	if twice {
		return f.close() // a layout belongs to client and file, not to one of two opens
	}
	return nil
}

func (f *openFile) isOpen() bool {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	for _, o := range f.l.files {
		if o == f {
			return true
		}
	}
	return false
}

// gone forgets the file.
func (f *openFile) gone() {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	for i, o := range f.l.files {
		if o == f {
			f.l.files = append(f.l.files[:i:i], f.l.files[i+1:]...)
			return
		}
	}
}

// lost forgets the file because the server has forgotten it.
func (f *openFile) lost(s nfs4.Status) {
	f.l.log("has lost %s: %v", f.name, s)
	f.l.w.judge.lost(f.share, s)
	f.lostLock(s)
	f.dropLayout()
	f.gone()
}

func (f *openFile) lostLock(s nfs4.Status) {
	if f.lock != nil {
		f.l.w.judge.lost(f.lock, s)
		f.lock = nil
	}
	f.dirty = map[int]*dirtyCell{}
}

// stateLost says whether a status means that the server does not know the
// stateid, or the file.
func stateLost(s nfs4.Status) bool {
	switch s {
	case nfs4.ErrBadStateID, nfs4.ErrExpired, nfs4.ErrAdminRevoked, nfs4.ErrOldStateID, nfs4.ErrStale, nfs4.ErrDelegRevoked:
		return true
	}
	return false
}

// settled turns the status of an operation under the file's state into what the
// step does about it: true if it was OK.
func (f *openFile) settled(what string, s nfs4.Status, err error, also ...nfs4.Status) (bool, error) {
	switch {
	case err != nil:
		return false, err
	case s == nfs4.OK:
		f.l.w.judge.count(what)
		if what == "LOCK" || what == "SETATTR" {
			f.l.w.judge.honoured(what, f.share, f.l.askedAt)
		}
		return true, nil
	case stateLost(s) && f.local:
		if d := f.l.delegOf(f.truth); d != nil {
			return false, f.l.lostDeleg(d, s)
		}
		f.lost(s)
		return false, nil
	case stateLost(s):
		f.lost(s)
		return false, nil
	case s == nfs4.ErrDelay, s == nfs4.ErrGrace:
		return false, nil
	}
	for _, a := range also {
		if s == a {
			return false, nil
		}
	}
	return false, f.l.unexpected(what+" "+f.name, s)
}

// newest is a stateid with seqid 0: whatever its newest is.
func newest(id nfs4.Stateid) nfs4.Stateid {
	id.Seqid = 0
	return id
}

// takeLock locks a cell, some, or all of the file.
func (f *openFile) takeLock() error {
	h := &hold{life: f.l, file: f.truth, lock: true, exclusive: f.access&nfs4.ShareAccessWrite != 0 && f.l.rnd.IntN(3) > 0}
	first := f.l.rnd.IntN(cells)
	h.from, h.to = uint64(first)*unit, uint64(first+1+f.l.rnd.IntN(cells-first))*unit
	if f.l.rnd.IntN(3) == 0 {
		h.from, h.to = 0, math.MaxUint64
	}
	if d := f.writer(); d != nil && !d.recalled && f.l.w.judge.stands(d.hold) && (f.local || f.l.rnd.IntN(3) > 0) {
		h.under = d.hold
		f.l.log("locks %s by itself, [%d,%d) exclusive %t", f.name, h.from, h.to, h.exclusive)
		f.l.w.judge.count("lock by itself")
		f.lock = f.l.w.judge.acquire(h)
		return nil
	}
	if f.local {
		return nil // it would have to claim its open first
	}
	f.l.w.judge.wanted(f.truth, f.l)
	defer f.l.w.judge.wanted(f.truth, f.l)
	a, r := f.lockArgs(h, false), nfs4.LockRes{}
	s, err := f.l.ask(fmt.Sprintf("LOCK %s [%d,%d) exclusive %t", f.name, h.from, h.to, h.exclusive),
		putFH(f.fh), client.Op{Num: nfs4.OpLock, Args: a, Res: &r})
	ok, err := f.settled("LOCK", s, err, nfs4.ErrDenied)
	if !ok {
		return err
	}
	f.lockID, f.hasID = r.LockStateid, true
	f.lock = f.l.w.judge.acquire(h)
	return nil
}

func (f *openFile) lockArgs(h *hold, reclaim bool) *nfs4.LockArgs {
	a := &nfs4.LockArgs{LockType: nfs4.LockRead, Reclaim: reclaim, Offset: h.from, Length: h.to - h.from}
	if h.to == math.MaxUint64 {
		a.Length = nfs4.LengthToEnd
	}
	if h.exclusive {
		a.LockType = nfs4.LockWrite
	}
	if f.hasID && !reclaim {
		a.Locker = nfs4.Locker{LockStateid: newest(f.lockID)}
	} else {
		a.Locker = nfs4.Locker{NewLockOwner: true, OpenStateid: newest(f.id), Owner: nfs4.LockOwner{Owner: f.owner}}
	}
	return a
}

// unlock gives the lock back, mostly after what was written under it is stable.
func (f *openFile) unlock() error {
	if f.lock == nil {
		return nil
	}
	if f.lock.under != nil || f.l.rnd.IntN(4) > 0 {
		if ok, err := f.flush(); !ok {
			return err
		}
	}
	if f.lock == nil {
		return nil
	}
	if h := f.lock; h.under != nil {
		f.l.log("unlocks %s by itself", f.name)
		f.l.w.judge.release(h)
		f.lock, f.dirty = nil, map[int]*dirtyCell{}
		return nil
	}
	h := f.lock
	f.l.w.judge.release(h)
	f.lock, f.dirty = nil, map[int]*dirtyCell{}
	a := &nfs4.LockUArgs{LockType: nfs4.LockWrite, LockStateid: newest(f.lockID), Offset: h.from, Length: h.to - h.from}
	if h.to == math.MaxUint64 {
		a.Length = nfs4.LengthToEnd
	}
	for f.isOpen() {
		s, err := f.l.ask("LOCKU "+f.name, putFH(f.fh), client.Op{Num: nfs4.OpLockU, Args: a, Res: &nfs4.LockURes{}})
		if err != nil {
			return err
		}
		if ok, err := f.settled("LOCKU", s, err); ok || err != nil {
			return err
		}
	}
	return nil
}

// close closes the file. The layout goes back with it, mostly.
func (f *openFile) close() error {
	if f.lock != nil {
		if err := f.unlock(); err != nil {
			return err
		}
	}
	if !f.isOpen() || f.lock != nil && f.lock.under != nil {
		return nil // gone, or it has to be told first what was done
	}
	var err error
	if f.l.rnd.IntN(4) > 0 {
		err = f.returnLayout()
	} else {
		err = f.tellSize() // and the layout is forgotten
		f.l.leaves()
	}
	if err != nil {
		return err
	}
	f.dropLayout()
	if f.local {
		f.l.log("closes %s by itself", f.name)
		f.l.w.judge.release(f.share)
		f.gone()
		return nil
	}
	f.closing = true
	f.l.w.judge.release(f.share)
	if f.lock != nil { // what was written is not committed; CLOSE unlocks
		f.l.w.judge.release(f.lock)
		f.lock, f.dirty = nil, map[int]*dirtyCell{}
	}
	for f.isOpen() {
		s, err := f.l.ask("CLOSE "+f.name, putFH(f.fh), client.Op{Num: nfs4.OpClose, Args: &nfs4.CloseArgs{OpenStateid: newest(f.id)}, Res: &nfs4.CloseRes{}})
		if err != nil {
			return err
		}
		if ok, err := f.settled("CLOSE", s, err); err != nil {
			return err
		} else if ok {
			f.gone()
		}
	}
	return nil
}

// truncate sets the size; it needs the whole file locked.
func (f *openFile) truncate() error {
	if f.lock == nil || !f.lock.exclusive || f.lock.from != 0 || f.lock.to != math.MaxUint64 {
		return nil
	}
	h, size := f.lock, uint64(f.l.rnd.IntN(cells+1))*unit
	if d := f.l.delegOf(f.truth); f.local && size == 0 && d != nil {
		// Not under a delegation: the server cannot tell it from Linux's O_TRUNC.
		if ok, err := f.claim(d); !ok || f.lock != h {
			return err
		}
	}
	for cell := range f.dirty {
		if uint64(cell)*unit >= size {
			delete(f.dirty, cell)
		}
	}
	f.l.w.judge.truncating(h, size)
	f.cutting = true
	defer func() { f.cutting = false }()
	f.l.w.judge.wanted(f.truth, f.l)
	defer f.l.w.judge.wanted(f.truth, f.l)
	at := f.l.w.now()
	for f.isOpen() && f.lock == h {
		s, err := f.l.ask(fmt.Sprintf("SETATTR %s size %d", f.name, size), putFH(f.fh), client.Op{Num: nfs4.OpSetattr, Args: &nfs4.SetattrArgs{
			Stateid: f.stateid(), ObjAttributes: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: size},
		}, Res: &nfs4.SetattrRes{}})
		ok, err := f.settled("SETATTR", s, err)
		if ok {
			f.l.w.judge.truncated(h, size)
			f.l.w.judge.told(f.truth, f.l.askedAt)
			f.l.w.judge.alone("SETATTR of the size", f.l, f.truth, at, true)
			f.cut(size)
		}
		if ok || err != nil {
			return err
		}
		if err := f.l.serveRecalls(); err != nil {
			return err
		}
	}
	return nil
}

// stat looks at the size and the change attribute.
func (f *openFile) stat() error {
	var r nfs4.GetattrRes
	g, h := f.l.w.judge.before(f.truth, 0, nil), f.lock
	s, err := f.l.ask("GETATTR "+f.name, putFH(f.fh), getattr(&r, nfs4.AttrChange, nfs4.AttrSize))
	ok, err := f.settled("GETATTR", s, err)
	if ok {
		if a := &r.ObjAttributes; !a.Mask.Has(nfs4.AttrChange) || !a.Mask.Has(nfs4.AttrSize) {
			f.l.w.fail("%s: GETATTR of %s leaves out what was asked for: %x", f.l.name, f.name, a.Mask)
		}
		f.l.w.judge.changed(f.truth, r.ObjAttributes.Change, g)
		if h != nil && f.lock == h {
			f.l.log("sees %s at %d bytes, change %d", f.name, r.ObjAttributes.Size, r.ObjAttributes.Change)
			f.l.w.judge.sized(h, r.ObjAttributes.Size, g)
		}
	}
	return err
}

// removeShared removes one of the names that all share. Who has it open keeps
// the file.
func (l *life) removeShared() error {
	name := fmt.Sprintf("f%d", l.rnd.IntN(2))
	l.w.judge.wantedName(name, l)
	defer l.w.judge.wantedName(name, l)
	for _, d := range l.allDelegs() {
		if d.base == name {
			d.base = "" // it cannot be claimed by that any more
		}
	}
	s, err := l.ask("REMOVE "+name, putFH(l.shared), remove(name, &nfs4.RemoveRes{}))
	switch {
	case err != nil:
		return err
	case s == nfs4.OK, s == nfs4.ErrNoEnt, s == nfs4.ErrDelay, s == nfs4.ErrGrace:
		return nil
	}
	return l.unexpected("REMOVE", s)
}

// reclaim asks a server that started anew for what the client had.
func (f *openFile) reclaim() error {
	if f.closing {
		f.gone() // others may have it since
		return nil
	}
	var r nfs4.OpenRes
	var attrs nfs4.GetattrRes
	d, had := f.l.delegOf(f.truth), nfs4.DelegateNone
	switch {
	case d != nil && d.write:
		had = nfs4.DelegateWrite
	case d != nil:
		had = nfs4.DelegateRead
	}
	f.l.setOpening(true)
	defer f.l.setOpening(false)
	s, err := f.l.askAll(2, fmt.Sprintf("reclaims %s, delegation %d,", f.name, had), putFH(f.fh), client.Op{Num: nfs4.OpOpen, Args: &nfs4.OpenArgs{
		ShareAccess: f.access | nfs4.WantNoDeleg, ShareDeny: f.share.deny, Owner: nfs4.OpenOwner{Owner: f.owner},
		Claim: nfs4.OpenClaim{Type: nfs4.ClaimPrevious, PrevDelegType: had},
	}, Res: &r}, getattr(&attrs, nfs4.AttrChange, nfs4.AttrSize))
	if err != nil {
		return err
	}
	if s != nfs4.OK {
		if d != nil {
			f.local = true // it goes with the delegation
			return f.l.lostDeleg(d, s)
		}
		f.lost(s)
		return nil
	}
	f.delegReclaimed(d, &r, &attrs.ObjAttributes)
	f.l.w.judge.count("reclaim")
	f.id = r.Stateid
	f.l.w.judge.reclaimed(f.share)
	f.hasID = false
	if f.lock == nil || f.lock.under != nil {
		return nil
	}
	var lr nfs4.LockRes
	s, err = f.l.ask("reclaims the lock of "+f.name, putFH(f.fh), client.Op{Num: nfs4.OpLock, Args: f.lockArgs(f.lock, true), Res: &lr})
	if err != nil {
		return err
	}
	if s != nfs4.OK {
		f.lostLock(s)
		return nil
	}
	f.lockID, f.hasID = lr.LockStateid, true
	f.l.w.judge.reclaimed(f.lock)
	return nil
}

// stateid is the one under which the client uses the file.
func (f *openFile) stateid() nfs4.Stateid {
	if d := f.l.delegOf(f.truth); f.local && d != nil {
		return newest(d.id)
	}
	return newest(f.id)
}

// cut notes a truncation where the client has the file delegated.
func (f *openFile) cut(size uint64) {
	if d := f.writer(); d != nil {
		f.l.mu.Lock()
		d.size = size
		f.l.mu.Unlock()
	}
}
