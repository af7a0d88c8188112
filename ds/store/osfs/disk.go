package osfs

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// diskOf names the file system that path lies on, among all machines: the
// running kernel's boot id and the device number. Containers of one host share
// both, as they share the disk. "" if it cannot be told.
func diskOf(path string) string {
	var st unix.Stat_t
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || unix.Stat(path, &st) != nil {
		return ""
	}
	return fmt.Sprintf("%s/%x", strings.TrimSpace(string(boot)), st.Dev)
}
