package etcd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"go.uber.org/zap"

	"manifold/mds/store"
	"manifold/mds/store/bolt"
)

// replica is the record's map as of some revision, in a file that is not
// flushed. It has one writer: the follower, or the Lead.
type replica struct {
	*bolt.Backend
	path string
	at   position
}

// position says what a replica shows. The zero position is that of one that
// has to be loaded.
type position struct {
	cluster  uint64 // etcd's
	revision int64
}

const noteSize = 16

func (p position) note() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, noteSize), p.cluster)
	return binary.BigEndian.AppendUint64(b, uint64(p.revision))
}

// mark is the file that tells under which start of the machine the replica was
// written, or that it was flushed.
func mark(path string) string { return path + ".start" }

const flushed = "flushed"

// machineStart is different after each start of the machine.
func machineStart() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

// openReplica opens the file at path, or makes it anew if a stop of the machine
// may have spoilt it.
func openReplica(path string, log *zap.Logger) (*replica, error) {
	was, err := os.ReadFile(mark(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	start := machineStart()
	if s := string(was); s != flushed && (s != start || s == "unknown") {
		if s != "" {
			log.Info("the machine stopped while the replica was open: it is made anew")
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	// Flushed before the file is written: bolt's own opening syncs nothing here.
	if err := writeMark(path, start); err != nil {
		return nil, err
	}
	b, err := bolt.OpenBackend(path, bolt.Config{Volatile: true})
	if err != nil {
		return nil, err
	}
	r := &replica{Backend: b, path: path}
	note, err := b.Note()
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if len(note) == noteSize {
		r.at = position{binary.BigEndian.Uint64(note), int64(binary.BigEndian.Uint64(note[8:]))}
	}
	return r, nil
}

func writeMark(path, s string) error {
	f, err := os.OpenFile(mark(path), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(s)
	return errors.Join(err, f.Sync(), f.Close())
}

// apply writes batch, whose keys ascend, and moves the replica to p.
func (r *replica) apply(batch []store.Write, p position) error {
	if err := r.CommitNote(batch, p.note()); err != nil {
		return fmt.Errorf("replica %s: %w", r.path, err)
	}
	r.at = p
	return nil
}

func (r *replica) close() error {
	err := r.Sync()
	if err = errors.Join(err, r.Backend.Close()); err != nil {
		return err
	}
	return writeMark(r.path, flushed)
}
