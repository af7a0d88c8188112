package linux_test

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"manifold/conformance/linux/guest"
	"manifold/conformance/linux/kernel"
	"manifold/conformance/linux/rivalry"
	"manifold/conformance/linux/work"
)

// event is one that a guest logged, by the clock of this side. early is how
// much earlier it may have been.
type event struct {
	rivalry.Event
	early time.Duration
}

// events reads a log that an op on c has kept in a shared folder.
func (c client) events(t *testing.T, log string) []event {
	t.Helper()
	ahead, unsure := c.clock(t)
	list, err := rivalry.ReadEvents(log)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]event, len(list))
	for i, e := range list {
		e.Since, e.At = e.Since.Add(-ahead), e.At.Add(-ahead)
		out[i] = event{e, unsure}
	}
	return out
}

// clock compares the guest's clock with this side's, as the best of some
// questions: it is ahead by so much, give or take unsure.
func (c client) clock(t *testing.T) (ahead, unsure time.Duration) {
	t.Helper()
	for range 20 {
		before := time.Now()
		guests := time.Unix(0, c.do(t, rivalry.Clock{}).N)
		after := time.Now()
		if half := after.Sub(before) / 2; unsure == 0 || half < unsure {
			ahead, unsure = guests.Sub(before.Add(half)), half
		}
	}
	return ahead, unsure
}

// quarrel is a set of locks, each of which one client holds and the next one
// wants, while a server crashes.
type quarrel struct {
	w     *world
	s     *server
	sides []*side
}

// side is one client that holds locks, and the rival that wants them.
type side struct {
	holder, rival client
	dir           string // the holder's mount
	guard         rivalry.Guard
	guarding      *guest.Job
	probe         rivalry.Probe
	probing       *guest.Job
	rivals        []rivalry.Rival
	trying        []*guest.Job
}

// wanted is where the rival sees the holder's file of that kind.
func (sd *side) wanted(kind string) string {
	return path.Join("/mnt/rival", path.Base(sd.guard.Dir), kind)
}

// fought is the kinds of locks that rivals fight for.
func fought() []string { return []string{rivalry.POSIX, rivalry.OFD, rivalry.Flock} }

// quarrel begins: when it returns, all holders hold their locks, and all rivals
// try to get them.
func (w *world) quarrel(t *testing.T, s *server) *quarrel {
	q := &quarrel{w: w, s: s}
	for i, c := range w.clients {
		sd := &side{holder: c, rival: w.clients[(i+1)%len(w.clients)]}
		sd.dir = c.mount(t, s.address, "guard", "vers=4.2,nosharecache")
		name := "guard-" + c.Kernel.Suite
		sd.guard = rivalry.Guard{Dir: path.Join(sd.dir, name), Log: filepath.Join(w.shared, name)}
		sd.guarding = sd.holder.start(t, sd.guard)
		await(t, c, sd.guard.Log, "wrote", 1)
		q.sides = append(q.sides, sd)
	}
	for _, sd := range q.sides {
		sd.rival.mount(t, s.address, "rival", "vers=4.2,nosharecache")
		sd.fight(t)
		probe := sd.holder.mount(t, s.address, "probe", "vers=4.2,nosharecache")
		name := "probe-" + sd.holder.Kernel.Suite
		sd.probe = rivalry.Probe{Dir: path.Join(probe, name), Watch: sd.dir, Log: filepath.Join(w.shared, name)}
		sd.probing = sd.holder.start(t, sd.probe)
	}
	return q
}

// fight has the rival try for each lock in both ways.
func (sd *side) fight(t *testing.T) {
	t.Helper()
	for _, kind := range fought() {
		for _, wait := range []bool{false, true} {
			r := rivalry.Rival{Path: sd.wanted(kind), Kind: kind, Wait: wait, Log: fmt.Sprintf("%s-%s-%v", sd.guard.Log, kind, wait)}
			if kind == rivalry.POSIX {
				r.Kind = rivalry.OFD // two of one process would not conflict
			}
			sd.rivals = append(sd.rivals, r)
			sd.trying = append(sd.trying, sd.rival.start(t, r))
			if !wait {
				await(t, sd.rival, r.Log, "denied", 1)
			}
		}
	}
}

// start begins op as root.
func (c client) start(t *testing.T, op work.Op) *guest.Job {
	t.Helper()
	job, err := c.Start(work.Cred{}, op)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// finish cancels the job and returns what it found.
func (c client) finish(t *testing.T, job *guest.Job) work.Result {
	t.Helper()
	if err := job.Cancel(); err != nil {
		t.Fatal(err)
	}
	return c.result(t, job)
}

// result waits for the job to end.
func (c client) result(t *testing.T, job *guest.Job) work.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), opLimit)
	defer cancel()
	res, err := job.Wait(ctx)
	if err != nil {
		t.Errorf("%s: %v", c.Name, err)
	}
	return res
}

