package op

import (
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// Table returns the rows of a data server. The engine adds those of sessions;
// all else is NFS4ERR_NOTSUPP.
func (o *Ops) Table() compound.Table {
	return compound.Table{
		nfs4.OpPutFH:   {Name: "PUTFH", Flags: compound.ClearsStateid, Minors: compound.V41Up, Run: compound.Args(o.putFH)},
		nfs4.OpGetattr: {Name: "GETATTR", Flags: compound.NeedsFH, Minors: compound.V41Up, ReplyMax: getattrReply, Run: compound.Handle(o.getattr)},
		nfs4.OpRead:    {Name: "READ", Flags: compound.NeedsFH, Minors: compound.V41Up, Run: o.read},
		nfs4.OpWrite:   {Name: "WRITE", Flags: compound.NeedsFH | compound.Modifies, Minors: compound.V41Up, ReplyMax: writeReply, Run: compound.Handle(o.write)},
		nfs4.OpCommit:  {Name: "COMMIT", Flags: compound.NeedsFH | compound.Modifies, Minors: compound.V41Up, ReplyMax: commitReply, Run: compound.Handle(o.commit)},

		nfs4.OpAllocate:   {Name: "ALLOCATE", Flags: compound.NeedsFH | compound.Modifies, Minors: compound.V42, Run: compound.Args(o.allocate)},
		nfs4.OpDeallocate: {Name: "DEALLOCATE", Flags: compound.NeedsFH | compound.Modifies, Minors: compound.V42, Run: compound.Args(o.deallocate)},
		nfs4.OpSeek:       {Name: "SEEK", Flags: compound.NeedsFH, Minors: compound.V42, ReplyMax: seekReply, Run: compound.Handle(o.seek)},
	}
}

// The bodies of results, in bytes.
const (
	readReply    = 4 + 4     // READ4resok without data: eof, count
	writeReply   = 4 + 4 + 8 // WRITE4resok: count, committed, verifier
	commitReply  = 8         // COMMIT4resok: verifier
	seekReply    = 4 + 8     // seek_res4: eof, offset
	getattrReply = 512       // GETATTR4resok with all that a data server has
)
