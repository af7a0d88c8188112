// Package guest boots a user-mode Linux kernel as an ordinary process and
// talks to the agent inside it.
//
// Its nouns: Options say what to boot; Config is the part of them that the
// agent reads; a Guest is a booted kernel; a Job is one request to its agent
// that goes on while others are made. A guest has a network device on a tap,
// the host's file tree under a layer of its own that takes its writes, and the
// host's folders it shares as they are. It takes three seconds to boot, so a
// test boots it once and asks it many things.
package guest

import (
	"encoding/json"
	"fmt"
	"os"
)

// ConfigVariable names the environment variable by which the agent, as the
// guest's init, learns where its Config is.
const ConfigVariable = "MANIFOLD_GUEST"

// Config is what the agent in a guest needs to know.
type Config struct {
	Name       string   `json:"name"`        // host name: an NFS server knows the client by it
	Address    string   `json:"address"`     // of the network device, with prefix length
	Harness    string   `json:"harness"`     // host:port on which the harness waits for the agent
	ModuleTree string   `json:"module_tree"` // folder with modules.dep
	Modules    []string `json:"modules"`     // to load at boot, besides overlay
	Shared     []string `json:"shared"`      // folders of the host's that the guest may write
}

// ReadConfig reads a Config that Boot wrote.
func ReadConfig(path string) (Config, error) {
	var cfg Config
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &cfg)
	}
	if err != nil {
		err = fmt.Errorf("guest configuration %q: %w", path, err)
	}
	return cfg, err
}

// write stores the configuration for ReadConfig.
func (c Config) write(path string) error {
	b, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(path, b, 0o644)
	}
	return err
}
