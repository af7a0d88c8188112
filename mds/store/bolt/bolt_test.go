package bolt

import (
	"path/filepath"
	"testing"

	"manifold/mds/store"
	"manifold/mds/store/storetest"
)

func TestSuite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() (store.Store, error) {
		path := filepath.Join(t.TempDir(), "meta.db")
		return func() (store.Store, error) { return Open(path, Config{}) }
	})
}
