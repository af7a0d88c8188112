package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"manifold/mds/admin"
)

// fake answers with what it holds, and notes what it is told.
type fake struct {
	status  admin.Status
	servers []admin.DataServer
	clients []admin.Client
	layout  admin.Layout
	members []admin.MetadataServer
	err     error
	wait    <-chan struct{}
	told    []string
}

func (f *fake) Status(ctx context.Context) (admin.Status, error) {
	if f.wait != nil {
		select {
		case <-f.wait:
		case <-ctx.Done():
			return admin.Status{}, ctx.Err()
		}
	}
	return f.status, f.err
}
func (f *fake) DataServers(context.Context) ([]admin.DataServer, error) { return f.servers, f.err }
func (f *fake) DataServer(_ context.Context, id string) (admin.DataServer, error) {
	f.told = append(f.told, "ds "+id)
	if f.err != nil {
		return admin.DataServer{}, f.err
	}
	return f.servers[0], nil
}
func (f *fake) SetDrain(_ context.Context, id string, on bool) error {
	f.told = append(f.told, fmt.Sprint("drain ", id, " ", on))
	return f.err
}
func (f *fake) RemoveDS(_ context.Context, id string) error {
	f.told = append(f.told, "remove "+id)
	return f.err
}
func (f *fake) Clients(context.Context) ([]admin.Client, error) { return f.clients, f.err }
func (f *fake) Layout(_ context.Context, path string) (admin.Layout, error) {
	f.told = append(f.told, "layout "+path)
	return f.layout, f.err
}
func (f *fake) RecallLayouts(_ context.Context, r admin.Recall) (uint64, error) {
	f.told = append(f.told, fmt.Sprintf("recall %+v", r))
	return 12, f.err
}
func (f *fake) MetadataServers(context.Context) ([]admin.MetadataServer, error) {
	return f.members, f.err
}
func (f *fake) Handover(context.Context) error {
	f.told = append(f.told, "handover")
	return f.err
}
func (f *fake) SetLayout(_ context.Context, path string, p admin.Policy) error {
	f.told = append(f.told, fmt.Sprintf("set %s %+v", path, p))
	return f.err
}

// fill gives every field of *v a value of its own, so that one that does not
// cross the wire shows.
func fill(v any) {
	n := 0
	var walk func(reflect.Value)
	walk = func(r reflect.Value) {
		n++
		switch r.Kind() {
		case reflect.Struct:
			for i := range r.NumField() {
				walk(r.Field(i))
			}
		case reflect.Slice:
			r.Set(reflect.MakeSlice(r.Type(), 2, 2))
			walk(r.Index(0))
			walk(r.Index(1))
		case reflect.String:
			r.SetString(fmt.Sprint("text ", n))
		case reflect.Bool:
			r.SetBool(true)
		case reflect.Int:
			r.SetInt(int64(n))
		case reflect.Uint32, reflect.Uint64:
			r.SetUint(uint64(n))
		case reflect.Float64:
			r.SetFloat(float64(n) / 2)
		default:
			panic(r.Kind())
		}
	}
	walk(reflect.ValueOf(v).Elem())
}

// serve runs a Server of b and returns a Conn to it and a function that stops
// the server and returns Serve's error.
func serve(t *testing.T, b admin.Backend) (conn *admin.Conn, path string, stop func() error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	ln, err := admin.Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- admin.NewServer(b).Serve(ctx, ln) }()
	conn, err = admin.Dial("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); cancel() })
	return conn, path, func() error { cancel(); return <-ended }
}

func TestEverythingCrosses(t *testing.T) {
	f := &fake{}
	fill(&f.status)
	fill(&f.servers)
	fill(&f.clients)
	fill(&f.layout)
	fill(&f.members)
	c, _, stop := serve(t, f)
	ctx := t.Context()
	check := func(what string, got, want any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %+v, %v\nwant %+v", what, got, err, want)
		}
	}
	st, err := c.Status(ctx)
	check("Status", st, f.status, err)
	list, err := c.DataServers(ctx)
	check("DataServers", list, f.servers, err)
	d, err := c.DataServer(ctx, "ds1")
	check("DataServer", d, f.servers[0], err)
	clients, err := c.Clients(ctx)
	check("Clients", clients, f.clients, err)
	l, err := c.Layout(ctx, "/a b/c")
	check("Layout", l, f.layout, err)
	err = errors.Join(c.SetDrain(ctx, "3", true), c.SetDrain(ctx, "3", false), c.RemoveDS(ctx, "x"),
		c.SetLayout(ctx, "/a", admin.Policy{StripeUnit: 1 << 40, Width: 5, Pool: "fast"}))
	n, e := c.RecallLayouts(ctx, admin.Recall{Path: "/b", Scope: "s", Client: "7"})
	check("RecallLayouts", n, uint64(12), e)
	members, e := c.MetadataServers(ctx)
	check("MetadataServers", members, f.members, e)
	err = errors.Join(err, c.Handover(ctx))
	want := []string{"ds ds1", "layout /a b/c", "drain 3 true", "drain 3 false", "remove x", "set /a {StripeUnit:1099511627776 Width:5 Pool:fast}", "recall {Path:/b Scope:s Client:7}", "handover"}
	if err != nil || !slices.Equal(f.told, want) {
		t.Errorf("told %q, %v\nwant %q", f.told, err, want)
	}
	if err := stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// Scripts rely on the names in JSON, and on empty lists being lists.
