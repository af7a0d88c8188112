package main

import (
	"fmt"
	"go/ast"
	"strconv"
)

// kind is the wire form of a type.
type kind int

const (
	number  kind = iota // through a Decoder method named by basic
	fixed               // [N]byte
	opaque              // []byte
	array               // []T
	methods             // EncodeXDR and DecodeXDR
)

// wire describes a type on the wire.
type wire struct {
	kind  kind
	basic string   // number: the method of Decoder and Encoder
	conv  string   // number: the Go type, if it is not the basic one
	elem  ast.Expr // array
	min   int      // bytes it takes at least
}

var basics = map[string]struct {
	method string
	size   int
}{
	"bool": {"Bool", 4}, "uint32": {"Uint32", 4}, "int32": {"Int32", 4},
	"uint64": {"Uint64", 8}, "int64": {"Int64", 8},
}

func isStruct(e ast.Expr) bool {
	_, ok := e.(*ast.StructType)
	return ok
}

// wireOf resolves a type expression.
func (p *pkg) wireOf(e ast.Expr) (wire, error) {
	switch e := e.(type) {
	case *ast.Ident:
		if b, ok := basics[e.Name]; ok {
			return wire{kind: number, basic: b.method, min: b.size}, nil
		}
		d := p.types[e.Name]
		if d == nil {
			return wire{}, fmt.Errorf("unknown type %s", e.Name)
		}
		if d.manual {
			return wire{kind: methods, min: 4}, nil
		}
		if isStruct(d.expr) {
			n, err := p.structMin(d)
			return wire{kind: methods, min: n}, err
		}
		w, err := p.wireOf(d.expr)
		if w.kind == number {
			w.conv = e.Name
		}
		return w, err
	case *ast.ArrayType:
		if id, ok := e.Elt.(*ast.Ident); ok && id.Name == "byte" {
			if e.Len == nil {
				return wire{kind: opaque, min: 4}, nil
			}
			n, err := strconv.Atoi(e.Len.(*ast.BasicLit).Value)
			return wire{kind: fixed, min: (n + 3) &^ 3}, err
		}
		if e.Len == nil {
			return wire{kind: array, elem: e.Elt, min: 4}, nil
		}
	}
	return wire{}, fmt.Errorf("type %T has no wire form", e)
}

// structMin returns the least bytes of a struct, or of a union's discriminant.
func (p *pkg) structMin(d *decl) (int, error) {
	sum := 0
	for _, f := range d.fields {
		if f.tag.skip {
			continue
		}
		w, err := p.wireOf(f.typ)
		if err != nil {
			return 0, err
		}
		sum += w.min
		if f.tag.disc {
			break
		}
	}
	return sum, nil
}

// item returns the statements that encode or decode one field.
func (p *pkg) item(f field, encode bool) (string, error) {
	w, err := p.wireOf(f.typ)
	if err != nil {
		return "", fmt.Errorf("field %s: %w", f.name, err)
	}
	if (w.kind == opaque || w.kind == array) && f.tag.max == "" {
		return "", fmt.Errorf("field %s has no bound", f.name)
	}
	if w.kind != array {
		return w.single("x."+f.name, f.tag.max, encode), nil
	}
	el, err := p.wireOf(w.elem)
	if err != nil {
		return "", fmt.Errorf("field %s: %w", f.name, err)
	}
	if el.kind == opaque && f.tag.each == "" {
		return "", fmt.Errorf("field %s has no bound for each", f.name)
	}
	inner := el.single("x."+f.name+"[i]", f.tag.each, encode)
	if encode {
		return fmt.Sprintf("e.Uint32(uint32(len(x.%[1]s)))\nfor i := range x.%[1]s {\n%[2]s}\n", f.name, inner), nil
	}
	typ := elemName(w.elem)
	return fmt.Sprintf("x.%[1]s = nil\nif n := d.Count(%[2]s, %[3]d); n > 0 {\nx.%[1]s = make([]%[4]s, n)\nfor i := range x.%[1]s {\n%[5]s}\n}\n",
		f.name, f.tag.max, el.min, typ, inner), nil
}

func elemName(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return "[]byte"
}

// single returns the statement for one value of a kind other than array.
func (w wire) single(expr, max string, encode bool) string {
	switch w.kind {
	case number:
		if encode {
			if w.conv != "" {
				return fmt.Sprintf("e.%s(%s(%s))\n", w.basic, lower(w.basic), expr)
			}
			return fmt.Sprintf("e.%s(%s)\n", w.basic, expr)
		}
		if w.conv != "" {
			return fmt.Sprintf("%s = %s(d.%s())\n", expr, w.conv, w.basic)
		}
		return fmt.Sprintf("%s = d.%s()\n", expr, w.basic)
	case fixed:
		if encode {
			return fmt.Sprintf("e.Fixed(%s[:])\n", expr)
		}
		return fmt.Sprintf("copy(%[1]s[:], d.Fixed(len(%[1]s)))\n", expr)
	case opaque:
		if encode {
			return fmt.Sprintf("e.Opaque(%s)\n", expr)
		}
		return fmt.Sprintf("%s = d.Opaque(%s)\n", expr, max)
	}
	if encode {
		return expr + ".EncodeXDR(e)\n"
	}
	return expr + ".DecodeXDR(d)\n"
}

func lower(method string) string {
	for name, b := range basics {
		if b.method == method {
			return name
		}
	}
	return ""
}
