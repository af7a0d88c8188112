package op

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"manifold/ds/fence"
	"manifold/ds/internal/dstest"
	"manifold/ds/store"
	"manifold/ds/store/osfs"
	"manifold/layout"
	"manifold/xdr"
	"manifold/xdr/client"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/rpc/tcp"
	"manifold/xdr/session"
)

const lease = 90 * time.Second

// rig is a data server's engine on a loopback socket, without its metadata
// server: size is what that would say.
type rig struct {
	*Ops
	addr string
	disk *disk
	keys *layout.Keyring

	mu    sync.Mutex
	sizes map[layout.Object]uint64
	err   error
	asked int
}

// disk is a store that fails on demand.
type disk struct {
	store.Store
	mu      sync.Mutex
	read    error
	write   error
	most    int // bytes that a write takes before write
	sync    error
	change  bool // the next Sync finds the verifier changed by another one
	fake    [8]byte
	reading func() // before a ReadAt
}

func (d *disk) ReadAt(obj layout.Object, p []byte, off int64) (int, error) {
	d.mu.Lock()
	err, before := d.read, d.reading
	d.mu.Unlock()
	if before != nil {
		before()
	}
	if err != nil {
		return 0, err
	}
	return d.Store.ReadAt(obj, p, off)
}

func (d *disk) WriteAt(obj layout.Object, p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.write != nil {
		n, _ := d.Store.WriteAt(obj, p[:min(d.most, len(p))], off)
		return n, d.write
	}
	return d.Store.WriteAt(obj, p, off)
}

func (d *disk) Sync(obj layout.Object) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sync != nil || d.change {
		d.fake[0]++
	}
	d.change = false
	if d.sync != nil {
		return d.sync
	}
	return d.Store.Sync(obj)
}

func (d *disk) Verifier() [8]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.Store.Verifier()
	v[0] ^= d.fake[0]
	return v
}

func newRig(t testing.TB) *rig {
	t.Helper()
	log := zaptest.NewLogger(t)
	fs, err := osfs.Open(osfs.Config{Root: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := layout.NewKeyring(1, layout.Key{ID: 1, Secret: [32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{disk: &disk{Store: fs}, keys: keys, sizes: make(map[layout.Object]uint64)}
	r.Ops = New(Config{Store: r.disk, Gate: NewGate(fence.New(fence.DefaultLimits())), FileSize: r.fileSize})
	r.SetTerms(Terms{Keys: keys, Lease: lease})
	engine := compound.New(compound.Config{
		Sessions: session.New(session.Config{ClientIDHigh: 1, Role: nfs4.ExchgidFlagUsePNFSDS}), Log: log, Now: time.Now,
	}, r.Table())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := tcp.NewServer(engine, tcp.Config{RPC: &rpc.Config{Log: log}})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := srv.Serve(ln); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), dstest.Patience)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		wg.Wait()
		if err := fs.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	r.addr = ln.Addr().String()
	return r
}

func (r *rig) fileSize(_ context.Context, obj layout.Object) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return r.sizes[obj], r.err
}

func (r *rig) setSize(obj layout.Object, size uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sizes[obj], r.err = size, err
}

func (r *rig) set(fn func(*disk)) {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	fn(r.disk)
}

var testObject = layout.Object{Volume: 1, Inode: 77, Gen: 2}

const testClient = 5<<32 | 9

// fh returns a filehandle for testObject.
func (r *rig) fh(rights layout.Rights) nfs4.FH {
	return r.keys.SealDS(layout.Capability{Object: testObject, Client: testClient, Rights: rights, Epoch: 1})
}

const rw = layout.RightRead | layout.RightWrite

func wantStatus(t *testing.T, what string, got, want nfs4.Status) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestIdentity(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "client")
	if f := c.ExchangeID.Flags & nfs4.ExchgidFlagMaskPNFS; f != nfs4.ExchgidFlagUsePNFSDS {
		t.Errorf("role %#x, want a data server's only", f)
	}
}

func TestWriteReadCommit(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "client")
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	verf := nfs4.Verifier(r.disk.Verifier())

	w, s := c.Write(t, r.fh(rw), 1<<20, nfs4.Unstable, data)
	if s != nfs4.OK || w.Count != 1<<20 || w.Committed != nfs4.Unstable || w.WriteVerf != verf {
		t.Fatalf("UNSTABLE WRITE: %+v, %v", w, s)
	}
	for _, stable := range []nfs4.StableHow{nfs4.DataSync, nfs4.FileSync} {
		w, s = c.Write(t, r.fh(rw), 1<<20+5, stable, []byte("five!"))
		if s != nfs4.OK || w.Count != 5 || w.Committed != nfs4.DataSync || w.WriteVerf != verf {
			t.Errorf("WRITE stable=%d: %+v, %v; never FILE_SYNC4", stable, w, s)
		}
	}
	copy(data[5:], "five!")
	commit, s := c.Commit(t, r.fh(rw))
	if s != nfs4.OK || commit.WriteVerf != verf {
		t.Errorf("COMMIT: %+v, %v", commit, s)
	}
	got, s := c.Read(t, r.fh(rw), 1<<20, 1<<20)
	if s != nfs4.OK || !bytes.Equal(got.Data, data) || got.EOF {
		t.Errorf("READ: %d bytes, eof %v, %v", len(got.Data), got.EOF, s)
	}
	if r.asked != 0 {
		t.Errorf("the size was asked for %d times without need", r.asked)
	}
	n := r.Counters()
	if n.WrittenBytes != 1<<20+10 || n.ReadBytes != 1<<20 || n.Ops != 5 || n.Errors != 0 {
		t.Errorf("counters %+v", n)
	}
}

