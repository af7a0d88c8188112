package wire_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"manifold/xdr"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/gss"
	"manifold/xdr/rpc/gss/krb5"
	"manifold/xdr/rpc/gss/krb5/kdctest"
	"manifold/xdr/rpc/tcp"
)

// realm is a KDC with a service, two users of this machine, one that it does not
// know, and a client machine.
type realm struct {
	kdc    *kdctest.KDC
	server string // keytab
	keys   map[string]string
}

func newRealm(t testing.TB) *realm {
	t.Helper()
	r := &realm{kdc: kdctest.Start(t, "127.0.0.1:0"), keys: map[string]string{}}
	r.server = r.kdc.Keytab(t, "", "nfs/server.test")
	for _, name := range []string{"daemon", "bin", "stranger", "nfs/client.test"} {
		r.keys[name] = r.kdc.Keytab(t, "", name)
	}
	return r
}

// kerberos configures a cluster for clients of r.
func (r *realm) kerberos(c *mdsConfig) { c.Krb5Keytab, c.Krb5Realm = r.server, kdctest.Realm }

// login returns the credentials of a principal.
func (r *realm) login(t testing.TB, name string) *gss.Client {
	t.Helper()
	p, err := krb5.Login(r.kdc.Conf, name, r.keys[name])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return gss.NewClient(p.Initiate("server.test"))
}

// newPeerOf is newPeer with credentials of its own.
func (c *cluster) newPeerOf(t testing.TB, owner string, cred rpc.Cred, change func(*client.Config)) *peer {
	t.Helper()
	p := &peer{
		t: t, c: c, owner: t.Name() + "/" + owner, cred: cred, recalls: make(chan nfs4.CBLayoutRecallArgs, 1000), deleg: newDelegHooks(),
		ds: map[string]*client.Client{},
	}
	p.cfg = client.Config{Owner: []byte(p.owner), Cred: cred, Minor: 2, Callback: p.callback}
	if change != nil {
		change(&p.cfg)
	}
	p.dial()
	t.Cleanup(p.close)
	return p
}

// with is p with another credential.
func (p *peer) with(cred rpc.Cred) *peer {
	q := p.as(0, 0)
	q.cred = cred
	return q
}

// TestKerberos does everything by Kerberos, at each service: who one is, what
// one may, the way to the data servers, and a restart of both servers.
func TestKerberos(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	for name, service := range map[string]rpc.Service{"krb5": rpc.ServiceNone, "krb5i": rpc.ServiceIntegrity, "krb5p": rpc.ServicePrivacy} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2, r.kerberos, exports(t, "sec="+name))
			root := c.newPeerOf(t, "m", r.login(t, "nfs/client.test").Cred(service), nil)
			dir := root.dir()
			daemon, bin := root.with(r.login(t, "daemon").Cred(service)), root.with(r.login(t, "bin").Cred(service))
			stranger := root.with(r.login(t, "stranger").Cred(service))
			for who, p := range map[string]*peer{"0": root, "1": daemon, "2": bin, "65534": stranger} {
				if got := p.owners(p.create(dir, who).fh); got[0] != who {
					t.Errorf("the file of %s belongs to %v", who, got)
				}
			}
			f := daemon.create(dir, "private")
			daemon.must(putFH(f.fh), setattr(nfs4.Stateid{}, mode(0o600)))
			bin.want(nfs4.ErrAccess, putFH(dir), openOp(openArgs("b", "private", nfs4.ShareAccessRead), &nfs4.OpenRes{}))

			data := pattern(3, 3<<20+17)
			pl := f.layout(nfs4.IOModeRW)
			pl.write(0, data)
			pl.commit(uint64(len(data)))
			sameBytes(t, "from the data servers", pl.readAll(0, len(data), uint64(len(data))), data)
			sameBytes(t, "from the metadata server", f.read(0, len(data)), data)
			f.write(5, []byte("xyz"), nfs4.FileSync)
			copy(data[5:], "xyz")
			// A restart forgets the security contexts.
			c.restartMDS()
			daemon.must(putFH(dir), lookup("private"))
			sameBytes(t, "after a restart", daemon.open(dir, "private", nfs4.ShareAccessRead).read(0, len(data)), data)
		})
	}
}

