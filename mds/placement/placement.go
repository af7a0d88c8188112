// Package placement chooses the data servers of a new file: a pure function of
// what the metadata server knows about them, a policy and an inode number.
//
// Its nouns: a DS is what is known of one data server; a Policy is what the
// file's directory asks for; a candidate is a DS of the policy's pool that is
// up and not full. A file that wants fewer data servers than there are
// candidates gets a systematic sample: the candidates lie on a ring, each as
// long as its free space, and the file takes those at equal distances. So each
// is taken as often as it has space, exactly, and there are no more different
// sets (each a device that clients must ask for and remember) than candidates.
// The ring's order changes from time to time, so that in the end every data
// server shares files with many others.
//
// Inode numbers are handed out in sequence, and samples begin at a point of
// the ring that moves with them as a low-discrepancy sequence does: already a
// handful of new files spreads evenly.
package placement

import (
	"cmp"
	"math/bits"
	"slices"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// State is whether a data server can be used.
type State uint8

// The states of a data server. Only one that is Up is given new files; one
// that is Draining serves those it has.
const (
	Down State = iota
	Up
	Draining
)

// DS is one data server: its number, state and pool, and what its file system
// holds in bytes.
type DS struct {
	ID             layout.DSID
	State          State
	Pool           string
	Capacity, Free uint64
}

// Policy is what a directory asks for its files: how many data servers each is
// striped over (0: as many as there are) and from which pool ("" is one like
// any other). The stripe unit makes no difference here.
type Policy struct {
	Width int
	Pool  string
}

// Config says what holds for all files. The zero Config is good.
type Config struct {
	// MaxWidth bounds the width of every file, whatever its policy says; it is
	// what a layout's body can hold. 0: no bound.
	MaxWidth int
	// ReservePercent of the capacity is what must be free on a data server
	// that gets a new file, so that those it has can grow. 0 means 5; 100 and
	// more make all data servers full.
	ReservePercent uint64
	// ReserveMost bounds the reserve in bytes. 0 means 64 GiB.
	ReserveMost uint64
}

const (
	defaultPercent = 5
	defaultMost    = 64 << 30

	rings    = 8  // orders of a ring
	ringBits = 12 // a ring serves 4,096 inode numbers in a row
	// The steps of the two-dimensional low-discrepancy sequence that is built
	// on the root of x^3 = x+1: 2^64 over the root, and over its square. One
	// dimension is where the sample begins, the other its first stripe unit.
	stepStart = 0xC13F_A9A9_02A6_328F
	stepFirst = 0x91E1_0DA5_C79E_7B1D
)

// Place returns the data servers of the file, the one with the first stripe
// unit first; the others follow by number. There are as many as the policy
// asks for, or as many as there are candidates. Errors are nfs4.Status values:
// NFS4ERR_NOSPC if data servers of the pool are up but all are full,
// NFS4ERR_DELAY if none is up. all is in any order and is not changed.
func Place(cfg Config, all []DS, p Policy, inode uint64) ([]layout.DSID, error) {
	cands, err := candidates(cfg, all, p.Pool)
	if err != nil {
		return nil, err
	}
	width := len(cands)
	if p.Width > 0 {
		width = min(width, p.Width)
	}
	if cfg.MaxWidth > 0 {
		width = min(width, cfg.MaxWidth)
	}
	chosen, first := cands, inode%uint64(width)
	if width < len(cands) {
		chosen = sample(cands, width, inode)
		first, _ = bits.Mul64(inode*stepFirst, uint64(width))
	}
	ids := make([]layout.DSID, width)
	for i, c := range chosen {
		ids[i] = c.id
	}
	slices.Sort(ids)
	return append(ids[first:], ids[:first]...), nil
}

// candidate is a data server that may be chosen, and how much it can take: its
// free space above the reserve, scaled.
type candidate struct {
	id     layout.DSID
	weight uint64
}

// candidates returns those of all that may be chosen, by number.
func candidates(cfg Config, all []DS, pool string) ([]candidate, error) {
	var cands []candidate
	up, most := false, uint64(0)
	for _, d := range all {
		if d.Pool != pool || d.State != Up {
			continue
		}
		up = true
		if reserve := cfg.reserve(d.Capacity); d.Free > reserve {
			cands = append(cands, candidate{d.ID, d.Free - reserve})
			most = max(most, d.Free-reserve)
		}
	}
	switch {
	case !up:
		return nil, nfs4.ErrDelay
	case len(cands) == 0:
		return nil, nfs4.ErrNoSpc
	}
	// Weights fit 32 bits, so that their sums fit 64, and none is zero.
	scale := most>>32 + 1
	for i := range cands {
		cands[i].weight = max(cands[i].weight/scale, 1)
	}
	slices.SortFunc(cands, func(a, b candidate) int { return cmp.Compare(a.id, b.id) })
	return cands, nil
}

// reserve returns how much must stay free of capacity.
func (c Config) reserve(capacity uint64) uint64 {
	percent := cmp.Or(c.ReservePercent, defaultPercent)
	if percent >= 100 {
		return capacity
	}
	hi, lo := bits.Mul64(capacity, percent)
	part, _ := bits.Div64(hi, lo, 100)
	return min(part, cmp.Or(c.ReserveMost, defaultMost))
}

// sample returns k of the candidates, which are more.
func sample(cands []candidate, k int, inode uint64) []candidate {
	chosen, rest, total := certain(cands, k)
	k -= len(chosen)
	if k > 1 {
		order(rest, int(inode>>ringBits%rings))
	}
	// Lengths are taken k times, so that the distance between two points is
	// total, a whole number, and no candidate has two points.
	point, _ := bits.Mul64(inode*stepStart, total)
	var end uint64
	for _, c := range rest {
		if end += c.weight * uint64(k); point < end {
			chosen = append(chosen, c)
			point += total
		}
	}
	return chosen
}

// certain divides the candidates into those with so much space that every
// sample of k has them, and the rest, whose weights sum up to total.
func certain(cands []candidate, k int) (chosen, rest []candidate, total uint64) {
	rest = slices.Clone(cands)
	for {
		total = 0
		for _, c := range rest {
			total += c.weight
		}
		left := uint64(k - len(chosen))
		before := len(chosen)
		rest = slices.DeleteFunc(rest, func(c candidate) bool {
			big := c.weight*left >= total
			if big {
				chosen = append(chosen, c)
			}
			return big
		})
		if len(chosen) == before {
			return chosen, rest, total
		}
	}
}

// order puts the candidates in the order of the ring with number r, which
// depends on their own numbers alone: one more or less moves no other.
func order(cands []candidate, r int) {
	slices.SortFunc(cands, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(mix(a.id, r), mix(b.id, r)), cmp.Compare(a.id, b.id))
	})
}

// mix scatters a data server's number, differently for each ring.
func mix(id layout.DSID, ring int) uint64 {
	x := (uint64(id)<<8 | uint64(ring)) * stepStart
	x = (x ^ x>>32) * stepFirst
	return x ^ x>>29
}
