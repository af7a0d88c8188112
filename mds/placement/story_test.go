package placement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// TestStories runs testdata/*. Commands:
//
//	cluster                  lines "ID STATE CAPACITY FREE [POOL]", sizes like 10G
//	config [max-width=N] [reserve=PERCENT] [reserve-most=SIZE]
//	place inode=A [to=B] [width=N] [pool=NAME]  the inodes A to B
//	shares inodes=N [width=N] [pool=NAME]       of data servers among N files
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s story
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				s.all = nil
				for line := range strings.Lines(d.Input) {
					s.all = append(s.all, parseDS(t, strings.Fields(line)))
				}
				return ""
			case "config":
				s.cfg = Config{}
				var percent int
				var most string
				d.MaybeScanArgs(t, "max-width", &s.cfg.MaxWidth)
				d.MaybeScanArgs(t, "reserve", &percent)
				s.cfg.ReservePercent = uint64(percent)
				if d.MaybeScanArgs(t, "reserve-most", &most) {
					s.cfg.ReserveMost = size(t, most)
				}
				return ""
			case "place":
				return s.place(t, d)
			case "shares":
				return s.shares(t, d)
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

type story struct {
	cfg Config
	all []DS
}

func policy(t *testing.T, d *datadriven.TestData) (p Policy) {
	d.MaybeScanArgs(t, "width", &p.Width)
	d.MaybeScanArgs(t, "pool", &p.Pool)
	return p
}

func (s *story) place(t *testing.T, d *datadriven.TestData) string {
	var from, to int
	d.ScanArgs(t, "inode", &from)
	to = from
	d.MaybeScanArgs(t, "to", &to)
	var out strings.Builder
	for inode := from; inode <= to; inode++ {
		ids, err := Place(s.cfg, s.all, policy(t, d), uint64(inode))
		switch {
		case errors.Is(err, nfs4.ErrNoSpc):
			out.WriteString("no space\n")
		case errors.Is(err, nfs4.ErrDelay):
			out.WriteString("none there\n")
		case err != nil:
			t.Fatal(err)
		default:
			fmt.Fprintln(&out, ids)
		}
	}
	return out.String()
}

func (s *story) shares(t *testing.T, d *datadriven.TestData) string {
	var n int
	d.ScanArgs(t, "inodes", &n)
	member, first := map[layout.DSID]int{}, map[layout.DSID]int{}
	for inode := range n {
		ids, err := Place(s.cfg, s.all, policy(t, d), uint64(inode))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			member[id]++
		}
		first[ids[0]]++
	}
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(member)) {
		fmt.Fprintf(&out, "%d: in %.0f%% of the files, first in %.0f%%\n",
			id, 100*float64(member[id])/float64(n), 100*float64(first[id])/float64(n))
	}
	return out.String()
}

func parseDS(t *testing.T, f []string) DS {
	id, err := strconv.Atoi(f[0])
	if err != nil || len(f) < 4 {
		t.Fatalf("bad line %v", f)
	}
	d := DS{ID: layout.DSID(id), Capacity: size(t, f[2]), Free: size(t, f[3])}
	switch f[1] {
	case "up":
		d.State = Up
	case "down":
		d.State = Down
	case "draining":
		d.State = Draining
	default:
		t.Fatalf("bad state %s", f[1])
	}
	if len(f) > 4 {
		d.Pool = f[4]
	}
	return d
}

func size(t *testing.T, s string) uint64 {
	shift := 10 * (1 + strings.IndexByte("KMGTPE", s[len(s)-1]))
	if shift > 0 {
		s = s[:len(s)-1]
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << shift
}