// TestWrongSec: an export takes what its rule says, and SECINFO says the same
// (RFC 8881 section 2.6.3.1).
func TestWrongSec(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	c := newCluster(t, 1, r.kerberos, exports(t, "sec=krb5p:krb5i"))
	m := r.login(t, "nfs/client.test")
	p := c.newPeerOf(t, "m", m.Cred(rpc.ServiceIntegrity), nil)
	dir := p.dir()
	f := p.create(dir, "f")
	var fh nfs4.GetFHRes
	weak := map[string]*peer{"sys": p.as(0, 0), "none": p.with(rpc.Cred{}), "krb5": p.with(m.Cred(rpc.ServiceNone))}
	for name, q := range weak {
		var got nfs4.SecinfoNoNameRes
		q.must(putRoot(), client.Op{Num: nfs4.OpSecinfoNoName, Args: &nfs4.SecinfoNoNameArgs{}, Res: &got})
		var also nfs4.SecinfoRes
		q.must(putFH(dir), client.Op{Num: nfs4.OpSecinfo, Args: &nfs4.SecinfoArgs{Name: []byte("f")}, Res: &also})
		for _, list := range [][]nfs4.SecFlavor{got.Flavors, also.Flavors} {
			if len(list) != 2 || list[0].Flavor != nfs4.SecFlavorGSS || string(list[0].GSS.OID) != krb5.OID ||
				list[0].GSS.Service != 3 || list[1].GSS.Service != 2 {
				t.Errorf("%s: SECINFO tells %+v", name, list)
			}
		}
		for _, ops := range [][]client.Op{
			{putRoot(), getFH(&fh)}, {putFH(f.fh), getattr(&nfs4.GetattrRes{}, nfs4.AttrSize)},
			{putRoot(), lookup("x")}, {putFH(dir), saveFH(), getFH(&fh)}, {putFH(f.fh), readOp(f.id, 0, 1, &nfs4.ReadRes{})},
			{putFH(dir), openOp(openArgs("w", "f", nfs4.ShareAccessRead), &nfs4.OpenRes{})},
			{putFH(dir), saveFH(), putFH(dir), rename("f", "g")}, {putFH(f.fh), writeOp(f.id, 0, []byte("x"), nfs4.FileSync, &nfs4.WriteRes{})},
		} {
			q.want(nfs4.ErrWrongSec, ops...)
		}
		q.want(nfs4.OK, putFH(dir), putFH(f.fh)) // nothing is done with it
	}
	// Which operation fails: the one that puts the file, unless the next one can.
	for _, x := range []struct {
		n   int
		ops []client.Op
	}{
		{2, []client.Op{putFH(dir), getattr(&nfs4.GetattrRes{}, nfs4.AttrSize)}},
		{2, []client.Op{putFH(dir), saveFH(), getattr(&nfs4.GetattrRes{}, nfs4.AttrSize)}},
		{3, []client.Op{putFH(dir), putFH(dir), getattr(&nfs4.GetattrRes{}, nfs4.AttrSize)}},
		{3, []client.Op{putFH(dir), lookup("f")}},
		{3, []client.Op{putFH(dir), lookupp()}},
	} {
		err := p.nfs.Compound(t.Context(), sys(0, 0), x.ops...)
		var oe *client.OpError
		if !errors.As(err, &oe) || oe.Status != nfs4.ErrWrongSec || oe.Index != x.n-2 {
			t.Errorf("%v: %v at %d, want WRONGSEC at %d", names(x.ops), err, oe.Index, x.n-2)
		}
	}
	// Who gives back is never refused.
	p.as(0, 0).want(nfs4.OK, putFH(f.fh), closeOp(f.id))
	p.with(m.Cred(rpc.ServicePrivacy)).must(putFH(dir), lookup("f"))
}

