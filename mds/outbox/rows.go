package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"manifold/layout"
	"manifold/layout/control"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// The rows of the store. All keys begin with 't'; numbers are big-endian, so
// that they scan in ascending order.
//
//	key                                    value
//	t n ds(4)                              counter
//	t q ds(4) seq(8)                       row
//	t o vol(4) ino(8) gen(4) ds(4) seq(8)  kind(1): a row of this object, but no Remove
//	t c clientid(8) ds(4) seq(8)           kind(1): a row of this client
const (
	prefix       = 't'
	tableCounter = 'n'
	tableRow     = 'q'
	tableObject  = 'o'
	tableClient  = 'c'
)

// row is one command for one data server.
type row struct {
	ds    layout.DSID
	seq   uint64 // ascending for each ds, from 1
	added time.Time
	cmd   control.Command
}

// counter is what is kept of one data server.
type counter struct {
	next    uint64 // seq of the next row
	depth   uint64 // how many rows there are
	removed bool
}

var errCorrupt = errors.New("outbox: a row of the store is not one")

const (
	codecVersion = 1
	counterSize  = 1 + 1 + 8 + 8
	rowSize      = 1 + 1 + 8 + 4 + 8 + 4 + 8 + 4 + 8
)

func table(t byte) []byte { return append(make([]byte, 0, 32), prefix, t) }

func counterKey(ds layout.DSID) []byte {
	return binary.BigEndian.AppendUint32(table(tableCounter), uint32(ds))
}

func rowKey(ds layout.DSID, seq uint64) []byte {
	k := binary.BigEndian.AppendUint32(table(tableRow), uint32(ds))
	return binary.BigEndian.AppendUint64(k, seq)
}

// objectPrefix and clientPrefix begin the index keys of an object or a client.
func objectPrefix(o layout.Object) []byte {
	k := binary.BigEndian.AppendUint32(table(tableObject), o.Volume)
	k = binary.BigEndian.AppendUint64(k, o.Inode)
	return binary.BigEndian.AppendUint32(k, o.Gen)
}

func clientPrefix(c nfs4.ClientID) []byte {
	return binary.BigEndian.AppendUint64(table(tableClient), uint64(c))
}

// indexPrefix returns what begins r's index key, or nil if it has none: nobody
// waits for removals, and there can be very many.
func indexPrefix(c control.Command) []byte {
	switch c.Kind {
	case control.Truncate, control.FenceObject:
		return objectPrefix(c.Object)
	case control.FenceClient:
		return clientPrefix(c.Client)
	}
	return nil
}

// indexKey returns r's index key, or nil.
func indexKey(r row) []byte {
	k := indexPrefix(r.cmd)
	if k == nil {
		return nil
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(k, uint32(r.ds)), r.seq)
}

// after returns the first key that does not begin with p, which is no run of
// 0xff.
func after(p []byte) []byte {
	end := append([]byte(nil), p...)
	for i := len(end) - 1; ; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
}

func encodeRow(r row) []byte {
	b := make([]byte, 0, rowSize)
	b = append(b, codecVersion, byte(r.cmd.Kind))
	b = binary.BigEndian.AppendUint64(b, uint64(r.added.UnixMilli()))
	b = binary.BigEndian.AppendUint32(b, r.cmd.Object.Volume)
	b = binary.BigEndian.AppendUint64(b, r.cmd.Object.Inode)
	b = binary.BigEndian.AppendUint32(b, r.cmd.Object.Gen)
	b = binary.BigEndian.AppendUint64(b, uint64(r.cmd.Client))
	b = binary.BigEndian.AppendUint32(b, r.cmd.Epoch)
	return binary.BigEndian.AppendUint64(b, r.cmd.Size)
}

func decodeRow(key, b []byte) (row, error) {
	if len(key) != 14 || len(b) != rowSize || b[0] != codecVersion {
		return row{}, fmt.Errorf("%w: key %x, %d bytes", errCorrupt, key, len(b))
	}
	r := row{
		ds:    layout.DSID(binary.BigEndian.Uint32(key[2:])),
		seq:   binary.BigEndian.Uint64(key[6:]),
		added: time.UnixMilli(int64(binary.BigEndian.Uint64(b[2:]))),
		cmd: control.Command{
			Kind: control.Kind(b[1]),
			Object: layout.Object{
				Volume: binary.BigEndian.Uint32(b[10:]), Inode: binary.BigEndian.Uint64(b[14:]), Gen: binary.BigEndian.Uint32(b[22:]),
			},
			Client: nfs4.ClientID(binary.BigEndian.Uint64(b[26:])),
			Epoch:  binary.BigEndian.Uint32(b[34:]),
			Size:   binary.BigEndian.Uint64(b[38:]),
		},
	}
	switch r.cmd.Kind {
	case control.Truncate, control.Remove, control.FenceObject, control.FenceClient:
		return r, nil
	}
	return row{}, fmt.Errorf("%w: kind %d", errCorrupt, b[1])
}

func getCounter(tx store.Tx, ds layout.DSID) (counter, error) {
	b, err := tx.Get(counterKey(ds))
	if err != nil || b == nil {
		return counter{next: 1}, err
	}
	return decodeCounter(b)
}

func decodeCounter(b []byte) (counter, error) {
	if len(b) != counterSize || b[0] != codecVersion || b[1] > 1 {
		return counter{}, fmt.Errorf("%w: counter of %d bytes", errCorrupt, len(b))
	}
	return counter{
		removed: b[1] == 1, next: binary.BigEndian.Uint64(b[2:]), depth: binary.BigEndian.Uint64(b[10:]),
	}, nil
}

func putCounter(tx store.Tx, ds layout.DSID, c counter) error {
	b := make([]byte, 2, counterSize)
	b[0] = codecVersion
	if c.removed {
		b[1] = 1
	}
	b = binary.BigEndian.AppendUint64(b, c.next)
	return tx.Put(counterKey(ds), binary.BigEndian.AppendUint64(b, c.depth))
}

// scanCounters calls fn for each data server that ever had a row.
func scanCounters(tx store.Tx, fn func(layout.DSID, counter)) error {
	all := table(tableCounter)
	return tx.Scan(all, after(all), func(key, val []byte) (bool, error) {
		c, err := decodeCounter(val)
		if err != nil || len(key) != 6 {
			return false, errors.Join(err, errCorrupt)
		}
		fn(layout.DSID(binary.BigEndian.Uint32(key[2:])), c)
		return true, nil
	})
}

// scanRows calls fn for the rows of ds, oldest first, until it says stop.
func scanRows(tx store.Tx, ds layout.DSID, fn func(row) (more bool, err error)) error {
	return tx.Scan(rowKey(ds, 0), after(rowKey(ds, 0)[:6]), func(key, val []byte) (bool, error) {
		r, err := decodeRow(key, val)
		if err != nil {
			return false, err
		}
		return fn(r)
	})
}

// deleteRow deletes r and its index key.
func deleteRow(tx store.Tx, r row) error {
	if k := indexKey(r); k != nil {
		if err := tx.Delete(k); err != nil {
			return err
		}
	}
	return tx.Delete(rowKey(r.ds, r.seq))
}
