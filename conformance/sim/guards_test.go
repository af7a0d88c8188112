package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// guard is a line of the servers that keeps a promise, and what is there when
// it is switched off.
type guard struct {
	name, file, is, off string
}

// guards are switched off one at a time, in a copy: the servers themselves know
// nothing of it. A line that is not there any more, or not once, fails the test.
var guards = []guard{
	{
		"no recall before a conflicting open", "mds/state/delegrecall.go",
		"if f == nil || f.delegs == 0 {", "if f == nil || f.delegs >= 0 {",
	},
	{
		"a delegation to write beside other opens", "mds/state/deleg.go",
		"return f.stakes.len() == 1 && st != nil", "return st != nil || true",
	},
	{
		"a delegation to read beside writers", "mds/state/deleg.go",
		"return f.access[1] == mine.access[1] && f.deny[0] == mine.deny[0] && f.writable == mine.writable", "return f.access[1] >= 0 && mine.access[1] >= 0",
	},
	{
		"a recall of a delegation that ends at once", "mds/state/delegrecall.go",
		"late := !e.now.Before(d.due)", "late := !e.now.Before(d.due.Add(-2 * c.cfg.Recall))",
	},
	{
		"a change of attributes beside a delegation", "mds/op/deleg.go",
		"if s = o.decide(state.DelegConflictReq{File: file, Client: client, Change: true}).Status; s == nfs4.OK {", "if s = nfs4.OK; s == nfs4.OK {",
	},
	{
		"layouts kept over a truncation", "mds/op/recall.go",
		"\t\tunlock()\n\t\tif s := o.recallOthers(wait, file, client); s != nfs4.OK {",
		"\t\tif client != 0 {\n\t\t\treturn unlock, nfs4.OK\n\t\t}\n\t\tunlock()\n\t\tif s := o.recallOthers(wait, file, client); s != nfs4.OK {",
	},
	{
		"a layout revoked and not fenced", "mds/op/recaller.go",
		"for _, f := range v.Effects.Fence {\n\t\tif !o.fenceFor", "for _, f := range v.Effects.Fence[:0] {\n\t\tif !o.fenceFor",
	},
	{
		"a client's state given to others before it is fenced", "mds/op/clients.go",
		"if err := o.Outbox.WaitClient(ctx, id); err != nil {\n\t\t\t\treturn //", "if err := ctx.Err(); err != nil {\n\t\t\t\treturn //",
	},
	{
		"locks granted before those lost in a restart are fenced", "mds/op/lost.go",
		"\tselect {\n\tcase <-o.fenced:\n\t\treturn nfs4.OK\n\tdefault:\n\t}\n", "\tif ctx != nil {\n\t\treturn nfs4.OK\n\t}\n",
	},
	{
		"grace that is over at once", "mds/state/grace.go",
		"return len(c.waiting) > 0 && now.Before(c.until)", "return len(c.waiting) > 0 && now.Before(c.until.Add(-c.cfg.Grace))",
	},
	{
		"a stranger may reclaim", "mds/state/grace.go",
		"case !cl.reclaims:", "case !cl.reclaims && cl.going:",
	},
	{
		"files removed during grace", "mds/op/remove.go",
		"func (o *Ops) remove(ctx context.Context, c *compound.Call, a *nfs4.RemoveArgs, r *nfs4.RemoveRes) nfs4.Status {\n\tif s := o.graceGate(); s != nfs4.OK {",
		"func (o *Ops) remove(ctx context.Context, c *compound.Call, a *nfs4.RemoveArgs, r *nfs4.RemoveRes) nfs4.Status {\n\tif s := nfs4.OK; s != nfs4.OK {",
	},
	{
		"attributes changed during grace", "mds/state/delegrecall.go",
		"if c.inGrace(e.now) {", "if c.inGrace(e.now) && !r.Change {",
	},
	{
		"who may not reclaim is not waited for", "mds/op/clients.go",
		"record[name] = record[name] || r.Complete", "if r.Complete {\n\t\t\trecord[name] = true\n\t\t}",
	},
	{
		"a dead client stays on record", "mds/op/clients.go",
		"if err := o.Cluster.DeleteClient(tx, id); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n\t\t\tif len(on)", "if len(on)",
	},
	{
		"what was revoked may be reclaimed", "mds/op/recaller.go",
		"if len(v.Effects.Revoked) > 0 && o.bar", "if len(v.Effects.Revoked) < 0 && o.bar",
	},
	{
		"an open of a client without a lease handed out twice", "mds/state/courtesy.go",
		"\treturn gone.delay(), true\n}", "\treturn v, len(gone) < 0\n}",
	},
	{
		"a lock of a client without a lease handed out twice", "mds/state/lock.go",
		"if len(gone) > 0 {\n\t\treturn gone.delay(), true", "if len(gone) < 0 {\n\t\treturn gone.delay(), true",
	},
	{
		"a delegation of a client without a lease handed out twice", "mds/state/delegrecall.go",
		"\tv.Status = nfs4.ErrDelay\n\tv.Effects.Expire = gone.expire()\n",
		"\tif len(gone) > 0 && len(acts) == 0 {\n\t\treturn Verdict{}, false\n\t}\n\tv.Status = nfs4.ErrDelay\n\tv.Effects.Expire = gone.expire()\n",
	},
	{
		"no courtesy", "mds/state/courtesy.go",
		"case cl == nil || cl.going || c.cfg.Courtesy == 0 || cl.stakes.len() == 0:", "case cl == nil || cl.stakes.len() >= 0:",
	},
	{
		"the holder of a delegation is not asked", "mds/state/deleg.go",
		"if f == nil || f.writer == nil ||", "if f == nil || f.writer != nil || f.writer == nil ||",
	},
	{
		"what the holder says is told once only", "mds/op/cbgetattr.go",
		"a.Change != g.change+1 && g.told != in.Change", "g.told != in.Change",
	},
	{
		"the reply cache is not looked at", "xdr/session/sequence.go",
		"if a.SequenceID == slot.seq && slot.used {", "if a.SequenceID == slot.seq && slot.used && t == nil {",
	},
	{
		"a cut that is not waited for", "mds/op/setattr.go",
		"if cut || o.Outbox.Pending(obj) {", "if cut && o.Outbox.Pending(obj) && !cut {",
	},
	{
		"a file freed while it is open", "mds/op/remove.go",
		"if o.opened(gone.Inode.ID) {", "if o.opened(0) {",
	},
	{
		"tables that keep what is gone", "mds/state/deleg.go",
		"\tc.delegs.drop(d.num)\n", "",
	},
}