// TestMachineCred: a client's state protected by its machine credential is
// nobody else's, and the machine credential gives users' state back.
func TestMachineCred(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	c := newCluster(t, 1, r.kerberos, exports(t, "sec=sys:krb5p"))
	m, daemon := r.login(t, "nfs/client.test"), r.login(t, "daemon")
	protect := func(cfg *client.Config) {
		cfg.Verifier = nfs4.Verifier{1}
		var b nfs4.Bitmap
		for _, op := range []nfs4.OpNum{nfs4.OpWrite, nfs4.OpCommit, nfs4.OpClose} {
			b.Set(nfs4.Attr(op))
		}
		cfg.Protect = &b
	}
	// Not without integrity.
	_, err := client.Dial(t.Context(), c.cfg.Listen, client.Config{Owner: []byte("weak"), Cred: m.Cred(rpc.ServiceNone), Protect: &nfs4.Bitmap{}})
	if !isStatus(err, nfs4.ErrInval) {
		t.Errorf("SP4_MACH_CRED by krb5: %v", err)
	}
	p := c.newPeerOf(t, "m", m.Cred(rpc.ServiceIntegrity), protect)
	dir := p.with(sys(0, 0)).dir()
	user := p.with(daemon.Cred(rpc.ServicePrivacy))
	f := user.create(dir, "f")

	session, conn := p.nfs.Session()
	guarded := map[string]client.Op{
		"destroy": {Num: nfs4.OpDestroySession, Args: &nfs4.DestroySessionArgs{SessionID: session}},
		"client":  {Num: nfs4.OpDestroyClientID, Args: &nfs4.DestroyClientIDArgs{ClientID: p.nfs.ClientID()}},
		"bind":    {Num: nfs4.OpBindConnToSession, Args: &nfs4.BindConnToSessionArgs{SessionID: session, Dir: nfs4.BindForeOrBoth}, Res: &nfs4.BindConnToSessionRes{}},
		"create":  {Num: nfs4.OpCreateSession, Args: &nfs4.CreateSessionArgs{ClientID: p.nfs.ClientID(), Sequence: 2, ForeChanAttrs: nfs4.ChannelAttrs{MaxRequestSize: 4096, MaxResponseSize: 4096, MaxOperations: 8, MaxRequests: 1}}, Res: &nfs4.CreateSessionRes{}},
	}
	for name, op := range guarded {
		for who, cred := range map[string]rpc.Cred{"sys": sys(0, 0), "user": daemon.Cred(rpc.ServicePrivacy), "weak": m.Cred(rpc.ServiceNone)} {
			if _, s, err := client.Send(t.Context(), conn, cred, 2, op); err != nil || s != nfs4.ErrWrongCred {
				t.Errorf("%s by %s: %v, %v", name, who, s, err)
			}
		}
	}
	other, err := tcp.Dial(t.Context(), c.cfg.Listen, nil, &rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, s, err := client.Send(t.Context(), other, daemon.Cred(rpc.ServicePrivacy), 2,
		client.Op{Num: nfs4.OpSequence, Args: &nfs4.SequenceArgs{SessionID: session, SequenceID: 1, SlotID: 9}, Res: &nfs4.SequenceRes{}})
	if err != nil || s != nfs4.ErrConnNotBoundToSession {
		t.Errorf("SEQUENCE on a strange connection: %v, %v", s, err)
	}

	// The machine does for the user what was allowed, though the export does not
	// take krb5i, and no more.
	machine := p.with(m.Cred(rpc.ServiceIntegrity))
	var w nfs4.WriteRes
	machine.must(putFH(f.fh), writeOp(f.id, 0, []byte("late"), nfs4.Unstable, &w))
	machine.must(putFH(f.fh), commitOp(&nfs4.CommitRes{}))
	machine.want(nfs4.ErrWrongSec, putFH(f.fh), readOp(f.id, 0, 4, &nfs4.ReadRes{}))
	machine.want(nfs4.ErrWrongSec, putFH(f.fh), setattr(nfs4.Stateid{}, mode(0)))
	sameBytes(t, "what the machine wrote", f.read(0, 4), []byte("late"))
	machine.must(putFH(f.fh), closeOp(f.id))
}

// TestMachineCredReclaim: after a restart a stranger with the owner and the
// verifier of a protected client reclaims nothing; the client does.
func TestMachineCredReclaim(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	c := newCluster(t, 1, r.kerberos, exports(t, "sec=sys:krb5i"))
	m := r.login(t, "nfs/client.test")
	answers := make(chan error, 100)
	var kept nfs4.FH
	p := c.newPeerOf(t, "m", m.Cred(rpc.ServiceIntegrity), func(cfg *client.Config) {
		cfg.Verifier, cfg.Protect = nfs4.Verifier{1}, &nfs4.Bitmap{}
		cfg.Reclaim = func(_ context.Context, send func(...client.Op) error) error {
			if kept != nil {
				answers <- send(putFH(kept), reclaimOpen(&nfs4.OpenRes{}))
			}
			return nil
		}
	})
	dir := p.dir()
	kept = p.create(dir, "kept").fh
	p.nfs.Close(canceled()) // it is away during the restart
	c.restartMDS()

	thief := dialRaw(t, c.cfg.Listen, p.owner, 1)
	thief.owner, thief.verf = p.cfg.Owner, p.cfg.Verifier
	thief.exchange()
	thief.createSession(8)
	if s := thief.try(putFH(kept), reclaimOpen(&nfs4.OpenRes{})); s != nfs4.ErrNoGrace && s != nfs4.ErrReclaimBad {
		t.Errorf("a stranger's reclaim: %v", s)
	}
	if !c.status().Grace {
		t.Error("the stranger ended the grace of the client whose owner he names")
	}
	thief.send(client.Op{Num: nfs4.OpDestroySession, Args: &nfs4.DestroySessionArgs{SessionID: thief.sess.SessionID}})
	thief.send(client.Op{Num: nfs4.OpDestroyClientID, Args: &nfs4.DestroyClientIDArgs{ClientID: thief.id.ClientID}})
	p.dial()
	if err := <-answers; err != nil {
		t.Errorf("the client's own reclaim: %v", err)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestGSSReplay: a call that comes twice is not run twice, and costs the
// connection; one that was changed is refused.
func TestGSSReplay(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	c := newCluster(t, 0, r.kerberos, exports(t, "sec=krb5"))
	g := r.login(t, "daemon")
	conn, err := tcp.Dial(t.Context(), c.cfg.Listen, nil, &rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	null := func(cred rpc.Cred) error {
		return conn.Do(t.Context(), &rpc.Request{Prog: nfs4.ProgramNFS, Vers: nfs4.VersionNFS4, Cred: cred})
	}
	for _, s := range []rpc.Service{rpc.ServiceNone, rpc.ServiceIntegrity, rpc.ServicePrivacy} {
		if err := null(g.Cred(s)); err != nil {
			t.Fatal(err)
		}
	}
	first := &tamper{of: g.Cred(rpc.ServiceIntegrity).Initiator}
	if err := null(rpc.Cred{Flavor: rpc.AuthGSS, Initiator: first}); err != nil {
		t.Fatal(err)
	}
	// Each is a call with the same sequence number, changed in one place.
	for what, want := range map[string]rpc.Stat{"verifier": rpc.AuthGSSCredProblem, "flavour": rpc.AuthBadVerf, "version": rpc.AuthBadCred, "args": rpc.GarbageArgs} {
		bad := &tamper{of: g.Cred(rpc.ServiceIntegrity).Initiator, change: what}
		var rej rpc.Reject
		if err := null(rpc.Cred{Flavor: rpc.AuthGSS, Initiator: bad}); !errors.As(err, &rej) || rej.Stat != want {
			t.Errorf("%s changed: %v, want %v", what, err, rpc.Reject{Stat: want})
		}
	}
	first.again = true
	if err := null(rpc.Cred{Flavor: rpc.AuthGSS, Initiator: first}); !errors.Is(err, rpc.ErrClosed) {
		t.Errorf("the same sequence number again: %v", err)
	}
	if conn, err = tcp.Dial(t.Context(), c.cfg.Listen, nil, &rpc.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := g.Destroy(t.Context(), conn, nfs4.ProgramNFS, nfs4.VersionNFS4); err != nil {
		t.Errorf("destroy: %v", err)
	}
	if err := null(rpc.Cred{Flavor: rpc.AuthGSS, Initiator: &tamper{of: first, fixed: first.last}}); err == nil {
		t.Error("a context lives on after its end")
	}
}

// tamper changes how calls are secured.
type tamper struct {
	of     rpc.Initiator
	change string
	again  bool // use the last Securing once more
	fixed  rpc.Securing
	last   rpc.Securing
}

func (x *tamper) Begin(ctx context.Context, c *rpc.Conn, prog, vers uint32) (rpc.Securing, error) {
	if x.fixed != nil {
		return x.fixed, nil
	}
	if !x.again {
		s, err := x.of.Begin(ctx, c, prog, vers)
		if err != nil {
			return nil, err
		}
		x.last = s
	}
	return &tampered{x.last, x.change}, nil
}

type tampered struct {
	rpc.Securing
	change string
}

func (x *tampered) Discard() {} // the context is good

func (x *tampered) Credential(e *xdr.Encoder) {
	at := e.Len()
	x.Securing.Credential(e)
	if x.change == "version" {
		e.SetUint32(at, 9)
	}
}

func (x *tampered) Verifier(header []byte) (uint32, []byte, error) {
	flavor, body, err := x.Securing.Verifier(header)
	switch x.change {
	case "verifier":
		body = slices.Clone(body)
		body[len(body)-1] ^= 1
	case "flavour":
		flavor = rpc.AuthSys
	}
	return flavor, body, err
}

func (x *tampered) Args(e *xdr.Encoder, args func(*xdr.Encoder)) error {
	at := e.Len()
	err := x.Securing.Args(e, args)
	if x.change == "args" {
		e.Bytes()[at+5] ^= 1
	}
	return err
}
