package outbox

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"manifold/layout"
	"manifold/layout/control"
)

func someRow() row {
	return row{
		ds: 7, seq: 9, added: time.UnixMilli(1234567890123),
		cmd: control.Command{Kind: control.Truncate, Object: layout.Object{Volume: 1, Inode: 2, Gen: 3}, Client: 4, Epoch: 5, Size: 6},
	}
}

func TestKeys(t *testing.T) {
	r := someRow()
	if got, want := rowKey(7, 9), []byte("tq\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x09"); !bytes.Equal(got, want) {
		t.Errorf("row key %q", got)
	}
	want := []byte("to\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x09")
	if got := indexKey(r); !bytes.Equal(got, want) {
		t.Errorf("index key %q", got)
	}
	r.cmd.Kind = control.FenceClient
	if got := indexKey(r); !bytes.HasPrefix(got, []byte("tc\x00\x00\x00\x00\x00\x00\x00\x04\x00")) {
		t.Errorf("index key %q", got)
	}
	r.cmd.Kind = control.Remove
	if got := indexKey(r); got != nil {
		t.Errorf("index key %q", got)
	}
	for p, want := range map[string]string{"ab": "ac", "a\xff": "b", "a\x00\xff\xff": "a\x01"} {
		if got := after([]byte(p)); string(got) != want {
			t.Errorf("after(%q) = %q", p, got)
		}
	}
}

func TestCorrupt(t *testing.T) {
	good := encodeRow(someRow())
	for name, b := range map[string][]byte{
		"empty": {}, "short": good[1:], "version": append([]byte{9}, good[1:]...), "kind": append([]byte{1, 99}, good[2:]...),
		"not kept": append([]byte{1, byte(control.Ready)}, good[2:]...),
	} {
		if r, err := decodeRow(rowKey(7, 9), b); !errors.Is(err, errCorrupt) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	for _, b := range [][]byte{{}, make([]byte, counterSize), {1, 2, 17: 0}} {
		if c, err := decodeCounter(b); !errors.Is(err, errCorrupt) {
			t.Errorf("counter %x: %+v, %v", b, c, err)
		}
	}
}

func FuzzDecodeRow(f *testing.F) {
	f.Add(rowKey(7, 9), encodeRow(someRow()))
	f.Fuzz(func(t *testing.T, key, val []byte) {
		r, err := decodeRow(key, val)
		if err != nil {
			return
		}
		again, err := decodeRow(rowKey(r.ds, r.seq), encodeRow(r))
		if err != nil || again != r {
			t.Fatalf("%+v -> %+v, %v", r, again, err)
		}
		if _, err := decodeCounter(val); err == nil {
			t.Fatal("a row is a counter, too")
		}
	})
}
