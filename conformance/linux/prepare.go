package linux

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"manifold/conformance/linux/kernel"
)

// Prepare installs, through apt-get, the programs of the given packages that
// are missing (program name to package name), and brings every kernel into the
// cache. It must run outside the isolation, which reaches no mirror.
func Prepare(ctx context.Context, programs map[string]string, suites []string) error {
	var missing []string
	for program, pkg := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	if len(missing) > 0 {
		if err := aptInstall(ctx, missing); err != nil {
			return err
		}
	}
	for _, suite := range suites {
		if _, err := kernel.Install(ctx, suite); err != nil {
			return err
		}
	}
	return nil
}

// aptInstall installs packages; the lists are fetched first, for a machine may
// have none.
func aptInstall(ctx context.Context, packages []string) error {
	for _, args := range [][]string{{"update", "-qq"}, append([]string{"install", "-qq", "-y", "--no-install-recommends"}, packages...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// Build compiles a command of this module, statically, to the file out.
func Build(ctx context.Context, out, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w: %s", pkg, err, strings.TrimSpace(string(text)))
	}
	return nil
}
