package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"manifold/cmd/internal/boot"
	"manifold/mds"
	"manifold/mds/store"
	"manifold/mds/store/bolt"
	"manifold/mds/store/etcd"
)

// storeSummary is what dump, restore and migrate print.
type storeSummary struct {
	Records uint64 `json:"records"`
	Bytes   uint64 `json:"bytes"`
	Hash    string `json:"sha256"` // of all records
}

// storePlace names a metadata store that no server uses.
type storePlace struct {
	etcdFlags
	data string
}

func (p *storePlace) register(cmd *cobra.Command) {
	p.etcdFlags.register(cmd.Flags())
	cmd.Flags().StringVar(&p.data, "data", "", "`DIR` of the metadata server")
}

// open opens the store in etcd, if that is given, else the file in the folder.
func (p *storePlace) open(ctx context.Context, create bool) (store.Store, error) {
	if p.data == "" {
		return nil, boot.Usage("--data is needed")
	}
	if create {
		if err := os.MkdirAll(p.data, 0o700); err != nil {
			return nil, err
		}
	}
	cfg := mds.Config{Data: p.data}
	if err := p.finish(&cfg); err != nil {
		return nil, err
	}
	if cfg.Etcd != nil {
		return openEtcd(ctx, *cfg.Etcd, p.data)
	}
	path := filepath.Join(p.data, mds.StoreFile)
	if _, err := os.Stat(path); err != nil && !create {
		return nil, err
	}
	s, err := bolt.Open(path, bolt.Config{})
	if errors.Is(err, store.ErrInUse) {
		err = fmt.Errorf("%w: stop the metadata server first", err)
	}
	return s, err
}

// leadStore is the store in etcd, for as long as it is led from here.
type leadStore struct {
	store.Store
	lead   *etcd.Lead
	member *etcd.Member
}

// Close lets metadata servers lead again.
func (s leadStore) Close() error { return errors.Join(s.lead.Close(), s.member.Close()) }

// leadTime is how long to wait for the lead: longer than it outlives a metadata
// server that was just stopped.
const leadTime = 10 * time.Second

func openEtcd(ctx context.Context, cfg etcd.Config, data string) (store.Store, error) {
	cfg.ID += " (ctl store)"
	cfg.Replica = filepath.Join(data, mds.ReplicaFile)
	m, err := etcd.Open(cfg)
	if err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, leadTime)
	defer cancel()
	l, err := m.Lead(soon)
	if err != nil {
		if h := m.Status().Holder; h.ID != "" {
			err = fmt.Errorf("metadata server %s leads: stop all of them first: %w", h.ID, err)
		} else if why := m.Status().Trouble; why != "" {
			err = fmt.Errorf("etcd: %s: %w", why, err)
		}
		return nil, errors.Join(err, m.Close())
	}
	return leadStore{l.Store(), l, m}, nil
}

func (c *ctl) storeCommand() *cobra.Command {
	return group("store", "Save, restore and move the metadata of stopped metadata servers",
		c.dumpCommand(), c.restoreCommand(), c.migrateCommand())
}

func (c *ctl) dumpCommand() *cobra.Command {
	var p storePlace
	cmd := &cobra.Command{
		Use: "dump FILE", Short: "Save all metadata to a file", Args: needs("FILE", nil),
		Long: `Save all metadata to a new file, with a checksum. The metadata servers must be
stopped. The store is the file in --data, or etcd if --etcd is given. The dump holds
the cluster's keys: keep it as you keep the store.`,
	}
	p.register(cmd)
	cmd.RunE = c.offline(func(ctx context.Context, args []string) (sum store.Summary, err error) {
		s, err := p.open(ctx, false)
		if err != nil {
			return sum, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		out, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return sum, err
		}
		sum, err = store.Dump(ctx, s, out)
		if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
			return sum, errors.Join(err, os.Remove(args[0]))
		}
		return sum, nil
	})
	return cmd
}

func (c *ctl) restoreCommand() *cobra.Command {
	var p storePlace
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Restore all metadata from a dump", Args: needs("FILE", nil),
		Long: `Restore all metadata from a dump into an empty store: a new file in --data, or
etcd if --etcd is given. The dump is checked before, and the store after.`,
	}
	p.register(cmd)
	cmd.RunE = c.offline(func(ctx context.Context, args []string) (sum store.Summary, err error) {
		in, err := os.Open(args[0])
		if err != nil {
			return sum, err
		}
		defer func() { _ = in.Close() }() // only read
		if sum, err = store.CheckDump(in); err != nil {
			return sum, err
		}
		if _, err = in.Seek(0, io.SeekStart); err != nil {
			return sum, err
		}
		s, err := p.open(ctx, true)
		if err != nil {
			return sum, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return store.Restore(ctx, s, in)
	})
	return cmd
}

func (c *ctl) migrateCommand() *cobra.Command {
	var p storePlace
	cmd := &cobra.Command{
		Use: "migrate", Short: "Copy the metadata of a single metadata server to etcd", Args: cobra.NoArgs,
		Long: `Copy the metadata in the folder of a stopped metadata server to an empty --etcd
and compare the number of records and the hash of all of them. The file in the
folder stays as it was: a metadata server that is started without --etcd uses it
still, which must not happen once one has been started with it.`,
	}
	p.register(cmd)
	cmd.RunE = c.offline(func(ctx context.Context, _ []string) (sum store.Summary, err error) {
		if len(p.cfg.Endpoints) == 0 {
			return sum, boot.Usage("--etcd is needed")
		}
		from := storePlace{data: p.data}
		src, err := from.open(ctx, false)
		if err != nil {
			return sum, err
		}
		defer func() { err = errors.Join(err, src.Close()) }()
		dst, err := p.open(ctx, false)
		if err != nil {
			return sum, err
		}
		defer func() { err = errors.Join(err, dst.Close()) }()
		return store.Copy(ctx, dst, src)
	})
	return cmd
}

// offline makes a RunE of work on a store. Leading has the time of --timeout.
func (c *ctl) offline(work func(ctx context.Context, args []string) (store.Summary, error)) func(*cobra.Command, []string) error {
	return action(func(cmd *cobra.Command, args []string) error {
		if err := c.check(); err != nil {
			return err
		}
		ctx := boot.Signals(context.Background())
		sum, err := work(ctx, args)
		if err != nil {
			return err
		}
		s := storeSummary{sum.Records, sum.Bytes, hex.EncodeToString(sum.Hash[:])}
		return c.print(cmd, s, func(t *table) {
			t.row("records", s.Records)
			t.row("bytes", bytesText(s.Bytes))
			t.row("sha256", s.Hash)
		})
	})
}
