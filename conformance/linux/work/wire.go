// Package work holds what a guest of the kernel-client harness can be asked to
// do, written in Go because a fork and exec costs 20 ms in the guest.
//
// Its nouns: an Op is one piece of work with its arguments (write a file by a
// plan, verify it, make ten thousand files, mount, run a program); a Result is
// what it found; a Cred is the user it is done as; a Request and a Reply are
// the two lines of JSON by which harness and guest exchange them. A Step list
// is a plan of changes to one file; the same list says what the file must hold
// afterwards, so that nobody needs a copy of the data to check it.
//
// Every Op runs as well on any directory of any Linux machine: the package's
// own tests do that, and show that each checker can fail.
package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Op is one piece of work. Run does it, as the caller's thread's user, and
// returns early without an error when ctx is done if the Op says so.
type Op interface {
	Run(ctx context.Context) (Result, error)
}

// Result is what an Op found. Each Op says which fields it sets.
type Result struct {
	N      int64            `json:"n,omitempty"`      // a count, of bytes, names or records
	Size   int64            `json:"size,omitempty"`   // a file's size in bytes
	Exit   int              `json:"exit,omitempty"`   // a program's exit status
	Sum    string           `json:"sum,omitempty"`    // a SHA-256 in hexadecimal
	Text   string           `json:"text,omitempty"`   // output or contents
	Millis int64            `json:"millis,omitempty"` // how long it took
	Stall  int64            `json:"stall,omitempty"`  // the longest single step, in milliseconds
	Times  map[string]int64 `json:"times,omitempty"`  // milliseconds a named part took
}

// Cred is the user that an Op is done as. The zero Cred is root.
type Cred struct {
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups,omitempty"`
}

// Request asks a guest for one Op. With Cancel set it cancels the Op of the
// request of that ID instead, which is then answered in its own time.
type Request struct {
	ID     uint64          `json:"id"`
	Op     string          `json:"op,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	Cred   Cred            `json:"cred"`
	Cancel bool            `json:"cancel,omitempty"`
}

// Reply answers the Request of the same ID. Errno is the system's error number
// within Error, if there is one.
type Reply struct {
	ID     uint64 `json:"id"`
	Result Result `json:"result"`
	Error  string `json:"error,omitempty"`
	Errno  int    `json:"errno,omitempty"`
}

// ops lists one zero value of each Op of this package.
func ops() []Op {
	return []Op{
		Plan{}, Verify{}, Sum{}, Tree{}, Names{}, Refused{}, Lock{}, Ack{}, Stream{},
		Exec{}, Mount{}, Unmount{}, Module{}, DropCaches{}, ReadFile{}, PowerOff{},
	}
}

// NewRequest returns the Request for op as cred.
func NewRequest(id uint64, op Op, cred Cred) (Request, error) {
	args, err := json.Marshal(op)
	if err != nil {
		return Request{}, fmt.Errorf("encode %T: %w", op, err)
	}
	return Request{ID: id, Op: reflect.TypeOf(op).Name(), Args: args, Cred: cred}, nil
}

// Serve does what a Request asks and returns its Reply. more is a zero value of
// each Op of other packages.
func Serve(ctx context.Context, req Request, more ...Op) Reply {
	reply := Reply{ID: req.ID}
	err := as(req.Cred, func() error {
		op, err := decode(req, append(ops(), more...))
		if err != nil {
			return err
		}
		reply.Result, err = op.Run(ctx)
		return err
	})
	if err != nil {
		reply.Error = err.Error()
		var errno syscall.Errno
		if errors.As(err, &errno) {
			reply.Errno = int(errno)
		}
	}
	return reply
}

// Err returns the Reply's error, or nil. It wraps the error number, so that
// errors.Is(err, syscall.EACCES) works on the other side too.
func (r Reply) Err() error {
	switch {
	case r.Error == "":
		return nil
	case r.Errno != 0:
		return &remoteError{text: r.Error, errno: syscall.Errno(r.Errno)}
	}
	return errors.New(r.Error)
}

// remoteError is an error whose number survived the wire.
type remoteError struct {
	text  string
	errno syscall.Errno
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.errno }

// decode finds the Op that req names and fills in its arguments.
func decode(req Request, ops []Op) (Op, error) {
	for _, zero := range ops {
		typ := reflect.TypeOf(zero)
		if typ.Name() != req.Op {
			continue
		}
		v := reflect.New(typ)
		if err := json.Unmarshal(req.Args, v.Interface()); err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", req.Op, err)
		}
		return v.Elem().Interface().(Op), nil
	}
	return nil, fmt.Errorf("no such op %q", req.Op)
}

// as runs fn on a thread of its own that has the user of cred; the thread ends
// with fn, so the user never leaks. Root needs no thread.
func as(cred Cred, fn func() error) error {
	if cred.UID == 0 && cred.GID == 0 && len(cred.Groups) == 0 {
		return fn()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		if err := become(cred); err != nil {
			done <- err
			return
		}
		done <- fn()
	}()
	return <-done
}

// become gives this thread alone the user of cred. The syscall package's
// Setresuid would change every thread of the process.
func become(cred Cred) error {
	groups := make([]uint32, len(cred.Groups)+1) // never empty, so that it has an address
	for i, g := range cred.Groups {
		groups[i] = uint32(g)
	}
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(cred.Groups)), uintptr(unsafe.Pointer(&groups[0])), 0)
	if e != 0 {
		return fmt.Errorf("setgroups: %w", e)
	}
	gid, uid := uintptr(cred.GID), uintptr(cred.UID)
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); e != 0 {
		return fmt.Errorf("setresgid %d: %w", cred.GID, e)
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); e != 0 {
		return fmt.Errorf("setresuid %d: %w", cred.UID, e)
	}
	return nil
}
