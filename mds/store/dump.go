package store

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
)

// A dump is a line that names its form, every record in the order of the keys
// (the length of the key, the key, the length of the value, the value; lengths
// as varints), a key of no length, the number of records as a varint, and the
// SHA-256 of all before.
const dumpForm = "manifold metadata 1\n"

var (
	// ErrDump means that a dump is damaged, incomplete or none.
	ErrDump = errors.New("store: not a whole dump")
	// ErrNotEmpty means that a Store to restore into has records.
	ErrNotEmpty = errors.New("store: not empty")
)

// Summary is what two Stores with the same records have in common.
type Summary struct {
	Records uint64
	Bytes   uint64            // of keys and values
	Hash    [sha256.Size]byte // of all records, in the order of the keys
}

// digest makes a Summary.
type digest struct {
	Summary
	h   hash.Hash
	buf []byte
}

func newDigest() *digest { return &digest{h: sha256.New()} }

// record adds a record and returns it as a dump has it, good until the next one.
func (d *digest) record(key, val []byte) []byte {
	b := binary.AppendUvarint(d.buf[:0], uint64(len(key)))
	b = append(b, key...)
	b = binary.AppendUvarint(b, uint64(len(val)))
	d.buf = append(b, val...)
	d.h.Write(d.buf) // never fails (hash.Hash)
	d.Records++
	d.Bytes += uint64(len(key) + len(val))
	return d.buf
}

func (d *digest) sum() Summary {
	d.h.Sum(d.Hash[:0])
	return d.Summary
}

// Sum reads all of a Store.
func Sum(ctx context.Context, s Store) (Summary, error) { return Dump(ctx, s, io.Discard) }

// Dump writes everything in s, as it is at one moment, to w. Whoever wants it to
// last has to sync w.
func Dump(ctx context.Context, s Store, w io.Writer) (Summary, error) {
	d := newDigest()
	whole := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, whole), 64<<10)
	_, _ = out.WriteString(dumpForm) // an error stays until Flush
	err := s.View(ctx, func(tx Tx) error {
		return tx.Scan(nil, nil, func(k, v []byte) (bool, error) {
			_, err := out.Write(d.record(k, v))
			return true, errors.Join(err, ctx.Err())
		})
	})
	if err != nil {
		return Summary{}, err
	}
	_, _ = out.Write(binary.AppendUvarint([]byte{0}, d.Records))
	if err := out.Flush(); err != nil {
		return Summary{}, err
	}
	if _, err := w.Write(whole.Sum(nil)); err != nil {
		return Summary{}, err
	}
	return d.sum(), nil
}

// dumpReader reads a dump record by record.
type dumpReader struct {
	in    *bufio.Reader
	whole hash.Hash
	last  []byte
}

// ReadByte implements io.ByteReader.
func (r *dumpReader) ReadByte() (byte, error) {
	b, err := r.in.ReadByte()
	if err == nil {
		r.whole.Write([]byte{b})
	}
	return b, err
}

func (r *dumpReader) bytes(n uint64) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(r.in, b)
	r.whole.Write(b)
	return b, err
}

// readDump calls fn for each record and checks that the dump is whole. An error of
// reading wraps ErrDump.
func readDump(in io.Reader, fn func(key, val []byte) error) (Summary, error) {
	r := &dumpReader{in: bufio.NewReaderSize(in, 64<<10), whole: sha256.New()}
	d := newDigest()
	form, err := r.bytes(uint64(len(dumpForm)))
	if err != nil || string(form) != dumpForm {
		return Summary{}, fmt.Errorf("%w: it does not begin as one", ErrDump)
	}
	for {
		key, val, err := r.next()
		if err != nil {
			return Summary{}, fmt.Errorf("%w: after %d records: %w", ErrDump, d.Records, err)
		}
		if key == nil {
			return d.sum(), r.end(d.Records)
		}
		d.record(key, val)
		if err := fn(key, val); err != nil {
			return Summary{}, err
		}
	}
}

