package linux_test

import (
	"fmt"
	"path"
	"path/filepath"
	"testing"

	"manifold/conformance/linux/work"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
)

// mountVersion mounts with that minor version and sees the layout driver and
// I/O to data servers, and the right identity of a file after a remount.
func mountVersion(version string) func(t *testing.T, w *world, c client) {
	return func(t *testing.T, w *world, c client) {
		s := w.direct(t)
		name := "v" + version + "-" + c.Kernel.Suite
		steps := []work.Step{{Do: "write", Len: 3*mib + 17, Seed: 77}}
		t.Run("write", func(t *testing.T) {
			dir := c.mount(t, s.address, name, "vers="+version)
			c.do(t, work.Plan{Path: path.Join(dir, name), Steps: steps})
			st := c.stats(t, dir)
			if st.PNFS != filesLayout {
				t.Errorf("mountstats says pnfs=%s, want %s", st.PNFS, filesLayout)
			}
			if st.PNFSWrites() == 0 {
				t.Error("no write went to a data server")
			}
			c.direct(t, dir)
		})
		t.Run("read", func(t *testing.T) {
			dir := c.mount(t, s.address, name, "vers="+version)
			c.do(t, work.Verify{Path: path.Join(dir, name), Steps: steps, How: "buffered"})
			c.direct(t, dir)
		})
		s.noProxy(t)
	}
}

