package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// homeDir is a directory that one client alone changes, so it knows what every
// operation must answer.
type homeDir struct {
	name   string
	fh     nfs4.FH
	truth  *truth
	names  map[string]bool
	change uint64 // 0: not known
	next   int
}

func newHomeDir(name string) *homeDir { return &homeDir{name: name, names: map[string]bool{}} }

// step changes a name, and sees that what is there is what must be there.
func (h *homeDir) step(l *life) error {
	if h.fh == nil {
		return h.make(l)
	}
	g := l.w.judge.before(h.truth, 0, nil)
	names := slices.Sorted(maps.Keys(h.names))
	var err error
	switch x := l.rnd.IntN(10); {
	case x < 4 && len(names) < 8 || len(names) == 0:
		h.next++
		name := fmt.Sprintf("n%d", h.next)
		var r nfs4.CreateRes
		err = h.change1(l, "CREATE "+name, []string{name}, nil, &r.CInfo, putFH(h.fh), makeDir(name, &r))
	case x < 6:
		name := names[l.rnd.IntN(len(names))]
		var r nfs4.RemoveRes
		err = h.change1(l, "REMOVE "+name, nil, []string{name}, &r.CInfo, putFH(h.fh), remove(name, &r))
	case x < 8:
		h.next++
		from, to := names[l.rnd.IntN(len(names))], fmt.Sprintf("n%d", h.next)
		var r nfs4.RenameRes
		err = h.change1(l, "RENAME "+from+" to "+to, []string{to}, []string{from}, &r.TargetCInfo, putFH(h.fh),
			client.Op{Num: nfs4.OpSaveFH}, client.Op{Num: nfs4.OpRename, Args: &nfs4.RenameArgs{OldName: []byte(from), NewName: []byte(to)}, Res: &r})
	default:
		return h.check(l)
	}
	if h.change != 0 {
		l.w.judge.changed(h.truth, h.change, g)
	}
	return err
}

// make makes the directory. After a lost session it may be there already.
func (h *homeDir) make(l *life) error {
	var fh nfs4.GetFHRes
	s, err := l.ask("LOOKUP "+h.name, putRoot(), lookup(h.name), getFH(&fh))
	if err == nil && s == nfs4.ErrNoEnt {
		s, err = l.ask("CREATE "+h.name, putRoot(), makeDir(h.name, &nfs4.CreateRes{}), getFH(&fh))
	}
	switch {
	case err != nil:
		return err
	case s == nfs4.OK:
		h.fh, h.truth = fh.Object, l.w.judge.file(fh.Object)
		return nil
	case s == nfs4.ErrDelay, s == nfs4.ErrGrace:
		return nil
	}
	return l.unexpected("CREATE "+h.name, s)
}

// change1 does one change, exactly once whatever the wire does.
func (h *homeDir) change1(l *life, what string, add, drop []string, info *nfs4.ChangeInfo, ops ...client.Op) error {
	before := h.change
	h.change = 0
	s, err := l.ask(what, ops...)
	switch {
	case err != nil:
		return h.inDoubt(l, append(add, drop...), err)
	case s == nfs4.ErrDelay, s == nfs4.ErrGrace:
		h.change = before
		return nil
	case s != nfs4.OK:
		return l.unexpected(what+", which can only succeed,", s)
	}
	l.w.judge.count("name")
	if !info.Atomic || info.After <= info.Before || before != 0 && info.Before != before {
		l.w.fail("%s: %s changed the directory from %d to %d (atomic %t); it was at %d", l.name, what, info.Before, info.After, info.Atomic, before)
	}
	h.change = info.After
	for _, name := range add {
		h.names[name] = true
	}
	for _, name := range drop {
		delete(h.names, name)
	}
	return nil
}

// inDoubt finds out what became of names whose change was not answered, in a
// new session.
func (h *homeDir) inDoubt(l *life, names []string, err error) error {
	for len(names) > 0 {
		if errors.Is(err, errSession) {
			err = l.recover()
		}
		if err != nil {
			return err
		}
		var s nfs4.Status
		s, err = l.ask("LOOKUP "+names[0], putFH(h.fh), lookup(names[0]))
		switch {
		case err != nil:
			continue
		case s == nfs4.OK:
			h.names[names[0]] = true
		case s == nfs4.ErrNoEnt:
			delete(h.names, names[0])
		default:
			return l.unexpected("LOOKUP "+names[0], s)
		}
		names = names[1:]
	}
	return nil
}

// check looks names up and compares the change attribute.
func (h *homeDir) check(l *life) error {
	for range 2 {
		name := fmt.Sprintf("n%d", 1+l.rnd.IntN(h.next+1))
		s, err := l.ask("LOOKUP "+name, putFH(h.fh), lookup(name))
		switch {
		case err != nil:
			return err
		case s == nfs4.ErrDelay:
			return nil
		case (s == nfs4.OK) != h.names[name] || s != nfs4.OK && s != nfs4.ErrNoEnt:
			return l.unexpected(fmt.Sprintf("LOOKUP %s, which is there: %t,", name, h.names[name]), s)
		}
	}
	var r nfs4.GetattrRes
	s, err := l.ask("GETATTR of its directory", putFH(h.fh), getattr(&r, nfs4.AttrChange))
	if err != nil || s != nfs4.OK {
		return err
	}
	if h.change != 0 && r.ObjAttributes.Change != h.change {
		l.w.fail("%s: the directory's change attribute is %d, must be %d", l.name, r.ObjAttributes.Change, h.change)
	}
	h.change = r.ObjAttributes.Change
	return nil
}
