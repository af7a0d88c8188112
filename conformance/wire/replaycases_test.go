package wire_test

import (
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

func unlock10(id nfs4.Stateid) client.Op {
	return client.Op{Num: nfs4.OpLockU, Args: &nfs4.LockUArgs{LockType: nfs4.LockWrite, LockStateid: id, Length: 10}, Res: &nfs4.LockURes{}}
}

// replayCases are the operations that change something, in their forms.
func replayCases() (all []replayCase) {
	all = append(all, nameCases()...)
	all = append(all, openCases()...)
	all = append(all, lockCases()...)
	all = append(all, dataCases()...)
	all = append(all, layoutCases()...)
	all = append(all, delegCases()...)
	return append(all, sessionCases()...)
}

// ready is a case of a client that reclaims nothing.
func ready(op nfs4.OpNum, name string, fn func(g *replayRig) attempt) replayCase {
	return replayCase{op: op, name: name, make: func(g *replayRig) attempt {
		g.do(reclaimComplete())
		return fn(g)
	}}
}

func nameCases() []replayCase {
	list := []replayCase{
		ready(nfs4.OpRemove, "file", func(g *replayRig) attempt {
			fh, res := g.file("f", nfs4.ShareAccessBoth)
			g.do(putFH(fh), closeOp(res.Stateid))
			return attempt{ops: []client.Op{putFH(g.dir), remove("f")}, look: g.change(g.dir)}
		}),
		ready(nfs4.OpRemove, "directory", func(g *replayRig) attempt {
			g.do(putFH(g.dir), makeDir("d", 0o755))
			return attempt{ops: []client.Op{putFH(g.dir), remove("d")}, look: g.change(g.dir)}
		}),
		ready(nfs4.OpRemove, "nothing", func(g *replayRig) attempt {
			return attempt{ops: []client.Op{putFH(g.dir), remove("none")}, look: g.change(g.dir), want: nfs4.ErrNoEnt}
		}),
		ready(nfs4.OpRename, "over another", func(g *replayRig) attempt {
			g.file("f", nfs4.ShareAccessBoth)
			g.file("g", nfs4.ShareAccessBoth)
			return attempt{ops: []client.Op{putFH(g.dir), saveFH(), rename("f", "g")}, look: g.change(g.dir)}
		}),
		ready(nfs4.OpLink, "", func(g *replayRig) attempt {
			fh, _ := g.file("f", nfs4.ShareAccessBoth)
			return attempt{
				ops:  []client.Op{putFH(fh), saveFH(), putFH(g.dir), link("g")},
				look: func() uint64 { return uint64(g.look.stat(fh, nfs4.AttrNumLinks).NumLinks) },
			}
		}),
		ready(nfs4.OpSetXattr, "", func(g *replayRig) attempt {
			fh, _ := g.file("f", nfs4.ShareAccessBoth)
			return attempt{ops: []client.Op{putFH(fh), setXattr(nfs4.XattrEither, "a", "b", &nfs4.SetXattrRes{})}, look: g.change(fh)}
		}),
		ready(nfs4.OpRemoveXattr, "", func(g *replayRig) attempt {
			fh, _ := g.file("f", nfs4.ShareAccessBoth)
			g.do(putFH(fh), setXattr(nfs4.XattrCreate, "a", "b", &nfs4.SetXattrRes{}))
			return attempt{ops: []client.Op{putFH(fh), removeXattr("a", &nfs4.RemoveXattrRes{})}, look: g.change(fh)}
		}),
	}
	for name, a := range map[string]nfs4.Attrs{"mode": mode(0o600), "size": {Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 1000}} {
		list = append(list, ready(nfs4.OpSetattr, name, func(g *replayRig) attempt {
			fh, res := g.file("f", nfs4.ShareAccessBoth)
			return attempt{ops: []client.Op{putFH(fh), setattr(res.Stateid, a)}, look: g.change(fh)}
		}))
	}
	for name, typ := range map[string]nfs4.CreateType{
		"dir": {Type: nfs4.TypeDir}, "symlink": {Type: nfs4.TypeLnk, LinkData: []byte("there")}, "socket": {Type: nfs4.TypeSock},
		"fifo": {Type: nfs4.TypeFifo}, "char": {Type: nfs4.TypeChr, DevData: nfs4.SpecData{Major: 1, Minor: 3}},
		"block": {Type: nfs4.TypeBlk, DevData: nfs4.SpecData{Major: 8}},
	} {
		list = append(list, ready(nfs4.OpCreate, name, func(g *replayRig) attempt {
			return attempt{
				ops:  []client.Op{putFH(g.dir), makeNode(typ, "n", nfs4.Attrs{}), getFH(&nfs4.GetFHRes{})},
				look: g.change(g.dir),
			}
		}))
	}
	return list
}

func openCases() []replayCase {
	// opened is an OPEN whose stateid is good for a CLOSE afterwards.
	opened := func(g *replayRig, at nfs4.FH, a *nfs4.OpenArgs, look func() uint64) attempt {
		res, fh := &nfs4.OpenRes{}, &nfs4.GetFHRes{}
		return attempt{
			ops: []client.Op{putFH(at), openOp(a, res), getFH(fh)}, look: look,
			then: func() []client.Op { return []client.Op{putFH(fh.Object), closeOp(res.Stateid)} },
		}
	}
	list := []replayCase{
		ready(nfs4.OpOpen, "no create", func(g *replayRig) attempt {
			fh, res := g.file("f", nfs4.ShareAccessBoth)
			g.do(putFH(fh), closeOp(res.Stateid))
			return opened(g, g.dir, openArgs("owner", "f", nfs4.ShareAccessBoth), nil)
		}),
		ready(nfs4.OpOpen, "upgrade", func(g *replayRig) attempt {
			g.file("f", nfs4.ShareAccessRead)
			return opened(g, g.dir, openArgs("owner", "f", nfs4.ShareAccessWrite), nil)
		}),
		ready(nfs4.OpOpen, "claim fh", func(g *replayRig) attempt {
			fh, _ := g.file("f", nfs4.ShareAccessRead)
			a := openArgs("owner", "", nfs4.ShareAccessBoth)
			a.Claim = nfs4.OpenClaim{Type: nfs4.ClaimFH}
			return opened(g, fh, a, nil)
		}),
		ready(nfs4.OpOpen, "truncate", func(g *replayRig) attempt {
			fh, res := g.file("f", nfs4.ShareAccessBoth)
			g.do(putFH(fh), resize(res.Stateid, 1000))
			a := creating(openArgs("owner", "f", nfs4.ShareAccessBoth), nfs4.CreateHow{
				Mode: nfs4.CreateUnchecked, Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)},
			})
			return opened(g, g.dir, a, g.change(fh))
		}),
		ready(nfs4.OpOpen, "claim previous", func(g *replayRig) attempt {
			fh, _ := g.file("f", nfs4.ShareAccessRead)
			a := openArgs("owner", "", nfs4.ShareAccessBoth)
			a.Claim = nfs4.OpenClaim{Type: nfs4.ClaimPrevious}
			return attempt{ops: []client.Op{putFH(fh), openOp(a, &nfs4.OpenRes{})}, want: nfs4.ErrNoGrace}
		}),
		ready(nfs4.OpOpenDowngrade, "", func(g *replayRig) attempt {
			fh, _ := g.file("f", nfs4.ShareAccessRead)
			a, open, down := openArgs("owner", "", nfs4.ShareAccessBoth), &nfs4.OpenRes{}, &nfs4.OpenDowngradeRes{}
			a.Claim = nfs4.OpenClaim{Type: nfs4.ClaimFH}
			g.do(putFH(fh), openOp(a, open))
			op := downgradeOp(open.Stateid, nfs4.ShareAccessRead, 0)
			op.Res = down
			return attempt{
				ops:  []client.Op{putFH(fh), op},
				then: func() []client.Op { return []client.Op{putFH(fh), closeOp(down.OpenStateid)} },
			}
		}),
		ready(nfs4.OpClose, "", func(g *replayRig) attempt {
			fh, res := g.file("f", nfs4.ShareAccessRead)
			return attempt{ops: []client.Op{putFH(fh), closeOp(res.Stateid)}}
		}),
	}
	for name, how := range map[string]nfs4.CreateHow{
		"unchecked": {Mode: nfs4.CreateUnchecked, Attrs: mode(0o666)}, "guarded": {Mode: nfs4.CreateGuarded, Attrs: mode(0o666)},
		"exclusive":    {Mode: nfs4.CreateExclusive, Verifier: nfs4.Verifier{1, 2}},
		"exclusive4_1": {Mode: nfs4.CreateExclusive4_1, Verifier: nfs4.Verifier{1, 2}, Attrs: mode(0o666)},
	} {
		list = append(list, ready(nfs4.OpOpen, name, func(g *replayRig) attempt {
			return opened(g, g.dir, creating(openArgs("owner", "f", nfs4.ShareAccessBoth), how), g.change(g.dir))
		}))
	}
	return list
}

