// Command gen writes the codecs of package nfs4 from its declarations.
//
// Its nouns: a field is one member of a struct with its wire form; a struct is
// encoded as its fields in order, a union as its first field (tag "switch") and
// the fields whose tag names that value ("case"). Run it with go generate in
// xdr/nfs4; it reads every file of the working directory that is not a test or
// generated, and writes z<file>.go beside each that needs one.
//
// Struct tags, key xdr, comma separated:
//
//	max=N      bound of an opaque's bytes or an array's elements
//	each=N     bound of each opaque in an array of opaques
//	switch     this field is the union's discriminant
//	void=A|B   discriminants without an arm; void=* for all that have none
//	case=A|B   discriminants whose arm holds this field
//	default    this field belongs to every discriminant without a case
//	-          not on the wire here
//
// Directives in a type's comment: //xdr:manual (its codec is written by hand),
// //xdr:names (String gives the comment behind each constant). Fields of
// a manual struct that have an attr tag get encodeAttr and decodeAttr.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	files, err := generate(".")
	if err == nil {
		err = write(".", files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// write stores the files that differ from what is there.
func write(dir string, files map[string][]byte) error {
	for name, text := range files {
		path := filepath.Join(dir, name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
			continue
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