// next returns a nil key after the last record.
func (r *dumpReader) next() (key, val []byte, err error) {
	n, err := binary.ReadUvarint(r)
	if err != nil || n == 0 {
		return nil, nil, err
	}
	if n > MaxKey {
		return nil, nil, fmt.Errorf("a key of %d bytes", n)
	}
	if key, err = r.bytes(n); err != nil {
		return nil, nil, err
	}
	if bytes.Compare(key, r.last) <= 0 {
		return nil, nil, errors.New("keys do not ascend")
	}
	r.last = key
	if n, err = binary.ReadUvarint(r); err != nil {
		return nil, nil, err
	}
	if n > MaxValue {
		return nil, nil, fmt.Errorf("a value of %d bytes", n)
	}
	val, err = r.bytes(n)
	return key, val, err
}

// end checks what follows the records.
func (r *dumpReader) end(records uint64) error {
	n, err := binary.ReadUvarint(r)
	want := r.whole.Sum(nil)
	got := make([]byte, len(want))
	if err == nil {
		_, err = io.ReadFull(r.in, got)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: its end is missing: %w", ErrDump, err)
	case n != records:
		return fmt.Errorf("%w: it has %d records of %d", ErrDump, records, n)
	case !bytes.Equal(got, want):
		return fmt.Errorf("%w: its checksum is wrong", ErrDump)
	}
	if _, err := r.in.ReadByte(); err != io.EOF {
		return fmt.Errorf("%w: something follows its end", ErrDump)
	}
	return nil
}

// CheckDump reads a dump without doing anything.
func CheckDump(in io.Reader) (Summary, error) {
	return readDump(in, func(_, _ []byte) error { return nil })
}

// restoreBytes is about how much one Update of a restore writes.
const restoreBytes = MaxUpdateBytes / 2

// Restore writes a dump into s, which must be empty, and reads it back. A damaged
// dump changes nothing: it is read once before. After another error s may hold a
// part of it. Errors: ErrDump, ErrNotEmpty.
func Restore(ctx context.Context, s Store, in io.ReadSeeker) (Summary, error) {
	if err := checkEmpty(ctx, s); err != nil {
		return Summary{}, err
	}
	if _, err := CheckDump(in); err != nil {
		return Summary{}, err
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return Summary{}, err
	}
	return fill(ctx, s, func(put func(key, val []byte) error) (Summary, error) { return readDump(in, put) })
}

// Copy writes everything in src into dst, which must be empty, and compares them.
// Nothing may change src meanwhile.
func Copy(ctx context.Context, dst, src Store) (Summary, error) {
	if err := checkEmpty(ctx, dst); err != nil {
		return Summary{}, err
	}
	return fill(ctx, dst, func(put func(key, val []byte) error) (Summary, error) {
		d := newDigest()
		err := src.View(ctx, func(tx Tx) error {
			return tx.Scan(nil, nil, func(k, v []byte) (bool, error) {
				d.record(k, v)
				return true, put(bytes.Clone(k), bytes.Clone(v))
			})
		})
		return d.sum(), err
	})
}

// checkEmpty returns ErrNotEmpty if s has a record.
func checkEmpty(ctx context.Context, s Store) error {
	return s.View(ctx, func(tx Tx) error {
		return tx.Scan(nil, nil, func(_, _ []byte) (bool, error) { return false, ErrNotEmpty })
	})
}

// fill writes what each hands out into s and checks that it is there.
func fill(ctx context.Context, s Store, each func(put func(key, val []byte) error) (Summary, error)) (Summary, error) {
	var batch []Write
	size := 0
	flush := func() error {
		err := s.Update(ctx, func(tx Tx) error {
			for _, w := range batch {
				if err := tx.Put(w.Key, w.Val); err != nil {
					return err
				}
			}
			return nil
		})
		batch, size = batch[:0], 0
		return err
	}
	want, err := each(func(key, val []byte) error {
		batch = append(batch, Write{key, val})
		if size += len(key) + len(val); size < restoreBytes && len(batch) < MaxUpdateOps {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return Summary{}, err
	}
	got, err := Sum(ctx, s)
	if err == nil && got != want {
		err = fmt.Errorf("store: %d records were written, %d are there, or differ", want.Records, got.Records)
	}
	return got, err
}
