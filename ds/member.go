package ds

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"manifold/ds/store/osfs"
	"manifold/layout"
)

const (
	memberName = "member"
	startsName = "starts"
)

// member is the cluster that the data folder belongs to and its number in it;
// the zero member belongs to none yet.
type member struct {
	cluster [16]byte
	ds      layout.DSID
}

// loadMember reads the membership from dir.
func loadMember(dir string) (m member, err error) {
	path := filepath.Join(dir, memberName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return member{}, nil
	}
	if err != nil {
		return member{}, fmt.Errorf("ds: %w", err)
	}
	var cluster string
	if _, err := fmt.Sscanf(string(b), "cluster %s ds %d\n", &cluster, &m.ds); err != nil || len(cluster) != 32 {
		return member{}, fmt.Errorf("ds: %s is damaged", path)
	}
	if _, err := hex.Decode(m.cluster[:], []byte(cluster)); err != nil {
		return member{}, fmt.Errorf("ds: %s is damaged: %w", path, err)
	}
	return m, nil
}

// keep makes m durable.
func (m member) keep(dir string) error {
	return osfs.WriteFile(dir, memberName, fmt.Appendf(nil, "cluster %x ds %d\n", m.cluster, m.ds))
}

// nextStart counts the starts on dir and returns this one's number, from 1. It
// makes client ids of this start unlike those of all before (RFC 8881 section 2.4).
func nextStart(dir string) (uint32, error) {
	path := filepath.Join(dir, startsName)
	b, err := os.ReadFile(path)
	var n uint64
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, fmt.Errorf("ds: %w", err)
	default:
		if n, err = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32); err != nil {
			return 0, fmt.Errorf("ds: %s is damaged: %w", path, err)
		}
	}
	next := uint32(n) + 1
	if err := osfs.WriteFile(dir, startsName, fmt.Appendf(nil, "%d\n", next)); err != nil {
		return 0, fmt.Errorf("ds: %w", err)
	}
	return next, nil
}