func TestJSON(t *testing.T) {
	c, _, _ := serve(t, &fake{layout: admin.Layout{Kind: admin.KindDir}})
	clients, _ := c.Clients(t.Context())
	servers, _ := c.DataServers(t.Context())
	l, _ := c.Layout(t.Context(), "/")
	for _, v := range []any{clients, servers, l.Stripes} {
		if b, err := json.Marshal(v); err != nil || string(b) != "[]" {
			t.Errorf("%T in JSON: %s, %v, want []", v, b, err)
		}
	}
	for _, c := range []struct {
		of    any
		names string
	}{
		{admin.Status{}, "version cluster_id uptime_seconds lease_seconds grace clients opens locks layouts recalls proxy_read_bytes proxy_written_bytes proxy_refused data_servers_up data_servers_total"},
		{admin.DataServer{}, "id name uuid state addresses capacity_bytes used_bytes free_bytes read_bytes written_bytes heartbeat_age_seconds version"},
		{admin.Client{}, "id owner implementation address sessions slots opens layouts last_renewal_seconds_ago confirmed"},
		{admin.Layout{}, "path kind policy size stripe_unit width stripes"},
		{admin.Policy{}, "stripe_unit width pool"},
		{admin.Stripe{}, "id name"},
	} {
		b, err := json.Marshal(c.of)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		names := strings.Fields(c.names)
		for _, n := range names {
			if _, ok := m[n]; !ok {
				t.Errorf("%T: no %s in %s", c.of, n, b)
			}
		}
		if len(m) != len(names) {
			t.Errorf("%T: %s has other names than %v", c.of, b, names)
		}
	}
}

func TestErrors(t *testing.T) {
	kinds := []error{admin.ErrNotFound, admin.ErrInvalid, admin.ErrRefused, admin.ErrUnavailable}
	f := &fake{}
	c, _, _ := serve(t, f)
	for _, kind := range append(kinds, nil) {
		f.err = errors.New("the disk is on fire")
		if kind != nil {
			f.err = fmt.Errorf("data server 7: %w", kind)
		}
		_, e1 := c.Status(t.Context())
		_, e2 := c.DataServer(t.Context(), "7")
		for _, err := range []error{e1, e2, c.SetDrain(t.Context(), "7", true), c.RemoveDS(t.Context(), "7"), c.SetLayout(t.Context(), "/", admin.Policy{})} {
			if err == nil || err.Error() != f.err.Error() {
				t.Errorf("error %q, want %q", err, f.err)
			}
			for _, k := range kinds {
				if errors.Is(err, k) != (k == kind) {
					t.Errorf("%q is %q: %v", err, k, k != kind)
				}
			}
		}
	}
}

func TestTextThatIsNotUTF8(t *testing.T) {
	c, _, _ := serve(t, &fake{clients: []admin.Client{{Owner: "a\xffb"}}})
	list, err := c.Clients(t.Context())
	if err != nil || len(list) != 1 || list[0].Owner != "a\uFFFDb" {
		t.Errorf("Clients = %+v, %v", list, err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	c, err := admin.Dial("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Status(t.Context())
	if !errors.Is(err, admin.ErrUnavailable) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error %v", err)
	}
	for _, addr := range []string{"", "unix:", path, "tcp:1.2.3.4:5", "unix:" + strings.Repeat("x", 108)} {
		if c, err := admin.Dial(addr); !errors.Is(err, admin.ErrInvalid) {
			t.Errorf("Dial(%q) = %v, %v", addr, c, err)
		}
		if ln, err := admin.Listen(addr); !errors.Is(err, admin.ErrInvalid) {
			t.Errorf("Listen(%q) = %v, %v", addr, ln, err)
		}
	}
}

func TestDeadline(t *testing.T) {
	c, _, _ := serve(t, &fake{wait: make(chan struct{})})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Status(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// A call in work is answered when the server stops.
func TestStopAnswers(t *testing.T) {
	wait := make(chan struct{})
	f := &fake{wait: wait, status: admin.Status{Version: "v"}}
	began := make(chan struct{})
	c, path, stop := serve(t, blocking{f, began})
	answer := make(chan error, 1)
	go func() {
		_, err := c.Status(t.Context())
		answer <- err
	}()
	<-began
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	close(wait)
	if err := <-answer; err != nil {
		t.Errorf("call at the stop: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("socket file after the stop: %v", err)
	}
}

// blocking tells when Status is called.
type blocking struct {
	*fake
	began chan struct{}
}

func (b blocking) Status(ctx context.Context) (admin.Status, error) {
	close(b.began)
	return b.fake.Status(ctx)
}

func TestSocketFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := admin.Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("socket file %v, %v", info.Mode(), err)
	}
	if second, err := admin.Listen("unix:" + path); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("second Listen = %v, %v", second, err)
	}
	// The end of a process that had no time to remove its socket.
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	ln, err = admin.Listen("unix:" + path)
	if err != nil {
		t.Fatalf("Listen on a stale socket: %v", err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ln, err := admin.Listen("unix:" + path); err == nil {
		t.Errorf("Listen replaced a file: %v", ln)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("file is %q, %v", b, err)
	}
}
