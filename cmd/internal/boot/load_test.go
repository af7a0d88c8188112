package boot

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// settings are flags of every kind.
type settings struct {
	Options
	listen string
	lease  time.Duration
	width  int
	unit   Size
	proxy  bool
	list   []string
	rules  []string
}

func newFlags() (*settings, *pflag.FlagSet) {
	s := &settings{}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.Register(fs)
	fs.StringVar(&s.listen, "listen", ":1", "")
	fs.DurationVar(&s.lease, "lease", time.Minute, "")
	fs.IntVar(&s.width, "width", 4, "")
	fs.Var(&s.unit, "stripe-unit", "")
	fs.BoolVar(&s.proxy, "no-proxy-io", false, "")
	fs.StringSliceVar(&s.list, "ds-listen", nil, "")
	fs.StringArrayVar(&s.rules, "rule", nil, "")
	ListKey(fs, "rule", "rules")
	return s, fs
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadOrder(t *testing.T) {
	path := write(t, `
listen: file:1
lease: 10s
width: 1
stripe-unit: 64KiB
no-proxy-io: true
ds-listen: [a:1, "b:2"]
`)
	t.Setenv("MANIFOLD_CONFIG", path)
	t.Setenv("MANIFOLD_LEASE", "20s")
	t.Setenv("MANIFOLD_WIDTH", "2")
	t.Setenv("MANIFOLD_SERVICE_HOST", "not ours") // as Kubernetes sets
	s, fs := newFlags()
	if err := fs.Parse([]string{"--width", "3"}); err != nil {
		t.Fatal(err)
	}
	if err := Load(fs); err != nil {
		t.Fatal(err)
	}
	if s.listen != "file:1" || s.lease != 20*time.Second || s.width != 3 || s.unit != 64<<10 || !s.proxy || !slices.Equal(s.list, []string{"a:1", "b:2"}) {
		t.Errorf("loaded %+v", s)
	}
	if s.LogLevel != "info" {
		t.Errorf("log level %q, want the default", s.LogLevel)
	}
	for name, want := range map[string]bool{"listen": true, "lease": true, "width": true, "log-level": false} {
		if got := fs.Lookup(name).Changed; got != want {
			t.Errorf("%s given: %v, want %v", name, got, want)
		}
	}
	t.Setenv("MANIFOLD_DS_LISTEN", "c:3,d:4")
	s, fs = newFlags()
	if err := Load(fs); err != nil || !slices.Equal(s.list, []string{"c:3", "d:4"}) {
		t.Errorf("list from the environment: %q, %v", s.list, err)
	}
}

// The rules of a list may be words or maps.
func TestLoadMaps(t *testing.T) {
	path := write(t, "width: 2\nrules:\n  - clients: [10.0.0.0/8, fd00::/8]\n    access: ro\n  - {clients: '10.0.0.1, ::1', id: 07}\n  - a=b,c=d\n")
	s, fs := newFlags()
	if err := fs.Parse([]string{"--config", path}); err != nil {
		t.Fatal(err)
	}
	want := []string{"clients=10.0.0.0/8,fd00::/8,access=ro", "clients=10.0.0.1, ::1,id=07", "a=b,c=d"}
	if err := Load(fs); err != nil || !slices.Equal(s.rules, want) {
		t.Errorf("rules %q, %v", s.rules, err)
	}
	s, fs = newFlags()
	if err := fs.Parse([]string{"--config", path, "--rule", "x=y,z", "--rule", "u"}); err != nil {
		t.Fatal(err)
	}
	if err := Load(fs); err != nil || !slices.Equal(s.rules, []string{"x=y,z", "u"}) {
		t.Errorf("the command line counts before the file: %q, %v", s.rules, err)
	}
	t.Setenv("MANIFOLD_RULES", "v=w")
	s, fs = newFlags()
	if err := Load(fs); err != nil || !slices.Equal(s.rules, []string{"v=w"}) {
		t.Errorf("rules from the environment: %q, %v", s.rules, err)
	}
}

func TestLoadEmpty(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "---\n"} {
		s, fs := newFlags()
		if err := fs.Parse([]string{"--config", write(t, text)}); err != nil {
			t.Fatal(err)
		}
		if err := Load(fs); err != nil || s.width != 4 {
			t.Errorf("%q: %v, %+v", text, err, s)
		}
	}
}