// source makes a file of random bytes that every guest sees, and returns its
// path and sum.
func (w *world) source(t *testing.T, size int64) (name, sum string) {
	t.Helper()
	name = filepath.Join(w.shared, fmt.Sprint("random-", size))
	steps := []work.Step{{Do: "write", Len: size, Seed: uint64(size), Block: mib}}
	if _, err := (work.Plan{Path: name, Steps: steps}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	res, err := work.Sum{Path: name}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return name, res.Sum
}

// cold reads the file by a second mount that shares no cache with the first.
func (c client) cold(t *testing.T, s *server, name string, direct bool) string {
	t.Helper()
	dir := c.mount(t, s.address, "cold", "vers=4.2,nosharecache")
	c.do(t, work.DropCaches{})
	res := c.do(t, work.Sum{Path: path.Join(dir, name), Direct: direct})
	c.direct(t, dir)
	t.Logf("read %d MiB cold at %d MB/s", res.N/mib, res.N/1000/max(res.Millis, 1))
	return res.Sum
}

// ddFile writes a file with dd and sees it striped evenly over all data
// servers, and read back identical.
func ddFile(t *testing.T, w *world, c client) { w.tool(t, c, 64*mib, "dd") }

// bigFiles does the same with 256 MiB and dd, cp and fio.
func bigFiles(t *testing.T, w *world, c client) {
	for _, tool := range []string{"dd", "cp", "fio"} {
		t.Run(tool, func(t *testing.T) { w.tool(t, c, 256*mib, tool) })
	}
}

// tool writes a file of size bytes with one program.
func (w *world) tool(t *testing.T, c client, size int64, tool string) {
	s := w.direct(t)
	src, want := w.source(t, size)
	dir := c.mount(t, s.address, "t", "vers=4.2")
	name := fmt.Sprint(tool, "-", size, "-", c.Kernel.Suite)
	before := s.settled(t)
	scripts := map[string]string{
		"dd":  "dd if=" + src + " of=" + name + " bs=1M conv=fsync 2>&1 | tail -1",
		"cp":  "cp " + src + " " + name + " && sync " + name,
		"fio": fmt.Sprintf("fio --name=f --filename=%s --size=%d --rw=randwrite --bs=256k --randrepeat=1 --refill_buffers --verify=crc32c --do_verify=0 --end_fsync=1 --minimal >/dev/null", name, size),
	}
	t.Log(c.sh(t, dir, scripts[tool]))
	s.shares(t, before, size)
	if tool == "fio" {
		// What fio wrote is known from the writer's own cache, and by fio.
		want = c.do(t, work.Sum{Path: path.Join(dir, name)}).Sum
	}
	if got := c.cold(t, s, name, false); got != want {
		t.Errorf("the sum of what %s wrote is %s, want %s", tool, got, want)
	}
	if tool == "fio" {
		c.do(t, work.DropCaches{})
		c.sh(t, dir, fmt.Sprintf("fio --name=f --filename=%s --size=%d --rw=randread --bs=256k --randrepeat=1 --verify=crc32c --verify_only --minimal >/dev/null", name, size))
	}
	c.direct(t, dir)
	s.noProxy(t)
	c.sh(t, dir, "rm "+name)
}

// shape is a striping.
type shape struct {
	width int
	unit  int64
}

// someStorms is one storm for each width and each unit.
func someStorms(t *testing.T, w *world, c client) {
	w.storms(t, c, []shape{{1, mib}, {2, 4 * mib}, {3, 64 * kib}, {4, mib}})
}

// allStorms is every width with every unit.
func allStorms(t *testing.T, w *world, c client) {
	var all []shape
	for width := 1; width <= dataServers; width++ {
		for _, unit := range []int64{64 * kib, mib, 4 * mib} {
			all = append(all, shape{width, unit})
		}
	}
	w.storms(t, c, all)
}

// storms sets each shape on a directory of its own and puts a file there
// through random changes: unaligned writes larger than the stripe unit (which
// show a client that glues requests across stripe units), overlapping, sparse,
// appending and direct ones, and truncation in the middle of stripes.
func (w *world) storms(t *testing.T, c client, shapes []shape) {
	s := w.direct(t)
	for i, sh := range shapes {
		t.Run(fmt.Sprintf("width %d unit %dK", sh.width, sh.unit/kib), func(t *testing.T) {
			dir := c.mount(t, s.address, "t", []string{"vers=4.2", "vers=4.1"}[i%2])
			base := fmt.Sprintf("storm-%s-%d-%d-%d", c.Kernel.Suite, sh.width, sh.unit, len(shapes))
			c.sh(t, dir, "mkdir "+base)
			if err := s.LayoutSet(t.Context(), "/"+base, sh.unit, sh.width); err != nil {
				t.Fatal(err)
			}
			size := max(6*mib, 5*sh.unit)
			steps := append([]work.Step{{Do: "write", Off: sh.unit/2 + 1, Len: 3*sh.unit + 12345, Seed: 3}},
				work.Storm(uint64(sh.width)*1000+uint64(sh.unit), sh.unit, size, 30)...)
			name := path.Join(base, "f")
			res := c.do(t, work.Plan{Path: path.Join(dir, name), Steps: steps})
			if got, err := s.Layout(t.Context(), "/"+name); err != nil || got.Width != sh.width || got.Unit != sh.unit {
				t.Errorf("layout %+v, %v, want %+v", got, err, sh)
			}
			c.do(t, work.Verify{Path: path.Join(dir, name), Steps: steps, How: "buffered"})
			cold := c.mount(t, s.address, "cold", "vers=4.2,nosharecache")
			c.do(t, work.DropCaches{})
			for _, how := range []string{"direct", "buffered", "mmap"} {
				c.do(t, work.Verify{Path: path.Join(cold, name), Steps: steps, How: how, Block: 256 * kib})
			}
			t.Logf("%d bytes written in %d ms", res.N, res.Millis)
			c.direct(t, dir)
			c.direct(t, cold)
			s.noProxy(t)
		})
	}
}

// edges goes to the ends and into the holes of files, with and without the
// page cache.
func edges(t *testing.T, w *world, c client) {
	s := w.direct(t)
	dir := c.mount(t, s.address, "t", "vers=4.2")
	cold := c.mount(t, s.address, "cold", "vers=4.2,nosharecache")
	base := "edges-" + c.Kernel.Suite
	c.sh(t, dir, "mkdir "+base)
	if err := s.LayoutSet(t.Context(), "/"+base, 64*kib, dataServers); err != nil {
		t.Fatal(err)
	}
	const unit = 64 * kib
	cases := map[string][]work.Step{
		"empty":                  {{Do: "sync"}},
		"one-byte":               {{Do: "write", Len: 1, Seed: 1}},
		"hole-only":              {{Do: "truncate", Off: 10*unit + 5}},
		"hole-then-data":         {{Do: "write", Off: 9*unit + 100, Len: 300, Seed: 2}},
		"data-hole-data":         {{Do: "write", Len: 100, Seed: 3}, {Do: "write", Off: 33*unit + 7, Len: unit, Seed: 4}},
		"cut-in-a-stripe":        {{Do: "write", Len: 8 * unit, Seed: 5}, {Do: "sync"}, {Do: "truncate", Off: 5*unit + 333}},
		"cut-and-grow":           {{Do: "write", Len: 8 * unit, Seed: 6}, {Do: "sync"}, {Do: "truncate", Off: 2*unit + 77}, {Do: "truncate", Off: 8*unit + 9}},
		"cut-and-write":          {{Do: "write", Len: 8 * unit, Seed: 7}, {Do: "reopen"}, {Do: "truncate", Off: unit + 1}, {Do: "write", Off: 6*unit - 3, Len: 10, Seed: 8}},
		"grow-by-one":            {{Do: "write", Len: 4 * unit, Seed: 9}, {Do: "truncate", Off: 4*unit + 1}},
		"cut-to-nothing":         {{Do: "write", Len: 4 * unit, Seed: 10}, {Do: "truncate"}, {Do: "append", Len: 10, Seed: 11}},
		"mapped":                 {{Do: "truncate", Off: 7*unit + 1234}, {Do: "mmap", Off: unit - 10, Len: 5 * unit, Seed: 12}},
		"direct-across-stripes":  {{Do: "direct", Off: unit / 2, Len: 6 * unit, Seed: 13, Block: 2 * unit}, {Do: "truncate", Off: 6*unit + 4000}},
		"appends":                {{Do: "append", Len: unit - 1, Seed: 14}, {Do: "append", Len: 2, Seed: 15}, {Do: "append", Len: 3 * unit, Seed: 16}},
		"overlapping":            {{Do: "write", Len: 4 * unit, Seed: 17}, {Do: "write", Off: unit / 2, Len: 2 * unit, Seed: 18}, {Do: "sync"}, {Do: "write", Off: unit, Len: unit, Seed: 19}},
		"small-writes":           {{Do: "write", Off: 3, Len: 2*unit + 100, Seed: 20, Block: 777}},
		"far":                    {{Do: "write", Off: 1<<40 + 5, Len: 100, Seed: 21}, {Do: "truncate", Off: 2*unit + 5}},
		"beyond-four-gigabytes":  {{Do: "write", Off: 1<<32 - 70000, Len: 140000, Seed: 22}, {Do: "sync"}, {Do: "truncate", Off: 1 << 20}},
		"direct-in-cached-pages": {{Do: "write", Len: 4 * unit, Seed: 23}, {Do: "direct", Off: unit, Len: unit, Seed: 24}, {Do: "write", Off: unit + 10, Len: 10, Seed: 25}},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			name := path.Join(base, name)
			c.do(t, work.Plan{Path: path.Join(dir, name), Steps: steps})
			for _, how := range []string{"direct", "buffered", "mmap"} {
				c.do(t, work.Verify{Path: path.Join(cold, name), Steps: steps, How: how, Block: 3 * unit})
			}
			c.do(t, work.Verify{Path: path.Join(dir, name), Steps: steps, How: "direct", Block: 4096 * 5})
			c.do(t, work.Verify{Path: path.Join(dir, name), Steps: steps, How: "buffered"})
		})
	}
	c.direct(t, dir)
	c.direct(t, cold)
	s.noProxy(t)
}

