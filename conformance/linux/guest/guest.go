package guest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"manifold/conformance/linux/kernel"
	"manifold/conformance/linux/work"
)

// Options say what to boot.
type Options struct {
	Config
	Kernel kernel.Kernel
	Agent  string // path of the agent's program, a static one
	Tap    string // the tap device that the guest's network device is on
	Memory string // such as 768M; all of it is page cache too
	Dir    string // where config.json, console.log and dmesg.log are kept; it is shared
	// Config.Harness is an address of this side that the guest reaches; Boot adds a port.
}

// errDead says that the guest's kernel has stopped.
var errDead = errors.New("the guest ended")

// bootLimit is how long a guest may take to its first line. It takes 3 s on an
// idle machine.
const bootLimit = 90 * time.Second

// Guest is a booted kernel. Its methods may be called from many goroutines.
type Guest struct {
	Options
	cmd     *exec.Cmd
	line    net.Conn      // to the agent
	scratch string        // folder for the kernel's own sockets
	dead    chan struct{} // closed once the kernel's process has ended

	mu      sync.Mutex // guards what follows, and writes to line
	nextID  uint64
	waiting map[uint64]chan work.Reply
}

// Boot starts a kernel and waits until its agent answers. The guest and all
// its processes die with this process, or with Close.
func Boot(ctx context.Context, o Options) (*Guest, error) {
	o.ModuleTree = o.Kernel.Modules
	o.Shared = append([]string{o.Dir}, o.Shared...)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(o.Harness)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = ln.Close() }()
	o.Harness = ln.Addr().String()
	if err := o.write(filepath.Join(o.Dir, "config.json")); err != nil {
		return nil, err
	}
	g := &Guest{Options: o, dead: make(chan struct{}), waiting: map[uint64]chan work.Reply{}}
	if err := g.start(); err != nil {
		return nil, fmt.Errorf("guest %s: %w", o.Name, err)
	}
	if err := g.accept(ctx, ln); err != nil {
		return nil, errors.Join(fmt.Errorf("guest %s did not boot: %w; its console ends:\n%s", o.Name, err, g.Console()), g.kill())
	}
	go g.receive()
	return g, nil
}

// accept waits for the agent's connection.
func (g *Guest) accept(ctx context.Context, ln *net.TCPListener) error {
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	conns := make(chan net.Conn, 1)
	go func() {
		if conn, err := ln.Accept(); err == nil {
			conns <- conn
		}
	}()
	select {
	case g.line = <-conns:
		return nil
	case <-g.dead:
		return errDead
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start runs the kernel in a process namespace of its own, so that nothing of
// the guest outlives it. The memory file must lie where execution is allowed.
func (g *Guest) start() error {
	console, err := os.Create(filepath.Join(g.Dir, "console.log"))
	if err != nil {
		return err
	}
	g.scratch = filepath.Join("/dev/shm", fmt.Sprintf("manifold-%d-%s", os.Getpid(), g.Name))
	if err := os.MkdirAll(g.scratch, 0o700); err != nil {
		return err
	}
	// The kernel is not process 1 of its namespace: that one's abort, by which a
	// panic ends, would be ignored.
	g.cmd = exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", `"$@"; exit $?`, "sh", g.Kernel.Binary,
		"umid=g", "uml_dir="+g.scratch, "mem="+g.Memory,
		"root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "init="+g.Agent,
		"con=null", "con0=null,fd:1", "ssl=null",
		"vec0:transport=tap,ifname="+g.Tap+",depth=128,gro=1", "quiet", "panic=1",
		ConfigVariable+"="+filepath.Join(g.Dir, "config.json"))
	g.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=/dev/shm", "HOME=" + g.scratch}
	g.cmd.Stdout, g.cmd.Stderr = console, console
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := g.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = g.cmd.Wait() // how a killed kernel ended tells nothing
		_ = os.RemoveAll(g.scratch)
		close(g.dead)
	}()
	return console.Close()
}

// receive hands replies to whoever waits.
func (g *Guest) receive() {
	replies := json.NewDecoder(g.line)
	for {
		var r work.Reply
		if err := replies.Decode(&r); err != nil {
			return // the guest ended, which dead says too
		}
		g.mu.Lock()
		ch := g.waiting[r.ID]
		delete(g.waiting, r.ID)
		g.mu.Unlock()
		if ch != nil {
			ch <- r
		}
	}
}

