package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"manifold/cmd/internal/boot"
	"manifold/mds/admin"
)

func TestUsage(t *testing.T) {
	dir := tempBox(t)
	file := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte("data: x\nlisen: 127.0.0.1:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, none := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "none.yaml")
	for path, text := range map[string]string{
		rules: "data: x\nexports:\n  - {clients: [10.0.0.5, '::1'], access: rw}\n  - {clients: 10.0.0.1/8}\n",
		none:  "exports: []\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ line, want string }{
		{"", "which of its commands"},
		{"upp", `unknown command "upp"`},
		{"up --lisen :1", "unknown flag: --lisen"},
		{"up extra", "extra"},
		{"up --lease soon", "--lease"},
		{"up --lease 1s", "lease: 1s is not between"},
		{"up --listen nowhere", `listen: "nowhere"`},
		{"up --listen 127.0.0.1:65533", "no 4 ports"},
		{"up --data-servers 0", "not between 1 and"},
		{"up --data-servers 2 --ds-listen a:1", "1 addresses for 2"},
		{"up --listen 127.0.0.1:0 --ds-listen 127.0.0.1:7001,127.0.0.1:7001", "given twice"},
		{"up --stripe-unit 1000", "stripe unit"},
		{"up --stripe-unit 1MB", "1MB"},
		{"up --width 1000", "width: 1000"},
		{"up --export clients=10.0.0.0/8 --export access=none", `--export" flag: rule 2: access: "none"`},
		{"up --export access=ro --export squash=all", "exports: rule 1 is for every client"},
		{"up --export sec=krb5", "exports: rule 1: sec: Kerberos needs krb5-keytab"},
		{"up --krb5-realm R", "krb5 realm: of no use"},
		{"up --exports access=ro", "unknown flag: --exports"},
		{"up --config " + rules, rules + ":2: exports: rule 2: clients: \"10.0.0.1/8\""},
		{"up --config " + none, none + ":1: exports: no rule in the list"},
		{"up --pprof", "--metrics"},
		{"up --log-level loud", "loud"},
		{"up --config " + file, file + `:2: unknown key "lisen"; did you mean "listen"?`},
		{"mds --data x --listen :1", "--control is needed"},
		{"ds --data x --listen :1 --mds a:1", "--token-file is needed"},
		{"ctl", "which of its commands"},
		{"ctl bogus", `unknown command "bogus"`},
		{"ctl ds", "which of its commands"},
		{"ctl ds show", "takes one argument, ID"},
		{"ctl layout get dir", "does not begin with"},
		{"ctl layout set /dir", "nothing to set"},
		{"ctl layout set /dir --stripe-unit 0", "0 is no size"},
		{"ctl layout set /dir --width -1", "below 0"},
		{"ctl layout recall", "nothing to recall"},
		{"ctl layout recall f", "does not begin with"},
		{"ctl layout recall /f --all", "more than one of"},
		{"ctl layout recall --fsid --all", "more than one of"},
		{"ctl status -o xml", "xml"},
		{"ctl status --admin /path", "must be unix:PATH"},
	} {
		args := strings.Fields(c.line)
		if len(args) > 0 && args[0] == "up" {
			args = append(args, "--data", filepath.Join(dir, "box"))
		}
		code, out, errs := call(t, args...)
		if code != exitUsage || !strings.Contains(errs, c.want) || out != "" || !strings.Contains(errs, "--help") {
			t.Errorf("%q: exit %d, %q, %s\nwant %s", c.line, code, out, errs, c.want)
		}
	}
	for _, line := range []string{"--help", "up --help", "ctl layout set --help", "version", "version -o json", "completion bash"} {
		if code, out, errs := call(t, strings.Fields(line)...); code != 0 || out == "" || errs != "" {
			t.Errorf("%q: exit %d, %s", line, code, errs)
		}
	}
}

// What scripts rely on: the exit status says whether anybody was there.
func TestExitCodes(t *testing.T) {
	f := &fake{list: []admin.DataServer{{ID: 1, Name: "ds1", State: "up"}}}
	addr := f.serve(t)
	for _, c := range []struct {
		line string
		want int
	}{
		{"status", exitOK},
		{"ds show 1", exitOK},
		{"ds show 9", exitFailed},
		{"ds remove 1", exitFailed},
		{"layout get /nowhere", exitFailed},
		{"layout recall /nowhere", exitFailed},
		{"layout recall --all --client 7", exitFailed},
		{"layout recall --all", exitOK},
		{"--admin unix:/nonexistent/s status", exitUnreachable},
	} {
		code, _, errs := call(t, append([]string{"ctl", "--admin", addr}, strings.Fields(c.line)...)...)
		if code != c.want || (code != 0) != (errs != "") || strings.Contains(errs, "rpc") || strings.Contains(errs, "goroutine") {
			t.Errorf("ctl %s: exit %d, %s, want %d", c.line, code, errs, c.want)
		}
	}
	if code, _, errs := call(t, "ctl", "status"); code != exitUnreachable || !strings.Contains(errs, "--admin") {
		t.Errorf("no socket: exit %d, %s", code, errs)
	}
	// A server that accepts and says nothing.
	path := filepath.Join(tempBox(t), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if code, _, errs := call(t, "ctl", "--admin", "unix:"+path, "--timeout", "50ms", "status"); code != exitUnreachable {
		t.Errorf("silent server: exit %d, %s", code, errs)
	}
}

// ctl finds the server by the environment, and by the places it knows.
func TestCtlFindsServer(t *testing.T) {
	f := &fake{}
	addr := f.serve(t)
	cmd := program(t, "ctl", "status")
	cmd.Env = append(cmd.Env, "MANIFOLD_ADMIN="+addr)
	if code, _, errs := finish(t, cmd); code != 0 {
		t.Errorf("by MANIFOLD_ADMIN: exit %d, %s", code, errs)
	}
	cmd = program(t, "ctl", "status")
	if err := os.Mkdir(filepath.Join(cmd.Dir, "manifold-data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(strings.TrimPrefix(addr, "unix:"), filepath.Join(cmd.Dir, "manifold-data", "admin.sock")); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := finish(t, cmd); code != 0 {
		t.Errorf("in ./manifold-data: exit %d, %s", code, errs)
	}
}

func TestOutputForms(t *testing.T) {
	f := &fake{
		list: []admin.DataServer{
			{ID: 1, Name: "ds1", State: "up", Addresses: []string{"10.0.0.1:2049", "10.1.0.1:2049"}, UsedBytes: 3 << 30, FreeBytes: 999 << 30},
			{ID: 2, Name: "yes", State: "down", HeartbeatAgeSeconds: -1},
		},
		clients: []admin.Client{{ID: "0000000100000001", Owner: "Linux NFSv4.2 \x1b[31mhost", Address: "10.0.0.9:901"}},
		layout:  admin.Layout{Path: "/f", Kind: admin.KindFile, Size: 1 << 20, StripeUnit: 64 << 10, Width: 2, Stripes: []admin.Stripe{{ID: 2, Name: "b"}, {ID: 1, Name: "a"}}},
	}
	addr := f.serve(t)
	ctl := func(line string) string {
		t.Helper()
		code, out, errs := call(t, append([]string{"ctl", "--admin", addr}, strings.Fields(line)...)...)
		if code != 0 {
			t.Fatalf("ctl %s: exit %d, %s", line, code, errs)
		}
		return out
	}
	for line, want := range map[string]string{
		"ds list": "ID  NAME  STATE  ADDRESS           USED     FREE     READ  WRITTEN\n" +
			"1   ds1   up     10.0.0.1:2049,..  3.0 GiB  999 GiB  0 B   0 B\n" +
			"2   yes   down   -                 0 B      0 B      0 B   0 B\n",
		"layout get /f": "path         /f\nkind         file\npolicy       stripe unit default, width default, pool default\n" +
			"size         1.0 MiB (1048576 bytes)\nstripe unit  64KiB\nwidth        2\nstripe 0     2 (b)\nstripe 1     1 (a)\n",
		"layout recall --fsid": "layouts recalled  8\n",
		"layout recall /f":     "layouts recalled  2\n",
		"client list": "ID                ADDRESS       SESSIONS  OPENS  LAYOUTS  SEEN  OWNER\n" +
			"0000000100000001  10.0.0.9:901  0         0      0        0.0s  Linux NFSv4.2 ?[31mhost (unconfirmed)\n",
	} {
		got := ctl(line)
		if got != want {
			t.Errorf("ctl %s:\n%s\nwant:\n%s", line, got, want)
		}
		for _, l := range strings.Split(got, "\n") {
			if strings.HasPrefix(line, "ds") && len(l) > 80 {
				t.Errorf("ctl %s: %d columns", line, len(l))
			}
		}
	}
	// The three forms say the same.
	var fromJSON, fromYAML []admin.DataServer
	if err := json.Unmarshal([]byte(ctl("ds list -o json")), &fromJSON); err != nil {
		t.Fatal(err)
	}
	text := ctl("ds list -o yaml")
	var any any
	if err := yaml.Unmarshal([]byte(text), &any); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(any)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &fromYAML); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(fromJSON) != fmt.Sprint(fromYAML) || fromJSON[1].Name != "yes" {
		t.Errorf("JSON %+v\nYAML %+v", fromJSON, fromYAML)
	}
	if !strings.Contains(text, "\n  name: ds1\n") || strings.Contains(text, "{") {
		t.Errorf("YAML is not in block style:\n%s", text)
	}
}

func TestTexts(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 10 << 10: "10 KiB", 1<<20 - 1: "1.0 MiB", 5 << 29: "2.5 GiB", 1<<64 - 1: "16 EiB",
	} {
		if got := bytesText(n); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
	for s, want := range map[float64]string{-1: "never", 0.05: "0.1s", 42: "42s", 90: "1m30s", 3600: "1h0m", 90061: "1d1h"} {
		if got := secondsText(s); got != want {
			t.Errorf("%v s: %q, want %q", s, got, want)
		}
	}
	tcp := func(port int) net.Addr { return &net.TCPAddr{Port: port} }
	for _, c := range []struct{ got, want string }{
		{mountLine("10.0.0.1", tcp(2049)), "mount -t nfs4 -o vers=4.2,proto=tcp 10.0.0.1:/ /mnt"},
		{mountLine("fd00::1", tcp(20490)), "mount -t nfs4 -o vers=4.2,proto=tcp,port=20490 [fd00::1]:/ /mnt"},
		{reachable("storage.example"), "storage.example"},
		{reachable("127.0.0.1"), "127.0.0.1"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	for _, wild := range []string{"", "0.0.0.0", "::"} {
		if got := reachable(wild); got == wild || got == "" {
			t.Errorf("reachable(%q) = %q", wild, got)
		}
	}
}

// Each file in configs loads, and shows every flag of its command.
func TestConfigs(t *testing.T) {
	m, d, u := &mdsFlags{}, &dsFlags{}, &upFlags{}
	token := filepath.Join(tempBox(t), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cmd    *cobra.Command
		finish func(*pflag.FlagSet) error
	}{
		"mds": {mdsCommandOf(m), func(*pflag.FlagSet) error { return m.finish(m.cfg.Data) }},
		"ds":  {dsCommandOf(d), func(*pflag.FlagSet) error { d.tokenFile = token; return d.finish() }},
		"up":  {upCommandOf(u), u.finish},
	} {
		path := filepath.Join("..", "..", "configs", name+".yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fs := c.cmd.Flags()
		if err := fs.Parse([]string{"--config", path}); err != nil {
			t.Fatal(err)
		}
		if err := boot.Load(fs); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if err := c.finish(fs); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		// What is commented out must load too.
		whole := filepath.Join(t.TempDir(), name+".yaml")
		if err := os.WriteFile(whole, regexp.MustCompile(`(?m)^#([a-z])`).ReplaceAll(text, []byte("$1")), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := fs.Set("config", whole); err != nil {
			t.Fatal(err)
		}
		if err := boot.Load(fs); err != nil {
			t.Errorf("%s without comment signs: %v", path, err)
		}
		fs.VisitAll(func(f *pflag.Flag) {
			if f.Name != "config" && f.Name != "help" && !regexp.MustCompile(`(?m)^#?`+boot.Key(f)+`: `).Match(text) {
				t.Errorf("%s does not show %s", path, f.Name)
			}
		})
		unit, err := os.ReadFile(filepath.Join("..", "..", "configs", "systemd", "manifold-"+name+".service"))
		if err != nil || !strings.Contains(string(unit), "/manifold "+name+" --config /etc/manifold/"+name+".yaml") {
			t.Errorf("systemd unit of %s: %v", name, err)
		}
	}
}

// fake is a metadata server for ctl.
type fake struct {
	admin.Backend
	list    []admin.DataServer
	clients []admin.Client
	layout  admin.Layout
}

func (f *fake) serve(t *testing.T) string {
	t.Helper()
	addr := "unix:" + filepath.Join(tempBox(t), "s")
	ln, err := admin.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = admin.NewServer(f).Serve(t.Context(), ln) }()
	return addr
}

func (f *fake) Status(context.Context) (admin.Status, error)            { return admin.Status{}, nil }
func (f *fake) DataServers(context.Context) ([]admin.DataServer, error) { return f.list, nil }
func (f *fake) Clients(context.Context) ([]admin.Client, error)         { return f.clients, nil }

func (f *fake) DataServer(_ context.Context, id string) (admin.DataServer, error) {
	for _, d := range f.list {
		if fmt.Sprint(d.ID) == id || d.Name == id {
			return d, nil
		}
	}
	return admin.DataServer{}, fmt.Errorf("data server %q: %w", id, admin.ErrNotFound)
}

func (f *fake) RemoveDS(context.Context, string) error {
	return fmt.Errorf("files lie on it: %w", admin.ErrRefused)
}

func (f *fake) RecallLayouts(_ context.Context, r admin.Recall) (uint64, error) {
	switch {
	case r.Path != "" && r.Path != f.layout.Path, r.Client != "":
		return 0, fmt.Errorf("%s: %w", r.Path+r.Client, admin.ErrNotFound)
	case r.Path != "":
		return 2, nil
	}
	return 2 * uint64(len(r.Scope)), nil
}

func (f *fake) Layout(_ context.Context, path string) (admin.Layout, error) {
	if path != f.layout.Path {
		return admin.Layout{}, fmt.Errorf("%s: %w", path, admin.ErrNotFound)
	}
	return f.layout, nil
}
