package linux_test

import (
	"fmt"
	"path"
	"testing"

	"manifold/conformance/linux/work"
)

// names goes through the rules of the name space, as root and as a user, and a
// directory of a thousand files.
func names(t *testing.T, w *world, c client) {
	s := w.direct(t)
	dir := c.mount(t, s.address, "t", "vers=4.2")
	base := path.Join(dir, "names-"+c.Kernel.Suite)
	c.sh(t, dir, "mkdir "+base)
	t.Run("rules", func(t *testing.T) { c.do(t, work.Names{Dir: path.Join(base, "rules")}) })
	t.Run("refused", func(t *testing.T) {
		refused := work.Refused{Dir: path.Join(base, "refused"), Group: 2000, Prepare: true}
		c.do(t, refused)
		refused.Prepare = false
		c.doAs(t, work.Cred{UID: 1000, GID: 1000, Groups: []int{2000}}, refused)
	})
	t.Run("tree", func(t *testing.T) {
		res := c.do(t, work.Tree{Dir: path.Join(base, "tree"), Files: 1000, Size: 100})
		t.Log("milliseconds: ", res.Times)
	})
}

// manyFiles fills one directory with ten thousand files.
func manyFiles(t *testing.T, w *world, c client) {
	s := w.direct(t)
	dir := c.mount(t, s.address, "t", "vers=4.2")
	res := c.within(t, 3*opLimit, work.Cred{}, work.Tree{Dir: path.Join(dir, "many"), Files: 10000})
	t.Log("milliseconds: ", res.Times)
}

// gitCommit makes a repository of a thousand files on the mount.
func gitCommit(t *testing.T, w *world, c client) {
	s := w.direct(t)
	dir := c.mount(t, s.address, "t", "vers=4.2")
	c.sh(t, dir, `mkdir repo; cd repo; git init -q .
		git config user.email a@example.org; git config user.name a; git config gc.auto 0
		i=0; while [ $i -lt 1000 ]; do
			d=$((i / 100)); [ -d $d ] || mkdir $d
			echo "file $i" >$d/$i; i=$((i + 1))
		done
		git add -A; git commit -q -m first`)
	c.do(t, work.DropCaches{})
	cold := c.mount(t, s.address, "cold", "vers=4.2,nosharecache")
	got := c.sh(t, path.Join(cold, "repo"), `git -c safe.directory='*' fsck --full 2>&1
		git -c safe.directory='*' status --porcelain; git -c safe.directory='*' ls-files | wc -l`)
	if got != "1000\n" {
		t.Errorf("fsck, status and the number of files say %q, want 1000 only", got)
	}
}

// tarInOut unpacks and packs a tree of system headers.
func tarInOut(t *testing.T, w *world, c client) {
	s := w.direct(t)
	dir := c.mount(t, s.address, "t", "vers=4.2")
	c.sh(t, dir, `mkdir tar; tar -C /usr/include -cf tar/in.tar linux asm-generic; tar -C tar -xf tar/in.tar
		tar -C tar -cf tar/out.tar linux asm-generic`)
	c.do(t, work.DropCaches{})
	cold := c.mount(t, s.address, "cold", "vers=4.2,nosharecache")
	if got := c.sh(t, path.Join(cold, "tar"), `for d in linux asm-generic; do diff -r $d /usr/include/$d; done; tar -df out.tar`); got != "" {
		t.Errorf("differences:\n%s", got)
	}
}

// compile builds and runs a small program on the mount.
func compile(t *testing.T, w *world, c client) {
	s := w.direct(t)
	dir := c.mount(t, s.address, "t", "vers=4.2")
	got := c.sh(t, dir, `mkdir c; cd c
		echo 'int square(int);' >square.h
		printf '#include "square.h"\nint square(int n) { return n * n; }\n' >square.c
		printf '#include <stdio.h>\n#include "square.h"\nint main(void) { printf("%%d\\n", square(12)); return 0; }\n' >main.c
		for f in square main; do gcc -O2 -Wall -Werror -c $f.c; done
		ar rc lib.a square.o; gcc -o prog main.o lib.a; ./prog`)
	if got != fmt.Sprintln(144) {
		t.Errorf("the program printed %q, want 144", got)
	}
}
