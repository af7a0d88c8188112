package storetest_test

import (
	"testing"

	"manifold/mds/store"
	"manifold/mds/store/storetest"
)

func TestMem(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() (store.Store, error) {
		m := new(storetest.Mem)
		return func() (store.Store, error) { return m.Open(), nil }
	})
}