func TestZeroLength(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "client")
	w, s := c.Write(t, r.fh(rw), 100, nfs4.Unstable, nil)
	if s != nfs4.OK || w.Count != 0 {
		t.Errorf("WRITE: %+v, %v", w, s)
	}
	got, s := c.Read(t, r.fh(rw), 100, 0)
	if s != nfs4.OK || len(got.Data) != 0 {
		t.Errorf("READ: %+v, %v", got, s)
	}
}

// TestHolesAndEnds: what the object lacks reads as zeros up to the file's end.
func TestHolesAndEnds(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "client")
	if _, s := c.Write(t, r.fh(rw), 0, nfs4.Unstable, []byte("0123456789")); s != nfs4.OK {
		t.Fatal(s)
	}
	zeros := func(n int) string { return string(make([]byte, n)) }
	for _, q := range []struct {
		name  string
		size  uint64
		off   uint64
		count uint32
		want  string
		eof   bool
	}{
		{"within", 10, 2, 5, "23456", false},
		{"to the end exactly", 10, 5, 5, "56789", false},
		{"across the end", 10, 5, 10, "56789", true},
		{"at the end", 10, 10, 10, "", true},
		{"far past the end", 10, 1 << 40, 10, "", true},
		{"past all that files can be", 10, math.MaxUint64 - 3, 3, "", true},
		{"hole behind the object", 100, 5, 10, "56789" + zeros(5), false},
		{"hole only", 100, 50, 10, zeros(10), false},
		{"hole to the end exactly", 100, 90, 10, zeros(10), true},
		{"hole and the end", 100, 90, 20, zeros(10), true},
		{"end within the hole, odd length", 13, 0, 20, "0123456789" + zeros(3), true},
		{"the size lags behind the object", 3, 5, 10, "56789", true},
		{"the last bytes that files can have", math.MaxInt64, math.MaxInt64 - 3, 10, zeros(3), true},
		{"far hole", 1 << 50, 1 << 45, 1 << 20, zeros(1 << 20), false},
	} {
		r.setSize(testObject, q.size, nil)
		r.ForgetSize(testObject)
		got, s := c.Read(t, r.fh(layout.RightRead), q.off, q.count)
		if s != nfs4.OK || string(got.Data) != q.want || got.EOF != q.eof {
			t.Errorf("%s: %d bytes %.20q, eof %v, %v; want %d bytes, eof %v", q.name, len(got.Data), got.Data, got.EOF, s, len(q.want), q.eof)
		}
	}
}

// TestNothingOfOthersIsSent: what a reply's buffer held before is not in it.
func TestNothingOfOthersIsSent(t *testing.T) {
	r := newRig(t)
	if _, err := r.disk.WriteAt(testObject, []byte("0123456789"), 0); err != nil {
		t.Fatal(err)
	}
	for _, size := range []uint64{0, 10, 15, 20, 1000} {
		r.ForgetSize(testObject)
		r.setSize(testObject, size, nil)
		buf := bytes.Repeat([]byte("secret"), 5)
		n, _, s := r.fill(t.Context(), testObject, buf, 0)
		if s != nfs4.OK || !bytes.Equal(bytes.TrimRight(buf[:n], "\x00"), []byte("0123456789")) {
			t.Errorf("size %d: %q, %v", size, buf[:n], s)
		}
	}
}

