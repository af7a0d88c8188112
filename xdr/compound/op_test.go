package compound

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"manifold/xdr"
	"manifold/xdr/nfs4"
)

// TestHandle: what a row makes of arguments and results.
func TestHandle(t *testing.T) {
	var a *number
	row := Handle(func(_ context.Context, _ *Call, in *number, out *nfs4.SetattrRes) nfs4.Status {
		a = in
		if in.n != 0 {
			out.AttrsSet.Set(nfs4.AttrType)
		}
		return nfs4.Status(in.n &^ 1)
	})
	run := func(args ...byte) (nfs4.Status, string) {
		d := xdr.NewDecoder(args)
		var e xdr.Encoder
		s := row(t.Context(), &Call{}, &d, &e)
		return s, fmt.Sprintf("%x", e.Bytes())
	}
	for i, tc := range []struct {
		args []byte
		s    nfs4.Status
		body string
	}{
		{[]byte{0, 0, 0, 1}, nfs4.OK, "0000000100000002"},
		{[]byte{0, 0, 0, 0}, nfs4.OK, "00000000"}, // nothing is left of the one before
		{[]byte{0, 0, 0, 5, 9}, 4, "0000000100000002"},
		{[]byte{0, 0, 0}, nfs4.ErrBadXDR, ""},
		{[]byte{0, 0, 0, 0}, nfs4.OK, "00000000"},
	} {
		if s, body := run(tc.args...); s != tc.s || body != tc.body {
			t.Errorf("%d: %v %s, want %v %s", i, s, body, tc.s, tc.body)
		}
	}
	if a.n != 0 {
		t.Error("arguments are kept")
	}
}

// TestBadXDR: the decoder may name the status.
func TestBadXDR(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want nfs4.Status
	}{
		{xdr.ErrShort, nfs4.ErrBadXDR},
		{fmt.Errorf("%w: name", xdr.ErrTooLong), nfs4.ErrBadXDR},
		{fmt.Errorf("a name: %w", nfs4.ErrNameTooLong), nfs4.ErrNameTooLong},
		{errors.Join(xdr.ErrValue, nfs4.ErrInval), nfs4.ErrInval},
	} {
		if got := BadXDR(tc.err); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.err, got, tc.want)
		}
	}
}

// TestTable: a Server has its role's rows and the engine's; the caller's table
// stays as it is.
func TestTable(t *testing.T) {
	table := newRole().table()
	n := len(table)
	s := New(Config{}, table)
	if len(table) != n {
		t.Error("the role's table has changed")
	}
	for num, op := range table {
		if s.rows[num].Name != op.Name {
			t.Errorf("%v is %s", num, s.rows[num].Name)
		}
	}
	for num := range s.sessionOps() {
		if s.rows[num].Name != num.String() {
			t.Errorf("%v is %s", num, s.rows[num].Name)
		}
	}
}
