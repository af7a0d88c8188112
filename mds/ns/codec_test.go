package ns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"manifold/layout"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// samples are inodes with every field that their type has.
func samples() []*Inode {
	base := Inode{
		ID: 77, Gen: 5, Mode: 0o6755, Nlink: 3, UID: 1, GID: 1<<32 - 2, Change: 1 << 60,
		Atime: nfs4.Time{Sec: -1, Nsec: 999_999_999}, Mtime: nfs4.Time{Sec: 1 << 40}, Ctime: nfs4.Time{Nsec: 1}, Btime: nfs4.Time{Sec: 3},
	}
	reg, dir, lnk, dev, sock := base, base, base, base, base
	reg.Type, reg.Size, reg.Exclusive, reg.Verifier = nfs4.TypeReg, MaxFileSize, true, nfs4.Verifier{1, 2, 3}
	reg.Policy = Policy{Unit: 4096, Width: 65535, Pool: "p"}
	reg.Layout = FileLayout{Unit: 1 << 20, DS: []layout.DSID{9, 1, 1<<32 - 1}, Epoch: 8}
	dir.Type, dir.Parent, dir.Entries, dir.Policy = nfs4.TypeDir, 1<<64-1, 12, Policy{Pool: "x"}
	lnk.Type, lnk.Target = nfs4.TypeLnk, bytes.Repeat([]byte("t"), 4096)
	dev.Type, dev.Rdev = nfs4.TypeBlk, nfs4.SpecData{Major: 1<<32 - 1, Minor: 2}
	sock.Type = nfs4.TypeSock
	reg.xattrs = xattrUsage{count: 1, bytes: 1<<32 - 1}
	dir.hasACL, dir.xattrs = true, xattrUsage{count: 1024}
	sock.hasACL = true
	return []*Inode{&reg, &dir, &lnk, &dev, &sock}
}

// sealed returns the row of e as it is in the store.
func sealed(key []byte, body []byte) []byte {
	return binary.BigEndian.AppendUint32(bytes.Clone(body), checksum(key, body))
}

func TestInodeRoundTrip(t *testing.T) {
	key := inodeKey(1, 77)
	for _, in := range samples() {
		e := encodeInode(in)
		row := sealed(key, e.Bytes())
		got, err := decodeInode(77, key, row)
		if err != nil || !reflect.DeepEqual(got, in) {
			t.Errorf("got %+v, %v, want %+v", got, err, in)
		}
		// Any bit that flips, a row that is cut short, and a row in
		// another's place are errors.
		for i := range row {
			bad := bytes.Clone(row)
			bad[i] ^= 1 << (i % 8)
			if _, err := decodeInode(77, key, bad); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d flipped: %v", i, err)
			}
			if _, err := decodeInode(77, key, row[:i]); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("cut at %d: %v", i, err)
			}
		}
		if _, err := decodeInode(78, inodeKey(1, 78), row); !errors.Is(err, ErrCorrupt) {
			t.Errorf("in another's place: %v", err)
		}
	}
}

func FuzzInode(f *testing.F) {
	key := inodeKey(1, 77)
	for _, in := range samples() {
		e := encodeInode(in)
		f.Add(e.Bytes())
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := decodeInode(77, key, body); err == nil && len(body) < 8 {
			t.Fatal("accepted")
		}
		in, err := decodeInode(77, key, sealed(key, body)) // past the checksum
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if e := encodeInode(in); !bytes.Equal(e.Bytes(), body) {
			t.Fatalf("%+v: encoded\n%x, was\n%x", in, e.Bytes(), body)
		}
	})
}

func FuzzDirents(f *testing.F) {
	key := direntKey(1, 2, 8)
	row := newRow(formDirents, 0)
	row.Uint32(2)
	for slot := range uint32(2) {
		row.Uint32(slot)
		row.Uint32(uint32(nfs4.TypeReg))
		row.Uint64(99)
		row.Uint32(1)
		row.Opaque([]byte("name"))
	}
	f.Add(row.Bytes())
	f.Fuzz(func(t *testing.T, body []byte) {
		es, err := decodeDirents(key, sealed(key, body), nil)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if len(es) == 0 || len(es) > slots {
			t.Fatalf("%d names", len(es))
		}
	})
}

func FuzzRecords(f *testing.F) {
	f.Add(byte(0), []byte{})
	f.Fuzz(func(t *testing.T, which byte, body []byte) {
		switch which % 2 {
		case 0:
			key := clientKey(5)
			b := binary.BigEndian.AppendUint32(nil, uint32(formClient))
			if r, err := decodeClient(key, sealed(key, append(b, body...))); err == nil && r.ID != 5 || err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatal(r, err)
			}
		case 1:
			key := key32(prefixDS, 6)
			b := binary.BigEndian.AppendUint32(nil, uint32(formDS))
			if r, err := decodeDS(key, sealed(key, append(b, body...))); err == nil && r.Number != 6 || err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatal(r, err)
			}
		}
	})
}