// await waits until a log of c's has n events of the kind what that are later
// than it is now.
func await(t *testing.T, c client, log, what string, n int) {
	t.Helper()
	goal := -1
	for deadline := time.Now().Add(opLimit); ; time.Sleep(20 * time.Millisecond) {
		list, err := rivalry.ReadEvents(log)
		have := 0
		for _, e := range list {
			have += count(e.What == what)
		}
		if goal < 0 && err == nil {
			goal = have + n
		}
		if goal >= 0 && have >= goal {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d events %q in %s after %v, want %d: %v", c.Name, have, what, log, opLimit, goal, err)
		}
	}
}

// count is 1 for true.
func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// settle ends the quarrel after crashes: every holder must hold its locks until
// it lets go, and only then a rival gets them, and reads what was written last.
func (q *quarrel) settle(t *testing.T, crashes []crash) {
	for _, sd := range q.sides {
		q.w.table.run(t, sd.holder.Kernel, "locks over a crash", sd.holder.Kernel.Series(), func(t *testing.T) {
			q.settleSide(t, sd, crashes)
		})
	}
}

func (q *quarrel) settleSide(t *testing.T, sd *side, crashes []crash) {
	await(t, sd.holder, sd.guard.Log, "wrote", 3)
	for i, r := range sd.rivals {
		if !r.Wait {
			await(t, sd.rival, sd.rivals[i].Log, "denied", 1)
		}
	}
	q.delegated(t, sd)
	last := sd.holder.finish(t, sd.guarding).N
	guarded := sd.holder.events(t, sd.guard.Log)
	release := guarded[len(guarded)-1]
	if release.What != "release" {
		t.Fatalf("the holder of the locks ended with %+v", release)
	}
	for i, r := range sd.rivals {
		if got := sd.rival.result(t, sd.trying[i]).N; got != last {
			t.Errorf("%v: it read round %d, want %d, the holder's last", r, got, last)
		}
		tried := sd.rival.events(t, r.Log)
		got := tried[len(tried)-1]
		if got.What != "got" || !got.At.Add(got.early).After(release.At.Add(-release.early)) {
			t.Errorf("%s: %s at %v, the holder let go at %v, give or take %v", r, got.What, got.At, release.At, got.early+release.early)
		}
		t.Logf("%v: refused %d times, had it %v after the holder let go", r, len(tried)-1, got.At.Sub(release.At).Round(time.Millisecond))
	}
	text := sd.rival.do(t, work.ReadFile{Path: sd.wanted(rivalry.Delegated)}).Text
	if want := strconv.FormatInt(last, 10); !strings.HasSuffix(text, want) {
		t.Errorf("%s holds %q, want the holder's last round, %s, at its end", rivalry.Delegated, text, want)
	}
	q.report(t, sd, guarded, crashes)
}

// delegated makes sure that the holder's delegation came through the crashes:
// it is returned when another client opens the file, and not before.
func (q *quarrel) delegated(t *testing.T, sd *side) {
	sd.rival.do(t, work.ReadFile{Path: sd.wanted(rivalry.Delegated)})
	await(t, sd.holder, sd.guard.Log, "wrote", 3)
	sd.holder.finish(t, sd.probing)
	probed := sd.holder.events(t, sd.probe.Log)
	returned := slices.DeleteFunc(slices.Clone(probed), func(e event) bool { return e.What != "DELEGRETURN" })
	// The rivals took back those of the files that they wanted, and the removal
	// that of the one that is gone.
	if last := returned[len(returned)-1]; len(returned) != 2 || returned[0].More != "4" || last.More != "5" {
		t.Errorf("delegations were returned as in %v, want the fifth when another client opened %s", returned, rivalry.Delegated)
	}
}

// said returns when the MDS logged text.
func (s *server) said(t *testing.T, text string) []event {
	t.Helper()
	said, err := s.processes[0].Said(text)
	if err != nil {
		t.Fatal(err)
	}
	var out []event
	for _, at := range said {
		out = append(out, event{Event: rivalry.Event{Since: at, At: at}})
	}
	return out
}

// delays is how long after a kill something came back, a value a crash.
type delays map[string][]time.Duration

// report prints how long recovery took.
func (q *quarrel) report(t *testing.T, sd *side, guarded []event, crashes []crash) {
	probed := sd.holder.events(t, sd.probe.Log)
	over := q.s.said(t, "grace is over")
	d := delays{}
	for _, c := range crashes {
		d.add("listening", c, []event{{Event: rivalry.Event{Since: c.up, At: c.up}}}, "")
		d.add("statfs", c, probed, "statfs")
		d.add("lock reclaimed", c, probed, "LOCK")
		d.add("write under the lock", c, guarded, "wrote")
		d.add("lock of somebody else", c, probed, "lock")
		d.add("end of grace", c, over, "")
		if ended := d["end of grace"]; len(ended) > 0 && ended[len(ended)-1] > c.up.Sub(c.killed)+crashLease*time.Second {
			t.Errorf("grace ended %v after the kill, with all clients there", ended[len(ended)-1])
		}
	}
	t.Logf("%s: kill -9 of the metadata server, %d times, until", sd.holder.Kernel.Version, len(crashes))
	for _, what := range []string{"listening", "statfs", "lock reclaimed", "write under the lock", "end of grace", "lock of somebody else"} {
		if len(d[what]) == 0 {
			t.Errorf("  %-22s never", what)
			continue
		}
		s := slices.Sorted(slices.Values(d[what]))
		t.Logf("  %-22s p50 %5d ms, max %5d ms (of %d)", what, s[len(s)/2].Milliseconds(), s[len(s)-1].Milliseconds(), len(s))
	}
}

