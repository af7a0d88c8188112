package sim

import (
	"bytes"
	"fmt"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// delegation is what a client may do to a file by itself. It is guarded by the
// life's mu, for callbacks come in; the worker alone makes and ends it.
type delegation struct {
	fh    nfs4.FH
	truth *truth
	name  string
	base  string // its name if it can be claimed by it, "" if it may have none any more
	id    nfs4.Stateid
	write bool
	hold  *hold

	known    bool   // change and size are
	change   uint64 // as it was given
	size     uint64 // as the client would tell an application
	changed  bool   // by something that the server was not told
	recalled bool   // it was promised back
}

// delegOf returns the client's delegation of a file, or nil.
func (l *life) delegOf(f *truth) *delegation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delegs[f]
}

func (l *life) allDelegs() (list []*delegation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.delegOrder {
		if d := l.delegs[f]; d != nil {
			list = append(list, d)
		}
	}
	return list
}

// writer returns the delegation under which the client may do to the file what
// it likes, nil if it has none.
func (f *openFile) writer() *delegation {
	if d := f.l.delegOf(f.truth); d != nil && d.write {
		return d
	}
	return nil
}

// wants is what an OPEN asks for.
func (l *life) wants() uint32 {
	if l.w.seed%4 == 0 {
		return nfs4.WantNoDeleg // a world without delegations
	}
	return [...]uint32{nfs4.WantNoDeleg, nfs4.WantNoPreference, nfs4.WantReadDeleg, nfs4.WantWriteDeleg, nfs4.WantAnyDeleg}[l.rnd.IntN(5)]
}

