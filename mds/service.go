package mds

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"manifold/layout"
	"manifold/mds/ns"
	"manifold/mds/op"
	"manifold/mds/store"
	"manifold/xdr/nfs4"
)

// volumeID is the one volume there is.
const volumeID = 1

// service is what the store holds of the service as a whole.
type service struct {
	rec    ns.ServiceRecord
	keys   *layout.Keyring
	volume *ns.Volume
	record map[string]bool            // clients, see op.LoadRecords
	old    map[string][]nfs4.ClientID // their client ids
	lease  time.Duration              // that of the start before this one, 0 if there was none
}

// start reads the service from the store, makes it at the first start, and
// counts the start: the number is in client ids and stateids, so that those of
// an earlier start are told apart. lease is what clients will be told.
func start(ctx context.Context, st store.Store, now time.Time, lease time.Duration) (service, error) {
	var fresh struct {
		cluster [16]byte
		key     layout.Key
		hash    [32]byte
	}
	rand.Read(fresh.cluster[:])
	rand.Read(fresh.key.Secret[:])
	rand.Read(fresh.hash[:])
	var s service
	var c ns.Cluster
	err := st.Update(ctx, func(tx store.Tx) (err error) {
		s.rec, err = c.Service(tx)
		if errors.Is(err, nfs4.ErrNoEnt) {
			s.rec = ns.ServiceRecord{ClusterID: fresh.cluster}
			if err = makeService(tx, c, now, fresh.key, fresh.hash); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		s.lease = time.Duration(s.rec.Lease) * time.Second
		s.rec.Lease = uint32(lease / time.Second)
		s.rec.Boots++
		if err = c.PutService(tx, s.rec); err != nil {
			return err
		}
		raw, err := c.Keyring(tx)
		if err != nil {
			return err
		}
		if s.keys, err = layout.ParseKeyring(raw); err != nil {
			return err
		}
		if s.volume, err = ns.Open(tx, volumeID); err != nil {
			return err
		}
		s.record, s.old, err = op.LoadRecords(tx, c)
		return err
	})
	if err != nil {
		return s, fmt.Errorf("metadata store: %w", err)
	}
	return s, nil
}

// makeService writes what a new service begins with.
func makeService(tx store.Tx, c ns.Cluster, now time.Time, key layout.Key, hash [32]byte) error {
	keys, err := layout.NewKeyring(key.ID, key)
	if err != nil {
		return err
	}
	raw, err := keys.MarshalBinary()
	if err != nil {
		return err
	}
	if err := c.PutKeyring(tx, raw); err != nil {
		return err
	}
	_, err = ns.Format(tx, now, volumeID, nfs4.FSID{Major: volumeID}, hash)
	return err
}

// TokenFile is the join token's file below a data folder.
const TokenFile = "join.token"

func tokenPath(data string) string { return filepath.Join(data, TokenFile) }

// loadToken returns the join token in a data folder, and makes it first if it
// is not there.
func loadToken(data string) (string, error) {
	path := tokenPath(data)
	b, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	var secret [24]byte
	rand.Read(secret[:])
	token := hex.EncodeToString(secret[:])
	return token, writeToken(path, token)
}

// writeToken makes the file whole or not at all: an empty one would keep the
// server from starting.
func writeToken(path, token string) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(token+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
