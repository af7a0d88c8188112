package work

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Tree makes Files files of Size bytes in Dir (each holds its own name and then
// a pattern), lists and stats them, renames each and lists again, reads some,
// removes all, and removes Dir. Dir must not exist. Result: N files, and Times
// of the parts create, list, stat, rename, relist, read and remove.
type Tree struct {
	Dir   string `json:"dir"`
	Files int    `json:"files"`
	Size  int    `json:"size"`
}

// Run goes through the parts in order and stops at the first that is wrong.
func (t Tree) Run(ctx context.Context) (Result, error) {
	if err := os.Mkdir(t.Dir, 0o755); err != nil {
		return Result{}, err
	}
	res := Result{N: int64(t.Files), Times: map[string]int64{}}
	parts := []struct {
		name string
		do   func() error
	}{
		{"create", func() error { return t.each("f", t.create) }},
		{"list", func() error { return t.list("f") }},
		{"stat", func() error { return t.each("f", t.stat) }},
		{"rename", func() error { return t.each("f", t.rename) }},
		{"relist", func() error { return t.list("r") }},
		{"read", func() error { return t.each("r", t.read) }},
		{"remove", func() error { return t.each("r", func(_ int, path string) error { return os.Remove(path) }) }},
		{"rmdir", func() error { return os.Remove(t.Dir) }},
	}
	for _, part := range parts {
		start := time.Now()
		if err := part.do(); err != nil {
			return res, fmt.Errorf("%s: %w", part.name, err)
		}
		res.Times[part.name] = time.Since(start).Milliseconds()
	}
	return res, nil
}

// path names file i. The names are of several lengths.
func (t Tree) path(prefix string, i int) string {
	return filepath.Join(t.Dir, prefix+strconv.Itoa(i)+"-"+string(bytes.Repeat([]byte{'x'}, i%40)))
}

func (t Tree) each(prefix string, do func(i int, path string) error) error {
	for i := range t.Files {
		if err := do(i, t.path(prefix, i)); err != nil {
			return err
		}
	}
	return nil
}

// content is what file i holds.
func (t Tree) content(i int) []byte {
	p := make([]byte, t.Size)
	fill(p, uint64(i)+1, 0)
	return p
}

func (t Tree) create(i int, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(t.content(i))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (t Tree) stat(_ int, path string) error {
	st, err := os.Lstat(path)
	if err == nil && (st.Size() != int64(t.Size) || !st.Mode().IsRegular()) {
		err = fmt.Errorf("%s: size %d mode %v, want a file of %d bytes", path, st.Size(), st.Mode(), t.Size)
	}
	return err
}

func (t Tree) rename(i int, path string) error { return os.Rename(path, t.path("r", i)) }

// read reads every hundredth file.
func (t Tree) read(i int, path string) error {
	if i%100 != 0 {
		return nil
	}
	got, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(got, t.content(i)) {
		err = fmt.Errorf("%s does not hold what was written", path)
	}
	return err
}

// list reads the directory: every file once, and nothing else.
func (t Tree) list(prefix string) error {
	d, err := os.Open(t.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	got, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	seen := make(map[string]int, len(got))
	for _, name := range got {
		seen[name]++
	}
	for i := range t.Files {
		name := filepath.Base(t.path(prefix, i))
		if seen[name] != 1 {
			return fmt.Errorf("%s: %s is listed %d times", t.Dir, name, seen[name])
		}
	}
	if len(seen) != t.Files {
		return fmt.Errorf("%s: %d names listed, want %d", t.Dir, len(seen), t.Files)
	}
	return nil
}
