// Command agent is what a guest of the kernel-client harness runs as its init.
//
// It makes the guest a machine (an overlay over the host's file tree, which the
// guest may not change; device and network set-up; modules), then serves the
// harness's requests, one line of JSON each, on a connection to it. It is
// one static program because a fork and exec costs 20 ms in the guest.
//
// Its environment has MANIFOLD_GUEST, the path of a guest.Config in JSON.
package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"manifold/conformance/linux/guest"
)

func main() {
	err := run()
	// Whatever happened, init must not return: the kernel would panic before
	// the console has shown why.
	fmt.Println("agent:", err)
	time.Sleep(time.Second)
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("agent: power off:", err)
	}
	select {}
}

func run() error {
	if err := os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"); err != nil {
		return err
	}
	cfg, err := guest.ReadConfig(os.Getenv(guest.ConfigVariable))
	if err != nil {
		return err
	}
	if err := setUp(cfg); err != nil {
		return err
	}
	return serve(cfg.Harness)
}