func TestCluster(t *testing.T) {
	f := newFixture(t)
	var c Cluster
	f.view(func(tx store.Tx) error {
		_, err := c.Service(tx)
		f.want(err, nfs4.ErrNoEnt)
		_, err = c.Keyring(tx)
		f.want(err, nfs4.ErrNoEnt)
		_, err = c.Client(tx, 1)
		f.want(err, nfs4.ErrNoEnt)
		_, err = c.DS(tx, 1)
		f.want(err, nfs4.ErrNoEnt)
		return nil
	})
	service := ServiceRecord{ClusterID: [16]byte{1, 2}, Boots: 1<<32 - 1, Lease: 90}
	clients := []ClientRecord{
		{ID: 1, Owner: []byte("Linux NFSv4.1 a"), Verifier: nfs4.Verifier{7}, Principal: []byte("sys"), Complete: true},
		{ID: 1<<64 - 1, Owner: bytes.Repeat([]byte{0}, 1024), Principal: bytes.Repeat([]byte{1}, 1024)},
	}
	servers := []DSRecord{
		{Number: 1, UUID: [16]byte{9}, Name: "ds1", Addresses: []string{"10.0.0.1:2049", "[fe80::1]:2049"}, Draining: true},
		{Number: 255, Name: "gone", Removed: true},
	}
	f.do(func(tx store.Tx) error {
		err := errors.Join(c.PutService(tx, service), c.PutKeyring(tx, []byte("keys")))
		for i := range clients {
			err = errors.Join(err, c.PutClient(tx, clients[i]), c.PutDS(tx, servers[i]))
		}
		return err
	})
	f.view(func(tx store.Tx) error {
		if got, err := c.Service(tx); err != nil || got != service {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := c.Keyring(tx); err != nil || string(got) != "keys" {
			t.Errorf("%q, %v", got, err)
		}
		var cs []ClientRecord
		var ds []DSRecord
		err := errors.Join(
			c.ScanClients(tx, func(r ClientRecord) (bool, error) { cs = append(cs, r); return true, nil }),
			c.ScanDS(tx, func(r DSRecord) (bool, error) { ds = append(ds, r); return true, nil }),
		)
		if !reflect.DeepEqual(cs, clients) || !reflect.DeepEqual(ds, servers) {
			t.Errorf("%+v\n%+v", cs, ds)
		}
		return err
	})
	f.do(func(tx store.Tx) error { return errors.Join(c.DeleteClient(tx, 1), c.DeleteClient(tx, 1)) })
	f.view(func(tx store.Tx) error {
		_, err := c.Client(tx, 1)
		f.want(err, nfs4.ErrNoEnt)
		got, err := c.Client(tx, 1<<64-1)
		if !reflect.DeepEqual(got, clients[1]) {
			t.Errorf("%+v", got)
		}
		one, errDS := c.DS(tx, 255)
		if !reflect.DeepEqual(one, servers[1]) {
			t.Errorf("%+v", one)
		}
		return errors.Join(err, errDS)
	})
}

func TestClusterBounds(t *testing.T) {
	f := newFixture(t)
	var c Cluster
	long := string(make([]byte, 256))
	for _, put := range []func(tx store.Tx) error{
		func(tx store.Tx) error { return c.PutClient(tx, ClientRecord{Owner: make([]byte, 1025)}) },
		func(tx store.Tx) error { return c.PutClient(tx, ClientRecord{Principal: make([]byte, 1025)}) },
		func(tx store.Tx) error { return c.PutDS(tx, DSRecord{}) },
		func(tx store.Tx) error { return c.PutDS(tx, DSRecord{Number: 1, Name: long}) },
		func(tx store.Tx) error { return c.PutDS(tx, DSRecord{Number: 1, Addresses: []string{long}}) },
		func(tx store.Tx) error { return c.PutDS(tx, DSRecord{Number: 1, Addresses: make([]string, 33)}) },
		func(tx store.Tx) error { return c.PutKeyring(tx, make([]byte, 64<<10+1)) },
	} {
		f.want(f.try(put), nfs4.ErrInval)
	}
}

// TestCorruptRows damages rows of a volume: what reads them says so.
func TestCorruptRows(t *testing.T) {
	f := newFixture(t)
	dir := f.mkdir(root, f.root, "d", 0o755)
	f.file(root, dir, "f", 0o644)
	f.do(func(tx store.Tx) error {
		var keys [][]byte
		err := tx.Scan([]byte{prefixDirent}, []byte{prefixDirent + 1}, func(k, _ []byte) (bool, error) { keys = append(keys, bytes.Clone(k)); return true, nil })
		for _, k := range keys {
			err = errors.Join(err, tx.Put(k, []byte("rubbish")))
		}
		return err
	})
	_, err := f.tryLookup(root, dir, "f")
	if !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	_, _, eof, err := f.page(dir, 0, nfs4.Verifier{}, 10)
	if !errors.Is(err, ErrCorrupt) || eof {
		t.Error(eof, err)
	}
	// A directory that is its own ancestor ends a Rename, not the server.
	a, b := f.mkdir(root, f.root, "a", 0o755), f.mkdir(root, f.root, "b", 0o755)
	f.mkdir(root, f.root, "c", 0o755)
	f.do(func(tx store.Tx) error {
		x, y := f.get(a), f.get(b)
		x.Parent, y.Parent = b.Inode, a.Inode
		return errors.Join(f.vol.put(tx, x), f.vol.put(tx, y))
	})
	if _, err := f.tryRename(root, f.root, "c", a, "c"); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}
