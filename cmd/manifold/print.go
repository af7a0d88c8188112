package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"manifold/cmd/internal/boot"
)

// printer shows an answer in the form that -o asks for.
type printer struct{ form string }

func (p *printer) register(fs *pflag.FlagSet) {
	fs.StringVarP(&p.form, "output", "o", "table", "`FORM` of the answer: table, json or yaml")
}

// check is for before anything is done, so that nothing is done in vain.
func (p *printer) check() error {
	if !slices.Contains([]string{"table", "json", "yaml"}, p.form) {
		return boot.Usage("--output: %q is not table, json or yaml", p.form)
	}
	return nil
}

// print writes v, or the table that fill makes of it, to cmd's output.
func (p *printer) print(cmd *cobra.Command, v any, fill func(*table)) error {
	if err := p.check(); err != nil {
		return err
	}
	var out []byte
	var err error
	switch p.form {
	case "json":
		out, err = asJSON(v)
	case "yaml":
		out, err = asYAML(v)
	default:
		var b bytes.Buffer
		t := &table{tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)}
		fill(t)
		err = t.w.Flush()
		out = trimLines(b.Bytes())
	}
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(out)
	return err
}

func asJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// asYAML has the fields of the JSON form, under the same names and in the same
// order: JSON is YAML, so it is read as such and written in the usual style.
func asYAML(v any) ([]byte, error) {
	b, err := asJSON(v)
	if err != nil {
		return nil, err
	}
	var n yaml.Node
	if err := yaml.Unmarshal(b, &n); err != nil {
		return nil, err
	}
	var plain func(*yaml.Node)
	plain = func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode && len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
			n.Style = 0
		}
		for _, c := range n.Content {
			plain(c)
		}
	}
	plain(&n)
	return yaml.Marshal(&n)
}

// table is lines of cells, aligned by column.
type table struct{ w *tabwriter.Writer }

// row adds a line. Cells are printed as they are but for control characters,
// which may have come from a client.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return '?'
			}
			return r
		}, fmt.Sprint(c))
	}
	_, _ = io.WriteString(t.w, strings.Join(texts, "\t")+"\n") // into memory
}

// trimLines removes the padding of empty last cells.
func trimLines(b []byte) []byte {
	lines := strings.Split(string(b), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return []byte(strings.Join(lines, "\n"))
}

// bytesText writes a number of bytes for people, in four characters and a unit.
func bytesText(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/1024, "KMGTPE"
	for f >= 1023.5 && len(units) > 1 {
		f, units = f/1024, units[1:]
	}
	if f < 9.95 {
		return fmt.Sprintf("%.1f %ciB", f, units[0])
	}
	return fmt.Sprintf("%.0f %ciB", f, units[0])
}

// secondsText writes a time for people: its two greatest units.
func secondsText(s float64) string {
	d := time.Duration(s * float64(time.Second)).Round(time.Second)
	switch days := d / (24 * time.Hour); {
	case s < 0:
		return "never"
	case s < 10:
		return fmt.Sprintf("%.1fs", s)
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
