package nfs4

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math/bits"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// filler makes random values that follow the tags of the declarations, without
// the help of the generator: what is not on the wire stays zero.
type filler struct {
	*rand.Rand
	consts map[string]uint64
}

// newFiller reads the package's constants, which union tags refer to.
func newFiller(t testing.TB, seed uint64) *filler {
	f := &filler{rand.New(rand.NewPCG(seed, 4)), map[string]uint64{"false": 0, "true": 1}}
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if ok && len(v.Names) == len(v.Values) {
				for i, name := range v.Names {
					if lit, ok := v.Values[i].(*ast.BasicLit); ok {
						f.consts[name.Name], _ = strconv.ParseUint(lit.Value, 0, 64)
					}
				}
			}
			return true
		})
	}
	return f
}

// value fills v.
func (f *filler) value(v reflect.Value, tag reflect.StructTag) {
	switch x := v.Addr().Interface().(type) {
	case *Attrs:
		f.attrs(x)
		return
	case *ReaddirRes:
		f.Bytes(x.CookieVerf[:])
		for range f.IntN(4) {
			var ent DirEntry
			f.value(reflect.ValueOf(&ent).Elem(), "")
			x.Entries = append(x.Entries, ent)
		}
		x.EOF = f.IntN(2) == 0
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(f.Uint64() >> (64 - v.Type().Bits() + f.IntN(8)))
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.Uint64()) >> (64 - v.Type().Bits()))
	case reflect.Uint8:
		v.SetUint(f.Uint64() & 0xff)
	case reflect.Array:
		for i := range v.Len() {
			f.value(v.Index(i), "")
		}
	case reflect.Slice:
		f.slice(v, tag)
	case reflect.Struct:
		f.structure(v)
	default:
		panic("no filler for " + v.Type().String())
	}
}

func (f *filler) slice(v reflect.Value, tag reflect.StructTag) {
	n := f.IntN(6)
	if strings.Contains(tag.Get("xdr"), "max=1,") || strings.HasSuffix(tag.Get("xdr"), "max=1") {
		n = f.IntN(2)
	}
	if n == 0 && v.Type().Elem().Kind() != reflect.Uint8 {
		return // decoded as nil
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		f.value(v.Index(i), "")
	}
}

// options splits the value of key in an xdr tag.
func options(tag reflect.StructTag, key string) []string {
	for _, part := range strings.Split(tag.Get("xdr"), ",") {
		if k, val, ok := strings.Cut(part, "="); ok && k == key {
			return strings.Split(val, "|")
		}
	}
	return nil
}

func (f *filler) structure(v reflect.Value) {
	t := v.Type()
	if t.NumField() == 0 {
		return
	}
	if !strings.HasPrefix(t.Field(0).Tag.Get("xdr"), "switch") {
		for i := range t.NumField() {
			if t.Field(i).Tag.Get("xdr") != "-" {
				f.value(v.Field(i), t.Field(i).Tag)
			}
		}
		return
	}
	arms := options(t.Field(0).Tag, "void")
	for i := 1; i < t.NumField(); i++ {
		arms = append(arms, options(t.Field(i).Tag, "case")...)
		if t.Field(i).Tag.Get("xdr") == "default" {
			arms = append(arms, "*")
		}
	}
	arm := arms[f.IntN(len(arms))]
	disc, ok := f.consts[arm]
	if arm == "*" {
		disc = 4711
	} else if !ok {
		panic("tag names the constant " + arm + ", which is not declared")
	}
	if v.Field(0).Kind() == reflect.Bool {
		v.Field(0).SetBool(disc == 1)
	} else {
		v.Field(0).SetUint(disc)
	}
	for i := 1; i < t.NumField(); i++ {
		tag := t.Field(i).Tag
		def := arm == "*" && tag.Get("xdr") == "default"
		for _, c := range options(tag, "case") {
			def = def || f.consts[c] == disc && arm != "*"
		}
		if def {
			f.value(v.Field(i), tag)
		}
	}
}

// attrs sets a random mask, sometimes a full one, and the fields it names.
func (f *filler) attrs(x *Attrs) {
	x.Mask = Bitmap{f.Uint32(), f.Uint32(), f.Uint32()}.And(KnownAttrs())
	switch f.IntN(4) {
	case 0:
		x.Mask = Bitmap{}
	case 1:
		x.Mask = KnownAttrs()
	case 2:
		x.Mask = x.Mask.And(Bitmap{f.Uint32(), f.Uint32(), f.Uint32()})
	}
	v := reflect.ValueOf(x).Elem()
	for w, word := range x.Mask {
		for ; word != 0; word &= word - 1 {
			n := f.attrField(v.Type(), 32*w+bits.TrailingZeros32(word))
			f.value(v.Field(n), v.Type().Field(n).Tag)
		}
	}
}

// attrField returns the index of the field of attribute n.
func (f *filler) attrField(t reflect.Type, n int) int {
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("attr"); name != "" && f.consts[name] == uint64(n) {
			return i
		}
	}
	panic("no field for attribute " + Attr(n).String())
}

// Bytes fills b.
func (f *filler) Bytes(b []byte) {
	for i := range b {
		b[i] = byte(f.Uint32())
	}
}
