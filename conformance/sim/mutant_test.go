package sim

import (
	"context"
	"sync"

	"manifold/xdr"
	"manifold/xdr/compound"
	"manifold/xdr/nfs4"
)

// mutant is a guard that is switched off.
type mutant int

const (
	sound          mutant = iota
	lazyFence             // data servers acknowledge fences and do nothing
	lazyTruncate          // and truncations
	lazyRemove            // and removals
	forgetfulDisk         // COMMIT does not sync
	forgetfulStore        // a metadata transaction is durable a second after it is said to be
	noRecord              // after a restart nobody is on record, so there is no grace
	longRecord            // a client that missed its grace period stays on record
	noReplay              // a request that comes twice is executed twice
)

func (m mutant) String() string {
	return [...]string{
		"sound", "fences that fence nothing", "truncations that cut nothing", "removals that remove nothing",
		"COMMIT without a sync", "metadata durable too late", "nobody on record after a restart",
		"on record for ever", "requests executed twice",
	}[m]
}

// twice makes requests that change names run twice now and then, as they would
// if the reply cache forgot a request that the wire doubles. The reply is that of the
// second time.
func (w *world) twice(t compound.Table) compound.Table {
	if w.fault != noReplay {
		return t
	}
	for _, num := range []nfs4.OpNum{nfs4.OpCreate, nfs4.OpRemove, nfs4.OpRename} {
		row := t[num]
		var mu sync.Mutex
		run, rnd := row.Run, w.dice("twice", num)
		again := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return rnd.IntN(20) == 0
		}
		row.Run = func(ctx context.Context, c *compound.Call, d *xdr.Decoder, e *xdr.Encoder) nfs4.Status {
			if again() {
				first, fh, file, at := *d, c.FH, c.File, e.Len()
				run(ctx, c, &first, e)
				e.Truncate(at)
				c.SetFH(fh, file)
			}
			return run(ctx, c, d, e)
		}
		t[num] = row
	}
	return t
}
