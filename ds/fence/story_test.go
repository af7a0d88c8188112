package fence

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"manifold/layout"
	"manifold/xdr/nfs4"
)

// TestStories runs testdata. The commands:
//
//	new clients=N objects=N        an empty table with these limits
//	fence-client ID                ID is boot/serial, or serial alone of boot 0
//	fence-object INODE least=E
//	forget INODE
//	raise-floor ID
//	check                          a line an I/O: client=ID inode=I epoch=E rights=rw need=w
//	reload                         Snapshot and Load
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		table := New(DefaultLimits())
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				var l Limits
				d.ScanArgs(t, "clients", &l.Clients)
				d.ScanArgs(t, "objects", &l.Objects)
				table = New(l)
			case "fence-client":
				return changed(table.FenceClient(clientID(t, d.CmdArgs[0].Key))) + state(table)
			case "fence-object":
				var least uint32
				d.ScanArgs(t, "least", &least)
				ok, err := table.FenceObject(object(t, d.CmdArgs[0].Key), least)
				if err != nil {
					return err.Error() + "\n"
				}
				return changed(ok) + state(table)
			case "forget":
				return changed(table.Forget(object(t, d.CmdArgs[0].Key))) + state(table)
			case "raise-floor":
				return changed(table.RaiseFloor(clientID(t, d.CmdArgs[0].Key))) + state(table)
			case "check":
				var b strings.Builder
				for line := range strings.Lines(d.Input) {
					fmt.Fprintln(&b, checkLine(t, table, strings.TrimSpace(line)))
				}
				return b.String()
			case "reload":
				again, err := Load(table.Snapshot(), table.limits)
				if err != nil {
					return err.Error() + "\n"
				}
				table = again
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return state(table)
		})
	})
}

func changed(ok bool) string {
	if ok {
		return ""
	}
	return "unchanged\n"
}

// state prints a table in a line.
func state(t *Table) string {
	var clients, objects []string
	for _, id := range t.sortedClients() {
		clients = append(clients, idString(id))
	}
	for obj, least := range t.objects {
		objects = append(objects, fmt.Sprintf("%d<%d", obj.Inode, least))
	}
	slices.Sort(objects)
	return fmt.Sprintf("floor %s clients %v objects %v\n", idString(t.floor), clients, objects)
}

func idString(id nfs4.ClientID) string { return fmt.Sprintf("%d/%d", id>>32, uint32(id)) }

func clientID(t *testing.T, s string) nfs4.ClientID {
	boot, serial, ok := strings.Cut(s, "/")
	if !ok {
		boot, serial = "0", s
	}
	return nfs4.ClientID(number(t, boot)<<32 | number(t, serial))
}

func object(t *testing.T, s string) layout.Object {
	return layout.Object{Volume: 1, Inode: number(t, s), Gen: 1}
}

func number(t *testing.T, s string) uint64 {
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func checkLine(t *testing.T, table *Table, line string) string {
	c := layout.Capability{}
	var need layout.Rights
	for _, f := range strings.Fields(line) {
		k, v, _ := strings.Cut(f, "=")
		switch k {
		case "client":
			c.Client = clientID(t, v)
		case "inode":
			c.Object = object(t, v)
		case "epoch":
			c.Epoch = uint32(number(t, v))
		case "rights":
			c.Rights = rights(v)
		case "need":
			need = rights(v)
		default:
			t.Fatalf("what is %s?", f)
		}
	}
	return fmt.Sprintf("%s: %v", line, table.Check(c, need))
}

func rights(s string) (r layout.Rights) {
	if strings.Contains(s, "r") {
		r |= layout.RightRead
	}
	if strings.Contains(s, "w") {
		r |= layout.RightWrite
	}
	return r
}

// TestFullTableKeepsFences: whatever a full table does, nothing that was fenced
// is let through again.
func TestFullTableKeepsFences(t *testing.T) {
	for _, limit := range []int{1, 2, 3, 4, 7, 64} {
		table := New(Limits{Clients: limit, Objects: 1})
		var fenced []nfs4.ClientID
		for i := range 10 * limit {
			id := nfs4.ClientID(i/limit)<<32 | nfs4.ClientID(i*7919%1000)
			table.FenceClient(id)
			fenced = append(fenced, id)
			if n, _ := table.Len(); n > limit {
				t.Fatalf("%d clients listed, limit %d", n, limit)
			}
			for _, id := range fenced {
				c := layout.Capability{Client: id, Rights: layout.RightRead}
				if s := table.Check(c, layout.RightRead); s != nfs4.ErrPNFSNoLayout {
					t.Fatalf("limit %d: client %s is let through after %d more", limit, idString(id), len(fenced))
				}
			}
		}
		newest := layout.Capability{Client: nfs4.ClientID(100) << 32, Rights: layout.RightRead}
		if s := table.Check(newest, layout.RightRead); s != nfs4.OK {
			t.Errorf("limit %d: a client of a newer boot: %v", limit, s)
		}
	}
}

func TestObjectsLimit(t *testing.T) {
	table := New(Limits{Clients: 1, Objects: 2})
	for i := range uint64(2) {
		if ok, err := table.FenceObject(layout.Object{Inode: i}, 1); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if ok, err := table.FenceObject(layout.Object{Inode: 9}, 1); ok || !errors.Is(err, ErrFull) {
		t.Errorf("one too many: %v, %v", ok, err)
	}
	if ok, err := table.FenceObject(layout.Object{Inode: 1}, 5); !ok || err != nil {
		t.Errorf("one that is listed: %v, %v", ok, err)
	}
	table.Forget(layout.Object{Inode: 0})
	if ok, err := table.FenceObject(layout.Object{Inode: 9}, 1); !ok || err != nil {
		t.Errorf("after one was forgotten: %v, %v", ok, err)
	}
}

func TestCloneIsApart(t *testing.T) {
	a := New(DefaultLimits())
	a.FenceClient(1)
	b := a.Clone()
	b.FenceClient(2)
	if _, err := b.FenceObject(layout.Object{Inode: 1}, 1); err != nil {
		t.Fatal(err)
	}
	b.RaiseFloor(1)
	if clients, objects := a.Len(); clients != 1 || objects != 0 || a.Floor() != 0 {
		t.Errorf("the original changed: %d clients, %d objects, floor %d", clients, objects, a.Floor())
	}
}
