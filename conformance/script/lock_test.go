package script_test

import (
	"context"
	"fmt"

	nfs "manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// lock is one lock-owner's locks of one file.
type lock struct {
	id   nfs4.Stateid
	held []args // the commands, for reclaim
}

func lockType(word string) nfs4.LockType {
	if share(word) == nfs4.ShareAccessRead {
		return nfs4.LockRead
	}
	return nfs4.LockWrite
}

// denied is a lock in the way. Lock-owners' names say whose it is.
func denied(d nfs4.LockDenied) string {
	kind, length := "write", bytesOf(d.Length)
	if d.LockType == nfs4.LockRead {
		kind = "read"
	}
	if d.Length == nfs4.LengthToEnd {
		length = "end"
	}
	return fmt.Sprintf("denied by %s's %s lock of %d+%s", d.Owner.Owner, kind, d.Offset, length)
}

func (c *client) lock(a args) string {
	o := c.file(a.word(1))
	owner := c.name + a.str("owner", "")
	op, r := c.lockOp(o, owner, a, false)
	switch s := c.ask(a, putFH(o.fh), op); s {
	case nfs4.OK:
		c.mu.Lock()
		defer c.mu.Unlock()
		if o.locks[owner] == nil {
			o.locks[owner] = &lock{}
		}
		o.locks[owner].id = r.LockStateid
		o.locks[owner].held = append(o.locks[owner].held, a)
		return c.s.names.stateid("k", r.LockStateid)
	case nfs4.ErrDenied:
		return denied(r.Denied)
	default:
		return say(s)
	}
}

func (c *client) lockOp(o *open, owner string, a args, reclaim bool) (nfs.Op, *nfs4.LockRes) {
	r := &nfs4.LockRes{}
	args := &nfs4.LockArgs{
		LockType: lockType(a.word(2)), Reclaim: reclaim, Offset: a.num("off", 0), Length: a.num("len", nfs4.LengthToEnd),
	}
	if l := o.locks[owner]; l != nil && !reclaim {
		args.Locker.LockStateid = l.id
	} else {
		args.Locker = nfs4.Locker{NewLockOwner: true, OpenStateid: o.id, Owner: nfs4.LockOwner{Owner: []byte(owner)}}
	}
	return nfs.Op{Num: nfs4.OpLock, Args: args, Res: r}, r
}

func (c *client) unlock(a args) string {
	o := c.file(a.word(1))
	l := o.locks[c.name+a.str("owner", "")]
	if l == nil {
		return "not locked"
	}
	var r nfs4.LockURes
	s := c.ask(a, putFH(o.fh), nfs.Op{Num: nfs4.OpLockU, Args: &nfs4.LockUArgs{
		LockType: nfs4.LockWrite, LockStateid: l.id, Offset: a.num("off", 0), Length: a.num("len", nfs4.LengthToEnd),
	}, Res: &r})
	if s == nfs4.OK {
		c.mu.Lock()
		defer c.mu.Unlock()
		l.id, l.held = r.LockStateid, nil
		return c.s.names.stateid("k", l.id)
	}
	return say(s)
}

func (c *client) testLock(a args) string {
	o := c.file(a.word(1))
	var r nfs4.LockTRes
	s := c.ask(a, putFH(o.fh), nfs.Op{Num: nfs4.OpLockT, Args: &nfs4.LockTArgs{
		LockType: lockType(a.word(2)), Offset: a.num("off", 0), Length: a.num("len", nfs4.LengthToEnd),
		Owner: nfs4.LockOwner{Owner: []byte(c.name + a.str("owner", ""))},
	}, Res: &r})
	switch s {
	case nfs4.OK:
		return "free"
	case nfs4.ErrDenied:
		return denied(r.Denied)
	}
	return say(s)
}

// reclaim takes back, after the metadata server's restart, what the client had:
// opens and locks. Layouts are not reclaimed; they are void.
func (c *client) reclaim(args) string {
	answer := make(chan string, 1)
	c.claims <- answer
	if s := c.try(); s != nfs4.OK { // finds the session lost, which has reclaimHook run
		return say(s)
	}
	select {
	case text := <-answer:
		return text
	default:
		<-c.claims
		return "nothing was lost"
	}
}

// reclaimHook runs when the client has got a new client id.
func (c *client) reclaimHook(ctx context.Context, send func(...nfs.Op) error) error {
	c.mu.Lock()
	n := len(c.opens)
	c.mu.Unlock()
	if n == 0 {
		return nil
	}
	select {
	case answer := <-c.claims:
		answer <- c.reclaimAll(send)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *client) reclaimAll(send func(...nfs.Op) error) (text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case broken:
			text = "BROKEN: " + p.Error()
		default:
			panic(p)
		}
	}()
	for _, path := range sortedKeys(c.opens) {
		o := c.opens[path]
		o.plan = nil
		var r nfs4.OpenRes
		err := send(putFH(o.fh), nfs.Op{Num: nfs4.OpOpen, Args: &nfs4.OpenArgs{
			ShareAccess: o.access, ShareDeny: o.deny, Owner: nfs4.OpenOwner{Owner: []byte("owner of " + path)},
			Claim: nfs4.OpenClaim{Type: nfs4.ClaimPrevious},
		}, Res: &r})
		if s := status(err); s != nfs4.OK {
			text += fmt.Sprintf("%s %s\n", path, say(s))
			continue
		}
		o.id = r.Stateid
		text += fmt.Sprintf("%s %s\n", path, c.s.names.stateid("o", o.id))
		for _, owner := range sortedKeys(o.locks) {
			for _, a := range o.locks[owner].held {
				op, r := c.lockOp(o, owner, a, true)
				s := status(send(putFH(o.fh), op))
				if s == nfs4.OK {
					o.locks[owner].id = r.LockStateid
				}
				text += fmt.Sprintf("%s %s's lock %s\n", path, owner, say(s))
			}
		}
	}
	return text + "RECLAIM_COMPLETE"
}
