package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"manifold/mds/admin"
)

func names(list []admin.DataServer) (out []string) {
	for _, d := range list {
		out = append(out, fmt.Sprint(d.ID, " ", d.Name, " ", d.State))
	}
	return out
}

// The whole life of a box: made, administered, stopped, started again, grown.
func TestUp(t *testing.T) {
	dir := tempBox(t)
	s := up(t, dir, "--data-servers", "3", "--lease", "30s", "--no-proxy-io")
	line := s.said(t, s.out, `(?m)^mount -t nfs4 -o vers=4.2,proto=tcp,port=(\d+) 127.0.0.1:/ /mnt$`)
	conn, err := net.Dial("tcp", "127.0.0.1:"+line[1])
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()

	var st admin.Status
	ctlJSON(t, dir, &st, "status")
	if st.DataServersUp != 3 || st.DataServersTotal != 3 || st.LeaseSeconds != 30 || st.ClusterID == "" || st.Clients != 0 {
		t.Errorf("status %+v", st)
	}
	var list []admin.DataServer
	ctlJSON(t, dir, &list, "ds", "list")
	if want := []string{"1 ds1 up", "2 ds2 up", "3 ds3 up"}; !slices.Equal(names(list), want) {
		t.Errorf("data servers %q, want %q", names(list), want)
	}
	for _, d := range list {
		if d.CapacityBytes == 0 || len(d.Addresses) != 1 || !strings.HasPrefix(d.Addresses[0], "127.0.0.1:") {
			t.Errorf("data server %+v", d)
		}
		if conn, err := net.Dial("tcp", d.Addresses[0]); err != nil {
			t.Errorf("%s said to be up: %v", d.Name, err)
		} else {
			conn.Close()
		}
	}
	var l admin.Layout
	ctlJSON(t, dir, &l, "layout", "set", "/", "--stripe-unit", "64KiB", "--width", "2")
	var d admin.DataServer
	ctlJSON(t, dir, &d, "ds", "drain", "ds2")
	if d.State != "draining" {
		t.Errorf("after drain: %+v", d)
	}
	var clients []admin.Client
	ctlJSON(t, dir, &clients, "client", "list")
	if len(clients) != 0 {
		t.Errorf("clients %+v", clients)
	}
	if code := s.stop(t); code != 0 {
		t.Errorf("SIGTERM: exit %d", code)
	}
	if _, err := os.Lstat(filepath.Join(dir, "admin.sock")); !os.IsNotExist(err) {
		t.Errorf("admin socket after the stop: %v", err)
	}

	s = up(t, dir)
	id := st.ClusterID
	ctlJSON(t, dir, &st, "status")
	ctlJSON(t, dir, &list, "ds", "list")
	ctlJSON(t, dir, &l, "layout", "get", "/")
	if st.ClusterID != id || st.LeaseSeconds != 90 || l.Policy != (admin.Policy{StripeUnit: 64 << 10, Width: 2}) {
		t.Errorf("after a restart: %+v, %+v", st, l)
	}
	if want := []string{"1 ds1 up", "2 ds2 draining", "3 ds3 up"}; !slices.Equal(names(list), want) {
		t.Errorf("after a restart: %q, want %q", names(list), want)
	}
	ctlJSON(t, dir, &d, "ds", "undrain", "2")
	s.cmd.Process.Kill() // as the power does
	<-s.done

	s = up(t, dir, "--data-servers", "4")
	ctlJSON(t, dir, &list, "ds", "list")
	if want := []string{"1 ds1 up", "2 ds2 up", "3 ds3 up", "4 ds4 up"}; !slices.Equal(names(list), want) {
		t.Errorf("grown: %q, want %q", names(list), want)
	}
	if code := s.stop(t); code != 0 {
		t.Errorf("SIGTERM: exit %d", code)
	}
	code, _, errs := call(t, "up", "--data", dir, "--listen", "127.0.0.1:0", "--data-servers", "2")
	if code != exitUsage || !strings.Contains(errs, filepath.Join(dir, "ds3")+", "+filepath.Join(dir, "ds4")) {
		t.Errorf("fewer data servers: exit %d, %s", code, errs)
	}
	if err := os.Rename(filepath.Join(dir, "ds1"), filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	code, _, errs = call(t, "up", "--data", dir, "--listen", "127.0.0.1:0")
	if code != exitFailed || !strings.Contains(errs, "missing or empty") {
		t.Errorf("a data server's folder gone: exit %d, %s", code, errs)
	}
}

// A data server that was removed stays away, unless its folder is emptied.
func TestUpWithoutRemoved(t *testing.T) {
	dir := tempBox(t)
	s := up(t, dir, "--data-servers", "2")
	var d admin.DataServer
	ctlJSON(t, dir, &d, "ds", "remove", "ds2")
	if d.State != "removed" {
		t.Errorf("after remove: %+v", d)
	}
	if conn, err := net.Dial("tcp", d.Addresses[0]); err == nil {
		conn.Close()
		t.Errorf("%s still serves", d.Name)
	}
	if code := s.stop(t); code != 0 {
		t.Errorf("SIGTERM: exit %d", code)
	}
	s = up(t, dir, "--data-servers", "2")
	var list []admin.DataServer
	ctlJSON(t, dir, &list, "ds", "list")
	if want := []string{"1 ds1 up", "2 ds2 removed"}; !slices.Equal(names(list), want) {
		t.Errorf("after a restart: %q, want %q", names(list), want)
	}
	s.stop(t)
	if err := os.RemoveAll(filepath.Join(dir, "ds2")); err != nil {
		t.Fatal(err)
	}
	up(t, dir, "--data-servers", "2")
	ctlJSON(t, dir, &list, "ds", "list")
	if want := []string{"1 ds1 up", "2 ds2 removed", "3 ds2 up"}; !slices.Equal(names(list), want) {
		t.Errorf("joined anew: %q, want %q", names(list), want)
	}
}

func TestUpRefuses(t *testing.T) {
	dir := tempBox(t)
	s := up(t, dir, "--data-servers", "1", "--metrics", "127.0.0.1:0")
	port := s.said(t, s.out, `port=(\d+)`)[1]

	code, _, errs := call(t, "up", "--data", dir, "--listen", "127.0.0.1:0")
	if code != exitFailed || !strings.Contains(errs, fmt.Sprintf("in use by another manifold process (pid %d)", s.cmd.Process.Pid)) {
		t.Errorf("second process on one folder: exit %d, %s", code, errs)
	}
	other := tempBox(t)
	code, _, errs = call(t, "up", "--data", other, "--listen", "127.0.0.1:"+port)
	if code != exitFailed || !strings.Contains(errs, "another process has 127.0.0.1:"+port) {
		t.Errorf("taken port: exit %d, %s", code, errs)
	}
	code, _, errs = call(t, "up", "--data", other, "--listen", "127.0.0.1:0", "--ds-listen", "127.0.0.1:"+port)
	if code != exitFailed || !strings.Contains(errs, "data server ds1") || !strings.Contains(errs, "another process has") {
		t.Errorf("taken port of a data server: exit %d, %s", code, errs)
	}
	code, _, errs = call(t, "up", "--data", other, "--listen", "127.0.0.1:0", "--admin", "unix:"+filepath.Join(dir, "admin.sock"))
	if code != exitFailed || !strings.Contains(errs, "another server listens on") {
		t.Errorf("taken admin socket: exit %d, %s", code, errs)
	}
	var st admin.Status
	ctlJSON(t, dir, &st, "status") // and it is still there
}

// An ordinary user is told what a low port needs.
func TestUpLowPort(t *testing.T) {
	start, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil || strings.TrimSpace(string(start)) == "0" || os.Geteuid() != 0 {
		t.Skip("needs root, and a kernel that keeps low ports from others")
	}
	dir := tempBox(t)
	cmd := program(t, "up", "--data", filepath.Join(dir, "box"), "--listen", "127.0.0.1:1001")
	// The test binary may lie where others cannot reach it: pass it open.
	self, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Dir, cmd.ExtraFiles = "/proc/self/fd/3", "/", []*os.File{self}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	code, _, errs := finish(t, cmd)
	if code != exitFailed || !strings.Contains(errs, "choose a port from 1024 up") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

func TestUpMetrics(t *testing.T) {
	dir := tempBox(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	up(t, dir, "--data-servers", "1", "--metrics", addr, "--log-format", "json")
	if ready := httpGet(t, "http://"+addr+"/readyz"); !strings.HasPrefix(ready, "200") {
		t.Errorf("readyz: %s", ready)
	}
	text := httpGet(t, "http://"+addr+"/metrics")
	for _, want := range []string{`manifold_ds_up{ds="1",name="ds1"} 1`, "manifold_clients 0", `manifold_rpc_connections{role="mds"} 0`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}

// Two signals at once are one request; a data server and a metadata server as
// processes of their own find each other, whichever is first.
func TestApart(t *testing.T) {
	dir := tempBox(t)
	// An address that no other test takes ports of: this one is used again.
	ln, err := net.Listen("tcp", "127.77.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	control := ln.Addr().String()
	ln.Close()
	token := filepath.Join(dir, "mds", "join.token")
	ds := func(name string) *server {
		return spawn(t, "ds", "--data", filepath.Join(dir, name), "--listen", "127.0.0.1:0", "--mds", control, "--token-file", token, "--id", name)
	}
	mds := func() *server {
		s := spawn(t, "mds", "--data", filepath.Join(dir, "mds"), "--listen", "127.0.0.1:0", "--control", control, "--admin", "unix:"+filepath.Join(dir, "admin.sock"))
		s.said(t, s.log, `metadata server starts`)
		return s
	}
	m := mds()
	if info, err := os.Stat(token); err != nil || info.Mode() != 0o600 {
		t.Fatalf("token file: %v, %v", info, err)
	}
	m.said(t, m.log, `"token_file": "`+token+`"`)
	a := ds("a")
	m.said(t, m.log, `data server is up.*"name": "a"`)
	var d admin.DataServer
	ctlJSON(t, dir, &d, "ds", "show", "a")
	if d.State != "up" || d.Name != "a" {
		t.Errorf("data server %+v", d)
	}
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := m.stop(t); code != 0 {
		t.Errorf("metadata server at SIGTERM: exit %d", code)
	}
	b := ds("b")
	m = mds()
	m.said(t, m.log, `data server is up.*"name": "a"`)
	m.said(t, m.log, `data server is up.*"name": "b"`)
	for name, s := range map[string]*server{"a": a, "b": b, "mds": m} {
		if code := s.stop(t); code != 0 {
			t.Errorf("%s at SIGTERM: exit %d", name, code)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "bad"), []byte("not the token at all\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mds()
	code, _, errs := call(t, "ds", "--data", filepath.Join(dir, "a"), "--listen", "127.0.0.1:0", "--mds", control, "--token-file", filepath.Join(dir, "bad"))
	if code != exitFailed || !strings.Contains(errs, "token") {
		t.Errorf("wrong token: exit %d, %s", code, errs)
	}
}

// timeout(1) signals the process and then its group.
func TestTimeoutIsOneSignal(t *testing.T) {
	path, err := exec.LookPath("timeout")
	if err != nil {
		t.Skip("no timeout(1)")
	}
	dir := tempBox(t)
	cmd := program(t)
	cmd.Path, cmd.Args = path, []string{path, "--preserve-status", "2", os.Args[0], "up", "--data", dir, "--listen", "127.0.0.1:0", "--data-servers", "1"}
	if code, out, errs := finish(t, cmd); code != 0 || !strings.Contains(errs, "stopped") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}
