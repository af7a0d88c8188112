package script_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"manifold/xdr"
	nfs "manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

// client is one actor: what a mount is, with the files that it has open.
type client struct {
	s    *story
	name string
	cfg  nfs.Config
	nfs  *nfs.Client
	cred rpc.Cred

	mu     sync.Mutex
	opens  map[string]*open
	ds     map[string]*nfs.Client // by address
	policy string                 // of recalls
	hush   chan struct{}          // closed when an ignored recall need not be ignored any more
	log    []string               // of recalls
	known  map[string]bool        // those that are in the log, or were
	asked  int                    // how many recalls came
	claims chan chan string       // "reclaim" puts in where the answer goes
	work   sync.WaitGroup         // layouts being returned
}

// open is one file that a client has open.
type open struct {
	path         string
	fh           nfs4.FH
	id           nfs4.Stateid
	access, deny uint32
	locks        map[string]*lock // by lock-owner
	plan         *plan            // the layout, or nil
	old          *plan            // the last one that a data server refused
	end          uint64           // how far it was written and not LAYOUTCOMMITted
}

// mount makes a client, or the next incarnation of one that died.
func (s *story) mount(a args) string {
	name := a.word(1)
	if old := s.clients[name]; old != nil {
		old.end()
	}
	uid := uint32(a.num("uid", 0))
	c := &client{
		s: s, name: name, opens: map[string]*open{}, ds: map[string]*nfs.Client{}, policy: "return", known: map[string]bool{},
		hush: make(chan struct{}), claims: make(chan chan string, 1),
		cred: rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{Machine: name, UID: uid, GID: uid}},
	}
	c.cfg = nfs.Config{
		Owner: []byte(name), Cred: rpc.Cred{Flavor: rpc.AuthSys, Sys: rpc.SysCred{Machine: name}}, Minor: 2,
		Renew: time.Second, Callback: c.callback, Reclaim: c.reclaimHook,
	}
	if a.has("quiet") {
		c.cfg.Renew = time.Hour
	}
	rand.Read(c.cfg.Verifier[:])
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	c.nfs, err = nfs.Dial(ctx, s.cluster.cfg.Listen, c.cfg)
	check(err)
	s.clients[name] = c
	return "ok"
}

// end closes all connections without a word: for a server, the client died.
func (c *client) end() {
	dead, cancel := context.WithCancel(context.Background())
	cancel()
	c.mu.Lock()
	c.unhush()
	c.mu.Unlock()
	c.nfs.Close(dead)
	for _, d := range c.ds {
		d.Close(dead)
	}
	c.work.Wait()
}

// act runs a command of the client's.
func (c *client) act(a args) string {
	verbs := map[string]func(args) string{
		"mkdir": c.mkdir, "remove": c.remove, "rename": c.rename, "stat": c.stat, "ls": c.list,
		"create": c.create, "open": c.open, "close": c.close, "truncate": c.truncate,
		"write": c.write, "read": c.read,
		"layoutget": c.layoutGet, "layoutcommit": c.layoutCommit, "layoutreturn": c.layoutReturn,
		"lock": c.lock, "unlock": c.unlock, "testlock": c.testLock,
		"reclaim": c.reclaim,
	}
	if f := verbs[a.word(0)]; f != nil {
		return f(a)
	}
	switch a.word(0) {
	case "die":
		c.end()
	case "cut":
		dead, cancel := context.WithCancel(context.Background())
		cancel()
		c.nfs.Close(dead)
	case "leave":
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		check(c.nfs.Close(ctx))
		c.end()
	default:
		panic(broken{fmt.Errorf("no command %q", a.word(0))})
	}
	return "ok"
}

// status is what became of a compound; an error that is no status breaks the story.
func status(err error) nfs4.Status {
	var oe *nfs.OpError
	switch {
	case err == nil:
		return nfs4.OK
	case errors.As(err, &oe):
		return oe.Status
	}
	panic(broken{err})
}

// try runs one compound.
func (c *client) try(ops ...nfs.Op) nfs4.Status {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return status(c.nfs.Compound(ctx, c.cred, ops...))
}

// ask runs a compound as the kernel does: again while the server says so,
// unless the command says once.
func (c *client) ask(a args, ops ...nfs.Op) (s nfs4.Status) {
	later := []nfs4.Status{nfs4.ErrDelay, nfs4.ErrGrace, nfs4.ErrLayoutTryLater, nfs4.ErrRecallConflict, nfs4.ErrReturnConflict}
	eventually("an answer that is not to come back later", func() bool {
		s = c.try(ops...)
		return a.has("once") || !slices.Contains(later, s)
	})
	return s
}

// say is a status as a story reads it.
func say(s nfs4.Status) string {
	if s == nfs4.OK {
		return "ok"
	}
	return s.String()
}

