package state

import (
	"fmt"
	"testing"
)

// TestIndexShrinks: an index gives memory back when most of it is gone, also in
// the middle of a range over it, and loses nothing.
func TestIndexShrinks(t *testing.T) {
	var x index[int]
	for i := range 100_000 {
		x.put(uint64(i), i)
	}
	for num := range x.m {
		if num%1000 != 0 {
			x.drop(num)
		}
	}
	if x.len() != 100 || x.most > 8*indexKeep {
		t.Errorf("%d left, made for %d", x.len(), x.most)
	}
	for i := range 100 {
		if x.get(uint64(1000*i)) != 1000*i {
			t.Errorf("%d is lost", 1000*i)
		}
	}
	x.drop(7) // is not there
}

// TestFew: one thing, several, and back, while going through them too.
func TestFew(t *testing.T) {
	var s few[string, *open]
	var os []*open
	for i := range 5 {
		o := &open{owner: fmt.Sprint(i)}
		os = append(os, o)
		s.add(o)
		for j, o := range os {
			if s.get(fmt.Sprint(j)) != o || s.len() != i+1 {
				t.Fatalf("with %d: %d, and no %d", i+1, s.len(), j)
			}
		}
		if s.get("x") != nil {
			t.Fatal("one that is not there")
		}
	}
	seen := 0
	for key, o := range s.all() {
		if o.owner != key {
			t.Errorf("%s under %s", o.owner, key)
		}
		s.drop(o)
		seen++
	}
	if seen != 5 || s.len() != 0 || s.many != nil {
		t.Errorf("saw %d, %d left", seen, s.len())
	}
	s.add(os[3])
	for range s.all() {
		s.drop(os[3])
	}
	if s.len() != 0 || s.get("3") != nil {
		t.Error("one is left")
	}
}

// TestShed: a client's state can be dropped in parts; others stay as they are.
func TestShed(t *testing.T) {
	c := newCoreWith(t, testConfig(), 2)
	for file := range uint64(10) {
		must(t, c, OpenReq{Client: 1, File: file + 1, Owner: []byte("o"), Access: 3})
	}
	must(t, c, OpenReq{Client: 2, File: 1, Owner: []byte("o"), Access: 3})
	if _, more := c.Shed(1, 4); more || c.CountsOf(1).Opens != 10 {
		t.Error("a client that is not going loses something")
	}
	c.Expire(1)
	for i, left := range []int{6, 2, 0} {
		e, more := c.Shed(1, 4)
		if more != (i < 2) || c.CountsOf(1).Opens != left || len(e.Idle) == 0 {
			t.Errorf("part %d: more %v, %d left, idle %v", i, more, c.CountsOf(1).Opens, e.Idle)
		}
		checkInvariants(t, c)
	}
	c.Forget(1)
	c.Expire(2)
	c.Forget(2)
	for name, n := range c.Census() {
		if n != 0 {
			t.Errorf("%d %s are left", n, name)
		}
	}
}