// given notes what an OPEN's reply says of delegations. base is "" if the file
// was not opened by its name.
func (l *life) given(f *openFile, base string, g *nfs4.OpenDelegation, a *nfs4.Attrs) {
	if g.Type != nfs4.DelegateRead && g.Type != nfs4.DelegateWrite {
		return
	}
	d := &delegation{fh: f.fh, truth: f.truth, name: f.base, base: base, id: g.Stateid, write: g.Type == nfs4.DelegateWrite, recalled: g.Recall}
	d.known = a.Mask.Has(nfs4.AttrChange) && a.Mask.Has(nfs4.AttrSize)
	d.change, d.size = a.Change, a.Size
	old := l.delegOf(f.truth)
	if old != nil && old.id.Other == d.id.Other && old.write == d.write {
		return // the same again
	}
	access := uint32(nfs4.ShareAccessRead)
	if d.write {
		access = nfs4.ShareAccessBoth
	}
	d.hold = &hold{life: l, file: f.truth, deleg: true, access: access, other: g.Stateid.Other}
	if old != nil {
		l.w.judge.release(old.hold)
	}
	l.w.judge.acquire(d.hold)
	l.w.judge.count(fmt.Sprintf("delegation, type %d", g.Type))
	l.log("has a delegation of %s, type %d, %v", f.name, g.Type, d.id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if old == nil {
		l.delegOrder = append(l.delegOrder, f.truth)
	}
	l.delegs[f.truth] = d
}

// forget takes a delegation out of the client's books.
func (l *life) forget(d *delegation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.delegs[d.truth] != d {
		return
	}
	delete(l.delegs, d.truth)
	for i, f := range l.delegOrder {
		if f == d.truth {
			l.delegOrder = append(l.delegOrder[:i:i], l.delegOrder[i+1:]...)
			return
		}
	}
}

func (l *life) fileOf(t *truth) *openFile {
	for _, f := range l.openFiles() {
		if f.truth == t {
			return f
		}
	}
	return nil
}

// openByItself opens a delegated file without a word to the server.
func (l *life) openByItself() bool {
	for _, d := range l.allDelegs() {
		if d.recalled || l.fileOf(d.truth) != nil || !l.w.judge.stands(d.hold) {
			continue
		}
		l.owners++
		f := &openFile{l: l, fh: d.fh, truth: d.truth, owner: fmt.Appendf(nil, "%s-%d", l.name, l.owners), dirty: map[int]*dirtyCell{}, local: true}
		f.base, f.name = d.name, fmt.Sprintf("%s:%d", d.name, d.truth.obj.Inode)
		f.access = nfs4.ShareAccessRead
		deny := uint32(nfs4.ShareDenyNone)
		if d.write && l.rnd.IntN(4) > 0 {
			f.access = nfs4.ShareAccessBoth
		}
		if d.write && l.rnd.IntN(4) == 0 {
			deny = 1 + uint32(l.rnd.IntN(3))
		}
		f.share = l.w.judge.acquire(&hold{life: l, file: f.truth, access: f.access, deny: deny, under: d.hold})
		l.log("opens %s by itself, access %d deny %d", f.name, f.access, deny)
		l.w.judge.count("open by itself")
		l.mu.Lock()
		l.files = append(l.files, f)
		l.mu.Unlock()
		return true
	}
	return false
}

// grew notes a write that the server has not been told of.
func (f *openFile) grew(cell int) {
	d := f.writer()
	if d == nil {
		return
	}
	end := uint64(cell+1) * unit
	f.l.mu.Lock()
	d.changed, d.size = true, max(d.size, end)
	f.l.mu.Unlock()
	f.l.w.judge.changedByItself(d.hold, end)
}

// told notes that the server knows everything.
func (f *openFile) told() {
	if d := f.writer(); d != nil {
		f.l.mu.Lock()
		d.changed = false
		f.l.mu.Unlock()
	}
}

// giveBack returns a delegation, after the server was told what was done under
// it (RFC 8881 section 10.4.1). What cannot be done now is for the next time.
func (l *life) giveBack(d *delegation) error {
	if f := l.fileOf(d.truth); f != nil {
		if f.local {
			if ok, err := f.claim(d); !ok {
				return err
			}
		}
		if f.lock != nil && f.lock.under != nil {
			if ok, err := f.claimLock(d); !ok {
				return err
			}
		}
		if ok, err := f.flush(); !ok {
			return err
		}
	}
	if l.delegOf(d.truth) != d {
		return nil // lost meanwhile
	}
	l.w.judge.release(d.hold)
	l.forget(d)
	for {
		s, err := l.ask("DELEGRETURN "+d.name, putFH(d.fh), client.Op{Num: nfs4.OpDelegReturn, Args: &nfs4.DelegReturnArgs{DelegStateid: d.id}})
		switch {
		case err != nil:
			return err
		case s == nfs4.OK:
			l.w.judge.count("DELEGRETURN")
			return nil
		case s == nfs4.ErrDelegRevoked:
			return l.free(d.id)
		case stateLost(s):
			return nil
		case s != nfs4.ErrDelay && s != nfs4.ErrGrace:
			return l.unexpected("DELEGRETURN", s)
		}
	}
}

// claim tells the server of an open that the client made by itself; false if
// that is to be tried again, or the delegation is lost.
func (f *openFile) claim(d *delegation) (bool, error) {
	a := &nfs4.OpenArgs{
		ShareAccess: f.access | nfs4.WantNoDeleg, ShareDeny: f.share.deny, Owner: nfs4.OpenOwner{Owner: f.owner},
		Claim: nfs4.OpenClaim{Type: nfs4.ClaimDelegCurFH, DelegStateid: newest(d.id)},
	}
	at := f.fh
	if d.base != "" && f.l.rnd.IntN(3) == 0 {
		at, a.Claim.Type, a.Claim.Name = f.l.shared, nfs4.ClaimDelegateCur, []byte(d.base)
	}
	var r nfs4.OpenRes
	s, err := f.l.ask("claims "+f.name, putFH(at), client.Op{Num: nfs4.OpOpen, Args: a, Res: &r})
	switch {
	case err != nil:
		return false, err
	case s == nfs4.OK:
		f.id, f.local = r.Stateid, false
		f.l.w.judge.honoured("claim of an open", d.hold, f.l.askedAt)
		f.l.w.judge.claimed(f.share)
		f.l.w.judge.count("claim of an open")
		return true, nil
	case s == nfs4.ErrDelay:
		return false, nil
	case stateLost(s), s == nfs4.ErrNoEnt && !f.l.w.judge.stands(d.hold):
		return false, f.l.lostDeleg(d, s)
	}
	return false, f.l.unexpected("OPEN under a delegation", s)
}

// claimLock is claim of a lock.
func (f *openFile) claimLock(d *delegation) (bool, error) {
	var r nfs4.LockRes
	s, err := f.l.ask("claims the lock of "+f.name, putFH(f.fh), client.Op{Num: nfs4.OpLock, Args: f.lockArgs(f.lock, false), Res: &r})
	if err != nil {
		return false, err
	}
	// It is worth nothing if the delegation was revoked before.
	if err := f.l.testDelegs(); err != nil || f.l.delegOf(d.truth) != d {
		return false, err
	}
	if s == nfs4.ErrDenied && !f.l.w.judge.stands(d.hold) {
		return false, f.l.lostDeleg(d, nfs4.ErrDelegRevoked)
	}
	if ok, err := f.settled("claim of a lock", s, err); !ok {
		return false, err
	}
	f.lockID, f.hasID = r.LockStateid, true
	f.l.w.judge.claimed(f.lock)
	return true, nil
}

// lostDeleg forgets a delegation that the server has forgotten, and what was
// done under it.
func (l *life) lostDeleg(d *delegation, why nfs4.Status) error {
	if l.delegOf(d.truth) != d {
		return nil
	}
	l.log("has lost the delegation of %s: %v", d.name, why)
	l.forget(d)
	l.w.judge.count(fmt.Sprintf("delegation lost, %v", why))
	if f := l.fileOf(d.truth); f != nil && f.local {
		f.lost(why)
	} else if f != nil && f.lock != nil && f.lock.under != nil {
		f.lostLock(why)
	}
	l.w.judge.lost(d.hold, why)
	if why == nfs4.ErrDelegRevoked {
		return l.free(d.id)
	}
	return nil
}

// free tells the server that the client knows what was revoked.
func (l *life) free(id nfs4.Stateid) error {
	s, err := l.ask("FREE_STATEID", client.Op{Num: nfs4.OpFreeStateid, Args: &nfs4.FreeStateidArgs{Stateid: newest(id)}})
	if err == nil && s != nfs4.OK && s != nfs4.ErrDelay && !stateLost(s) {
		return l.unexpected("FREE_STATEID", s)
	}
	return err
}

// testDelegs finds out what was revoked, when the server says that something was
// (RFC 8881 section 10.2.1).
func (l *life) testDelegs() error {
	l.mu.Lock()
	due := l.suspect
	l.suspect = false
	l.mu.Unlock()
	list := l.allDelegs()
	if !due || len(list) == 0 {
		return nil
	}
	a := &nfs4.TestStateidArgs{}
	for _, d := range list {
		a.Stateids = append(a.Stateids, newest(d.id))
	}
	var r nfs4.TestStateidRes
	s, err := l.ask("TEST_STATEID", client.Op{Num: nfs4.OpTestStateid, Args: a, Res: &r})
	if err != nil || s != nfs4.OK {
		return err
	}
	for i, d := range list {
		if r.StatusCodes[i] == nfs4.OK {
			l.w.judge.honoured("TEST_STATEID", d.hold, l.askedAt)
		} else {
			if err := l.lostDeleg(d, r.StatusCodes[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// reclaimDelegs makes an open for each delegated file that has none: a
// delegation is reclaimed along with an open.
func (l *life) reclaimDelegs() error {
	for _, d := range l.allDelegs() {
		if l.fileOf(d.truth) != nil {
			continue
		}
		l.owners++
		f := &openFile{l: l, fh: d.fh, truth: d.truth, owner: fmt.Appendf(nil, "%s-%d", l.name, l.owners), dirty: map[int]*dirtyCell{}, local: true}
		f.base, f.name = d.name, fmt.Sprintf("%s:%d", d.name, d.truth.obj.Inode)
		f.access = d.hold.access
		f.share = l.w.judge.acquire(&hold{life: l, file: f.truth, access: f.access, under: d.hold})
		l.mu.Lock()
		l.files = append(l.files, f)
		l.mu.Unlock()
		if err := f.reclaim(); err != nil {
			return err
		}
	}
	return nil
}

// reclaimed notes what became of a delegation along with the open.
func (f *openFile) delegReclaimed(d *delegation, r *nfs4.OpenRes, a *nfs4.Attrs) {
	l := f.l
	f.local = false
	l.w.judge.claimed(f.share)
	got := r.Delegation.Type
	if d == nil {
		return
	}
	l.w.judge.count(fmt.Sprintf("delegation reclaimed, type %d", got))
	if got != nfs4.DelegateWrite && (got != nfs4.DelegateRead || d.write) {
		if f.lock != nil {
			l.w.judge.claimed(f.lock)
		}
		l.forget(d)
		l.w.judge.lost(d.hold, nfs4.ErrReclaimBad)
		return
	}
	l.mu.Lock()
	d.id, d.base, d.recalled = r.Delegation.Stateid, "", r.Delegation.Recall
	d.known = a.Mask.Has(nfs4.AttrChange)
	d.change = a.Change
	l.mu.Unlock()
	l.w.judge.reclaimedDeleg(d.hold, d.id)
}

// peek looks at a file that the client need not have open. Who has it delegated
// is asked, by the server.
func (l *life) peek() error {
	name := fmt.Sprintf("f%d", l.rnd.IntN(2))
	var fh nfs4.GetFHRes
	s, err := l.ask("LOOKUP "+name, putFH(l.shared), lookup(name), getFH(&fh))
	if err != nil || s != nfs4.OK {
		return err
	}
	return l.look(fh.Object, name)
}

func (l *life) look(fh nfs4.FH, name string) error {
	t, j := l.w.judge.file(fh), l.w.judge
	j.wanted(t, l)
	g := j.before(t, 0, nil)
	var r nfs4.GetattrRes
	s, err := l.ask("GETATTR "+name, putFH(fh), getattr(&r, nfs4.AttrChange, nfs4.AttrSize))
	j.wanted(t, l)
	switch {
	case err != nil:
		return err
	case s == nfs4.OK:
		l.log("sees %s:%d at %d bytes, change %d", name, t.obj.Inode, r.ObjAttributes.Size, r.ObjAttributes.Change)
		j.count("GETATTR without an open")
		j.peeked(l, t, r.ObjAttributes.Size, r.ObjAttributes.Change, g)
	case s != nfs4.ErrDelay && s != nfs4.ErrStale && s != nfs4.ErrGrace:
		return l.unexpected("GETATTR", s)
	}
	return nil
}

// chmod changes an attribute, which no delegation of another survives.
func (f *openFile) chmod() error {
	at := f.l.w.now()
	f.l.w.judge.wanted(f.truth, f.l)
	a := mode(0o666)
	s, err := f.l.ask("SETATTR "+f.name+" mode", putFH(f.fh), client.Op{Num: nfs4.OpSetattr, Args: &nfs4.SetattrArgs{ObjAttributes: a}, Res: &nfs4.SetattrRes{}})
	f.l.w.judge.wanted(f.truth, f.l)
	switch {
	case err != nil:
		return err
	case s == nfs4.OK:
		f.l.w.judge.count("SETATTR of the mode")
		f.l.w.judge.alone("SETATTR of the mode", f.l, f.truth, at, false)
	case s != nfs4.ErrDelay && s != nfs4.ErrGrace && s != nfs4.ErrStale:
		return f.l.unexpected("SETATTR of the mode", s)
	}
	return nil
}

// delegRecalled decides what to do about CB_RECALL. l.mu is held.
func (l *life) delegRecalled(a *nfs4.CBRecallArgs) (s nfs4.Status, never bool) {
	d := l.delegAt(a.FH)
	x := l.cbRnd.IntN(100)
	switch {
	case d == nil && l.opening, d != nil && d.id.Other != a.Stateid.Other && l.opening:
		s = nfs4.ErrDelay // it may be on its way here
	case d == nil:
		s = nfs4.ErrBadHandle
	case d.id.Other != a.Stateid.Other:
		s = nfs4.ErrBadStateID
	case l.deaf:
		s, never = nfs4.OK, x < 50
	case x < 10:
		s = nfs4.ErrDelay
	case x < 15:
		s, never = nfs4.ErrDelay, true
	case x < 18:
		s = nfs4.OK // and nothing happens
	default:
		d.recalled, s = true, nfs4.OK
	}
	l.w.judge.count(fmt.Sprintf("CB_RECALL, %v", s))
	l.log("is asked for a delegation, %v: answers %v, or never: %t", a.Stateid, s, never)
	return s, never
}

func (l *life) delegAt(fh nfs4.FH) *delegation {
	for _, f := range l.delegOrder {
		if d := l.delegs[f]; d != nil && bytes.Equal(d.fh, fh) {
			return d
		}
	}
	return nil
}

// asked answers CB_GETATTR. l.mu is held.
func (l *life) asked(a *nfs4.CBGetattrArgs, last *cbAnswer) {
	d := l.delegAt(a.FH)
	switch x := l.cbRnd.IntN(100); {
	case d == nil && l.opening, x < 5:
		last.status = nfs4.ErrDelay
	case d == nil || !d.write:
		last.status = nfs4.ErrBadHandle
	case l.deaf, x < 8:
		last.status, last.never = nfs4.ErrDelay, true
	case !d.known:
		last.status = nfs4.ErrDelay
	default:
		last.attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrSize), Size: d.size, Change: d.change}
		if d.changed {
			last.attrs.Change++
		}
		last.status = nfs4.OK
	}
	l.w.judge.count(fmt.Sprintf("CB_GETATTR, %v", last.status))
	l.log("is asked what it knows of a file: answers %v, %d bytes, change %d", last.status, last.attrs.Size, last.attrs.Change)
}
