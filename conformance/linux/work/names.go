package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Names goes through the name space's rules in Dir, which it makes and
// removes: hard links, symbolic links, fifos and other special files, modes,
// owners, times, renames over files and directories, files removed while open,
// long and odd names, and the errors of each. It must run as root. Result: N
// rules checked. The error joins every rule that did not hold.
type Names struct {
	Dir string `json:"dir"`
}

// Run checks every rule, each in a folder of its own.
func (n Names) Run(ctx context.Context) (Result, error) {
	rules := []struct {
		name string
		rule func(dir string) error
	}{
		{"hard links", hardLinks}, {"symbolic links", symlinks}, {"special files", specials},
		{"modes", modes}, {"owners", owners}, {"times", times}, {"rename", renames},
		{"rename of directories", renameDirs}, {"removed while open", removedOpen},
		{"odd names", oddNames}, {"exclusive create", exclusive}, {"directories", directories},
		{"file system", statfs},
	}
	if err := os.Mkdir(n.Dir, 0o755); err != nil {
		return Result{}, err
	}
	var all []error
	for i, r := range rules {
		dir := filepath.Join(n.Dir, fmt.Sprint("rule", i))
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			err = r.rule(dir)
		}
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", r.name, err))
		}
	}
	if err := os.RemoveAll(n.Dir); err != nil {
		all = append(all, err)
	}
	return Result{N: int64(len(rules))}, errors.Join(all...)
}

// wants fails unless err is the given error number.
func wants(what string, err error, want syscall.Errno) error {
	if errors.Is(err, want) {
		return nil
	}
	return fmt.Errorf("%s: got %w, want %w", what, orNil(err), want)
}

// orNil lets %w print a nil error.
func orNil(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// sys is the system's own view of a path, the last link not followed.
func sys(path string) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if err != nil {
		err = fmt.Errorf("lstat %s: %w", path, err)
	}
	return st, err
}

func hardLinks(dir string) error {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := first(os.WriteFile(a, []byte("one"), 0o644), os.Link(a, b)); err != nil {
		return err
	}
	sa, errA := sys(a)
	sb, errB := sys(b)
	if err := first(errA, errB); err != nil {
		return err
	}
	if sa.Ino != sb.Ino || sa.Nlink != 2 || sb.Nlink != 2 {
		return fmt.Errorf("inodes %d and %d, links %d and %d, want the same and 2", sa.Ino, sb.Ino, sa.Nlink, sb.Nlink)
	}
	if err := first(
		wants("link over a name", os.Link(a, b), syscall.EEXIST),
		wants("link to a directory", unix.Link(dir, filepath.Join(dir, "d")), syscall.EPERM),
		os.Remove(a)); err != nil {
		return err
	}
	got, err := os.ReadFile(b)
	if err == nil && string(got) != "one" {
		err = fmt.Errorf("other link holds %q", got)
	}
	if sb, errB = sys(b); err == nil && errB == nil && sb.Nlink != 1 {
		err = fmt.Errorf("%d links after a removal, want 1", sb.Nlink)
	}
	return first(err, errB)
}

func symlinks(dir string) error {
	target := strings.Repeat("somewhere/", 100) + "else"
	long, good := filepath.Join(dir, "long"), filepath.Join(dir, "good")
	err := first(os.Symlink(target, long), os.WriteFile(filepath.Join(dir, "t"), []byte("x"), 0o644), os.Symlink("t", good))
	if err != nil {
		return err
	}
	got, err := os.Readlink(long)
	if err == nil && got != target {
		err = fmt.Errorf("read back %d bytes of a link's target, want %d", len(got), len(target))
	}
	_, errOpen := os.ReadFile(long)
	_, errGood := os.ReadFile(good)
	st, errStat := sys(long)
	if errStat == nil && int(st.Size) != len(target) {
		errStat = fmt.Errorf("size of a link is %d, want %d", st.Size, len(target))
	}
	_, errNot := os.Readlink(filepath.Join(dir, "t"))
	return first(err, errGood, errStat, wants("open of a dangling link", errOpen, syscall.ENOENT),
		wants("readlink of a file", errNot, syscall.EINVAL))
}

