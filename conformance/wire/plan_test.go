package wire_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"manifold/layout"
	"manifold/layout/files"
	"manifold/xdr/client"
	"manifold/xdr/nfs4"
)

// plan is a layout of a file that a peer got.
type plan struct {
	o    *open
	get  nfs4.LayoutGetRes
	body layout.Layout
	dev  layout.Device
}

func layoutGetArgs(id nfs4.Stateid, m nfs4.IOMode) *nfs4.LayoutGetArgs {
	return &nfs4.LayoutGetArgs{
		LayoutType: nfs4.LayoutFiles, IOMode: m, Length: nfs4.LengthToEnd, MinLength: 4096, Stateid: id, MaxCount: 4096,
	}
}

func layoutGetOp(a *nfs4.LayoutGetArgs, r *nfs4.LayoutGetRes) client.Op {
	return client.Op{Num: nfs4.OpLayoutGet, Args: a, Res: r}
}

func deviceInfoOp(id nfs4.DeviceID, max uint32, r *nfs4.GetDeviceInfoRes) client.Op {
	return client.Op{Num: nfs4.OpGetDeviceInfo, Args: &nfs4.GetDeviceInfoArgs{
		DeviceID: id, LayoutType: nfs4.LayoutFiles, MaxCount: max,
		NotifyTypes: nfs4.BitmapOf(nfs4.NotifyDeviceIDChange, nfs4.NotifyDeviceIDDelete),
	}, Res: r}
}

// layout gets a layout with the open's stateid.
func (o *open) layout(m nfs4.IOMode) *plan {
	o.p.t.Helper()
	pl := &plan{o: o}
	id := o.id
	id.Seqid = 0
	o.p.must(putFH(o.fh), layoutGetOp(layoutGetArgs(id, m), &pl.get))
	pl.read()
	return pl
}

// read decodes the layout and asks for its device.
func (pl *plan) read() {
	t := pl.o.p.t
	t.Helper()
	if len(pl.get.Layouts) != 1 {
		t.Fatalf("%d layouts", len(pl.get.Layouts))
	}
	var err error
	if pl.body, err = files.DecodeLayout(pl.get.Layouts[0].Body); err != nil {
		t.Fatal(err)
	}
	var info nfs4.GetDeviceInfoRes
	pl.o.p.must(deviceInfoOp(pl.body.Device, 1<<16, &info))
	if pl.dev, err = files.DecodeDevice(info.DeviceAddr.AddrBody); err != nil {
		t.Fatal(err)
	}
}

// server is a connection to the i-th data server of the plan's device.
func (pl *plan) server(i int) *client.Client {
	pl.o.p.t.Helper()
	return pl.o.p.dialDS(pl.dev.Paths[i][0].AddrPort.String())
}

