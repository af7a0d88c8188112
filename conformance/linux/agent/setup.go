package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"manifold/conformance/linux/guest"
	"manifold/conformance/linux/work"
)

// setUp turns the bare kernel with its read-only root into a machine.
func setUp(cfg guest.Config) error {
	if err := overlayRoot(cfg); err != nil {
		return err
	}
	for _, dir := range cfg.Shared {
		if err := mountAt(dir, "hostfs", 0, dir); err != nil {
			return err
		}
	}
	if err := unix.Sethostname([]byte(cfg.Name)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	for _, name := range cfg.Modules {
		if _, err := (work.Module{Dir: cfg.ModuleTree, Name: name}).Run(context.Background()); err != nil {
			return err
		}
	}
	return network(cfg)
}

// overlayRoot makes the host's tree, under a layer that takes the guest's
// writes and is forgotten, the root.
func overlayRoot(cfg guest.Config) error {
	if err := mountAt("/mnt", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	if _, err := (work.Module{Dir: cfg.ModuleTree, Name: "overlay"}).Run(context.Background()); err != nil {
		fmt.Println("agent:", err, "(it may be built in)")
	}
	for _, d := range []string{"up", "work", "root"} {
		if err := os.Mkdir("/mnt/"+d, 0o755); err != nil {
			return err
		}
	}
	if err := mountAt("/mnt/root", "overlay", 0, "lowerdir=/,upperdir=/mnt/up,workdir=/mnt/work"); err != nil {
		return err
	}
	if err := unix.Chroot("/mnt/root"); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	mounts := []struct{ dir, fstype, data string }{
		{"/proc", "proc", ""}, {"/sys", "sysfs", ""}, {"/dev", "devtmpfs", ""}, {"/dev/pts", "devpts", "ptmxmode=666"},
		{"/dev/shm", "tmpfs", "mode=1777"}, {"/run", "tmpfs", "mode=755"}, {"/mnt", "tmpfs", "mode=755"}, {"/tmp", "tmpfs", "mode=1777"},
	}
	for _, m := range mounts {
		if err := mountAt(m.dir, m.fstype, 0, m.data); err != nil {
			return err
		}
	}
	links := map[string]string{"/dev/fd": "/proc/self/fd", "/dev/stdin": "fd/0", "/dev/stdout": "fd/1", "/dev/stderr": "fd/2"}
	for name, target := range links {
		if err := os.Symlink(target, name); err != nil && !os.IsExist(err) {
			return err
		}
	}
	_ = os.Remove("/etc/mtab") // mount(8) reads it if it is a file of the host's
	return os.Symlink("/proc/self/mounts", "/etc/mtab")
}

func mountAt(dir, fstype string, flags uintptr, data string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("none", dir, fstype, flags, data); err != nil {
		return fmt.Errorf("mount %s (%s) at %s: %w", fstype, data, dir, err)
	}
	return nil
}

// network brings up the loopback and the one network device.
func network(cfg guest.Config) error {
	if err := up("lo"); err != nil {
		return err
	}
	devices, err := filepath.Glob("/sys/class/net/vec*")
	if err != nil || len(devices) == 0 {
		return fmt.Errorf("no network device: %w", os.ErrNotExist)
	}
	dev := filepath.Base(devices[0])
	ip, network, err := net.ParseCIDR(cfg.Address)
	if err != nil {
		return err
	}
	if err := setAddress(dev, unix.SIOCSIFADDR, ip); err != nil {
		return err
	}
	if err := setAddress(dev, unix.SIOCSIFNETMASK, net.IP(network.Mask)); err != nil {
		return err
	}
	return up(dev)
}

// up sets the device's flags to up and running.
func up(dev string) error {
	return withDevice(dev, func(fd int, ifr *unix.Ifreq) error {
		ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
	})
}

// setAddress gives the device an IPv4 address or mask.
func setAddress(dev string, request uint, ip net.IP) error {
	return withDevice(dev, func(fd int, ifr *unix.Ifreq) error {
		if err := ifr.SetInet4Addr(ip.To4()); err != nil {
			return err
		}
		return unix.IoctlIfreq(fd, request, ifr)
	})
}

func withDevice(dev string, do func(fd int, ifr *unix.Ifreq) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	ifr, err := unix.NewIfreq(dev)
	if err == nil {
		err = do(fd, ifr)
	}
	if err != nil {
		return fmt.Errorf("device %s: %w", dev, err)
	}
	return nil
}