func lockCases() []replayCase {
	// locked has a lock on a file.
	locked := func(g *replayRig) (nfs4.FH, nfs4.Stateid, nfs4.Stateid) {
		fh, res := g.file("f", nfs4.ShareAccessBoth)
		lock, got := newLock(&open{id: res.Stateid}, "l", nfs4.LockWrite, 0, 10), &nfs4.LockRes{}
		g.do(putFH(fh), lockOp(lock, got))
		return fh, res.Stateid, got.LockStateid
	}
	return []replayCase{
		ready(nfs4.OpLock, "new owner", func(g *replayRig) attempt {
			fh, res := g.file("f", nfs4.ShareAccessBoth)
			got := &nfs4.LockRes{}
			return attempt{
				ops:  []client.Op{putFH(fh), lockOp(newLock(&open{id: res.Stateid}, "l", nfs4.LockWrite, 0, 10), got)},
				then: func() []client.Op { return []client.Op{putFH(fh), unlock10(got.LockStateid)} },
			}
		}),
		ready(nfs4.OpLock, "known owner", func(g *replayRig) attempt {
			fh, _, id := locked(g)
			a, got := &nfs4.LockArgs{LockType: nfs4.LockWrite, Offset: 20, Length: 10, Locker: nfs4.Locker{LockStateid: id}}, &nfs4.LockRes{}
			return attempt{
				ops:  []client.Op{putFH(fh), lockOp(a, got)},
				then: func() []client.Op { return []client.Op{putFH(fh), unlock10(got.LockStateid)} },
			}
		}),
		ready(nfs4.OpLock, "denied", func(g *replayRig) attempt {
			fh, id, _ := locked(g)
			return attempt{
				ops:  []client.Op{putFH(fh), lockOp(newLock(&open{id: id}, "other", nfs4.LockWrite, 5, 1), &nfs4.LockRes{})},
				want: nfs4.ErrDenied,
			}
		}),
		ready(nfs4.OpLockU, "", func(g *replayRig) attempt {
			fh, _, id := locked(g)
			op, got := unlock10(id), &nfs4.LockURes{}
			op.Res = got
			return attempt{
				ops: []client.Op{putFH(fh), op},
				then: func() []client.Op {
					return []client.Op{putFH(fh), lockOp(&nfs4.LockArgs{
						LockType: nfs4.LockRead, Length: 1, Locker: nfs4.Locker{LockStateid: got.LockStateid},
					}, &nfs4.LockRes{})}
				},
			}
		}),
		ready(nfs4.OpFreeStateid, "", func(g *replayRig) attempt {
			fh, _, id := locked(g)
			op, got := unlock10(id), &nfs4.LockURes{}
			op.Res = got
			g.do(putFH(fh), op)
			return attempt{ops: []client.Op{{Num: nfs4.OpFreeStateid, Args: &nfs4.FreeStateidArgs{Stateid: got.LockStateid}, Res: &nfs4.FreeStateidRes{}}}}
		}),
	}
}