func specials(dir string) error {
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		return fmt.Errorf("mkfifo: %w", err)
	}
	for name, typ := range map[string]uint32{"chr": unix.S_IFCHR, "blk": unix.S_IFBLK, "sock": unix.S_IFSOCK} {
		path := filepath.Join(dir, name)
		dev := 0
		if typ != unix.S_IFSOCK {
			dev = int(unix.Mkdev(7, 300))
		}
		if err := unix.Mknod(path, typ|0o600, dev); err != nil {
			return fmt.Errorf("mknod %s: %w", name, err)
		}
		st, err := sys(path)
		if err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != typ || (dev != 0 && int(st.Rdev) != dev) {
			return fmt.Errorf("%s: mode %o device %x, want type %o device %x", name, st.Mode, st.Rdev, typ, dev)
		}
	}
	return throughFifo(fifo)
}

// throughFifo passes a line from a writer to a reader on the same machine.
func throughFifo(fifo string) error {
	done := make(chan error, 1)
	go func() { done <- os.WriteFile(fifo, []byte("through"), 0) }()
	got, err := os.ReadFile(fifo)
	if err == nil && string(got) != "through" {
		err = fmt.Errorf("fifo gave %q", got)
	}
	return first(err, <-done)
}

func modes(dir string) error {
	f := filepath.Join(dir, "f")
	if err := os.WriteFile(f, nil, 0o666); err != nil {
		return err
	}
	for _, mode := range []uint32{0o000, 0o421, 0o644, 0o755, 0o4711, 0o2755, 0o1777} {
		if err := unix.Chmod(f, mode); err != nil {
			return fmt.Errorf("chmod %o: %w", mode, err)
		}
		st, err := sys(f)
		if err != nil {
			return err
		}
		if st.Mode&0o7777 != mode {
			return fmt.Errorf("mode %o after chmod %o", st.Mode&0o7777, mode)
		}
	}
	return nil
}

func owners(dir string) error {
	f := filepath.Join(dir, "f")
	if err := first(os.WriteFile(f, nil, 0o755), os.Chmod(f, 0o755|os.ModeSetuid), os.Lchown(f, 1234, 5678)); err != nil {
		return err
	}
	st, err := sys(f)
	if err == nil && (st.Uid != 1234 || st.Gid != 5678) {
		err = fmt.Errorf("owner %d:%d after chown 1234:5678", st.Uid, st.Gid)
	}
	if err != nil {
		return err
	}
	if err := os.Lchown(f, -1, 99); err != nil {
		return err
	}
	if st, err = sys(f); err == nil && (st.Uid != 1234 || st.Gid != 99) {
		err = fmt.Errorf("owner %d:%d after chown :99, want 1234:99", st.Uid, st.Gid)
	}
	return err
}

func times(dir string) error {
	f := filepath.Join(dir, "f")
	if err := os.WriteFile(f, []byte("x"), 0o644); err != nil {
		return err
	}
	before, err := sys(f)
	if err != nil {
		return err
	}
	atime, mtime := time.Unix(1e9, 123456789), time.Unix(1.2e9, 987654321)
	if err := os.Chtimes(f, atime, mtime); err != nil {
		return err
	}
	st, err := sys(f)
	if err != nil {
		return err
	}
	if st.Atim.Nano() != atime.UnixNano() || st.Mtim.Nano() != mtime.UnixNano() {
		return fmt.Errorf("times %d %d, want %d %d", st.Atim.Nano(), st.Mtim.Nano(), atime.UnixNano(), mtime.UnixNano())
	}
	if st.Ctim.Nano() < before.Ctim.Nano() {
		return errors.New("utimes moved ctime back")
	}
	if err := unix.UtimesNano(f, nil); err != nil { // "now", by the server's clock
		return fmt.Errorf("touch: %w", err)
	}
	if st, err = sys(f); err == nil && time.Since(time.Unix(0, st.Mtim.Nano())).Abs() > time.Hour {
		err = fmt.Errorf("mtime %d after touch is not now", st.Mtim.Nano())
	}
	return err
}

func renames(dir string) error {
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	err := first(os.WriteFile(a, []byte("a"), 0o644), os.WriteFile(b, []byte("b"), 0o644), os.Mkdir(c, 0o755), os.Rename(a, b))
	if err != nil {
		return err
	}
	got, err := os.ReadFile(b)
	if err == nil && string(got) != "a" {
		err = fmt.Errorf("after rename over a file it holds %q", got)
	}
	_, errGone := os.Lstat(a)
	return first(err, wants("stat of the old name", errGone, syscall.ENOENT),
		wants("rename of nothing", unix.Rename(a, b), syscall.ENOENT),
		wants("rename of a file over a directory", unix.Rename(b, c), syscall.EISDIR),
		wants("rename of a directory over a file", unix.Rename(c, b), syscall.ENOTDIR),
		unix.Rename(b, b), os.Rename(b, filepath.Join(c, "b")))
}

