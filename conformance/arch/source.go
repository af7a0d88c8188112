// Package arch reads the source of the whole module and says where it breaks
// the house's rules: who may import whom, what the pure packages may not
// touch, and how long things may get.
//
// Its nouns: a Package is the parsed source of one folder; a Finding is one
// broken rule, with the place, the rule and the reason for it. Law judges
// imports, House judges size and habits. Its test runs both on the module.
package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// module is the module's path; packages are named without it.
const module = "manifold"

// Package is one folder of Go source.
type Package struct {
	Path  string // within the module: "mds/op"; "" is the module's root
	Fset  *token.FileSet
	Files []File
}

// File is one parsed source file.
type File struct {
	Name  string // base name
	Lines int
	Test  bool // *_test.go
	// Exempt says that the limits of size do not bind it: it is generated, or
	// is a table (z*.go).
	Exempt bool
	AST    *ast.File
}

// Finding is one broken rule.
type Finding struct {
	Where string // "mds/op/open.go:12"
	Rule  string
	Why   string
}

// String puts a Finding on one line.
func (f Finding) String() string { return f.Where + ": " + f.Rule + " (" + f.Why + ")" }

// Load parses every package below root, the module's folder. Folders named
// testdata or vendor, or with a leading dot or underscore, are none.
func Load(root string) ([]Package, error) {
	byDir := map[string]*Package{}
	var order []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if file != root && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata" || d.Name() == "vendor") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		dir := strings.TrimPrefix(path.Dir(filepath.ToSlash(rel)), ".")
		p := byDir[dir]
		if p == nil {
			p = &Package{Path: dir, Fset: token.NewFileSet()}
			byDir[dir] = p
			order = append(order, dir)
		}
		return p.add(file, nil)
	})
	packages := make([]Package, len(order))
	for i, dir := range order {
		packages[i] = *byDir[dir]
	}
	return packages, err
}

// add parses one file, from src if it is not nil.
func (p *Package) add(file string, src any) error {
	f, err := parser.ParseFile(p.Fset, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", file, err)
	}
	name := filepath.Base(file)
	p.Files = append(p.Files, File{
		Name:   name,
		Lines:  p.Fset.File(f.Pos()).LineCount(),
		Test:   strings.HasSuffix(name, "_test.go"),
		Exempt: strings.HasPrefix(name, "z") || strings.HasSuffix(name, ".pb.go") || ast.IsGenerated(f),
		AST:    f,
	})
	return nil
}

// where names a place in the package.
func (p *Package) where(pos token.Pos) string {
	at := p.Fset.Position(pos)
	return path.Join(p.Path, filepath.Base(at.Filename)) + ":" + strconv.Itoa(at.Line)
}

// imports calls visit with each import of f, unquoted.
func (f File) imports(visit func(spec *ast.ImportSpec, imported string)) {
	for _, spec := range f.AST.Imports {
		if imported, err := strconv.Unquote(spec.Path.Value); err == nil {
			visit(spec, imported)
		}
	}
}

// inside returns the part of an import path below the module.
func inside(imported string) (string, bool) {
	return strings.CutPrefix(imported, module+"/")
}