// withoutDriver does I/O through the MDS, by a client whose layout driver is
// not loaded, and by one with the driver: both see the same bytes.
func withoutDriver(t *testing.T, w *world, c client) {
	s := w.keep(t, "with proxy", func() *server { return w.up(t, 2) })
	steps := work.Storm(4, mib, 8*mib, 30)
	name := "proxied-" + c.Kernel.Suite
	t.Run("without", func(t *testing.T) {
		c.do(t, work.Module{Name: filesDriver, Remove: true})
		// The client's kernel loads a driver by itself where it can; this one
		// cannot, for its modules are not where it looks.
		t.Cleanup(func() { c.do(t, work.Module{Dir: c.ModuleTree, Name: filesDriver}) })
		dir := c.mount(t, s.address, "t", "vers=4.2")
		c.do(t, work.Plan{Path: path.Join(dir, name), Steps: steps})
		c.do(t, work.DropCaches{})
		c.do(t, work.Verify{Path: path.Join(dir, name), Steps: steps, How: "buffered"})
		c.do(t, work.Verify{Path: path.Join(dir, name), Steps: steps, How: "direct", Block: 256 * kib})
		st := c.stats(t, dir)
		if st.PNFS == filesLayout || st.PNFSReads()+st.PNFSWrites() != 0 {
			t.Errorf("pnfs=%s with %d reads and %d writes to data servers, want none", st.PNFS, st.PNFSReads(), st.PNFSWrites())
		}
		status, err := s.Status(t.Context())
		if err != nil || status.ProxyRead == 0 || status.ProxyWritten == 0 {
			t.Errorf("the metadata server read %d and wrote %d bytes for clients: %v", status.ProxyRead, status.ProxyWritten, err)
		}
	})
	t.Run("with", func(t *testing.T) {
		dir := c.mount(t, s.address, "t", "vers=4.2")
		for _, how := range []string{"direct", "buffered", "mmap"} {
			c.do(t, work.Verify{Path: path.Join(dir, name), Steps: steps, How: how, Block: 256 * kib})
		}
		c.direct(t, dir)
	})
}