// dialDS is the connection to a data server, made when first asked for.
func (p *peer) dialDS(addr string) *client.Client {
	p.t.Helper()
	if c := p.ds[addr]; c != nil {
		return c
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, addr, client.Config{
		Owner: p.cfg.Owner, Cred: p.cfg.Cred, Minor: 2, Role: nfs4.ExchgidFlagUsePNFSDS, Renew: time.Second,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.ds[addr] = c
	return c
}

// tryWrite writes to the data servers; tryRead reads from them.
func (pl *plan) tryWrite(off uint64, data []byte, how nfs4.StableHow) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for piece := range pl.body.Stripe.Pieces(off, uint64(len(data))) {
		part := data[piece.Offset-off:][:piece.Length]
		for at := piece.Offset; len(part) > 0; {
			n, committed, _, err := pl.server(piece.Index).Write(ctx, pl.o.p.cred, pl.body.FHs[piece.Index], pl.o.id, at, part, how)
			if err != nil {
				return err
			}
			if committed == nfs4.FileSync {
				return errors.New("a data server said FILE_SYNC4")
			}
			part, at = part[n:], at+uint64(n)
		}
	}
	return nil
}

// tryRead reads n bytes, as a client does that knows the file's size to be
// size: what a data server leaves out before that is an error.
func (pl *plan) tryRead(off uint64, n int, size uint64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out := make([]byte, n)
	for piece := range pl.body.Stripe.Pieces(off, uint64(n)) {
		part := out[piece.Offset-off:][:piece.Length]
		for at := piece.Offset; len(part) > 0; {
			got, eof, err := pl.server(piece.Index).Read(ctx, pl.o.p.cred, pl.body.FHs[piece.Index], pl.o.id, at, part)
			if err != nil {
				return nil, err
			}
			part, at = part[got:], at+uint64(got)
			if eof && len(part) > 0 {
				if at < size {
					return nil, errors.New("a data server ends before the file")
				}
				return out[:at-off], nil
			}
			if got == 0 {
				return nil, errors.New("0 bytes and no end")
			}
		}
	}
	return out, nil
}

// write writes to the data servers and commits there.
func (pl *plan) write(off uint64, data []byte) {
	t := pl.o.p.t
	t.Helper()
	if err := pl.tryWrite(off, data, nfs4.Unstable); err != nil {
		t.Fatalf("write to data servers: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range pl.dev.Paths {
		if _, err := pl.server(i).Commit(ctx, pl.o.p.cred, pl.body.FHs[i], 0, 0); err != nil {
			t.Fatalf("commit at data server: %v", err)
		}
	}
}

func (pl *plan) readAll(off uint64, n int, size uint64) []byte {
	pl.o.p.t.Helper()
	b, err := pl.tryRead(off, n, size)
	if err != nil {
		pl.o.p.t.Fatalf("read from data servers: %v", err)
	}
	return b
}

func layoutCommitOp(id nfs4.Stateid, end uint64, r *nfs4.LayoutCommitRes) client.Op {
	a := &nfs4.LayoutCommitArgs{Length: end, Stateid: id, LayoutUpdate: nfs4.LayoutUpdate{Type: nfs4.LayoutFiles}}
	if end > 0 {
		a.LastWriteOffset = nfs4.NewOffset{Present: true, Offset: end - 1}
	}
	return client.Op{Num: nfs4.OpLayoutCommit, Args: a, Res: r}
}

// commit tells the metadata server how far was written.
func (pl *plan) commit(end uint64) {
	pl.o.p.t.Helper()
	pl.o.p.must(putFH(pl.o.fh), layoutCommitOp(pl.get.Stateid, end, &nfs4.LayoutCommitRes{}))
}

func layoutReturnOp(id nfs4.Stateid, m nfs4.IOMode, r *nfs4.LayoutReturnRes) client.Op {
	return client.Op{Num: nfs4.OpLayoutReturn, Args: &nfs4.LayoutReturnArgs{
		LayoutType: nfs4.LayoutFiles, IOMode: m,
		Return: nfs4.LayoutReturn{Kind: nfs4.LayoutReturnFile, File: nfs4.LayoutReturnRange{Length: nfs4.LengthToEnd, Stateid: id}},
	}, Res: r}
}

func (pl *plan) giveBack() {
	pl.o.p.t.Helper()
	pl.o.p.must(putFH(pl.o.fh), layoutReturnOp(pl.get.Stateid, nfs4.IOModeAny, &nfs4.LayoutReturnRes{}))
}

// refused says whether err is a data server's way to say that a layout is gone.
func refused(err error) bool {
	return errors.Is(err, nfs4.ErrPNFSNoLayout) || errors.Is(err, nfs4.ErrStale)
}

// sameBytes compares and says where two differ first.
func sameBytes(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	t.Errorf("%s: %d bytes, want %d; they differ at %d", what, len(got), len(want), at)
}

// pattern is n bytes that tell where they were written by what.
func pattern(seed byte, n int) []byte {
	b := make([]byte, n)
	x := uint32(seed) + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x>>24) | 1
	}
	return b
}

func isStatus(err error, s nfs4.Status) bool { return errors.Is(err, s) }
