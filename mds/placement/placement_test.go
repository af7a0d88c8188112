package placement

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// randomCluster returns up to 40 data servers in any state.
func randomCluster(rnd *rand.Rand) []DS {
	all := make([]DS, rnd.IntN(40))
	for i, id := range rnd.Perm(len(all)) {
		all[i] = DS{
			ID: layout.DSID(id*7 + 1), State: []State{Up, Up, Up, Down, Draining}[rnd.IntN(5)],
			Pool: []string{"", "", "", "fast"}[rnd.IntN(4)], Capacity: rnd.Uint64() >> rnd.IntN(60),
		}
		if all[i].Capacity > 0 {
			all[i].Free = rnd.Uint64N(all[i].Capacity)
		}
	}
	return all
}

// TestRules holds what Place returns against what it must, on many clusters.
func TestRules(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		cfg := Config{MaxWidth: rnd.IntN(3) * 10, ReservePercent: rnd.Uint64N(4) * 10}
		all := randomCluster(rnd)
		p := Policy{Width: rnd.IntN(20), Pool: []string{"", "fast"}[rnd.IntN(2)]}
		inode := rnd.Uint64()
		ids, err := Place(cfg, all, p, inode)

		var up, free int
		usable := map[layout.DSID]bool{}
		for _, d := range all {
			if d.State == Up && d.Pool == p.Pool {
				up++
				if d.Free > cfg.reserve(d.Capacity) {
					free++
					usable[d.ID] = true
				}
			}
		}
		if up == 0 && !errors.Is(err, nfs4.ErrDelay) || up > 0 && free == 0 && !errors.Is(err, nfs4.ErrNoSpc) {
			t.Fatalf("%d up, %d not full: %v", up, free, err)
		}
		if free == 0 {
			continue
		}
		want := free
		for _, bound := range []int{p.Width, cfg.MaxWidth} {
			if bound > 0 {
				want = min(want, bound)
			}
		}
		if err != nil || len(ids) != want {
			t.Fatalf("%v, %v: want %d data servers", ids, err, want)
		}
		for _, id := range ids {
			if !usable[id] {
				t.Fatalf("%v: %d is down, full, of another pool or twice", ids, id)
			}
			delete(usable, id)
		}
		if ring, _ := layout.Ring(ids); !slices.IsSorted(ring) {
			t.Fatalf("%v is no rotation of an ascending list: two devices for one set", ids)
		}
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if again, _ := Place(cfg, all, p, inode); !slices.Equal(again, ids) {
			t.Fatalf("%v, and in another order %v", ids, again)
		}
	}
}

// TestEven asks that data servers with equal space share evenly, as members and
// as first: within two percent, and the odd file where there are few.
func TestEven(t *testing.T) {
	const files = 40000
	for _, n := range []int{2, 3, 4, 7, 16, 40} {
		all := make([]DS, n)
		for i := range all {
			all[i] = DS{ID: layout.DSID(i + 1), State: Up, Capacity: 1 << 44, Free: 1 << 43}
		}
		for width := 1; width <= n; width = width*3 + 1 {
			member, first := make([]float64, n+1), make([]float64, n+1)
			for inode := range uint64(files) {
				ids, err := Place(Config{}, all, Policy{Width: width}, inode+1000)
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range ids {
					member[id]++
				}
				first[ids[0]]++
			}
			for _, d := range all {
				share, one := float64(files*width)/float64(n), float64(files)/float64(n)
				m, f := member[d.ID], first[d.ID]
				if math.Abs(m-share) > 0.02*share || math.Abs(f-one) > 0.02*one+16 {
					t.Errorf("%d of %d: data server %d has %.0f files and not %.0f, first of %.0f and not %.0f", width, n, d.ID, m, share, f, one)
				}
			}
		}
	}
}

// TestFewFiles: a handful of files must not pile up.
func TestFewFiles(t *testing.T) {
	all := make([]DS, 8)
	for i := range all {
		all[i] = DS{ID: layout.DSID(i + 1), State: Up, Capacity: 1 << 40, Free: 1 << 39}
	}
	for start := range uint64(200) {
		count := map[layout.DSID]int{}
		for inode := start; inode < start+8; inode++ {
			ids, _ := Place(Config{}, all, Policy{Width: 1}, inode)
			count[ids[0]]++
		}
		for id, c := range count {
			if c > 2 {
				t.Fatalf("of 8 files from inode %d on, %d are on data server %d", start, c, id)
			}
		}
	}
}

// TestFewSets counts the devices that clients have to know.
func TestFewSets(t *testing.T) {
	all := make([]DS, 64)
	for i := range all {
		all[i] = DS{ID: layout.DSID(i + 1), State: Up, Capacity: 1 << 40, Free: 1 << 39}
	}
	sets := map[[4]layout.DSID]bool{}
	mates := map[layout.DSID]bool{}
	for inode := range uint64(20000) {
		ids, _ := Place(Config{}, all, Policy{Width: 4}, 2*inode)
		slices.Sort(ids)
		sets[[4]layout.DSID(ids)] = true
		if slices.Contains(ids, 1) {
			for _, id := range ids {
				mates[id] = true
			}
		}
	}
	if len(sets) > rings*64 {
		t.Errorf("%d sets", len(sets))
	}
	if len(mates) < 20 {
		t.Errorf("data server 1 shares files with %d others only", len(mates)-1)
	}
}

func TestArgumentNotChanged(t *testing.T) {
	all := []DS{{ID: 3, State: Up, Capacity: 10, Free: 9}, {ID: 1, State: Up, Capacity: 10, Free: 9}, {ID: 2, State: Up, Capacity: 10, Free: 9}}
	before := slices.Clone(all)
	for inode := range uint64(10) {
		if _, err := Place(Config{}, all, Policy{Width: 2}, inode); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(all, before) {
		t.Errorf("%v became %v", before, all)
	}
}

func BenchmarkPlace(b *testing.B) {
	all := make([]DS, 100)
	for i := range all {
		all[i] = DS{ID: layout.DSID(i + 1), State: Up, Capacity: 1 << 40, Free: 1 << 39}
	}
	b.ReportAllocs()
	var inode uint64
	for b.Loop() {
		inode++
		if _, err := Place(Config{MaxWidth: 78}, all, Policy{Width: 4}, inode); err != nil {
			b.Fatal(err)
		}
	}
}
