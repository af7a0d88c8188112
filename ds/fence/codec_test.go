package fence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"testing"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

func sample() *Table {
	t := New(DefaultLimits())
	t.RaiseFloor(3 << 32)
	for i := range 5 {
		t.FenceClient(nfs4.ClientID(4<<32 + i*3))
		_, _ = t.FenceObject(layout.Object{Volume: uint32(i % 2), Inode: uint64(100 - i), Gen: 1}, uint32(i+1))
	}
	return t
}

func equal(a, b *Table) bool {
	return a.floor == b.floor && maps.Equal(a.clients, b.clients) && maps.Equal(a.objects, b.objects)
}

func TestSnapshot(t *testing.T) {
	for name, table := range map[string]*Table{"empty": New(DefaultLimits()), "sample": sample()} {
		again, err := Load(table.Snapshot(), DefaultLimits())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !equal(table, again) {
			t.Errorf("%s: %+v became %+v", name, table, again)
		}
		if !bytes.Equal(table.Snapshot(), again.Snapshot()) {
			t.Errorf("%s: equal tables, other bytes", name)
		}
	}
}

// TestSnapshotForm: what is on disk does not change its form unnoticed.
func TestSnapshotForm(t *testing.T) {
	table := New(DefaultLimits())
	table.RaiseFloor(1)
	table.FenceClient(0x0102)
	if _, err := table.FenceObject(layout.Object{Volume: 3, Inode: 4, Gen: 5}, 6); err != nil {
		t.Fatal(err)
	}
	want := []byte("MFEN\x00\x00\x00\x01" +
		"\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01\x02" +
		"\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x05\x00\x00\x00\x06")
	got := table.Snapshot()
	if !bytes.Equal(got[:len(got)-4], want) || binary.BigEndian.Uint32(got[len(got)-4:]) != sum(want) {
		t.Errorf("%q", got)
	}
}

func TestLoadRefuses(t *testing.T) {
	good := sample().Snapshot()
	resum := func(b []byte) []byte { return binary.BigEndian.AppendUint32(b[:len(b)-4], sum(b[:len(b)-4])) }
	with := func(at int, c byte) []byte {
		b := bytes.Clone(good)
		b[at] = c
		return resum(b)
	}
	for name, b := range map[string][]byte{
		"nothing":          nil,
		"short":            good[:3],
		"cut":              good[:len(good)-1],
		"cut and summed":   resum(bytes.Clone(good[:len(good)-4])),
		"too long":         resum(append(bytes.Clone(good), 0, 0, 0, 0)),
		"magic":            with(0, 'X'),
		"version":          with(7, 9),
		"client too low":   with(20+3, 0),
		"clients swapped":  with(20+7, 99),
		"count of clients": with(16, 0xff),
		"no epoch":         with(len(good)-4-1, 0),
		"object order":     with(len(good)-4-20+3, 0),
	} {
		if _, err := Load(b, DefaultLimits()); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for at := range good {
		b := bytes.Clone(good)
		b[at] ^= 0x10
		if _, err := Load(b, DefaultLimits()); !errors.Is(err, ErrFormat) {
			t.Errorf("bit of byte %d flipped: %v", at, err)
		}
	}
}

// TestLoadKeepsAll: limits that became smaller do not lose a fence.
func TestLoadKeepsAll(t *testing.T) {
	table := sample()
	again, err := Load(table.Snapshot(), Limits{Clients: 1, Objects: 1})
	if err != nil || !equal(table, again) {
		t.Errorf("%+v, %v", again, err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(sample().Snapshot())
	f.Add(New(DefaultLimits()).Snapshot())
	f.Add([]byte("MFEN"))
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksum would keep the fuzzer out.
		b = binary.BigEndian.AppendUint32(b, sum(b))
		table, err := Load(b, DefaultLimits())
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("%v is no ErrFormat", err)
			}
			return
		}
		if !bytes.Equal(table.Snapshot(), b) {
			t.Fatalf("%q became %q", b, table.Snapshot())
		}
	})
}