// add notes the first event of that kind which began after the crash.
func (d delays) add(name string, c crash, list []event, what string) {
	i := slices.IndexFunc(list, func(e event) bool { return e.What == what && e.Since.After(c.killed) })
	if i >= 0 {
		d[name] = append(d[name], list[i].At.Sub(c.killed))
	}
}

// clientGone lets a client that holds locks go for ever while the MDS is
// down: grace has to end by time, and not before it does others get its locks.
func clientGone(t *testing.T, w *world) {
	s := w.crashed(t)
	sd := &side{holder: boot(t, kernel.Suites()[0], "client-gone", w.shared, len(w.clients)), rival: w.clients[0]}
	dir := "/mnt/guard" // which is not unmounted
	sd.holder.do(t, work.Mount{Source: s.address + ":/", Dir: dir, Type: "nfs4", Options: "vers=4.2"})
	sd.guard = rivalry.Guard{Dir: path.Join(dir, "guard-gone"), Log: filepath.Join(w.shared, "guard-gone")}
	sd.holder.start(t, sd.guard)
	await(t, sd.holder, sd.guard.Log, "wrote", 1)
	sd.rival.mount(t, s.address, "rival", "vers=4.2,nosharecache")
	sd.fight(t)
	ctx, cancel := context.WithTimeout(t.Context(), opLimit)
	defer cancel()
	if _, err := sd.holder.Do(ctx, work.PowerOff{}); err == nil || ctx.Err() != nil {
		t.Fatalf("power off: %v", err)
	}
	c := crash{kills: 1}
	s.crash(t, 0, &c)
	sd.inherit(t, s, c)
}

// inherit waits for the rivals to get the locks of the holder, which is gone.
func (sd *side) inherit(t *testing.T, s *server, c crash) {
	t.Helper()
	guarded, err := rivalry.ReadEvents(sd.guard.Log)
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for _, e := range guarded {
		if e.What == "wrote" {
			last++
		}
	}
	for i, r := range sd.rivals {
		if n := sd.rival.result(t, sd.trying[i]).N; n != last && n != last+1 {
			t.Errorf("%v read round %d, want the last one, %d, or the one after, under way", r, n, last)
		}
	}
	ends := s.said(t, "grace is over")
	over := ends[len(ends)-1].At
	if limit := c.up.Add(crashLease * time.Second); over.Before(limit) {
		t.Errorf("grace ended at %v, want %v at least, because a client was missing", over, limit)
	}
	t.Logf("kill -9 of the metadata server, end of grace %v later", over.Sub(c.killed).Round(time.Millisecond))
	for _, r := range sd.rivals {
		tried := sd.rival.events(t, r.Log)
		got := tried[len(tried)-1]
		if got.What != "got" || got.At.Add(got.early).Before(over) {
			t.Errorf("%v: %s at %v, grace ended at %v", r, got.What, got.At, over)
		}
		t.Logf("%v had it %v after that", r, got.At.Sub(over).Round(time.Millisecond))
	}
}

// complaints are lines of a client's kernel log which say that something went
// wrong between it and the server. That it "lost locks" is not among them: after
// a restart Linux counts those too that it asked for and never got.
func complaints(log string) []string {
	var out []string
	wrong := regexp.MustCompile(`(?i)(nfs|rpc|sunrpc).*(fail|error|unable|unexpected|bug|loop|went wrong)|hung|blocked for more|Call Trace|WARNING:`)
	for line := range strings.Lines(log) {
		if wrong.MatchString(line) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// content makes sure that no client's kernel log complains.
func (w *world) content(t *testing.T) {
	for _, c := range w.clients {
		log := c.do(t, work.ReadFile{Path: "dmesg"}).Text
		for _, line := range complaints(log) {
			t.Errorf("%s: kernel log: %s", c.Kernel.Version, line)
		}
	}
}

func TestComplaints(t *testing.T) {
	const log = "<6>NFS: Registering the id_resolver key type\n<4>nfs: server 10.98.3.1 OK\n" +
		"<4>NFS: __nfs4_reclaim_open_state: Lock reclaim failed!\n<4>NFS: 10.98.3.1: lost 3 locks\n<3>INFO: task dd:33 blocked for more than 120 seconds.\n"
	if got := complaints(log); len(got) != 2 {
		t.Errorf("complaints %q, want the third line and the last", got)
	}
}