// file returns one that is open.
func (c *client) file(path string) *open {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.opens[path]
	if o == nil {
		panic(broken{fmt.Errorf("%s has not opened %s", c.name, path)})
	}
	return o
}

// answerRecalls sets what is said to recalls from now on.
func (c *client) answerRecalls(policy string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.policy = policy
	c.unhush()
	c.hush = make(chan struct{})
}

func (c *client) unhush() {
	select {
	case <-c.hush:
	default:
		close(c.hush)
	}
}

// event notes what happened. mu is held.
func (c *client) event(format string, args ...any) {
	c.log = append(c.log, c.name+": "+fmt.Sprintf(format, args...))
}

// recalled notes a recall, once for all times that it is sent. mu is held.
func (c *client) recalled(format string, args ...any) {
	text := fmt.Sprintf("recall of "+format, args...)
	if !c.known[text] {
		c.known[text] = true
		c.event("%s", text)
	}
}

func (c *client) takeEvents() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	log := c.log
	c.log, c.asked = nil, 0
	return log
}

func (c *client) wasRecalled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked > 0
}

// callback answers CB_LAYOUTRECALL by the policy.
func (c *client) callback(ctx context.Context, op nfs4.CBOpNum, d *xdr.Decoder, _ *xdr.Encoder) nfs4.Status {
	if op != nfs4.CBLayoutRecall {
		return nfs4.ErrNotSupp
	}
	var a nfs4.CBLayoutRecallArgs
	a.DecodeXDR(d)
	if a.Recall.Kind != nfs4.LayoutReturnFile {
		return nfs4.ErrNotSupp
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	var of *open
	for _, o := range c.opens {
		if string(o.fh) == string(a.Recall.FH) {
			of = o
		}
	}
	if of == nil || of.plan == nil {
		c.recalled("%s, of which there is no layout", c.pathOf(of))
		return nfs4.ErrNoMatchingLayout
	}
	c.recalled("%s %s, %s", of.path, c.s.names.stateid("l", a.Recall.Stateid), c.policy)
	switch c.policy {
	case "forget":
		of.plan = nil
		return nfs4.ErrNoMatchingLayout
	case "delay":
		return nfs4.ErrDelay
	case "ignore":
		hush := c.hush
		c.mu.Unlock()
		defer c.mu.Lock()
		select {
		case <-hush:
		case <-ctx.Done():
		}
		return nfs4.ErrDelay
	}
	id, end := a.Recall.Stateid, of.end
	if end > 0 {
		c.event("commits %s to %s", bytesOf(end), of.path)
	}
	c.event("returns %s", c.s.names.stateid("l", id))
	of.plan, of.end = nil, 0
	c.work.Go(func() { c.giveBack(of.fh, id, end) })
	return nfs4.OK
}

func (c *client) pathOf(o *open) string {
	if o == nil {
		return "a file that is not open"
	}
	return o.path
}

// giveBack is what follows on a recall: LAYOUTCOMMIT, LAYOUTRETURN.
func (c *client) giveBack(fh nfs4.FH, id nfs4.Stateid, end uint64) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case broken:
			c.mu.Lock()
			defer c.mu.Unlock()
			c.event("BROKEN: %v", p)
		default:
			panic(p)
		}
	}()
	if end > 0 {
		c.ask(args{}, putFH(fh), layoutCommitOp(id, end))
	}
	c.ask(args{}, putFH(fh), layoutReturnOp(id, nfs4.IOModeAny, &nfs4.LayoutReturnRes{}))
}

// The operations.

func putFH(fh nfs4.FH) nfs.Op {
	return nfs.Op{Num: nfs4.OpPutFH, Args: &nfs4.PutFHArgs{Object: fh}}
}

func getFH(r *nfs4.GetFHRes) nfs.Op { return nfs.Op{Num: nfs4.OpGetFH, Res: r} }

func getattr(r *nfs4.GetattrRes, attrs ...nfs4.Attr) nfs.Op {
	return nfs.Op{Num: nfs4.OpGetattr, Args: &nfs4.GetattrArgs{AttrRequest: nfs4.BitmapOf(attrs...)}, Res: r}
}

// walk is the operations that make the file or directory at a path current.
func walk(path string) []nfs.Op {
	ops := []nfs.Op{{Num: nfs4.OpPutRootFH}}
	for part := range strings.SplitSeq(path, "/") {
		if part != "" {
			ops = append(ops, nfs.Op{Num: nfs4.OpLookup, Args: &nfs4.LookupArgs{ObjName: []byte(part)}})
		}
	}
	return ops
}

// parent is walk to the directory that a path is in, and the name there.
func parent(path string) ([]nfs.Op, []byte) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		panic(broken{fmt.Errorf("%q does not begin with /", path)})
	}
	return walk(path[:i]), []byte(path[i+1:])
}
