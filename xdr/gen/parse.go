package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// decl is a type declaration of the package.
type decl struct {
	name   string
	file   string
	expr   ast.Expr
	manual bool
	names  bool
	fields []field
}

// field is one member of a struct.
type field struct {
	name string
	typ  ast.Expr
	attr string
	tag  tag
}

// tag is a parsed xdr tag.
type tag struct {
	skip, disc, def, voidAll bool
	max, each                string
	void, cases              []string
}

// constant is one value of a type with names.
type constant struct{ name, label string }

// pkg is what the generator knows about a package.
type pkg struct {
	name   string
	order  []*decl
	types  map[string]*decl
	consts map[string][]constant
}

// parse reads the package in dir, without tests and generated files.
func parse(dir string) (*pkg, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	p := &pkg{types: map[string]*decl{}, consts: map[string][]constant{}}
	fset := token.NewFileSet()
	for _, path := range paths {
		base := filepath.Base(path)
		if strings.HasPrefix(base, "z") || strings.HasSuffix(base, "_test.go") {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(fset, path, src, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.name = f.Name.Name
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				if err := p.add(base, g); err != nil {
					return nil, err
				}
			}
		}
	}
	return p, nil
}

// add takes in the types and constants of one declaration.
func (p *pkg) add(file string, g *ast.GenDecl) error {
	for _, s := range g.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			d := &decl{name: s.Name.Name, file: file, expr: s.Type}
			d.manual = directive(g.Doc, "manual")
			d.names = directive(g.Doc, "names")
			if st, ok := s.Type.(*ast.StructType); ok {
				if err := d.parseFields(st); err != nil {
					return err
				}
			}
			p.order = append(p.order, d)
			p.types[d.name] = d
		case *ast.ValueSpec:
			t, ok := s.Type.(*ast.Ident)
			if ok && g.Tok == token.CONST && s.Comment != nil {
				label, _, _ := strings.Cut(strings.TrimSpace(s.Comment.Text()), ",")
				p.consts[t.Name] = append(p.consts[t.Name], constant{s.Names[0].Name, label})
			}
		}
	}
	return nil
}

func directive(doc *ast.CommentGroup, name string) bool {
	if doc == nil {
		return false
	}
	for _, c := range doc.List {
		if c.Text == "//xdr:"+name {
			return true
		}
	}
	return false
}

func (d *decl) parseFields(st *ast.StructType) error {
	for _, f := range st.Fields.List {
		var t reflect.StructTag
		if f.Tag != nil {
			t = reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		}
		parsed, err := parseTag(t.Get("xdr"))
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		for _, n := range f.Names {
			d.fields = append(d.fields, field{n.Name, f.Type, t.Get("attr"), parsed})
		}
	}
	return nil
}

func parseTag(s string) (tag, error) {
	var t tag
	if s == "" {
		return t, nil
	}
	for _, part := range strings.Split(s, ",") {
		key, val, _ := strings.Cut(part, "=")
		switch key {
		case "-":
			t.skip = true
		case "switch":
			t.disc = true
		case "default":
			t.def = true
		case "max":
			t.max = val
		case "each":
			t.each = val
		case "case":
			t.cases = strings.Split(val, "|")
		case "void":
			if val == "*" {
				t.voidAll = true
			} else {
				t.void = strings.Split(val, "|")
			}
		default:
			return t, fmt.Errorf("unknown tag %q", part)
		}
	}
	return t, nil
}
