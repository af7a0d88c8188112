package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"manifold/cmd/internal/boot"
	"manifold/mds"
	"manifold/mds/address"
	"manifold/mds/store/etcd"
)

// etcdFlags are those of a metadata server that is one of several.
type etcdFlags struct {
	cfg          etcd.Config
	passwordFile string
	address      string
	hook         string
}

func (f *etcdFlags) register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.cfg.Endpoints, "etcd", nil, "`URL` of an etcd member that keeps the metadata, as http://HOST:2379; of each, for the days when one is down (default: a file in --data)")
	fs.StringVar(&f.cfg.ID, "id", "", "`NAME` of this metadata server among those on one etcd (default: the host's)")
	fs.StringVar(&f.cfg.Prefix, "etcd-prefix", "manifold/", "`PREFIX` of all keys, one a cluster")
	fs.StringVar(&f.cfg.CA, "etcd-ca", "", "`FILE` with the certificates of who signed etcd's (default: the system's)")
	fs.StringVar(&f.cfg.Cert, "etcd-cert", "", "`FILE` with the certificate that is shown to etcd")
	fs.StringVar(&f.cfg.Key, "etcd-key", "", "`FILE` with its key")
	fs.StringVar(&f.cfg.User, "etcd-user", "", "`NAME` to log in to etcd with")
	fs.StringVar(&f.passwordFile, "etcd-password-file", "", "`FILE` with its password")
	fs.DurationVar(&f.cfg.Lease, "etcd-lease", 2*time.Second, "how long the lead outlives a metadata server that is gone, in whole seconds; etcd grants 2s at least")
	fs.IntVar(&f.cfg.MaxOps, "etcd-max-txn-ops", 128, "operations in one transaction, at most etcd's --max-txn-ops")
	fs.StringVar(&f.address, "service-address", "", "`ADDRESS/LENGTH@DEVICE` that the metadata server which leads takes, as 10.0.0.5/24@eth0: clients mount from it")
	fs.StringVar(&f.hook, "service-hook", "", "`PROGRAM` to run with take or drop as its argument when the service address comes or goes")
}

// finish puts what was given into cfg.
func (f *etcdFlags) finish(cfg *mds.Config) (err error) {
	if f.address != "" {
		if cfg.Address, err = address.Parse(f.address); err != nil {
			return boot.Usage("--service-address: %v", err)
		}
	}
	cfg.Address.Hook = f.hook
	if len(f.cfg.Endpoints) == 0 {
		return nil // cfg's own check says so if there is a service address
	}
	if f.passwordFile != "" {
		b, err := os.ReadFile(f.passwordFile)
		if err != nil {
			return fmt.Errorf("--etcd-password-file: %w", err)
		}
		f.cfg.Password = strings.TrimSpace(string(b))
	}
	if f.cfg.ID == "" {
		if f.cfg.ID, err = os.Hostname(); err != nil {
			return fmt.Errorf("--id: %w", err)
		}
	}
	f.cfg.Address = cfg.Listen
	cfg.Etcd = &f.cfg
	return nil
}
