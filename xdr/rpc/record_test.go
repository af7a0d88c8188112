package rpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// byteConn is a net.Conn that reads from r, at most step bytes at a time.
type byteConn struct {
	net.Conn
	r    io.Reader
	step int
}

func (b *byteConn) Read(p []byte) (int, error) {
	if b.step > 0 {
		p = p[:min(len(p), b.step)]
	}
	return b.r.Read(p)
}

func (b *byteConn) SetReadDeadline(time.Time) error { return nil }

func reader(stream []byte, step, max int) (*recordReader, *Config) {
	cfg := &Config{MaxRecord: max}
	cfg.fill()
	r := newRecordReader(&byteConn{r: bytes.NewReader(stream), step: step}, cfg)
	return &r, cfg
}

// fragment returns one fragment with its mark.
func fragment(b []byte, last bool) []byte {
	mark := uint32(len(b))
	if last {
		mark |= lastFragment
	}
	return append(binary.BigEndian.AppendUint32(nil, mark), b...)
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// TestFragments cuts a record in two at every byte, and delivers the stream in
// steps of every small size.
func TestFragments(t *testing.T) {
	want := pattern(100)
	for cut := range len(want) + 1 {
		stream := append(fragment(want[:cut], false), fragment(want[cut:], true)...)
		stream = append(stream, fragment([]byte("next"), true)...)
		for step := range 10 {
			r, cfg := reader(stream, step, 0)
			rec, err := r.next()
			if err != nil || !bytes.Equal(rec.b, want) {
				t.Fatalf("cut at %d, steps of %d: %v", cut, step, err)
			}
			cfg.pool.put(rec)
			if rec, err = r.next(); err != nil || string(rec.b) != "next" {
				t.Fatalf("record after it: %v", err)
			}
			if _, err = r.next(); err != io.EOF {
				t.Fatalf("at the end: %v", err)
			}
		}
	}
}

func TestManyFragments(t *testing.T) {
	want := pattern(300 << 10) // through four buffer classes
	for _, size := range []int{301, 4096, 100_000} {
		var stream []byte
		for b := want; len(b) > 0; {
			n := min(size, len(b))
			stream = append(stream, fragment(b[:n], n == len(b))...)
			b = b[n:]
		}
		r, _ := reader(stream, 0, 0)
		rec, err := r.next()
		if err != nil || !bytes.Equal(rec.b, want) {
			t.Errorf("fragments of %d: %v", size, err)
		}
	}
}

func TestBadRecords(t *testing.T) {
	empty := fragment(nil, false)
	for _, tc := range []struct {
		name   string
		stream []byte
		want   error
	}{
		{"nothing", nil, io.EOF},
		{"half a mark", []byte{0x80, 0}, io.ErrUnexpectedEOF},
		{"mark only", fragment(make([]byte, 8), true)[:4], io.ErrUnexpectedEOF},
		{"cut short", fragment(make([]byte, 8), true)[:11], io.ErrUnexpectedEOF},
		{"no last fragment", fragment(make([]byte, 8), false), io.ErrUnexpectedEOF},
		{"half a second mark", append(fragment(make([]byte, 8), false), 0x80), io.ErrUnexpectedEOF},
		{"longest", fragment(make([]byte, 1000), true), nil},
		{"too long", fragment(make([]byte, 1001), true), errRecord},
		{"2 GiB announced", []byte{0xff, 0xff, 0xff, 0xff}, errRecord},
		{"too long in two", append(fragment(make([]byte, 1000), false), fragment([]byte{1}, true)...), errRecord},
		{"as many fragments as allowed", append(bytes.Repeat(empty, maxFragments-1), fragment([]byte{1}, true)...), nil},
		{"endless empty fragments", append(bytes.Repeat(empty, maxFragments), fragment([]byte{1}, true)...), errRecord},
	} {
		r, _ := reader(tc.stream, 0, 1000)
		if _, err := r.next(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

func TestPools(t *testing.T) {
	var p pools
	for _, n := range []int{0, 1, 1 << 10, 1<<10 + 1, 64 << 10, 1 << 20, 8 << 20} {
		b := p.get(n)
		if len(b.b) != 0 || cap(b.b) < n {
			t.Errorf("get(%d): length %d, capacity %d", n, len(b.b), cap(b.b))
		}
		p.put(b)
	}
	// A buffer of an odd capacity must not come back for what it cannot hold.
	p.put(&buffer{b: make([]byte, 5000)})
	p.put(&buffer{b: make([]byte, 10)})
	for range 10 {
		if b := p.get(8 << 10); cap(b.b) < 8<<10 {
			t.Fatalf("capacity %d for 8 KiB", cap(b.b))
		}
	}
}

// FuzzRecord checks the reader against a plain reading of the rules.
func FuzzRecord(f *testing.F) {
	f.Add(append(fragment([]byte("abcd"), false), fragment([]byte("efgh"), true)...), 3)
	f.Add(fragment(nil, true), 0)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, 1)
	f.Fuzz(func(t *testing.T, stream []byte, step int) {
		const limit = 200
		r, cfg := reader(stream, step&15, limit)
		for range 100 {
			want, rest, ok := reassemble(stream, limit)
			rec, err := r.next()
			if (err == nil) != ok {
				t.Fatalf("got %v, want ok=%v", err, ok)
			}
			if err != nil {
				return
			}
			if !bytes.Equal(rec.b, want) {
				t.Fatalf("got %x, want %x", rec.b, want)
			}
			cfg.pool.put(rec)
			stream = rest
		}
	})
}

func reassemble(b []byte, limit int) (rec, rest []byte, ok bool) {
	for range maxFragments {
		if len(b) < 4 {
			return nil, nil, false
		}
		mark := binary.BigEndian.Uint32(b)
		n := int(mark & 0x7fffffff)
		b = b[4:]
		if n+len(rec) > limit || n > len(b) {
			return nil, nil, false
		}
		rec, b = append(rec, b[:n]...), b[n:]
		if mark&0x80000000 != 0 {
			return rec, b, true
		}
	}
	return nil, nil, false
}
