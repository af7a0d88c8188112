package arch

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// row is one line of the import law: these packages may import those, and all
// that those may import themselves. A pattern matches as path.Match does; one
// that ends in "/..." matches the folder and everything below it.
type row struct {
	who  string
	may  []string
	says string // what the packages are for, which is the reason
}

// law is the import law, from the wire up. The first row that matches counts.
func law() []row {
	return []row{
		{"xdr", nil, "the codec knows nothing but bytes"},
		{"xdr/gen", nil, "the generator stands alone"},
		{"xdr/nfs4", []string{"xdr"}, "types and their codecs"},
		{"xdr/nfs3", []string{"xdr"}, "types and their codecs"},
		{"xdr/rpc", []string{"xdr"}, "RPC carries bodies and never looks into them"},
		{"xdr/rpc/gss/krb5", []string{"xdr/rpc/gss"}, "a mechanism makes contexts for its flavour"},
		{"xdr/rpc/gss/krb5/kdctest", nil, "a KDC for tests"},
		{"xdr/rpc/*", []string{"xdr/rpc"}, "a transport or an auth flavour knows RPC alone"},
		{"xdr/session", []string{"xdr/nfs4"}, "sessions are decided without I/O"},
		{"xdr/compound", []string{"xdr/session", "xdr/rpc", "xdr/nfs4"}, "the engine knows rules, not operations"},
		{"xdr/client", []string{"xdr/nfs4", "xdr/rpc", "xdr/rpc/*"}, "the client needs the wire only"},
		{"layout", []string{"xdr/nfs4"}, "the contract of client, MDS and DS rests on the wire's types alone"},
		{"layout/files", []string{"layout"}, "a layout type is bytes and arithmetic"},
		{"layout/flexfiles", []string{"layout"}, "a layout type is bytes and arithmetic"},
		{"layout/control/controlpb", nil, "generated messages"},
		{"layout/control", []string{"layout", "layout/control/controlpb"}, "MDS and DS talk of layouts, not of operations"},
		{"mds/state", []string{"xdr/nfs4", "layout"}, "state decides, and touches nothing"},
		{"mds/placement", []string{"xdr/nfs4", "layout"}, "placement decides, and touches nothing"},
		{"mds/store", nil, "a store keeps keys and values and knows no NFS"},
		{"mds/address", nil, "it moves an address, whatever is served there"},
		{"mds/store/etcd", []string{"mds/store", "mds/store/bolt"}, "etcd is the record, a bolt file this machine's copy of it"},
		{"mds/store/etcd/etcdtest", nil, "real etcd servers for tests"},
		{"mds/store/*", []string{"mds/store"}, "a store keeps keys and values and knows no NFS"},
		{"mds/ns", []string{"mds/store", "xdr/nfs4", "layout"}, "the name space is written over a transaction, without state or network"},
		{"mds/outbox", []string{"mds/state", "mds/store", "layout/control", "xdr/compound"}, "the outbox tells others what the store says is to be told"},
		{"mds/admin/adminpb", nil, "generated messages"},
		{"mds/admin", []string{"mds/admin/adminpb"}, "the admin API is an outer face; the server fills it in"},
		{"mds/fleet", []string{"mds/ns", "mds/placement", "mds/store", "layout/*"}, "the fleet is the MDS's view of its data servers"},
		{"mds/proxy", []string{"mds/ns", "layout", "xdr/client"}, "proxy I/O is a client of the data servers"},
		{"mds/op", []string{"xdr/compound", "mds/state", "mds/ns", "mds/placement", "mds/outbox", "mds/fleet", "mds/proxy", "layout/*"}, "an operation decides, keeps, applies and tells by its injected parts"},
		{"mds", []string{"mds/...", "layout/...", "xdr/..."}, "the server wires its parts"},
		{"ds/fence", []string{"layout"}, "fencing decides, and touches nothing"},
		{"ds/store", []string{"layout"}, "objects are named by the layout"},
		{"ds/store/*", []string{"ds/store"}, "an adapter knows its store's interface alone"},
		{"ds/nfs3", []string{"ds/store", "ds/store/*", "xdr/nfs3", "xdr/rpc"}, "the NFSv3 face is over the same objects"},
		{"ds/op", []string{"xdr/compound", "ds/fence", "ds/store"}, "a data server's operation moves bytes"},
		{"ds/internal/...", []string{"ds/...", "layout/...", "xdr/..."}, "parts of the data server's own tests"},
		{"ds", []string{"ds/...", "layout/...", "xdr/..."}, "the server wires its parts"},
		{"cmd/internal/...", []string{"cmd/internal/...", "mds", "ds", "mds/admin", "layout", "layout/control", "xdr/..."}, "booting knows servers from outside"},
		{"cmd/...", []string{"cmd/...", "mds", "ds", "mds/admin", "mds/address", "mds/store", "mds/store/*", "ds/store", "ds/store/*", "layout/...", "xdr/..."}, "main wires servers and holds no rule of the protocol"},
		{"configs", []string{"cmd/...", "mds", "ds"}, "example files, loaded by their test"},
		{"conformance/...", []string{"..."}, "conformance may look at everything"},
	}
}

