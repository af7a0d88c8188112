package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// The house's limits.
const (
	maxFunction = 70  // lines of a function, less its largest table
	maxFile     = 600 // lines of a file
	maxExported = 25  // exported names of a package
)

// House judges size and habits. Tests, generated files and tables are exempt
// from the limits of size.
func House(packages []Package) []Finding {
	var found []Finding
	for i := range packages {
		p := &packages[i]
		found = append(found, p.name()...)
		found = append(found, p.doc()...)
		found = append(found, p.exported()...)
		found = append(found, p.variables()...)
		for _, f := range p.Files {
			if !f.Test && !f.Exempt {
				found = append(found, p.size(f)...)
			}
		}
	}
	return found
}

// name refuses names that say nothing.
func (p *Package) name() []Finding {
	vague := []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "lib", "shared"}
	if slices.Contains(vague, path.Base(p.Path)) {
		return []Finding{{p.Path, "a package named " + path.Base(p.Path), "a name says what is inside; things that are used together live together"}}
	}
	return nil
}

// doc wants a comment on the package clause of one file.
func (p *Package) doc() []Finding {
	code := false
	for _, f := range p.Files {
		if f.Test {
			continue
		}
		code = true
		text := f.AST.Doc.Text()
		if strings.HasPrefix(text, "Package "+f.AST.Name.Name) || (f.AST.Name.Name == "main" && text != "") {
			return nil
		}
	}
	if !code || len(p.Files) == 0 || p.generated() {
		return nil
	}
	return []Finding{{p.Path, "no package comment", "a package's comment names its nouns"}}
}

// generated says whether all of the package is.
func (p *Package) generated() bool {
	return !slices.ContainsFunc(p.Files, func(f File) bool { return !f.Exempt })
}

// exported counts the names that the package shows.
func (p *Package) exported() []Finding {
	if p.generated() || slices.Contains([]string{"xdr/nfs4", "xdr/nfs3"}, p.Path) || strings.HasPrefix(p.Path, "conformance/") && p.Files[0].AST.Name.Name == "main" {
		return nil
	}
	var names []string
	for _, f := range p.Files {
		if f.Test || f.Exempt {
			continue
		}
		for _, d := range f.AST.Decls {
			names = append(names, exportedIn(d)...)
		}
	}
	if len(names) <= maxExported {
		return nil
	}
	slices.Sort(names)
	return []Finding{{p.Path, fmt.Sprintf("%d exported names, limit %d: %s", len(names), maxExported, strings.Join(names, " ")), "a package that shows much hides little"}}
}

// exportedIn returns the exported names of one declaration. Methods belong to
// their type, and the constants of one block to their first name.
func exportedIn(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.IsExported() {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
		names = slices.DeleteFunc(names, func(n string) bool { return !ast.IsExported(n) })
		if d.Tok == token.CONST && len(names) > 1 {
			names = names[:1]
		}
		return names
	}
	return nil
}

// size judges one file and its functions.
func (p *Package) size(f File) []Finding {
	var found []Finding
	if f.Lines > maxFile {
		found = append(found, Finding{path.Join(p.Path, f.Name), fmt.Sprintf("%d lines, limit %d", f.Lines, maxFile), "a file has one subject"})
	}
	for _, d := range f.AST.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if fn.Name.Name == "init" && fn.Recv == nil {
			found = append(found, Finding{p.where(fn.Pos()), "a function init", "importing a package must not do anything"})
		}
		if n := p.lines(fn) - p.largestTable(fn); n > maxFunction {
			found = append(found, Finding{p.where(fn.Pos()), fmt.Sprintf("%s has %d lines, limit %d", fn.Name.Name, n, maxFunction), "a function fits on a screen"})
		}
	}
	return found
}

func (p *Package) lines(n ast.Node) int {
	return p.Fset.Position(n.End()).Line - p.Fset.Position(n.Pos()).Line + 1
}

// largestTable returns how many lines the largest literal without code takes.
func (p *Package) largestTable(fn *ast.FuncDecl) int {
	largest := 0
	ast.Inspect(fn, func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok {
			largest = max(largest, p.lines(lit)-1)
		}
		return true
	})
	return largest
}

// variables finds package variables that change, or are made to.
func (p *Package) variables() []Finding {
	vars := map[string]*ast.Ident{}
	var found []Finding
	const why = "state belongs to a value that somebody made, so that two servers fit in one process"
	for _, f := range p.Files {
		if f.Test || f.Exempt {
			continue
		}
		for _, d := range f.AST.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, s := range gen.Specs {
				spec := s.(*ast.ValueSpec)
				for _, name := range spec.Names {
					if changing(spec) {
						found = append(found, Finding{p.where(name.Pos()), "package variable " + name.Name + " is made to change", why})
					}
					vars[name.Name] = name
				}
			}
		}
	}
	for _, f := range p.Files {
		if f.Test {
			continue
		}
		found = append(found, p.writes(f, vars, why)...)
	}
	return found
}

// changing says whether a variable's type is there to be changed: a lock, an
// atomic, a pool, a channel.
func changing(spec *ast.ValueSpec) bool {
	typ := spec.Type
	if typ == nil && len(spec.Values) == 1 {
		switch v := spec.Values[0].(type) {
		case *ast.CompositeLit:
			typ = v.Type
		case *ast.UnaryExpr:
			if lit, ok := v.X.(*ast.CompositeLit); ok {
				typ = lit.Type
			}
		case *ast.CallExpr:
			if fn, ok := v.Fun.(*ast.Ident); ok && fn.Name == "make" {
				return true
			}
		}
	}
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	if sel, ok := typ.(*ast.SelectorExpr); ok {
		if x, ok := sel.X.(*ast.Ident); ok {
			return x.Name == "sync" || x.Name == "atomic"
		}
	}
	_, channel := typ.(*ast.ChanType)
	return channel
}

// writes finds assignments to the variables. A local variable of the same name
// hides a package's, which the scan respects where it is plain to see.
func (p *Package) writes(f File, vars map[string]*ast.Ident, why string) []Finding {
	var found []Finding
	for _, d := range f.AST.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		local := locals(fn)
		check := func(e ast.Expr) {
			if id := root(e); id != nil && id.Name != "_" && vars[id.Name] != nil && !local[id.Name] {
				found = append(found, Finding{p.where(e.Pos()), "package variable " + id.Name + " is changed", why})
			}
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						check(e)
					}
				}
			case *ast.IncDecStmt:
				check(n.X)
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear") && len(n.Args) > 0 {
					check(n.Args[0])
				}
			}
			return true
		})
	}
	return found
}

// root is the variable that an expression changes a part of.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// locals names everything that fn declares.
func locals(fn *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, id := range n.Names {
				names[id.Name] = true
			}
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					names[id.Name] = true
				}
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				names[id.Name] = true
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok {
					names[id.Name] = true
				}
			}
		}
		return true
	})
	return names
}