// What is wrong is told with its place and what to do.
func TestLoadErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"width: 4\nstripe_unit: 1MiB\n", `:2: unknown key "stripe_unit"; did you mean "stripe-unit"?`},
		{"listne: a:1\n", `:1: unknown key "listne"; did you mean "listen"?`},
		{"Listen: a:1\n", `:1: unknown key "Listen"; did you mean "listen"?`},
		{"nonsense-altogether: 1\n", `:1: unknown key "nonsense-altogether"`},
		{"config: other.yaml\n", `:1: unknown key "config"`},
		{"help: true\n", `:1: unknown key "help"`},
		{"width: 1\n\nwidth: 2\n", ":3: width is given again; it is in line 1 already"},
		{"width:\n", ":1: width: no value"},
		{"width: four\n", `:1: width: "four" is not a whole number`},
		{"\nlease: 90\n", `:2: lease: "90" is not a time such as 90s or 2m`},
		{"stripe-unit: 1MB\n", `:1: stripe-unit: "1MB" is not a size such as 64KiB or 1MiB`},
		{"no-proxy-io: yes please\n", `:1: no-proxy-io: "yes please" is not true or false`},
		{"listen: [a:1, b:2]\n", ":1: listen: one value, not a list"},
		{"listen: {host: a}\n", ":1: listen: the value must be a word"},
		{"ds-listen: [a:1, [b:2]]\n", ":1: ds-listen: the value must be a word"},
		{"ds-listen: [a:1, null]\n", ":1: ds-listen: no value"},
		{"rule: x\n", `:1: unknown key "rule"; did you mean "rules"?`},
		{"rules: {a: b}\n", ":1: rules: the value must be a word"},
		{"rules: [{a: {b: c}}]\n", ":1: rules: a: the value must be a word"},
		{"rules: [{a: }]\n", ":1: rules: a: no value"},
		{"rules: [{a: []}]\n", ":1: rules: a: the list is empty"},
		{"rules: [{a: [b, [c]]}]\n", ":1: rules: a: the value must be a word"},
		{"rules: [{a: 'b,c=d'}]\n", `:1: rules: a: "b,c=d" has a = in it`},
		{"rules: [{[a]: b}]\n", ":1: rules: a key must be a word"},
		{"ds-listen: [{a: b}]\n", ":1: ds-listen: the value must be a word"},
		{"- listen\n", ":1: the file must consist of lines"},
		{"just words\n", ":1: the file must consist of lines"},
		{"[a, b]: c\n", ":1: a key must be a word"},
		{"width: 1\n---\nwidth: 2\n", "a second document begins"},
		{"width: 1\n\tlease: 1s\n", "line 2"},
		{"a: *nowhere\n", "unknown anchor"},
		{"listen: &x a:1\nadmin: *x\n", `:2: unknown key "admin"`},
		{"width: \xff\n", "m.yaml"},
		{"listen: a:1\n# " + strings.Repeat("x", maxFile), "longer than"},
	} {
		_, fs := newFlags()
		path := write(t, c.text)
		if err := fs.Parse([]string{"--config", path}); err != nil {
			t.Fatal(err)
		}
		err := Load(fs)
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%.40q: error %v\nwant %s", c.text, err, c.want)
		}
	}
	_, fs := newFlags()
	t.Setenv("MANIFOLD_LEASE", "soon")
	if err := Load(fs); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "MANIFOLD_LEASE") {
		t.Errorf("wrong environment variable: %v", err)
	}
	t.Setenv("MANIFOLD_CONFIG", "/nonexistent.yaml")
	if err := Load(fs); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "/nonexistent.yaml") {
		t.Errorf("no file: %v", err)
	}
}

// All that is wrong with a file is told at once.
func TestLoadAllErrors(t *testing.T) {
	_, fs := newFlags()
	if err := fs.Parse([]string{"--config", write(t, "one: 1\nwidth: 1\ntwo: 2\n")}); err != nil {
		t.Fatal(err)
	}
	err := Load(fs)
	if err == nil || !strings.Contains(err.Error(), ":1:") || !strings.Contains(err.Error(), ":3:") || !errors.Is(err, ErrUsage) {
		t.Errorf("error %v", err)
	}
}

func FuzzConfigFile(f *testing.F) {
	f.Add("listen: a:1\nds-listen: [a, b]\n")
	f.Add("a: &x [1]\nb: *x\n? {}\n: 1")
	f.Add("<<: {width: 1}\n")
	f.Add("rules: [{a: [b, c], d: e}, f=g]\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, fs := newFlags()
		if err := fs.Parse([]string{"--config", write(t, text)}); err != nil {
			t.Fatal(err)
		}
		if err := Load(fs); err != nil && !errors.Is(err, ErrUsage) {
			t.Errorf("error %v is nobody's fault", err)
		}
		_ = s
	})
}

func TestSize(t *testing.T) {
	for text, want := range map[string]uint64{
		"0": 0, "65536": 65536, "512B": 512, "64KiB": 64 << 10, "64k": 64 << 10, "1MiB": 1 << 20, "4M": 4 << 20, "1 GiB": 1 << 30,
		"2t": 2 << 40, "1PiB": 1 << 50, "18446744073709551615": 1<<64 - 1,
	} {
		var z Size
		if err := z.Set(text); err != nil || uint64(z) != want {
			t.Errorf("%q = %d, %v, want %d", text, z, err, want)
			continue
		}
		var again Size
		if err := again.Set(z.String()); err != nil || again != z {
			t.Errorf("%q is written %q, which is %d, %v", text, z.String(), again, err)
		}
	}
	for _, text := range []string{"", "M", "1.5M", "-1", "1MB", "1kb", "0x10", "1 2", "1MiBs", "18446744073709551616", "16384PiB", "99999999999T"} {
		var z Size
		if err := z.Set(text); err == nil {
			t.Errorf("%q = %d, want an error", text, z)
		}
	}
}