func dataCases() []replayCase {
	return []replayCase{
		ready(nfs4.OpWrite, "", func(g *replayRig) attempt {
			fh, res := g.file("f", nfs4.ShareAccessBoth)
			return attempt{
				ops:  []client.Op{putFH(fh), writeOp(res.Stateid, 0, []byte("bytes"), nfs4.FileSync, &nfs4.WriteRes{})},
				look: g.change(fh),
			}
		}),
		ready(nfs4.OpCommit, "", func(g *replayRig) attempt {
			fh, res := g.file("f", nfs4.ShareAccessBoth)
			g.do(putFH(fh), writeOp(res.Stateid, 0, []byte("bytes"), nfs4.Unstable, &nfs4.WriteRes{}))
			return attempt{ops: []client.Op{putFH(fh), commitOp(&nfs4.CommitRes{})}}
		}),
		ready(nfs4.OpAllocate, "", func(g *replayRig) attempt {
			fh, res := g.file("f", nfs4.ShareAccessBoth)
			return attempt{ops: []client.Op{putFH(fh), allocateOp(res.Stateid, 0, 1000)}, look: g.change(fh)}
		}),
		ready(nfs4.OpDeallocate, "", func(g *replayRig) attempt {
			fh, res := g.file("f", nfs4.ShareAccessBoth)
			g.do(putFH(fh), writeOp(res.Stateid, 0, []byte("bytes"), nfs4.FileSync, &nfs4.WriteRes{}))
			return attempt{ops: []client.Op{putFH(fh), deallocateOp(res.Stateid, 1, 2)}, look: g.change(fh)}
		}),
	}
}

