package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"manifold/mds/admin"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
	"manifold/xdr/session"
)

// start makes an App with an endpoint.
func start(t *testing.T, o Options) *App {
	t.Helper()
	o.LogLevel, o.LogFormat = "error", "json"
	app, err := o.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { app.Close(context.Background()) })
	return app
}

func get(t *testing.T, app *App, path string) (int, string) {
	t.Helper()
	r, err := http.Get("http://" + app.MetricsAddr() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func TestEndpoint(t *testing.T) {
	app := start(t, Options{Metrics: "127.0.0.1:0", Pprof: true})
	want := func(path string, code int) {
		t.Helper()
		if got, body := get(t, app, path); got != code {
			t.Errorf("%s: %d %s, want %d", path, got, body, code)
		}
	}
	want("/healthz", 200)
	want("/readyz", 503)
	app.SetReady(true)
	want("/readyz", 200)
	app.SetReady(false)
	want("/readyz", 503)
	want("/debug/pprof/cmdline", 200)
	want("/", 404)
	app = start(t, Options{Metrics: "127.0.0.1:0"})
	want("/debug/pprof/", 404)
	want("/metrics", 200)

	off := start(t, Options{})
	off.SetReady(true)
	if off.MetricsAddr() != "" {
		t.Errorf("endpoint at %s without being asked for", off.MetricsAddr())
	}
}

func TestStartErrors(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{LogLevel: "loud", LogFormat: "json"}, "loud"},
		{Options{LogLevel: "fatal", LogFormat: "json"}, "fatal"},
		{Options{LogLevel: "info", LogFormat: "xml"}, "xml"},
		{Options{LogLevel: "info", LogFormat: "console", Pprof: true}, "--metrics"},
		{Options{LogLevel: "info", LogFormat: "console", Metrics: "9090"}, "9090"},
	} {
		if _, err := c.o.Start(); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v", c.o, err)
		}
	}
	app := start(t, Options{Metrics: "127.0.0.1:0"})
	o := Options{LogLevel: "info", LogFormat: "console", Metrics: app.MetricsAddr()}
	if _, err := o.Start(); !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("taken port: %v", err)
	}
}

