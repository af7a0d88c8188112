package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// census counts what is left in every table of a metadata server that all
// clients have left, by the server's own variables: "" if there is nothing. The
// server has stopped.
func (p *mdsProcess) census() string {
	var found []string
	engine := reflect.ValueOf(p.engine)
	for _, table := range []struct {
		name string
		of   reflect.Value // a pointer
	}{
		{"op", reflect.ValueOf(p.ops)}, {"state", reflect.ValueOf(p.ops.State)}, {"outbox", reflect.ValueOf(p.outbox)},
		{"engine", engine}, {"sessions", engine.Elem().FieldByName("cfg").FieldByName("Sessions")},
	} {
		count(table.name, table.of.Elem(), 0, &found)
	}
	found = slices.DeleteFunc(found, func(s string) bool {
		name, _, _ := strings.Cut(s, ":")
		return slices.Contains(stays, name)
	})
	return strings.Join(found, ", ")
}

// stays is what may be there when all clients are gone, and why.
var stays = []string{
	"outbox.last",                             // a number for each data server
	"state.cooling.at", "state.cooling.order", // files that are not delegated for a second: bounded, gone with the next
	"state.waiting", // who did not come back in time, until the next start: no more than there were then
}

// counters are those that go back to zero.
var counters = []string{"sessions.confirming", "sessions.cacheBytes"}

// count adds what is in the maps and slices of a struct, and of structs in it.
func count(path string, v reflect.Value, depth int, found *[]string) {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		if !v.IsZero() && slices.Contains(counters, path) {
			*found = append(*found, fmt.Sprintf("%s: %d", path, v.Int()))
		}
	case reflect.Map, reflect.Slice:
		if v.Len() > 0 {
			*found = append(*found, fmt.Sprintf("%s: %d", path, v.Len()))
		}
	case reflect.Struct:
		if depth > 2 {
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Name == "Parts" || f.Name == "cfg" || strings.HasPrefix(f.Type.PkgPath(), "sync") || f.Type.PkgPath() == "time" {
				continue
			}
			count(path+"."+f.Name, v.Field(i), depth+1, found)
		}
	}
}