func layoutCases() []replayCase {
	// laid has a layout of a file.
	laid := func(g *replayRig) (nfs4.FH, nfs4.Stateid) {
		fh, res := g.file("f", nfs4.ShareAccessBoth)
		got := &nfs4.LayoutGetRes{}
		g.do(putFH(fh), layoutGetOp(layoutGetArgs(res.Stateid, nfs4.IOModeRW), got))
		return fh, got.Stateid
	}
	back := func(id nfs4.Stateid, kind uint32) client.Op {
		op := layoutReturnOp(id, nfs4.IOModeAny, &nfs4.LayoutReturnRes{})
		op.Args.(*nfs4.LayoutReturnArgs).Return.Kind = kind
		return op
	}
	list := []replayCase{
		ready(nfs4.OpLayoutGet, "", func(g *replayRig) attempt {
			fh, res := g.file("f", nfs4.ShareAccessBoth)
			got := &nfs4.LayoutGetRes{}
			return attempt{
				ops:  []client.Op{putFH(fh), layoutGetOp(layoutGetArgs(res.Stateid, nfs4.IOModeRW), got)},
				then: func() []client.Op { return []client.Op{putFH(fh), back(got.Stateid, nfs4.LayoutReturnFile)} },
			}
		}),
		ready(nfs4.OpLayoutCommit, "", func(g *replayRig) attempt {
			fh, id := laid(g)
			return attempt{ops: []client.Op{putFH(fh), layoutCommitOp(id, 1000, &nfs4.LayoutCommitRes{})}, look: g.change(fh)}
		}),
	}
	for name, kind := range map[string]uint32{"file": nfs4.LayoutReturnFile, "fsid": nfs4.LayoutReturnFSID, "all": nfs4.LayoutReturnAll} {
		list = append(list, ready(nfs4.OpLayoutReturn, name, func(g *replayRig) attempt {
			fh, id := laid(g)
			return attempt{ops: []client.Op{putFH(fh), back(id, kind)}}
		}))
	}
	return list
}

func delegCases() []replayCase {
	const back = nfs4.CreateSessionFlagConnBackChan
	held := func(op nfs4.OpNum, name string, fn func(g *replayRig, fh nfs4.FH, id nfs4.Stateid) attempt) replayCase {
		x := ready(op, name, func(g *replayRig) attempt {
			fh, res := g.file("f", nfs4.ShareAccessBoth|nfs4.WantWriteDeleg)
			if res.Delegation.Type != nfs4.DelegateWrite {
				g.t.Fatalf("delegation %+v", res.Delegation)
			}
			return fn(g, fh, res.Delegation.Stateid)
		})
		x.flags = back
		return x
	}
	cur := func(op nfs4.OpNum, name string, claim nfs4.OpenClaim, at func(g *replayRig, fh nfs4.FH) nfs4.FH) replayCase {
		return held(op, name, func(g *replayRig, fh nfs4.FH, id nfs4.Stateid) attempt {
			a, res := openArgs("another", "", nfs4.ShareAccessBoth), &nfs4.OpenRes{}
			a.Claim = claim
			a.Claim.DelegStateid = id
			return attempt{
				ops:  []client.Op{putFH(at(g, fh)), openOp(a, res)},
				then: func() []client.Op { return []client.Op{putFH(fh), closeOp(res.Stateid)} },
			}
		})
	}
	return []replayCase{
		held(nfs4.OpDelegReturn, "", func(_ *replayRig, fh nfs4.FH, id nfs4.Stateid) attempt {
			return attempt{ops: []client.Op{putFH(fh), delegReturn(id)}}
		}),
		cur(nfs4.OpOpen, "claim delegate cur", nfs4.OpenClaim{Type: nfs4.ClaimDelegateCur, Name: []byte("f")},
			func(g *replayRig, _ nfs4.FH) nfs4.FH { return g.dir }),
		cur(nfs4.OpOpen, "claim deleg cur fh", nfs4.OpenClaim{Type: nfs4.ClaimDelegCurFH},
			func(_ *replayRig, fh nfs4.FH) nfs4.FH { return fh }),
	}
}

