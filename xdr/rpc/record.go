package rpc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// maxFragments bounds the fragments of one record, empty ones included, so
// that a peer cannot keep us busy with marks. Fragments of 1 KiB make 1 MiB.
const maxFragments = 1024

// readAhead is the read buffer of a connection; what is left of a longer
// fragment is read straight into the record's buffer.
const readAhead = 32 << 10

// errRecord means that the peer broke the record marking of RFC 5531 section
// 11, or our bounds on it.
var errRecord = errors.New("rpc: bad record")

// recordReader cuts a byte stream into records. One goroutine at a time uses it.
type recordReader struct {
	in    *bufio.Reader
	nc    net.Conn
	pool  *pools
	max   int
	stall time.Duration
	armed bool // a read deadline is set
	begun bool // a record came
}

// early is how much of a longer fragment has to be here before there is a
// buffer for all of it: a mark alone, which costs the peer nothing, gets none.
// It is less than readAhead.
const early = 16 << 10

func newRecordReader(nc net.Conn, cfg *Config) recordReader {
	r := recordReader{
		in: bufio.NewReaderSize(nc, readAhead), nc: nc,
		pool: &cfg.pool, max: cfg.MaxRecord, stall: cfg.StallTimeout,
	}
	if cfg.FirstRecord > 0 {
		// Nobody reads yet, so this does not undo what Shutdown sets.
		r.armed = nc.SetReadDeadline(time.Now().Add(cfg.FirstRecord)) == nil
	}
	return r
}

// next returns the next record. The error is io.EOF when the stream ends
// between two records.
func (r *recordReader) next() (*buffer, error) {
	first, err := r.in.Peek(4)
	if err != nil {
		if err == io.EOF && len(first) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	rec, err := r.rest()
	if err != nil && rec != nil {
		r.pool.put(rec)
		rec = nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if r.armed {
		r.armed = false
		r.nc.SetReadDeadline(time.Time{})
	}
	r.begun = r.begun || err == nil
	return rec, err
}

// rest reads a record whose first mark is in the read buffer. After an error
// it returns the buffer too.
func (r *recordReader) rest() (rec *buffer, err error) {
	for fragments := 1; ; fragments++ {
		if fragments > maxFragments {
			return rec, fmt.Errorf("%w: more than %d fragments", errRecord, maxFragments)
		}
		r.await(4)
		b, err := r.in.Peek(4)
		if err != nil {
			return rec, err
		}
		mark := binary.BigEndian.Uint32(b)
		r.in.Discard(4)
		n := int(mark &^ lastFragment)
		have := 0
		if rec != nil {
			have = len(rec.b)
		}
		if n > r.max-have {
			return rec, fmt.Errorf("%w: %d bytes, %d allowed", errRecord, int64(have)+int64(n), r.max)
		}
		r.await(n)
		if _, err := r.in.Peek(min(n, early)); err != nil {
			return rec, err
		}
		rec = r.room(rec, n)
		if _, err := io.ReadFull(r.in, rec.b[have:have+n]); err != nil {
			return rec, err
		}
		rec.b = rec.b[:have+n]
		if mark&lastFragment != 0 {
			return rec, nil
		}
	}
}

// room returns a buffer with what is in rec (nil: nothing) and n bytes of
// capacity after it.
func (r *recordReader) room(rec *buffer, n int) *buffer {
	if rec == nil {
		rec = r.pool.get(n)
	}
	if cap(rec.b)-len(rec.b) < n {
		bigger := r.pool.get(max(len(rec.b)+n, min(2*cap(rec.b), r.max)))
		bigger.b = append(bigger.b, rec.b...)
		r.pool.put(rec)
		rec = bigger
	}
	rec.b = rec.b[:len(rec.b):cap(rec.b)]
	return rec
}

// await starts the stall clock of the record if fewer than n bytes are here.
func (r *recordReader) await(n int) {
	if !r.armed && r.in.Buffered() < n {
		r.armed = true
		r.nc.SetReadDeadline(time.Now().Add(r.stall))
	}
}

// ready says whether a whole record is here, so that the next read does not wait.
func (r *recordReader) ready() bool {
	if r.in.Buffered() < 4 {
		return false
	}
	b, _ := r.in.Peek(4)
	mark := binary.BigEndian.Uint32(b)
	return mark&lastFragment != 0 && r.in.Buffered()-4 >= int(mark&^lastFragment)
}