func renameDirs(dir string) error {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	err := first(os.MkdirAll(filepath.Join(a, "x", "y"), 0o755), os.Mkdir(b, 0o755),
		wants("rename into itself", unix.Rename(a, filepath.Join(a, "x", "z")), syscall.EINVAL),
		os.Rename(filepath.Join(a, "x"), filepath.Join(b, "x")))
	if err != nil {
		return err
	}
	up, errUp := sys(filepath.Join(b, "x", ".."))
	home, errHome := sys(b)
	if err := first(errUp, errHome); err != nil {
		return err
	}
	if up.Ino != home.Ino {
		return fmt.Errorf("'..' of a moved directory is inode %d, want %d", up.Ino, home.Ino)
	}
	err = unix.Rename(a, b)
	if !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
		return fmt.Errorf("rename over a full directory: got %w, want ENOTEMPTY", orNil(err))
	}
	sa, errA := sys(a)
	if errA == nil && sa.Nlink != 2 {
		errA = fmt.Errorf("directory without children has %d links, want 2", sa.Nlink)
	}
	return errA
}

func removedOpen(dir string) error {
	path := filepath.Join(dir, "f")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write([]byte("still here")); err != nil {
		return err
	}
	if err := first(f.Sync(), os.Remove(path)); err != nil {
		return err
	}
	got := make([]byte, 10)
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != "still here" {
		return fmt.Errorf("read of a removed file gave %q, %w", got, orNil(err))
	}
	_, errGone := os.Lstat(path)
	return wants("stat of a removed file", errGone, syscall.ENOENT)
}

func oddNames(dir string) error {
	odd := []string{strings.Repeat("n", 255), "with space", "new\nline", "\xff\xfe not utf-8", "-dash", "ünïcode", "...", "a\\b", "*?[]"}
	for _, name := range odd {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) != len(odd) {
		return fmt.Errorf("%d odd names listed, want %d", len(entries), len(odd))
	}
	for _, e := range entries {
		got, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil || string(got) != e.Name() {
			return fmt.Errorf("%q holds %q, %w", e.Name(), got, orNil(err))
		}
	}
	_, err = os.Lstat(filepath.Join(dir, strings.Repeat("n", 256)))
	return wants("name of 256 bytes", err, syscall.ENAMETOOLONG)
}

func exclusive(dir string) error {
	path := filepath.Join(dir, "f")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o604)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	st, err := sys(path)
	if err == nil && st.Mode&0o777 != 0o604 {
		err = fmt.Errorf("mode %o of an exclusive create, want 604", st.Mode&0o777)
	}
	if err == nil && time.Since(time.Unix(0, st.Mtim.Nano())).Abs() > time.Hour {
		err = fmt.Errorf("mtime %d of an exclusive create is not now", st.Mtim.Nano())
	}
	_, again := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	return first(err, wants("second exclusive create", again, syscall.EEXIST))
}

func directories(dir string) error {
	d := filepath.Join(dir, "d")
	if err := first(os.Mkdir(d, 0o751), os.Mkdir(filepath.Join(d, "s"), 0o755)); err != nil {
		return err
	}
	st, err := sys(d)
	if err == nil && (st.Nlink != 3 || st.Mode&0o777 != 0o751) {
		err = fmt.Errorf("%d links mode %o, want 3 and 751", st.Nlink, st.Mode&0o777)
	}
	err = first(err, wants("mkdir again", unix.Mkdir(d, 0o755), syscall.EEXIST),
		wants("unlink of a directory", unix.Unlink(d), syscall.EISDIR),
		wants("rmdir of nothing", unix.Rmdir(filepath.Join(dir, "no")), syscall.ENOENT))
	full := unix.Rmdir(d)
	if err == nil && !errors.Is(full, syscall.ENOTEMPTY) && !errors.Is(full, syscall.EEXIST) {
		err = fmt.Errorf("rmdir of a full directory: got %w", orNil(full))
	}
	return first(err, os.Remove(filepath.Join(d, "s")), os.Remove(d))
}

func statfs(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("statfs: %w", err)
	}
	if st.Blocks == 0 || st.Bavail == 0 || st.Bavail > st.Blocks || st.Namelen != 255 {
		return fmt.Errorf("%d blocks, %d available, names of %d", st.Blocks, st.Bavail, st.Namelen)
	}
	return nil
}
