package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Exec runs a program as the request's user and waits for it. A program that
// ends by itself is not an error: Result.Exit is its status. Result: Exit,
// Text (its output, both streams, the last 64 KiB), Millis.
type Exec struct {
	Argv    []string `json:"argv"`
	Env     []string `json:"env,omitempty"` // added to a plain environment
	Dir     string   `json:"dir,omitempty"`
	Seconds int      `json:"seconds,omitempty"` // limit; 0: 60
}

// Run starts the program in a process group of its own, which the time limit
// kills whole.
func (e Exec) Run(ctx context.Context) (Result, error) {
	if e.Seconds == 0 {
		e.Seconds = 60
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(e.Seconds)*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, e.Argv[0], e.Argv[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, e.Dir
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "TERM=dumb", "LC_ALL=C"}, e.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	start := time.Now()
	err := cmd.Run()
	const most = 64 << 10
	text := out.Bytes()[max(0, out.Len()-most):]
	res := Result{Text: string(text), Millis: time.Since(start).Milliseconds()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return res, fmt.Errorf("%s: stopped after %d ms: %w\n%s", e.Argv[0], res.Millis, ctx.Err(), text)
	case errors.As(err, &exit):
		res.Exit = exit.ExitCode()
		return res, nil
	}
	return res, err
}

// Mount mounts Source at Dir (made if need be) by mount(8).
type Mount struct {
	Source  string `json:"source"`
	Dir     string `json:"dir"`
	Type    string `json:"type"`
	Options string `json:"options,omitempty"`
	Seconds int    `json:"seconds,omitempty"`
}

// Run mounts; what mount(8) said is in the error.
func (m Mount) Run(ctx context.Context) (Result, error) {
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return Result{}, err
	}
	argv := []string{"mount", "-t", m.Type}
	if m.Options != "" {
		argv = append(argv, "-o", m.Options)
	}
	return mustExit(Exec{Argv: append(argv, m.Source, m.Dir), Seconds: m.Seconds}.Run(ctx))
}

// mustExit makes an error of an exit status other than 0.
func mustExit(res Result, err error) (Result, error) {
	if err == nil && res.Exit != 0 {
		err = fmt.Errorf("exit status %d: %s", res.Exit, strings.TrimSpace(res.Text))
	}
	return res, err
}

// Unmount unmounts Dir. It never hangs for ever: after Seconds (0: 60) it is
// an error.
type Unmount struct {
	Dir     string `json:"dir"`
	Seconds int    `json:"seconds,omitempty"`
}

// Run unmounts.
func (u Unmount) Run(ctx context.Context) (Result, error) {
	return mustExit(Exec{Argv: []string{"umount", u.Dir}, Seconds: u.Seconds}.Run(ctx))
}

// Module loads the kernel module of that Name, with those it needs, from the
// module tree Dir; or removes it alone.
type Module struct {
	Dir    string `json:"dir"`
	Name   string `json:"name"`
	Remove bool   `json:"remove,omitempty"`
}

// Run loads or removes. A module that is there already is fine.
func (m Module) Run(ctx context.Context) (Result, error) {
	if m.Remove {
		if err := unix.DeleteModule(m.Name, unix.O_NONBLOCK); err != nil && !errors.Is(err, syscall.ENOENT) {
			return Result{}, fmt.Errorf("remove module %s: %w", m.Name, err)
		}
		return Result{}, nil
	}
	deps, err := os.ReadFile(filepath.Join(m.Dir, "modules.dep"))
	if err != nil {
		return Result{}, err
	}
	for _, line := range strings.Split(string(deps), "\n") {
		file, needs, _ := strings.Cut(line, ":")
		if moduleName(file) != m.Name {
			continue
		}
		chain := append(strings.Fields(needs), "") // modules.dep lists the nearest first
		for i := len(chain) - 2; i >= 0; i-- {
			if err := m.load(chain[i]); err != nil {
				return Result{}, err
			}
		}
		return Result{}, m.load(file)
	}
	return Result{}, fmt.Errorf("no module %s in %s", m.Name, m.Dir)
}

// moduleName turns a module's file into its name.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// load hands one file to the kernel, which unpacks a compressed one itself.
func (m Module) load(file string) error {
	f, err := os.Open(filepath.Join(m.Dir, file))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	flags := 0
	if !strings.HasSuffix(file, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && !errors.Is(err, syscall.EEXIST) {
		return fmt.Errorf("load module %s: %w", file, err)
	}
	return nil
}

// DropCaches empties the guest's page, name and inode caches, once what is
// dirty has been written.
type DropCaches struct{}

// Run syncs and drops.
func (DropCaches) Run(ctx context.Context) (Result, error) {
	unix.Sync()
	return Result{}, os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
}

// ReadFile returns the contents of Path (up to 1 MiB) as Result.Text. "dmesg"
// is the kernel's log.
type ReadFile struct {
	Path string `json:"path"`
}

// Run reads.
func (r ReadFile) Run(ctx context.Context) (Result, error) {
	const most = 1 << 20
	b := make([]byte, most)
	if r.Path == "dmesg" {
		const readAll = 3 // SYSLOG_ACTION_READ_ALL
		n, err := unix.Klogctl(readAll, b)
		return Result{Text: string(b[:max(n, 0)])}, err
	}
	b, err := os.ReadFile(r.Path)
	return Result{Text: string(b[:min(len(b), most)])}, err
}

// PowerOff ends the guest at once. It has no reply.
type PowerOff struct{}

// Run never returns but with an error.
func (PowerOff) Run(ctx context.Context) (Result, error) {
	unix.Sync()
	return Result{}, unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}