// TestSizeUnknown: without the metadata server there is no wrong answer, and
// none that makes the client wait.
func TestSizeUnknown(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "client")
	if _, s := c.Write(t, r.fh(rw), 0, nfs4.Unstable, []byte("0123456789")); s != nfs4.OK {
		t.Fatal(s)
	}
	r.setSize(testObject, 0, errors.New("no metadata server"))
	got, s := c.Read(t, r.fh(rw), 5, 10)
	if s != nfs4.OK || string(got.Data) != "56789" || got.EOF {
		t.Errorf("READ with data: %+v, %v", got, s)
	}
	_, s = c.Read(t, r.fh(rw), 10, 10)
	wantStatus(t, "READ without data", s, nfs4.ErrServerFault)
	r.setSize(testObject, 0, nfs4.ErrStale)
	_, s = c.Read(t, r.fh(rw), 10, 10)
	wantStatus(t, "READ of a removed file", s, nfs4.ErrStale)
}

// TestWriteWhileSizeIsAsked: what is written and counted in the size between
// the look at the object and the answer is not read as zeros.
func TestWriteWhileSizeIsAsked(t *testing.T) {
	r := newRig(t)
	var once sync.Once
	r.Ops.sizes.ask = func(context.Context, layout.Object) (uint64, error) {
		once.Do(func() {
			if _, err := r.disk.Store.WriteAt(testObject, []byte("appended"), 0); err != nil {
				t.Error(err)
			}
		})
		return 8, nil
	}
	c := dstest.Dial(t, r.addr, "client")
	got, s := c.Read(t, r.fh(rw), 0, 100)
	if s != nfs4.OK || string(got.Data) != "appended" || !got.EOF {
		t.Errorf("READ: %+v, %v", got, s)
	}
}

func TestRights(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "client")
	_, s := c.Write(t, r.fh(layout.RightRead), 0, nfs4.Unstable, []byte("x"))
	wantStatus(t, "WRITE with a right to read", s, nfs4.ErrPNFSNoLayout)
	_, s = c.Commit(t, r.fh(layout.RightRead))
	wantStatus(t, "COMMIT with a right to read", s, nfs4.ErrPNFSNoLayout)
	_, s = c.Read(t, r.fh(layout.RightWrite), 0, 1)
	wantStatus(t, "READ with a right to write", s, nfs4.ErrPNFSNoLayout)
	if size, err := r.disk.Size(testObject); size != 0 || err != nil {
		t.Errorf("size %d, %v", size, err)
	}
}

func TestBadHandles(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "client")
	good := r.fh(rw)
	forged := bytes.Clone(good)
	forged[12]++
	other, err := layout.NewKeyring(9, layout.Key{ID: 9, Secret: [32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]struct {
		fh   nfs4.FH
		want nfs4.Status
	}{
		"empty":     {nil, nfs4.ErrBadHandle},
		"short":     {good[:47], nfs4.ErrBadHandle},
		"long":      {append(bytes.Clone(good), 0), nfs4.ErrBadHandle},
		"of an MDS": {r.keys.SealMDS(layout.Handle{Volume: 1, Inode: 77, Gen: 2}), nfs4.ErrBadHandle},
		"forged":    {forged, nfs4.ErrStale},
		"other key": {other.SealDS(layout.Capability{Object: testObject, Rights: rw}), nfs4.ErrStale},
	} {
		_, s := c.Read(t, q.fh, 0, 1)
		wantStatus(t, name, s, q.want)
	}
	r.SetTerms(Terms{Keys: other})
	_, s := c.Read(t, good, 0, 1)
	wantStatus(t, "a key that was retired", s, nfs4.ErrStale)
}

func TestBadArguments(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "client")
	fh := r.fh(rw)
	_, s := c.Write(t, fh, math.MaxUint64-1, nfs4.Unstable, []byte("abc"))
	wantStatus(t, "WRITE past 2^64", s, nfs4.ErrInval)
	_, s = c.Write(t, fh, math.MaxInt64-1, nfs4.Unstable, []byte("abc"))
	wantStatus(t, "WRITE past 2^63", s, nfs4.ErrFBig)
	_, s = c.Write(t, fh, 0, 7, []byte("abc"))
	if s != nfs4.ErrInval && s != nfs4.ErrBadXDR {
		t.Errorf("WRITE with stable_how 7: %v", s)
	}
	ctx := t.Context()
	s, err := c.On(ctx, fh, client.Op{Num: nfs4.OpCommit, Args: &nfs4.CommitArgs{Offset: math.MaxUint64, Count: 1}})
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, "COMMIT past 2^64", s, nfs4.ErrInval)
	for _, num := range []nfs4.OpNum{nfs4.OpRead, nfs4.OpWrite, nfs4.OpCommit, nfs4.OpGetattr} {
		args := map[nfs4.OpNum]interface{ EncodeXDR(*xdr.Encoder) }{
			nfs4.OpRead: &nfs4.ReadArgs{}, nfs4.OpWrite: &nfs4.WriteArgs{}, nfs4.OpCommit: &nfs4.CommitArgs{}, nfs4.OpGetattr: &nfs4.GetattrArgs{},
		}[num]
		s, err := c.Do(ctx, client.Op{Num: num, Args: args})
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, num.String()+" without a filehandle", s, nfs4.ErrNoFileHandle)
	}
	for _, num := range []nfs4.OpNum{nfs4.OpPutRootFH, nfs4.OpLookupP, nfs4.OpReadlink} {
		s, err := c.On(ctx, fh, client.Op{Num: num})
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, num.String(), s, nfs4.ErrNotSupp)
	}
}

