package boot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// maxFile is longer than any configuration file, in bytes.
const maxFile = 1 << 20

// file is a configuration file that was read.
type file struct {
	path   string
	values map[string]any // strings, and []string for lists
	lines  map[string]int
}

// where says where a key's value is from.
func (f file) where(key string) string { return fmt.Sprintf("%s:%d", f.path, f.lines[key]) }

// readFile reads a YAML file: a map from flags' names to scalars or lists of
// scalars. All that is wrong with its keys is reported at once.
func readFile(path string, known map[string]*pflag.Flag) (file, error) {
	f := file{path: path, values: map[string]any{}, lines: map[string]int{}}
	root, err := parse(path)
	if err != nil || root == nil {
		return f, err
	}
	if root.Kind != yaml.MappingNode {
		return f, Usage("%s:%d: the file must consist of lines \"key: value\"", path, root.Line)
	}
	var errs []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if err := f.add(key, value, known); err != nil {
			errs = append(errs, Usage("%s:%d: %v", path, key.Line, err))
		}
	}
	return f, errors.Join(errs...)
}

// parse returns the file's one document, nil if it is empty.
func parse(path string) (*yaml.Node, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, Usage("configuration file: %v", err)
	}
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, Usage("configuration file: %v", err)
	}
	if len(b) > maxFile {
		return nil, Usage("%s: longer than %d bytes", path, maxFile)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	var doc, more yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, Usage("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	switch err := d.Decode(&more); {
	case err == nil:
		return nil, Usage("%s:%d: a second document begins; one is all there may be", path, more.Line)
	case !errors.Is(err, io.EOF):
		return nil, Usage("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) != 1 || doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	return doc.Content[0], nil
}

// add takes one key in.
func (f *file) add(key, value *yaml.Node, known map[string]*pflag.Flag) error {
	name := key.Value
	if key.Kind != yaml.ScalarNode {
		return errors.New("a key must be a word")
	}
	if known[name] == nil {
		if best := nearest(name, known); best != "" {
			return fmt.Errorf("unknown key %q; did you mean %q?", name, best)
		}
		return fmt.Errorf("unknown key %q", name)
	}
	if line, twice := f.lines[name]; twice {
		return fmt.Errorf("%s is given again; it is in line %d already", name, line)
	}
	f.lines[name] = key.Line
	if value.Kind == yaml.SequenceNode {
		list := make([]string, 0, len(value.Content))
		for _, item := range value.Content {
			s, err := element(name, item, known[name])
			if err != nil {
				return err
			}
			list = append(list, s)
		}
		f.values[name] = list
		return nil
	}
	s, err := scalar(name, value)
	f.values[name] = s
	return err
}

// element returns one of a list as its flag takes it.
func element(name string, n *yaml.Node, f *pflag.Flag) (string, error) {
	if n.Kind != yaml.MappingNode || f.Annotations[keyNote] == nil {
		return scalar(name, n)
	}
	parts := make([]string, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return "", fmt.Errorf("%s: a key must be a word", name)
		}
		text, err := scalars(name+": "+key.Value, value)
		if err != nil {
			return "", err
		}
		parts = append(parts, key.Value+"="+text)
	}
	return strings.Join(parts, ","), nil
}

// scalars returns a value, or those of a list with commas in between.
func scalars(name string, n *yaml.Node) (string, error) {
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = n.Content
	}
	if len(list) == 0 {
		return "", fmt.Errorf("%s: the list is empty", name)
	}
	words := make([]string, 0, len(list))
	for _, item := range list {
		word, err := scalar(name, item)
		if err != nil {
			return "", err
		}
		if strings.Contains(word, "=") {
			return "", fmt.Errorf("%s: %q has a = in it", name, word)
		}
		words = append(words, word)
	}
	return strings.Join(words, ","), nil
}

// scalar returns a value as it is written, so that what a flag means by it
// counts and not what YAML does.
func scalar(name string, n *yaml.Node) (string, error) {
	switch {
	case n.Kind != yaml.ScalarNode:
		return "", fmt.Errorf("%s: the value must be a word, a number or a list of them", name)
	case n.Tag == "!!null":
		return "", fmt.Errorf("%s: no value; leave the line out for the default", name)
	}
	return n.Value, nil
}

// nearest returns the known key that name may be a misspelling of, "" if none
// is close.
func nearest(name string, known map[string]*pflag.Flag) string {
	best, least := "", max(2, len(name)/3)+1
	for k := range known {
		if d := distance(strings.ToLower(strings.ReplaceAll(name, "_", "-")), k); d < least || d == least && k < best {
			best, least = k, d
		}
	}
	return best
}

// distance is Levenshtein's: how many bytes to insert, remove or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
