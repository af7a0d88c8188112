package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	const dir = "../nfs4"
	want, err := generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	have, err := filepath.Glob(filepath.Join(dir, "z*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range have {
		if want[filepath.Base(path)] == nil {
			t.Errorf("%s is generated from nothing: remove it", path)
		}
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s is not what go generate writes (%v)", name, err)
		}
	}
}

// source writes a package of one file and returns its directory.
func source(t *testing.T, text string) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte("package p\n\n"+text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"type T struct { B []byte }":                                            "field B has no bound",
		"type T struct { B []uint32 }":                                          "field B has no bound",
		"type T struct { B [][]byte `xdr:\"max=1\"` }":                          "no bound for each",
		"type T struct { M map[int]int }":                                       "no wire form",
		"type T struct { A time.Time }":                                         "no wire form",
		"type T struct { A Other }":                                             "unknown type Other",
		"type T struct { A int }":                                               "unknown type int",
		"type T struct { A uint32 `xdr:\"big=1\"` }":                            "unknown tag",
		"type T struct { A uint32 `xdr:\"switch\"`; B uint32 }":                 "field B has no case",
		"type T struct { A uint32 `xdr:\"switch\"`; B []byte `xdr:\"case=1\"`}": "field B has no bound",
	} {
		if _, err := generate(source(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

func TestUnion(t *testing.T) {
	files, err := generate(source(t, "type T struct {\nK uint32 `xdr:\"switch,void=3\"`\nA uint32 `xdr:\"case=1|2\"`\nB bool `xdr:\"case=2\"`\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"case 3:\n\tcase 1:\n\t\tx.A = d.Uint32()\n\tcase 2:\n\t\tx.A = d.Uint32()\n\t\tx.B = d.Bool()\n\tdefault:\n\t\tbadArm(d, \"T\", uint32(x.K))",
		"switch x.K {\n\tcase 1:\n\t\te.Uint32(x.A)\n\tcase 2:\n\t\te.Uint32(x.A)\n\t\te.Bool(x.B)\n\t}",
	} {
		if !strings.Contains(string(files["zp.go"]), want) {
			t.Errorf("no %q in\n%s", want, files["zp.go"])
		}
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, map[string][]byte{"z.go": []byte("one")}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "z.go")); err != nil || string(got) != "one" {
		t.Errorf("%q, error %v", got, err)
	}
}