func TestGetattr(t *testing.T) {
	r := newRig(t)
	r.setSize(testObject, 12345, nil)
	c := dstest.Dial(t, r.addr, "client")
	fh := r.fh(layout.RightRead)
	a, s := c.Getattr(t, fh, nfs4.KnownAttrs())
	if s != nfs4.OK {
		t.Fatal(s)
	}
	if a.Type != nfs4.TypeReg || a.Size != 12345 || a.FSID.Major != 1 || a.FileID != 77 || a.LeaseTime != 90 ||
		a.MaxRead != 1<<20 || a.MaxWrite != 1<<20 || !bytes.Equal(a.Filehandle, fh) {
		t.Errorf("%+v", a)
	}
	if a.Mask != supported() || a.SupportedAttrs != supported() || a.Mask.Has(nfs4.AttrOwner) || a.Mask.Has(nfs4.AttrChange) {
		t.Errorf("mask %v, supported %v", a.Mask, a.SupportedAttrs)
	}
	var e xdr.Encoder
	if a.EncodeXDR(&e); e.Len() > getattrReply {
		t.Errorf("%d bytes, %d announced", e.Len(), getattrReply)
	}
	r.setSize(testObject, 0, errors.New("no metadata server"))
	var size, typ nfs4.Bitmap
	size.Set(nfs4.AttrSize)
	typ.Set(nfs4.AttrType)
	_, s = c.Getattr(t, fh, size)
	wantStatus(t, "GETATTR of an unknown size", s, nfs4.ErrServerFault)
	_, s = c.Getattr(t, fh, typ)
	wantStatus(t, "GETATTR without the size", s, nfs4.OK)
}

// TestSmallSession: a READ is cut to what the session's replies hold, and is
// never 0 bytes without eof.
func TestSmallSession(t *testing.T) {
	r := newRig(t)
	data := bytes.Repeat([]byte("x"), 5000)
	if _, err := r.disk.WriteAt(testObject, data, 0); err != nil {
		t.Fatal(err)
	}
	c := dstest.DialSize(t, r.addr, "client", 1024)
	got, s := c.Read(t, r.fh(rw), 0, 4096)
	if s != nfs4.OK || len(got.Data) < 512 || len(got.Data) > 1024 || got.EOF {
		t.Errorf("READ: %d bytes, eof %v, %v", len(got.Data), got.EOF, s)
	}
}

// TestDiskErrors: each error of the disk as itself.
func TestDiskErrors(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "client")
	fh := r.fh(rw)
	for _, q := range []struct {
		err  error
		want nfs4.Status
	}{
		{store.ErrNoSpace, nfs4.ErrNoSpc}, {store.ErrQuota, nfs4.ErrDQuot}, {store.ErrTooBig, nfs4.ErrFBig},
		{store.ErrIO, nfs4.ErrIO}, {errors.New("too many open files"), nfs4.ErrServerFault},
	} {
		r.set(func(d *disk) { d.write, d.most = q.err, 0 })
		_, s := c.Write(t, fh, 0, nfs4.Unstable, []byte("data"))
		wantStatus(t, "WRITE", s, q.want)
	}
	r.set(func(d *disk) { d.write, d.most = store.ErrNoSpace, 3 })
	w, s := c.Write(t, fh, 0, nfs4.FileSync, []byte("data"))
	if s != nfs4.OK || w.Count != 3 || w.Committed != nfs4.DataSync {
		t.Errorf("WRITE that came short: %+v, %v", w, s)
	}
	r.set(func(d *disk) { d.write, d.read = nil, store.ErrIO })
	_, s = c.Read(t, fh, 0, 3)
	wantStatus(t, "READ", s, nfs4.ErrIO)
	if n := r.Counters(); n.Errors != 6 {
		t.Errorf("counters %+v", n)
	}
}

