package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Refused checks, as an ordinary user, what must be refused and what must not.
// With Prepare set, root makes in Dir what the user then meets; without it the
// user of the request's Cred (not root, a member of Group, not of root's) tries
// it all. Result: N refusals checked.
type Refused struct {
	Dir     string `json:"dir"`
	Prepare bool   `json:"prepare,omitempty"`
	Group   int    `json:"group"`
}

// Run prepares, or tries.
func (r Refused) Run(ctx context.Context) (Result, error) {
	if r.Prepare {
		return Result{}, r.prepare()
	}
	return r.try()
}

func (r Refused) at(name string) string { return filepath.Join(r.Dir, name) }

// prepare makes files of root's with various modes, and folders.
func (r Refused) prepare() error {
	err := os.Mkdir(r.Dir, 0o755)
	for name, mode := range map[string]os.FileMode{"secret": 0o600, "public": 0o644, "shared": 0o660, "write-only": 0o622} {
		err = first(err, os.WriteFile(r.at(name), []byte(name), 0o600), os.Chmod(r.at(name), mode))
	}
	err = first(err, os.Lchown(r.at("shared"), 0, r.Group))
	// The client may have a delegation of it then.
	if f, e := os.OpenFile(r.at("public"), os.O_RDWR, 0); e != nil {
		err = first(err, e)
	} else {
		err = first(err, f.Close())
	}
	for name, mode := range map[string]os.FileMode{"closed": 0o700, "open": 0o777, "sticky": 0o777 | os.ModeSticky, "blind": 0o711} {
		err = first(err, os.Mkdir(r.at(name), 0o755), os.WriteFile(r.at(name+"/roots"), nil, 0o644), os.Chmod(r.at(name), mode))
	}
	return err
}

// try does what a user may and may not do.
func (r Refused) try() (Result, error) {
	open := func(name string, flags int) error {
		f, err := os.OpenFile(r.at(name), flags, 0o600)
		if err == nil {
			err = f.Close()
		}
		return err
	}
	list := func(name string) error { _, err := os.ReadDir(r.at(name)); return err }
	refused := []struct {
		what string
		err  error
		want syscall.Errno
	}{
		{"read of a private file", open("secret", os.O_RDONLY), syscall.EACCES},
		{"write of a public file", open("public", os.O_WRONLY), syscall.EACCES},
		{"read of a write-only file", open("write-only", os.O_RDONLY), syscall.EACCES},
		{"truncation of a public file by an open for reading", open("public", os.O_RDONLY|os.O_TRUNC), syscall.EACCES},
		{"truncation of a public file", os.Truncate(r.at("public"), 0), syscall.EACCES},
		{"create in root's folder", open("mine", os.O_CREATE|os.O_WRONLY), syscall.EACCES},
		{"mkdir in root's folder", os.Mkdir(r.at("mine"), 0o755), syscall.EACCES},
		{"symlink in root's folder", os.Symlink("x", r.at("mine")), syscall.EACCES},
		{"remove in root's folder", os.Remove(r.at("public")), syscall.EACCES},
		{"rename in root's folder", os.Rename(r.at("public"), r.at("mine")), syscall.EACCES},
		{"lookup in a closed folder", open("closed/roots", os.O_RDONLY), syscall.EACCES},
		{"list of a closed folder", list("closed"), syscall.EACCES},
		{"list of a folder with x only", list("blind"), syscall.EACCES},
		{"chmod of root's file", os.Chmod(r.at("public"), 0o777), syscall.EPERM},
		{"chown of root's file", os.Lchown(r.at("public"), 0, r.Group), syscall.EPERM},
		{"utimes of root's file", os.Chtimes(r.at("public"), time.Unix(1, 0), time.Unix(1, 0)), syscall.EPERM},
		{"touch of root's file", unix.UtimesNano(r.at("public"), nil), syscall.EACCES},
		{"remove of root's file in a sticky folder", unix.Unlink(r.at("sticky/roots")), syscall.EPERM},
		{"mknod", unix.Mknod(r.at("open/dev"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))), syscall.EPERM},
	}
	var all []error
	for _, c := range refused {
		if !errors.Is(c.err, c.want) && (c.want != syscall.EPERM || !errors.Is(c.err, syscall.EACCES)) {
			all = append(all, fmt.Errorf("%s: got %w, want %w", c.what, orNil(c.err), c.want))
		}
	}
	allowed := []struct {
		what string
		err  error
	}{
		{"read of a public file", open("public", os.O_RDONLY)},
		{"write of a write-only file", open("write-only", os.O_WRONLY)},
		{"read and write by group", open("shared", os.O_RDWR)},
		{"lookup in a folder with x only", open("blind/roots", os.O_RDONLY)},
		{"create in an open folder", open("open/mine", os.O_CREATE|os.O_WRONLY)},
		{"chmod of one's own", os.Chmod(r.at("open/mine"), 0o400)},
		{"chgrp of one's own", os.Lchown(r.at("open/mine"), -1, r.Group)},
		{"remove of root's file in an open folder", os.Remove(r.at("open/roots"))},
		{"remove of one's own in an open folder", os.Remove(r.at("open/mine"))},
		{"create in a sticky folder", open("sticky/mine", os.O_CREATE|os.O_WRONLY)},
	}
	for _, c := range allowed {
		if c.err != nil {
			all = append(all, fmt.Errorf("%s is refused: %w", c.what, c.err))
		}
	}
	return Result{N: int64(len(refused) + len(allowed))}, errors.Join(all...)
}