// guardSeeds is how many seeds have a chance to find a guard that is off: some
// matter only on the worst of days.
const guardSeeds = 1500

// TestGuards switches one guard off at a time in the servers' source: the judge
// must notice. It builds the simulation anew for each.
func TestGuards(t *testing.T) {
	if testing.Short() || *oneSeed != 0 || *budget != 0 {
		t.Skip("builds a lot")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range guards {
		t.Run(g.name, func(t *testing.T) {
			dir := t.TempDir()
			bin := filepath.Join(dir, "sim.test")
			g.build(t, root, dir, bin)
			o, err := run(t.Context(), bin, "-sim.share", "0", "-sim.jobs", "1", "-sim.first", fmt.Sprint(*first), "-sim.seeds", fmt.Sprint(guardSeeds))
			switch {
			case err != nil:
				t.Logf("found by a crash: %.500v", err)
			case o.Seed == 0:
				t.Errorf("not found by %d seeds", o.Seeds)
			default:
				t.Logf("found with seed %d: %.300s", o.Seed, o.Failed)
			}
		})
	}
}

// build makes the simulation without the guard.
func (g guard) build(t *testing.T, root, dir, bin string) {
	t.Helper()
	name := filepath.Join(root, filepath.FromSlash(g.file))
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(src), g.is); n != 1 {
		t.Fatalf("%q is %d times in %s", g.is, n, g.file)
	}
	without := filepath.Join(dir, "without.go")
	if err := os.WriteFile(without, []byte(strings.Replace(string(src), g.is, g.off, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {name: without}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", list, "-o", bin, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
