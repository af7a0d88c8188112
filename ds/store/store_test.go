package store

import (
	"math"
	"testing"

	"manifold/layout"
)

func TestPath(t *testing.T) {
	for _, obj := range []layout.Object{
		{}, {Volume: 1, Inode: 2, Gen: 3}, {Volume: math.MaxUint32, Inode: math.MaxUint64, Gen: math.MaxUint32},
	} {
		outer, inner, name := Path(obj)
		if len(outer) != 2 || len(inner) != 2 {
			t.Errorf("Path(%v) = %q, %q", obj, outer, inner)
		}
		if got, ok := ParseName(name); !ok || got != obj {
			t.Errorf("ParseName(%q) = %v, %v; want %v", name, got, ok, obj)
		}
	}
	if _, _, name := Path(layout.Object{Volume: 1, Inode: 0xabcdef, Gen: 2}); name != "00000001-0000000000abcdef-00000002" {
		t.Errorf("name %q: names on disk may not change", name)
	}
	if outer, inner, _ := Path(layout.Object{Volume: 1, Inode: 0xabcdef, Gen: 2}); outer+inner != "9d11" {
		t.Errorf("directory %s/%s: directories on disk may not change", outer, inner)
	}
}

func TestPathKeepsNeighboursTogether(t *testing.T) {
	dirs := make(map[string]int)
	const inodes = 64 * 10_000
	for i := range uint64(inodes) {
		outer, inner, _ := Path(layout.Object{Volume: 1, Inode: i})
		dirs[outer+inner]++
	}
	// 10,000 groups thrown at 65,536 directories hit 9,270 of them or so.
	if len(dirs) < 9000 || len(dirs) > 10_000 {
		t.Errorf("%d directories for %d inodes in a row", len(dirs), inodes)
	}
	for dir, n := range dirs {
		if n%64 != 0 || n > 64*10 {
			t.Errorf("%d objects in %s", n, dir)
		}
	}
}

func TestParseNameRefuses(t *testing.T) {
	for _, name := range []string{
		"", "lock", "00000001-0000000000abcdef-0000000", "00000001-0000000000abcdef-000000022",
		"00000001-0000000000ABCDEF-00000002", "0000000g-0000000000abcdef-00000002", "+0000001-0000000000abcdef-00000002",
		"00000001_0000000000abcdef_00000002", " 0000001-0000000000abcdef-00000002",
	} {
		if obj, ok := ParseName(name); ok {
			t.Errorf("ParseName(%q) = %v", name, obj)
		}
	}
}