func sessionCases() []replayCase {
	exchange := func(owner []byte, verf nfs4.Verifier) client.Op {
		return client.Op{Num: nfs4.OpExchangeID, Args: &nfs4.ExchangeIDArgs{ClientOwner: nfs4.ClientOwner{OwnerID: owner, Verifier: verf}}, Res: &nfs4.ExchangeIDRes{}}
	}
	next := func(g *replayRig, res *nfs4.CreateSessionRes) client.Op {
		a := g.sessionArgs(4)
		a.Sequence++
		return client.Op{Num: nfs4.OpCreateSession, Args: a, Res: res}
	}
	drop := func(id nfs4.SessionID) client.Op {
		return client.Op{Num: nfs4.OpDestroySession, Args: &nfs4.DestroySessionArgs{SessionID: id}, Res: &nfs4.DestroySessionRes{}}
	}
	leave := func(id nfs4.ClientID) client.Op {
		return client.Op{Num: nfs4.OpDestroyClientID, Args: &nfs4.DestroyClientIDArgs{ClientID: id}, Res: &nfs4.DestroyClientIDRes{}}
	}
	second := func(g *replayRig) nfs4.SessionID {
		res := &nfs4.CreateSessionRes{}
		g.do(next(g, res))
		return res.SessionID
	}
	stranger := func(g *replayRig) nfs4.ClientID {
		op := exchange(append([]byte("stranger"), g.owner...), nfs4.Verifier{})
		g.do(op)
		return op.Res.(*nfs4.ExchangeIDRes).ClientID
	}
	in := func(op nfs4.OpNum, name string, fn func(g *replayRig) attempt) replayCase {
		return replayCase{op: op, name: name, make: fn}
	}
	return []replayCase{
		in(nfs4.OpReclaimComplete, "", func(*replayRig) attempt { return attempt{ops: []client.Op{reclaimComplete()}} }),
		in(nfs4.OpBackchannelCtl, "", func(*replayRig) attempt {
			return attempt{ops: []client.Op{{Num: nfs4.OpBackchannelCtl, Args: &nfs4.BackchannelCtlArgs{
				CBProgram: 7, SecParms: []nfs4.CallbackSecParms{{}},
			}, Res: &nfs4.BackchannelCtlRes{}}}}
		}),
		in(nfs4.OpExchangeID, "in a session", func(g *replayRig) attempt {
			return attempt{ops: []client.Op{exchange(g.owner, g.verf)}}
		}),
		in(nfs4.OpExchangeID, "in a session, for a new client", func(g *replayRig) attempt {
			return attempt{ops: []client.Op{exchange(append([]byte("new"), g.owner...), g.verf)}}
		}),
		in(nfs4.OpExchangeID, "alone", func(g *replayRig) attempt {
			return attempt{ops: []client.Op{exchange(g.owner, g.verf)}, alone: true}
		}),
		in(nfs4.OpCreateSession, "in a session", func(g *replayRig) attempt {
			return attempt{ops: []client.Op{next(g, &nfs4.CreateSessionRes{})}}
		}),
		in(nfs4.OpCreateSession, "alone", func(g *replayRig) attempt {
			return attempt{ops: []client.Op{next(g, &nfs4.CreateSessionRes{})}, alone: true}
		}),
		in(nfs4.OpDestroySession, "in another session", func(g *replayRig) attempt {
			return attempt{ops: []client.Op{drop(second(g))}}
		}),
		in(nfs4.OpDestroySession, "alone", func(g *replayRig) attempt {
			return attempt{ops: []client.Op{drop(second(g))}, alone: true, again: nfs4.ErrBadSession}
		}),
		in(nfs4.OpDestroyClientID, "in a session", func(g *replayRig) attempt {
			return attempt{ops: []client.Op{leave(stranger(g))}}
		}),
		in(nfs4.OpDestroyClientID, "alone", func(g *replayRig) attempt {
			return attempt{ops: []client.Op{leave(stranger(g))}, alone: true, again: nfs4.ErrStaleClientID}
		}),
		in(nfs4.OpBindConnToSession, "alone", func(g *replayRig) attempt {
			return attempt{ops: []client.Op{{Num: nfs4.OpBindConnToSession, Args: &nfs4.BindConnToSessionArgs{
				SessionID: g.sess.SessionID, Dir: nfs4.BindForeOrBoth,
			}, Res: &nfs4.BindConnToSessionRes{}}}, alone: true}
		}),
	}
}
