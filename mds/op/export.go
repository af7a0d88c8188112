package op

import (
	"context"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/xdr"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// Squash says who is made anonymous.
type Squash uint8

// The values of Squash: nobody; uid and gid 0; everybody.
const (
	SquashNone Squash = iota
	SquashRoot
	SquashAll
)

// ExportRule says what clients at some addresses may do with an export. Of an
// export's rules the first that is for an address counts; an address that none
// is for may not use the export.
//
// Such a client is refused with NFS4ERR_ACCESS by every operation on a file, but
// not by those that give back what it has. PUTFH and PUTROOTFH succeed: RFC 8881
// (section 15.2) does not let them refuse for want of access, and a client whose
// handles were called stale would throw away what it may get back.
//
// Data servers know no rules: what they are shown is a handle that says what may
// be done with it (layout.Capability), and is good for one client. A client for
// which the export is read-only gets layouts to read, whose handles no WRITE is
// taken with, and none to write. Rules are read at the start, and a client that
// a new rule deprives keeps its earlier handles until it has reclaimed, or grace
// is over: then client ids from before the start are fenced.
type ExportRule struct {
	// Clients are the addresses that it is for. None: all.
	Clients []netip.Prefix
	// ReadOnly refuses whatever changes files, with NFS4ERR_ROFS.
	ReadOnly bool
	// Squash replaces uids and gids by AnonUID and AnonGID, before any
	// permission is checked: SquashRoot those that are 0, supplementary ones too.
	Squash           Squash
	AnonUID, AnonGID uint32
	// Sec are the ways to authenticate that are taken, best first. None: SecSys.
	Sec []Sec
}

// Nobody is the uid and gid of callers without a credential, and customary
// for anonymous ones.
const Nobody = 65534

// covers says whether the rule is for an address.
func (r *ExportRule) covers(a netip.Addr) bool {
	if len(r.Clients) == 0 {
		return true
	}
	a = a.WithZone("") // no prefix contains an address with a zone
	for i := range r.Clients {
		if r.Clients[i].Contains(a) {
			return true
		}
	}
	return false
}

// match returns the rule for an address, nil if there is none.
func match(rules []ExportRule, a netip.Addr) *ExportRule {
	for i := range rules {
		if rules[i].covers(a) {
			return &rules[i]
		}
	}
	return nil
}

// squash returns who is meant by who.
func (r *ExportRule) squash(who ns.Cred) ns.Cred {
	switch r.Squash {
	case SquashAll:
		return ns.Cred{UID: r.AnonUID, GID: r.AnonGID}
	case SquashRoot:
		if who.UID == 0 {
			who.UID = r.AnonUID
		}
		if who.GID == 0 {
			who.GID = r.AnonGID
		}
		if slices.Contains(who.GIDs, 0) {
			who.GIDs = slices.Clone(who.GIDs) // the call's, or a cache's
			for i, g := range who.GIDs {
				if g == 0 {
					who.GIDs[i] = r.AnonGID
				}
			}
		}
	}
	return who
}

// place is a file as a call came to it: by what rule of its export, nil if
// there is none for the caller's address, and as whom.
type place struct {
	layout.Handle
	rule *ExportRule
	cred ns.Cred
	late bool // it is not known yet as whom
}

// arrive makes the file of a handle the current one. The rule is looked up at
// the first file of a COMPOUND that is of its volume.
func (o *Ops) arrive(c *compound.Call, fh nfs4.FH, h layout.Handle) {
	p := &place{Handle: h}
	if from, ok := c.File.(*place); ok && from.Volume == h.Volume {
		p.rule, p.cred, p.late = from.rule, from.cred, from.late
	} else if p.rule = match(o.cfg.Exports, c.Remote.Addr()); p.rule != nil {
		who, ok := o.identity(c)
		p.cred, p.late = p.rule.squash(who), !ok
	}
	c.SetFH(fh, p)
}

// identity is who calls by the credential: nobody without one. False: it is not
// known at the moment.
func (o *Ops) identity(c *compound.Call) (ns.Cred, bool) {
	nobody := ns.Cred{UID: Nobody, GID: Nobody}
	switch {
	case c.Cred.Flavor == rpc.AuthGSS && o.Users != nil:
		who, ok := o.Users(c.Cred.GSS.Principal)
		if !ok {
			who = nobody
		}
		return who, ok
	case c.Cred.Flavor != rpc.AuthSys:
		return nobody, true
	}
	who := ns.Cred{UID: c.Cred.Sys.UID, GID: c.Cred.Sys.GID, GIDs: c.Cred.Sys.GIDs}
	if o.Groups != nil {
		if gids, ok := o.Groups(who.UID); ok {
			who.GIDs = gids
		}
	}
	return who, true
}

// cred is who calls, as far as the current file's export is concerned.
func cred(c *compound.Call) ns.Cred {
	if p, ok := c.File.(*place); ok && p.rule != nil {
		return p.cred
	}
	return ns.Cred{UID: Nobody, GID: Nobody}
}

// here and saved are the current and the saved file. The table's flags see to
// it that there is one.
func here(c *compound.Call) layout.Handle { return c.File.(*place).Handle }

func saved(c *compound.Call) layout.Handle { return c.SavedFile.(*place).Handle }

// readOnly says whether the current file's export is read-only to the caller.
func readOnly(c *compound.Call) bool {
	p, ok := c.File.(*place)
	return ok && p.rule != nil && p.rule.ReadOnly
}

// exported puts the rules of exports before the operations of a table. OPEN,
// ACCESS and LAYOUTGET see to a read-only export themselves: it is a part of
// what they do that it forbids.
func (o *Ops) exported(t compound.Table) compound.Table {
	for num, row := range t {
		run := row.Run
		switch num {
		case nfs4.OpPutFH, nfs4.OpPutRootFH, nfs4.OpPutPubFH:
			row.Run = func(ctx context.Context, c *compound.Call, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
				if s := run(ctx, c, d, e); s != nfs4.OK {
					return s
				}
				return secured(c, follower(d))
			}
		case nfs4.OpSecinfo, nfs4.OpSecinfoNoName: // which tell what to do better
			row.Run = func(ctx context.Context, c *compound.Call, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
				if s := o.addressed(c); s != nfs4.OK {
					return s
				}
				return run(ctx, c, d, e)
			}
		case nfs4.OpClose, nfs4.OpOpenDowngrade, nfs4.OpLockU, nfs4.OpDelegReturn, nfs4.OpLayoutReturn:
			continue // who gives back is never refused
		case nfs4.OpSetattr, nfs4.OpCreate, nfs4.OpRemove, nfs4.OpRename, nfs4.OpLink, nfs4.OpSetXattr,
			nfs4.OpRemoveXattr, nfs4.OpWrite, nfs4.OpLayoutCommit:
			row.Run = func(ctx context.Context, c *compound.Call, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
				s := o.admitted(c, num)
				switch {
				case s != nfs4.OK:
					return s
				case readOnly(c):
					return nfs4.ErrROFS
				}
				return run(ctx, c, d, e)
			}
		case nfs4.OpGetDeviceInfo:
			row.Run = func(ctx context.Context, c *compound.Call, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
				if match(o.cfg.Exports, c.Remote.Addr()) == nil {
					return nfs4.ErrNoEnt // it has no layout that this could be of
				}
				return run(ctx, c, d, e)
			}
		default:
			if row.Flags&compound.NeedsFH == 0 {
				continue
			}
			row.Run = func(ctx context.Context, c *compound.Call, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
				if s := o.admitted(c, num); s != nfs4.OK {
					return s
				}
				return run(ctx, c, d, e)
			}
		}
		t[num] = row
	}
	return t
}

// admitted says whether the caller may do an operation on the current file, as
// far as the file's export is concerned: NFS4ERR_ACCESS for an address that may
// not use it, NFS4ERR_WRONGSEC for a way to authenticate that is not taken,
// NFS4ERR_DELAY while it is not known who calls.
func (o *Ops) admitted(c *compound.Call, num nfs4.OpNum) nfs4.Status {
	if s := o.addressed(c); s != nfs4.OK || c.Machine(num) {
		return s
	}
	return secured(c, nfs4.OpIllegal)
}

// addressed is NFS4ERR_ACCESS if the caller's address may not use the current
// file's export.
func (o *Ops) addressed(c *compound.Call) nfs4.Status {
	if c.File.(*place).rule != nil {
		return nfs4.OK
	}
	if o.refusals.due(c.Now) {
		o.Log.Warn("client may not use the export: no rule is for its address", zap.Stringer("address", c.Remote.Addr()))
	}
	return nfs4.ErrAccess
}

// refusalPause is how long the log is spared another line on refused clients.
const refusalPause = 10 * time.Second

// sparse lets something happen once in refusalPause.
type sparse struct{ last atomic.Int64 }

func (s *sparse) due(now time.Time) bool {
	last := s.last.Load()
	return (last == 0 || now.UnixNano()-last >= int64(refusalPause)) && s.last.CompareAndSwap(last, now.UnixNano())
}
