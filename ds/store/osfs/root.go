package osfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"manifold/ds/store"
)

// Names in the root beside the object directories. Whoever wires the server may
// keep files of his own there that begin with no hexadecimal digit pair.
const (
	lockName     = "lock"
	identityName = "identity"
	formatLine   = "manifold data server root, format 1"
)

// takeRoot makes the root if need be, locks it, and returns the lock and the
// root's identity, which it gives an empty directory.
func takeRoot(root string) (lock *os.File, uuid string, err error) {
	if root == "" {
		return nil, "", errors.New("osfs: no root directory given")
	}
	if err := mkdirAll(root); err != nil {
		return nil, "", fmt.Errorf("osfs: %w", err)
	}
	lock, err = lockRoot(root)
	if err != nil {
		return nil, "", err
	}
	uuid, err = readIdentity(root)
	if errors.Is(err, fs.ErrNotExist) {
		uuid, err = newIdentity(root)
	}
	if err != nil {
		return nil, "", errors.Join(err, lock.Close())
	}
	return lock, uuid, nil
}

// mkdirAll makes dir and the directories above it that are missing, durably.
func mkdirAll(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if parent == filepath.Clean(dir) {
		return nil
	}
	if err := mkdirAll(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// lockRoot takes the lock that says that the root is in use. The kernel drops
// it when the process ends, however it ends.
func lockRoot(root string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(root, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("osfs: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		_ = f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, fmt.Errorf("osfs: %s is in use by another process (pid %s)", root, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("osfs: lock %s: %w", root, err)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid()) // for the message above only
	}
	return f, nil
}

// readIdentity returns the uuid of the root's identity file.
func readIdentity(root string) (string, error) {
	path := filepath.Join(root, identityName)
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("osfs: %w", err)
	}
	format, rest, _ := strings.Cut(string(b), "\n")
	uuid, ok := strings.CutPrefix(strings.TrimSpace(rest), "uuid ")
	if format != formatLine || !ok || len(uuid) != 36 {
		return "", fmt.Errorf("osfs: %s does not say %q and a uuid: not a root of this version, or damaged", path, formatLine)
	}
	return uuid, nil
}

// newIdentity makes root a root. It refuses a directory with other things in
// it, which somebody may have named by mistake.
func newIdentity(root string) (string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return "", fmt.Errorf("osfs: %w", err)
	}
	for _, e := range entries {
		switch e.Name() {
		case lockName, identityName + tempSuffix, "lost+found":
		default:
			return "", fmt.Errorf("osfs: %s has no %s file and is not empty (%s): not a data server's directory", root, identityName, e.Name())
		}
	}
	uuid := newUUID()
	err = WriteFile(root, identityName, []byte(formatLine+"\nuuid "+uuid+"\n"))
	return uuid, err
}

// newUUID returns a random UUID (RFC 9562 section 5.4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

const tempSuffix = ".new"

// WriteFile gives dir/name the content b, all of it or, after a crash, none of
// it: what was there before stays until b is on stable storage, and when
// WriteFile returns nil, b is. One caller a name at a time.
func WriteFile(dir, name string, b []byte) error {
	temp := filepath.Join(dir, name+tempSuffix)
	if err := writeSynced(temp, b); err != nil {
		return errors.Join(classify(err), os.Remove(temp))
	}
	if err := os.Rename(temp, filepath.Join(dir, name)); err != nil {
		return classify(err)
	}
	return syncDir(dir)
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return classify(err)
	}
	if err := d.Sync(); err != nil {
		return errors.Join(store.ErrIO, err, d.Close())
	}
	return d.Close()
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