// await waits for a reply on ch.
func (g *Guest) await(ctx context.Context, ch chan work.Reply) (work.Result, error) {
	select {
	case r := <-ch:
		return r.Result, r.Err()
	case <-g.dead:
		return work.Result{}, errDead
	case <-ctx.Done():
		return work.Result{}, ctx.Err()
	}
}

// Job is a request that is being worked on.
type Job struct {
	g  *Guest
	id uint64
	ch chan work.Reply
}

// Start begins op as cred.
func (g *Guest) Start(cred work.Cred, op work.Op) (*Job, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nextID++
	req, err := work.NewRequest(g.nextID, op, cred)
	if err != nil {
		return nil, err
	}
	j := &Job{g: g, id: req.ID, ch: make(chan work.Reply, 1)}
	g.waiting[req.ID] = j.ch
	return j, g.send(req)
}

// send writes one request. The caller holds mu.
func (g *Guest) send(req work.Request) error {
	b, err := json.Marshal(req)
	if err != nil {
		return err
	}
	if err := g.line.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := g.line.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("guest %s: request %s: %w", g.Name, req.Op, err)
	}
	return nil
}

// Cancel asks the job to stop. It still has a result.
func (j *Job) Cancel() error {
	j.g.mu.Lock()
	defer j.g.mu.Unlock()
	return j.g.send(work.Request{ID: j.id, Cancel: true})
}

// Wait returns the job's result. It ends early when ctx does, or the guest.
func (j *Job) Wait(ctx context.Context) (work.Result, error) { return j.g.await(ctx, j.ch) }

// Do does op as root and waits for it.
func (g *Guest) Do(ctx context.Context, op work.Op) (work.Result, error) {
	return g.DoAs(ctx, work.Cred{}, op)
}

// DoAs does op as cred and waits for it.
func (g *Guest) DoAs(ctx context.Context, cred work.Cred, op work.Op) (work.Result, error) {
	j, err := g.Start(cred, op)
	if err != nil {
		return work.Result{}, err
	}
	res, err := j.Wait(ctx)
	if err != nil {
		err = fmt.Errorf("%s: %T: %w", g.Name, op, err)
	}
	return res, err
}

// Stacks makes the kernel print what its blocked tasks wait for, and returns
// the end of its console. It works where the agent no longer answers.
func (g *Guest) Stacks() string {
	conn, err := net.Dial("unixgram", filepath.Join(g.scratch, "g", "mconsole"))
	if err != nil {
		return g.Console() + "\n" + err.Error()
	}
	defer func() { _ = conn.Close() }()
	for _, command := range []string{"sysrq 9", "sysrq m", "sysrq w"} {
		// The management console's request: a magic number, its version, the
		// length of the command, and 512 bytes for it.
		msg := make([]byte, 12+512)
		binary.NativeEndian.PutUint32(msg[0:], 0xcafebabe)
		binary.NativeEndian.PutUint32(msg[4:], 2)
		binary.NativeEndian.PutUint32(msg[8:], uint32(len(command)))
		copy(msg[12:], command)
		if _, err := conn.Write(msg); err != nil {
			return g.Console() + "\n" + err.Error()
		}
	}
	time.Sleep(time.Second) // there is no sign of its end
	return g.Console()
}

// Console returns the end of what the kernel and its init printed.
func (g *Guest) Console() string {
	b, err := os.ReadFile(filepath.Join(g.Dir, "console.log"))
	if err != nil {
		return err.Error()
	}
	const most = 16 << 10
	return string(bytes.TrimSpace(b[max(0, len(b)-most):]))
}

// Close keeps the kernel's log in dmesg.log and ends the guest. It needs no
// cooperation: a guest that hangs is killed. A guest whose kernel panicked is an
// error.
func (g *Guest) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	log, err := g.Do(ctx, work.ReadFile{Path: "dmesg"})
	switch {
	case errors.Is(err, errDead) && !strings.Contains(g.Console(), "panic"):
		err = nil // it was told to stop
	case err == nil:
		err = os.WriteFile(filepath.Join(g.Dir, "dmesg.log"), []byte(log.Text), 0o644)
	}
	return errors.Join(err, g.kill())
}

// kill ends the process namespace of the guest.
func (g *Guest) kill() error {
	err := g.cmd.Process.Kill() // unshare's --kill-child takes the kernel along
	<-g.dead
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	if g.line != nil {
		err = errors.Join(err, g.line.Close())
	}
	return err
}
