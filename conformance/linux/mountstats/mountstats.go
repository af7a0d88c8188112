// Package mountstats reads /proc/self/mountstats of a Linux NFS client.
//
// Its nouns: a Mount is one mounted file system with what it was granted; Op is
// the counters of one NFS operation. The numbers that matter to a parallel
// server are derived: how many reads and writes went to a data server, and how
// many fell back to the metadata server, which the file itself does not say.
package mountstats

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
)

// Places of the two counters within an events line: the number of reads and
// writes that the client handed to a data server. Kernels before pNFS have
// shorter lines.
const (
	eventPNFSRead  = 25
	eventPNFSWrite = 26
)

// Mount is one mount of an NFS client. Its counters start with the mount.
type Mount struct {
	Device string           // server:/path
	Dir    string           // where it is mounted
	Type   string           // nfs4
	Opts   string           // mount options as granted
	PNFS   string           // the layout driver, such as LAYOUT_NFSV4_1_FILES, or "not configured"
	Events []uint64         // the events line
	Ops    map[string]OpRow // by operation: READ, LAYOUTGET
}

// OpRow is the counters of one operation.
type OpRow struct {
	Count  uint64 // requests
	Sends  uint64 // transmissions; more than Count if some were sent again
	Errors uint64 // requests that ended in an error (kernels from 5.5 on)
}

// PNFSReads returns the number of reads that were handed to data servers.
func (m Mount) PNFSReads() uint64 { return m.event(eventPNFSRead) }

// PNFSWrites returns the number of writes that were handed to data servers.
func (m Mount) PNFSWrites() uint64 { return m.event(eventPNFSWrite) }

// FallbackReads returns the number of READs that went to the metadata server:
// the operation's row counts those to data servers as well. It is negative if a
// read was handed to a data server and never sent.
func (m Mount) FallbackReads() int64 { return int64(m.Ops["READ"].Count) - int64(m.PNFSReads()) }

// FallbackWrites returns the number of WRITEs that went to the metadata server.
func (m Mount) FallbackWrites() int64 { return int64(m.Ops["WRITE"].Count) - int64(m.PNFSWrites()) }

func (m Mount) event(i int) uint64 {
	if i >= len(m.Events) {
		return 0
	}
	return m.Events[i]
}

// Parse reads a whole mountstats file and returns its NFS mounts in order.
func Parse(text string) ([]Mount, error) {
	var mounts []Mount
	var m *Mount // the mount whose lines these are, nil within one that is not NFS
	inOps := false
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "device ") {
			m, inOps = nil, false
			if head, ok := parseDevice(line); ok {
				mounts = append(mounts, head)
				m = &mounts[len(mounts)-1]
			}
			continue
		}
		if m == nil || line == "" {
			continue
		}
		key, rest, _ := strings.Cut(line, ":")
		rest = strings.TrimSpace(rest)
		if key == "per-op statistics" {
			inOps = true
			continue
		}
		if err := m.take(key, rest, inOps); err != nil {
			return nil, fmt.Errorf("mountstats of %s: line %q: %w", m.Dir, line, err)
		}
	}
	return mounts, lines.Err()
}

// parseDevice reads "device X mounted on Y with fstype nfs4 statvers=1.1".
func parseDevice(line string) (Mount, bool) {
	f := strings.Fields(line)
	if len(f) < 8 || !strings.HasPrefix(f[7], "nfs") {
		return Mount{}, false
	}
	return Mount{Device: f[1], Dir: f[4], Type: f[7], Ops: map[string]OpRow{}}, true
}

// take reads one line of a mount.
func (m *Mount) take(key, rest string, inOps bool) error {
	switch {
	case key == "opts":
		m.Opts = rest
	case key == "nfsv4":
		for _, item := range strings.Split(rest, ",") {
			if v, ok := strings.CutPrefix(item, "pnfs="); ok {
				m.PNFS = v
			}
		}
	case key == "events":
		events, err := numbers(rest)
		m.Events = events
		return err
	case inOps:
		n, err := numbers(rest)
		if err != nil {
			return err
		}
		if len(n) < 8 {
			return fmt.Errorf("%d counters, want 8 or more", len(n))
		}
		row := OpRow{Count: n[0], Sends: n[1]}
		if len(n) > 8 {
			row.Errors = n[8]
		}
		m.Ops[key] = row
	}
	return nil
}

func numbers(s string) ([]uint64, error) {
	var out []uint64
	for _, f := range strings.Fields(s) {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}