// only lists libraries that few packages may know.
func only() []row {
	return []row{
		{"github.com/spf13/viper", []string{"cmd/internal/boot"}, "configuration ends where a server's Config begins"},
		{"github.com/spf13/cobra", []string{"cmd/..."}, "the command line is main's"},
		{"github.com/prometheus/...", []string{"cmd/internal/..."}, "metrics come through observers, so that no operation knows them"},
		{"github.com/go-git/go-billy/...", []string{"ds/store/billyfs", "ds/nfs3", "mds/nfs3"}, "the fast path does not go through a file system abstraction"},
		{"github.com/willscott/go-nfs/...", []string{"ds/nfs3", "mds/nfs3"}, "NFSv3 is a face"},
		{"go.etcd.io/bbolt/...", []string{"mds/store/bolt"}, "one store, one adapter"},
		{"go.etcd.io/etcd/...", []string{"mds/store/etcd/..."}, "one store, one adapter"},
		{"github.com/jcmturner/...", []string{"xdr/rpc/gss/krb5"}, "one mechanism, one adapter"},
		{"google.golang.org/grpc/...", []string{"layout/control/...", "mds/admin/...", "cmd/..."}, "gRPC is for control and administration, not for NFS"},
	}
}

// banned lists what packages that only decide, or only encode, may not touch.
func banned() []row {
	io := []string{"net", "net/http", "os", "os/exec", "os/signal", "log", "log/slog", "syscall", "golang.org/x/sys/unix", "math/rand", "math/rand/v2", "crypto/rand"}
	pure := append([]string{"sync", "sync/atomic", "go.uber.org/zap", "context"}, io...)
	var rows []row
	for _, who := range []string{"xdr", "xdr/nfs4", "xdr/nfs3", "layout", "layout/files", "layout/flexfiles", "xdr/session", "mds/state", "mds/placement", "ds/fence"} {
		rows = append(rows, row{who, pure, "the package is pure: time and fresh ids are arguments, results are values"})
	}
	return append(rows,
		row{"mds/ns", io, "the name space touches its transaction alone"},
		row{"mds/op", io, "an operation does I/O through its injected parts"},
		row{"ds/op", io, "an operation does I/O through its injected parts"})
}

// matches says whether a package's path is in a pattern.
func matches(pattern, name string) bool {
	if stem, ok := strings.CutSuffix(pattern, "..."); ok {
		stem = strings.TrimSuffix(stem, "/")
		return stem == "" || name == stem || strings.HasPrefix(name, stem+"/")
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// rowOf finds the row that places a package.
func rowOf(name string) (row, bool) {
	for _, r := range law() {
		if matches(r.who, name) {
			return r, true
		}
	}
	return row{}, false
}

// allows says whether who may import what: its row says so, or the row of
// something that it may import does.
func allows(who, what string) bool {
	seen := map[string]bool{}
	var visit func(string) bool
	visit = func(name string) bool {
		r, ok := rowOf(name)
		if !ok || seen[r.who] {
			return false
		}
		seen[r.who] = true
		return matchesAny(r.may, what) || slices.ContainsFunc(r.may, func(p string) bool {
			return !strings.ContainsAny(p, "*.") && visit(p)
		})
	}
	return visit(who)
}

// Law judges the imports of every package, and what the pure ones do.
func Law(packages []Package) []Finding {
	var found []Finding
	for _, p := range packages {
		r, placed := rowOf(p.Path)
		if !placed {
			found = append(found, Finding{p.Path, "the import law has no row for this package", "every package has a place; add a row where it belongs"})
			continue
		}
		for _, f := range p.Files {
			f.imports(func(spec *ast.ImportSpec, imported string) {
				for _, broken := range judge(p.Path, r, f, imported) {
					broken.Where = p.where(spec.Pos())
					found = append(found, broken)
				}
			})
			found = append(found, p.impure(f)...)
		}
	}
	return found
}

// judge returns what one import breaks. A test may import across the law, but
// not from one server to the other.
func judge(who string, r row, f File, imported string) []Finding {
	var found []Finding
	add := func(rule, why string) { found = append(found, Finding{Rule: rule, Why: why}) }
	if what, ok := inside(imported); ok {
		servers := [2]string{strings.Split(who, "/")[0], strings.Split(what, "/")[0]}
		switch {
		case servers == [2]string{"mds", "ds"} || servers == [2]string{"ds", "mds"}:
			add(who+" imports "+what, "mds decides, ds moves bytes; neither imports the other, at any depth")
		case f.Test:
		case testOnly(what):
			add(who+" imports "+what, "it is made for tests, and only _test.go files may import it")
		case !allows(who, what) && !testOnly(who):
			add(who+" imports "+what, r.says)
		}
		return found
	}
	if f.Test {
		return nil
	}
	for _, o := range only() {
		if matches(o.who, imported) && !matchesAny(o.may, who) && !strings.HasPrefix(who, "conformance/") {
			add(who+" imports "+imported+", which is for "+strings.Join(o.may, ", "), o.says)
		}
	}
	for _, b := range banned() {
		if b.who == who && slices.Contains(b.may, imported) {
			add(who+" imports "+imported, b.says)
		}
	}
	return found
}

// testOnly says whether a package is made for tests: storetest, dstest, or the
// stories' scripts.
func testOnly(name string) bool {
	return strings.HasSuffix(name, "test") || name == "conformance/script"
}

// impure finds, in a file of a pure package, clocks and goroutines, which need
// no import that gives them away.
func (p *Package) impure(f File) []Finding {
	i := slices.IndexFunc(banned(), func(b row) bool { return b.who == p.Path && slices.Contains(b.may, "sync") })
	if i < 0 || f.Test {
		return nil
	}
	why := banned()[i].says
	var found []Finding
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, Finding{p.where(n.Pos()), "a goroutine in " + p.Path, why})
		case *ast.SelectorExpr:
			clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
				found = append(found, Finding{p.where(n.Pos()), "time." + n.Sel.Name + " in " + p.Path, why})
			}
		}
		return true
	})
	return found
}