// TestFailedSync: after a sync that failed, no answer with the old verifier
// says that anything is stable.
func TestFailedSync(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "client")
	fh := r.fh(rw)
	w, s := c.Write(t, fh, 0, nfs4.Unstable, []byte("data"))
	wantStatus(t, "WRITE", s, nfs4.OK)
	r.set(func(d *disk) { d.sync = store.ErrIO })
	_, s = c.Commit(t, fh)
	wantStatus(t, "COMMIT", s, nfs4.ErrIO)
	_, s = c.Write(t, fh, 0, nfs4.DataSync, []byte("data"))
	wantStatus(t, "DATA_SYNC WRITE", s, nfs4.ErrIO)
	r.set(func(d *disk) { d.sync = nil })
	commit, s := c.Commit(t, fh)
	if s != nfs4.OK || commit.WriteVerf == w.WriteVerf {
		t.Errorf("COMMIT after the failure: %+v, %v; want another verifier than %v", commit, s, w.WriteVerf)
	}
	r.set(func(d *disk) { d.change = true })
	_, s = c.Write(t, fh, 0, nfs4.DataSync, []byte("data"))
	wantStatus(t, "DATA_SYNC WRITE beside another's failure", s, nfs4.ErrIO)
}

func TestRemovedObject(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "client")
	fh := r.fh(rw)
	if _, s := c.Write(t, fh, 0, nfs4.Unstable, []byte("data")); s != nfs4.OK {
		t.Fatal(s)
	}
	if err := r.disk.Remove(testObject); err != nil {
		t.Fatal(err)
	}
	_, s := c.Write(t, fh, 0, nfs4.Unstable, []byte("late"))
	wantStatus(t, "WRITE", s, nfs4.ErrStale)
	_, s = c.Read(t, fh, 0, 10)
	wantStatus(t, "READ", s, nfs4.ErrStale)
	_, s = c.Commit(t, fh)
	wantStatus(t, "COMMIT", s, nfs4.ErrStale)
	if n := r.Counters(); n.Errors != 0 {
		t.Errorf("%d errors of the disk counted", n.Errors)
	}
}

// TestFence: a fence stands when what was admitted before it is over, and not
// earlier.
func TestFence(t *testing.T) {
	r := newRig(t)
	c := dstest.Dial(t, r.addr, "client")
	fh := r.fh(rw)
	reading, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.set(func(d *disk) {
		d.reading = func() { once.Do(func() { close(reading); <-goOn }) }
	})
	r.setSize(testObject, 10, nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, s := c.Read(t, fh, 0, 10); s != nfs4.OK {
			t.Errorf("READ admitted before the fence: %v", s)
		}
	})
	<-reading
	table := r.cfg.Gate.Table().Clone()
	table.FenceClient(testClient)
	r.cfg.Gate.Replace(table)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := r.cfg.Gate.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain while a READ is under way: %v", err)
	}
	// A second fence does not make the first READ forgotten.
	r.cfg.Gate.Replace(table.Clone())
	again, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := r.cfg.Gate.Drain(again); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain while a READ is under way: %v", err)
	}
	close(goOn)
	if err := r.cfg.Gate.Drain(t.Context()); err != nil {
		t.Errorf("Drain: %v", err)
	}
	wg.Wait()
	_, s := c.Read(t, fh, 0, 10)
	wantStatus(t, "READ of a fenced client", s, nfs4.ErrPNFSNoLayout)
	_, s = c.Getattr(t, fh, nfs4.Bitmap{1 << nfs4.AttrType})
	wantStatus(t, "GETATTR of a fenced client", s, nfs4.ErrPNFSNoLayout)
	other := r.keys.SealDS(layout.Capability{Object: testObject, Client: testClient + 1, Rights: rw, Epoch: 1})
	_, s = c.Read(t, other, 0, 10)
	wantStatus(t, "READ of another client", s, nfs4.OK)
}
