package op

import (
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// Bounds on results, bytes.
const (
	changeMax  = 20                                                // change_info4
	stateidMax = 16                                                // stateid4
	bitmapMax  = 16                                                // bitmap4 of three words
	delegMax   = 4 + stateidMax + 4 + 12 + 28                      // open_delegation4 to write, for EVERYONE@
	openMax    = stateidMax + changeMax + 4 + bitmapMax + delegMax // OPEN4resok
	deniedMax  = 8 + 8 + 4 + 8 + 4 + nfs4.MaxOpaque                // LOCK4denied
)

// Table is the metadata server's role. Session operations are the engine's.
func (o *Ops) Table() compound.Table {
	const (
		fh    = compound.NeedsFH
		both  = compound.NeedsFH | compound.NeedsSavedFH
		sets  = compound.ClearsStateid
		mod   = compound.Modifies
		minor = compound.V41Up
	)
	return o.exported(compound.Table{
		nfs4.OpPutFH:         {Name: "PUTFH", Flags: sets, Minors: minor, Run: compound.Args(o.putfh)},
		nfs4.OpPutRootFH:     {Name: "PUTROOTFH", Flags: sets, Minors: minor, Run: compound.Void(o.putrootfh)},
		nfs4.OpPutPubFH:      {Name: "PUTPUBFH", Flags: sets, Minors: minor, Run: compound.Void(o.putrootfh)},
		nfs4.OpLookup:        {Name: "LOOKUP", Flags: fh | sets, Minors: minor, Run: compound.Args(o.lookup)},
		nfs4.OpLookupP:       {Name: "LOOKUPP", Flags: fh | sets, Minors: minor, Run: compound.Void(o.lookupp)},
		nfs4.OpAccess:        {Name: "ACCESS", Flags: fh, Minors: minor, Run: compound.Handle(o.access)},
		nfs4.OpGetattr:       {Name: "GETATTR", Flags: fh, Minors: minor, Run: compound.Handle(o.getattr)},
		nfs4.OpSetattr:       {Name: "SETATTR", Flags: fh | mod, Minors: minor, ReplyMax: bitmapMax, Run: compound.Handle(o.setattr)},
		nfs4.OpVerify:        {Name: "VERIFY", Flags: fh, Minors: minor, Run: compound.Args(o.verify)},
		nfs4.OpNVerify:       {Name: "NVERIFY", Flags: fh, Minors: minor, Run: compound.Args(o.nverify)},
		nfs4.OpReadlink:      {Name: "READLINK", Flags: fh, Minors: minor, Run: compound.Handle(o.readlink)},
		nfs4.OpReaddir:       {Name: "READDIR", Flags: fh, Minors: minor, Run: compound.Handle(o.readdir)},
		nfs4.OpCreate:        {Name: "CREATE", Flags: fh | mod | sets, Minors: minor, ReplyMax: changeMax + bitmapMax, Run: compound.Handle(o.create)},
		nfs4.OpRemove:        {Name: "REMOVE", Flags: fh | mod, Minors: minor, ReplyMax: changeMax, Run: compound.Handle(o.remove)},
		nfs4.OpRename:        {Name: "RENAME", Flags: both | mod, Minors: minor, ReplyMax: 2 * changeMax, Run: compound.Handle(o.rename)},
		nfs4.OpLink:          {Name: "LINK", Flags: both | mod, Minors: minor, ReplyMax: changeMax, Run: compound.Handle(o.link)},
		nfs4.OpSecinfo:       {Name: "SECINFO", Flags: fh, Minors: minor, Run: compound.Handle(o.secinfo)},
		nfs4.OpSecinfoNoName: {Name: "SECINFO_NO_NAME", Flags: fh, Minors: minor, Run: compound.Handle(o.secinfoNoName)},

		nfs4.OpGetXattr:    {Name: "GETXATTR", Flags: fh, Minors: compound.V42, Run: compound.Handle(o.getxattr)},
		nfs4.OpSetXattr:    {Name: "SETXATTR", Flags: fh | mod, Minors: compound.V42, ReplyMax: changeMax, Run: compound.Handle(o.setxattr)},
		nfs4.OpListXattrs:  {Name: "LISTXATTRS", Flags: fh, Minors: compound.V42, Run: compound.Handle(o.listxattrs)},
		nfs4.OpRemoveXattr: {Name: "REMOVEXATTR", Flags: fh | mod, Minors: compound.V42, ReplyMax: changeMax, Run: compound.Handle(o.removexattr)},

		nfs4.OpOpen:          {Name: "OPEN", Flags: fh | mod, Minors: minor, ReplyMax: openMax, Run: compound.Handle(o.open)},
		nfs4.OpOpenDowngrade: {Name: "OPEN_DOWNGRADE", Flags: fh | mod, Minors: minor, ReplyMax: stateidMax, Run: compound.Handle(o.openDowngrade)},
		nfs4.OpClose:         {Name: "CLOSE", Flags: fh | mod, Minors: minor, ReplyMax: stateidMax, Run: compound.Handle(o.close)},
		nfs4.OpLock:          {Name: "LOCK", Flags: fh | mod, Minors: minor, ReplyMax: deniedMax, Run: compound.Handle(o.lock)},
		nfs4.OpLockT:         {Name: "LOCKT", Flags: fh, Minors: minor, Run: compound.Handle(o.lockt)},
		nfs4.OpLockU:         {Name: "LOCKU", Flags: fh | mod, Minors: minor, ReplyMax: stateidMax, Run: compound.Handle(o.locku)},
		nfs4.OpDelegReturn:   {Name: "DELEGRETURN", Flags: fh | mod, Minors: minor, Run: compound.Args(o.delegreturn)},
		nfs4.OpTestStateid:   {Name: "TEST_STATEID", Minors: minor, Run: compound.Handle(o.testStateid)},
		nfs4.OpFreeStateid:   {Name: "FREE_STATEID", Flags: mod, Minors: minor, Run: compound.Args(o.freeStateid)},

		nfs4.OpRead:   {Name: "READ", Flags: fh, Minors: minor, Run: o.read},
		nfs4.OpWrite:  {Name: "WRITE", Flags: fh | mod, Minors: minor, ReplyMax: 16, Run: compound.Handle(o.write)},
		nfs4.OpCommit: {Name: "COMMIT", Flags: fh | mod, Minors: minor, ReplyMax: 8, Run: compound.Handle(o.commit)},

		nfs4.OpAllocate:   {Name: "ALLOCATE", Flags: fh | mod, Minors: compound.V42, Run: compound.Args(o.allocate)},
		nfs4.OpDeallocate: {Name: "DEALLOCATE", Flags: fh | mod, Minors: compound.V42, Run: compound.Args(o.deallocate)},
		nfs4.OpSeek:       {Name: "SEEK", Flags: fh, Minors: compound.V42, Run: compound.Handle(o.seek)},

		nfs4.OpLayoutGet:     {Name: "LAYOUTGET", Flags: fh, Minors: minor, Run: compound.Handle(o.layoutget)},
		nfs4.OpLayoutCommit:  {Name: "LAYOUTCOMMIT", Flags: fh | mod, Minors: minor, ReplyMax: 12, Run: compound.Handle(o.layoutcommit)},
		nfs4.OpLayoutReturn:  {Name: "LAYOUTRETURN", Flags: mod, Minors: minor, ReplyMax: 4 + stateidMax, Run: compound.Handle(o.layoutreturn)},
		nfs4.OpGetDeviceInfo: {Name: "GETDEVICEINFO", Minors: minor, Run: compound.Handle(o.getdeviceinfo)},
		nfs4.OpGetDeviceList: {Name: "GETDEVICELIST", Flags: fh, Minors: minor, Run: compound.Handle(o.getdevicelist)},
	})
}
