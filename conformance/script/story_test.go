package script_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"manifold/xdr/nfs4"
)

// patience bounds every wait for something that has to happen.
const patience = 40 * time.Second

// TestMain lets all stories run at once: they wait for leases, not for CPUs.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "32"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestStories(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d stories, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				return s.scene(t, d)
			})
		})
	}
}

// story is one file's cluster and actors.
type story struct {
	names   *names
	cluster *cluster
	clients map[string]*client
	raws    map[string]*raw
	jobs    map[string]chan string // commands that go on meanwhile, by client
}

func newStory(t *testing.T) *story {
	s := &story{names: newNames(), clients: map[string]*client{}, raws: map[string]*raw{}, jobs: map[string]chan string{}}
	s.cluster = &cluster{dir: t.TempDir(), names: s.names}
	t.Cleanup(func() {
		for _, c := range s.clients {
			c.end()
		}
		for _, r := range s.raws {
			r.conn.Close()
		}
		for _, j := range s.jobs {
			<-j
		}
		if err := s.cluster.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// scene runs the lines of one block. The first is what datadriven takes for a
// command with arguments.
func (s *story) scene(t *testing.T, d *datadriven.TestData) string {
	first := d.Cmd
	for _, a := range d.CmdArgs {
		first += " " + a.String()
	}
	var lines []string
	for line := range strings.Lines(first + "\n" + d.Input) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	var out strings.Builder
	for _, line := range lines {
		answer := s.line(line)
		if os.Getenv("SCRIPT_LOG") != "" {
			fmt.Fprintf(os.Stderr, "%s\n  %s\n", line, answer)
		}
		if strings.Contains(answer, "BROKEN") {
			t.Errorf("%s: %s: %s", d.Pos, line, answer)
		}
		if len(lines) > 1 {
			words := strings.Fields(line)
			fmt.Fprintf(&out, "%s: ", strings.TrimSuffix(strings.Join(words[:min(2, len(words))], " "), ":"))
		}
		out.WriteString(answer + "\n")
	}
	return out.String()
}

// line runs one command. Whatever makes no sense is BROKEN, and fails the test.
func (s *story) line(line string) (answer string) {
	defer func() {
		if p := recover(); p != nil {
			b, ok := p.(broken)
			if !ok {
				panic(p)
			}
			answer = "BROKEN: " + b.Error()
		}
	}()
	a := parse(line)
	who, speaks := strings.CutSuffix(a.word(0), ":")
	if !speaks {
		return s.direct(a)
	}
	a.words = a.words[1:]
	if a.has("&") {
		done := make(chan string, 1)
		s.jobs[who] = done
		rest := strings.TrimSuffix(strings.TrimSpace(line), "&")
		go func() { done <- s.line(rest) }()
		return "under way"
	}
	if r := s.raws[who]; r != nil {
		return r.act(a)
	}
	c := s.clients[who]
	if c == nil {
		panic(broken{fmt.Errorf("no client %q", who)})
	}
	return c.act(a)
}

// direct runs a command that no actor speaks.
func (s *story) direct(a args) string {
	switch a.word(0) {
	case "client":
		return s.mount(a)
	case "raw":
		s.raws[a.word(1)] = newRaw(s, a)
		return "ok"
	case "join":
		j := s.jobs[a.word(1)]
		if j == nil {
			panic(broken{fmt.Errorf("%s does nothing", a.word(1))})
		}
		delete(s.jobs, a.word(1))
		return <-j
	case "events":
		return s.events()
	case "on-recall":
		c := s.clients[strings.TrimSuffix(a.word(1), ":")]
		c.answerRecalls(a.word(2))
		return "ok"
	case "kill":
		s.cluster.node(a.word(1)).kill()
		for _, c := range s.clients {
			c.awaitCut(s.cluster.node(a.word(1)).listen)
		}
		s.cluster.waitDS(a.word(1), "down")
		return "down"
	case "wait":
		s.waitUntil(a)
		return "ok"
	}
	return s.cluster.act(a)
}

// events says what clients were asked for since the last time.
func (s *story) events() string {
	var out []string
	for _, name := range sortedKeys(s.clients) {
		out = append(out, s.clients[name].takeEvents()...)
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, "\n")
}

// waitUntil waits for a condition.
func (s *story) waitUntil(a args) {
	what := ""
	if len(a.words) > 2 {
		what = a.word(2)
	}
	switch {
	case what == "grace":
		eventually("the end of grace", func() bool { return !s.cluster.status().Grace })
	case what == "all":
		for _, n := range s.cluster.nodes {
			s.cluster.waitDS(n.name, a.word(3))
		}
	case what == "objects":
		want := strings.Join(a.words[5:], " ")
		eventually("objects "+want, func() bool { return s.cluster.objects(s.names.object(a.word(3)), true) == want })
	case strings.HasPrefix(what, "ds"):
		s.cluster.waitDS(what, a.word(3))
	case s.clients[what] != nil:
		eventually("a recall from "+what, s.clients[what].wasRecalled)
	default:
		for _, key := range []string{"mounts", "clients", "opens", "locks", "layouts"} {
			if a.has(key) {
				eventually(fmt.Sprintf("%s=%d", key, a.num(key, 0)), func() bool {
					return s.cluster.count(key) == a.num(key, 0)
				})
			}
		}
	}
}

// broken is what a story must not run into.
type broken struct{ error }

func check(err error) {
	if err != nil {
		panic(broken{err})
	}
}

// eventually returns when ok does.
func eventually(what string, ok func() bool) {
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			panic(broken{fmt.Errorf("waited for %s in vain", what)})
		}
	}
}

// args is a command: its words, and those of the form key=value apart.
type args struct {
	words []string
	keys  map[string]string
}

func parse(line string) args {
	flags := []string{"once", "&", "noproxy", "nocache", "nocommit", "trunc", "old", "quiet"}
	a := args{keys: map[string]string{}}
	for _, w := range strings.Fields(line) {
		key, val, ok := strings.Cut(w, "=")
		switch {
		case ok && key != "":
			a.keys[key] = val
		case slices.Contains(flags, w):
			a.keys[w] = ""
		default:
			a.words = append(a.words, w)
		}
	}
	return a
}

func (a args) word(i int) string {
	if i >= len(a.words) {
		panic(broken{fmt.Errorf("%q: word %d is missing", a.words, i)})
	}
	return a.words[i]
}

func (a args) has(key string) bool { _, ok := a.keys[key]; return ok }

func (a args) str(key, or string) string {
	if v, ok := a.keys[key]; ok {
		return v
	}
	return or
}

func (a args) num(key string, or uint64) uint64 {
	v, ok := a.keys[key]
	if !ok {
		return or
	}
	return size(v)
}

// size reads "64KiB", "3MiB", "100" or "end".
func size(v string) uint64 {
	if v == "end" {
		return nfs4.LengthToEnd
	}
	shift := 0
	for unit, by := range map[string]int{"KiB": 10, "MiB": 20} {
		if n, ok := strings.CutSuffix(v, unit); ok {
			v, shift = n, by
		}
	}
	n, err := strconv.ParseUint(v, 10, 64)
	check(err)
	return n << shift
}

// bytesOf is the inverse of size.
func bytesOf(n uint64) string {
	switch {
	case n > 0 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n > 0 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return strconv.FormatUint(n, 10)
}
