package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"manifold/mds/store"
	"manifold/mds/store/bolt"
	"manifold/mds/store/etcd/etcdtest"
	"manifold/mds/store/storetest"
)

// leading is a Store that ends its Lead and its Member when it is closed.
type leading struct {
	store.Store
	lead   *Lead
	member *Member
}

func (s leading) Close() error {
	return errors.Join(s.lead.Close(), s.member.Close())
}

// end closes it.
func (s leading) end(t *testing.T) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func config(t testing.TB, endpoints []string, prefix, id string) Config {
	return Config{
		Endpoints: endpoints, Prefix: prefix + "/", ID: id, Address: id + ":2049",
		Replica: filepath.Join(t.TempDir(), "replica.db"), Log: zap.NewNop(),
	}
}

func openLeading(ctx context.Context, cfg Config) (leading, error) {
	m, err := Open(cfg)
	if err != nil {
		return leading{}, err
	}
	l, err := m.Lead(ctx)
	if err != nil {
		return leading{}, errors.Join(err, m.Close())
	}
	return leading{l.Store(), l, m}, nil
}

func lead(t *testing.T, cfg Config) leading {
	t.Helper()
	s, err := openLeading(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(s store.Store, pairs ...string) error {
	return s.Update(context.Background(), func(tx store.Tx) error {
		for i := 0; i < len(pairs); i += 2 {
			if err := tx.Put([]byte(pairs[i]), []byte(pairs[i+1])); err != nil {
				return err
			}
		}
		return nil
	})
}

func get(t *testing.T, s store.Store, key string) string {
	t.Helper()
	var got string
	err := s.View(t.Context(), func(tx store.Tx) error {
		v, err := tx.Get([]byte(key))
		got = string(v)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestSuite is the suite that every store passes.
func TestSuite(t *testing.T) {
	c := etcdtest.Start(t, 1)
	var n atomic.Int32
	storetest.Run(t, func(t *testing.T) func() (store.Store, error) {
		cfg := config(t, c.Endpoints(), fmt.Sprintf("p%d", n.Add(1)), "a")
		return func() (store.Store, error) { return openLeading(context.Background(), cfg) }
	})
}

// TestCrash kills the process that leads in mid-commit.
func TestCrash(t *testing.T) {
	const at = "MANIFOLD_ETCD_TEST_ENDPOINT"
	endpoint := os.Getenv(at)
	if endpoint == "" {
		endpoint = etcdtest.Start(t, 1).Endpoints()[0]
		t.Setenv(at, endpoint)
	}
	storetest.Crash(t, func(dir string) (store.Store, error) {
		return openLeading(context.Background(), Config{
			Endpoints: []string{endpoint}, ID: "a", Replica: filepath.Join(dir, "replica.db"), Lease: time.Second,
		})
	})
}

// TestTakeover: another Member sees all that was committed, in its own replica.
func TestTakeover(t *testing.T) {
	c := etcdtest.Start(t, 3)
	a := lead(t, config(t, c.Endpoints(), "m", "a"))
	cfg := config(t, c.Endpoints(), "m", "b")
	cfg.Log = zaptest.NewLogger(t)
	m, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan *Lead, 1)
	go func() {
		l, err := m.Lead(t.Context())
		if err != nil {
			t.Error(err)
		}
		next <- l
	}()
	for i := range 200 {
		if err := put(a, fmt.Sprintf("k%03d", i), "v", "last", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-next:
		t.Fatal("two lead")
	default:
	}
	if h := m.Status().Holder; h.ID != "a" || h.Address != "a:2049" {
		t.Errorf("the other one says that %+v leads", h)
	}
	a.end(t)
	l := <-next
	b := leading{l.Store(), l, m}
	if got := get(t, b, "last"); got != "199" {
		t.Errorf("last is %q", got)
	}
	if err := put(b, "last", "b"); err != nil {
		t.Error(err)
	}
	b.end(t)
}

// TestLost: a Lead that cannot renew its lease ends before the lease does,
// answers nothing more, and what it still sends has no effect.
func TestLost(t *testing.T) {
	c := etcdtest.Start(t, 3)
	cfg := config(t, c.Endpoints(), "m", "a")
	a := lead(t, cfg)
	if err := put(a, "k", "1"); err != nil {
		t.Fatal(err)
	}
	l := a.lead
	client := c.Client()
	if _, err := client.Delete(t.Context(), l.m.key(keyLead)); err != nil {
		t.Fatal(err)
	}
	if err := put(a, "k", "2"); !errors.Is(err, ErrLost) {
		t.Errorf("a write under a lost lead: %v", err)
	}
	if err := a.View(t.Context(), func(store.Tx) error { return nil }); !errors.Is(err, ErrLost) {
		t.Errorf("a read under a lost lead: %v", err)
	}
	if err := put(a, "k", "3"); !errors.Is(err, store.ErrFailed) {
		t.Errorf("a second write: %v", err)
	}
	<-l.Over()
	a.end(t)
	b := lead(t, config(t, c.Endpoints(), "m", "b"))
	if got := get(t, b, "k"); got != "1" {
		t.Errorf("k is %q", got)
	}
	b.end(t)
}

// TestCutOff: without a majority of etcd the Lead is over in time.
func TestCutOff(t *testing.T) {
	c := etcdtest.Start(t, 3)
	a := lead(t, config(t, c.Endpoints(), "m", "a"))
	c.Signal(0, syscall.SIGSTOP)
	c.Signal(1, syscall.SIGSTOP)
	began := time.Now()
	<-a.lead.Over()
	// etcd's own leader renews leases until it notices that it is alone, for up to two
	// election times of 1 s, and the next one counts them from its beginning.
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it led for %v more; the lease is 2 s", took)
	}
	if err := put(a, "k", "1"); !errors.Is(err, store.ErrFailed) {
		t.Errorf("a write without a majority: %v", err)
	}
	c.Signal(0, syscall.SIGCONT)
	c.Signal(1, syscall.SIGCONT)
	a.end(t)
}

// TestMemberLoss: the Store goes on when one etcd member dies, even the one that
// leads etcd, and nothing acknowledged is lost, and nothing done twice.
func TestMemberLoss(t *testing.T) {
	c := etcdtest.Start(t, 3)
	cfg := config(t, c.Endpoints(), "m", "a")
	cfg.Lease = 10 * time.Second // etcd's own election takes up to 2 s
	a := lead(t, cfg)
	stop := make(chan struct{})
	var acked [4]int
	var wg sync.WaitGroup
	for w := range acked {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				err := a.Update(context.Background(), func(tx store.Tx) error {
					key := fmt.Appendf(nil, "n%d", w)
					v, err := tx.Get(key)
					if err != nil {
						return err
					}
					n := 0
					_, _ = fmt.Sscan(string(v), &n) // 0 at first
					return tx.Put(key, fmt.Append(nil, n+1))
				})
				if err != nil {
					t.Error(err)
					return
				}
				acked[w]++
			}
		})
	}
	for range 3 {
		i := c.Leader()
		c.Kill(i)
		time.Sleep(1500 * time.Millisecond) // the fault's length
		c.Restart(i)
		time.Sleep(1500 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	for w, n := range acked {
		if got := get(t, a, fmt.Sprintf("n%d", w)); got != fmt.Sprint(n) {
			t.Errorf("worker %d: %d updates acknowledged, the counter is %s", w, n, got)
		}
	}
	a.end(t)
	if acked[0] == 0 {
		t.Error("nothing was done")
	}
}

// TestLarge: batches over the limits of a transaction are all or nothing, also
// when the Lead ends at any point of one.
func TestLarge(t *testing.T) {
	c := etcdtest.Start(t, 1)
	value := bytes.Repeat([]byte("v"), 8<<10)
	large := func(n int) []store.Write {
		var batch []store.Write
		for i := range n {
			batch = append(batch, store.Write{Key: fmt.Appendf(nil, "k%04d", i), Val: value})
		}
		return batch
	}
	const n = 300
	for stopAt := 1; stopAt <= 12; stopAt++ {
		prefix := fmt.Sprintf("large%d", stopAt)
		cfg := config(t, c.Endpoints(), prefix, "a")
		a := lead(t, cfg)
		if err := put(a, "before", "x"); err != nil {
			t.Fatal(err)
		}
		err := commitUntil(a.lead, large(n), stopAt)
		final := err == nil
		if resp, err := c.Client().Get(t.Context(), a.lead.m.key(keyFinal)); err != nil {
			t.Fatal(err)
		} else if resp.Count > 0 {
			final = true
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		b := lead(t, config(t, c.Endpoints(), prefix, "b"))
		keys := 0
		if err := b.View(t.Context(), func(tx store.Tx) error {
			return tx.Scan([]byte("k"), []byte("l"), func(_, v []byte) (bool, error) {
				if bytes.Equal(v, value) {
					keys++
				}
				return true, nil
			})
		}); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: n}[final]; keys != want {
			t.Errorf("stopped at transaction %d (final: %v): %d of %d keys", stopAt, final, keys, n)
		}
		resp, err := c.Client().Get(t.Context(), b.lead.m.key("redo"), clientv3.WithPrefix())
		if err != nil || resp.Count > 0 {
			t.Errorf("%d pieces of the redo log are left, %v", resp.Count, err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if final && err == nil && stopAt == 12 {
			t.Log("the batch takes fewer than 12 transactions")
		}
	}
}

// commitUntil commits a batch, but the Lead is over before its nth transaction.
func commitUntil(l *Lead, batch []store.Write, n int) error {
	began := l.count
	done := make(chan error, 1)
	l.testHook = func() {
		if l.count-began == int64(n) {
			l.end("a test")
		}
	}
	go func() { done <- leadBackend{l}.Commit(batch) }()
	return <-done
}

// TestMove: a file's records move to etcd, and from there to a dump and back.
func TestMove(t *testing.T) {
	c := etcdtest.Start(t, 1)
	src, err := bolt.Open(filepath.Join(t.TempDir(), "meta.db"), bolt.Config{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i := range 20 {
		var pairs []string
		for k := range 100 {
			pairs = append(pairs, fmt.Sprintf("k%d-%d", i, k), fmt.Sprint(i*k))
		}
		if err := put(src, pairs...); err != nil {
			t.Fatal(err)
		}
	}
	dst := lead(t, config(t, c.Endpoints(), "moved", "a"))
	sum, err := store.Copy(t.Context(), dst, src)
	if err != nil || sum.Records != 2000 {
		t.Fatalf("%+v, %v", sum, err)
	}
	var dump bytes.Buffer
	if got, err := store.Dump(t.Context(), dst, &dump); err != nil || got != sum {
		t.Errorf("dump %+v of %+v, %v", got, sum, err)
	}
	dst.end(t)
	again := lead(t, config(t, c.Endpoints(), "again", "a"))
	if got, err := store.Restore(t.Context(), again, bytes.NewReader(dump.Bytes())); err != nil || got != sum {
		t.Errorf("restored %+v of %+v, %v", got, sum, err)
	}
	again.end(t)
}

// TestReload: a replica that etcd has compacted beyond, that another etcd wrote, or
// that a stop of the machine may have spoilt is made anew.
func TestReload(t *testing.T) {
	c := etcdtest.Start(t, 1)
	cfgB := config(t, c.Endpoints(), "m", "b")
	first := lead(t, cfgB)
	if err := put(first, "gone", "x", "kept", "x", "new", ""); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	a := lead(t, config(t, c.Endpoints(), "m", "a"))
	for i := range 3 * loadPage {
		if err := put(a, fmt.Sprintf("n%05d", i), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	err := a.Update(t.Context(), func(tx store.Tx) error {
		return errors.Join(tx.Delete([]byte("gone")), tx.Put([]byte("kept"), []byte("y")))
	})
	if err != nil {
		t.Fatal(err)
	}
	client := c.Client()
	if _, err := client.Compact(t.Context(), a.lead.seq); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(why string) {
		t.Helper()
		b := lead(t, cfgB)
		defer func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}()
		var keys int
		var err error
		if err = b.View(t.Context(), func(tx store.Tx) error {
			return tx.Scan(nil, nil, func(k, v []byte) (bool, error) {
				keys++
				var i int
				if n, _ := fmt.Sscanf(string(k), "n%05d", &i); n == 1 && string(v) != fmt.Sprint(i) {
					t.Errorf("%s: %s is %s", why, k, v)
				}
				return true, nil
			})
		}); err != nil || keys != 3*loadPage+2 {
			t.Errorf("%s: %d keys, %v", why, keys, err)
		}
		if got := get(t, b, "kept"); got != "y" {
			t.Errorf("%s: kept is %q", why, got)
		}
	}
	check("compacted")
	if err := writeMark(cfgB.Replica, "another start"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfgB.Replica, []byte("spoilt"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("spoilt")
	r, err := openReplica(cfgB.Replica, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.apply([]store.Write{{Key: []byte("a0"), Val: []byte("x")}, {Key: []byte("n00007"), Val: []byte("x")}}, position{1, 1}); err != nil {
		t.Fatal(err)
	}
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	check("of another etcd")
}

// TestQuota: near etcd's quota nothing is added, but all can be removed.
func TestQuota(t *testing.T) {
	c := etcdtest.Start(t, 1, "--quota-backend-bytes", fmt.Sprint(24<<20))
	a := lead(t, config(t, c.Endpoints(), "m", "a"))
	value := string(bytes.Repeat([]byte("v"), 200<<10))
	var err error
	kept := 0
	for ; kept < 1000; kept++ {
		if err = put(a, fmt.Sprintf("k%04d", kept), value); err != nil {
			break
		}
		if kept%10 == 0 {
			a.lead.look(t.Context())
		}
	}
	if !errors.Is(err, store.ErrNoSpace) {
		t.Fatalf("after %d values: %v", kept, err)
	}
	if !a.lead.Valid() {
		t.Error("the lead is over")
	}
	if s := a.member.Status(); s.Quota != 24<<20 || s.InUse == 0 {
		t.Errorf("status %+v", s)
	}
	if err := a.Update(t.Context(), func(tx store.Tx) error { return tx.Delete([]byte("k0000")) }); err != nil {
		t.Errorf("a removal: %v", err)
	}
	a.end(t)
}

// TestQuotaReached: etcd's own refusal loses nothing and is no end of the Lead.
func TestQuotaReached(t *testing.T) {
	c := etcdtest.Start(t, 1, "--quota-backend-bytes", fmt.Sprint(16<<20))
	a := lead(t, config(t, c.Endpoints(), "m", "a"))
	value := string(bytes.Repeat([]byte("v"), 200<<10))
	var err error
	kept := 0
	for ; kept < 1000; kept++ {
		if err = put(a, fmt.Sprintf("k%04d", kept), value); err != nil {
			break
		}
	}
	if !errors.Is(err, store.ErrNoSpace) {
		t.Fatalf("after %d values: %v", kept, err)
	}
	n := 0
	if err := a.View(t.Context(), func(tx store.Tx) error {
		return tx.Scan([]byte("k"), nil, func(_, _ []byte) (bool, error) { n++; return true, nil })
	}); err != nil || n != kept {
		t.Errorf("%d values acknowledged, %d are there, %v", kept, n, err)
	}
	_ = a.Close() // etcd takes no writes
}

// TestStopped: a process that was stopped for longer than its lease finds its
// Lead over at once, before any timer ran.
func TestStopped(t *testing.T) {
	var k leaseClock
	k.origin = time.Now()
	k.renewed(k.origin, 2*time.Second)
	for _, tt := range []struct {
		after time.Duration
		valid bool
	}{{0, true}, {1700 * time.Millisecond, true}, {1800 * time.Millisecond, false}, {time.Hour, false}} {
		if got := k.left(k.origin.Add(tt.after)) > 0; got != tt.valid {
			t.Errorf("after %v: valid %v", tt.after, got)
		}
	}
}

func TestValidate(t *testing.T) {
	good := Config{Endpoints: []string{"http://x:1"}, ID: "a", Replica: "r"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no endpoints": func(c *Config) { c.Endpoints = nil }, "scheme": func(c *Config) { c.Endpoints = []string{"x:1"} },
		"key alone": func(c *Config) { c.Key = "k" }, "password alone": func(c *Config) { c.Password = "p" },
		"no name": func(c *Config) { c.ID = "" }, "lease": func(c *Config) { c.Lease = 1500 * time.Millisecond },
		"few ops": func(c *Config) { c.MaxOps = 3 }, "few bytes": func(c *Config) { c.MaxBytes = 1000 },
		"no replica": func(c *Config) { c.Replica = "" }, "quota": func(c *Config) { c.Quota = -1 },
	} {
		c := good
		spoil(&c)
		if c.Validate() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func FuzzRedo(f *testing.F) {
	f.Add([]byte{})
	for _, p := range encodeRedo([]store.Write{{Key: []byte("k"), Val: []byte("v")}, {Key: []byte("gone")}, {Key: []byte("e"), Val: []byte{}}}, 8) {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		batch, err := decodeRedo(nil, p)
		if err != nil {
			return
		}
		var again []store.Write
		for _, q := range encodeRedo(batch, 64) {
			if again, err = decodeRedo(again, q); err != nil {
				t.Fatal(err)
			}
		}
		if len(again) != len(batch) {
			t.Fatalf("%d writes became %d", len(batch), len(again))
		}
		for i := range batch {
			if !bytes.Equal(batch[i].Key, again[i].Key) || !bytes.Equal(batch[i].Val, again[i].Val) || (batch[i].Val == nil) != (again[i].Val == nil) {
				t.Fatalf("write %d changed", i)
			}
		}
	})
}