// A peer that sends every operation number there is must not fill our memory.
func TestMetricsAreBounded(t *testing.T) {
	app := start(t, Options{Metrics: "127.0.0.1:0"})
	ops := app.Metrics.Operations(RoleDS)
	for n := range nfs4.OpNum(5000) {
		ops.Operation(n, nfs4.ErrOpIllegal, time.Microsecond)
	}
	ops.Operation(nfs4.OpIllegal, nfs4.ErrOpIllegal, 0)
	ops.Operation(1<<32-1, nfs4.ErrOpIllegal, 0)
	ops.Operation(nfs4.OpRead, nfs4.OK, 3*time.Millisecond)
	ops.Operation(nfs4.OpRead, nfs4.OK, 3*time.Millisecond)
	ops.Replay()
	ops.Evicted()
	conns := app.Metrics.Connections(RoleMDS)
	conns.ConnOpened(nil)
	conns.ConnOpened(nil)
	conns.ConnClosed(nil, io.EOF)
	conns.ConnClosed(nil, errors.New("reset"))
	conns.ConnOpened(nil)
	conns.ConnRefused()
	conns.Received(100)
	conns.Received(50)
	conns.Sent(7)
	conns.Orphan()
	for stat := range rpc.Stat(1000) {
		conns.Rejected(rpc.Reject{Stat: stat})
	}
	_, body := get(t, app, "/metrics")
	for _, line := range []string{
		`manifold_operations_total{op="READ",role="ds",status="NFS4_OK"} 2`,
		`manifold_operations_total{op="READ",role="ds",status="NFS4ERR_OP_ILLEGAL"} 1`,
		`manifold_operation_duration_seconds_count{op="READ",role="ds"} 3`,
		`manifold_operation_duration_seconds_bucket{op="READ",role="ds",le="0.00256"} 1`,
		`manifold_replayed_replies_total{role="ds"} 1`,
		`manifold_clients_evicted_total{role="ds"} 1`,
		`manifold_rpc_connections_opened_total{role="mds"} 3`,
		`manifold_rpc_connections_failed_total{role="mds"} 1`,
		`manifold_rpc_connections_refused_total{role="mds"} 1`,
		`manifold_rpc_connections{role="mds"} 1`,
		`manifold_rpc_records_received_total{role="mds"} 2`,
		`manifold_rpc_received_bytes_total{role="mds"} 150`,
		`manifold_rpc_sent_bytes_total{role="mds"} 7`,
		`manifold_rpc_orphan_replies_total{role="mds"} 1`,
		`manifold_rpc_rejected_calls_total{reason="garbage",role="mds"} 1`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if n := strings.Count(body, "manifold_operations_total{"); n > 160 { // each with OK and the one status
		t.Errorf("%d time series of operations", n)
	}
	if n := strings.Count(body, "manifold_rpc_rejected_calls_total{"); n > 11 {
		t.Errorf("%d time series of rejected calls", n)
	}
}

// backend is a metadata server that knows two data servers, or fails.
type backend struct {
	admin.Backend
	err error
}

func (b *backend) Status(context.Context) (admin.Status, error) {
	return admin.Status{Clients: 3, ProxyReadBytes: 11, Grace: true}, b.err
}

func (b *backend) DataServers(context.Context) ([]admin.DataServer, error) {
	return []admin.DataServer{
		{ID: 1, Name: "a\xff\"b", State: "draining", WrittenBytes: 5}, {ID: 2, Name: "c", State: "down"}, {ID: 3, Name: "c", State: "removed"},
	}, b.err
}

func TestClusterMetrics(t *testing.T) {
	app := start(t, Options{Metrics: "127.0.0.1:0"})
	b := &backend{}
	app.Metrics.Cluster(b)
	_, body := get(t, app, "/metrics")
	for _, line := range []string{
		"manifold_clients 3", "manifold_grace 1", "manifold_proxy_read_bytes_total 11",
		"manifold_ds_up{ds=\"1\",name=\"a\uFFFD\\\"b\"} 1", "manifold_ds_draining{ds=\"1\",name=\"a\uFFFD\\\"b\"} 1",
		"manifold_ds_written_bytes_total{ds=\"1\",name=\"a\uFFFD\\\"b\"} 5", `manifold_ds_up{ds="2",name="c"} 0`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(body, `ds="3"`) {
		t.Error("a removed data server has metrics")
	}
	// One part that fails does not hide the others.
	b.err = errors.New("no store")
	code, body := get(t, app, "/metrics")
	if code != 200 || !strings.Contains(body, "go_goroutines") || strings.Contains(body, "manifold_clients 3") {
		t.Errorf("with a failing backend: %d", code)
	}
}

func TestSlotMetrics(t *testing.T) {
	app := start(t, Options{Metrics: "127.0.0.1:0"})
	app.Metrics.Slots(RoleMDS, func() session.SlotUse {
		return session.SlotUse{Sessions: 2, Granted: 70, InUse: 5, CacheBytes: 1000, Recalls: 3}
	})
	for n := range 2 {
		app.Metrics.Slots(RoleDS, func() session.SlotUse { return session.SlotUse{Sessions: n + 1, Granted: 10} })
	}
	_, body := get(t, app, "/metrics")
	for _, line := range []string{
		`manifold_sessions{role="mds"} 2`, `manifold_session_slots{role="mds"} 70`, `manifold_session_slots_in_use{role="mds"} 5`,
		`manifold_reply_cache_bytes{role="mds"} 1000`, `manifold_session_slot_recalls_total{role="mds"} 3`,
		`manifold_sessions{role="ds"} 3`, `manifold_session_slots{role="ds"} 20`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

func TestLockFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	release, err := LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockFolder(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by another manifold process (pid %d)", os.Getpid())) {
		t.Errorf("second lock: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	release, err = LockFolder(dir)
	if err != nil {
		t.Fatalf("lock after release: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LockFolder(file); err == nil {
		t.Error("a file was locked as a folder")
	}
}

func TestExplain(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, taken := net.Listen("tcp", ln.Addr().String())
	_, foreign := net.Listen("tcp", "192.0.2.1:0")
	for _, c := range []struct {
		err  error
		want string
	}{
		{taken, "another process has " + ln.Addr().String()},
		{fmt.Errorf("ds: cannot bind: %w", unix.EADDRINUSE), "another process has the address"},
		{foreign, "this machine does not have 192.0.2.1"},
	} {
		if got := Explain(c.err); !errors.Is(got, c.err) || !strings.Contains(got.Error(), c.want) {
			t.Errorf("Explain(%v) = %v", c.err, got)
		}
	}
	if err := errors.New("other"); Explain(err) != err || Explain(nil) != nil {
		t.Error("Explain changes what it does not know")
	}
}
