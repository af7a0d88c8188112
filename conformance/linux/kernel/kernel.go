// Package kernel brings user-mode Linux kernels onto this machine, each with
// the C library and the modules it needs, without installing anything.
//
// Its nouns: a suite is a Debian release, which has one user-mode kernel; a
// Kernel is that kernel, unpacked in the user's cache folder and ready to boot.
// The packages come from the machine's own Debian mirror through apt with lists
// and caches of its own, so that the machine's package state stays as it is,
// and are verified by apt as always.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Kernel is a user-mode Linux ready to boot.
type Kernel struct {
	Suite   string // the Debian release it is from
	Version string // as uname -r says it: 6.1.176
	Binary  string // path of the program
	Modules string // path of its module tree, which holds modules.dep
}

// Suites returns the Debian releases whose kernels are tested, the oldest
// first: bookworm has 6.1, trixie 6.12, and sid what is newest (it moves).
func Suites() []string { return []string{"bookworm", "trixie", "sid"} }

// Series returns the version without its last part: "6.1".
func (k Kernel) Series() string {
	parts := strings.SplitN(k.Version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// Install returns the kernel of suite. It downloads it (about 40 MB) unless an
// earlier call did. Errors say which command failed and what it printed.
func Install(ctx context.Context, suite string) (Kernel, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Kernel{}, err
	}
	top := filepath.Join(cache, "manifold-kernels")
	if err := os.MkdirAll(top, 0o755); err != nil {
		return Kernel{}, err
	}
	unlock, err := lock(filepath.Join(top, suite+".lock"))
	if err != nil {
		return Kernel{}, err
	}
	defer unlock()
	dir := filepath.Join(top, suite)
	k, err := find(suite, dir)
	if err == nil {
		return k, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return Kernel{}, err
	}
	if err := unpack(ctx, suite, dir); err != nil {
		return Kernel{}, fmt.Errorf("kernel of %s: %w", suite, err)
	}
	return find(suite, dir)
}

// lock keeps two processes from installing the same kernel.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing unlocks
}

// find looks for a kernel that is wholly unpacked in dir: the program gets its
// name last.
func find(suite, dir string) (Kernel, error) {
	binary := filepath.Join(dir, "linux")
	if _, err := os.Stat(binary); err != nil {
		return Kernel{}, err
	}
	deps, err := filepath.Glob(filepath.Join(dir, "root/usr/lib/uml/modules/*/modules.dep"))
	if err != nil {
		return Kernel{}, err
	}
	if len(deps) != 1 {
		return Kernel{}, fmt.Errorf("%d module trees in %s, want one", len(deps), dir)
	}
	tree := filepath.Dir(deps[0])
	return Kernel{Suite: suite, Version: filepath.Base(tree), Binary: binary, Modules: tree}, nil
}

// unpack downloads the packages and lays them out in dir.
func unpack(ctx context.Context, suite, dir string) error {
	work, err := os.MkdirTemp(filepath.Dir(dir), suite+".")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := download(ctx, suite, work); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(debs) == 0 {
		return fmt.Errorf("no packages came: %w", errors.Join(err, fs.ErrNotExist))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, deb := range debs {
		if _, err := run(ctx, work, "dpkg", "-x", deb, filepath.Join(dir, "root")); err != nil {
			return err
		}
	}
	return link(ctx, dir)
}

// download fetches the packages into work by an apt that knows suite alone.
func download(ctx context.Context, suite, work string) error {
	mirror, err := mirror(ctx)
	if err != nil {
		return err
	}
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(work, d), 0o755); err != nil {
			return err
		}
	}
	signed := ""
	const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	if _, err := os.Stat(keyring); err == nil {
		signed = "[signed-by=" + keyring + "] "
	}
	source := "deb " + signed + mirror + " " + suite + " main\n"
	if err := os.WriteFile(filepath.Join(work, "sources"), []byte(source), 0o644); err != nil {
		return err
	}
	apt := func(args ...string) error {
		options := []string{"-qq",
			"-o", "Dir::Etc::sourcelist=" + filepath.Join(work, "sources"), "-o", "Dir::Etc::sourceparts=/dev/null",
			"-o", "Dir::State::Lists=" + filepath.Join(work, "lists"), "-o", "Dir::Cache=" + filepath.Join(work, "cache"),
			"-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "-o", "Acquire::Languages=none"}
		_, err := run(ctx, work, "apt-get", append(options, args...)...)
		return err
	}
	if err := apt("update"); err != nil {
		return err
	}
	return apt("download", "user-mode-linux", "libc6")
}

// mirror asks apt for the Debian mirror that this machine uses.
func mirror(ctx context.Context) (string, error) {
	out, err := run(ctx, "/", "apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		uri, component, _ := strings.Cut(strings.TrimSpace(line), " ")
		if component == "main" && strings.HasSuffix(strings.TrimSuffix(uri, "/"), "/debian") {
			return uri, nil
		}
	}
	return "", errors.New("apt's sources name no Debian mirror")
}

// link makes the program use the C library that came with it.
func link(ctx context.Context, dir string) error {
	libs, err := filepath.Glob(filepath.Join(dir, "root/*lib/x86_64-linux-gnu/libc.so.6"))
	if err != nil {
		return err
	}
	inUsr, err := filepath.Glob(filepath.Join(dir, "root/usr/lib/x86_64-linux-gnu/libc.so.6"))
	if libs = append(libs, inUsr...); err != nil || len(libs) == 0 {
		return fmt.Errorf("no C library in its package: %w", errors.Join(err, fs.ErrNotExist))
	}
	lib := filepath.Dir(libs[0])
	binary := filepath.Join(dir, "linux.new")
	if _, err := run(ctx, dir, "cp", filepath.Join(dir, "root/usr/bin/linux.uml"), binary); err != nil {
		return err
	}
	loader := filepath.Join(lib, "ld-linux-x86-64.so.2")
	if _, err := run(ctx, dir, "patchelf", "--set-interpreter", loader, "--set-rpath", lib, binary); err != nil {
		return err
	}
	return os.Rename(binary, filepath.Join(dir, "linux"))
}

// run returns what a command printed; if it fails, the error says it too.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
